/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A kernel that allocates by malloc and by new, and the program that launches it. Returns 0 if the memory was good, 1 if not, 3 without a GPU. */
#include <cstdio>

__device__ int bad;

template <typename Give> static __device__ void use(Give give) {
    int *a = (int *)give(4 * sizeof(int)), *b = new int(7);
    if (!a || *b != 7) atomicAdd(&bad, 1);
    if (a) a[threadIdx.x % 4] = 1;
    free(a);
    delete b;
}

static int outcome() {
    int found = 0;
    const cudaError_t error = cudaMemcpyFromSymbol(&found, bad, sizeof found);
    if (error == cudaSuccess) return found != 0;
    fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return 3;
}
