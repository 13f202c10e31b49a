/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Warps of several lanes that the machine never changes between (warps.h): no lane waits for a lane of its own warp, on any path. Lanes
 * of a warp want the same class or different ones, few or many slices to a lot, runs, and come alone or together; memory is there
 * or short. All calls end after a bounded number of steps, nothing is handed out twice, and the heap is sound and fresh at the end.
 */
#define UNIT_WARPS 6
#include "tests/unit/warps.h"

#include "tests/unit/support.h"

#define MOST_STEPS 400000L /* of a warp without the end of a call; a wait that nobody ends takes MM_WAIT_ITERATIONS */
#define ROUNDS 24
#define HELD 3

static struct mm_cpu_heap heap;
static const uint32_t *sizes;
static uint32_t size_count, lanes_apart; /* lanes_apart: a lane of so many, on average, sits a round out */
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

static const uint32_t small[] = {16, 48, 64, 112, 256, 1000}, large[] = {65536, 100000, 262144, 600000, 1048576, 2097152},
                      wide[] = {16, 512, 4096, 40000, 300000, 1500000, 5000000, 64}, one[] = {700000}, runs[] = {5000000, 9000000, 64};
static const struct {
    const uint32_t *sizes;
    uint32_t count, segments;
} cases[] = {{small, 6, 64}, {large, 6, 256}, {wide, 8, 256}, {one, 1, 128}, {runs, 3, 512}, {large, 6, 24}, {wide, 8, 16}, {small, 6, 2}};
#define CASES (sizeof cases / sizeof *cases)

static void run_case(uint32_t n, uint32_t seed, long most_steps) {
    sizes = cases[n].sizes, size_count = cases[n].count, lanes_apart = seed % 3 ? 4 : 0, nulls = 0;
    unit_create(&heap, cases[n].segments);
    for (int w = 0; w < UNIT_WARPS; w++) unit_warp[w].home = seed % 2 ? (uint32_t)w : 0;
    const int stuck = unit_warps_run(work, seed + 1, 1u << seed % 6, most_steps);
    unit_holds(stuck == 0, "warp %d does not go on", stuck - 1);
    unit_eq(unit_misuses(&heap), 0);
    if (cases[n].segments >= 64) unit_eq(nulls, 0);
    for (uint32_t i = 0; i < MM_WARP_SLOTS; i++) unit_eq(mm_heap_of(&heap.ref)->inside[i], 0);
    unit_fresh(&heap, cases[n].segments);
}

START_TEST(nobody_waits_for_its_own_warp) { run_case((uint32_t)_i % CASES, (uint32_t)_i / CASES, MOST_STEPS); }
END_TEST

/* Warps whose parts the program has let go: a part that waits sees that another is inside, or has drawn, and lets it go on; it is not only
 * let go after MM_LET_GO_STEPS, which take more steps than are allowed here. */
START_TEST(parts_of_a_warp_are_let_go) {
    unit_warps_parts = 2;
    run_case((uint32_t)_i % CASES, (uint32_t)_i / CASES, 4L * MM_LET_GO_STEPS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("warps");
    TCase *tests = tcase_create("no change between lanes");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, nobody_waits_for_its_own_warp, 0, (int)CASES * 12);
    tcase_add_loop_test(tests, parts_of_a_warp_are_let_go, 0, (int)CASES * 12);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
