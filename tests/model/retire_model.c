/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Retiring (retire.h) under the explorer: blocks of one word, of two words, of two pages. */
#include "world.h"

static void *keep[64];
static uint64_t old_entry;

static void retire(uint32_t page) {
    const uint32_t n = mm_blocks_retire(&ref, 1, page);
    model_note("retired", n);
    cell_set(0, cell[0] + n);
    model_progress();
}
static void retire_0(void) { retire(0); }
static void retire_1(void) { retire(1); }
static void retire_twice(void) { retire(0), retire(0); }
static void retire_span(void) {
    retire(0);
    world_free(world_malloc(PAGE, 0));
}
static void retire_a(void) { retire(0), world_malloc(16, 0); }
static void retire_two(void) { retire(0), world_malloc(48, 0); }
static void retire_segment(void) {
    mm_segment_retire(&ref, 1, 0);
    model_progress();
}
/* Lanes of a warp. */
static void retire_lane(uint32_t page) {
    const uint32_t n = mm_blocks_retire(&ref, 3, page);
    cell_set(0, cell[0] + n);
    model_progress();
}
static void lane_0(void) { retire_lane(0); }
static void lane_1(void) { retire_lane(1); }
static void lane_2(void) { retire_lane(2); }
static void lane_3(void) { retire_lane(3); }
static void segment_lane(void) {
    mm_segment_retire(&ref, 3, 0);
    model_progress();
}
static void all_lane(void) {
    mm_slices_retire_all(&ref, 3);
    model_progress();
}
static void a_keep(void) { world_malloc(16, 0); }
static void a_once(void) { world_free(world_malloc(16, 0)); }
static void b_keep(void) { world_malloc(32, 0); }
static void b_once(void) { world_free(world_malloc(32, 0)); }
static void two_keep(void) { world_malloc(48, 0); }
static void two_once(void) { world_free(world_malloc(48, 0)); }
static void span_keep(void) { world_malloc(2 * PAGE, 0); }
/* A block of which the maker takes no slice: made ahead. */
static void make_ahead(void) {
    mm_blocks_make(&ref, 1, A, 1, MM_FIRST_LATE, 0);
    model_progress();
}
static void free_0(void) { world_free(keep[0]); }
static void free_last(void) { world_free(keep[32]); }
static void claim(uint32_t slice) { world_got(mm_slices_claim(&ref, 1, 1, old_entry, slice, A), A); }
static void claim_first(void) { claim(0); }
static void claim_last(void) { claim(32); }
static void claim_both(void) { claim(0), claim(32); }

static void empty(uint32_t pages, uint32_t slices) {
    world_make(1);
    world_pages(0, pages);
    world_cut(A, slices), world_cut(B, 2), world_cut(TWO, 2);
}
static void one_word(void) {
    empty(1, 2);
    world_free(world_malloc(16, 1));
    old_entry = mm_table_load(&ref, A, 0, 0);
}
static void blocks_free(uint32_t pages) {
    empty(pages, 2);
    void *p[4];
    for (uint32_t i = 0; i < 4; i++) p[i] = world_malloc(16, 1);
    for (uint32_t i = 0; i < 4; i++) world_free(p[i]);
}
static void two_blocks(void) { blocks_free(2); }
static void warp_two_blocks(void) {
    blocks_free(3);
    world_warp(0, 2);
    for (uint32_t i = 0; i < 2; i++)
        if (mm_entry_page(mm_table_load(&ref, A, i, 0)) == 0) old_entry = mm_table_load(&ref, A, i, 0);
}
/* Blocks of two classes, alternating, for two warps. */
static void warps_two_classes(void) {
    empty(4, 2);
    void *a[4], *b[4];
    for (uint32_t i = 0; i < 4; i++) a[i] = world_malloc(16, 1), b[i] = world_malloc(32, 1);
    for (uint32_t i = 0; i < 4; i++) world_free(a[i]), world_free(b[i]);
    for (uint32_t i = 0; i < 4; i++) model_require(*mm_page_owner(&ref, i) == (i % 2 ? B : A) + 1, "page %u is of another class", i);
    world_warp(0, 2), world_warp(2, 2);
}
/* A block of 33 slices: the last one is in a word of its own. */
static void two_words(void) {
    empty(1, 33);
    world_free(world_malloc(16, 1));
    old_entry = mm_table_load(&ref, A, 0, 0);
}
static void two_words_live(uint32_t live) {
    empty(1, 33);
    model_require(world_fill(16, keep, 34) == 33, "not filled");
    old_entry = mm_table_load(&ref, A, 0, 0);
    void *at[33];
    for (uint32_t i = 0; i < 33; i++) at[(uint32_t)((uint64_t)keep[i] - ref.user_base) / 16] = keep[i];
    for (uint32_t i = 0; i < 33; i++) {
        keep[i] = at[i];
        if (i != live) world_free(keep[i]);
    }
}
static void first_live(void) { two_words_live(0); }
static void last_live(void) { two_words_live(32); }
static void two_pages(void) {
    empty(2, 2);
    world_free(world_malloc(48, 1));
}
static void four_pages(void) {
    empty(4, 2);
    world_free(world_malloc(48, 1));
}
/* Two blocks in one segment, and one in another. */
static void warp_two_segments(void) {
    void *p[6];
    world_make(2);
    world_pages(0, 2), world_pages(1, 1);
    world_cut(A, 2);
    for (uint32_t i = 0; i < 6; i++) p[i] = world_malloc(16, 1);
    for (uint32_t i = 0; i < 6; i++) world_free(p[i]);
    world_warp(0, 2);
}
/* Nothing was made yet, and the words hold rubbish that looks like a free block's. */
static void rubbish(void) {
    empty(2, 2);
    for (uint32_t page = 0; page < 2; page++) *mm_page_words(&ref, page) = mm_word_make(2, 3), *mm_page_index(&ref, page) = page;
}
static void rubbish_two(void) {
    rubbish();
    world_malloc(16, 1); /* the table has an entry where the second page's index leads */
    *mm_page_words(&ref, 1) = mm_word_make(2, 3), *mm_page_index(&ref, 1) = 0;
}
static void rubbish_drawn(void) {
    rubbish_two();
    mm_class_at(&ref, A)->tickets = 4;
}

/* Of those that tried, exactly one retired it. */
static void check_once(void) {
    model_require(cell[0] == 1, "%u pages were given back, of one", (uint32_t)cell[0]);
    world_check_drained();
}

/* No other thread interfered: all that was asked for was retired. */
static void check_two(void) {
    model_require(cell[0] == 2, "%u pages were given back, of two", (uint32_t)cell[0]);
    world_check_drained();
}
static void check_none(void) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++)
        model_require(mm_class_at(&ref, c)->count == 0, "class %u has %u blocks still", c, mm_class_at(&ref, c)->count);
    world_check_drained();
}

static const struct model_scenario scenarios[] = {
    {"retire-warps-two-classes", warps_two_classes, {lane_0, lane_1, lane_3, lane_2}, world_check_drained, 0, 0},
    {"retire-warp-one-class-each", warps_two_classes, {lane_0, lane_2, lane_1, lane_3}, world_check_drained, 0, 0},
    {"retire-warp-claim", warp_two_blocks, {lane_1, lane_0, claim_first}, world_check_drained, 0, 0},
    {"retire-warp-malloc", warp_two_blocks, {lane_0, lane_1, a_once}, world_check_drained, 2, 0},
    {"retire-warp-segment", warp_two_blocks, {segment_lane, segment_lane, b_keep}, world_check_drained, 2, 0},
    {"retire-warp-segment-and-retire", warp_two_blocks, {segment_lane, segment_lane, retire_1}, world_check_drained, 0, 0},
    {"retire-warp-segment-alone", warps_two_classes, {segment_lane, segment_lane}, check_none, 0, 0},
    {"retire-warp-two-classes-alone", warps_two_classes, {lane_0, lane_1}, check_two, 0, 0},
    {"retire-warp-all", warps_two_classes, {all_lane, all_lane}, check_none, 0, 0},
    {"retire-warp-all-segments", warp_two_segments, {all_lane, all_lane}, check_none, 0, 0},
    {"retire-warp-all-beside-retire", warps_two_classes, {all_lane, all_lane, lane_2, lane_3}, world_check_drained, 2, 0},
    {"retire-by-two", one_word, {retire_0, retire_0}, check_once, 0, 0},
    {"retire-by-two-two-words", two_words, {retire_0, retire_0}, world_check_drained, 0, 0},
    {"retire-by-three", one_word, {retire_0, retire_0, retire_twice}, check_once, 0, 0},
    {"retire-by-two-and-make", one_word, {retire_a, retire_0}, world_check_drained, 0, 0},
    {"retire-by-two-and-make-two", two_blocks, {retire_two, retire_segment}, world_check_drained, 0, 0},
    {"retire-two-blocks", two_blocks, {retire_0, retire_1, a_keep}, world_check_drained, 2, 0},
    {"retire-claim-first", two_words, {retire_0, claim_first}, world_check_drained, 0, 0},
    {"retire-claim-last", two_words, {retire_0, claim_last}, world_check_drained, 0, 0},
    {"retire-claim-both", two_words, {retire_0, claim_both, retire_0}, world_check_drained, 0, 0},
    {"retire-claim-malloc", two_words, {retire_0, a_once, claim_last}, world_check_drained, 2, 0},
    {"retire-free-first", first_live, {retire_0, free_0, claim_last}, world_check_drained, 0, 0},
    {"retire-free-last", last_live, {retire_0, free_last, claim_first}, world_check_drained, 0, 0},
    {"retire-words-then-span", two_words, {retire_span, claim_both}, world_check_drained, 0, 0},
    {"retire-beside-make", one_word, {retire_segment, b_keep}, world_check_drained, 2, 0},
    {"retire-beside-makes", two_blocks, {retire_segment, b_once, a_keep}, world_check_drained, 2, 0},
    {"retire-two-pages", two_pages, {retire_0, retire_1, two_keep}, world_check_drained, 2, 0},
    {"retire-two-pages-for-one", two_pages, {retire_segment, a_keep, two_once}, world_check_drained, 2, 0},
    {"retire-two-pages-for-span", four_pages, {retire_segment, span_keep, two_once}, world_check_drained, 2, 0},
    {"retire-rubbish", rubbish, {a_keep, retire_0}, world_check_drained, 0, 0},
    {"retire-rubbish-made-ahead", rubbish_drawn, {make_ahead, retire_1}, world_check_drained, 0, 0},
    {"retire-rubbish-second", rubbish_two, {retire_1, b_keep, a_keep}, world_check_drained, 2, 0},
    {"retire-rubbish-b", rubbish, {a_keep, b_keep, retire_segment}, world_check_drained, 2, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
