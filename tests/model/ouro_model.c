/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Ouroboros (runtime/ouroboros) under the explorer: chunks that are cut, become free and are cut again; segments that enter and leave the list. Its queues:
 * queue_model.c. */
#include <stdlib.h>

#include "world.h"

#include "listed.h"

#define IS_CHUNKS (MM_OURO_ENTRY == MM_OURO_CHUNKS)
static void *page_of[MODEL_THREADS];
static uint32_t self(void) { return model_self() % MODEL_THREADS; }

/* ---- chunks -------------------------------------------------------------------------------------- */

#define SMALL (PAGE / 64) /* as the world counts */
#define LARGE MM_OURO_CHUNK_BYTES
static void mine(void) { world_free(page_of[self()]); }
static void small_kept(void) { world_malloc(SMALL, 1); }
static void small_passed(void) { world_free(world_malloc(SMALL, 1)); }
static void large_passed(void) { world_free(world_malloc(LARGE, 1)); }
static void large_kept(void) { world_malloc(LARGE, 1); }
static void small_or_null(void) { world_free(world_malloc(SMALL, 0)); }
static void large_or_null(void) { world_free(world_malloc(LARGE, 0)); }
static void mine_again(void) { mine(), world_free(world_malloc(SMALL, 0)); }
/* Of two frees of one page one succeeds. */
static void twice(void) {
    if (mm_page_free(&ref, mm_warp_here(), (uint64_t)page_of[0] - ref.user_base) == 0) {
        cell_set(0, cell[0] + 1);
        world_drop((uint64_t)page_of[0] - ref.user_base, SMALL);
    }
    model_progress();
}
/* The page of thread 0 is freed a second time. */
static void again(void) {
    if (mm_page_free(&ref, mm_warp_here(), (uint64_t)page_of[0] - ref.user_base) == 0) cell_set(0, cell[0] + 1);
    model_progress();
}
/* Two pages of another size than that one. */
#define MID (2 * SMALL)
static void two_mids(void) {
    for (uint32_t i = 0; i < 2; i++) {
        void *const p = world_malloc(MID, 0);
        model_require((p != NULL) == IS_CHUNKS || p == NULL, "a chunk has two sizes");
    }
}
static void large_or_none(void) { world_malloc(LARGE, 0); }
static void large_twice(void) {
    void *const p = world_malloc(LARGE, 0);
    if (p == NULL) return;
    world_free(p);
    world_malloc(LARGE, 1);
}
static void small_at_place(void) { page_of[2] = world_malloc(SMALL, 1); }
static void retire(void) {
    if (mm_segment_retire(&ref, 1, 0)) cell_set(1, cell[1] + 1);
    model_progress();
}
static void retire_run(void) {
    retire();
    world_free(world_malloc(SEG, 0));
}

/* A caller that saw a segment in the list draws, and it may have left since. */
static void large_drawn(void) {
    const uint64_t address = mm_pages_draw(&ref, mm_listed_units(LARGE) - 1);
    if (address == 0) {
        large_passed();
        return;
    }
    world_take(address - ref.user_base, LARGE);
    world_free((void *)address);
}
/* Sweeps find what draws would find, and more. */
static void sweeps(void) {
    const uint64_t address = sweep_once();
    if (address == 0) return;
    world_take(address - ref.user_base, SMALL);
    world_free((void *)address);
}

static void listed(uint32_t segments) {
    world_make(segments);
    while (mm_list_count(&ref) == 0) mm_list_add(&ref, 1, MM_LISTED_ANY);
}
static void one_segment(void) { listed(1); }
static void two_segments(void) { listed(2); }
/* Segment 0 has left the list, and none of its chunks was taken. */
static void one_left(void) {
    listed(2);
    if (!mm_segment_retire(&ref, 1, 0)) abort();
}
/* The lanes of a warp: the first two threads. */
static void warp_listed(void) { one_segment(), world_warp(0, 2); }
static void warp_none_listed(void) { none_listed(), world_warp(0, 2); }
/* A page for each thread, in one chunk. */
static void some_live(void) {
    listed(1);
    for (uint32_t t = 0; t < MODEL_THREADS; t++) page_of[t] = world_malloc(SMALL, 1);
}
static void one_live(void) {
    listed(1);
    page_of[0] = world_malloc(SMALL, 1);
}
/* All chunks of the first segment are live for good; another one is free. */
static void one_full(void) {
    listed(2);
    for (uint32_t i = 0; i < MM_OURO_SEGMENT_CHUNKS; i++) world_malloc(LARGE, 1);
}
#if MM_OURO_ENTRY == MM_OURO_PAGES
/* A lane that is alone takes the last page of a mask, whose entry stays in its cell. Another one, in the same place, frees a page of it, takes it, drops the entry,
 * and puts the one that comes with the next free into the cell. */
#define QUARTER (LARGE / 4)
static void quarter_kept(void) { world_malloc(QUARTER, 1); }
static void quarters(void) {
    world_free(page_of[0]);
    void *const first = world_malloc(QUARTER, 1);
    for (uint32_t i = 0; i < 4; i++) world_malloc(QUARTER, 1);
    world_free(first);
    world_free(page_of[1]);
    world_malloc(QUARTER, 1);
}
static void last_quarter(void) {
    listed(2);
    world_same_home();
    for (uint32_t i = 0; i < 3; i++) page_of[i] = world_malloc(QUARTER, 1);
    model_require(*mm_cell_at(&ref, 5, 0) != 0 && mm_queue_of(&ref, 5)->count == 0, "the entry is not in the cell");
}
#endif
/* All chunks but one are live for good, each as a page; the last one is free, or has one live page, of thread 0. */
static void one_free(void) {
    listed(1);
    for (uint32_t i = 0; i + 1 < MM_OURO_SEGMENT_CHUNKS; i++) world_malloc(LARGE, 1);
}
static void one_chunk_of_mine(void) {
    one_free();
    page_of[0] = world_malloc(SMALL, 1);
}
static void second_page(void) {
    one_free();
    void *const first = world_malloc(SMALL, 1);
    page_of[0] = world_malloc(SMALL, 1);
    world_free(first);
}
/* Both pages of this one are live, of threads 0 and 1. */
static void two_halves(void) {
    one_free();
    for (uint32_t t = 0; t < 2; t++) page_of[t] = world_malloc(LARGE / 2, 1);
}
/* And all pages of this one are live but two. */
static void nearly_full(void) {
    one_free();
    for (uint32_t i = 0; i + 2 < LARGE / SMALL; i++) world_malloc(SMALL, 1);
}
/* Or one, and one is thread 0's. */
static void all_but_one(void) {
    nearly_full();
    page_of[0] = world_malloc(SMALL, 1);
}
/* Segment 0 is somebody's; 1 is the host's. */
static void one_to_map(void) {
    world_make(2);
    world_grows(1, 8);
    world_hold_run(0);
}
static void check_grown(void) {
    world_check();
    model_require(mm_list_count(&ref) == 1, "the list has %u segments, and one suffices", mm_list_count(&ref));
}
static void check_host(void) {
    mm_grow_look(&ref, 0, 0);
    check_grown();
}
static void check_all(void) { world_check(); }
static void check_twice(void) {
    world_check();
    model_require(cell[0] == 1, "%u frees of one page succeeded", (uint32_t)cell[0]);
}
/* A second free that comes late changes nothing but what it says, unless a page of that size at that place is live again. */
static void check_again(void) {
    model_require(cell[0] == world_misuses(), "of two frees %s succeeded", cell[0] != 0 ? "both" : "none");
    world_check();
}
static void check_same_place(void) {
    const int are_both = cell[0] != world_misuses();
    model_require(!are_both || page_of[2] == page_of[0], "two frees of one page succeeded");
    if (are_both) world_drop((uint64_t)page_of[2] - ref.user_base, SMALL);
    world_check();
}
static void check_empty(void) {
    if (IS_CHUNKS) world_check_drained();
    else world_check();
}

/* Preemptions of what takes long, and does not depend on the kind of queue. */
#define LONG (MM_OURO_QUEUE == MM_OURO_S && !IS_CHUNKS ? 2 : 1)
static const struct model_scenario scenarios[] = {
    {"ouro-first-requests", none_listed, {small_kept, small_kept}, check_all, 2, 0},
    {"ouro-requests", one_segment, {small_passed, small_passed, large_passed}, check_empty, 2, 0},
    {"ouro-frees", some_live, {mine, mine, mine}, check_empty, 2, 0},
    {"ouro-free-and-again", some_live, {mine_again, mine_again, small_kept}, check_all, 2, 0},
    {"ouro-two-frees", one_live, {twice, twice}, check_twice, 0, 0},
    {"ouro-free-again-against-large", second_page, {mine, again, large_or_none}, check_again, 2, 0},
    {"ouro-free-again-against-mid", second_page, {mine, again, two_mids}, check_again, 2, 0},
    {"ouro-free-again-against-same", second_page, {mine, again, small_at_place}, check_same_place, 2, 0},
    {"ouro-free-again-against-two", second_page, {mine, again, large_twice}, check_again, 3, 0},
    {"ouro-free-again-against-retire", one_live, {mine, again, retire_run}, check_again, 2, 0},
    {"ouro-last-free-against-small", one_chunk_of_mine, {mine, small_passed}, check_all, 2, 0},
    {"ouro-last-free-against-large", one_chunk_of_mine, {mine, large_or_null}, check_all, 2, 0},
    {"ouro-last-free-against-both", one_chunk_of_mine, {mine, large_or_null, small_or_null}, check_all, 2, 0},
    {"ouro-last-free-against-last", two_halves, {mine, mine, small_or_null}, check_all, 2, 0},
    {"ouro-one-chunk-for-two", one_free, {large_or_null, small_or_null}, check_all, 2, 0},
    {"ouro-one-chunk-for-two-small", one_free, {small_kept, small_kept}, check_all, 2, 0},
    {"ouro-free-against-last", all_but_one, {mine, small_kept}, check_all, 0, 0},
    {"ouro-last-two", nearly_full, {small_kept, small_kept}, check_all, 2, 0},
    {"ouro-last-two-of-three", nearly_full, {small_or_null, small_or_null, small_or_null}, check_all, 1, 0},
    {"ouro-retire-against-request", one_segment, {retire_run, small_or_null}, check_all, 2, 0},
    {"ouro-retire-against-free", one_live, {mine, retire}, check_empty, 2, 0},
    {"ouro-retire-and-add", two_segments, {retire, add, large_passed}, check_empty, LONG, 0},
    {"ouro-warp-requests", warp_listed, {small_kept, small_kept, small_passed}, check_all, 2, 0},
    {"ouro-warp-two-sizes", warp_listed, {small_kept, large_kept, small_passed}, check_all, 2, 0},
    {"ouro-warp-first-requests", warp_none_listed, {small_kept, small_kept}, check_all, 2, 0},
    {"ouro-second-segment", one_full, {large_kept, large_kept}, check_all, 2, 0},
    {"ouro-left-and-add", one_left, {add, large_drawn}, check_empty, 2, 0},
    {"ouro-left-and-requests", one_left, {large_drawn, large_drawn}, check_empty, 2, 0},
    {"ouro-sweeps", one_chunk_of_mine, {sweeps, sweeps, mine}, check_all, 2, 0},
    {"ouro-grow-once", none_listed, {add_once, add_once, look}, check_grown, 2, 0},
    {"ouro-grow-to-two", none_listed_both_wanted, {add_wanted, add_wanted, look}, check_both, 2, 0},
    {"ouro-grow-at-once", one_listed_two_wanted, {add_wanted, add_wanted, look}, check_three, 2, 0},
    {"ouro-grow-and-leave", one_listed_two_wanted, {add_wanted, add_wanted, retire}, check_some, 2, 0},
    {"ouro-grow-and-take", none_listed_both_wanted, {add_wanted, add_wanted, large_passed}, check_some, 1, 0},
    {"ouro-grow-and-sweep", none_listed_both_wanted, {add_wanted, add_wanted, sweeps}, check_some, 1, 0},
    {"ouro-grow-at-once-and-take", one_listed_two_wanted, {add_wanted, add_wanted, large_passed}, check_some, 1, 0},
    {"ouro-grow-host", one_to_map, {small_kept, small_kept, serve}, check_host, 1, 1},
    {"ouro-large", one_segment, {large_kept, large_kept}, check_all, 2, 0},
#if MM_OURO_ENTRY == MM_OURO_PAGES
    {"ouro-last-in-a-cell", last_quarter, {quarter_kept, quarters}, check_all, 2, 0},
#endif
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
