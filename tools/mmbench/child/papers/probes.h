/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases probes and probes_large: how many units random walk looks at until it has one, compared with the formulas of the paper, and the time.
 * Pham and others: random-walk allocation for parallel threads on GPUs. ACM Transactions on Parallel Computing 12(1), 2025.
 *
 * T units are in the list of segments, all taken but A, which are chosen at random. N threads call malloc for one unit each: the allocator's own code
 * (runtime/random_walk, runtime/listed), in a kernel that has a heap of its own, without memory behind it. One constant differs. In a program, malloc lets
 * the list grow after some draws in vain (MM_WALK_PROBES, MM_WALK_UNIT_PROBES); the paper's threads draw until they have a unit, and so do these, up to
 * PROBES_STEPS draws. The share of warps that would have reached malloc's bound is one of the results.
 *
 * Each kernel exists twice: as it is, for the time, and with counters in the allocator's atomics and loads (probes_kernels.h).
 */
#ifndef MM_BENCH_PROBES_H
#define MM_BENCH_PROBES_H

#include <stdint.h>

#define PROBES_WORD 32u         /* units in a word: the paper's w */
#define PROBES_LANES 32u        /* of a warp */
#define PROBES_SHIFT 20         /* log2 of the units, in the case probes */
#define PROBES_SHIFT_LARGE 25   /* and in probes_large */
#define PROBES_STEPS (1u << 20) /* where a thread needs most, one unit in 2,000 is free */
#define PROBES_NONE 0xffffffffu /* no unit */

struct probes_point {
    uint32_t units, available, threads; /* T, A, N */
};

/* What one thread did. */
struct probes_note {
    uint32_t sets, reads; /* test-and-sets; words read */
    uint32_t steps;       /* of its warp, as far as it took part */
    uint32_t is_beyond;   /* whether malloc would have let the list grow before */
};

/* All threads together, per thread or per warp. */
struct probes_found {
    double sets, reads; /* of a thread, mean */
    double steps;       /* of a warp, mean: the longest of its lanes */
    double beyond;      /* share of warps for which malloc would have let the list grow */
};

struct mm_heap_ref;
struct probes_kernels {
    /* The heap that the kernels use from now on. */
    void (*heap)(const struct mm_heap_ref *ref);
    /* Puts its segments, so many, into the list. */
    void (*list)(uint32_t segments);
    /* Takes the units whose bits are set; frees the others. */
    void (*place)(const uint32_t *taken, uint32_t words);
    /* Each thread takes one unit: units[i], or PROBES_NONE. notes: unused unless the kernels count. threads: a multiple of CTA_THREADS. */
    void (*take)(uint32_t threads, uint32_t *units, struct probes_note *notes);
};

#ifdef __cplusplus
extern "C" {
#endif

/* NAME_counted: with counters. */
extern const struct probes_kernels probes_rw, probes_bm, probes_coop, probes_rw_counted, probes_bm_counted, probes_coop_counted;

/* ---- probes_host.c ---------------------------------------------------------------------------- */

/* Chooses `available` of the units, at most half of them; the same for the same seed. taken: a bit for each unit, set unless it was chosen. units: a power
 * of two, at least 32. */
void probes_place(uint32_t *taken, uint32_t units, uint32_t available, uint64_t seed);
/* How many of these units were taken before, or handed out twice, or are none. taken: as placed; it is the same afterwards. */
uint64_t probes_wrong(uint32_t *taken, uint32_t units, const uint32_t *got, uint32_t threads);
struct probes_found probes_evaluate(const struct probes_note *notes, uint32_t threads, uint32_t lanes);

/* The paper's formulas. RW: mean test-and-sets of a thread. */
double probes_sets(struct probes_point p);
/* RW: an upper bound of the mean steps of a warp with so many lanes. */
double probes_steps(struct probes_point p, uint32_t lanes);
/* RW-BM: mean words that a thread reads. */
double probes_reads(struct probes_point p);
/* The same, without the paper's assumption that what is left is spread at random. Words are drawn, not units: those with few free units lose as many as
 * the others, and are empty sooner. If each word is drawn Poisson(d) times, N is the sum over words of E min(Poisson(d), free units), and the mean is d
 * times the words over N. */
double probes_reads_of_words(struct probes_point p);

/* ---- probes_case.c ---------------------------------------------------------------------------- */

struct request;
void run_probes(const struct request *q);

#ifdef __cplusplus
}
#endif
#endif
