/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "kernel.h"
__device__ void *give(size_t n);
struct giver {
    __device__ void *operator()(size_t n) const { return give(n); }
};
__global__ void k() { use(giver()); }
#include "run.h"
