/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite memory: books of a pool whose host memory fails once, at each call in turn, or from a call on. _i is the kind. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "mmconfig.h"
#include "tests/fit/pair.h"
#include "tests/fit/random.h"
#include "tests/runner.h"

static struct host_memory memory;
static unsigned first, last; /* the calls that fail, counted from 1 */

static bool fails(void) {
    const bool is_refused = ++memory.calls >= first && memory.calls <= last;
    memory.failed += is_refused;
    return is_refused;
}

void *failing_realloc(void *old, size_t bytes);
void *failing_realloc(void *old, size_t bytes) { return fails() ? NULL : realloc(old, bytes); }
void *failing_calloc(size_t count, size_t bytes);
void *failing_calloc(size_t count, size_t bytes) { return fails() ? NULL : calloc(count, bytes); }

/* (Each ck_assert is a system call.) */
#define SAME(call)                                                                                                                  \
    do {                                                                                                                            \
        const char *wrong_ = (call);                                                                                                \
        if (wrong_) ck_abort_msg("%s: calls %u to %u fail: %s: %s", mm_fit_name((enum mm_fit_kind)_i), first, last, #call, wrong_); \
    } while (0)

/* Ranges, allocations and frees, so that each table and page is made and grows. Returns how many calls for memory there were. */
static unsigned sequence(int _i) {
    enum { RANGES = 40, BLOCKS = 3 * MM_FIT_PAGE_BLOCKS, LONGEST = 8 };
    uint64_t random = 1, address[BLOCKS];
    struct pair p;
    memory = (struct host_memory){0, 0};
    const char *none = pair_begin(&p, (enum mm_fit_kind)_i, 16);
    ck_assert_int_eq(none != NULL, memory.failed > 0);
    if (none) return memory.calls;
    p.memory = &memory;
    for (unsigned i = 0; i < RANGES; i++) {
        const unsigned before = memory.failed;
        SAME(pair_add(&p, (1 + random_next(&random) % 10000) << 16, BLOCKS / RANGES * LONGEST * 16, NULL));
        if (memory.failed != before) SAME(pair_compare(&p));
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        const unsigned before = memory.failed;
        SAME(pair_allocate(&p, (1 + random_next(&random) % LONGEST) * 16, &address[i]));
        if (memory.failed != before) SAME(pair_compare(&p));
        if (i % 3 == 0 && address[i]) SAME(pair_free(&p, address[i]));
    }
    SAME(pair_compare(&p));
    while (pair_live(&p, 0)) SAME(pair_free(&p, pair_live(&p, (size_t)random_next(&random))));
    SAME(pair_compare(&p));
    SAME(pair_shrink(&p, 0));
    ck_assert_uint_eq(p.count, 0);
    SAME(pair_add(&p, 1 << 20, 1 << 20, NULL)); /* something is left for mm_fit_destroy */
    SAME(pair_allocate(&p, 1, NULL));
    SAME(pair_compare(&p));
    pair_end(&p);
    return memory.calls;
}

START_TEST(each_once) {
    first = last = 0;
    const unsigned calls = sequence(_i);
    ck_assert_uint_gt(calls, 8);
    for (first = last = 1; first <= calls; last = ++first) {
        sequence(_i);
        ck_assert_uint_eq(memory.failed, 1);
    }
}
END_TEST

START_TEST(from_one_on) {
    first = last = 0;
    const unsigned calls = sequence(_i);
    last = ~0u;
    for (first = 1; first <= calls; first++) {
        sequence(_i);
        ck_assert_uint_gt(memory.failed, 0);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("memory");
    TCase *t = tcase_create("memory");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, each_once, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, from_one_on, 0, MM_FIT_COUNT);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
