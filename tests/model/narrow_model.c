/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Narrow blocks (narrow.h) under the explorer: made by several at once, and by warps, with too few pages; next to retiring; and where an old entry names a
 * block of another shape or class. A block of class TWO has two pages and two slices; a narrow one as many slices as the scenario says. */
#include "world.h"

static void *keep[8];
static uint64_t old_entry;

/* The slices that callers got of blocks they made are counted. */
static void *narrow(uint32_t here, uint32_t need, int is_last) {
    void *p = world_got(mm_narrow_make(&ref, here, need, TWO, is_last), TWO);
    if (p != NULL) cell_set(0, cell[0] + 1);
    return p;
}
static void keep_one(void) { narrow(1, 1, 1); }
static void keep_two(void) { keep_one(), keep_one(); }
static void once(void) { world_free(narrow(1, 1, 1)); }
static void if_ample(void) { narrow(1, 1, 0); }
static void lane(void) { narrow(3, 3, 1); }
static void lane_two(void) { lane(), lane(); }
static void lane_second(void) { model_require((narrow(3, 2, 1) != NULL) == (mm_warp_lane() == 1), "a lane wanted a slice, and another did not"); }
static void retire(uint32_t page) {
    mm_blocks_retire(&ref, 1, page);
    model_progress();
}
static void retire_0(void) { retire(0); }
static void retire_1(void) { retire(1); }
static void retire_segment(void) {
    mm_segment_retire(&ref, 1, 0);
    model_progress();
}
static void retire_keep(void) { retire(0), keep_one(); }
static void retire_keep_two(void) { retire(0), keep_two(); }
/* A block of two pages, or of another class, with a slice for its maker. */
static void make(uint32_t c) {
    uint32_t slice;
    const uint32_t number = mm_class_block_of(ref.classes[c], mm_tickets_draw(&ref, 1, 1, c), &slice);
    const uint32_t page = mm_blocks_make(&ref, 1, c, number, MM_FIRST_LATE, 1);
    if (page < MM_MADE_BUSY) world_got(mm_slice_address(&ref, page, c, 0), c);
    model_progress();
}
static void make_a(void) { make(A); }
static void make_wide(void) { make(TWO); }
static void retire_make_a(void) { retire(0), make(A); }
static void retire_make_wide(void) { retire(0), make(TWO); }
static void retire_make_keep(void) { retire(0), make(A), keep_one(); }
static void may(void) { world_malloc(48, 0); }
static void must(void) { world_malloc(48, 1); }
static void free_0(void) { world_free(keep[0]); }
static void free_0_retire(void) { free_0(), retire(0); }
static void free_0_retire_make_a(void) { free_0(), retire_make_a(); }
/* By an entry that may be stale. */
static void claim(uint32_t slice) { world_got(mm_slices_claim(&ref, 1, 1, old_entry, slice, TWO), TWO); }
static void claim_first(void) { claim(0); }
static void claim_second(void) { claim(1); }
static void claim_last(void) { claim(32); }
static void claim_lane(void) { world_got(mm_slices_claim(&ref, 3, 1, old_entry, mm_warp_lane(), TWO), TWO); }
static void draw(void) {
    const uint64_t p = mm_cursor_draw(&ref, 1, 1, 1, TWO, 1);
    if (!(p & MM_TOKEN)) world_got(p, TWO); /* else a ticket */
    model_progress();
}
static void draw_two(void) { draw(), draw(); }
static void draw_first(void) {
    const uint64_t p = mm_cursor_draw_first(&ref, 1, 0, TWO);
    model_require(p & MM_TOKEN, "the first draw gave a slice, and there are narrow blocks only");
    model_progress();
}

/* So many pages are free; a narrow block has so many slices. */
static void pages(uint32_t n, uint32_t slices) {
    world_make(1);
    world_pages(0, n);
    world_cut(A, 2), world_cut(TWO, 2), world_cut_narrow(TWO, slices);
}
static void one_page(void) { pages(1, 2); }
static void one_page_of_one(void) { pages(1, 1); }
static void two_pages(void) { pages(2, 1); }
static void three_pages(void) { pages(3, 2); }
static void four_pages(void) { pages(4, 2); }
static void warp(void) { pages(2, 2), world_warp(0, 2); }
static void warp_of_one(void) { pages(2, 1), world_warp(0, 2); }
static void warp_one_page(void) { pages(1, 1), world_warp(0, 2); }
static void warps(void) { pages(3, 1), world_warp(0, 2), world_warp(2, 2); }
/* The words hold rubbish that looks like a free block's. */
static void rubbish(void) {
    pages(1, 2);
    *mm_page_words(&ref, 0) = mm_word_make(2, 3), *mm_page_index(&ref, 0) = 0;
}
/* The page belongs to a free block of class A. */
static void after_a(void) {
    pages(1, 2);
    world_free(world_malloc(16, 1));
}
/* A block of two pages is free, of two words. */
static void after_wide(void) {
    pages(2, 1);
    world_cut(TWO, 33);
    world_free(world_malloc(48, 1));
    old_entry = mm_table_load(&ref, TWO, 0, 0);
    model_require(mm_entry_is_of(old_entry, TWO), "no block of two pages");
}
/* Narrow blocks at all pages, each with a live slice. */
static void made_at_all(uint32_t n, uint32_t slices) {
    pages(n, slices);
    for (uint32_t i = 0; i < n; i++) keep[i] = narrow(1, 1, 1);
    old_entry = mm_table_load(&ref, TWO, 0, 0);
    cell[0] = 0;
}
static void one_live(void) { made_at_all(1, 3); }
static void one_free(void) { made_at_all(1, 3), free_0(); }
/* The second page is free, or its block. */
static void one_free_of_two(void) {
    made_at_all(2, 3), free_0();
    world_free(keep[1]);
    mm_blocks_retire(&ref, 1, 1);
}
static void two_free(void) { made_at_all(2, 3), free_0(), world_free(keep[1]); }
static void warp_one_free(void) { one_free(), world_warp(0, 2); }
/* A block of two pages would have a second word, and the narrow block's page has rubbish there that looks like its second word. */
static void behind(uint32_t slices) {
    made_at_all(1, slices);
    world_cut(TWO, 33);
    mm_page_words(&ref, 0)[1] = mm_word_make(mm_entry_generation(old_entry), 1);
    mm_class_at(&ref, TWO)->cursor[0].place = 32;
}
static void rubbish_behind(void) { behind(3); }
static void rubbish_behind_full(void) { behind(1); }

/* Two pages are free, one of each of two pairs. A narrow block has one slice. */
static void scattered(void) {
    pages(4, 1);
    for (uint32_t i = 0; i < 4; i++) keep[i] = world_malloc(PAGE, 1);
    for (uint32_t i = 0; i < 4; i++)
        if (((uint64_t)keep[i] - ref.user_base) / PAGE % 2 != 0) world_free(keep[i]);
}

static uint32_t entries(void) { return mm_class_at(&ref, TWO)->count; }
/* There were pages for so many blocks: all were made, each with a slice for one caller. */
static void check_pages(uint32_t n) {
    world_check_drained();
    model_require(cell[0] == n && entries() == n, "%u slices of %u narrow blocks, and there were pages for %u", (uint32_t)cell[0], entries(), n);
}
static void check_none(void) { check_pages(0); }
static void check_one(void) { check_pages(1); }
static void check_two(void) { check_pages(2); }
/* Pages that one warp looks at, and another takes, may stay free. */
static void check_some(void) {
    world_check_drained();
    model_require(cell[0] >= 1 && cell[0] == entries(), "%u slices of %u narrow blocks", (uint32_t)cell[0], entries());
}
static void check_more(void) {
    check_some();
    model_require(cell[0] >= 2, "one of two warps got no slice, and none was taken from it");
}
/* Both lanes of the warp got a slice of one block. */
static void check_shared(void) {
    world_check_drained();
    model_require(cell[0] == 2 && entries() == 1, "%u slices of %u narrow blocks, and one block had enough", (uint32_t)cell[0], entries());
}
static const struct model_scenario scenarios[] = {
    {"narrow-by-two-one-page", one_page_of_one, {keep_one, keep_one}, check_one, 0, 0},
    {"narrow-by-three-two-pages", two_pages, {keep_one, keep_one, keep_one}, check_two, 0, 0},
    {"narrow-two-each-two-pages", two_pages, {keep_two, keep_two}, check_two, 0, 0},
    {"narrow-if-ample", four_pages, {if_ample, if_ample}, world_check_drained, 0, 0},
    {"narrow-if-not-ample", three_pages, {if_ample}, check_none, 0, 0},
    {"narrow-warp-shares", warp, {lane, lane, retire_segment}, check_shared, 0, 0},
    {"narrow-warp-second", warp, {lane_second, lane_second, retire_0}, check_one, 0, 0},
    {"narrow-warp-against-one", warp_of_one, {lane, lane, keep_one}, check_two, 0, 0},
    {"narrow-warp-one-page", warp_one_page, {lane_two, lane_two, keep_one}, check_one, 0, 0},
    {"narrow-warp-against-warp", warps, {lane, lane, lane, lane}, check_more, 0, 0},
    {"narrow-beside-make", one_page, {keep_one, make_a}, world_check_drained, 0, 0},
    {"narrow-beside-wide", two_pages, {keep_one, make_wide}, world_check_drained, 0, 0},
    {"narrow-beside-retire", rubbish, {keep_one, retire_0, retire_segment}, check_one, 0, 0},
    {"narrow-after-a", after_a, {keep_two, retire_0, retire_0}, world_check_drained, 0, 0},
    {"narrow-after-a-by-two", after_a, {retire_keep, retire_keep}, world_check_drained, 0, 0},
    {"narrow-after-wide", after_wide, {keep_two, retire_0, retire_1}, world_check_drained, 0, 0},
    {"narrow-once-beside-retire", one_page, {once, retire_0, retire_0}, world_check_drained, 0, 0},
    {"narrow-retire-alone", two_free, {retire_segment}, check_none, 0, 0},
    {"narrow-retire-two", two_free, {retire_0, retire_1, claim_first}, world_check_drained, 0, 0},
    {"narrow-retire-two-and-make", two_free, {retire_segment, make_wide, claim_first}, world_check_drained, 2, 0},
    {"narrow-free-against-retire", one_live, {free_0_retire, retire_0, claim_second}, world_check_drained, 0, 0},
    {"narrow-free-retire-make", one_live, {free_0, retire_make_a, claim_first}, world_check_drained, 0, 0},
    {"narrow-free-retire-make-one", one_live, {free_0_retire_make_a, claim_first, claim_second}, world_check_drained, 0, 0},
    {"narrow-stale-claim", one_free, {retire_make_a, claim_first, claim_second}, world_check_drained, 0, 0},
    {"narrow-stale-claim-wide", one_free_of_two, {retire_make_wide, claim_first, claim_second}, world_check_drained, 0, 0},
    {"narrow-stale-claim-and-back", one_free, {retire_make_keep, claim_first}, world_check_drained, 0, 0},
    {"narrow-stale-wide-claim", after_wide, {retire_keep_two, claim_first, claim_last}, world_check_drained, 0, 0},
    {"narrow-stale-draw", one_live, {free_0, retire_make_a, draw}, world_check_drained, 0, 0},
    {"narrow-stale-draws", one_free, {retire_make_a, draw_two, draw}, world_check_drained, 0, 0},
    {"narrow-stale-draw-wide", one_free_of_two, {retire_make_wide, draw_two}, world_check_drained, 0, 0},
    {"narrow-warp-stale-claim", warp_one_free, {claim_lane, claim_lane, retire_make_a}, world_check_drained, 0, 0},
    {"narrow-draws-behind", rubbish_behind, {draw, draw_first, free_0}, world_check_drained, 0, 0},
    {"narrow-malloc-behind", rubbish_behind_full, {may, free_0}, world_check_drained, 1, 1},
    {"narrow-mallocs-scattered", scattered, {must, must}, world_check_drained, 1, 0},
    {"narrow-mallocs", one_page, {must, must}, world_check_drained, 1, 1},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
