/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A program that allocates. */
__device__ int total;

extern "C" __global__ void first(int **p, int n) {
    p[threadIdx.x] = (int *)malloc(n * sizeof(int));
    if (total < 0) free(p[n]);
}
