/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs (run.h) under the explorer: overlapping claims of runs and slices, frees, double frees. */
#include "world.h"

#define SEG ((uint32_t)MM_SEGMENT_BYTES)

static void *keep[4];
static void pass(uint32_t bytes) {
    void *p = world_malloc(bytes, 0);
    if (p) world_free(p);
}
static void one_once(void) { pass(SEG); }
static void two_once(void) { pass(2 * SEG); }
static void two_twice(void) { pass(2 * SEG), pass(2 * SEG); }
static void three_once(void) { pass(3 * SEG); }
static void half_once(void) { pass(HALF); }
static void half_twice(void) { pass(HALF), pass(HALF); }
static void two_keep(void) { world_malloc(2 * SEG, 0); }

static void three(void) { world_make(3); }
static void four(void) { world_make(4); }
/* Free: the segments around a border of two leaves. */
static void border(void) {
    world_make(66);
    for (uint32_t s = 0; s < 62; s++) world_hold_run(s);
}
/* The segments are a class's: in a stripe, in a reserve; who wants a run flushes them. */
static void tickets(void) {
    world_make(2);
    keep[0] = world_malloc(HALF, 1);
}
static void lots(void) {
    world_make(4);
    world_lots(1, 1, 1);
    keep[0] = world_malloc(HALF, 1);
}
static void whole_but_one(void) {
    tickets();
    keep[1] = world_malloc(HALF, 1);
    world_free(keep[1]);
}
static void half_then_quarter(void) { pass(HALF), world_malloc(QUARTER, 0); }
static void half_and_quarter(void) { world_malloc(HALF, 0), half_then_quarter(); }
static void free_0(void) { world_free(keep[0]); }
/* A run freed twice at once. (Nobody takes its segments: what is handed out again meanwhile the second free frees.) */
static void twice_setup(void) {
    world_make(2);
    keep[0] = world_malloc(2 * SEG, 1);
}
static void twice_a(void) { world_free(keep[0]); }
static void twice_b(void) { mm_heap_free(&ref, keep[0]); }
static void twice_check(void) {
    model_require(world_misuses() == 1, "a run freed twice: %u misuses counted", world_misuses());
    world_check_drained();
}

static const struct model_scenario scenarios[] = {
    {"run-two-against-two", three, {two_twice, two_twice}, world_check_drained, 0, 0},
    {"run-against-slices", three, {two_once, half_twice}, world_check_drained, 0, 0},
    {"run-three", four, {two_once, three_once, one_once}, world_check_drained, 0, 0},
    {"run-three-with-slices", three, {two_once, two_keep, half_once}, world_check_drained, 0, 0},
    {"run-border-of-leaves", border, {two_once, three_once, one_once}, world_check_drained, 0, 0},
    {"run-border-with-slices", border, {three_once, two_once, half_once}, world_check_drained, 0, 0},
    {"run-border-put-back", border, {three_once, half_and_quarter}, world_check_drained, 4, 0},
    {"run-freed-twice", twice_setup, {twice_a, twice_b}, twice_check, 0, 0},
    {"run-beside-tickets", tickets, {one_once, half_twice}, world_check_drained, 0, 0},
    {"run-beside-lots", lots, {two_once, half_twice}, world_check_drained, 0, 0},
    {"run-beside-free", whole_but_one, {two_once, free_0, half_once}, world_check_drained, 3, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
