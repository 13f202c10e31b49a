/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Managed variables, with and without an initial value. */
__managed__ int total, table[4] = {1, 2, 3, 4};
__device__ int plain = 5;

__global__ void add(int n) {
    int *p = (int *)malloc(sizeof *p);
    *p = n + table[threadIdx.x & 3] + plain;
    atomicAdd(&total, *p);
    free(p);
}
