/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench's case probes without a GPU: random walk's draws by warps of several lanes, counted as there, against the paper's formulas; and what the case
 * works out on the host.
 */
#include <math.h>

#include "tests/unit/warps.h"

#define PROBES_COUNTED
#define PROBES_THREADS (UNIT_WARPS * UNIT_LANES)
#define PROBES_THREAD (unit_warp_now < 0 ? 0 : unit_warp_now * UNIT_LANES + unit_lane_now)
#include "tools/mmbench/child/papers/probes_host.c"
#include "tools/mmbench/child/papers/probes_kernels.h"

#include "tests/unit/support.h"

#define SEGMENTS 32u
#define UNITS (SEGMENTS * MM_WALK_UNITS)
#define THREADS_ENOUGH 4096u  /* so many make a mean that is near enough */
#define MOST_STEPS (1L << 30) /* of a warp: draws are bounded by PROBES_STEPS */

static const double shares[] = {0.5, 0.1, 0.01, 0.005};
#define SHARES ((int)(sizeof shares / sizeof *shares))
static const double parts[] = {1.0 / 8, 1.0 / 3, 0.9}; /* N / A */
#define PARTS ((int)(sizeof parts / sizeof *parts))

static struct mm_cpu_heap heap;
static uint32_t taken[UNITS / 32], got[UNITS], launched;
static struct probes_note notes[UNITS];

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    probes_heap = heap.ref;
    while (mm_list_add(&heap.ref, 1, MM_LISTED_ANY) == MM_LISTED_MORE) {
    }
    unit_eq(mm_list_count(&heap.ref), SEGMENTS);
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static void take_one(uint32_t thread) { notes[launched + thread] = probes_take_counted(&heap.ref, &got[launched + thread]); }

/* N threads, in rounds of those that the machine has. */
static struct probes_found measure(struct probes_point p, uint64_t seed) {
    probes_place(taken, p.units, p.available, seed);
    for (uint32_t w = 0; w < p.units / 32; w++) mm_store_relaxed_u64(mm_units_word(&heap.ref, w), mm_units_make(taken[w], 0));
    for (launched = 0; launched < p.threads; launched += PROBES_THREADS)
        unit_eq(unit_warps_run(take_one, (seed << 20 | launched) * 0x9e3779b97f4a7c15ull, 16, MOST_STEPS), 0);
    for (uint32_t i = 0; i < p.threads; i++) unit_holds(got[i] != PROBES_NONE, "thread %u has no unit", i);
    unit_eq(probes_wrong(taken, p.units, got, p.threads), 0);
    return probes_evaluate(notes, p.threads, UNIT_LANES);
}

static struct probes_point point_of(int i) {
    const uint32_t available = (uint32_t)(UNITS * shares[i / PARTS]), threads = (uint32_t)(available * parts[i % PARTS]);
    const struct probes_point p = {UNITS, available, threads - threads % PROBES_THREADS};
    return p;
}

/* Means over several placements, if there are few threads. */
static struct probes_found mean(struct probes_point p, int i) {
    const uint64_t seeds = 1 + THREADS_ENOUGH / p.threads;
    struct probes_found sum = {0, 0, 0, 0};
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        const struct probes_found f = measure(p, seed << 8 | (uint64_t)i);
        sum.sets += f.sets, sum.reads += f.reads, sum.steps += f.steps, sum.beyond += f.beyond;
    }
    sum.sets /= (double)seeds, sum.reads /= (double)seeds, sum.steps /= (double)seeds, sum.beyond /= (double)seeds;
    return sum;
}

static void is_near(const char *what, struct probes_point p, double is, double expected, double least, double most) {
    unit_holds(is >= least * expected && is <= most * expected, "%u free of %u, %u threads: %g %s, expected %g to %g times %g", p.available, p.units, p.threads,
               is, what, least, most, expected);
}

START_TEST(as_the_formulas_say) {
    const struct probes_point p = point_of(_i);
    const struct probes_found f = mean(p, _i);
    if (MM_WALK_FACE == MM_WALK_RW) {
        unit_holds(f.reads == 0, "%g words read", f.reads);
        is_near("test-and-sets", p, f.sets, probes_sets(p), .95, 1.05);
        is_near("steps of a warp", p, f.steps, probes_steps(p, UNIT_LANES), _i % PARTS == 0 ? .85 : .2, 1.03); /* part 0: nearly as many are free at the end */
    } else if (MM_WALK_FACE == MM_WALK_BM) {
        unit_holds(f.sets >= 1 && f.sets <= f.reads, "%g test-and-sets, %g words read", f.sets, f.reads);
        is_near("words read", p, f.reads, probes_reads_of_words(p), .95, 1.05);
        unit_holds(f.reads > .97 * probes_reads(p), "%g words read, the paper has %g", f.reads, probes_reads(p)); /* which is up to a third less */
    } else if (MM_WALK_FACE == MM_WALK_COOP) {
        unit_holds(fabs(f.reads / f.steps - 1) < 1e-9 && f.sets <= f.reads, "each lane reads one word in a step: %g, %g steps, %g test-and-sets", f.reads,
                   f.steps, f.sets);
        is_near("steps of a warp", p, f.steps, probes_reads(p), .5, 2.5); /* where lanes draw for themselves, the slowest decides */
    }
}
END_TEST

/* Warps that draw more often than malloc does before the list grows: all lanes have a unit after n draws with probability (1 - q^n)^lanes. */
START_TEST(beyond_the_bound) {
    const struct probes_point p = point_of(_i * PARTS);
    const struct probes_found f = mean(p, _i);
    const uint32_t word = MM_WALK_FACE == MM_WALK_RW ? 1 : PROBES_WORD,
                   draws = 1 + (MM_WALK_FACE == MM_WALK_RW ? PROBES_PATIENCE_UNITS : PROBES_PATIENCE_WORDS);
    const double early = 1 - pow(1 - pow(1 - (double)p.available / p.units, word * draws), UNIT_LANES);
    const double late = 1 - pow(1 - pow(1 - ((double)p.available - p.threads) / p.units, word * draws), UNIT_LANES);
    if (MM_WALK_FACE <= MM_WALK_BM) unit_holds(f.beyond >= .9 * early - .01 && f.beyond <= 1.1 * late + .01, "%g, expected %g to %g", f.beyond, early, late);
    else unit_holds(f.beyond < .2, "%g", f.beyond);
}
END_TEST

/* ---- on the host ------------------------------------------------------------------------------ */

START_TEST(placement_is_exact_and_even) {
    const uint32_t available = (uint32_t)(UNITS * shares[_i]), part = UNITS / 32 / 64;
    uint32_t all = 0;
    probes_place(taken, UNITS, available, (uint64_t)_i);
    for (uint32_t k = 0; k < 64; k++) {
        uint32_t free_units = 0;
        for (uint32_t w = k * part; w < (k + 1) * part; w++) free_units += mm_popcount(~taken[w]);
        const double expected = available / 64.0;
        unit_holds(fabs(free_units - expected) < 5 * sqrt(expected), "part %u: %u, expected %g", k, free_units, expected);
        all += free_units;
    }
    unit_eq(all, available);
    uint32_t bits[32] = {0};
    for (uint32_t w = 0; w < UNITS / 32; w++)
        for (uint32_t bit = 0; bit < 32; bit++) bits[bit] += !(taken[w] >> bit & 1);
    for (uint32_t bit = 0; bit < 32; bit++) unit_holds(fabs(bits[bit] - available / 32.0) < 5 * sqrt(available / 32.0), "bit %u: %u", bit, bits[bit]);
    static uint32_t other[UNITS / 32];
    probes_place(other, UNITS, available, (uint64_t)_i + 1);
    unit_holds(memcmp(taken, other, sizeof other) != 0, "another seed");
}
END_TEST

START_TEST(wrong_units_are_counted) {
    static uint32_t some[4] = {0xfffffff0u, 0xffffffffu, 0, 0xffffffffu};
    const uint32_t before[4] = {some[0], some[1], some[2], some[3]};
    const uint32_t fine[] = {3, 64, PROBES_NONE, 2}, twice[] = {3, 64, 3, 2}, was_taken[] = {3, 4, 0, 2}, none[] = {3, 128, 0, 2};
    unit_eq(probes_wrong(some, 128, fine, 4), 0);
    unit_holds(memcmp(some, before, sizeof some) == 0, "as before");
    unit_eq(probes_wrong(some, 128, twice, 4), 1);
    memcpy(some, before, sizeof some);
    unit_eq(probes_wrong(some, 128, was_taken, 4), 1);
    memcpy(some, before, sizeof some);
    unit_eq(probes_wrong(some, 128, none, 4), 1);
}
END_TEST

START_TEST(evaluation) {
    static const struct probes_note some[] = {{1, 2, 6, 0}, {3, 0, 4, 1}, {1, 1, 1, 0}, {1, 1, 1, 0}};
    const struct probes_found f = probes_evaluate(some, 4, 2);
    unit_holds(f.sets == 1.5 && f.reads == 1 && f.steps == 3.5 && f.beyond == .5, "%g %g %g %g", f.sets, f.reads, f.steps, f.beyond);
}
END_TEST

/* Against direct sums, and where the result is known. */
START_TEST(formulas) {
    const struct probes_point p = {1u << 20, 10485, 9000}, one = {1u << 20, 1u << 19, 1}, half = {1u << 20, 1u << 19, 1u << 18};
    double sum = 0;
    for (uint32_t j = 0; j < p.threads; j++) sum += (double)p.units / (p.available - j) / p.threads;
    unit_holds(fabs(probes_sets(p) / sum - 1) < .001, "%g, %g", probes_sets(p), sum);
    unit_holds(fabs(probes_sets(one) - 2) < .001, "%g", probes_sets(one));
    unit_holds(fabs(probes_steps(half, 1) - 4) < .001, "%g: a lane's mean", probes_steps(half, 1));
    unit_holds(fabs(probes_steps(half, 2) - (2 * 4 - 1 / (1 - .75 * .75))) < .001, "%g: the longer of two", probes_steps(half, 2));
    unit_holds(fabs(probes_reads(one) - 1) < .001 && fabs(probes_reads_of_words(one) - 1) < .001, "half of them free: %g, %g", probes_reads(one),
               probes_reads_of_words(one));
    const struct probes_point few = {1u << 20, 5242, 1};
    unit_holds(fabs(probes_reads(few) * (1 - pow(1 - 5242.0 / (1 << 20), 32)) - 1) < .001, "%g", probes_reads(few));
    unit_holds(fabs(probes_reads_of_words(few) / probes_reads(few) - 1) < .01, "one thread: %g, %g", probes_reads_of_words(few), probes_reads(few));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("probes");
    TCase *draws = tcase_create("draws"), *host = tcase_create("host");
    tcase_set_timeout(draws, 300);
    tcase_add_checked_fixture(draws, set_up, tear_down);
    tcase_add_loop_test(draws, as_the_formulas_say, 0, MM_WALK_FACE == MM_WALK_RUNS ? PARTS : SHARES * PARTS); /* the paper has no formula for RUNS */
    tcase_add_loop_test(draws, beyond_the_bound, 0, MM_WALK_FACE == MM_WALK_RUNS ? 0 : SHARES);
    tcase_add_loop_test(host, placement_is_exact_and_even, 0, SHARES);
    tcase_add_test(host, wrong_units_are_counted);
    tcase_add_test(host, evaluation);
    tcase_add_test(host, formulas);
    suite_add_tcase(suite, draws);
    suite_add_tcase(suite, host);
    return suite_run(suite);
}
