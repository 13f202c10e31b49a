/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs kernels without a GPU: one CPU thread for each thread of a CTA, and one CTA after the other. This is enough for the kernels of
 * mmbench's graph, which use barriers, shared memory and atomics, but no warp operations. Include it before them.
 */
#ifndef MM_BENCH_CTA_H
#define MM_BENCH_CTA_H

#include <pthread.h>

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

static inline unsigned thread_idx(void) { return blockIdx.x * blockDim.x + threadIdx.x; }

/* A kernel launch: its body, and the arguments for it. */
struct cta_launch {
    void (*body)(const void *arguments);
    const void *arguments;
    unsigned ctas;
};
struct cta_thread {
    const struct cta_launch *launch;
    unsigned idx;
};

static void *cta_run(void *of) {
    const struct cta_thread *t = (const struct cta_thread *)of;
    threadIdx.x = t->idx;
    for (blockIdx.x = 0; blockIdx.x < t->launch->ctas; blockIdx.x++) {
        t->launch->body(t->launch->arguments);
        __syncthreads(); /* the next CTA reuses the shared memory */
    }
    return NULL;
}

/* Returns when all threads of all CTAs have finished. */
static void cta_launch(void (*body)(const void *), const void *arguments, unsigned ctas, unsigned threads) {
    const struct cta_launch launch = {body, arguments, ctas};
    pthread_t id[CTA_THREADS];
    struct cta_thread thread[CTA_THREADS];
    blockDim.x = threads;
    pthread_barrier_init(&cta_barrier, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        thread[i].launch = &launch;
        thread[i].idx = i;
        if (pthread_create(&id[i], NULL, cta_run, &thread[i]) != 0) abort();
    }
    for (unsigned i = 0; i < threads; i++) pthread_join(id[i], NULL);
    pthread_barrier_destroy(&cta_barrier);
}

#endif
