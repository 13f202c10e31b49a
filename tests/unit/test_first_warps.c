/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The first draw of Ouroboros (runtime/ouroboros/first.h) by warps of several lanes: groups of each size want pages of each class, of entries that are full or
 * not, and of cells. Each lane gets a page of its own, and no page is lost. */
#define UNIT_WARPS 1
#include "tests/unit/warps.h"

#include "tests/unit/eight.h"
#include "tests/unit/ouro.h"
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

/* Draws of lanes 0 to 3 without the first one. */
static void draw_late(uint32_t lane) { page_of[lane] = (void *)mm_pages_draw(ref, mm_listed_units(bytes_of[lane]) - 1); }
static uint32_t draw_four(uint64_t bytes) {
    uint32_t got = 0;
    for (uint32_t lane = 0; lane < 4; lane++) bytes_of[lane] = bytes;
    together(draw_late, 15, TOGETHER);
    for (uint32_t lane = 0; lane < 4; lane++) got += page_of[lane] != NULL;
    return got;
}
/* The lowest lane gets the only page of an entry, and another lane cuts a chunk for the others: all of its masks are put, once each. */
START_TEST(a_cutter_that_is_not_the_lowest) {
    uint32_t entries[16], seen = 0;
    mm_heap_free(ref, take(16));
    unit_eq(drain(0, entries, 16), mm_chunk_masks(0));
    *mm_chunk_mask(ref, entries[0]) = 8;
    unit_eq(mm_entry_put(ref, 0, entries[0], 1, MM_OURO_LONG_LOOKS), 1);
    mm_queue_of(ref, 0)->awaited = 0; /* the next one that wants pages cuts a chunk */
    unit_eq(draw_four(16), 4);
    unit_eq(mm_queue_of(ref, 0)->awaited, 64ull << 32); /* all pages of a mask */
    unit_holds(page_of[0] == (void *)mm_chunk_address(ref, entries[0], 3, 0), "another page");
    const uint64_t off = (uint64_t)(uintptr_t)page_of[1] - ref->user_base;
    const uint32_t chunk = (uint32_t)(off >> MM_OURO_CHUNK_SHIFT);
    unit_eq(off % MM_OURO_CHUNK_BYTES, 0);
    unit_eq(drain(0, entries, 16), mm_chunk_masks(0));
    for (uint32_t i = 0; i < mm_chunk_masks(0); i++) seen |= 1u << (entries[i] - chunk * MM_OURO_MASKS);
    unit_eq(seen, (1u << mm_chunk_masks(0)) - 1);
}
END_TEST
/* What the queue refused is put into it before several lanes cut a chunk. */
START_TEST(what_was_refused_comes_first) {
    uint32_t entries[4];
    mm_heap_free(ref, take(512));
    unit_eq(drain(5, entries, 4), 1);
    struct mm_queue *const of = mm_queue_of(ref, 5), *const fresh = mm_queue_of(ref, MM_OURO_FRESH);
    const uint64_t before = fresh->front;
    of->refused = 1, of->awaited = 0;
    unit_eq(draw_four(512), 4);
    unit_eq(fresh->front, before);
}
END_TEST
/* Several lanes cut a chunk although cells of others have entries; but before the list of segments grows, they take pages of these. */
START_TEST(cells_before_the_list_grows) {
    uint32_t entries[4];
    mm_heap_free(ref, take(64));
    unit_eq(drain(2, entries, 4), 2);
    const uint32_t entry = entries[0], segments = mm_list_count(ref);
    for (uint32_t i = 0; i < MM_OURO_CELLS; i++) *mm_cell_at(ref, 2, i) = entry + 1;
    struct mm_queue *const fresh = mm_queue_of(ref, MM_OURO_FRESH);
    const uint64_t before = fresh->front;
    mm_queue_of(ref, 2)->awaited = 64ull << 32; /* others want pages of the chunk, and nobody cuts it */
    unit_eq(draw_four(64), 4);
    unit_eq(fresh->front, before + 1);
    unit_eq(*mm_chunk_mask(ref, entry), mm_chunk_mask_fresh(2));
    drain(2, entries, 4);
    for (uint32_t lane = 0; fresh->count != 0; lane++) unit_holds(take(8192) != NULL, "NULL");
    unit_eq(mm_list_count(ref), segments);
    mm_queue_of(ref, 2)->awaited = 0;
    unit_lt(0, draw_four(64)); /* two lanes may want the same page */
    unit_eq(mm_list_count(ref), segments);
    unit_holds(mm_chunk_address(ref, entry, 0, 2) / MM_OURO_CHUNK_BYTES == (uint64_t)(uintptr_t)page_of[0] / MM_OURO_CHUNK_BYTES || page_of[0] == NULL,
               "a page of another chunk");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("first_warps");
    TCase *tests = tcase_create("first_warps");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, groups, 0, 2);
    tcase_add_test(tests, a_cell_of_several);
    tcase_add_test(tests, a_cutter_that_is_not_the_lowest);
    tcase_add_test(tests, what_was_refused_comes_first);
    tcase_add_test(tests, cells_before_the_list_grows);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
