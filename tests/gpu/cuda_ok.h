/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* CUDA_OK of programs that are not suites: ends the program, with one line, if a call fails. PROGRAM, the name, must be defined before. */
#ifndef MM_TESTS_GPU_CUDA_OK_H
#define MM_TESTS_GPU_CUDA_OK_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define CUDA_OK(call)                                                        \
    do {                                                                     \
        const cudaError_t error_ = (call);                                   \
        if (error_ != cudaSuccess) {                                         \
            printf(PROGRAM ": %s: %s\n", #call, cudaGetErrorString(error_)); \
            exit(2);                                                         \
        }                                                                    \
    } while (0)

#endif
