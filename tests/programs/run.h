/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* main() of the programs. Returns 0 if their kernels run, and if those that should give memory do; otherwise 1. */
#include <cstdio>
#include <cuda_runtime.h>

/* gives: whether the kernel stores an allocation in the first of the eight pointers that it gets. */
static int run(void (*kernel)(void **), bool gives) {
    void **pointers = nullptr, *first = nullptr;
    cudaError_t error = cudaMalloc(&pointers, 8 * sizeof *pointers);
    if (error == cudaSuccess) error = cudaMemset(pointers, 0, 8 * sizeof *pointers);
    if (error == cudaSuccess) {
        kernel<<<1, 1>>>(pointers);
        error = cudaGetLastError();
    }
    if (error == cudaSuccess) error = cudaMemcpy(&first, pointers, sizeof first, cudaMemcpyDeviceToHost);
    cudaFree(pointers);
    if (error != cudaSuccess) fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return error != cudaSuccess || gives != (first != nullptr);
}
