/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The case registers: what the driver reports of a kernel that does nothing, of one with a malloc, of one with a free, and of one with both.
 * M. Vinkler, V. Havran, "Register efficient dynamic memory allocator for GPUs", Computer Graphics Forum 2015. */
#ifndef MM_BENCH_REGISTERS_H
#define MM_BENCH_REGISTERS_H

#include "tools/mmbench/child/papers/papers.h"

enum registers_kernel { REGISTERS_PLAIN, REGISTERS_MALLOC, REGISTERS_FREE, REGISTERS_PAIR, REGISTERS_KERNELS };

struct registers_kernels {
    cudaError_t (*attributes)(struct cudaFuncAttributes *a, enum registers_kernel kernel);
    void (*launch)(enum registers_kernel kernel, unsigned long long bytes, void **pointer);
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct registers_kernels alloc_registers, floor_registers;

void run_registers(const struct request *q);
#ifdef __cplusplus
}
#endif
#endif
