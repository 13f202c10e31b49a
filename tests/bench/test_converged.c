/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench's case "converged" without a GPU: the evaluation of the lanes' notes. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runner.h"
#include "tools/mmbench/child/converged.h"

#define CLOCKS 400

/* A warp in several parts: lane i is in part i % parts. That part's arithmetic begins at `from` + part * `later` and takes `took` cycles. */
static void parted(struct lane_note *warp, unsigned parts, unsigned from, unsigned later, unsigned took) {
    memset(warp, 0, WARP_THREADS * sizeof *warp);
    for (unsigned i = 0; i < WARP_THREADS; i++) {
        warp[i].begin = from + i % parts * later, warp[i].end = warp[i].begin + took;
        for (unsigned k = i % parts; k < WARP_THREADS; k += parts) warp[i].after_malloc |= 1u << k;
        warp[i].after_free = warp[i].after_malloc;
    }
}

START_TEST(whole_and_parted) {
    struct lane_note warp[WARP_THREADS];
    struct converged_parts count = {0, 0};
    parted(warp, 1, 1000, 0, 70);
    ck_assert_uint_eq(converged_busy(warp), 70);
    converged_count(warp, &count);
    ck_assert(count.whole == 2 && count.all == 2);
    parted(warp, 32, 1000, 70, 70); /* one after the other */
    ck_assert_uint_eq(converged_busy(warp), 32 * 70);
    converged_count(warp, &count);
    ck_assert(count.whole == 2 && count.all == 2 + 64);
    parted(warp, 2, 1000, 100000, 70); /* the time between the parts is malloc's */
    ck_assert_uint_eq(converged_busy(warp), 140);
    parted(warp, 4, 1000, 10, 70); /* overlapping */
    ck_assert_uint_eq(converged_busy(warp), 100);
    parted(warp, 2, 0, 0, 70); /* at the same time */
    warp[1].end = 30;
    ck_assert_uint_eq(converged_busy(warp), 70);
    for (int i = 0; i < WARP_THREADS; i++) warp[i].after_malloc = warp[i].after_free = 0; /* no malloc */
    count.whole = count.all = 0;
    converged_count(warp, &count);
    ck_assert(count.whole == 0 && count.all == 0);
}
END_TEST

/* Compares with a count of every single clock cycle. */
START_TEST(any_intervals) {
    srand(1);
    for (int round = 0; round < 20000; round++) {
        struct lane_note warp[WARP_THREADS];
        char is_busy[CLOCKS];
        unsigned long long busy = 0;
        const int most = 1 + rand() % (round % 2 ? 20 : 200);
        memset(warp, 0, sizeof warp), memset(is_busy, 0, sizeof is_busy);
        for (int i = 0; i < WARP_THREADS; i++) {
            warp[i].begin = (unsigned long long)(rand() % 200), warp[i].end = warp[i].begin + (unsigned long long)(rand() % most);
            for (unsigned long long at = warp[i].begin; at < warp[i].end; at++) is_busy[at] = 1;
        }
        for (int at = 0; at < CLOCKS; at++) busy += (unsigned long long)is_busy[at];
        ck_assert_uint_eq(converged_busy(warp), busy);
    }
}
END_TEST

/* The sum does not depend on the start time, and differs between lanes. */
START_TEST(sums) {
    for (unsigned i = 0; i < WARP_THREADS; i++) {
        ck_assert_uint_eq(converged_sum(i, 0), converged_sum(i, ~0ull >> 1));
        for (unsigned k = 0; k < i; k++) ck_assert_uint_ne(converged_sum(i, 0), converged_sum(k, 0));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("converged");
    TCase *tests = tcase_create("converged");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, whole_and_parted);
    tcase_add_test(tests, any_intervals);
    tcase_add_test(tests, sums);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
