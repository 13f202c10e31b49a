/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Check suite of the pool's tables (runtime/host/pool/{allocations,ranges}.c). */
#include <check.h>
#include <stdlib.h>

#include "mmconfig.h"
#include "runtime/host/pool/allocations.h"
#include "runtime/host/pool/ranges.h"
#include "tests/runner.h"

#define MIB (1ull << 20)

START_TEST(ranges_by_address) {
    struct mm_pool_ranges r = {NULL, 0, 0};
    ck_assert(mm_pool_ranges_try_reserve(&r, 40));
    ck_assert_ptr_null(mm_pool_ranges_containing(&r, 5 * MIB));
    for (uint64_t i = 0; i < 40; i++) { /* in no order; every second one has a neighbour */
        const uint64_t k = i * 7 % 40;
        mm_pool_ranges_add_by_base(&r, (struct mm_pool_range){(8 * (k / 2) + 2 * (k % 2) + 4) * MIB, 2 * MIB, NULL, false});
    }
    for (uint64_t k = 0; k < 40; k++) {
        const uint64_t base = (8 * (k / 2) + 2 * (k % 2) + 4) * MIB;
        const struct mm_pool_range *at = mm_pool_ranges_containing(&r, base);
        ck_assert(at && at->base == base);
        ck_assert_ptr_eq(mm_pool_ranges_containing(&r, base + 2 * MIB - 1), at);
        if (k % 2 == 0) ck_assert_ptr_null(mm_pool_ranges_containing(&r, base - 1));
        else ck_assert_ptr_null(mm_pool_ranges_containing(&r, base + 2 * MIB)); /* the end does not belong to it */
    }
    while (r.count != 0) {
        const uint64_t base = r.list[r.count / 2].base, count = r.count;
        mm_pool_ranges_remove(&r, mm_pool_ranges_containing(&r, base));
        ck_assert_uint_eq(r.count, count - 1);
        ck_assert_ptr_null(mm_pool_ranges_containing(&r, base));
        for (uint64_t i = 1; i < r.count; i++) ck_assert_uint_lt(r.list[i - 1].base, r.list[i].base);
    }
    free(r.list);
}
END_TEST

START_TEST(ranges_by_length) {
    struct mm_pool_ranges r = {NULL, 0, 0};
    ck_assert_ptr_null(mm_pool_ranges_best(&r, 1));
    for (uint64_t i = 0; i < 30; i++) {
        ck_assert(mm_pool_ranges_try_reserve(&r, i + 1));
        mm_pool_ranges_add_by_bytes(&r, (struct mm_pool_range){i + 1, (i * 11 % 15 + 1) * 2 * MIB, NULL, false});
    }
    for (uint64_t n = 1; n <= 15; n++) {
        const struct mm_pool_range *at = mm_pool_ranges_best(&r, n * 2 * MIB - 5);
        ck_assert(at && at->bytes == n * 2 * MIB);
        ck_assert_uint_ge(at->base, 16); /* of two, the one that was added last */
    }
    ck_assert_ptr_null(mm_pool_ranges_best(&r, 30 * MIB + 1));
    free(r.list);
}
END_TEST

/* Additions, removals and look-ups, compared with an array. */
START_TEST(allocations) {
    static bool is_there[5000];
    struct mm_allocations table = {NULL, 0, 0};
    struct mm_pool *const pools[2] = {(struct mm_pool *)64, (struct mm_pool *)128};
    unsigned seed = 7;
    uint64_t count = 0;
    ck_assert_ptr_null(mm_allocations_find(&table, 512));
    for (int n = 0; n < 200000; n++) {
        seed = seed * 1664525u + 1013904223u;
        const uint64_t k = (seed >> 8) % 5000, address = (k + 1) << MM_POOL_GRAIN_SHIFT;
        struct mm_allocation *at = mm_allocations_find(&table, address);
        ck_assert(is_there[k] == (at != NULL) && (!at || (at->address == address && at->asked_bytes == k)));
        if (at) mm_allocations_remove(&table, at);
        else ck_assert_ptr_nonnull(mm_allocations_add(&table, &(struct mm_allocation){address, k, 0, pools[k % 2], MM_ALLOCATION_LIVE, false, false}));
        is_there[k] = !at;
        count += at ? -1ull : 1ull;
        ck_assert_uint_eq(table.count, count);
    }
    mm_allocations_forget(&table, pools[1]);
    for (uint64_t k = 0; k < 5000; k++) ck_assert((mm_allocations_find(&table, (k + 1) << MM_POOL_GRAIN_SHIFT) != NULL) == (is_there[k] && k % 2 == 0));
    free(table.places);
}
END_TEST

int main(void) {
    Suite *s = suite_create("tables");
    TCase *c = tcase_create("tables");
    tcase_add_test(c, ranges_by_address);
    tcase_add_test(c, ranges_by_length);
    tcase_add_test(c, allocations);
    suite_add_tcase(s, c);
    return suite_run(s);
}
