/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* First translation unit of a relocatable program. */
#include "run.h"
__device__ void *give(size_t n);
__global__ void capped(void **p);
__global__ void k(void **p) {
    p[0] = give(7);
    p[1] = new int;
}
int main() { return run(k, true) | run(capped, true); }
