/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* For the programs here that are not suites. PROGRAM, the name, must be defined before. */
#ifndef MM_TESTS_GPU_STANDALONE_H
#define MM_TESTS_GPU_STANDALONE_H

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

#include "tests/gpu/gpuheap.h"
#include "tests/gpu/work.h"

#endif
