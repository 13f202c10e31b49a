/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Defines its own dlsym and cuLaunchKernel; must still link with mmhook.o. */
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
