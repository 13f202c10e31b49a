/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The case probes without a GPU: its rows for each allocator, and that wrong units are found. The kernels are stand-ins that take units one after the
 * other; a planted fault hands out a unit twice, or one that was taken, or none. tests/unit/test_probes.c tests the draws themselves. */
#include "tests/bench/device.h"
#include "tests/runner.h"

#include "runtime/core/layout.h"
#include "tools/mmbench/child/papers/probes.h"

#define AVAILABLE 5242u
#define THREADS 4096u

/* The child's name, and its end with one line. */
static const char *test_name;
static void test_fatal(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(EXIT_FAILURE);
}
#define alloc_name test_name
#define child_fatal test_fatal
#include "tools/mmbench/child/papers/probes_case.c"
#undef alloc_name
#undef child_fatal

enum fault { WELL, TWICE, TAKEN, NONE, UNLISTED };
static enum fault fault;
static const uint32_t *placed;
static uint32_t heaps, words_placed;
static struct mm_heap_ref its_heap;

static void heap(const struct mm_heap_ref *ref) { its_heap = *ref, heaps++; }
static void list(uint32_t segments) { ((struct mm_class_state *)its_heap.classes_at)->count = segments - (fault == UNLISTED); }
static void place(const uint32_t *taken, uint32_t words) { placed = taken, words_placed = words; }
static void take_units(uint32_t threads, uint32_t *units, struct probes_note *notes) {
    const struct probes_note one = {2, 3, 4, 1};
    uint32_t unit = 0;
    for (uint32_t i = 0; i < threads; i++, unit++) {
        while (placed[unit / 32] >> unit % 32 & 1) unit++;
        units[i] = unit, notes[i] = one;
    }
    if (fault == TWICE) units[threads - 1] = units[0];
    if (fault == TAKEN)
        while (!(placed[units[7] / 32] >> units[7] % 32 & 1)) units[7]++;
    if (fault == NONE) units[9] = PROBES_NONE;
}
#define KERNELS \
    { heap, list, place, take_units }
const struct probes_kernels probes_rw = KERNELS, probes_bm = KERNELS, probes_coop = KERNELS, probes_rw_counted = KERNELS, probes_bm_counted = KERNELS,
                            probes_coop_counted = KERNELS;

static void run(const char *name, enum fault what) {
    struct request q;
    memset(&q, 0, sizeof q);
    strcpy(q.name, "probes");
    q.size = AVAILABLE, q.threads = THREADS, q.runs = 2;
    test_name = name;
    fault = what, heaps = 0;
    device_reset();
    run_probes(&q);
}

START_TEST(rows) {
    run("random-walk", WELL);
    ck_assert_str_eq(device_rows, "probes count 2 - 0 0\nover ratio 2 - 0 0\nover_words ratio 0 - 0 0\nsets count 2 - 0 0\nwarp_steps count 2 - 0 0\n"
                                  "warp_over ratio 2 - 0 0\nbeyond share 2 - 0 0\ntime us 2 - 0 0\n");
    ck_assert_uint_eq(heaps, 2);
    ck_assert_uint_eq(words_placed, (1u << 20) / 32);
    run("random-walk-bitmap", WELL);
    ck_assert_str_eq(device_rows, "probes count 2 - 0 0\nover ratio 2 - 0 0\nover_words ratio 2 - 0 0\nsets count 2 - 0 0\nwarp_steps count 2 - 0 0\n"
                                  "warp_over ratio 0 - 0 0\nbeyond share 2 - 0 0\ntime us 2 - 0 0\n");
    run("random-walk-coop", WELL);
    ck_assert_str_eq(device_rows, "probes count 2 - 0 0\nover ratio 0 - 0 0\nover_words ratio 0 - 0 0\nsets count 2 - 0 0\nwarp_steps count 2 - 0 0\n"
                                  "warp_over ratio 0 - 0 0\nbeyond share 2 - 0 0\ntime us 2 - 0 0\n");
}
END_TEST

START_TEST(wrong_units_are_found) {
    static const char *const marks[] = {[TWICE] = " 0 - 0 1\n", [TAKEN] = " 0 - 0 1\n", [NONE] = " 0 - 1 0\n"};
    run("random-walk-coop", (enum fault)_i);
    ck_assert_msg(strstr(device_rows, marks[_i]) != NULL && strstr(device_rows, " - 0 0\n") == NULL, "%s: expected%s", device_rows, marks[_i]);
}
END_TEST

START_TEST(an_unlisted_segment_ends_it) { run("random-walk", UNLISTED); }
END_TEST
START_TEST(another_allocator_ends_it) { run("mm", WELL); }
END_TEST

int main(void) {
    Suite *suite = suite_create("probes");
    TCase *tc = tcase_create("probes");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, rows);
    tcase_add_loop_test(tc, wrong_units_are_found, TWICE, NONE + 1);
    tcase_add_exit_test(tc, an_unlisted_segment_ends_it, EXIT_FAILURE);
    tcase_add_exit_test(tc, another_allocator_ends_it, EXIT_FAILURE);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
