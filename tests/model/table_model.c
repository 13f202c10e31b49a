/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tables (table.h) under the explorer: entries are taken out, moved and put in. A block has two slices, in one page; block i of class A has page
 * i and entry i. Extents have two entries. */
#include "world.h"

#include <string.h>

static void *keep[16];

static void retire(uint32_t page) {
    mm_blocks_retire(&ref, 1, page);
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
/* Lanes of a warp of two or three, each of which retires a block, or none. */
static void retire_lane(uint32_t here, uint32_t page) {
    mm_blocks_retire(&ref, here, page);
    model_progress();
}
static void lane_0(void) { retire_lane(3, 0); }
static void lane_1(void) { retire_lane(3, 1); }
static void lane_2(void) { retire_lane(3, 2); }
static void lane_3(void) { retire_lane(3, 3); }
static void lane_none(void) { retire_lane(3, MM_TREE_NONE); }
static void of_three_0(void) { retire_lane(7, 0); }
static void of_three_1(void) { retire_lane(7, 1); }
static void of_three_3(void) { retire_lane(7, 3); }
static void a_keep(void) { world_malloc(16, 0); }
static void a_must(void) { world_malloc(16, 1); }
static void a_two(void) { world_malloc(16, 0), world_malloc(16, 0); }
static void a_once(void) { world_free(world_malloc(16, 0)); }
/* Draws tickets for n blocks, makes these, and takes a slice of the first. */
static void make_some(uint32_t n) {
    const uint32_t number = mm_add_relaxed_u32(&mm_class_at(&ref, A)->tickets, 2 * n) / 2;
    mm_blocks_make(&ref, 1, A, number, MM_FIRST_LATE, 0);
    const uint64_t made = mm_load_relaxed_u64(mm_made_at(&ref, A, number));
    const uint32_t index = mm_made_is_of(made, number) ? mm_made_index(made) : MM_MADE_BUSY;
    const uint64_t *at = index < MM_MADE_BUSY ? mm_table_find(&ref, A, index) : NULL, entry = at != NULL ? mm_load_relaxed_u64((uint64_t *)at) : 0;
    if (mm_entry_is_of(entry, A)) world_got(mm_slices_claim(&ref, 1, 1, entry, 0, A), A);
    model_progress();
}
static void make(void) { make_some(1); }
static void make_two(void) { make_some(2); }
/* malloc's second part, for a caller that drew the second ticket of the first block long ago. */
static void late(void) { world_got((uint64_t)mm_slice_malloc(&ref, mm_token_grow(A, 1)), A); }
/* The caller that took the index of an entry (on_its_way) puts its block there. */
static void put(void) {
    const struct mm_blocks one = {{(uint32_t)cell[1], MM_MADE_NO_PAGES}, {(uint32_t)cell[0], 0}, {0, 0}};
    mm_blocks_write(&ref, 1, A, one);
    model_progress();
}

/* n blocks of class A, with the slices of bits in `live` live; `pages` pages in all. */
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
    mm_class_at(&ref, A)->tickets = 2 * n; /* the next one is the first of a block */
    model_require(mm_class_at(&ref, A)->count == n, "the set-up made %u blocks", mm_class_at(&ref, A)->count);
}
static void three_free(void) { blocks(3, 0, 3); }
static void three_free_five(void) { blocks(3, 0, 5); }
static void three_last_live(void) { blocks(3, 1u << 4, 3); }
static void first_live(void) { blocks(3, 1 | 2, 4); }
static void two_free(void) { blocks(2, 0, 3); }
static void two_first_full(void) { blocks(2, 1 | 2, 3); }
static void one_free(void) { blocks(1, 0, 3); }
static void one_live(void) { blocks(1, 1 | 2, 5); }
static void two_all_live(void) { blocks(2, 15, 5); }
static void four_free(void) { blocks(4, 0, 6); }
static void five_last_live(void) { blocks(5, 1u << 8, 5); }
/* The same with warps: threads 0 and 1 are lanes of one; and 2 and 3; or 0 to 2. */
static void warp_three(void) { three_free_five(), world_warp(0, 2); }
static void warp_three_last_live(void) { three_last_live(), world_warp(0, 2); }
static void warp_four(void) { four_free(), world_warp(0, 2); }
static void warps_four(void) { warp_four(), world_warp(2, 2); }
static void warp_of_three(void) { four_free(), world_warp(0, 3); }
static void warp_five_last_live(void) { five_last_live(), world_warp(0, 2); }
static void warp_two_all(void) { two_free(), world_warp(0, 2); }
/* The last entry has an index, and its block is still being made. */
static void on_its_way(uint32_t n) {
    uint64_t groups = 0;
    blocks(n, 0, n + 2);
    const uint32_t s = mm_pages_take(&ref, 0, 1, &groups);
    cell[0] = mm_table_add(&ref, A, 1), cell[1] = s * MM_SEGMENT_PAGES + mm_ctz(groups);
}
static void one_and_on_its_way(void) { on_its_way(1); }
static void two_and_on_its_way(void) { on_its_way(2); }
static void warp_and_on_its_way(void) { two_and_on_its_way(), world_warp(0, 2); }
/* The next extent is full of rubbish that looks like entries of a block. */
static void rubbish(void) {
    two_all_live();
    for (uint32_t i = 0; i < MM_EXTENT; i++) *mm_table_in(&ref, 1, i) = mm_entry_make(2, 4, A);
    *mm_page_words(&ref, 4) = mm_word_make(2, 3);
}
static void empty(void) {
    world_make(1);
    world_pages(0, 5);
    world_cut(A, 2);
}

/* The maker of the last block has stalled: nothing was retired, and all slices are available. */
static void check_on_its_way(void) {
    model_require(world_free_slices(A) == 2 * cell[0], "%u slices are free", world_free_slices(A));
    mm_add_relaxed_u32(&mm_class_at(&ref, A)->count, ~0u);
    mm_pages_put(&ref, 0, 1ull << cell[1]);
    world_check_drained();
}
/* No other thread interfered: all that was asked for was retired, except two blocks. */
static void check_two_left(void) {
    world_check_drained();
    model_require(mm_class_at(&ref, A)->count == 2, "%u entries are left", mm_class_at(&ref, A)->count);
}
static void check_extents(void) {
    world_check_drained();
    model_require(HEAP->extents <= 1, "%u extents for four entries", (uint32_t)HEAP->extents + 1);
}

/* In the first ones, waiters give up at once. In the last ones they do not, or a caller that waits for an extent would lose its block. */
#define IMPATIENT_ONLY 3
#define PATIENT_ONLY 6
static const struct model_scenario scenarios[] = {
    {"table-last-stands", one_and_on_its_way, {retire_0}, check_on_its_way, 0, 0},
    {"table-last-stands-two", two_and_on_its_way, {retire_0, retire_1}, check_on_its_way, 0, 0},
    {"table-last-stands-warp", warp_and_on_its_way, {lane_0, lane_1}, check_on_its_way, 0, 0},
    {"table-warp-two", warp_four, {lane_0, lane_1}, check_two_left, 0, 0},
    {"table-warp-last-two", warp_four, {lane_3, lane_2}, check_two_left, 0, 0},
    {"table-warp-first-last", warp_four, {lane_3, lane_0}, check_two_left, 0, 0},
    {"table-warp-second-to-last", warp_four, {lane_1, lane_2}, check_two_left, 0, 0},
    {"table-warp-of-three", warp_of_three, {of_three_1, of_three_3, of_three_0}, world_check_drained, 0, 0},
    {"table-warp-all", warp_two_all, {lane_1, lane_0}, world_check_drained, 0, 0},
    {"table-warp-one", warp_four, {lane_none, lane_1, retire_3}, world_check_drained, 0, 0},
    {"table-warp-same-block", warp_three, {lane_1, lane_1}, check_two_left, 0, 0},
    {"table-warp-against-remove", warp_four, {lane_0, lane_3, retire_2}, world_check_drained, 0, 0},
    {"table-warp-against-same", warp_four, {lane_0, lane_1, retire_1}, world_check_drained, 0, 0},
    {"table-warp-against-warp", warps_four, {lane_0, lane_3, lane_1, lane_2}, world_check_drained, 0, 0},
    {"table-warp-moves-live", warp_three_last_live, {lane_0, lane_1, free_2_retire}, world_check_drained, 0, 0},
    {"table-warp-moved-and-used", warp_five_last_live, {lane_0, lane_3, a_keep}, world_check_drained, 0, 0},
    {"table-warp-beside-make", warp_three, {lane_0, lane_2, make}, world_check_drained, 0, 0},
    {"table-warp-both-moved-beside-make", warp_four, {lane_0, lane_1, make}, world_check_drained, 0, 0},
    {"table-warp-beside-two-made", warp_four, {lane_3, lane_1, make_two}, world_check_drained, 0, 0},
    {"table-warp-on-its-way", warp_and_on_its_way, {lane_0, lane_1, put}, world_check_drained, 0, 0},
    {"table-remove-against-remove", three_free, {retire_0, retire_1}, world_check_drained, 0, 0},
    {"table-remove-against-last", three_free, {retire_0, retire_2}, world_check_drained, 0, 0},
    {"table-remove-both-ends", three_free, {retire_0_1, retire_2}, world_check_drained, 0, 0},
    {"table-remove-three", three_free, {retire_0, retire_1, retire_2}, world_check_drained, 3, 0},
    {"table-remove-moved", three_last_live, {retire_0, free_2_retire}, world_check_drained, 0, 0},
    {"table-remove-moved-twice", three_last_live, {retire_0_1, free_2_retire}, world_check_drained, 0, 0},
    {"table-remove-moved-and-used", three_last_live, {retire_0, a_keep, free_2_retire}, world_check_drained, 2, 0},
    {"table-remove-against-malloc", two_first_full, {retire_1, a_must}, world_check_drained, 0, 1},
    {"table-remove-against-mallocs", two_first_full, {retire_1, a_two, a_keep}, world_check_drained, 2, 0},
    {"table-remove-beside-make", three_free_five, {retire_0, make}, world_check_drained, 0, 0},
    {"table-remove-beside-two-made", three_free_five, {retire_0, make_two}, world_check_drained, 0, 0},
    {"table-remove-last-beside-make", three_free_five, {retire_2, make}, world_check_drained, 0, 0},
    {"table-remove-only-beside-make", one_free, {retire_0, make}, world_check_drained, 0, 0},
    {"table-remove-beside-makes", first_live, {retire_2_1, make, make}, world_check_drained, 2, 0},
    {"table-removes-beside-make", first_live, {free_0_1_retire, retire_2_1, make}, world_check_drained, 2, 0},
    {"table-removes-beside-makes", three_free_five, {retire_0, retire_1, make, make}, world_check_drained, 2, 0},
    {"table-remove-what-is-made", first_live, {make, retire_3}, world_check_drained, 0, 0},
    {"table-last-on-its-way", two_and_on_its_way, {retire_0, put}, world_check_drained, 0, 0},
    {"table-last-on-its-way-two", two_and_on_its_way, {retire_0, put, retire_1}, world_check_drained, 3, 0},
    {"table-last-on-its-way-make", one_and_on_its_way, {retire_0, put, make}, world_check_drained, 3, 0},
    {"table-late-ticket", two_free, {late, retire_0_1}, world_check_drained, 0, 0},
    {"table-late-ticket-beside-make", two_free, {late, retire_0_1, make}, world_check_drained, 2, 0},
    {"table-pass", one_free, {a_once, retire_0, a_once}, world_check_drained, 2, 0},
    {"table-extent-of-rubbish", rubbish, {make, make}, check_extents, 0, 0},
    {"table-extent-by-two", two_all_live, {make, make}, check_extents, 0, 0},
    {"table-extent-for-second", one_live, {make_two}, check_extents, 0, 0},
    {"table-extent-for-second-by-two", one_live, {make_two, make}, check_extents, 0, 0},
    {"table-extents-by-two", two_all_live, {make, make_two}, world_check_drained, 0, 0},
    {"table-first-extent", empty, {make, make, make}, check_extents, 2, 0},
};
int main(int argc, char **argv) {
    const uint32_t all = sizeof scenarios / sizeof scenarios[0];
    const int is_impatient = MM_WAIT_ITERATIONS < 4;
    return model_main(argc, argv, scenarios + (is_impatient ? 0 : IMPATIENT_ONLY), all - (is_impatient ? PATIENT_ONLY : IMPATIENT_ONLY));
}
