/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One that does not. */
extern "C" __global__ void second(int *p, int n) { p[threadIdx.x] = n; }
