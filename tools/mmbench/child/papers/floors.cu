/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of the papers' cases, with memory from a bump pointer: memory.h. */
#define MEMORY_BUMP
#include "tools/mmbench/child/papers/kernels.cu"
