/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmenvironment: prints on standard error the messages that libmm.so.1 would print about the MM_* variables of its environment, by
 * the same source code. It prints nothing if they are right; the exit status is always 0. */
#include "runtime/host/env.h"

int main(void) {
    (void)mm_host_env_get();
    return 0;
}
