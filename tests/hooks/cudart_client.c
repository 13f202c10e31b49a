/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The real CUDA runtime on the stand-in. It asks for private tables that only the real driver has, so it does
 * not start; but it has looked up its functions by then. This program searches the runtime's memory for them: none
 * may be the driver's own where we have a hook. Exits with 0 if so. */
#include "client.h"

#include <cuda_runtime_api.h>

static void *past_hooks(const char *symbol) {
    void *(*real)(void *, const char *) = NULL;
    *(void **)&real = dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.34");
    if (!real) *(void **)&real = dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5");
    CHECK(real);
    return real(dlopen("libcuda.so.1", RTLD_NOW), symbol);
}

/* Words of writable memory that belong to a file named like `file` and hold `value`. */
static int count_words(const char *file, const void *value) {
    int count = 0;
    char line[4096], rights[8], last_file[4096] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long from, to;
    while (fgets(line, sizeof line, maps)) {
        char path[4096] = "";
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %4095s", &from, &to, rights, path) < 3) continue;
        if (path[0]) strcpy(last_file, path); /* a .bss follows its file without a name */
        const char *name = strrchr(last_file, '/');
        if (rights[1] != 'w' || rights[0] != 'r' || !name || !strstr(name, file)) continue;
        for (unsigned long at = from; at < to; at += sizeof(void *)) count += *(void *const volatile *)at == value;
    }
    fclose(maps);
    return count;
}

int main(void) {
    static const char *const fetched[] = {"cuLaunchKernel",     "cuLaunchKernel_ptsz", "cuLaunchKernelEx",  "cuLaunchCooperativeKernel",
                                          "cuLibraryGetKernel", "cuCtxSetLimit",       "cuGraphAddNode_v2", "cuLibraryUnload"};
    int devices = 0;
    cudaGetDeviceCount(&devices);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    standin_get_function *get = NULL;
    *(void **)&get = past_hooks("standin_get");
    CHECK(driver && get);
    CHECK(get()->lookups > 400);
    for (size_t i = 0; i < sizeof fetched / sizeof *fetched; i++) {
        void *real = past_hooks(fetched[i]), *ours = dlsym(driver, fetched[i]);
        if (real == ours || count_words("cudart", real) || !count_words("cudart", ours)) {
            printf("%s: real %p is held %d times, ours %p %d times\n", fetched[i], real, count_words("cudart", real), ours, count_words("cudart", ours));
            return 1;
        }
    }
    return 0;
}
