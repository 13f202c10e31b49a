/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* dl_iterate_phdr, dladdr */
#include "runtime/host/pool/mode.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>

#include "runtime/host/say.h"

int mm_pool_known_mode = -1;

static int is_sanitizer(struct dl_phdr_info *library, size_t bytes, void *found) {
    (void)bytes;
    if (library->dlpi_name && strstr(library->dlpi_name, "/libsanitizer-")) *(bool *)found = true; /* of compute-sanitizer */
    return 0;
}

static bool is_ours(const void *address) {
    Dl_info ours, found;
    return address && dladdr(address, &found) && dladdr(&mm_pool_known_mode, &ours) && ours.dli_fbase == found.dli_fbase;
}

/* Whether each library of this process that frees memory finds mm's hooks, which preloading makes so: this library's names are everybody's (of one that is not
 * preloaded, they are not), and so is its dlsym, or mmhook.o's in a program that mmnvcc linked. */
static bool sees_all(void) {
    void *(*everybodys)(void *, const char *) = NULL;
    void *const program = dlopen(NULL, RTLD_LAZY), *const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (program) *(void **)&everybodys = dlsym(program, "dlsym"); /* RTLD_DEFAULT would begin with this library */
    return everybodys && is_ours(dlsym(program, "mm_dlsym_v1")) && driver && is_ours(everybodys(driver, "cuMemFree_v2"));
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
