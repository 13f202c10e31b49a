/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Resolves names to addresses: the real dlsym, the real driver's functions, and their hooks. */
#ifndef MM_INTERPOSE_RESOLVE_H
#define MM_INTERPOSE_RESOLVE_H

#include "interpose/preload/names.h"
#include "runtime/host/driver.h"

enum mm_stream_kind { MM_STREAM_ANY, MM_STREAM_LEGACY, MM_STREAM_PTSZ };

enum mm_hook_index {
#define MM_HOOK_INDEX(symbol, base, version, stream) MM_HOOK_##symbol,
    MM_HOOKED(MM_HOOK_INDEX)
#undef MM_HOOK_INDEX
        MM_HOOK_COUNT
};

struct mm_hook {
    const char *symbol, *base;
    int version;
    enum mm_stream_kind stream;
    void *hook; /* ours */
    void *real; /* the driver's; NULL until it is known, then never changed */
};

extern struct mm_hook mm_hooks[MM_HOOK_COUNT];

/* The hook of a symbol as libcuda exports it, or NULL. */
struct mm_hook *mm_hook_of_symbol(const char *symbol);
/* The hook of the function that cuGetProcAddress(name, version) selects, or NULL; per_thread: the caller's flag. */
struct mm_hook *mm_hook_of_request(const char *name, int version, bool per_thread);
/* Records the address of the driver's function, unless it is known, and returns ours. */
void *mm_hook_take(struct mm_hook *hook, void *real);
/* The driver's function behind a hook; NULL if this driver has none (or there is no driver). */
__attribute__((cold)) void *mm_hook_resolve(enum mm_hook_index index);

static inline void *mm_hook_real(enum mm_hook_index index) {
    void *real = __atomic_load_n(&mm_hooks[index].real, __ATOMIC_ACQUIRE);
    return real ? real : mm_hook_resolve(index);
}

/* The driver that the process has loaded already, or NULL. */
__attribute__((cold)) const struct mm_driver *mm_driver_load(void);
extern const struct mm_driver *mm_driver_loaded;

static inline const struct mm_driver *mm_driver_get(void) {
    const struct mm_driver *d = __atomic_load_n(&mm_driver_loaded, __ATOMIC_ACQUIRE);
    return d ? d : mm_driver_load();
}

/* Exported for mmhook.o: dlsym as a program should see it. handle: not RTLD_NEXT. */
void *mm_dlsym_v1(void *handle, const char *name);

#endif
