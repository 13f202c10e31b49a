/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmenvironment: says on standard error what libmm.so.1 would say of the MM_* variables of its environment, by the same source. Nothing,
 * and exit status 0: nothing is wrong with them. */
#include "runtime/host/env.h"

int main(void) {
    (void)mm_host_env_get();
    return 0;
}
