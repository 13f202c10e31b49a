/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Device-side cudaMalloc: the only reference to malloc is that of libcudadevrt. */
__global__ void k(void **p) { cudaMalloc(p, 10); }
int main() { return 0; }
