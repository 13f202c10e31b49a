/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Two kernels that allocate and free in two streams, for MM_FAIL and MM_TRACE (failing.sh, trace.sh). Prints how many requests of each got NULL, of how many:
 * "failing: make N, other N of N each". */
#define PROGRAM "failing"
#include "tests/gpu/cuda_ok.h"

#define CTAS 32
#define THREADS 256
#define LAUNCHES 10
#define REQUESTS 8 /* of a thread */

/* Each thread holds some memory at a time, of several sizes; every fourth request is freed at once. */
__device__ static void request(unsigned *nulls) {
    char *held[REQUESTS];
    for (unsigned i = 0; i < REQUESTS; i++) {
        held[i] = (char *)malloc(16 + (threadIdx.x * 37 + i * 101) % 2000);
        if (held[i]) *held[i] = 1;
        else atomicAdd(nulls, 1);
        if (i % 4 == 0) free(held[i]), held[i] = NULL;
    }
    for (unsigned i = 0; i < REQUESTS; i++) free(held[i]);
}
__global__ void make(unsigned *nulls) { request(nulls); }
namespace inner {
__global__ void other(unsigned *nulls) { request(nulls); }
} // namespace inner

int main() {
    unsigned *nulls;
    cudaStream_t streams[2];
    CUDA_OK(cudaMallocManaged((void **)&nulls, 2 * sizeof *nulls));
    nulls[0] = nulls[1] = 0;
    for (int i = 0; i < 2; i++) CUDA_OK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    for (int i = 0; i < LAUNCHES; i++) {
        make<<<CTAS, THREADS, 0, streams[0]>>>(&nulls[0]);
        inner::other<<<CTAS, THREADS, 0, streams[1]>>>(&nulls[1]);
    }
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
    printf(PROGRAM ": make %u, other %u of %u each\n", nulls[0], nulls[1], CTAS * THREADS * LAUNCHES * REQUESTS);
    return 0;
}
