/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The part of test_grow.cu that plain nvcc compiles. */
#include <cassert>

static __global__ void asserts(int x) { assert(x != 0); }
void plain_launch(void) { asserts<<<1, 1>>>(1); }
