/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Things that a link must not change: the shared memory of kernels with and without any; constants, variables, strings, a call through a table. */
#include <cstdio>

__constant__ int table[7] = {1, 2, 3, 4, 5, 6, 7};
__device__ int total;

struct shape {
    __device__ virtual int area() const = 0;
};
struct square : shape {
    int side;
    __device__ square(int s) : side(s) {}
    __device__ int area() const override { return side * side; }
};

__global__ void with_shared(int *out) {
    __shared__ int tile[96];
    tile[threadIdx.x] = *out + table[threadIdx.x % 7];
    __syncthreads();
    shape *s = new square(tile[95 - threadIdx.x]);
    atomicAdd(&total, s->area());
    delete s;
}

__global__ void without_shared(int **out) {
    out[threadIdx.x] = (int *)malloc(4);
    if (!out[threadIdx.x]) printf("none of %d\n", total);
}

__global__ void without_malloc(int *out) {
    __shared__ int once;
    if (threadIdx.x == 0) once = table[*out];
    __syncthreads();
    out[threadIdx.x] = once;
}
