/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The ring of chunks (runtime/regeff) under the explorer: chunks are split, merged and freed, walked over, and given back with their segment. */
#include <stdlib.h>

#include "world.h"

#include "listed.h"

#define UNIT MM_RING_UNIT_BYTES
/* The chunk that each thread frees, and its units. */
static uint64_t chunk[MODEL_THREADS];
static uint32_t units[MODEL_THREADS];
static uint32_t self(void) { return model_self() % MODEL_THREADS; }

static void got(uint64_t unit, uint32_t n) { world_take(unit * UNIT, (uint64_t)n * UNIT); }
/* The owner writes what a walk that comes late may take for the header of a chunk that was merged. */
static void write_over(uint64_t unit, uint32_t n) {
    for (uint32_t i = 1; i < n && i < 4; i++) mm_store_relaxed_u32(&mm_ring_header(&ref, unit + i)->end, (uint32_t)(unit + i) % MM_RING_UNITS + 7);
}
/* Claims the chunk at a unit, and keeps it. */
static int claim(uint64_t unit, uint32_t n) {
    uint64_t next;
    const int is_mine = mm_ring_claim(&ref, unit, n, &next) != 0;
    model_note("claimed", (uint64_t)is_mine);
    if (is_mine) got(unit, n), write_over(unit, n), cell_set(2, cell[2] + 1);
    model_progress();
    return is_mine;
}
static void give(uint64_t unit, uint32_t n) {
    world_drop(unit * UNIT, (uint64_t)n * UNIT);
    mm_heap_free(&ref, (void *)(mm_ring_address(&ref, unit) + MM_RING_HEADER_BYTES));
    model_require(world_misuses() == 0, "unit %u: a valid free was refused", (uint32_t)unit);
    model_progress();
}
static void pass(uint64_t unit, uint32_t n) {
    if (claim(unit, n)) give(unit, n);
}
static void claim_first(void) { claim(0, 1); }
static void claim_second(void) { claim(1, 1); }
static void pass_first(void) { pass(0, 1); }
static void pass_second(void) { pass(1, 1); }
static void pass_three(void) { pass(0, 3); }
/* Finds the chunk too small, again and again: a caller that waits waits for the end of one call only. */
static void try_three(void) {
    uint64_t next;
    for (uint32_t i = 0; i < 8; i++) {
        model_require(mm_ring_claim(&ref, 14, 3, &next) == 0, "three units where two are free");
        model_progress();
    }
}
static void mine(void) { give(chunk[self()], units[self()]); }
static void mine_again(void) { mine(), pass(chunk[self()], units[self()]); }
/* From a unit on, along the ring. */
static void walk(uint64_t at, uint32_t n) {
    const uint64_t address = mm_ring_walk(&ref, n, at, MM_RING_HOPS).got;
    if (address != 0) {
        const uint64_t unit = (address - ref.user_base) / UNIT;
        got(unit, n), write_over(unit, n), give(unit, n);
    }
    model_progress();
}
static void walk_first(void) { walk(0, 1); }
static void walk_second(void) { walk(1, 2); }
/* Of two frees of the same chunk one succeeds. */
static void twice(void) {
    if (mm_ring_free(&ref, chunk[0])) {
        model_set(&cell[0], cell[0] + 1);
        world_drop(chunk[0] * UNIT, (uint64_t)units[0] * UNIT);
    }
    model_progress();
}
static void retire(void) {
    const int is_back = mm_segment_retire(&ref, 1, 0);
    if (is_back) cell_set(1, cell[1] + 1);
    model_progress();
}
static void retire_run(void) {
    retire();
    void *run = world_malloc(SEG, 0);
    if (run != NULL) write_over(((uint64_t)run - ref.user_base) / UNIT, 4);
    world_free(run);
}
static void malloc_one(void) { world_free(world_malloc(UNIT / 2, 0)); }
static void must_one(void) { world_free(world_malloc(UNIT / 2, 1)); }
static void must_keep(void) { world_malloc(UNIT / 2, 1); }
static void malloc_three(void) { world_free(world_malloc(2 * UNIT + UNIT / 2, 0)); }

/* Segment 0 is in the list. The others of `segments` are free. */
static void listed(uint32_t segments) {
    world_make(segments);
    while (mm_list_count(&ref) == 0) mm_list_add(&ref, 1, MM_LISTED_ANY);
    for (uint32_t t = 0; t < MODEL_THREADS; t++) chunk[t] = 0, units[t] = 1;
}
static void had(uint32_t t, uint64_t unit, uint32_t n) {
    uint64_t next;
    chunk[t] = unit, units[t] = n;
    if (mm_ring_claim(&ref, unit, n, &next) == 0) abort();
    got(unit, n);
}
static void one_segment(void) { listed(1); }
static void two_segments(void) { listed(2); }
/* Live, free, live. */
static void one_between(void) {
    listed(1);
    had(0, 0, 1), had(2, 1, 2), had(1, 3, 1);
    mm_ring_free(&ref, 1);
    world_drop(UNIT, 2ull * UNIT);
    chunk[2] = 1, units[2] = 2;
}
static void neighbours(void) {
    listed(1);
    had(0, 0, 1), had(1, 1, 1), had(2, 2, 1);
}
static void one_live(void) {
    listed(1);
    had(0, 0, 2);
}
/* All but one chunk of two units are live for good. */
static void one_chunk(void) {
    listed(1);
    for (uint32_t k = 0; k < MM_RING_UNITS / 2; k++) {
        uint64_t next;
        if (mm_ring_claim(&ref, 2ull * k, 2, &next) == 0) abort();
        if (k != 7) got(2ull * k, 2);
    }
    mm_ring_free(&ref, 14);
}
/* All but two chunks of one unit each are live for good. */
static void nearly_full(void) {
    listed(1);
    uint64_t free_units[2] = {0, 0};
    for (uint32_t k = 0; k < MM_RING_UNITS / 2; k++) { /* in pairs, so that the set-up is short */
        uint64_t unit = 2ull * k, next;
        if (mm_ring_claim(&ref, unit, 2, &next) == 0) abort();
        if (k == 0 || k == 40) free_units[k != 0] = unit;
        else got(unit, 2);
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t next;
        mm_ring_free(&ref, free_units[i]);
        mm_ring_claim(&ref, free_units[i], 1, &next);
        got(free_units[i], 1);
    }
}

/* Growth: the list is empty, or nothing in it is free; there are so many segments that it can have. */
static void one_to_add(void) { world_make(1); }
/* Two lanes of a warp. */
static void one_warp(void) {
    world_make(2);
    world_warp(0, 2);
}
/* The only one is the host's. */
static void one_to_map(void) {
    world_make(2);
    world_grows(1, 8);
    world_hold_run(0);
}
/* All chunks but one are live for good, and this one is a thread's; one more segment can be had. */
static void full_but_one(void) {
    listed(2);
    for (uint32_t k = 0; k < MM_RING_UNITS / 2; k++) had(0, 2ull * k, 2);
}

static void check_twice(void) {
    world_check_drained();
    model_require(cell[0] == 1, "%u frees of one chunk succeeded", (uint32_t)cell[0]);
}
static void check_one(void) {
    world_check_drained();
    model_require(cell[2] >= 1, "no claim succeeded, and one can");
}
static void check_retired(void) {
    world_check_drained();
    model_require(cell[1] == 1, "one segment was given back %u times", (uint32_t)cell[1]);
}

/* The list has got one segment, once, and nobody holds its lock. */
static void check_grown(void) {
    world_check();
    model_require(mm_list_count(&ref) == 1, "the list has %u segments, and one suffices", mm_list_count(&ref));
    model_require(mm_list_state(&ref)->lock == 0, "the list is locked");
}
static void check_host(void) {
    mm_grow_look(&ref, 0, 0);
    check_grown();
    model_require(HEAP->grow.mapped == 2, "%u segments were mapped", (uint32_t)HEAP->grow.mapped);
}

static const struct model_scenario scenarios[] = {
    {"ring-claims", one_segment, {claim_first, claim_first, claim_second}, check_one, 0, 0},
    {"ring-claims-and-splits", one_segment, {pass_first, pass_three, pass_second}, world_check_drained, 3, 0},
    {"ring-merge-against-claim", one_between, {mine, claim_second}, world_check_drained, 0, 0},
    {"ring-merge-against-claims", one_between, {mine, pass_second, pass_three}, world_check_drained, 3, 0},
    {"ring-frees-of-neighbours", neighbours, {mine, mine, mine}, world_check_drained, 0, 0},
    {"ring-free-and-claim-again", neighbours, {mine_again, mine_again, walk_second}, world_check_drained, 2, 0},
    {"ring-walk-over-a-merge", one_between, {mine, walk_second, pass_three}, world_check_drained, 3, 0},
    {"ring-walks", one_segment, {walk_first, walk_first, walk_second}, world_check_drained, 2, 0},
    {"ring-two-frees", one_live, {twice, twice}, check_twice, 0, 0},
    {"ring-retire-against-claim", one_segment, {retire, pass_first}, world_check_drained, 2, 0},
    {"ring-retire-against-free", one_live, {mine, retire}, world_check_drained, 2, 0},
    {"ring-retire-against-walk", one_segment, {retire_run, walk_second}, world_check_drained, 2, 0},
    {"ring-retires", one_segment, {retire, retire}, check_retired, 2, 0},
    {"ring-adds", none_listed, {add, add}, world_check_drained, 2, 0},
    {"ring-add-against-retire", two_segments, {add, retire, walk_first}, world_check_drained, 2, 0},
    {"ring-grow-one", one_to_add, {must_keep, must_keep}, check_grown, 2, 1},
    {"ring-grow-once", none_listed, {add_once, add_once, look}, check_grown, 2, 0},
    {"ring-grow-to-two", none_listed_both_wanted, {add_wanted, add_wanted, look}, check_both, 2, 0},
    {"ring-grow-at-once", one_listed_two_wanted, {add_wanted, add_wanted, look}, check_three, 2, 0},
    {"ring-grow-and-leave", one_listed_two_wanted, {add_wanted, add_wanted, retire}, check_some, 2, 0},
    {"ring-grow-warp", one_warp, {must_keep, must_keep}, world_check, 1, 0},
    {"ring-grow-host", one_to_map, {must_keep, must_keep, serve}, check_host, 2, 1},
    {"ring-grow-against-free", full_but_one, {mine, must_keep}, world_check, 2, 0},
    {"ring-grow-against-retire", one_segment, {retire, must_keep, must_keep}, check_grown, 2, 1},
    {"ring-held-for-a-moment", one_chunk, {must_keep, try_three}, world_check, 2, 1},
    {"ring-first-requests", none_listed, {must_one, must_keep}, world_check_drained, 2, 0},
    {"ring-one-chunk-for-two", one_chunk, {must_keep, must_keep}, world_check, 2, 0},
    {"ring-last-two", nearly_full, {must_keep, must_keep}, world_check, 2, 0},
    {"ring-last-two-and-longer", nearly_full, {must_keep, malloc_three}, world_check, 2, 0},
    {"ring-last-two-of-three", nearly_full, {malloc_one, malloc_one, malloc_one}, world_check, 1, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
