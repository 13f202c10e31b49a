/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A program that does not allocate. */
extern "C" __global__ void second(int *p, int n) { p[threadIdx.x] = n; }
