/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Declares one service only. */
#include <cstdlib>
#include "run.h"
__global__ void k(void **p) { free(p[0]); }
int main() { return run(k, false); }
