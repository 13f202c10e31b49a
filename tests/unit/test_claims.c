/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the lanes of a warp claim and free at once (word.h, free.h): slices that are neighbours or not, free or not, through entries of different ages. */
#define UNIT_WARPS 3
#include "tests/unit/warps.h"

#include "tests/unit/blocks.h"
#include "tests/unit/together.h"

#define ROUNDS 3000u

static uint32_t c_;
static uint64_t entry_of[UNIT_LANES], got_of[UNIT_LANES];
static uint32_t slice_of[UNIT_LANES], goes_of[UNIT_LANES];
static void claim_mine(uint32_t lane) { got_of[lane] = mm_slices_claim(ref, here_, (int)goes_of[lane], entry_of[lane], slice_of[lane], c_); }
static void free_mine(uint32_t lane) { mm_heap_free(ref, (void *)(uintptr_t)got_of[lane]); }

/* Makes a block whose first page held another block before. Returns the old block's entry. */
static uint64_t a_second_block(void) {
    const uint32_t page = make(c_);
    const uint64_t stale = entry_at(c_, 0);
    unit_eq(mm_blocks_retire(ref, 1, page), 1u << mm_class_page_shift(c_));
    while (entry_at(c_, 0) == MM_ENTRY_NONE || mm_entry_page(entry_at(c_, 0)) != page) make(c_);
    unit_holds(mm_entry_generation(entry_at(c_, 0)) != mm_entry_generation(stale), "the same generation again");
    return stale;
}

/* Each lane gets a slice of its own block that was free, and no other lane gets it; through a stale entry it gets none. If the slices are neighbours in the
 * order of the lanes, and none is taken, each lane gets the one it asked for. Nothing else changes in the words. */
static void claims_of(int are_neighbours) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        new_heap();
        c_ = mm_class_of(round % 2 ? 64 : 512);
        const uint64_t stale = a_second_block(), fresh = entry_at(c_, 0);
        const uint32_t slices = mm_class_slices(c_), page = mm_entry_page(fresh), words = mm_class_make(c_).words;
        const uint32_t here = 1 + random_below(MM_WARP_ALL), first = random_below(slices - UNIT_LANES);
        uint32_t before[64] = {0}, after[64], rank = 0;
        if (!are_neighbours)
            for (uint32_t i = 0; i < slices; i++)
                if (random_below(2)) (void)mm_slices_claim(ref, 1, 1, fresh, i, c_);
        for (uint32_t i = 0; i < words; i++) before[i] = after[i] = mm_word_free(word_at(page, i));
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
            if (!(here >> lane & 1)) continue;
            goes_of[lane] = random_below(8) != 0;
            entry_of[lane] = random_below(4) ? fresh : stale;
            slice_of[lane] = are_neighbours ? first + rank : random_below(4) ? random_below(slices) : first;
            rank += goes_of[lane];
            got_of[lane] = 1;
        }
        together(claim_mine, here, random_below(2) ? 1u << random_below(6) : TOGETHER);
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
            if (!(here >> lane & 1)) continue;
            const uint64_t own = mm_slice_address(ref, page, c_, slice_of[lane]);
            if (!goes_of[lane] || entry_of[lane] == stale) unit_eq(got_of[lane], 0);
            else if (are_neighbours) unit_eq(got_of[lane], own);
            if (got_of[lane] == 0) continue;
            const uint32_t got = (uint32_t)((got_of[lane] - mm_page_address(ref, page)) / mm_class_bytes(c_)), bit = 1u << got % 32;
            unit_eq(got_of[lane], mm_slice_address(ref, page, c_, got));
            unit_eq(got / 32, slice_of[lane] / 32);
            unit_holds((after[got / 32] & bit) != 0, "slice %u was not free", got);
            after[got / 32] &= ~bit;
        }
        for (uint32_t i = 0; i < words; i++) {
            unit_eq(mm_word_free(word_at(page, i)), after[i]);
            unit_eq(mm_word_generation(word_at(page, i)), mm_entry_generation(fresh));
        }
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) /* frees all of them at once */
            if (!(here >> lane & 1) || got_of[lane] == 0) got_of[lane] = 0;
        together(free_mine, MM_WARP_ALL, random_below(2) ? 1u << random_below(6) : TOGETHER);
        for (uint32_t i = 0; i < words; i++) unit_eq(mm_word_free(word_at(page, i)), before[i]);
        unit_eq(unit_misuses(&heap), 0);
    }
}
START_TEST(neighbours) { claims_of(1); }
END_TEST
START_TEST(any_slices) { claims_of(0); }
END_TEST

/* Several lanes free one slice at once: it becomes free, and all frees but one are double frees. */
START_TEST(one_slice_by_many) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        new_heap();
        c_ = mm_class_of(64);
        const uint32_t page = make(c_), here = 1 + random_below(MM_WARP_ALL);
        uint32_t lanes = 0, taken = 0;
        for (uint32_t i = 0; i < 4; i++) (void)mm_slices_claim(ref, 1, 1, entry_at(c_, 0), i, c_);
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
            if (!(here >> lane & 1)) continue;
            const uint32_t i = random_below(4);
            got_of[lane] = (uint64_t)(uintptr_t)slice_at(page, c_, i);
            lanes++, taken |= 1u << i;
        }
        together(free_mine, here, random_below(2) ? 1u << random_below(6) : TOGETHER);
        unit_eq(mm_word_free(word_at(page, 0)) & 15, taken);
        unit_eq(unit_misuses(&heap), lanes - mm_popcount(taken));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("claims");
    TCase *tests = tcase_create("claims");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, neighbours);
    tcase_add_test(tests, any_slices);
    tcase_add_test(tests, one_slice_by_many);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
