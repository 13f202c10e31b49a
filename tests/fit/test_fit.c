/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite fit: the books of a pool (runtime/host/fit), each kind against the exact oracle of pair.h. _i is the kind. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mmconfig.h"
#include "tests/fit/pair.h"
#include "tests/fit/random.h"
#include "tests/runner.h"

enum { GRAIN = 512 };
#define BASE (7ull << 30)

/* (Each ck_assert is a system call.) */
#define SAME(call)                                                                                \
    do {                                                                                          \
        const char *wrong_ = (call);                                                              \
        if (wrong_) ck_abort_msg("%s: %s: %s", mm_fit_name((enum mm_fit_kind)_i), #call, wrong_); \
    } while (0)

START_TEST(names) {
    enum mm_fit_kind kind = MM_FIT_COUNT;
    char list[128] = "";
    for (int k = 0; k < MM_FIT_COUNT; k++) {
        const char *name = mm_fit_name((enum mm_fit_kind)k);
        ck_assert(mm_fit_parse(name, &kind));
        ck_assert_int_eq(kind, k);
        strcat(list, k == 0 ? "" : k + 1 < MM_FIT_COUNT ? ", " : " or ");
        strcat(list, name);
    }
    ck_assert_str_eq(list, MM_FIT_NAMES);
    ck_assert_str_eq(mm_fit_name((enum mm_fit_kind)0), "tlsf");
    static const char *const bad[] = {"", "TLSF", "tlsf ", "firs", "first fit", "none"};
    kind = MM_FIT_NEXT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) ck_assert(!mm_fit_parse(bad[i], &kind));
    ck_assert_int_eq(kind, MM_FIT_NEXT);
}
END_TEST

START_TEST(empty) {
    struct pair p;
    SAME(pair_begin(&p, (enum mm_fit_kind)_i, GRAIN));
    SAME(pair_compare(&p));
    SAME(pair_allocate(&p, 1, NULL));
    SAME(pair_free(&p, BASE));
    SAME(pair_free(&p, 0));
    SAME(pair_look(&p, BASE));
    SAME(pair_shrink(&p, 0));
    SAME(pair_compare(&p));
    pair_end(&p);
    mm_fit_destroy(NULL);
}
END_TEST

START_TEST(ranges) {
    struct pair p;
    bool is_added;
    SAME(pair_begin(&p, (enum mm_fit_kind)_i, GRAIN));
    static const struct {
        uint64_t base, grains;
        bool is_added;
    } tries[] = {{BASE, 100, true},
                 {BASE, 100, false},                 /* the same */
                 {BASE + 99 * GRAIN, 1, false},      /* its end */
                 {BASE - GRAIN, 2, false},           /* its begin */
                 {BASE - GRAIN, 200, false},         /* around it */
                 {BASE + 50 * GRAIN, 100, false},    /* across its end */
                 {BASE + 100 * GRAIN, 1, true},      /* adjacent, above */
                 {BASE - 65 * GRAIN, 65, true},      /* adjacent, below */
                 {BASE + 1000 * GRAIN, 64, true},    /* apart */
                 {BASE + 101 * GRAIN, 899, true},    /* between both */
                 {0, 10, false},                     /* address 0 */
                 {BASE * 2, 0, false},               /* nothing */
                 {BASE * 2 + 16, 1, false},          /* no multiple of the grain */
                 {UINT64_MAX - GRAIN + 1, 1, false}, /* up to the end of the addresses */
                 {UINT64_MAX - GRAIN + 1, 2, false}, /* beyond it */
                 {GRAIN, 1, true}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        SAME(pair_add(&p, tries[i].base, tries[i].grains * GRAIN, &is_added));
        ck_assert_int_eq(is_added, tries[i].is_added);
        SAME(pair_compare(&p));
    }
    SAME(pair_add(&p, BASE * 2, GRAIN + 16, &is_added));
    ck_assert(!is_added);
    ck_assert_uint_eq(mm_fit_largest(p.fit), 899 * GRAIN);
    SAME(pair_allocate(&p, 900 * GRAIN, NULL)); /* adjacent ranges do not merge */
    SAME(pair_compare(&p));
    pair_end(&p);
}
END_TEST

START_TEST(sizes) {
    struct pair p;
    uint64_t address;
    SAME(pair_begin(&p, (enum mm_fit_kind)_i, GRAIN));
    SAME(pair_add(&p, BASE, 64 * GRAIN, NULL));
    static const uint64_t nothing[] = {0, 64 * GRAIN + 1, UINT64_MAX, UINT64_MAX - GRAIN, UINT64_MAX - GRAIN + 1, 1ull << 63};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        SAME(pair_allocate(&p, nothing[i], &address));
        ck_assert_uint_eq(address, 0);
    }
    static const uint64_t some[] = {1, GRAIN - 1, GRAIN, GRAIN + 1, 2 * GRAIN};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        SAME(pair_allocate(&p, some[i], &address));
        ck_assert_uint_ne(address, 0);
        ck_assert_uint_eq(mm_fit_live(p.fit, address), (some[i] + GRAIN - 1) / GRAIN * GRAIN);
    }
    SAME(pair_allocate(&p, 57 * GRAIN, &address)); /* the rest */
    ck_assert_uint_ne(address, 0);
    ck_assert_uint_eq(mm_fit_free_bytes(p.fit), 0);
    SAME(pair_allocate(&p, 1, &address));
    ck_assert_uint_eq(address, 0);
    SAME(pair_compare(&p));
    pair_end(&p);
}
END_TEST

/* A block is found for the very length that it was freed with, or added with, also if it is not the least of its list. */
START_TEST(again) {
    struct pair p;
    uint64_t address;
    SAME(pair_begin(&p, (enum mm_fit_kind)_i, GRAIN));
    for (uint64_t length = 1; length < 3000; length += 1 + length / 7) {
        SAME(pair_add(&p, BASE + length * GRAIN * 8192, length * GRAIN, NULL));
        for (int i = 0; i < 2; i++) {
            SAME(pair_allocate(&p, length * GRAIN, &address));
            ck_assert_uint_eq(address, BASE + length * GRAIN * 8192);
            if (i == 0) SAME(pair_free(&p, address));
        }
        SAME(pair_compare(&p));
    }
    pair_end(&p);
}
END_TEST

START_TEST(misuse) {
    struct pair p;
    uint64_t a, b;
    SAME(pair_begin(&p, (enum mm_fit_kind)_i, GRAIN));
    SAME(pair_add(&p, BASE, 128 * GRAIN, NULL));
    SAME(pair_add(&p, BASE + 128 * GRAIN, 70 * GRAIN, NULL));
    SAME(pair_allocate(&p, 3 * GRAIN, &a));
    SAME(pair_allocate(&p, 66 * GRAIN, &b));
    const uint64_t wrong[] = {0, 1, GRAIN, BASE - GRAIN, a + 1, a + GRAIN, b + 65 * GRAIN, b - 1, BASE + 127 * GRAIN, BASE + 198 * GRAIN, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_uint_eq(mm_fit_free(p.fit, wrong[i]), 0);
        SAME(pair_look(&p, wrong[i]));
        SAME(pair_compare(&p));
    }
    SAME(pair_free(&p, a));
    ck_assert_uint_eq(mm_fit_free(p.fit, a), 0);
    SAME(pair_compare(&p));
    SAME(pair_free(&p, b));
    ck_assert_uint_eq(mm_fit_free(p.fit, b), 0);
    ck_assert_uint_eq(mm_fit_live(p.fit, b), 0);
    SAME(pair_compare(&p));
    pair_end(&p);
}
END_TEST

/* Neighbours merge in whatever order they are freed, and never across ranges. */
START_TEST(merging) {
    static const int orders[][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}, {1, 2, 0, 3}};
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        struct pair p;
        uint64_t address[3][4];
        SAME(pair_begin(&p, (enum mm_fit_kind)_i, GRAIN));
        for (unsigned r = 0; r < 3; r++) {
            SAME(pair_add(&p, BASE + r * 100 * GRAIN, 100 * GRAIN, NULL)); /* four blocks fill it */
            for (unsigned k = 0; k < 4; k++) SAME(pair_allocate(&p, 25 * GRAIN, &address[r][k]));
        }
        ck_assert_uint_eq(mm_fit_free_bytes(p.fit), 0);
        for (unsigned r = 0; r < 3; r++)
            for (unsigned k = 0; k < 4; k++) {
                SAME(pair_free(&p, address[r][orders[o][k]]));
                SAME(pair_compare(&p));
            }
        ck_assert_uint_eq(p.count, 3);
        ck_assert_uint_eq(mm_fit_largest(p.fit), 100 * GRAIN);
        pair_end(&p);
    }
}
END_TEST

START_TEST(shrinking) {
    struct pair p;
    uint64_t address;
    SAME(pair_begin(&p, (enum mm_fit_kind)_i, GRAIN));
    for (unsigned r = 0; r < 8; r++) SAME(pair_add(&p, BASE + r * 64 * GRAIN, 64 * GRAIN, NULL));
    SAME(pair_allocate(&p, 64 * GRAIN, &address));
    SAME(pair_shrink(&p, 7 * 64 * GRAIN));
    ck_assert_uint_eq(mm_fit_free_bytes(p.fit), 7 * 64 * GRAIN);
    SAME(pair_shrink(&p, 7 * 64 * GRAIN - 1));
    ck_assert_uint_eq(mm_fit_free_bytes(p.fit), 6 * 64 * GRAIN);
    SAME(pair_compare(&p));
    SAME(pair_shrink(&p, 200 * GRAIN));
    ck_assert_uint_eq(mm_fit_free_bytes(p.fit), 3 * 64 * GRAIN);
    SAME(pair_compare(&p));
    SAME(pair_add(&p, BASE + 6 * 64 * GRAIN, 64 * GRAIN, NULL)); /* one that was taken out */
    SAME(pair_shrink(&p, 0));
    SAME(pair_compare(&p));
    ck_assert_uint_eq(mm_fit_free_bytes(p.fit), 0);
    ck_assert_uint_eq(mm_fit_live(p.fit, address), 64 * GRAIN);
    SAME(pair_free(&p, address));
    SAME(pair_shrink(&p, 0));
    ck_assert_uint_eq(p.count, 0);
    SAME(pair_compare(&p));
    SAME(pair_add(&p, BASE, GRAIN, NULL));
    SAME(pair_allocate(&p, 1, NULL));
    SAME(pair_compare(&p));
    pair_end(&p);
}
END_TEST

/* Tables and pages grow, are split and join. */
START_TEST(many) {
    enum { MANY = 6 * MM_FIT_PAGE_BLOCKS };
    static uint64_t address[MANY];
    uint64_t random = 1;
    struct pair p;
    SAME(pair_begin(&p, (enum mm_fit_kind)_i, 16));
    SAME(pair_add(&p, BASE, MANY * 16 * 4, NULL));
    for (int round = 0; round < 3; round++) {
        for (unsigned k = 0; k < MANY; k++) SAME(pair_allocate(&p, 16 + random_next(&random) % 3 * 16, &address[k]));
        SAME(pair_compare(&p));
        for (unsigned k = 0; k < MANY; k += 2) SAME(pair_free(&p, address[k]));
        SAME(pair_compare(&p));
        for (unsigned k = 0; k < MANY; k += 2) SAME(pair_allocate(&p, 16 + random_next(&random) % 3 * 16, &address[k]));
        SAME(pair_compare(&p));
        for (unsigned k = 0; k < MANY; k++) {
            const unsigned other = k + (unsigned)(random_next(&random) % (MANY - k));
            const uint64_t swapped = address[k];
            address[k] = address[other];
            address[other] = swapped;
            SAME(pair_free(&p, round == 0 ? address[k] : pair_live(&p, round == 1 ? 0 : MANY)));
            if (k % 16 == 0) SAME(pair_compare(&p));
        }
        while (pair_live(&p, 0)) SAME(pair_free(&p, pair_live(&p, 0)));
        ck_assert_uint_eq(p.count, 1);
        SAME(pair_compare(&p));
    }
    pair_end(&p);
}
END_TEST

/* A full page is split at each of its places, between a free block and its rest. */
START_TEST(splitting) {
    for (unsigned k = 0; k < MM_FIT_PAGE_BLOCKS; k++) {
        uint64_t address[MM_FIT_PAGE_BLOCKS];
        struct pair p;
        SAME(pair_begin(&p, (enum mm_fit_kind)_i, 16));
        SAME(pair_add(&p, BASE, MM_FIT_PAGE_BLOCKS * 32, NULL));
        for (unsigned i = 0; i < MM_FIT_PAGE_BLOCKS; i++) SAME(pair_allocate(&p, 32, &address[i]));
        SAME(pair_free(&p, address[k]));
        SAME(pair_allocate(&p, 16, NULL));
        SAME(pair_compare(&p));
        SAME(pair_free(&p, address[MM_FIT_PAGE_BLOCKS - 1 - k]));
        SAME(pair_compare(&p));
        pair_end(&p);
    }
}
END_TEST

/* The largest ranges: half of all addresses, and nearly all. Not for bitmask, whose bits are made with the range. */
START_TEST(huge) {
    struct pair p;
    uint64_t address, rest;
    if (_i == MM_FIT_BITMASK) return;
    SAME(pair_begin(&p, (enum mm_fit_kind)_i, 16));
    SAME(pair_add(&p, 1ull << 62, 3ull << 62, NULL)); /* refused */
    SAME(pair_add(&p, 16, (1ull << 63) - 16, NULL));
    SAME(pair_add(&p, 1ull << 63, (1ull << 63) - 16, NULL));
    for (unsigned shift = 4; shift < 63; shift++) {
        SAME(pair_allocate(&p, 1ull << shift, &address));
        SAME(pair_allocate(&p, (1ull << shift) + 1, NULL));
        if (shift % 3) SAME(pair_free(&p, address));
        SAME(pair_compare(&p));
    }
    while (pair_live(&p, 0)) SAME(pair_free(&p, pair_live(&p, 3)));
    SAME(pair_allocate(&p, (1ull << 63) - 16, &address));
    SAME(pair_allocate(&p, (1ull << 63) - 16, &address));
    SAME(pair_compare(&p));
    pair_end(&p);

    SAME(pair_begin(&p, (enum mm_fit_kind)_i, 16));
    SAME(pair_add(&p, 16, UINT64_MAX - 31, NULL));
    SAME(pair_allocate(&p, UINT64_MAX - 31, &address)); /* the last list */
    SAME(pair_free(&p, address));
    SAME(pair_allocate(&p, 1ull << 63, &address));
    SAME(pair_allocate(&p, 16, &rest));
    SAME(pair_free(&p, address));
    SAME(pair_allocate(&p, UINT64_MAX - 63, &address)); /* its list is empty, and there is none above */
    ck_assert_uint_eq(address, 0);
    SAME(pair_free(&p, rest));
    SAME(pair_compare(&p));
    pair_end(&p);
}
END_TEST

/* Random sequences. The shapes: few large ranges or many small ones; sizes uniform, or each doubling equally often. */
START_TEST(random_calls) {
    enum { SEQUENCES = 120, CALLS = 700 };
    for (uint64_t seed = 0; seed < SEQUENCES; seed++) {
        uint64_t random = seed;
        struct pair p;
        const uint64_t grain = 16ull << random_next(&random) % 6, longest = 2 + random_next(&random) % 200, goal = 1 + random_next(&random) % 90;
        size_t live = 0;
        SAME(pair_begin(&p, (enum mm_fit_kind)_i, grain));
        for (int i = 0; i < CALLS; i++) {
            const uint64_t dice = random_next(&random) % 100, length = 1 + random_next(&random) % longest;
            uint64_t address = BASE + random_next(&random) % 4000 * grain;
            if (dice < 3 || i == 0) SAME(pair_add(&p, address, length * 4 * grain, NULL));
            else if (dice < 4) SAME(pair_shrink(&p, random_next(&random) % 3 * length * grain));
            else if (dice < 6) SAME(pair_free(&p, address));
            else if (dice < 8) SAME(pair_look(&p, address + random_next(&random) % 3));
            else if (dice < 8 + 92 * goal / (goal + live)) {
                SAME(pair_allocate(&p, (dice % 2 ? length : length >> random_next(&random) % 8) * grain - random_next(&random) % grain, &address));
                live += address != 0;
            } else if ((address = pair_live(&p, random_next(&random) % 1000)) != 0) {
                SAME(pair_look(&p, address));
                SAME(pair_free(&p, address));
                live--;
            }
            if (dice < 6 || i % 8 == 0) SAME(pair_compare(&p));
        }
        for (uint64_t address; (address = pair_live(&p, 0)) != 0;) SAME(pair_free(&p, address));
        SAME(pair_compare(&p));
        for (size_t i = 0; i < p.count; i++) ck_assert(p.block[i].is_first); /* each range is one free block */
        SAME(pair_shrink(&p, 0));
        ck_assert_uint_eq(p.count, 0);
        SAME(pair_compare(&p));
        pair_end(&p);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fit");
    TCase *t = tcase_create("fit");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, names);
    tcase_add_loop_test(t, empty, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, ranges, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, sizes, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, again, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, misuse, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, merging, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, shrinking, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, many, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, splitting, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, huge, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, random_calls, 0, MM_FIT_COUNT);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
