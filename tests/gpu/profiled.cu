/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels whose requests are known exactly, for MM_PROFILE and MM_MAP_SERIES (profile.sh). In each round fill() requests three sizes from every thread, keep() one
 * that stays until the end, drain() frees what fill() requested, and refused() requests more than any heap has. */
#define PROGRAM "profiled"
#include "tests/gpu/cuda_ok.h"

#define CTAS 16
#define THREADS 256
#define ROUNDS 40
#define SIZES 3

__device__ static unsigned my_number(void) { return blockIdx.x * THREADS + threadIdx.x; }
namespace inner {
template <typename T> __global__ void fill(T **held) {
    static const unsigned bytes[SIZES] = {48, 1000, 20000};
    for (unsigned i = 0; i < SIZES; i++) held[my_number() * SIZES + i] = (T *)malloc(bytes[i]);
}
} // namespace inner
__global__ void keep(char **kept) { kept[my_number()] = (char *)malloc(256); }
__global__ void drain(char **held) {
    for (unsigned i = 0; i < SIZES; i++) free(held[my_number() * SIZES + i]);
}
__global__ void refused(unsigned *got) {
    if (malloc(1ull << 50)) atomicAdd(got, 1);
}

int main() {
    char **held, **kept;
    unsigned *got;
    CUDA_OK(cudaMalloc((void **)&held, CTAS * THREADS * SIZES * sizeof *held));
    CUDA_OK(cudaMalloc((void **)&kept, CTAS * THREADS * sizeof *kept));
    CUDA_OK(cudaMallocManaged((void **)&got, sizeof *got));
    *got = 0;
    for (int i = 0; i < ROUNDS; i++) {
        inner::fill<char><<<CTAS, THREADS>>>(held);
        keep<<<CTAS, THREADS>>>(kept);
        drain<<<CTAS, THREADS>>>(held);
    }
    refused<<<1, 3>>>(got);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
    printf(PROGRAM ": %u threads, %u rounds, %u got memory that no heap has\n", CTAS * THREADS, ROUNDS, *got);
    return 0;
}
