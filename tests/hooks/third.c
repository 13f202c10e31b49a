/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* libthird.so: a third library, preloaded next to libmm.so, that looks up the next definition. An interposed
 * dlsym that called libc's would change the caller, and with it the answer. */
#define _GNU_SOURCE
#include <dlfcn.h>

int answer(void);
int answer(void) {
    int (*next)(void) = 0;
    *(void **)&next = dlsym(RTLD_NEXT, "answer");
    return next && next != answer ? 10 + next() : -1;
}
