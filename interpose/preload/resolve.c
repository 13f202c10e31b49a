/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* dlvsym, RTLD_NOLOAD */
#include "interpose/preload/resolve.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "interpose/preload/entry.h"
#include "mmconfig.h"
#include "runtime/host/say.h"

static void *no_symbols(void *handle, const char *name) {
    (void)handle;
    (void)name;
    return NULL;
}

/* Called by the assembly of dlsym, too. dlvsym is not hooked by us, so it can be called. */
__attribute__((used)) static void find_real_dlsym(void) {
    static const char *const versions[] = {MM_DLSYM_VERSIONS};
    void *found = NULL;
    for (size_t i = 0; i < sizeof versions / sizeof *versions && !found; i++) found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (!found) {
        void *(*none)(void *, const char *) = no_symbols;
        memcpy(&found, &none, sizeof found);
    }
    __atomic_store_n(&mm_real_dlsym, found, __ATOMIC_RELEASE);
}

static void *real_dlsym(void *handle, const char *name) {
    void *(*call)(void *, const char *);
    if (!__atomic_load_n(&mm_real_dlsym, __ATOMIC_ACQUIRE)) find_real_dlsym();
    memcpy(&call, &mm_real_dlsym, sizeof call);
    return call(handle, name);
}

/* The driver is the library named libcuda.so.1, and only if the process has loaded it. */
static void *driver_symbol(const char *symbol) {
    static void *library;
    void *handle = __atomic_load_n(&library, __ATOMIC_ACQUIRE);
    if (!handle) {
        handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        if (handle) __atomic_store_n(&library, handle, __ATOMIC_RELEASE);
    }
    void *found = handle ? real_dlsym(handle, symbol) : NULL;
    if (!found) dlerror(); /* so that the program's next dlerror does not report our failure */
    return found;
}

struct mm_hook *mm_hook_of_symbol(const char *symbol) {
    for (int i = 0; i < MM_HOOK_COUNT; i++)
        if (strcmp(mm_hooks[i].symbol, symbol) == 0) return &mm_hooks[i];
    return NULL;
}

struct mm_hook *mm_hook_of_request(const char *name, int version, bool per_thread) {
    struct mm_hook *best = NULL;
    bool is_base = false;
    for (int i = 0; i < MM_HOOK_COUNT; i++) {
        struct mm_hook *h = &mm_hooks[i];
        if (strcmp(h->base, name) != 0) continue;
        is_base = true;
        if (h->version > version || (h->stream == MM_STREAM_PTSZ && !per_thread)) continue;
        /* a version without a per-thread variant yields the legacy one, even if per thread was requested */
        if (!best || h->version > best->version || h->stream == MM_STREAM_PTSZ) best = h;
    }
    return is_base ? best : mm_hook_of_symbol(name);
}

void *mm_hook_take(struct mm_hook *hook, void *real) {
    void *none = NULL;
    __atomic_compare_exchange_n(&hook->real, &none, real, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    return hook->hook;
}

void *mm_hook_resolve(enum mm_hook_index index) {
    void *real = driver_symbol(mm_hooks[index].symbol);
    if (real && real != mm_hooks[index].hook) mm_hook_take(&mm_hooks[index], real);
    return __atomic_load_n(&mm_hooks[index].real, __ATOMIC_ACQUIRE);
}

const struct mm_driver *mm_driver_loaded;

const struct mm_driver *mm_driver_load(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct mm_driver table;
    static bool lacking;
    if (!driver_symbol("cuInit")) return NULL;
    pthread_mutex_lock(&lock);
    if (!mm_driver_loaded && !lacking) {
        const char *missing = mm_driver_try_load(&table, driver_symbol);
        if (missing) {
            lacking = true;
            mm_host_say("this CUDA driver has no %s; kernels that call malloc will fail with cudaErrorLaunchFailure", missing);
        } else {
            __atomic_store_n(&mm_driver_loaded, &table, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&lock);
    return mm_driver_loaded;
}

/* dlsym of a name that begins with "cu" on an explicit handle. */
__attribute__((used)) static void *hooked_dlsym(void *handle, const char *name) {
    void *found = real_dlsym(handle, name);
    if (!found) return NULL;
    struct mm_hook *hook = mm_hook_of_symbol(name);
    /* another library's function of that name (a wrapper, a mock, another interposer) is not replaced */
    if (!hook || found == hook->hook || found != driver_symbol(name)) return found;
    return mm_hook_take(hook, found);
}

MM_DLSYM_ENTRY(".globl dlsym\n", "find_real_dlsym", "hooked_dlsym");

__attribute__((visibility("default"))) void *mm_dlsym_v1(void *handle, const char *name) { return hooked_dlsym(handle, name); }

/* mmhook.o compares this with its own version (open_libmm). */
extern const unsigned mm_agreement;
__attribute__((visibility("default"))) const unsigned mm_agreement = MM_ABI_VERSION;
