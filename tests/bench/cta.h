/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs kernels without a GPU: one CPU thread for each thread of a CTA, and one CTA after the other. This is enough for kernels that use
 * barriers, shared memory, atomics, and warp operations by all 32 lanes. Include it before them.
 */
#ifndef MM_BENCH_CTA_H
#define MM_BENCH_CTA_H

#include <pthread.h>
#include <stdlib.h>

#include "tools/mmbench/child/child.h"

struct cta_idx {
    unsigned x;
};
static _Thread_local struct cta_idx threadIdx, blockIdx;
static struct cta_idx blockDim;
static pthread_barrier_t cta_barrier;

#undef __global__
#undef __device__
#undef __shared__
#define __global__
#define __device__
#define __shared__ static
#define __syncthreads() ((void)pthread_barrier_wait(&cta_barrier))
#define atomicAdd(p, value) __atomic_fetch_add(p, value, __ATOMIC_RELAXED)
#define atomicExch(p, value) __atomic_exchange_n(p, value, __ATOMIC_RELAXED)

#define atomicSub(p, value) __atomic_fetch_sub(p, value, __ATOMIC_RELAXED)
#define atomicOr(p, value) __atomic_fetch_or(p, value, __ATOMIC_RELAXED)
static inline void atomicMin(unsigned long long *p, unsigned long long value) {
    unsigned long long old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (value < old && !__atomic_compare_exchange_n(p, &old, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
static inline void atomicMax(unsigned long long *p, unsigned long long value) {
    unsigned long long old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (value > old && !__atomic_compare_exchange_n(p, &old, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}
#define __threadfence() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define __popc(x) ((unsigned)__builtin_popcount(x))
#define __ffs(x) __builtin_ffs((int)(x))

/* Warp operations: each lane writes its value, and all lanes wait, read, and wait. */
#define CTA_WARPS (CTA_THREADS / WARP_THREADS)
static pthread_barrier_t cta_warp_barriers[CTA_WARPS];
static unsigned long long cta_lanes[CTA_WARPS][WARP_THREADS];

static inline void cta_exchange(unsigned mask, unsigned long long mine, unsigned long long all[WARP_THREADS]) {
    const unsigned warp = threadIdx.x / WARP_THREADS;
    if (mask != ~0u) abort(); /* expected all lanes */
    cta_lanes[warp][threadIdx.x % WARP_THREADS] = mine;
    pthread_barrier_wait(&cta_warp_barriers[warp]);
    for (unsigned lane = 0; lane < WARP_THREADS; lane++) all[lane] = cta_lanes[warp][lane];
    pthread_barrier_wait(&cta_warp_barriers[warp]);
}
static inline unsigned __ballot_sync(unsigned mask, int mine) {
    unsigned long long all[WARP_THREADS];
    unsigned votes = 0;
    cta_exchange(mask, mine != 0, all);
    for (unsigned lane = 0; lane < WARP_THREADS; lane++) votes |= (unsigned)all[lane] << lane;
    return votes;
}
/* For unsigned integers of up to 64 bits. */
static inline unsigned long long cta_shfl(unsigned mask, unsigned long long mine, unsigned from) {
    unsigned long long all[WARP_THREADS];
    cta_exchange(mask, mine, all);
    return all[from % WARP_THREADS];
}
#define __shfl_sync(mask, mine, from) cta_shfl(mask, mine, from)
static inline unsigned long long __shfl_xor_sync(unsigned mask, unsigned long long mine, unsigned bits) { return cta_shfl(mask, mine, threadIdx.x ^ bits); }
static inline void __syncwarp(void) { pthread_barrier_wait(&cta_warp_barriers[threadIdx.x / WARP_THREADS]); }

static inline unsigned thread_idx(void) { return blockIdx.x * blockDim.x + threadIdx.x; }

/* A kernel launch: its body, and the arguments for it. */
struct cta_launch {
    void (*body)(const void *arguments);
    const void *arguments;
    unsigned ctas, threads;
};

/* The threads wait for launches until the process ends. Those that the current launch does not need take no part in it. */
static struct {
    const struct cta_launch *launch; /* the current one */
    pthread_barrier_t begin, end;    /* of a launch: all threads, and the one that launches */
    int is_open;
} cta_pool;

static void *cta_work(void *of) {
    threadIdx.x = (unsigned)(size_t)of;
    for (;;) {
        pthread_barrier_wait(&cta_pool.begin);
        const struct cta_launch *launch = cta_pool.launch;
        for (blockIdx.x = 0; threadIdx.x < launch->threads && blockIdx.x < launch->ctas; blockIdx.x++) {
            launch->body(launch->arguments);
            __syncthreads(); /* the next CTA reuses the shared memory */
        }
        pthread_barrier_wait(&cta_pool.end);
    }
    return NULL;
}

static void cta_open(void) {
    pthread_t id;
    pthread_barrier_init(&cta_pool.begin, NULL, CTA_THREADS + 1);
    pthread_barrier_init(&cta_pool.end, NULL, CTA_THREADS + 1);
    for (size_t i = 0; i < CTA_THREADS; i++)
        if (pthread_create(&id, NULL, cta_work, (void *)i) != 0 || pthread_detach(id) != 0) abort();
    cta_pool.is_open = 1;
}

/* Returns when all threads of all CTAs have finished. */
static void cta_launch(void (*body)(const void *), const void *arguments, unsigned ctas, unsigned threads) {
    const struct cta_launch launch = {body, arguments, ctas, threads};
    if (!cta_pool.is_open) cta_open();
    blockDim.x = threads;
    pthread_barrier_init(&cta_barrier, NULL, threads);
    for (unsigned w = 0; w < CTA_WARPS; w++) pthread_barrier_init(&cta_warp_barriers[w], NULL, WARP_THREADS);
    cta_pool.launch = &launch;
    pthread_barrier_wait(&cta_pool.begin);
    pthread_barrier_wait(&cta_pool.end);
    pthread_barrier_destroy(&cta_barrier);
    for (unsigned w = 0; w < CTA_WARPS; w++) pthread_barrier_destroy(&cta_warp_barriers[w]);
}

#endif
