/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases ad, acd and p: one lane of each warp is a caller, which allocates and frees in short bursts.
 * M. Vinkler, V. Havran, "Register efficient dynamic memory allocator for GPUs", Computer Graphics Forum 2015.
 *
 *   ad   each caller allocates, writes, reads and frees, in one kernel
 *   acd  each caller makes 10 to 100 allocations, then frees all of them, in one kernel
 *   p    a kernel that is launched 10 times: a caller that holds nothing allocates, one that holds an allocation frees it, each with
 *        probability 3/4
 *
 * The owner writes the first word of an allocation, and reads it before it frees. The number of each caller's allocations and the sum of the words
 * that it read are compared with the CPU's.
 */
#ifndef MM_BENCH_BURSTS_H
#define MM_BENCH_BURSTS_H

#include "tools/mmbench/child/papers/papers.h"

#define BURST_LEAST 10u
#define BURST_MOST 100u
#define BURST_LAUNCHES 10u

struct burst_input {
    unsigned callers;
    unsigned long long bytes; /* of each allocation; at least 4 */
};

/* Of one caller. */
struct burst_result {
    unsigned long long allocations, sum; /* of the words that were read before a free */
};

/* The allocations of a caller in acd. */
TOOLS_BOTH unsigned burst_length(unsigned caller) { return BURST_LEAST + mix(caller + 0x1b873593u) % (BURST_MOST - BURST_LEAST + 1); }
/* Whether a caller acts in this launch of p. */
TOOLS_BOTH int burst_acts(unsigned caller, unsigned launch) { return mix(caller * 0x9e3779b9u + launch) % 4 != 0; }
/* The word that the owner writes. */
TOOLS_BOTH unsigned burst_word(unsigned caller, unsigned number) { return mix(caller ^ mix(number + 0x52dce729u)); }

/* Launches. held: BURST_MOST pointers for each caller (acd), or one (p); r: the results of all callers. */
struct burst_kernels {
    void (*ad)(struct burst_input in, struct bump *b, struct burst_result *r, struct tally *t);
    void (*acd)(struct burst_input in, void **held, struct bump *b, struct burst_result *r, struct tally *t);
    void (*p)(struct burst_input in, unsigned launch, void **held, struct bump *b, struct burst_result *r, struct tally *t);
    /* After the last launch of p: frees what is held. */
    void (*p_end)(struct burst_input in, void **held, struct burst_result *r, struct tally *t);
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct burst_kernels alloc_burst, floor_burst;

/* What a caller must find in a case: ad, acd, or p with all its launches. */
struct burst_result burst_expected(const char *name, unsigned caller);

void run_bursts(const struct request *q);
#ifdef __cplusplus
}
#endif
#endif
