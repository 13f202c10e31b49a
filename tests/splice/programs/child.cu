/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Device-side cudaMalloc: libcudadevrt's own reference to malloc is the only one. */
__global__ void k(void **p) { cudaMalloc(p, 10); }
int main() { return 0; }
