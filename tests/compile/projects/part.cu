/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
__device__ void *give(size_t n) { return malloc(n); }
