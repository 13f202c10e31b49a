/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What comes as PTX at run time: all, or (PART 1, 2) two texts for the driver to link. */
#ifndef PART
#define PART 0
#endif

extern "C" {
#if PART != 2
__global__ void take(void **out, unsigned n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned *p = new unsigned[4 + i % 13];
        if (p) *p = i;
        out[i] = p;
    }
}
#endif
#if PART != 1
__global__ void give(void **in, unsigned n, unsigned *wrong) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        if (!in[i] || *(unsigned *)in[i] != i) atomicAdd(wrong, 1);
        free(in[i]);
    }
}

/* May have 32 registers, and what it calls no more. */
__global__ void __launch_bounds__(1024, 2) tight(unsigned *wrong) {
    unsigned *p = (unsigned *)malloc(64);
    if (!p) atomicAdd(wrong, 1);
    free(p);
}
#endif
}
