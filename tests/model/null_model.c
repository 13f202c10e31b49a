/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* NULL (shortage.h, malloc.h, run.h) under the explorer: never while there was memory all the time that no thread held temporarily for longer than
 * the others' waits take (explore.h, fair waits). Blocks have two slices; one segment has some pages, or all. */
#include "world.h"

static void *keep[32];

static void free_0(void) { world_free(keep[0]); }
static void free_1(void) { world_free(keep[1]); }
static void free_2(void) { world_free(keep[2]); }
static void retire_segment(void) {
    mm_segment_retire(&ref, 1, 0);
    model_progress();
}
static void a_must(void) { world_malloc(16, 1); }
static void a_keep(void) { world_malloc(16, 0); }
static void a_once(void) { world_free(world_malloc(16, 0)); }
static void b_must(void) { world_malloc(32, 1); }
static void b_keep(void) { world_malloc(32, 0); }
static void span_must(void) { world_malloc(PAGE, 1); }
static void span_keep(void) { world_malloc(PAGE, 0); }
static void run_keep(void) { world_malloc(SEG, 0); }
/* A sweep of the class, by one lane or by the lanes of a warp. */
static void *sweep(uint32_t here, uint32_t need) { return world_got(mm_class_sweep(&ref, here, need, A), A); }
static void sweep_must(void) { model_require(sweep(1, 1), "a slice was free all the time, and the look through all found none"); }
static void sweep_keep(void) { sweep(1, 1); }
static void sweep_twice(void) { sweep_must(), sweep_must(); }
static void sweep_free(void) { world_free(sweep(1, 1)); }
static void lanes_must(void) { model_require(sweep(3, 3), "two slices were free all the time, and the lanes got one"); }
static void lanes_keep(void) { sweep(3, 3); }
static void lane_0_must(void) {
    const int any = sweep(3, 1) != NULL;
    if (mm_warp_lane() == 0) model_require(any, "a slice was free all the time, and the look through all found none");
    else model_require(!any, "a lane has got a slice, and did not want one");
}
static void again(uint32_t i, uint32_t bytes) {
    world_free(keep[i]);
    world_malloc(bytes, 1);
}
static void free_1_again(void) { again(1, 16); }
static void free_2_again(void) { again(2, 16); }
/* Frees a whole block: another class can get its memory, or a span. */
static void free_both(uint32_t bytes) {
    world_free(keep[0]);
    again(1, bytes);
}
static void free_both_again_b(void) { free_both(32); }
static void free_both_again_span(void) { free_both(PAGE); }
static void free_both_again_run(void) { free_both(SEG); }
static void free_1_retire_a(void) {
    free_1();
    retire_segment();
    a_keep();
}
static void free_0_b_or_null(void) {
    free_0();
    b_keep();
}

static void made(uint32_t pages) {
    world_make(1);
    world_cut(A, 2), world_cut(B, 2);
    if (pages < 64) world_pages(0, pages);
}
static void fill(uint32_t pages) {
    model_require(world_fill(16, keep, 32) == 2 * pages, "the set-up could not fill the heap");
    HEAP->null_count = 0;
}
static void full(uint32_t pages) {
    made(pages);
    fill(pages);
}
static void full_one(void) { full(1); }
static void full_two(void) { full(2); }
/* The same in the second of two segments. A thread that tries random segments (shortage.h, step 1) tries the first one here, which is a run. */
static void full_behind(void) {
    world_make(2);
    world_cut(A, 2), world_cut(B, 2);
    world_hold_run(0), world_pages(1, 1);
    fill(1);
}
static void full_one_home(void) {
    full_one();
    world_same_home();
}
/* A slice is free, in the second block. */
static void one_back(void) {
    full_two();
    world_free(keep[2]), keep[2] = NULL;
}
static void two_back(void) {
    full_two();
    world_free(keep[1]), world_free(keep[2]);
}
/* One block is free, and still belongs to class A. */
static void block_back(void) {
    full_two();
    world_free(keep[0]), world_free(keep[1]);
}
/* Threads 0 and 1 are the lanes of a warp. */
static void warp_one_back(void) { one_back(), world_warp(0, 2); }
static void warp_two_back(void) { two_back(), world_warp(0, 2); }
static void warp_block_back(void) { block_back(), world_warp(0, 2); }
static void warp_full_two(void) { full_two(), world_warp(0, 2); }
/* Where the last sweep ended: at the last block, or past all of them. */
static void swept_to(uint32_t word) {
    two_back();
    mm_class_at(&ref, A)->swept = word;
}
static void swept_one(void) { swept_to(1); }
static void swept_all(void) { swept_to(2); }
static void swept_beyond(void) { swept_to(9); }
/* The free slice is before that. */
static void swept_past(void) {
    full_two();
    world_free(keep[0]);
    mm_class_at(&ref, A)->swept = 1;
}
static void warp_swept_past(void) { swept_past(), world_warp(0, 2); }
/* One block in a segment that is otherwise unused. */
static void segment_of_two(void) {
    made(64);
    keep[0] = world_malloc(16, 1), keep[1] = world_malloc(16, 1);
}
static void span_live(void) {
    made(1);
    keep[0] = keep[1] = world_malloc(PAGE, 1);
}
/* Memory is used up, and the trees have stale hints. */
static void exhausted(void) {
    full_one();
    for (uint32_t k = 0; k < 2; k++) mm_tree_insert(mm_segment_room_tree(&ref, k), 0);
    mm_segment_free_tree(&ref).node[0] = mm_segment_free_tree(&ref).node[1] = 1;
}

/* A pair of pages: a thread that wants both takes one, cannot have the other, and puts back the one it took. */
static void pair_free(void) {
    made(2);
    world_cut(TWO, 2);
}
static void two_keep(void) { cell_set(0, world_malloc(48, 0) != NULL); }
static void slice_keep(void) { cell_set(1, world_malloc(16, 0) != NULL); }
static void check_put_back(void) {
    world_check_drained();
    model_require(cell[0] || cell[1], "NULL, and nobody has more than one of two pages");
}
/* The same of segments, on either side of a border of two leaves. */
static void border(void) {
    world_make(65);
    world_cut(A, 2);
    for (uint32_t s = 0; s < 63; s++) world_hold_run(s);
}
static void two_segments(void) { world_malloc(2 * SEG, 0); }
static void slice_then_run(void) {
    if (!world_malloc(16, 0)) return; /* the other has both */
    world_malloc(SEG, 1);
}

/* One frees while the other is about to get NULL: either it got NULL and the slice is free, or it got the slice. */
static void check_one_of_both(void) {
    world_check_drained();
    const uint32_t n = world_free_slices(A);
    model_require(n == (uint32_t)HEAP->null_count, "%u slices are free, and %u calls got NULL", n, (uint32_t)HEAP->null_count);
}
/* Nothing was ever free. */
static void check_all_null(void) {
    world_check_drained();
    model_require(world_free_slices(A) == 0, "something is free");
}

/* The next sweep starts where something was found. */
static void check_swept(void) {
    world_check_drained();
    model_require(mm_class_at(&ref, A)->swept == 0, "the look through all ended at word %u", mm_class_at(&ref, A)->swept);
}

static const struct model_scenario scenarios[] = {
    {"null-free-beside-free", full_one, {free_0, free_1_again}, world_check_drained, 0, 1},
    {"null-free-beside-free-one-home", full_one_home, {free_0, free_1_again}, world_check_drained, 0, 1},
    {"null-free-beside-free-two", full_two, {free_0, free_2_again}, world_check_drained, 0, 1},
    {"null-free-beside-free-three", full_two, {free_0, free_1_again, free_2_again}, world_check_drained, 2, 1},
    {"null-one-back", one_back, {a_must, free_0}, world_check_drained, 0, 1},
    {"null-two-back", two_back, {a_must, a_must}, world_check_drained, 0, 1},
    {"null-two-ask", two_back, {a_must, a_once, a_must}, world_check_drained, 1, 1},
    {"null-frees-while-asked", full_one, {free_0, a_keep}, check_one_of_both, 0, 1},
    {"null-another-class", full_one, {free_both_again_b}, world_check_drained, 0, 1},
    {"null-another-class-behind", full_behind, {free_both_again_b}, world_check_drained, 0, 1},
    {"null-another-class-beside", full_two, {free_both_again_b, free_2}, world_check_drained, 0, 1},
    {"null-another-class-both", block_back, {b_must, b_must}, world_check_drained, 2, 1},
    {"null-class-or-span", block_back, {b_keep, span_keep}, world_check_drained, 2, 1},
    {"null-span", block_back, {span_must, free_2}, world_check_drained, 0, 1},
    {"null-span-beside", full_two, {free_both_again_span, free_2}, world_check_drained, 0, 1},
    {"null-run", segment_of_two, {free_both_again_run}, world_check_drained, 0, 1},
    {"null-run-beside", segment_of_two, {free_both_again_run, retire_segment}, world_check_drained, 0, 1},
    {"null-after-span", span_live, {free_0_b_or_null, a_keep}, world_check_drained, 2, 1},
    {"null-exhausted", exhausted, {a_keep, a_keep}, check_all_null, 3, 0},
    {"null-exhausted-classes", exhausted, {a_keep, b_keep, span_keep}, check_all_null, 1, 0},
    {"null-exhausted-run", exhausted, {a_keep, run_keep}, check_all_null, 2, 0},
    {"null-exhausted-one-freed", exhausted, {a_keep, b_keep, free_0}, world_check_drained, 2, 0},
    {"null-put-back", pair_free, {two_keep, span_keep, slice_keep}, check_put_back, 2, 1},
    {"null-run-put-back", border, {two_segments, slice_then_run}, world_check_drained, 2, 1},
    {"null-free-again", full_one, {free_0, free_1, a_keep}, world_check_drained, 2, 1},
    {"null-sweep-past", swept_past, {sweep_must}, check_swept, 0, 0},
    {"null-sweep-warp-past", warp_swept_past, {lane_0_must, lane_0_must}, check_swept, 0, 0},
    {"null-sweep-on", swept_one, {sweep_twice}, world_check_drained, 0, 0},
    {"null-sweep-from-end", swept_all, {sweep_must, sweep_must}, world_check_drained, 0, 0},
    {"null-sweep-from-beyond", swept_beyond, {sweep_must, sweep_must}, world_check_drained, 0, 0},
    {"null-sweep-beside-frees", swept_one, {sweep_must, sweep_must, free_0}, world_check_drained, 0, 0},
    {"null-sweep-beside-retire", swept_past, {sweep_keep, free_1_retire_a}, world_check_drained, 0, 0},
    {"null-sweep-warp", warp_two_back, {lanes_must, lanes_must}, world_check_drained, 0, 0},
    {"null-sweep-warp-for-one", warp_one_back, {lane_0_must, lane_0_must, free_0}, world_check_drained, 0, 0},
    {"null-sweep-warp-beside-sweep", warp_two_back, {lanes_keep, lanes_keep, sweep_free}, world_check_drained, 0, 0},
    {"null-warp-two-back", warp_two_back, {a_must, a_must}, world_check_drained, 0, 1},
    {"null-warp-one-back", warp_one_back, {a_keep, a_keep, free_0}, check_one_of_both, 2, 1},
    {"null-warp-two-classes", warp_block_back, {a_keep, b_keep, free_2}, world_check_drained, 2, 1},
    {"null-warp-slice-and-span", warp_block_back, {b_keep, span_keep, free_2}, world_check_drained, 2, 1},
    {"null-warp-all-null", warp_full_two, {a_keep, a_keep}, check_all_null, 0, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
