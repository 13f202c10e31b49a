/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Whether this process has a pool. */
#define _GNU_SOURCE /* dl_iterate_phdr, dladdr */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "runtime/host/pool/pool.h"
#include "runtime/host/say.h"

int mm_pool_known_mode = -1;

static int is_sanitizer(struct dl_phdr_info *library, size_t bytes, void *found) {
    (void)bytes;
    if (library->dlpi_name && strstr(library->dlpi_name, "/libsanitizer-")) *(bool *)found = true; /* of compute-sanitizer */
    return 0;
}

/* Whether each look-up of a driver function in this process finds mm's hooks: this library's dlsym is everybody's, which preloading makes it. */
static bool sees_all(void) {
    void *const program = dlopen(NULL, RTLD_LAZY), *const everybodys =
                                                       program ? dlsym(program, "dlsym") : NULL; /* RTLD_DEFAULT would begin with this library */
    Dl_info ours, found;
    return everybodys && dladdr(everybodys, &found) && dladdr(&mm_pool_known_mode, &ours) && ours.dli_fbase == found.dli_fbase;
}

static void in_child(void) { __atomic_store_n(&mm_pool_known_mode, MM_POOL_OFF, __ATOMIC_RELAXED); } /* the driver does not work there */

int mm_pool_read_mode(void) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    if (mm_pool_known_mode < 0) {
        int mode = mm_host_env_get()->pool;
        bool is_checked = false;
        if (mode != MM_POOL_OFF) dl_iterate_phdr(is_sanitizer, &is_checked);
        if (is_checked) mode = MM_POOL_OFF;
        if (mode >= MM_POOL_KEEP && !sees_all()) {
            mm_host_say("MM_POOL=%s needs mmrun, or libmm.so.1 in LD_PRELOAD: else a library may free memory of the pool without mm; using off",
                        mode == MM_POOL_KEEP ? "keep" : "async");
            mode = MM_POOL_OFF;
        }
        if (mode != MM_POOL_OFF && pthread_atfork(NULL, NULL, in_child) != 0) mode = MM_POOL_OFF;
        __atomic_store_n(&mm_pool_known_mode, mode, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&once);
    return mm_pool_known_mode;
}
