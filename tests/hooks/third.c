/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* libthird.so: a third library that is preloaded beside libmm.so and asks for the next definition. A dlsym in
 * front of libc's that called it would change who asks, and the answer. */
#define _GNU_SOURCE
#include <dlfcn.h>

int answer(void);
int answer(void) {
    int (*next)(void) = 0;
    *(void **)&next = dlsym(RTLD_NEXT, "answer");
    return next && next != answer ? 10 + next() : -1;
}
