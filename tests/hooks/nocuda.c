/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A program that has nothing to do with CUDA. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

int answer(void); /* libnext.so's; libthird.so, if preloaded, adds 10 to the next definition's answer */

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "quick") == 0) return 0;
    if (argc > 1 && strcmp(argv[1], "answer") == 0) {
        printf("%d\n", answer());
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "nothing") == 0) {
        int threads = 0, libmm = 0;
        DIR *d = opendir("/proc/self/task");
        for (struct dirent *e; d && (e = readdir(d));) threads += e->d_name[0] != '.';
        char line[4096];
        FILE *maps = fopen("/proc/self/maps", "r");
        while (maps && fgets(line, sizeof line, maps)) libmm |= strstr(line, "libmm.so.1") != NULL;
        printf("%s, libmm: %s\n", threads == 1 ? "one thread" : "several threads", libmm ? "yes" : "no");
        return 0;
    }
    for (int i = 1; i < argc; i++) printf("[%s]", argv[i]);
    printf("\n");
    return 0;
}
