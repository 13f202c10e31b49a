/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Second translation unit of a relocatable program. */
#include <cstdlib>
__device__ void *give(size_t n) { return malloc(n); }
__global__ void __launch_bounds__(1024, 2) capped(void **p) {
    p[0] = give(16);
    free(p[1]);
}
