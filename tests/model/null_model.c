/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* NULL (stripe.h, run.h) under the explorer: never while there was memory all the time that nobody had in hand for longer than
 * the others' waits take (explore.h, fair waits). */
#include "world.h"

static void *keep[32];
static void fill(uint32_t segments, uint32_t bytes) {
    world_make(segments);
    const uint32_t n = world_fill(bytes, keep, 32);
    model_require(n == segments * mm_class_slices(mm_class_of(bytes)), "the set-up could not fill the heap");
    world_forget_dry();
}

/* A full heap: one frees, the other frees another one and allocates: what it freed is there. */
static void full_halves(void) { fill(2, HALF); }
static void full_quarters(void) { fill(2, QUARTER); }
static void full_segment(void) { fill(1, QUARTER); }
static void full_one_home(void) {
    full_segment();
    world_same_home();
}
static void free_0(void) { world_free(keep[0]); }
static void free_1(void) { world_free(keep[1]); }
static void again(uint32_t i, uint32_t bytes) {
    world_free(keep[i]);
    world_malloc(bytes, 1);
}
static void free_1_again_half(void) { again(1, HALF); }
static void free_2_again_half(void) { again(2, HALF); }
static void free_1_again_quarter(void) { again(1, QUARTER); }
static void free_2_again_quarter(void) { again(2, QUARTER); }
static void free_4_again_quarter(void) { again(4, QUARTER); }
static void free_1_again_run(void) { again(1, MM_SEGMENT_BYTES); }
/* All of it is one's own again: another class can have it. */
static void free_all_again_half(void) {
    for (uint32_t i = 0; i < 4; i++) world_free(keep[i]);
    world_malloc(HALF, 1);
}
/* A segment of halves that one thread empties while another frees a half of the other segment. */
static void one_left(void) {
    full_halves();
    world_free(keep[1]);
}
static void full_runs(void) {
    world_make(2);
    keep[0] = world_malloc(HALF + 1, 1);
    keep[1] = world_malloc(HALF + 1, 1);
}

/* Tickets are left: in the stripe of the other home, in the reserve, in a stripe of another class; and lots ahead of them. */
static void tickets_left_of(uint32_t segments, uint32_t ahead, uint32_t row_shift, uint32_t reserve_ahead) {
    world_make(segments);
    world_lots(ahead, row_shift, reserve_ahead);
    keep[0] = world_malloc(QUARTER, 1);
}
static void tickets_left(void) { tickets_left_of(1, 0, 0, 0); }
static void tickets_ahead(void) { tickets_left_of(1, 1, 0, 0); }
static void tickets_ahead_2(void) { tickets_left_of(1, 2, 0, 1); }
static void tickets_of_rows(void) { tickets_left_of(2, 1, 1, 1); }
static void must_quarter(void) { world_malloc(QUARTER, 1); }
static void must_three_halves(void) {
    for (uint32_t i = 0; i < 3; i++) world_malloc(HALF, 1);
}
static void must_two_quarters(void) { must_quarter(), must_quarter(); }
static void must_half(void) { world_malloc(HALF, 1); }
static void must_run(void) { world_malloc(MM_SEGMENT_BYTES, 1); }
static void tickets_of_eighths(void) {
    world_make(1);
    world_free(world_malloc(EIGHTH, 1));
}
static void tickets_of_eighths_ahead(void) {
    world_make(2);
    world_lots(2, 0, 1);
    world_free(world_malloc(EIGHTH, 1));
}
static void tickets_of_eighths_two(void) {
    world_make(2);
    world_free(world_malloc(EIGHTH, 1));
    world_free(world_malloc(QUARTER, 1));
}
/* One slice has come back, of a block of which the other is live. */
static void one_back(void) {
    full_segment();
    world_free(keep[1]);
}
static void pass_quarter(void) { world_free(world_malloc(QUARTER, 0)); }
/* A reserve has some of the whole blocks in hand, to make a lot of them. */
static void back_ahead(void) {
    world_make(1);
    world_lots(1, 0, 1);
    world_same_home();
    model_require(world_fill(QUARTER, keep, 4) == 4, "the set-up could not fill the heap");
    world_forget_dry();
    world_free(keep[2]), world_free(keep[3]);
}
static void three_back(void) {
    full_segment();
    for (uint32_t i = 0; i < 3; i++) world_free(keep[i]);
}
/* As three_back, and so much has come back that lots are made of nothing: all look for themselves. */
static void thrifty(void) {
    three_back();
    HEAP->classes[mm_class_of(QUARTER)].rich = 256;
}
static void thrifty_ahead(void) {
    world_make(1);
    world_lots(1, 0, 0);
    world_same_home();
    model_require(world_fill(QUARTER, keep, 4) == 4, "the set-up could not fill the heap");
    world_forget_dry();
    world_free(keep[0]), world_free(keep[2]);
    HEAP->classes[mm_class_of(QUARTER)].rich = 256;
}

/* A reader of the halves' tree comes late to a segment that is the quarters' by now. */
static void full_segment_with_hints(void) {
    full_segment();
    for (uint32_t which = 0; which < 2; which++) mm_tree_insert(mm_segment_class_tree(&HEAP->ref, mm_class_of(HALF), which), 0);
}
static void half_once(void) { world_free(world_malloc(HALF, 0)); }
/* Free: one segment on either side of a border of two leaves. Who wants both takes one, cannot have the other, and puts
 * back what he took: it was free all the time. */
static void border(void) {
    world_make(65);
    for (uint32_t s = 0; s < 63; s++) world_hold_run(s);
}
static void two_segments(void) { world_malloc(2 * (uint32_t)MM_SEGMENT_BYTES, 0); }
static void half_then_run(void) {
    if (!world_malloc(HALF, 0)) return; /* the other has both */
    world_malloc(HALF + 1, 1);
}
/* Memory is exhausted, nobody has noticed, and the trees have stale hints: all ask, and each gets NULL or what one of
 * them has freed; they do not keep each other from it. */
static void exhausted(void) {
    full_halves();
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++)
        for (uint32_t which = 0; which < 2; which++) {
            const struct mm_tree t = mm_segment_class_tree(&HEAP->ref, c, which);
            t.node[0] = t.node[1] = 1;
            *mm_tree_leaf(t, 0) = 3;
        }
    mm_segment_free_tree(&HEAP->ref).node[0] = mm_segment_free_tree(&HEAP->ref).node[1] = 1;
}
static void half_or_null(void) { world_malloc(HALF, 0); }
static void quarter_or_null(void) { world_malloc(QUARTER, 0); }
static void run_or_null(void) { world_malloc(HALF + 1, 0); }
/* dry is known: the first free is seen all the same. */
static void dry(void) {
    full_segment();
    model_require(world_malloc(QUARTER, 0) == NULL, "not full");
    model_require(HEAP->classes[mm_class_of(QUARTER)].dry != 0, "dry is not known");
}
static void dry_freed(void) {
    dry();
    world_free(keep[3]);
}

static const struct model_scenario scenarios[] = {
    {"null-free-beside-free-halves", full_halves, {free_0, free_1_again_half}, world_check_drained, 0, 1},
    {"null-free-beside-free-quarters", full_quarters, {free_0, free_1_again_quarter}, world_check_drained, 0, 1},
    {"null-free-beside-free-three", full_segment, {free_0, free_1, free_2_again_quarter}, world_check_drained, 3, 1},
    {"null-two-segments", full_halves, {free_0, free_2_again_half}, world_check_drained, 0, 1},
    {"null-two-segments-quarters", full_quarters, {free_0, free_4_again_quarter}, world_check_drained, 0, 1},
    {"null-retract", one_left, {free_0, free_2_again_half}, world_check_drained, 0, 1},
    {"null-reuse-both", full_segment, {free_1_again_quarter, free_2_again_quarter}, world_check_drained, 0, 1},
    {"null-reuse-one-home", full_one_home, {free_1_again_quarter, free_2_again_quarter}, world_check_drained, 0, 1},
    {"null-reuse-one-back", one_back, {must_quarter, free_0}, world_check_drained, 0, 1},
    {"null-reuse-two-ask", three_back, {must_quarter, pass_quarter, must_quarter}, world_check_drained, 3, 1},
    {"null-thrifty", thrifty, {must_quarter, pass_quarter, must_quarter}, world_check_drained, 3, 1},
    {"null-thrifty-ahead", thrifty_ahead, {must_quarter, must_quarter, free_1}, world_check_drained, 3, 1},
    {"null-tickets-left", tickets_left, {must_two_quarters, must_quarter}, world_check_drained, 0, 1},
    {"null-tickets-left-three", tickets_left, {must_quarter, must_quarter, must_quarter}, world_check_drained, 3, 1},
    {"null-tickets-ahead", tickets_ahead, {must_two_quarters, must_quarter}, world_check_drained, 0, 1},
    {"null-tickets-ahead-2", tickets_ahead_2, {must_two_quarters, must_quarter}, world_check_drained, 3, 1},
    {"null-tickets-ahead-three", tickets_ahead, {must_quarter, must_quarter, must_quarter}, world_check_drained, 3, 1},
    {"null-tickets-of-rows", tickets_of_rows, {must_half, must_half}, world_check_drained, 3, 1},
    {"null-tickets-of-rows-quarters", tickets_of_rows, {must_two_quarters, must_two_quarters, must_two_quarters}, world_check_drained, 3, 1},
    {"null-lots-gathered", back_ahead, {must_quarter, must_quarter}, world_check_drained, 0, 1},
    {"null-lots-of-others", tickets_of_eighths_ahead, {must_half, must_three_halves}, world_check_drained, 3, 1},
    {"null-tickets-of-others", tickets_of_eighths, {must_half, must_half}, world_check_drained, 0, 1},
    {"null-tickets-of-others-run", tickets_of_eighths_two, {must_run, must_half}, world_check_drained, 0, 1},
    {"null-run-alone", tickets_of_eighths, {must_run}, world_check_drained, 0, 1},
    {"null-another-class", full_segment, {free_all_again_half}, world_check_drained, 0, 1},
    {"null-runs", full_runs, {free_0, free_1_again_run}, world_check_drained, 0, 1},
    {"null-slice-after-run", full_runs, {free_0, free_1_again_quarter}, world_check_drained, 0, 1},
    {"null-stale-hints", full_segment_with_hints, {free_1_again_quarter, half_once}, world_check_drained, 0, 1},
    {"null-run-put-back", border, {two_segments, half_then_run}, world_check_drained, 0, 1},
    {"null-dry", dry, {free_0, free_1_again_quarter}, world_check_drained, 0, 1},
    {"null-dry-freed", dry_freed, {must_quarter, free_0}, world_check_drained, 0, 1},
    {"null-exhausted", exhausted, {half_or_null, half_or_null, half_or_null}, world_check_drained, 3, 0},
    {"null-exhausted-classes", exhausted, {half_or_null, quarter_or_null, run_or_null}, world_check_drained, 3, 0},
    {"null-exhausted-one-freed", exhausted, {half_or_null, quarter_or_null, free_0}, world_check_drained, 3, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
