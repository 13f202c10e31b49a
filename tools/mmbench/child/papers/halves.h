/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The case half: in each round every slot of a new array allocates, and then a random half of them is freed, until malloc returns NULL. An
 * allocator that uses freed memory again lasts twice as many rounds as one that does not. Each allocation holds a pattern of its slot, which is
 * checked when it is freed, and at the end.
 * M. Winter, M. Parger, D. Mlakar, M. Steinberger, "Are dynamic memory managers on GPUs slow? A survey and benchmarks", PPoPP 2021.
 */
#ifndef MM_BENCH_HALVES_H
#define MM_BENCH_HALVES_H

#include "tools/mmbench/child/papers/papers.h"

/* Whether the slot is freed in its round. */
TOOLS_BOTH int halves_goes(unsigned long long slot) { return (int)(mix((unsigned)slot * 0x9e3779b9u + (unsigned)(slot >> 32)) & 1); }
/* Word `word` of the slot's allocation. */
TOOLS_BOTH unsigned halves_word(unsigned long long slot, unsigned word) { return mix((unsigned)slot ^ mix((unsigned)(slot >> 32) + 0x2545f491u)) + word; }

/* A round: `count` slots from number `first` on; their pointers are at `slots`. */
struct halves_round {
    void **slots;
    unsigned long long first;
    unsigned count, words; /* words of each allocation */
};

struct halves_kernels {
    void (*take)(struct halves_round round, struct bump *b, struct tally *t);
    void (*give_half)(struct halves_round round, struct tally *t);
    /* Checks all slots that are left: corruption, and where they lie (lowest, end, bytes). */
    void (*check)(struct halves_round round, struct tally *t);
};

#ifdef __cplusplus
extern "C" {
#endif
extern const struct halves_kernels alloc_halves, floor_halves;

void run_half(const struct request *q);
#ifdef __cplusplus
}
#endif
#endif
