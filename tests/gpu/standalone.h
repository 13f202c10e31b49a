/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* For the programs here that are not suites. PROGRAM, the name, must be defined before. */
#ifndef MM_TESTS_GPU_STANDALONE_H
#define MM_TESTS_GPU_STANDALONE_H

#include "tests/gpu/cuda_ok.h"
#include "tests/gpu/gpuheap.h"
#include "tests/gpu/work.h"

#endif
