/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Has a dlsym and a cuLaunchKernel of its own; links with mmhook.o all the same. */
#include <stdio.h>

int cuLaunchKernel(void);
int cuLaunchKernel(void) { return 7; }

static char marker[16];
void *dlsym(void *handle, const char *name);
void *dlsym(void *handle, const char *name) {
    (void)handle, (void)name;
    return marker + 8;
}

int main(void) {
    printf("%d %d\n", cuLaunchKernel(), (int)((char *)dlsym(NULL, "x") - marker));
    return 0;
}
