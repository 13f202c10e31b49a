/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of the case registers: registers.h. They are also launched, so that their code is known to work. */
#ifndef MM_BENCH_REGISTERS_KERNELS_H
#define MM_BENCH_REGISTERS_KERNELS_H

#include "tools/mmbench/child/papers/registers.h"

static __global__ void registers_plain_kernel(unsigned long long bytes, struct bump *b, void **pointer) { *pointer = bytes ? (void *)b : NULL; }
static __global__ void registers_malloc_kernel(unsigned long long bytes, struct bump *b, void **pointer) { *pointer = memory_take(b, bytes); }
static __global__ void registers_free_kernel(unsigned long long bytes, struct bump *b, void **pointer) {
    if (bytes && b == NULL) memory_give(*pointer);
}
static __global__ void registers_pair_kernel(unsigned long long bytes, struct bump *b, void **pointer) {
    unsigned *p = (unsigned *)memory_take(b, bytes);
    if (p == NULL) return;
    *(volatile unsigned *)p = 1;
    memory_give(p);
    *pointer = p;
}

#ifdef __CUDACC__
typedef void registers_function(unsigned long long bytes, struct bump *b, void **pointer);
static registers_function *const registers_functions[REGISTERS_KERNELS] = {registers_plain_kernel, registers_malloc_kernel, registers_free_kernel,
                                                                           registers_pair_kernel};

static cudaError_t registers_attributes(struct cudaFuncAttributes *a, enum registers_kernel kernel) {
    return cudaFuncGetAttributes(a, (const void *)registers_functions[kernel]);
}
static void registers_launch(enum registers_kernel kernel, unsigned long long bytes, void **pointer) {
    registers_functions[kernel]<<<1, 1>>>(bytes, NULL, pointer);
}

extern "C" const struct registers_kernels MEMORY_KERNELS(registers) = {registers_attributes, registers_launch};
#endif

#endif
