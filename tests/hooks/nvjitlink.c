/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* nvjitlink LIBRARY OUT TEXT... [-- OPTION...]: links PTX and LTO IR (.ltoir) with nvJitLink as Numba does, for sm_90 or what an option says, and writes
 * the machine code. Exit 77: there is no such library. NVJITLINK_GLOBAL: asks RTLD_DEFAULT for its functions, as cuda.bindings does. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *library;
static int is_global;
static int (*function(const char *name))() {
    int (*f)();
    *(void **)&f = dlsym(is_global ? RTLD_DEFAULT : library, name);
    if (!f) printf("no %s\n", name), exit(1);
    return f;
}

int main(int argc, char **argv) {
    const char *options[8] = {"-arch=sm_90"};
    uint32_t count = 1;
    static char text[1 << 20];
    void *link = NULL;
    size_t bytes = 0;
    if (argc < 4) return 2;
    is_global = getenv("NVJITLINK_GLOBAL") != NULL;
    if (is_global && dlsym(RTLD_DEFAULT, "nvJitLinkCreate")) return printf("there without its library\n"), 1;
    library = dlopen(argv[1], is_global ? RTLD_NOW | RTLD_GLOBAL : RTLD_NOW);
    if (!library) return 77;
    int files = 3;
    while (files < argc && strcmp(argv[files], "--") != 0) files++;
    for (int i = files + 1; i < argc && count < 8; i++) options[count++] = argv[i];
    int r = function("nvJitLinkCreate")(&link, count, options);
    /* Every other one as a file. */
    for (int i = 3; i < files && !r; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) return perror(argv[i]), 2;
        const size_t read = fread(text, 1, sizeof text, f);
        fclose(f);
        const int type = strstr(argv[i], ".ltoir") ? 3 : 2;
        r = i % 2 ? function("nvJitLinkAddData")(link, type, text, read, argv[i]) : function("nvJitLinkAddFile")(link, type, argv[i]);
        memset(text, 0, read); /* nobody may need it any more */
    }
    if (!r) r = function("nvJitLinkComplete")(link);
    if (r) {
        function("nvJitLinkGetErrorLog")(link, text);
        return printf("nvJitLink answers %d: %s\n", r, text), 1;
    }
    function("nvJitLinkGetLinkedCubinSize")(link, &bytes);
    char *code = (char *)malloc(bytes);
    r = function("nvJitLinkGetLinkedCubin")(link, code);
    FILE *f = fopen(argv[2], "wb");
    if (r || !f || fwrite(code, 1, bytes, f) != bytes || fclose(f)) return 1;
    return free(code), function("nvJitLinkDestroy")(&link);
}
