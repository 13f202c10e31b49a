/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of the case half: halves.h. */
#ifndef MM_BENCH_HALVES_KERNELS_H
#define MM_BENCH_HALVES_KERNELS_H

#include "tools/mmbench/child/papers/halves.h"

static __device__ int halves_is_fine(const struct halves_round *round, unsigned i) {
    const volatile unsigned *p = (const volatile unsigned *)round->slots[i];
    int is_fine = 1;
    for (unsigned w = 0; w < round->words; w++) is_fine &= p[w] == halves_word(round->first + i, w);
    return is_fine;
}

static __global__ void halves_take_kernel(struct halves_round round, struct bump *b, struct tally *t) {
    const unsigned i = thread_idx();
    if (i >= round.count) return;
    unsigned *p = (unsigned *)memory_take(b, round.words * sizeof *p);
    round.slots[i] = p;
    if (p == NULL) atomicAdd(&t->nulls, 1ull);
    else
        for (unsigned w = 0; w < round.words; w++) p[w] = halves_word(round.first + i, w);
}

static __global__ void halves_give_kernel(struct halves_round round, struct tally *t) {
    const unsigned i = thread_idx();
    if (i >= round.count || round.slots[i] == NULL || !halves_goes(round.first + i)) return;
    if (!halves_is_fine(&round, i)) atomicAdd(&t->corrupt, 1ull);
    memory_give(round.slots[i]);
    round.slots[i] = NULL;
}

static __global__ void halves_check_kernel(struct halves_round round, struct tally *t) {
    const unsigned i = thread_idx();
    if (i >= round.count || round.slots[i] == NULL) return;
    const unsigned long long at = (unsigned long long)(size_t)round.slots[i], bytes = round.words * sizeof(unsigned);
    if (!halves_is_fine(&round, i)) atomicAdd(&t->corrupt, 1ull);
    atomicAdd(&t->bytes, bytes);
    atomicMin(&t->lowest, at);
    atomicMax(&t->end, at + bytes);
}

#ifdef __CUDACC__
static unsigned halves_ctas(const struct halves_round *round) { return memory_ctas(round->count); }

static void halves_take(struct halves_round round, struct bump *b, struct tally *t) { halves_take_kernel<<<halves_ctas(&round), CTA_THREADS>>>(round, b, t); }
static void halves_give(struct halves_round round, struct tally *t) { halves_give_kernel<<<halves_ctas(&round), CTA_THREADS>>>(round, t); }
static void halves_check(struct halves_round round, struct tally *t) { halves_check_kernel<<<halves_ctas(&round), CTA_THREADS>>>(round, t); }

extern "C" const struct halves_kernels MEMORY_KERNELS(halves) = {halves_take, halves_give, halves_check};
#endif

#endif
