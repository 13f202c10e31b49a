/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* MM_FAIL: which requests malloc refuses, in heaps of every kind that are closed; nothing else changes. */
#include "tests/unit/jitter.h" /* first; threads meet between two accesses even on a busy machine */

#include <pthread.h>

#include "runtime/checked/closed.h"
#include "tests/unit/support.h"

#define SEGMENTS 24

static struct mm_cpu_heap heap;
static struct mm_heap_ref ref;
static struct mm_fail *fail;
static struct mm_mailbox mailbox;

static void set_up_with(enum mm_fail_kind kind, uint64_t number, uint64_t seed, int is_checked) {
    ck_assert_int_eq(mm_cpu_heap_create(&heap, SEGMENTS, SEGMENTS, MM_SEGMENT_BYTES), 0);
    if (is_checked) mm_heap_image_guard(mm_heap_of(&heap.ref));
    heap.ref = mm_heap_of(&heap.ref)->ref;
    ref = heap.ref;
    if (is_checked) ref.guard = (uint64_t)(uintptr_t)calloc(1, mm_guard_bytes(SEGMENTS));
    ref.open_bytes = 0;
    ref.fail = kind;
    memset(&mailbox, 0, sizeof mailbox);
    ref.mailbox = (uint64_t)(uintptr_t)&mailbox;
    fail = &mm_heap_of(&ref)->fail;
    fail->number = number, fail->seed = seed, fail->inverse = number ? ~0ull / number : 0;
}
static void tear_down(void) {
    free((void *)(uintptr_t)ref.guard);
    mm_cpu_heap_destroy(&heap);
}

/* Makes a request, malloc or aligned malloc, and frees what it got. Returns whether it got NULL. */
static int is_refused(uint64_t n) {
    void *p = n % 3 ? mm_closed_malloc(&ref, 1 + n % 5000) : mm_closed_aligned_malloc(&ref, 100, 64);
    mm_closed_free(&ref, p);
    return p == NULL;
}

/* Of each `number` requests one fails, in a checked run, too; the same ones with the same seed, and others with another. */
static const uint64_t shares[] = {1, 2, 3, 10, 64, 1000};
START_TEST(one_in) {
    enum { REQUESTS = 24000 };
    static char first[REQUESTS];
    const uint64_t number = shares[_i];
    for (int round = 0; round < 4; round++) { /* 0, 1: the same; 2: another seed; 3: a checked run */
        uint64_t in_group = 0, failed = 0, same = 0;
        set_up_with(MM_FAIL_SHARE, number, round == 2 ? 7 : 0, round == 3);
        for (uint64_t n = 0; n < REQUESTS; n++) {
            const int is = is_refused(n);
            if (n % number == 0) in_group = 0;
            in_group += (uint64_t)is, failed += (uint64_t)is;
            unit_holds(n % number != number - 1 || in_group == 1, "%llu of the %llu requests before %llu failed", (unsigned long long)in_group,
                       (unsigned long long)number, (unsigned long long)n);
            if (round == 0) first[n] = (char)is;
            same += (uint64_t)(is == first[n]);
        }
        unit_holds((same == REQUESTS) == (round != 2 || number == 1), "number %llu, round %d: %llu requests as in round 0", (unsigned long long)number, round,
                   (unsigned long long)same);
        unit_eq(failed, REQUESTS / number);
        unit_eq(fail->failed, failed);
        unit_eq(fail->requests, REQUESTS);
        unit_eq(mailbox.failed, failed);
        unit_eq(mm_cpu_null_count(&heap), 0); /* it was not for lack of memory */
        unit_eq(unit_misuses(&heap), 0);
        tear_down();
    }
}
END_TEST

/* Request n is the refused one of its group by division, too, for all kinds of n and number. */
START_TEST(no_division) {
    uint64_t random = 1, placed = 0;
    set_up_with(MM_FAIL_SHARE, 1, 0, 0);
    for (int i = 0; i < 2000000; i++) {
        const uint64_t number = (unit_random(&random) >> (16 + unit_random(&random) % 48)) + 1, group = unit_random(&random) % (1ull << 62) / number;
        fail->number = number, fail->inverse = ~0ull / number, fail->seed = unit_random(&random) % 4;
        const uint64_t place = mm_fail_place(group, number, fail->seed), n = group * number + (i % 2 ? place : unit_random(&random) % number);
        unit_lt(place, number);
        unit_holds(mm_fail_is_placed(fail, n) == (n % number == place), "request %llu of groups of %llu", (unsigned long long)n, (unsigned long long)number);
        placed += n % number == place;
    }
    unit_lt(1000000, placed + 1);
    tear_down();
}
END_TEST

/* The places in groups are spread: with 1/10 each of the ten places occurs. */
START_TEST(places) {
    unsigned seen = 0;
    set_up_with(MM_FAIL_SHARE, 10, 0, 0);
    for (uint64_t n = 0; n < 1000; n++)
        if (is_refused(n)) seen |= 1u << n % 10;
    unit_eq(seen, 1023);
    tear_down();
}
END_TEST

START_TEST(one) {
    static const uint64_t numbers[] = {1, 2, 100};
    for (int i = 0; i < 3; i++) {
        set_up_with(MM_FAIL_NUMBER, numbers[i], 0, i % 2);
        for (uint64_t n = 1; n <= 200; n++) unit_eq(is_refused(n), n == numbers[i]);
        unit_eq(fail->failed, 1);
        unit_eq(fail->requests, 200);
        tear_down();
    }
}
END_TEST

START_TEST(kernel) {
    set_up_with(MM_FAIL_KERNEL, 0, 0, 0);
    for (int round = 0; round < 3; round++) {
        fail->is_on = round == 1;
        for (uint64_t n = 0; n < 100; n++) unit_eq(is_refused(n), round == 1);
    }
    unit_eq(fail->failed, 100);
    unit_eq(fail->requests, 300);
    tear_down();
}
END_TEST

/* What does not fail is filled if MM_FILL says so; a heap that lacks memory counts its NULLs as before. No mailbox: nothing is written there. */
START_TEST(with_others) {
    set_up_with(MM_FAIL_NUMBER, 2, 0, 0);
    ref.fill = MM_FILL_JUNK, ref.mailbox = 0;
    unsigned char *p = (unsigned char *)mm_closed_malloc(&ref, 100);
    unit_eq(p[0], MM_FILL_JUNK_WORD & 0xff);
    unit_eq(p[99], MM_FILL_JUNK_WORD & 0xff);
    ck_assert(mm_closed_malloc(&ref, 100) == NULL);
    unit_eq(mm_cpu_null_count(&heap), 0);
    ck_assert(mm_closed_malloc(&ref, (SEGMENTS + 1) * MM_SEGMENT_BYTES) == NULL);
    unit_eq(mm_cpu_null_count(&heap), 1);
    mm_closed_free(&ref, p);
    unit_sound(&heap, 0);
    tear_down();
}
END_TEST

/* Four threads: as many fail in all as the share says, whatever the order. */
static uint64_t refused[4];
static void *work(void *at) {
    for (uint64_t n = 0; n < 5000; n++) *(uint64_t *)at += (uint64_t)is_refused(n);
    return NULL;
}
START_TEST(threads) {
    pthread_t thread[4];
    set_up_with(MM_FAIL_SHARE, 8, 3, 0);
    memset(refused, 0, sizeof refused);
    for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, work, &refused[i]);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    unit_eq(refused[0] + refused[1] + refused[2] + refused[3], 4 * 5000 / 8);
    unit_eq(fail->failed, 4 * 5000 / 8);
    unit_sound(&heap, 0);
    tear_down();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fail");
    TCase *tests = tcase_create("fail");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, one_in, 0, sizeof shares / sizeof *shares);
    tcase_add_test(tests, no_division);
    tcase_add_test(tests, places);
    tcase_add_test(tests, one);
    tcase_add_test(tests, kernel);
    tcase_add_test(tests, with_others);
    tcase_add_test(tests, threads);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
