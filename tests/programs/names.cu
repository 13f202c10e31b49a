/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Variables and kernels of every linkage, next to a kernel that allocates: the host looks them up by name. */
#include <cstdlib>
static __device__ int own = 3;
__device__ int zeros[5], unused = 4;
static __constant__ int own_constant = 7;
__constant__ double constants[4];
__managed__ int managed = 9;
namespace {
__device__ int hidden;
__global__ void hidden_kernel(int *p) { *p = hidden; }
} // namespace
extern "C" { // names like mm's, which stay the program's
__device__ int mm_v1_table[4];
__global__ void mm_v1_naive(void **p) { p[0] = malloc(mm_v1_table[0]); }
}
static __global__ void own_kernel(void **p) { p[0] = malloc(own + own_constant); }
__global__ void kernel(void **p) {
    extern __shared__ int dynamic[];
    __shared__ int fixed[3];
    fixed[0] = zeros[1] + (int)constants[2] + managed + dynamic[0];
    p[0] = malloc(fixed[0]);
}
int main() {
    int x = 0;
    hidden_kernel<<<1, 1>>>(&x);
    own_kernel<<<1, 1>>>((void **)0);
    cudaMemcpyToSymbol(own, &x, 4);
    cudaMemcpyToSymbol(own_constant, &x, 4);
    cudaMemcpyToSymbol(hidden, &x, 4);
    return 0;
}
