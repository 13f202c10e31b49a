/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs and spans (run.h, span.h) under the explorer: overlapping claims of runs and slices, frees, double frees. */
#include "world.h"

#define SPAN (4 * PAGE)

static void *keep[4];
static void pass(uint32_t bytes) {
    void *p = world_malloc(bytes, 0);
    if (p) world_free(p);
}
static void one_once(void) { pass(SEG); }
static void two_once(void) { pass(2 * SEG); }
static void two_twice(void) { pass(2 * SEG), pass(2 * SEG); }
static void three_once(void) { pass(3 * SEG); }
static void slice_once(void) { pass(16); }
static void slice_twice(void) { pass(16), pass(16); }
static void span_once(void) { pass(SPAN); }
static void span_keep(void) { world_malloc(SPAN, 0); }
/* So long that each needs a segment of its own; and half a segment. */
static void long_keep(void) { world_malloc(40 * PAGE, 0); }
static void long_once(void) { pass(40 * PAGE); }
static void half_must(void) { world_malloc(32 * PAGE, 1); }
static void pair_once(void) { pass(2 * PAGE); }
static void slice_keep(void) { world_malloc(16, 0); }
static void two_keep(void) { world_malloc(2 * SEG, 0); }

static void fresh(void) { world_make(1); }
static void three(void) { world_make(3); }
static void four(void) { world_make(4); }
/* Threads 0 and 1 are the lanes of a warp. */
static void warp_two(void) { world_make(2), world_warp(0, 2); }
static void warp_three(void) { world_make(3), world_warp(0, 2); }
static void warps_three(void) { world_make(3), world_warp(0, 2), world_warp(2, 2); }
static void warp_one(void) { world_make(1), world_warp(0, 2); }
/* Only the segments around a border of two leaves are free. */
static void border(void) {
    world_make(66);
    for (uint32_t s = 0; s < 62; s++) world_hold_run(s);
}
/* A free block still belongs to a class: a request for a run retires it. */
static void block(void) {
    world_make(2);
    world_cut(A, 2);
    keep[0] = world_malloc(16, 1);
}
static void block_free(void) {
    block();
    world_free(keep[0]);
}
/* There are four pages, or two; or these and a span of two. */
static void four_pages(void) {
    world_make(1);
    world_cut(A, 2);
    world_pages(0, 4);
}
static void two_pages(void) {
    world_make(1);
    world_cut(A, 2);
    world_pages(0, 2);
}
static void span_live(void) {
    four_pages();
    keep[0] = world_malloc(2 * PAGE, 1);
}
static void span_again(void) {
    mm_heap_free(&ref, keep[0]);
    model_progress();
}
static void span_and_slice(void) { span_keep(), slice_keep(); }
static void free_0(void) { world_free(keep[0]); }
/* A run freed twice at once. (No thread takes its segments: if they were handed out again meanwhile, the second free would free that.) */
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
    {"run-against-slices", three, {two_once, slice_twice}, world_check_drained, 0, 0},
    {"run-three", four, {two_once, three_once, one_once}, world_check_drained, 2, 0},
    {"run-three-with-slices", three, {two_once, two_keep, slice_once}, world_check_drained, 2, 0},
    {"run-border-of-leaves", border, {two_once, three_once, one_once}, world_check_drained, 2, 0},
    {"run-border-with-slices", border, {three_once, two_once, slice_once}, world_check_drained, 1, 0},
    {"run-border-put-back", border, {three_once, span_and_slice}, world_check_drained, 3, 0},
    {"run-freed-twice", twice_setup, {twice_a, twice_b}, twice_check, 0, 0},
    {"run-beside-block", block, {two_once, free_0}, world_check_drained, 0, 0},
    {"run-beside-free-block", block_free, {two_once, slice_twice}, world_check_drained, 2, 0},
    {"run-beside-free", block, {two_once, free_0, slice_once}, world_check_drained, 1, 0},
    {"span-against-span", four_pages, {span_once, pair_once}, world_check_drained, 0, 0},
    {"span-against-slices", four_pages, {span_once, slice_twice}, world_check_drained, 2, 0},
    {"span-three", four_pages, {span_once, pair_once, slice_keep}, world_check_drained, 2, 0},
    {"span-against-run", fresh, {span_once, one_once}, world_check_drained, 0, 0},
    {"span-of-what-was-a-block", two_pages, {pair_once, slice_once}, world_check_drained, 2, 0},
    {"span-warp", warp_two, {long_keep, long_keep}, world_check_drained, 0, 0},
    {"span-warp-and-back", warp_two, {long_once, long_once, one_once}, world_check_drained, 2, 0},
    {"span-warp-against-one", warp_three, {long_keep, long_keep, long_keep}, world_check_drained, 2, 0},
    {"span-warps", warps_three, {long_keep, long_keep, long_keep, long_keep}, world_check_drained, 1, 0},
    {"span-warp-of-one-segment", warp_one, {half_must, half_must}, world_check_drained, 0, 1},
    {"span-freed-twice", span_live, {free_0, span_again}, twice_check, 0, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
