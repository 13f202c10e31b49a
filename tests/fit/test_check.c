/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Suite check: mm_fit_check finds each invariant that is broken here on purpose. */
#include <check.h>
#include <stdlib.h>

#include "runtime/host/fit/fit.h"
#include "runtime/host/fit/hash.h"
#include "tests/runner.h"

enum { GRAIN = 64 };
#define BASE (1ull << 30)

/* Two ranges of 100 grains. The first has grains 0 to 9 live, 10 to 29 free, 30 to 39 live; 40 to 99 free; the other one is free. */
static struct mm_fit *make(enum mm_fit_kind kind) {
    struct mm_fit *fit = mm_fit_create(kind, GRAIN);
    ck_assert(fit && mm_fit_add(fit, BASE, 100 * GRAIN));
    ck_assert_uint_eq(mm_fit_allocate(fit, 10 * GRAIN), BASE);
    ck_assert_uint_eq(mm_fit_allocate(fit, 20 * GRAIN), BASE + 10 * GRAIN);
    ck_assert_uint_eq(mm_fit_allocate(fit, 10 * GRAIN), BASE + 30 * GRAIN);
    ck_assert_uint_eq(mm_fit_free(fit, BASE + 10 * GRAIN), 20 * GRAIN);
    ck_assert(mm_fit_add(fit, BASE + 100 * GRAIN, 100 * GRAIN));
    ck_assert_ptr_eq(mm_fit_check(fit), NULL);
    return fit;
}

#define FINDS(fit, sentence)                                      \
    do {                                                          \
        const char *wrong_ = mm_fit_check(fit);                   \
        ck_assert_msg(wrong_ != NULL, "not found: %s", sentence); \
        ck_assert_str_eq(wrong_, sentence);                       \
    } while (0)
/* Breaks one thing, and restores it. */
#define BREAK(fit, what, value, sentence)          \
    do {                                           \
        const uint64_t was_ = (uint64_t)(what);    \
        (what) = (value);                          \
        FINDS(fit, sentence);                      \
        (what) = was_;                             \
        ck_assert_ptr_eq(mm_fit_check(fit), NULL); \
    } while (0)

/* All kinds: _i. */
START_TEST(sums) {
    struct mm_fit *fit = make((enum mm_fit_kind)_i);
    BREAK(fit, fit->free_length, 179, "the free bytes are not the sum over the blocks");
    BREAK(fit, fit->live_length, 21, "the live bytes are not the sum over the blocks");
    BREAK(fit, fit->range[1].base, (BASE + 99 * GRAIN) / GRAIN, "two ranges overlap, or are not sorted");
    mm_fit_destroy(fit);
}
END_TEST

/* The kinds with lists: _i. */
START_TEST(lists) {
    struct mm_fit *fit = make((enum mm_fit_kind)_i);
    struct mm_fit_hash *h = (struct mm_fit_hash *)fit;
    uint32_t live = 0, hole = 0, tail = 0, whole = 0; /* the blocks from grain 0, 10, 40 and 100 on */
    for (uint32_t n = 1; n < h->used; n++) {
        const uint64_t grain = h->node[n].base - BASE / GRAIN;
        if (grain == 0) live = n;
        if (grain == 10) hole = n;
        if (grain == 40) tail = n;
        if (grain == 100) whole = n;
    }
    ck_assert(live && hole && tail && whole);
    BREAK(fit, h->node[live].length, 9, "the blocks do not tile their range");
    BREAK(fit, h->node[tail].length, 59, "the blocks do not reach the end of their range");
    BREAK(fit, h->node[whole].upper, live, "a block's lower neighbour has another upper one");
    BREAK(fit, h->node[tail].upper, live, "a block's lower neighbour has another upper one");
    BREAK(fit, h->node[live].is_free, true, "two free blocks are adjacent");
    BREAK(fit, h->node[tail].lower, live, "a block's lower neighbour has another upper one");
    BREAK(fit, h->node[hole].previous, live, "a list's links back differ from those forth");
    BREAK(fit, h->node[hole].next, live, "a live block is in a list");
    uint64_t *bits = (uint64_t *)(void *)(h + 1); /* of the kind's lists, behind the hash in its struct */
    BREAK(fit, *bits, *bits & (*bits - 1), _i == MM_FIT_TLSF ? "the bit of a power's lists is wrong" : "the bit of a list is wrong");
    BREAK(fit, h->used, h->used + 1, "a node is neither a block nor unused");
    mm_fit_destroy(fit);
}
END_TEST

START_TEST(bits) {
    struct mm_fit *fit = make(MM_FIT_BITMASK);
    uint64_t *live = fit->range[0].bits, *begins = live + 2;
    BREAK(fit, begins[0], begins[0] | 1ull << 12, "an allocation begins at a free grain");
    BREAK(fit, begins[0], begins[0] & ~1ull, "a live grain is in no allocation");
    BREAK(fit, live[1], live[1] | 1ull << 50, "a bit behind the end of a range is set");
    BREAK(fit, begins[1], begins[1] | 1ull << 50, "a bit behind the end of a range is set");
    mm_fit_destroy(fit);
}
END_TEST

/* The kinds over pages: _i. What struct page of hal.c holds, after its blocks: the first address, the largest free block, the number of blocks. */
START_TEST(pages) {
    struct mm_fit *fit = make((enum mm_fit_kind)_i);
    uint64_t *page = *(uint64_t **)(void *)(fit + 1), *block = *(uint64_t **)(void *)page;
    BREAK(fit, page[1], page[1] - 1, "the first address of a page is wrong");
    BREAK(fit, page[2], page[2] - 1, "the largest free block is not the largest of the blocks");
    BREAK(fit, block[3], block[3] & ~(1ull << 62), "the free bytes are not the sum over the blocks");
    BREAK(fit, block[2], block[2] + 1, "the blocks do not tile their range");
    BREAK(fit, block[9], block[9] & ~(1ull << 63), "the ranges are not as many as blocks that are the first of one");
    BREAK(fit, block[5], block[5] | 1ull << 63, "a block is not the first of its range");
    mm_fit_destroy(fit);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("check");
    TCase *t = tcase_create("check");
    tcase_add_loop_test(t, sums, 0, MM_FIT_COUNT);
    tcase_add_loop_test(t, lists, MM_FIT_TLSF, MM_FIT_SEGREGATED + 1);
    tcase_add_test(t, bits);
    tcase_add_loop_test(t, pages, MM_FIT_FIRST, MM_FIT_BEST + 1);
    suite_add_tcase(suite, t);
    return suite_run(suite);
}
