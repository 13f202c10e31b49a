/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Random walk (units.h, list.h, retire.h) under the explorer: units of two words are claimed and freed, segments enter and leave the list. */
#include "world.h"

#include "listed.h"

#define UNIT MM_WALK_UNIT_BYTES
/* The allocation that each thread frees: its first unit, and how many. */
static uint32_t first[MODEL_THREADS], count[MODEL_THREADS];
static uint32_t self(void) { return model_self() % MODEL_THREADS; }

static void got(uint32_t unit, uint32_t n) { world_take((uint64_t)unit * UNIT, (uint64_t)n * UNIT); }
/* Claims units, and keeps or frees them. */
static int claim(uint32_t unit, uint32_t n) {
    const int is_mine = n == 1 ? mm_unit_claim(&ref, unit) : mm_units_claim(&ref, unit, n);
    model_note("claimed", (uint64_t)is_mine);
    if (is_mine) got(unit, n), cell_set(2, cell[2] + 1);
    model_progress();
    return is_mine;
}
static void give(uint32_t unit, uint32_t n) {
    world_drop((uint64_t)unit * UNIT, (uint64_t)n * UNIT);
    mm_heap_free(&ref, (void *)mm_unit_address(&ref, unit));
    model_require(world_misuses() == 0, "unit %u: a valid free was refused", unit);
    model_progress();
}
static void pass(uint32_t unit, uint32_t n) {
    if (claim(unit, n)) give(unit, n);
}
static void one_31(void) { claim(31, 1); }
static void one_32(void) { claim(32, 1); }
static void pass_31(void) { pass(31, 1); }
static void pass_32(void) { pass(32, 1); }
static void across(void) { claim(30, 4); }
static void pass_across(void) { pass(30, 4); }
static void pass_behind(void) { pass(32, 3); }
static void pass_before(void) { pass(29, 3); }
static void mine(void) { give(first[self()], count[self()]); }
static void mine_again(void) { mine(), pass(first[self()], count[self()]); }
/* Of two frees of the same units one succeeds. */
static void twice(void) {
    const enum mm_unit_is was = mm_units_free(&ref, first[0]);
    if (was == MM_UNIT_FIRST) {
        model_set(&cell[0], cell[0] + 1);
        world_drop((uint64_t)first[0] * UNIT, (uint64_t)count[0] * UNIT);
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
    world_free(world_malloc(SEG, 0));
}
/* A draw from the list as it was when the thread began. */
static void draw(void) {
    const uint32_t n = mm_list_count(&ref);
    const uint64_t unit = n != 0 ? mm_walk_draw(&ref, 0, n, 31u << 20) : MM_WALK_NONE;
    if (unit != MM_WALK_NONE) got((uint32_t)unit, 1), give((uint32_t)unit, 1);
    model_progress();
}
static void malloc_one(void) { world_free(world_malloc(UNIT, 0)); }
static void must_one(void) { world_free(world_malloc(UNIT, 1)); }
static void must_keep(void) { world_malloc(UNIT, 1); }
static void must_two(void) { world_malloc(2 * UNIT, 1); }
static void malloc_three(void) { world_free(world_malloc(3 * UNIT, 0)); }
static void sweeps(void) {
    for (uint32_t i = 0; i < 3; i++) {
        const uint64_t address = sweep_once();
        if (address == 0) continue;
        got((uint32_t)((address - ref.user_base) / UNIT), 1);
        give((uint32_t)((address - ref.user_base) / UNIT), 1);
    }
}

/* Segment 0 is in the list. The others of `segments` are free. */
static void listed(uint32_t segments) {
    world_make(segments);
    while (mm_list_count(&ref) == 0) mm_list_add(&ref, 1, MM_LISTED_ANY);
    for (uint32_t t = 0; t < MODEL_THREADS; t++) first[t] = 0, count[t] = 1;
}
static void hold(uint32_t unit, uint32_t n) {
    mm_units_claim(&ref, unit, n);
    got(unit, n);
}
static void had(uint32_t t, uint32_t unit, uint32_t n) {
    first[t] = unit, count[t] = n;
    hold(unit, n);
}
static void one_segment(void) { listed(1); }
static void neighbours(void) {
    listed(1);
    had(0, 30, 2), had(1, 32, 1);
}
static void one_across(void) {
    listed(1);
    had(0, 30, 4);
}
static void one_unit(void) {
    listed(1);
    had(0, 31, 1);
}
static void two_segments(void) { listed(2); }
/* One segment is in the list, one is left, and callers want more. */
static void one_left_of_many_wanted(void) {
    listed(2);
    mm_list_state(&ref)->wanted = 4 * SEG;
}
/* All units but two are live for good. */
static void nearly_full(void) {
    listed(1);
    hold(0, 31), hold(33, 1000), hold(1033, MM_WALK_UNITS - 1033);
}

/* All are live for good but the first one, and two in a row behind it. */
static void one_and_two(void) {
    listed(1);
    hold(1, 1), hold(4, 1024), hold(1028, MM_WALK_UNITS - 1028);
}

/* Growth: the list is empty, or nothing in it is free; there are so many segments that it can have. */
static void one_to_add(void) { world_make(1); }
/* Two lanes of a warp, and another warp. */
static void two_warps(void) {
    world_make(2);
    world_warp(0, 2);
}
/* The only one is the host's. */
static void one_to_map(void) {
    world_make(2);
    world_grows(1, 8);
    world_hold_run(0);
}
/* All units but one are live for good, and this one is a thread's; one more segment can be had. */
static void full_but_one(void) {
    listed(2);
    hold(0, 31), had(0, 31, 1), hold(32, 1000), hold(1032, MM_WALK_UNITS - 1032);
}

static void check_twice(void) {
    world_check_drained();
    model_require(cell[0] == 1, "%u frees of one allocation succeeded", (uint32_t)cell[0]);
}

static void check_claims(uint32_t least) {
    world_check_drained();
    model_require(cell[2] >= least, "%u claims succeeded, and %u can", (uint32_t)cell[2], least);
}
static void check_one(void) { check_claims(1); }
static void check_two(void) { check_claims(2); }
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
    {"walk-claims-of-one", one_segment, {one_31, one_31, one_32}, check_two, 0, 0},
    {"walk-claims-across", one_segment, {across, one_31, one_32}, check_one, 0, 0},
    {"walk-passes-across", one_segment, {pass_across, pass_31, pass_32}, world_check_drained, 0, 0},
    {"walk-passes-overlap", one_segment, {pass_across, pass_behind, pass_before}, world_check_drained, 3, 0},
    {"walk-free-beside-claim", neighbours, {mine, mine, pass_across}, world_check_drained, 0, 0},
    {"walk-free-and-claim-again", neighbours, {mine_again, mine_again}, world_check_drained, 0, 0},
    {"walk-free-across", one_across, {mine, pass_across, pass_32}, world_check_drained, 3, 0},
    {"walk-two-frees", one_unit, {twice, twice}, check_twice, 0, 0},
    {"walk-two-frees-across", one_across, {twice, twice}, check_twice, 0, 0},
    {"walk-retire-against-claim", one_segment, {retire, pass_31}, world_check_drained, 2, 0},
    {"walk-retire-against-claim-across", one_segment, {retire, pass_across}, world_check_drained, 2, 0},
    {"walk-retire-against-free", one_unit, {mine, retire}, world_check_drained, 2, 0},
    {"walk-retires", one_segment, {retire, retire}, check_retired, 2, 0},
    {"walk-retire-against-draw", one_segment, {retire_run, draw}, world_check_drained, 2, 0},
    {"walk-adds", none_listed, {add, add}, world_check_drained, 2, 0},
    {"walk-add-against-retire", two_segments, {add, retire, draw}, world_check_drained, 2, 0},
    {"walk-grow-one", one_to_add, {must_keep, must_keep}, check_grown, 2, 1},
    {"walk-grow-once", none_listed, {add_once, add_once, look}, check_grown, 2, 0},
    {"walk-grow-to-two", none_listed_both_wanted, {add_wanted, add_wanted, look}, check_both, 2, 0},
    {"walk-grow-at-once", one_listed_two_wanted, {add_wanted, add_wanted, look}, check_three, 2, 0},
    {"walk-grow-last", one_left_of_many_wanted, {add, add, look}, check_some, 2, 0},
    {"walk-grow-and-leave", one_listed_two_wanted, {add_wanted, add_wanted, retire}, check_some, 2, 0},
    {"walk-grow-warps", two_warps, {must_keep, must_keep, must_keep}, world_check, 1, 0},
    {"walk-grow-host", one_to_map, {must_keep, must_keep, serve}, check_host, 2, 1},
    {"walk-grow-against-free", full_but_one, {mine, must_keep}, world_check, 2, 0},
    {"walk-grow-against-retire", one_segment, {retire, must_keep, must_keep}, check_grown, 2, 1},
    {"walk-first-requests", none_listed, {must_one, must_keep}, world_check_drained, 2, 0},
    {"walk-last-two", nearly_full, {must_keep, must_keep}, world_check, 2, 0},
    {"walk-last-two-and-longer", nearly_full, {must_keep, malloc_three}, world_check, 2, 0},
    {"walk-sweeps-of-one", one_and_two, {sweeps, must_two}, world_check, 2, 0},
    {"walk-last-two-of-three", nearly_full, {malloc_one, malloc_one, malloc_one}, world_check, 1, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
