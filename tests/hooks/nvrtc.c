/* nvrtc LIBRARY SOURCE OPTION...: writes the PTX. Exit 77: there is no such library. */
#include "nvrtc.h"

int main(int argc, char **argv) {
    static char source[1 << 16];
    if (argc < 3) return 2;
    FILE *f = fopen(argv[2], "rb");
    if (!f || !fread(source, 1, sizeof source - 1, f)) return perror(argv[2]), 2;
    fclose(f);
    if (!dlopen(argv[1], RTLD_NOW)) return 77;
    char *text = nvrtc_ptx(argv[1], source, argc - 3, (const char *const *)(void *)(argv + 3));
    if (!text) return 1;
    fputs(text, stdout);
    free(text);
    return 0;
}
