/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tables (table.h) under the explorer: entries are taken out, moved and put in. A block has two slices, in one page; block i of class A has page
 * i and entry i. Extents have two entries. */
#include "world.h"

#include <string.h>

static void *keep[16];

static void retire(uint32_t page) {
    mm_block_retire(&ref, page);
    model_progress();
}
static void retire_0(void) { retire(0); }
static void retire_1(void) { retire(1); }
static void retire_2(void) { retire(2); }
static void retire_3(void) { retire(3); }
static void retire_0_1(void) { retire(0), retire(1); }
static void retire_2_1(void) { retire(2), retire(1); }
static void free_2_retire(void) { world_free(keep[4]), retire(2); }
static void free_0_1_retire(void) { world_free(keep[0]), world_free(keep[1]), retire(0); }
static void a_keep(void) { world_malloc(16, 0); }
static void a_must(void) { world_malloc(16, 1); }
static void a_two(void) { world_malloc(16, 0), world_malloc(16, 0); }
static void a_once(void) { world_free(world_malloc(16, 0)); }
/* What malloc does with a slice that it has drawn from the frontier, however long ago. */
static void make_at(uint32_t index, uint32_t slice) {
    for (uint32_t tries = 0; tries < 4; tries++) {
        uint64_t *at = mm_table_at(&ref, A, index);
        const uint64_t entry = at != NULL ? mm_load_acquire_u64(at) : MM_ENTRY_NONE;
        if (entry == MM_ENTRY_NONE && mm_blocks_make(&ref, 1, A, index) == MM_MADE_NO_PAGES) break;
        if (!mm_entry_is_of(entry, A)) continue;
        world_got(mm_slices_claim(&ref, 1, 1, entry, slice, A), A);
        break;
    }
    model_progress();
}
static void make_0(void) { make_at(0, 0); }
static void make_1(void) { make_at(1, 0); }
static void make_1_next(void) { make_at(1, 1); }
static void make_2(void) { make_at(2, 0); }
static void make_3(void) { make_at(3, 0); }
/* A slice is drawn, and made. */
static void draw_make(void) {
    uint32_t index = 0, slice = 0;
    if (mm_frontier_draw(&ref, 1, 1, A, &index, &slice)) make_at(index, slice);
}

/* `blocks` blocks of class A, of which the slices of bits in `live` are live; `pages` pages in all. */
static void blocks(uint32_t n, uint32_t live, uint32_t pages) {
    world_make(1);
    world_pages(0, pages);
    world_cut(A, 2), world_cut(B, 2);
    memset(keep, 0, sizeof keep);
    for (uint32_t i = 0; i < 2 * n; i++) {
        uint32_t j = 0;
        void *p = world_malloc(16, 1);
        const uint64_t off = (uint64_t)p - ref.user_base;
        j = (uint32_t)(off >> MM_PAGE_SHIFT) * 2 + (uint32_t)(off % MM_PAGE_BYTES) / 16;
        keep[j] = p;
    }
    for (uint32_t i = 0; i < 2 * n; i++)
        if (!(live >> i & 1)) world_free(keep[i]), keep[i] = NULL;
    model_require(mm_class_at(&ref, A)->count == n, "the set-up made %u blocks", mm_class_at(&ref, A)->count);
}
static void three_free(void) { blocks(3, 0, 3); }
static void three_free_five(void) { blocks(3, 0, 5); }
static void three_last_live(void) { blocks(3, 1u << 4, 3); }
static void first_live(void) { blocks(3, 1 | 2, 4); }
static void two_first_full(void) { blocks(2, 1 | 2, 3); }
static void one_free(void) { blocks(1, 0, 3); }
/* Slices of the last block are drawn, by who is late. */
static void two_drawn(void) { two_first_full(); }
/* The frontier is at the second block's end and more was drawn, by who is late. */
static void two_drawn_beyond(void) {
    blocks(2, 1 | 2, 5);
    mm_class_at(&ref, A)->frontier += 2;
}
static void two_all_live(void) { blocks(2, 15, 5); }
/* The last entry is a hole. */
static void hole_at_end(void) {
    blocks(2, 1 | 2, 4);
    mm_class_at(&ref, A)->frontier = 5;
    mm_block_retire(&ref, 1); /* not shortened, since somebody has drawn beyond */
    model_require(mm_class_at(&ref, A)->count == 2, "no hole");
    mm_class_at(&ref, A)->frontier = 4;
    world_free(keep[0]), world_free(keep[1]);
}
/* The extents that nobody has yet are full of what look like entries of a block. */
static void rubbish(void) {
    two_all_live();
    for (uint64_t i = HEAP->extents * MM_EXTENT; i < 8 * MM_EXTENT; i++) ((uint64_t *)ref.table)[i] = mm_entry_make(2, 4, A);
    *mm_page_words(&ref, 4) = mm_word_make(2, 3);
}
static void empty(void) {
    world_make(1);
    world_pages(0, 5);
    world_cut(A, 2);
}

/* No hole: all entries below the count are blocks. */
static void check_dense(void) {
    const uint32_t n = mm_class_at(&ref, A)->count;
    for (uint32_t i = 0; i < n; i++) model_require(mm_entry_is_of(mm_table_look(&ref, A, i), A), "entry %u of %u is a hole", i, n);
    world_check_drained();
}
static void check_extents(void) {
    world_check_drained();
    model_require(HEAP->extents <= 2, "%u extents for four entries", (uint32_t)HEAP->extents);
}

static const struct model_scenario scenarios[] = {
    {"table-remove-against-remove", three_free, {retire_0, retire_1}, check_dense, 0, 0},
    {"table-remove-against-last", three_free, {retire_0, retire_2}, check_dense, 0, 0},
    {"table-remove-both-ends", three_free, {retire_0_1, retire_2}, check_dense, 0, 0},
    {"table-remove-three", three_free, {retire_0, retire_1, retire_2}, check_dense, 3, 0},
    {"table-remove-moved", three_last_live, {retire_0, free_2_retire}, check_dense, 0, 0},
    {"table-remove-moved-twice", three_last_live, {retire_0_1, free_2_retire}, check_dense, 0, 0},
    {"table-remove-moved-and-used", three_last_live, {retire_0, a_keep, free_2_retire}, world_check_drained, 2, 0},
    {"table-remove-against-malloc", two_first_full, {retire_1, a_must}, world_check_drained, 0, 1},
    {"table-remove-against-mallocs", two_first_full, {retire_1, a_two, a_keep}, world_check_drained, 2, 0},
    {"table-remove-beside-make", first_live, {free_0_1_retire, draw_make}, world_check_drained, 0, 0},
    {"table-remove-beside-makes", first_live, {retire_2_1, draw_make, draw_make}, world_check_drained, 2, 0},
    {"table-shorten-against-draw", two_first_full, {retire_1, draw_make}, world_check_drained, 0, 0},
    {"table-shorten-against-draws", two_first_full, {retire_1, draw_make, draw_make}, world_check_drained, 3, 0},
    {"table-shorten-against-late", two_drawn, {retire_1, make_1}, world_check_drained, 0, 0},
    {"table-shorten-against-late-two", two_drawn, {retire_1, make_1, make_1_next}, world_check_drained, 3, 0},
    {"table-shorten-against-beyond", two_drawn_beyond, {retire_1, make_2, make_1}, world_check_drained, 3, 0},
    {"table-shorten-one", one_free, {retire_0, make_0, draw_make}, world_check_drained, 3, 0},
    {"table-hole-goes", hole_at_end, {retire_0}, check_dense, 0, 0},
    {"table-remove-what-is-made", first_live, {draw_make, retire_3}, check_dense, 0, 0},
    {"table-extent-of-rubbish", rubbish, {make_2, make_3}, check_extents, 0, 0},
    {"table-hole-at-end", hole_at_end, {retire_0, make_1}, world_check_drained, 0, 0},
    {"table-hole-at-end-draw", hole_at_end, {retire_0, make_1, draw_make}, world_check_drained, 3, 0},
    {"table-grows-beside-remove", three_free_five, {retire_0, make_3, retire_2}, world_check_drained, 3, 0},
    {"table-extent-by-two", two_all_live, {make_2, make_3}, check_extents, 0, 0},
    {"table-extent-by-two-same", two_all_live, {make_2, make_2}, check_extents, 0, 0},
    {"table-first-extent", empty, {make_0, make_1, make_2}, check_extents, 2, 0},
    {"table-pass", one_free, {a_once, retire_0, a_once}, world_check_drained, 2, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
