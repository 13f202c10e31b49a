/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A library with a kernel that allocates; test_ways.cu loads it when the heap already exists. */
static __global__ void kernel(unsigned *good) {
    unsigned *p = (unsigned *)malloc(1000);
    if (!p) return;
    *p = threadIdx.x;
    __syncthreads();
    if (*p == threadIdx.x) atomicAdd(good, 1);
    free(p);
}
/* Launches 64 threads; each that gets memory adds 1 to *good. */
extern "C" int plugin_launch(unsigned *good) {
    kernel<<<1, 64>>>(good);
    return (int)cudaGetLastError();
}
