/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* As much of CUDA as the programs in examples/ use, on the CPU, one thread after the other: so that their logic runs on a
 * machine without a GPU. run.sh compiles them with this header, after it has written each launch k<<<grid, cta>>>(...) as
 * LAUNCH(grid, cta, k(...)). MM_TEST_ROOM: number of calls of malloc that succeed. */
#ifndef MM_TEST_EXAMPLES_CPU_H
#define MM_TEST_EXAMPLES_CPU_H
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#define __global__
#define __device__
#define __host__
typedef int cudaError_t;
enum { cudaSuccess };
struct cpu_index {
    unsigned x;
};
static cpu_index threadIdx, blockIdx, blockDim;
#define LAUNCH(grid, cta, call)                                                 \
    for (blockDim.x = (cta), blockIdx.x = 0; blockIdx.x < (grid); blockIdx.x++) \
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) call

/* Kernels call these (run.sh puts them in the place of malloc, free, new and delete). The examples free everything. */
static long cpu_live, cpu_made;
static inline void *cpu_malloc(size_t bytes) {
    const char *room = getenv("MM_TEST_ROOM");
    if (room && cpu_made >= atol(room)) return NULL;
    cpu_live++, cpu_made++;
    return malloc(bytes);
}
static inline void cpu_free(void *p) {
    cpu_live -= p != NULL;
    free(p);
}
struct in_kernel {};
inline void *operator new(size_t bytes, in_kernel) noexcept { return cpu_malloc(bytes); }
struct cpu_report {
    ~cpu_report() { fprintf(stderr, "%ld allocations, %ld live\n", cpu_made, cpu_live); }
};
static cpu_report cpu_report_at_end;

static inline const char *cudaGetErrorString(cudaError_t) { return "no error"; }
static inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
static inline cudaError_t cudaMemset(void *p, int value, size_t bytes) { return memset(p, value, bytes), cudaSuccess; }
template <class T> static inline cudaError_t cudaMalloc(T **p, size_t bytes) { return *p = (T *)malloc(bytes), cudaSuccess; }
template <class T> static inline cudaError_t cudaMallocManaged(T **p, size_t bytes) { return cudaMalloc(p, bytes); }
static inline void __threadfence() {}
template <class T> static inline T atomicAdd(T *p, T n) { return *p += n, *p - n; }
static inline unsigned atomicAdd(unsigned *p, int n) { return atomicAdd(p, (unsigned)n); }
template <class T> static inline T atomicCAS(T *p, T compare, T value) {
    const T old = *p;
    if (old == compare) *p = value;
    return old;
}
#endif
