/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Warps of several lanes that the machine never switches between (warps.h): no lane waits for a lane of its own warp, on any path. Lanes of a warp want
 * the same class or different ones, spans, runs, and call alone or together; memory is plentiful or short. All calls end after a bounded number of steps,
 * nothing is handed out twice, and the heap is sound and fresh at the end.
 */
#define UNIT_WARPS 6
#include "tests/unit/warps.h"

#undef MM_MAKE_AHEAD /* so few numbers that eight lanes make blocks ahead, too, where segments are free */
#define MM_MAKE_AHEAD 16
#undef MM_MAKE_LEAST
#define MM_MAKE_LEAST 32
/* Far more than a call takes; or so few that a bound may pass. */
#undef MM_WAIT_ITERATIONS
#define MM_WAIT_ITERATIONS wait_iterations
static uint32_t wait_iterations = 1u << 21;
#define WAIT_FEW (1u << 12)
enum { MAKE_POLLS = MM_MAKE_POLLS }; /* each has several accesses */
#undef MM_MAKE_POLLS
#define MM_MAKE_POLLS make_polls
static uint32_t make_polls = MAKE_POLLS;
#define MAKE_FEW 64
enum { LOCK_POLLS = MM_LOCK_POLLS };
#undef MM_LOCK_POLLS
#define MM_LOCK_POLLS lock_polls
static uint32_t lock_polls = LOCK_POLLS;
#define LOCK_FEW 1024
enum { BUSY_POLLS = MM_LISTED_BUSY_POLLS };
#undef MM_LISTED_BUSY_POLLS
#define MM_LISTED_BUSY_POLLS busy_polls
static uint32_t busy_polls = BUSY_POLLS;

#include "tests/unit/support.h"

#define MOST_STEPS 400000L /* of a warp without the end of a call; a wait that is never ended takes MM_WAIT_ITERATIONS */
#define ROUNDS 24
#define HELD 3

static struct mm_cpu_heap heap;
static const uint32_t *sizes;
static uint32_t size_count, lanes_apart; /* lanes_apart: one in so many lanes, on average, sits a round out */
static uint64_t nulls;

static void *take(uint64_t bytes, uint64_t tag) {
    uint64_t *p = (uint64_t *)mm_heap_malloc(&heap.ref, bytes);
    unit_lane_called();
    nulls += p == NULL;
    if (p == NULL) return NULL;
    p[0] = tag;
    if (bytes >= 16) p[bytes / 8 - 1] = ~tag;
    return p;
}
static void give(void *at, uint64_t bytes, uint64_t tag) {
    uint64_t *p = (uint64_t *)at;
    if (p == NULL) return;
    unit_holds(p[0] == tag && (bytes < 16 || p[bytes / 8 - 1] == ~tag), "%llu bytes at %p were handed out twice", (unsigned long long)bytes, at);
    mm_heap_free(&heap.ref, p);
    unit_lane_called();
}

/* Each lane holds up to HELD objects, of sizes that change from lane to lane in some rounds and are the same in others. */
static void work(uint32_t thread) {
    void *held[HELD] = {NULL, NULL, NULL};
    uint64_t bytes[HELD] = {0, 0, 0}, tag[HELD] = {0, 0, 0}, seed = thread + 1;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t k = round % HELD;
        give(held[k], bytes[k], tag[k]), held[k] = NULL;
        if (lanes_apart != 0 && unit_random(&seed) % lanes_apart == 0) continue;
        bytes[k] = sizes[(round % 2 ? round : round + thread) % size_count], tag[k] = (uint64_t)thread << 32 | round;
        held[k] = take(bytes[k], tag[k]);
    }
    for (uint32_t k = 0; k < HELD; k++) give(held[k], bytes[k], tag[k]);
}

#define PAGES(n) ((uint32_t)((n)*MM_PAGE_BYTES))
#define SEGMENTS(n) ((uint32_t)((n)*MM_SEGMENT_BYTES))
static const uint32_t small[] = {16, 48, 64, 112, 256, 1000}, large[] = {MM_SLICE_BYTES_MAX, PAGES(6), PAGES(16), PAGES(37), PAGES(64), PAGES(128)},
                      wide[] = {16, 512, PAGES(1) / 4, MM_SLICE_BYTES_MAX / 2, PAGES(18), PAGES(91), PAGES(300), 64}, one[] = {PAGES(43)},
                      runs[] = {SEGMENTS(5) - 16, SEGMENTS(9), 64}, same[] = {48};
static const struct {
    const uint32_t *sizes;
    uint32_t count, segments;
    int is_enough;
} cases[] = {{small, 6, 64, 1}, {large, 6, 512, 1}, {wide, 8, 1024, 1}, {one, 1, 256, 1}, {runs, 3, 2048, 1}, {same, 1, 16, 1},
             {same, 1, 256, 1}, {large, 6, 24, 0},  {wide, 8, 16, 0},   {small, 6, 2, 0}, {small, 6, 1, 0},   {same, 1, 1, 0}};
#define CASES (sizeof cases / sizeof *cases)

static void run_case(uint32_t n, uint32_t seed, long most_steps) {
    sizes = cases[n].sizes, size_count = cases[n].count, lanes_apart = seed % 3 ? 4 : 0, nulls = 0;
    unit_create(&heap, cases[n].segments);
    for (int w = 0; w < UNIT_WARPS; w++) unit_warp[w].home = seed % 2 ? (uint32_t)w : 0;
    const int stuck = unit_warps_run(work, seed + 1, 1u << seed % 6, most_steps);
    unit_holds(stuck == 0, "case %u, seed %u: warp %d does not go on", n, seed, stuck - 1);
    unit_eq(unit_misuses(&heap), 0);
    if (cases[n].is_enough && unit_warps_parts == 1) unit_holds(nulls == 0, "case %u, seed %u: NULL while there is memory", n, seed);
    unit_eq(mm_cpu_null_count(&heap), nulls);
    unit_fresh(&heap, cases[n].segments);
    mm_cpu_heap_destroy(&heap);
}

static uint32_t seeds(void) {
    const char *from = getenv("UNIT_SEED");
    return from ? (uint32_t)atoi(from) : 0;
}

/* A bound that passes means a lane waited for another lane of its warp. */
START_TEST(nobody_waits_for_its_own_warp) { run_case((uint32_t)_i % CASES, seeds() + (uint32_t)_i / CASES, MOST_STEPS); }
END_TEST

/* Warps in two parts: a wait for the other part's work goes on when a bound has passed. */
START_TEST(parts_of_a_warp_wait_with_a_bound) {
    unit_warps_parts = 2, wait_iterations = WAIT_FEW, make_polls = MAKE_FEW, lock_polls = busy_polls = LOCK_FEW;
    run_case((uint32_t)_i % CASES, seeds() + (uint32_t)_i / CASES, 2 * MOST_STEPS);
}
END_TEST

#if defined MM_LISTED_MALLOC_H && !defined MM_OURO_CLASSES /* whose units are no lengths */
/* Lanes that sweep together get the same result: memory of some lane, and the longest that any of them saw. */
static struct mm_listed_swept of_lane[UNIT_WARPS * UNIT_LANES];
static uint32_t sweeps_for, is_round_of_lanes;
static void sweep_together(uint32_t thread) {
    if (thread >= UNIT_LANES) return;
    of_lane[thread] = mm_listed_sweep(&heap.ref, mm_warp_here(), sweeps_for, (int)is_round_of_lanes);
    unit_lane_called();
}
static void sweep_of_warp(uint32_t n, uint32_t is_round) {
    sweeps_for = n, is_round_of_lanes = is_round;
    unit_eq(unit_warps_run(sweep_together, 1, 1, MOST_STEPS), 0);
    for (uint32_t lane = 0; lane < UNIT_LANES; lane++)
        unit_holds(of_lane[lane].address == of_lane[0].address && of_lane[lane].most == of_lane[0].most, "lane %u", lane);
}
static uint64_t held_units[3 * MM_SEGMENT_BYTES / 16];
START_TEST(lanes_sweep_together) {
    const uint32_t count = 3, rooms[3] = {2, 7, 1};
    uint32_t n = 0;
    unit_create(&heap, count);
    const uint64_t each = unit_taken(1);
    for (;;) {
        void *p = mm_heap_malloc(&heap.ref, 1);
        if (p == NULL) break;
        held_units[n++] = (uint64_t)p;
    }
    for (uint32_t k = 0; k < count; k++) { /* rooms[k] units in a row, in segment k of the list */
        const uint64_t from = heap.ref.user_base + (uint64_t)mm_list_segment(&heap.ref, k) * MM_SEGMENT_BYTES + 9 * each;
        for (uint32_t i = 0; i < n; i++)
            if (held_units[i] - from < rooms[k] * each) mm_heap_free(&heap.ref, (void *)held_units[i]);
    }
    mm_list_state(&heap.ref)->is_awaited = 1;
    sweep_of_warp(8, 1);
    unit_eq(of_lane[0].address, 0);
    unit_eq(of_lane[0].most, 7);
    sweep_of_warp(2, 0);
    unit_holds(of_lane[0].address != 0, "segments 0 and 1 have two units");
    sweep_of_warp(2, 1);
    unit_holds(of_lane[0].address != 0 && of_lane[0].most >= 3 && of_lane[0].most <= 5, "%u", of_lane[0].most);
    mm_cpu_heap_destroy(&heap);
}
END_TEST
#endif

#ifndef CASE_SEEDS
#ifdef UNIT_FEW /* once for each face of random walk */
#define CASE_SEEDS 4
#else
#define CASE_SEEDS 12
#endif
#endif

int main(void) {
    Suite *suite = suite_create("warps");
    TCase *tests = tcase_create("no change between lanes");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, nobody_waits_for_its_own_warp, 0, (int)CASES * CASE_SEEDS);
    tcase_add_loop_test(tests, parts_of_a_warp_wait_with_a_bound, 0, (int)CASES * CASE_SEEDS);
#if defined MM_LISTED_MALLOC_H && !defined MM_OURO_CLASSES /* whose units are no lengths */
    tcase_add_test(tests, lanes_sweep_together);
#endif
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
