/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The first draw of Ouroboros (runtime/ouroboros/first.h) by warps of several lanes: groups of each size want pages of each class, of entries that are full or
 * not, and of cells. Each lane gets a page of its own, and no page is lost. */
#define UNIT_WARPS 1
#include "tests/unit/warps.h"

#include "tests/unit/eight.h"
#include "tests/unit/together.h"

static uint64_t bytes_of[UNIT_LANES];
static void *page_of[UNIT_LANES];
static uint32_t drawn_; /* lanes that got a page by the first draw alone */
static void draw_one(uint32_t lane) {
    const uint64_t at = mm_pages_draw_soon(ref, bytes_of[lane]);
    page_of[lane] = (void *)at;
    if (!(at & MM_TOKEN)) drawn_++;
    else page_of[lane] = mm_small_malloc(ref, at);
}
static void free_one(uint32_t lane) { mm_heap_free(ref, page_of[lane]); }

/* _i: the lanes want the same, or each another size. Some pages stay, so that entries have fewer than all. */
START_TEST(groups) {
    static void *kept[64];
    uint64_t live = 0;
    for (uint32_t round = 0; round < 3000; round++) {
        const uint32_t here = random_here(1), q = random_below(MM_OURO_CLASSES);
        uint64_t more = 0;
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++) {
            bytes_of[lane] = 16ull << (_i == 0 ? q : (q + random_below(3)) % MM_OURO_CLASSES), page_of[lane] = NULL;
            if (here >> lane & 1) more += bytes_of[lane];
        }
        together(draw_one, here, round % 2 ? TOGETHER : 4);
        for (uint32_t lane = 0; lane < UNIT_LANES; lane++)
            for (uint32_t other = 0; here >> lane & 1 && other < lane; other++)
                unit_holds(page_of[lane] != NULL && page_of[lane] != page_of[other], "round %u, class %u: lane %u", round, q, lane);
        unit_sound(&heap, live + more);
        if (round % 7 == 0) { /* a page is kept, and another one comes back */
            const uint32_t lane = mm_ctz(here), k = random_below(64);
            live -= mm_heap_usable_size(ref, kept[k]);
            mm_heap_free(ref, kept[k]);
            kept[k] = page_of[lane], live += bytes_of[lane];
            together(free_one, here & (here - 1), TOGETHER);
        } else {
            together(free_one, here, TOGETHER);
        }
        unit_sound(&heap, live);
    }
    unit_lt(3000, drawn_);
}
END_TEST

/* Four lanes at a time use up a mask of their cell: nothing is put into the queue, and the cell is empty then. */
START_TEST(a_cell_of_several) {
    for (uint32_t lane = 0; lane < UNIT_LANES; lane++) bytes_of[lane] = 64;
    for (uint32_t i = 0; i < 3; i++) together(draw_one, 15, TOGETHER), together(free_one, 15, TOGETHER); /* the entry is in the cell */
    uint32_t *const cell = mm_cell_of(ref, 2);
    unit_lt(0, *cell);
    const uint32_t entry = *cell - 1;
    const uint64_t back = mm_queue_of(ref, 2)->back;
    while (*mm_chunk_mask(ref, entry) != 0) {
        unit_eq(*cell, entry + 1);
        together(draw_one, 15, TOGETHER);
    }
    unit_eq(*cell, 0);
    unit_eq(mm_queue_of(ref, 2)->back, back);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("first_warps");
    TCase *tests = tcase_create("first_warps");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, groups, 0, 2);
    tcase_add_test(tests, a_cell_of_several);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
