/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "kernel.h"
struct giver {
    __device__ void *operator()(size_t n) const { return malloc(n); }
};
__global__ void k() { use(giver()); }
#include "run.h"
