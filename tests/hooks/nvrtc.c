/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* nvrtc PTX|CUBIN LIBRARY SOURCE OPTION...: writes NVRTC's output. Exits with 77 if the library is missing. */
#include "nvrtc.h"

int main(int argc, char **argv) {
    static char source[1 << 16];
    size_t bytes;
    if (argc < 4) return 2;
    FILE *f = fopen(argv[3], "rb");
    if (!f || !fread(source, 1, sizeof source - 1, f)) return perror(argv[3]), 2;
    fclose(f);
    if (!dlopen(argv[2], RTLD_NOW)) return 77;
    char *text = nvrtc_make(argv[2], argv[1], source, argc - 4, (const char *const *)(void *)(argv + 4), &bytes);
    if (!text) return 1;
    if (strcmp(argv[1], "PTX") == 0) bytes = strlen(text);
    fwrite(text, 1, bytes, stdout);
    free(text);
    return 0;
}
