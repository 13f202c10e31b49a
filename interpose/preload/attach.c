/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* pthread_mutex_timedlock */
#include "interpose/preload/attach.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/preload/attach_shared.h"
#include "interpose/preload/contexts.h"
#include "interpose/preload/link.h"
#include "interpose/preload/resolve.h"
#include "runtime/host/clock.h"
#include "runtime/host/copy.h"
#include "runtime/host/env.h"
#include "runtime/host/heap.h"
#include "runtime/host/inspect.h"
#include "runtime/host/report.h"
#include "runtime/host/say.h"

static bool finished; /* exit has reached our destructor: print no more messages */
__thread bool mm_attach_is_inside;

static void in_child(void) {
    mm_contexts_in_child();
    mm_attach_is_inside = false;
    mm_kernel_cache_current = NULL; /* so that the next launch enters libmm, which reports the fork */
    mm_grower_forked();
}

void mm_attach_look_back(struct mm_host_heap *heap, bool is_certain) {
    const struct mm_driver *d = mm_driver_get();
    if (d && is_certain) mm_report_sum_up(d, heap);
    if (d) mm_inspect_take(d, heap);
}

/* Runs before the driver is torn down: our threads must not be in the driver then. */
static void at_process_exit(void) {
    if (mm_forked) return;
    const struct timespec t = mm_host_in_ms(CLOCK_REALTIME, 1000);
    if (pthread_mutex_timedlock(&mm_contexts_lock, &t) != 0) return; /* the lock's holder called exit, or never returns */
    for (struct context *c = mm_contexts; c; c = c->next)
        for (unsigned i = 0; i < c->heap_count; i++) {
            mm_attach_look_back(c->heaps[i], true);
            mm_host_heap_try_stop(c->heaps[i]);
            mm_inspect_write(c->heaps[i]);
        }
    pthread_mutex_unlock(&mm_contexts_lock);
}

static void watch_process(void) {
    static bool watching;
    if (!watching) watching = pthread_atfork(NULL, NULL, in_child) == 0 && atexit(at_process_exit) == 0;
}

/* The context's heap with this allocator, or NULL. */
static struct mm_host_heap *heap_of(const struct context *c, const char *sibling) {
    for (unsigned i = 0; i < c->heap_count; i++)
        if (mm_host_heap_sibling(c->heaps[i]) == sibling) return c->heaps[i];
    return NULL;
}

/* Creates the heap with this allocator. `current` is c, or a green context whose home is c. NULL: no memory for the record. */
static struct mm_host_heap *make_heap(const struct mm_driver *d, struct context *c, CUcontext current, const char *sibling) {
    struct mm_driver_visit visit;
    watch_process();
    if (current != c->handle && !mm_driver_try_enter(d, c->handle, &visit)) return NULL;
    size_t limit_bytes = 0;
    if (c->limit_is_set) limit_bytes = c->limit_bytes;
    else if (d->cuCtxGetLimit(&limit_bytes, CU_LIMIT_MALLOC_HEAP_SIZE) != CUDA_SUCCESS) limit_bytes = 0;
    struct mm_host_heap *const heap = c->prepared && !sibling ? c->prepared : mm_host_heap_new(); /* it was prepared for the default */
    if (heap == c->prepared) c->prepared = NULL;
    if (heap) mm_host_heap_create(d, heap, limit_bytes, sibling), c->heaps[c->heap_count++] = heap;
    if (heap && (mm_host_heap_kernels(heap) || mm_inspect_wants_launches() || mm_host_env_get()->fail_kernel))
        __atomic_store_n(&mm_attach_is_watching, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; heap && i < c->peer_count; i++) mm_host_heap_access(d, heap, c->peers[i], true);
    if (current != c->handle) mm_driver_leave(d, &visit);
    return heap;
}

static bool loaded_for_all; /* code that allocates was loaded while no context was current: it may run in any context */

/* Prepares a heap of the default allocator for the current context if it has none, unless the run asks for another allocator. The thread's capture mode is
 * relaxed. */
static void prepare(const struct mm_driver *d, CUcontext current) {
    pthread_mutex_lock(&mm_contexts_lock);
    struct context *c = mm_context_home(d, current, true);
    const bool is_due =
        c && c->handle == current && !heap_of(c, NULL) && !c->prepared && !mm_host_env_get()->sibling; /* a green context's home is not current */
    struct mm_host_heap *prepared = is_due ? mm_host_heap_new() : NULL;
    if (prepared) watch_process();
    if (prepared && mm_host_heap_try_prepare(d, prepared)) c->prepared = prepared;
    else free(prepared);
    pthread_mutex_unlock(&mm_contexts_lock);
}

void mm_attach_prepare(const struct mm_driver *d) {
    CUcontext current = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!d || mm_attach_is_inside || mm_forked || d->cuCtxGetCurrent(&current) != CUDA_SUCCESS) return;
    if (!current) __atomic_store_n(&loaded_for_all, true, __ATOMIC_RELAXED);
    if (!current || d->cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS) return;
    mm_attach_is_inside = true;
    prepare(d, current);
    mm_attach_is_inside = false;
    d->cuThreadExchangeStreamCaptureMode(&mode);
}

/* ---- modules --------------------------------------------------------------------------------- */

enum answer { ANSWER_NO, ANSWER_YES, ANSWER_FAILED };

/* The allocators that an image can have: their names, and those of their heap variables, and what these end with. The first one is the default. */
#define ALLOCATOR(name, suffix) {name, MM_HEAP_REF_NAME_OF(suffix), suffix},
static const struct { const char *name, *variable, *suffix; } allocators[] = {MM_ALLOCATORS(ALLOCATOR)};
#define ALLOCATORS (sizeof allocators / sizeof *allocators)

struct variable {
    CUdeviceptr address;
    size_t bytes;
    const char *sibling; /* name of the image's allocator; NULL: the default */
};

static enum answer answer_of(CUresult code, const char *call, struct mm_driver_error *error) {
    if (code == CUDA_ERROR_NOT_FOUND) return ANSWER_NO;
    return mm_driver_succeeded(error, call, code) ? ANSWER_YES : ANSWER_FAILED;
}

/* Modules without a heap variable, of any allocator, are marked in this context by an entry of the kernel cache: an odd address, which no kernel has. It is
 * removed like those of kernels. */
static const void *mark_of(const void *owner) { return (const char *)owner + 1; }

static bool is_marked(const void *owner, CUcontext context) {
    pthread_mutex_lock(&mm_contexts_lock);
    const bool is = mm_kernel_cache_has(mark_of(owner), context);
    pthread_mutex_unlock(&mm_contexts_lock);
    return is;
}

static void mark(const void *owner, CUcontext context) {
    pthread_mutex_lock(&mm_contexts_lock);
    if (!mm_kernel_cache_has(mark_of(owner), context)) mm_kernel_cache_insert(mark_of(owner), context, owner);
    pthread_mutex_unlock(&mm_contexts_lock);
}

/* Reports a module of another version of mm, whose heap variable has another name, once. `get` looks up a name in the module. */
static void tell_others(const void *owner, CUresult (*get)(CUdeviceptr *, size_t *, const void *, const char *)) {
    static bool said;
    struct variable v;
    if (__atomic_load_n(&said, __ATOMIC_RELAXED)) return;
    const int first = MM_ABI_VERSION > MM_ABI_OTHERS ? MM_ABI_VERSION - MM_ABI_OTHERS : 1, versions = MM_ABI_VERSION + MM_ABI_OTHERS + 1 - first;
    for (int i = 0; i < (int)ALLOCATORS * versions; i++) {
        char name[64];
        const int version = first + i % versions;
        snprintf(name, sizeof name, MM_HEAP_REF_PREFIX "%d%s", version, allocators[i / versions].suffix);
        if (version == MM_ABI_VERSION || get(&v.address, &v.bytes, owner, name) != CUDA_SUCCESS) continue;
        if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
            mm_host_say("a module was compiled with agreement version %d of mm, this libmm.so.1 (mm " MM_VERSION ") has %d; its kernels get no heap; "
                        "compile it again with this mm, or start the program with the mmrun of its own",
                        version, MM_ABI_VERSION);
        return;
    }
}

/* Looks up the heap variable. A module that has not the default allocator's is queried for the others' and for other versions', unless it is marked: then it
 * has none of them. is_known: the handle's owner is known, which removes the mark when it is unloaded. */
static enum answer ask(const void *owner, bool is_known, CUcontext context, CUresult (*get)(CUdeviceptr *, size_t *, const void *, const char *),
                       const char *call, struct variable *v, struct mm_driver_error *error) {
    v->sibling = NULL;
    enum answer answer = answer_of(get(&v->address, &v->bytes, owner, allocators[0].variable), call, error);
    if (answer != ANSWER_NO || (is_known && is_marked(owner, context))) return answer;
    for (size_t i = 1; i < ALLOCATORS && answer == ANSWER_NO; i++) {
        answer = answer_of(get(&v->address, &v->bytes, owner, allocators[i].variable), call, error);
        v->sibling = allocators[i].name;
    }
    if (answer != ANSWER_NO) return answer;
    tell_others(owner, get);
    if (is_known) mark(owner, context);
    return ANSWER_NO;
}

static CUresult get_library(CUdeviceptr *address, size_t *bytes, const void *library, const char *name) {
    return mm_driver_get()->cuLibraryGetGlobal(address, bytes, (CUlibrary)library, name);
}
static CUresult get_module(CUdeviceptr *address, size_t *bytes, const void *module, const char *name) {
    return mm_driver_get()->cuModuleGetGlobal(address, bytes, (CUmodule)module, name);
}

static enum answer ask_library(const struct mm_driver *d, CUlibrary library, bool is_known, CUcontext context, struct variable *v,
                               struct mm_driver_error *error) {
    if (!d->cuLibraryGetGlobal) return ANSWER_NO; /* a driver without it has no libraries */
    return ask(library, is_known, context, get_library, "cuLibraryGetGlobal", v, error);
}

static enum answer ask_module(CUmodule module, bool is_known, CUcontext context, struct variable *v, struct mm_driver_error *error) {
    return ask(module, is_known, context, get_module, "cuModuleGetGlobal", v, error);
}

/* Looks up the heap variable in the kernel's module. The context is current. */
static enum answer ask_kernel(const struct mm_driver *d, CUfunction kernel, CUcontext context, const struct mm_handle *h, struct variable *v,
                              struct mm_driver_error *error) {
    if (h->kind == MM_HANDLE_KERNEL || h->kind == MM_HANDLE_INSTANCE) return ask_library(d, (CUlibrary)h->owner, true, context, v, error);
    if (h->kind == MM_HANDLE_FUNCTION) return ask_module((CUmodule)h->owner, true, context, v, error);
    /* The program got this handle before libmm was loaded. Try it as a function first: querying a function as a kernel crashes. */
    CUmodule module = NULL;
    CUlibrary library = NULL;
    if (d->cuFuncGetModule && MM_DRIVER_TRY(d, error, cuFuncGetModule, &module, kernel)) return ask_module(module, false, context, v, error);
    if (d->cuKernelGetLibrary && MM_DRIVER_TRY(d, error, cuKernelGetLibrary, &library, (CUkernel)kernel))
        return ask_library(d, library, false, context, v, error);
    return ANSWER_FAILED;
}

static bool has_heaps(void) {
    const struct context *c = mm_contexts;
    while (c && !c->heap_count) c = c->next;
    return c != NULL;
}

static const char *name_of(const char *sibling) { return sibling ? sibling : allocators[0].name; }

/* Whether an image may have its allocator. Says so, or why not, once. */
static bool try_allow(const struct variable *v) {
    static bool said;
    const bool is_unsafe = v->sibling && strcmp(v->sibling, MM_ALLOCATOR_UNSAFE) == 0, may = !is_unsafe || mm_host_env_get()->allows_unsafe;
    if (is_unsafe && !said)
        mm_host_say("the allocator " MM_ALLOCATOR_UNSAFE " hands out memory that is in use%s",
                    may ? " (MM_ALLOW_UNSAFE=1)" : "; a module's kernels get no heap; MM_ALLOW_UNSAFE=1 lets them have it");
    said |= is_unsafe;
    return may;
}

/* Says, once, that an image has another allocator than the one that the run asks for. */
static void tell_asked(const struct variable *v) {
    static bool said;
    const struct mm_host_env *const env = mm_host_env_get();
    const char *const has = name_of(v->sibling);
    if (said || !env->asks || strcmp(name_of(env->sibling), has) == 0 || !mm_link_has_asked()) return;
    mm_host_say("a module was built with the allocator %s, and keeps it, in spite of MM_RUN_ALLOCATOR", has);
    said = true;
}

/* Whether `present`, the member heap of a heap variable, refers to a heap of ours. */
static bool is_known(uint64_t present) {
    for (const struct context *c = mm_contexts; c && present; c = c->next)
        for (unsigned i = 0; i < c->heap_count; i++)
            if (mm_host_heap_published(c->heaps[i]).heap == present) return true;
    return false;
}

/* Writes the heap of the image's allocator into the variable, and creates the heap first if the context has none. The caller holds the lock. */
static bool try_publish(const struct mm_driver *d, CUcontext handle, const struct variable *v, struct mm_driver_error *error) {
    uint64_t present = 0;
    struct context *c = mm_context_home(d, handle, false); /* before anything else, as it may wait */
    if (has_heaps() && !mm_copy_try_from_device(d, &present, v->address + offsetof(struct mm_heap_ref, heap), sizeof present, error)) return false;
    /* Another kernel of the module was launched before, or this is a second handle of a context that has a heap. */
    if (is_known(present)) return true;
    if (!try_allow(v)) return true;
    tell_asked(v);
    if (!c) c = mm_context_home(d, handle, true);
    struct mm_host_heap *heap = c ? heap_of(c, v->sibling) : NULL;
    if (c && !heap) heap = make_heap(d, c, handle, v->sibling);
    if (!heap) return mm_driver_lacks_memory(error);
    if (mm_host_heap_is_absent(heap)) return true;
    const struct mm_heap_ref published = mm_host_heap_published(heap);
    return mm_copy_try_to_device(d, v->address, &published, sizeof published, error);
}

void mm_attach_failed(const struct mm_driver *d, const char *call, CUresult code) {
    static bool said;
    if (mm_driver_error_is_foreign(code) || __atomic_load_n(&finished, __ATOMIC_RELAXED)) return;
    if (__atomic_exchange_n(&said, true, __ATOMIC_RELAXED)) return;
    mm_host_say("cannot tell a kernel's module where the heap is (%s: %s); tried again at its next launch", call, mm_driver_error_name(d, code).text);
}

bool mm_attach_take_back(const struct mm_driver *d, uint64_t bytes) {
    CUdevice device;
    size_t free_bytes = 0, total_bytes;
    uint64_t got = 0;
    if (d->cuCtxGetDevice(&device) != CUDA_SUCCESS || d->cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) return false;
    if (bytes < UINT64_MAX) bytes = (bytes > free_bytes ? bytes - free_bytes : 0) + MM_HOST_TRIM_MORE_BYTES;
    pthread_mutex_lock(&mm_contexts_lock);
    for (struct context *c = mm_contexts; c; c = c->next)
        for (unsigned i = 0; i < c->heap_count && !c->is_ending && got < bytes; i++)
            if (mm_host_heap_device(c->heaps[i]) == device) got += mm_host_heap_give_back(d, c->heaps[i], bytes - got);
    pthread_mutex_unlock(&mm_contexts_lock);
    return got != 0;
}

static void attach(const struct mm_driver *d, CUfunction kernel, CUcontext context) {
    static bool size_said;
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    struct variable v = {0, 0, NULL};

    pthread_mutex_lock(&mm_contexts_lock);
    bool known = mm_kernel_cache_has(kernel, context);
    struct mm_handle handle = mm_handle_find(kernel);
    pthread_mutex_unlock(&mm_contexts_lock);
    if (known) return;

    enum answer answer = ask_kernel(d, kernel, context, &handle, &v, &error);
    for (int i = 0; i < 2 && answer == ANSWER_FAILED && error.code == CUDA_ERROR_OUT_OF_MEMORY; i++) { /* the query may load the module, which needs memory */
        if (!mm_attach_take_back(d, i == 0 ? 0 : UINT64_MAX)) break;
        error.call = NULL, error.code = CUDA_SUCCESS;
        answer = ask_kernel(d, kernel, context, &handle, &v, &error);
    }
    if (answer == ANSWER_NO && __atomic_load_n(&loaded_for_all, __ATOMIC_RELAXED)) prepare(d, context); /* before the kernel runs */

    pthread_mutex_lock(&mm_contexts_lock);
    if (answer == ANSWER_YES && v.bytes != MM_HEAP_REF_BYTES) {
        if (!size_said) mm_host_say("a module's %s has %zu bytes, expected %d; its kernels get no heap", MM_HEAP_REF_NAME, v.bytes, MM_HEAP_REF_BYTES);
        size_said = true;
        answer = ANSWER_NO;
    }
    if (answer == ANSWER_YES && !try_publish(d, context, &v, &error)) answer = ANSWER_FAILED;
    if (answer != ANSWER_FAILED) mm_kernel_cache_insert(kernel, context, (const void *)handle.owner);
    pthread_mutex_unlock(&mm_contexts_lock);
    if (answer == ANSWER_FAILED) mm_attach_failed(d, error.call, error.code);
}

void mm_attach_first_launch(const struct mm_driver *d, CUfunction kernel, CUcontext context) {
    static bool fork_said;
    if (mm_attach_is_inside) return;
    if (mm_forked) {
        if (!__atomic_exchange_n(&fork_said, true, __ATOMIC_RELAXED))
            mm_host_say("this process was forked from one that used the GPU, where CUDA does not work; "
                        "it has no heap and leaves its parent's alone");
        return;
    }
    mm_attach_is_inside = true;
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    CUcontext current = NULL, popped;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    bool is_current = d->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context;
    bool pushed = !is_current && MM_DRIVER_TRY(d, &error, cuCtxPushCurrent, context);
    if ((is_current || pushed) && MM_DRIVER_TRY(d, &error, cuThreadExchangeStreamCaptureMode, &mode)) {
        attach(d, kernel, context);
        d->cuThreadExchangeStreamCaptureMode(&mode);
    }
    if (pushed) d->cuCtxPopCurrent(&popped);
    if (error.call) mm_attach_failed(d, error.call, error.code);
    mm_attach_is_inside = false;
}

/* The driver may be gone, so this does not call it. The operating system reclaims memory and addresses. */
__attribute__((destructor)) static void at_exit(void) {
    __atomic_store_n(&finished, true, __ATOMIC_RELAXED);
    const unsigned status = mm_inspect_has_found && !mm_forked ? mm_host_env_get()->check_exitcode : 0;
    if (!status) return;
    fflush(NULL);
    _exit((int)status);
}
