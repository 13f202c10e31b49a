/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Opens plugin.so (the client, linked with mmhook.o) after the driver, as an interpreter loads modules. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int (*run)(int, char **) = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *plugin = dlopen("./plugin.so", RTLD_NOW | RTLD_LOCAL);
    if (!driver || !plugin) {
        printf("%s\n", dlerror());
        return 3;
    }
    *(void **)&run = dlsym(plugin, "client_main");
    return run(argc, argv);
}
