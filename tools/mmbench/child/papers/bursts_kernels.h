/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of ad, acd and p: bursts.h. */
#ifndef MM_BENCH_BURSTS_KERNELS_H
#define MM_BENCH_BURSTS_KERNELS_H

#include "tools/mmbench/child/papers/bursts.h"

/* The number of this thread's caller; callers or more if it has none. */
static __device__ inline unsigned burst_caller(void) { return thread_idx() % WARP_THREADS ? ~0u : thread_idx() / WARP_THREADS; }

static __device__ unsigned *burst_take(const struct burst_input *in, unsigned word, struct bump *b, struct tally *t) {
    volatile unsigned *p = (volatile unsigned *)memory_take(b, in->bytes);
    if (p == NULL) atomicAdd(&t->nulls, 1ull);
    else *p = word;
    return (unsigned *)p;
}

/* Reads the word, and frees. Returns what it read. */
static __device__ unsigned burst_give(unsigned *p, unsigned word, struct tally *t) {
    const unsigned found = *(volatile unsigned *)p;
    if (found != word) atomicAdd(&t->corrupt, 1ull);
    memory_give(p);
    return found;
}

static __device__ void burst_add(struct burst_result *r, unsigned allocations, unsigned long long sum) {
    r->allocations += allocations;
    r->sum += sum;
}

static __global__ void ad_kernel(struct burst_input in, struct bump *b, struct burst_result *r, struct tally *t) {
    const unsigned caller = burst_caller();
    if (caller >= in.callers) return;
    const unsigned word = burst_word(caller, 0);
    unsigned *p = burst_take(&in, word, b, t);
    if (p != NULL) burst_add(&r[caller], 1, burst_give(p, word, t));
}

static __global__ void acd_kernel(struct burst_input in, void **held, struct bump *b, struct burst_result *r, struct tally *t) {
    const unsigned caller = burst_caller();
    if (caller >= in.callers) return;
    const unsigned length = burst_length(caller);
    unsigned allocations = 0;
    unsigned long long sum = 0;
    held += (size_t)caller * BURST_MOST;
    for (unsigned k = 0; k < length; k++) held[k] = burst_take(&in, burst_word(caller, k), b, t);
    for (unsigned k = 0; k < length; k++) {
        if (held[k] == NULL) continue;
        sum += burst_give((unsigned *)held[k], burst_word(caller, k), t);
        allocations++;
    }
    burst_add(&r[caller], allocations, sum);
}

static __global__ void p_kernel(struct burst_input in, unsigned launch, void **held, struct bump *b, struct burst_result *r, struct tally *t) {
    const unsigned caller = burst_caller();
    if (caller >= in.callers || !burst_acts(caller, launch)) return;
    const unsigned word = burst_word(caller, 0);
    if (held[caller] == NULL) {
        held[caller] = burst_take(&in, word, b, t);
    } else {
        burst_add(&r[caller], 1, burst_give((unsigned *)held[caller], word, t));
        held[caller] = NULL;
    }
}

static __global__ void p_end_kernel(struct burst_input in, void **held, struct burst_result *r, struct tally *t) {
    const unsigned caller = burst_caller();
    if (caller >= in.callers || held[caller] == NULL) return;
    burst_add(&r[caller], 1, burst_give((unsigned *)held[caller], burst_word(caller, 0), t));
    held[caller] = NULL;
}

#ifdef __CUDACC__
static unsigned burst_ctas(const struct burst_input *in) { return memory_ctas((unsigned long long)in->callers * WARP_THREADS); }

static void burst_ad(struct burst_input in, struct bump *b, struct burst_result *r, struct tally *t) {
    ad_kernel<<<burst_ctas(&in), CTA_THREADS>>>(in, b, r, t);
}
static void burst_acd(struct burst_input in, void **held, struct bump *b, struct burst_result *r, struct tally *t) {
    acd_kernel<<<burst_ctas(&in), CTA_THREADS>>>(in, held, b, r, t);
}
static void burst_p(struct burst_input in, unsigned launch, void **held, struct bump *b, struct burst_result *r, struct tally *t) {
    p_kernel<<<burst_ctas(&in), CTA_THREADS>>>(in, launch, held, b, r, t);
}
static void burst_p_end(struct burst_input in, void **held, struct burst_result *r, struct tally *t) {
    p_end_kernel<<<burst_ctas(&in), CTA_THREADS>>>(in, held, r, t);
}

extern "C" const struct burst_kernels MEMORY_KERNELS(burst) = {burst_ad, burst_acd, burst_p, burst_p_end};
#endif

#endif
