/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* dladdr */
#include "interpose/preload/link.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/load/cookies.h"
#include "interpose/load/image.h"
#include "interpose/load/ptx/names.h"
#include "interpose/load/wants.h"
#include "interpose/preload/resolve.h"
#include "runtime/host/env.h"
#include "runtime/host/say.h"

/* Machine code for each architecture, with the fewest registers (mm24.a's): any kernel may call it, whatever its launch bounds. */
__asm__(".pushsection .rodata.mm_linked, \"a\"\n"
        ".balign 8\n"
        "mm_linked: .incbin \"" MM_LINKED "\"\n"
        ".popsection\n");
extern const char mm_linked[] __attribute__((visibility("hidden")));

/* The same of other allocators: files next to libmm.so.1, each read once and kept. NULL: not read yet. One that is not there is replaced by the default. */
#define NAME(name, suffix) name,
static const char *const names[] = {MM_ALLOCATORS(NAME)};
static const char *libraries[sizeof names / sizeof *names] = {mm_linked};
static pthread_mutex_t libraries_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *read_library(const char *name) {
    char path[PATH_MAX];
    struct mm_text text = {0};
    Dl_info own;
    if (!dladdr(mm_linked, &own)) return mm_linked;
    const char *const slash = strrchr(own.dli_fname, '/');
    const int folder = slash ? (int)(slash - own.dli_fname) : 0;
    if (snprintf(path, sizeof path, "%.*s/allocators/%s/linked", folder, own.dli_fname, name) < (int)sizeof path && mm_image_try_read(path, &text) &&
        mm_image_holds_fatbin(text.data, text.bytes))
        return text.data;
    mm_text_free(&text);
    mm_host_say("the allocator %s is not in %.*s/allocators; make allocators builds it; using mm", name, folder, own.dli_fname);
    return mm_linked;
}

/* The machine code of an allocator, by its number (load/ptx/names.h). 0: that of the run. */
static const char *linked(int allocator) {
    const char *const asked = mm_host_env_get()->sibling;
    if (allocator == 0 && asked) allocator = mm_names_allocator(asked);
    if (allocator == 0) return mm_linked; /* without the lock: dladdr takes the loader's */
    pthread_mutex_lock(&libraries_lock);
    if (!libraries[allocator]) libraries[allocator] = read_library(names[allocator]);
    const char *const library = libraries[allocator];
    pthread_mutex_unlock(&libraries_lock);
    return library;
}
bool mm_link_has_asked(void) { return !mm_host_env_get()->sibling || linked(0) != mm_linked; }

/* ---- options --------------------------------------------------------------------------------------- */

static bool try_add(struct mm_link *l, CUjit_option option, void *value, unsigned from, unsigned log_room) {
    if (l->linker_count == MM_LINK_OPTIONS_MAX) return false;
    l->linker_options[l->linker_count] = option;
    l->linker_values[l->linker_count] = value;
    l->from[l->linker_count] = from;
    l->log_room[l->linker_count++] = log_room;
    return true;
}

/* Adds a log buffer of ours, zero-terminated. */
static bool try_add_log(struct mm_link *l, CUjit_option option, unsigned from, unsigned room) {
    void *log = calloc(1, (size_t)room + 1);
    if (log && try_add(l, option, log, from, room)) return true;
    free(log);
    return false;
}

/* In cuda.h, the option after each log is the size of that log. */
static unsigned room_of(CUjit_option log, const CUjit_option *options, void *const *values, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if ((int)options[i] == (int)log + 1) return (unsigned)((uintptr_t)values[i] & UINT32_MAX);
    return 0;
}

static bool try_option(struct mm_link *l, unsigned i, const CUjit_option *options, void *const *values, unsigned count) {
    switch (options[i]) {
    case CU_JIT_GLOBAL_SYMBOL_NAMES:
    case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
    case CU_JIT_GLOBAL_SYMBOL_COUNT:
        if (l->count == MM_LINK_LOADER_OPTIONS) return false;
        l->options[l->count] = options[i];
        l->values[l->count++] = values[i];
        return true;
    case CU_JIT_FALLBACK_STRATEGY: return true; /* selects an image of a fat binary; a linker accepts only a matching one */
    case CU_JIT_LTO: return false;
    case CU_JIT_INFO_LOG_BUFFER:
    case CU_JIT_ERROR_LOG_BUFFER: {
        const unsigned room = values[i] ? room_of(options[i], options, values, count) : 0;
        return !room || try_add_log(l, options[i], i, room);
    }
    default: return try_add(l, options[i], values[i], i, 0);
    }
}

static const char *error_log(const struct mm_link *l) {
    for (unsigned i = 0; i < l->linker_count; i++)
        if (l->linker_options[i] == CU_JIT_ERROR_LOG_BUFFER) return (const char *)l->linker_values[i];
    return NULL;
}

/* Adds the program's options, and ours: a target and a limit on registers, each unless 0. */
static bool try_options(struct mm_link *l, const CUjit_option *options, void *const *values, unsigned count, int target, unsigned registers) {
    enum { ROOM = 1024 };
    if (count > MM_JIT_OPTIONS_MAX || (count && (!options || !values))) return false;
    for (unsigned i = 0; i < count; i++) {
        if ((target && options[i] == CU_JIT_TARGET) || (registers && options[i] == CU_JIT_MAX_REGISTERS)) return false;
        if (!try_option(l, i, options, values, count)) return false;
    }
    if (target && !try_add(l, CU_JIT_TARGET, (void *)(uintptr_t)target, MM_LINK_OURS, 0)) return false;
    if (registers && !try_add(l, CU_JIT_MAX_REGISTERS, (void *)(uintptr_t)registers, MM_LINK_OURS, 0)) return false;
    if (error_log(l)) return true;
    return try_add_log(l, CU_JIT_ERROR_LOG_BUFFER, MM_LINK_OURS, ROOM) &&
           try_add(l, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, (void *)(uintptr_t)ROOM, MM_LINK_OURS, 0);
}

void mm_link_give(const struct mm_link *l, void **values) {
    for (unsigned i = 0; i < l->linker_count; i++) {
        const unsigned from = l->from[i], room = l->log_room[i];
        if (from == MM_LINK_OURS) continue;
        if (!room) {
            if (values[from] != l->linker_values[i]) values[from] = l->linker_values[i];
            continue;
        }
        const size_t bytes = strlen((const char *)l->linker_values[i]) + 1;
        memcpy(values[from], l->linker_values[i], bytes < room ? bytes : room);
    }
}

/* ---- target devices ----------------------------------------------------------------------------------- */

static bool try_arch(const struct mm_driver *d, CUdevice device, int *arch) {
    int major = 0, minor = 0;
    if (d->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
        d->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS)
        return false;
    *arch = 10 * major + minor; /* CUjit_target has the same numbers */
    return true;
}

/* Inserts into the sorted list, unless present. Returns the new count. */
static unsigned insert(int *archs, unsigned count, int arch) {
    unsigned at = 0;
    while (at < count && archs[at] < arch) at++;
    if (at < count && archs[at] == arch) return count;
    memmove(archs + at + 1, archs + at, (count - at) * sizeof *archs);
    archs[at] = arch;
    return count + 1;
}

unsigned mm_link_archs(bool is_library, int archs[MM_LINK_ARCHS_MAX]) {
    const struct mm_driver *d = mm_driver_get();
    unsigned kinds = 0;
    CUdevice device;
    int count = 0, arch;
    if (!d) return 0;
    if (!is_library) return d->cuCtxGetDevice(&device) == CUDA_SUCCESS && try_arch(d, device, archs);
    if (!d->cuDeviceGet || !d->cuDeviceGetCount || d->cuDeviceGetCount(&count) != CUDA_SUCCESS) return 0;
    for (int i = 0; i < count; i++) {
        if (kinds == MM_LINK_ARCHS_MAX || d->cuDeviceGet(&device, i) != CUDA_SUCCESS || !try_arch(d, device, &arch)) return 0;
        kinds = insert(archs, kinds, arch);
    }
    return kinds;
}

/* The driver's linker needs a current context. A thread without one, as when a library is loaded at the program's start, borrows a device's
 * primary context for the link: an active one, or else one that ends after the link unless somebody else has retained it by then. */
struct borrowed {
    CUdevice device;
    bool is_borrowed;
};

static bool try_borrow(const struct mm_driver *d, struct borrowed *b) {
    CUcontext context = NULL;
    CUdevice device;
    int count = 0, active = 0;
    unsigned flags;
    b->device = 0, b->is_borrowed = false;
    if (d->cuCtxGetCurrent(&context) != CUDA_SUCCESS) return false;
    if (context) return true;
    if (!d->cuDeviceGet || !d->cuDeviceGetCount || d->cuDeviceGetCount(&count) != CUDA_SUCCESS) return false;
    for (int i = 0; i < count && !active; i++) {
        if (d->cuDeviceGet(&device, i) != CUDA_SUCCESS) return false;
        if (i == 0) b->device = device;
        if (d->cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active) b->device = device;
    }
    if (!count || d->cuDevicePrimaryCtxRetain(&context, b->device) != CUDA_SUCCESS) return false;
    b->is_borrowed = d->cuCtxPushCurrent(context) == CUDA_SUCCESS;
    if (!b->is_borrowed) d->cuDevicePrimaryCtxRelease(b->device);
    return b->is_borrowed;
}

static void give_back(const struct mm_driver *d, const struct borrowed *b) {
    CUcontext popped;
    if (!b->is_borrowed) return;
    d->cuCtxPopCurrent(&popped);
    d->cuDevicePrimaryCtxRelease(b->device);
}

/* ---- the link ------------------------------------------------------------------------------------------ */

/* Input of one run of the linker. */
struct job {
    CUjitInputType type;
    const char *name; /* for messages */
    const void *data;
    size_t bytes;
    struct mm_fatbin_payload ours;
    const CUjit_option *options;
    void *const *values;
    unsigned count;
    int target; /* 0: the current device */
};

static CUresult complete(const struct mm_driver *d, struct mm_link *l, CUlinkState state, const struct job *j, const char **call) {
    void *image = NULL;
    size_t image_bytes = 0;
    CUresult r = d->cuLinkAddData(state, j->type, (void *)(uintptr_t)j->data, j->bytes, j->name, 0, NULL, NULL);
    *call = "cuLinkAddData";
    if (r == CUDA_SUCCESS) /* as a cubin: under CUDA_FORCE_PTX_JIT=1 the driver uses no machine code of fat binaries */
        r = d->cuLinkAddData(state, CU_JIT_INPUT_CUBIN, (void *)(uintptr_t)j->ours.at, j->ours.bytes, "mm", 0, NULL, NULL);
    if (r != CUDA_SUCCESS) return r;
    *call = "cuLinkComplete";
    r = d->cuLinkComplete(state, &image, &image_bytes);
    if (r != CUDA_SUCCESS) return r;
    l->image = malloc(image_bytes); /* the state's image is freed with the state */
    if (!l->image) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(l->image, image, image_bytes);
    l->image_bytes = image_bytes;
    return CUDA_SUCCESS;
}

static bool try_run(const struct mm_driver *d, struct mm_link *l, const struct job *j, unsigned registers, char *why, size_t why_bytes) {
    CUlinkState state;
    const char *call = "cuLinkCreate";
    mm_link_drop(l);
    snprintf(why, why_bytes, "its options are not understood");
    if (!try_options(l, j->options, j->values, j->count, j->target, registers)) return false;
    CUresult r = d->cuLinkCreate(l->linker_count, l->linker_options, l->linker_values, &state);
    if (r == CUDA_SUCCESS) {
        r = complete(d, l, state, j, &call);
        d->cuLinkDestroy(state);
    }
    const char *log = error_log(l);
    snprintf(why, why_bytes, "%s answers %s%s%.*s", call, mm_driver_error_name(d, r).text, log && *log ? ": " : "", log ? (int)strcspn(log, "\n") : 0,
             log ? log : "");
    return r == CUDA_SUCCESS;
}

/* Whether a kernel may have a limit on registers. */
static bool has_limits(const struct job *j) {
    const char *const text = j->type == CU_JIT_INPUT_PTX ? (const char *)j->data : "";
    return strstr(text, ".maxntid") || strstr(text, ".reqntid") || strstr(text, ".maxnreg");
}

static bool try_job(struct mm_link *l, const struct job *j, char *why, size_t why_bytes) {
    static const unsigned limits[] = {128, 64, 32, 24}; /* for CTAs of 512 threads, of 1,024, for two CTAs of 1,024; the minimum */
    const struct mm_driver *d = mm_driver_get();
    struct borrowed borrowed;
    char again[256];
    snprintf(why, why_bytes, "the driver has no linker");
    if (!d || !d->cuLinkCreate || !d->cuLinkAddData || !d->cuLinkComplete || !d->cuLinkDestroy) return false;
    snprintf(why, why_bytes, "no context can be had for the driver's linker");
    if (!try_borrow(d, &borrowed)) return false;
    bool done = try_run(d, l, j, 0, why, why_bytes);
    const size_t tries = !done && has_limits(j) ? sizeof limits / sizeof *limits : 0;
    for (size_t i = 0; i < tries && !done; i++) done = try_run(d, l, j, limits[i], again, sizeof again);
    give_back(d, &borrowed);
    return done;
}

/* Corrects the linked image (mm_cubin_settle). Returns NULL, or what is wrong with it. */
static const char *put_right(struct mm_link *l, const struct mm_link_input *in, const char **where) {
    const void *const original = in->kind == MM_CUBIN_WHOLE ? in->data : NULL;
    const char *const wrong = mm_cubin_settle(l->image, l->image_bytes, original, in->bytes, where);
    if (wrong || !mm_wants_of_elf(l->image, l->image_bytes)) return wrong;
    *where = "";
    return "mm's functions are not in it";
}

/* Returns a copy of the machine code that a linker accepts, or NULL with the reason in `why`. */
static void *opened_copy(const struct mm_link_input *in, char *why, size_t why_bytes) {
    void *const opened = malloc(in->bytes);
    snprintf(why, why_bytes, "no memory");
    if (!opened) return NULL;
    memcpy(opened, in->data, in->bytes);
    snprintf(why, why_bytes, "the image is damaged");
    bool done = in->kind != MM_CUBIN_WHOLE || mm_cubin_open(opened, in->bytes);
    if (done && mm_cookies_may_be_stored(opened, in->bytes)) {
        snprintf(why, why_bytes, "it stores in front of what malloc returns, and cannot be given room there");
        done = mm_cookies_try_make_room(opened, in->bytes);
    }
    if (done) return opened;
    free(opened);
    return NULL;
}

bool mm_link_try(struct mm_link *l, const struct mm_link_input *in, int arch, bool is_foreign, const CUjit_option *options, void *const *values, unsigned count,
                 char *why, size_t why_bytes) {
    const bool is_text = in->kind == MM_CUBIN_NONE;
    struct job j = {CU_JIT_INPUT_PTX, "the program's PTX", in->data, in->bytes + 1, {0}, options, values, count, is_foreign ? arch : 0};
    const char *where = "", *wrong = NULL;
    void *opened = NULL;
    bool done = mm_image_choose(linked(in->allocator), arch, false, &j.ours) == MM_IMAGE_CUBIN;
    memset(l, 0, sizeof *l);
    if (!done) snprintf(why, why_bytes, "mm has no machine code for sm_%d; build mm with it in ARCHS", arch);
    if (done && !is_text) {
        j.type = CU_JIT_INPUT_CUBIN, j.name = "the program's machine code", j.bytes = in->bytes;
        j.data = opened = opened_copy(in, why, why_bytes);
        done = opened != NULL;
    }
    if (done) done = try_job(l, &j, why, why_bytes);
    if (done) wrong = put_right(l, in, &where);
    if (wrong) snprintf(why, why_bytes, "of the linked image, %s%s%s", where, *where ? " " : "", wrong);
    free(opened);
    mm_fatbin_payload_free(&j.ours);
    if (done && !wrong) return true;
    mm_link_drop(l);
    return false;
}

void mm_link_drop(struct mm_link *l) {
    free(l->image);
    for (unsigned i = 0; i < l->linker_count; i++)
        if (l->log_room[i]) free(l->linker_values[i]);
    memset(l, 0, sizeof *l);
}
