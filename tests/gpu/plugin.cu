/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A library with a kernel that allocates, which test_ways.cu loads when there is a heap already. */
static __global__ void kernel(unsigned *good) {
    unsigned *p = (unsigned *)malloc(1000);
    if (!p) return;
    *p = threadIdx.x;
    __syncthreads();
    if (*p == threadIdx.x) atomicAdd(good, 1);
    free(p);
}
/* Launches it with 64 threads; each that is served adds 1 to *good. */
extern "C" int plugin_launch(unsigned *good) {
    kernel<<<1, 64>>>(good);
    return (int)cudaGetLastError();
}
