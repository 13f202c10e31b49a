/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Memory for the kernels of the papers' cases. kernels.cu is compiled with malloc and free, once for each allocator; floors.cu includes it with
 * MEMORY_BUMP, and then the same kernels take memory from a bump pointer, which never gets it back. The time of those is the case's floor.
 */
#ifndef MM_BENCH_MEMORY_H
#define MM_BENCH_MEMORY_H

#include <stdlib.h>

#include "tools/mmbench/child/child.h"

/* A bump pointer, in device memory. */
struct bump {
    char *base;
    unsigned long long used, bytes;
};

#define BUMP_ALIGNMENT 16u

#ifdef MEMORY_BUMP
/* The kernels of a case, in this build: MEMORY_KERNELS(join) is floor_join here and alloc_join in the other builds. */
#define MEMORY_KERNELS(what) floor_##what

/* One atomic for each warp, whichever of its lanes are here. */
static __device__ inline void *memory_take(struct bump *b, unsigned long long bytes) {
    const unsigned active = __activemask(), lane = threadIdx.x % WARP_THREADS, leader = __ffs(active) - 1;
    const unsigned long long mine = (bytes + BUMP_ALIGNMENT - 1) / BUMP_ALIGNMENT * BUMP_ALIGNMENT;
    unsigned long long before = 0, all = 0;
    for (unsigned left = active; left != 0; left &= left - 1) {
        const unsigned from = __ffs(left) - 1;
        const unsigned long long theirs = __shfl_sync(active, mine, from);
        before += from < lane ? theirs : 0;
        all += theirs;
    }
    unsigned long long first = 0;
    if (lane == leader) first = atomicAdd(&b->used, all);
    first = __shfl_sync(active, first, leader) + before;
    return first + mine <= b->bytes ? b->base + first : NULL;
}
static __device__ inline void memory_give(void *p) { (void)p; }
#else
#define MEMORY_KERNELS(what) alloc_##what

static __device__ inline void *memory_take(struct bump *b, unsigned long long bytes) {
    (void)b;
    return malloc(bytes);
}
static __device__ inline void memory_give(void *p) { free(p); }
#endif

#ifdef __CUDACC__
/* CTAs for so many threads; one if there are none, since open launches kernels without work (papers.h). */
static inline unsigned memory_ctas(unsigned long long threads) { return threads ? (unsigned)((threads + CTA_THREADS - 1) / CTA_THREADS) : 1; }
#endif

#endif
