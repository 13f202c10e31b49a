/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A histogram of the cycles of millions of single calls. Below 2^11 each number of cycles has a bin; above, each doubling has 2^10 bins, so that
 * a quantile is at most 1/1024 too low. The minimum and the maximum are exact.
 */
#ifndef MM_BENCH_LATENCY_H
#define MM_BENCH_LATENCY_H

#include <stdint.h>

#define LATENCY_BIN_SHIFT 10 /* 2^this bins per doubling */
#define LATENCY_EXACT (2u << LATENCY_BIN_SHIFT)
#define LATENCY_BINS (LATENCY_EXACT + ((31u - LATENCY_BIN_SHIFT) << LATENCY_BIN_SHIFT)) /* up to 2^32 - 1 */

struct latencies {
    uint64_t count;
    unsigned least, longest;
    uint64_t bins[LATENCY_BINS];
};

static inline unsigned latency_bin(unsigned cycles) {
    if (cycles < LATENCY_EXACT) return cycles;
    const unsigned shift = 31u - (unsigned)__builtin_clz(cycles) - LATENCY_BIN_SHIFT;
    return (shift << LATENCY_BIN_SHIFT) + (cycles >> shift);
}

/* The least number of cycles in that bin. */
static inline unsigned latency_of_bin(unsigned bin) {
    if (bin < LATENCY_EXACT) return bin;
    const unsigned shift = (bin >> LATENCY_BIN_SHIFT) - 1;
    return (bin - (shift << LATENCY_BIN_SHIFT)) << shift;
}

static inline void latency_add(struct latencies *l, const unsigned *cycles, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (l->count == 0 || cycles[i] < l->least) l->least = cycles[i];
        if (cycles[i] > l->longest) l->longest = cycles[i];
        l->bins[latency_bin(cycles[i])]++;
        l->count++;
    }
}

/* The least number of cycles in which `percent` of the calls finished, to the precision of a bin; 0 if there were no calls. */
static inline unsigned latency_quantile(const struct latencies *l, unsigned percent) {
    const uint64_t rank = (l->count * percent + 99) / 100;
    uint64_t upto = 0;
    for (unsigned bin = 0; bin < LATENCY_BINS; bin++) {
        upto += l->bins[bin];
        if (upto >= rank && upto != 0) return latency_of_bin(bin) < l->least ? l->least : latency_of_bin(bin);
    }
    return 0;
}

#endif
