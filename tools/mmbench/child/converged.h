/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The case "converged": whether the lanes of a warp are still together after malloc and free. If a call splits a warp, the code after it runs once
 * for each part, and a fixed piece of arithmetic by all lanes takes up to 32 times as long.
 *
 * Each lane reads the clock before and after the arithmetic. The time of a warp is the time during which at least one of its lanes was between the
 * two; a lane whose malloc took longer adds its own arithmetic and not the wait. A CTA has one warp for each scheduler of a multiprocessor, and
 * there are no more CTAs than multiprocessors. So no warp competes with another one for a scheduler, no matter when malloc returns, and the cycles
 * of CUDA's allocator and of mm are comparable.
 */
#ifndef MM_BENCH_CONVERGED_H
#define MM_BENCH_CONVERGED_H

#include "tools/mmbench/child/child.h"

#define CONVERGED_CTA_THREADS 128
#define CONVERGED_PAIRS 4     /* pairs of malloc and free */
#define CONVERGED_ROUNDS 2048 /* some 50,000 instructions: loading the code takes much less than 2 % of their time */
#define CONVERGED_CHAINS 8    /* independent chains, so that a single warp keeps its scheduler busy */

struct lane_note {
    unsigned long long begin, end;     /* clock of the multiprocessor */
    unsigned after_malloc, after_free; /* active lanes; 0: no malloc */
    unsigned sum, nulls;
};

/* Multiplications and shifts alternate, so that no compiler folds several rounds into one. The result depends on bit 63 of `begin`. That bit is 0,
 * but the compiler does not know it, and so cannot move the arithmetic before the first read of the clock. */
TOOLS_BOTH unsigned converged_sum(unsigned lane, unsigned long long begin) {
    unsigned x[CONVERGED_CHAINS], sum = 0;
    for (unsigned c = 0; c < CONVERGED_CHAINS; c++) x[c] = lane * CONVERGED_CHAINS + c + 1 + (unsigned)(begin >> 63);
    for (unsigned round = 0; round < CONVERGED_ROUNDS; round++)
        for (unsigned c = 0; c < CONVERGED_CHAINS; c++) x[c] = (x[c] ^ x[c] >> 15) * 0x2c1b3c6du;
    for (unsigned c = 0; c < CONVERGED_CHAINS; c++) sum ^= x[c];
    return sum;
}

#ifdef __CUDACC__
/* Not inlined, so that the same machine code runs after CUDA's allocator, after mm, and without an allocation. */
static __device__ __noinline__ void converged_arithmetic(struct lane_note *note) {
    const unsigned long long begin = (unsigned long long)clock64();
    const unsigned sum = converged_sum(threadIdx.x % WARP_THREADS, begin);
    note->sum = sum;
    note->end = (unsigned long long)clock64();
    note->begin = begin;
}
#endif

/* Cycles during which at least one lane of a warp was in its arithmetic. */
static inline unsigned long long converged_busy(const struct lane_note *warp) {
    unsigned long long busy = 0, upto = 0; /* everything before `upto` is counted */
    for (;;) {
        const struct lane_note *next = NULL; /* of the lanes that end after `upto`, the one that begins first */
        for (int i = 0; i < WARP_THREADS; i++)
            if (warp[i].end > upto && (next == NULL || warp[i].begin < next->begin)) next = &warp[i];
        if (next == NULL) return busy;
        busy += next->end - (next->begin > upto ? next->begin : upto);
        upto = next->end;
    }
}

/* Counts the parts that a warp was in at the notes of its lanes: all of them, and those that contained the whole warp. */
struct converged_parts {
    unsigned long long whole, all;
};
static inline void converged_count(const struct lane_note *warp, struct converged_parts *parts) {
    for (unsigned i = 0; i < WARP_THREADS; i++) {
        const unsigned masks[2] = {warp[i].after_malloc, warp[i].after_free};
        for (int k = 0; k < 2; k++) {
            if (masks[k] == 0 || (unsigned)__builtin_ctz(masks[k]) != i) continue; /* count each part once, by its lowest lane */
            parts->all++;
            parts->whole += masks[k] == ~0u;
        }
    }
}

#endif
