/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels that need no stack frame for themselves: the stack that they use is the allocator's (stack.sh). */
__global__ void allocate(void **p) { p[threadIdx.x] = malloc(16); }
__global__ void release(void **p) { free(p[threadIdx.x]); }
