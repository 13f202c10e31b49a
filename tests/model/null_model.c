/* NULL (block.h, segment.h, run.h) under the explorer: never while there was memory all the time. */
#include "world.h"

#define HALF ((uint32_t)MM_SEGMENT_BYTES / 2)
#define QUARTER ((uint32_t)MM_SEGMENT_BYTES / 4)

static void *keep[16];
static void fill(uint32_t segments, uint32_t bytes) {
    uint32_t n = 0;
    world_make(segments);
    for (void *p; n < 16 && (p = world_malloc(bytes, 0)) != NULL;) keep[n++] = p;
    model_require(n == segments * (MM_SEGMENT_BYTES / bytes), "the set-up could not fill the heap");
}

/* A full heap: one frees, the other frees another one and allocates: what it freed is there. */
static void full_halves(void) { fill(2, HALF); }
static void full_quarters(void) { fill(2, QUARTER); }
static void free_0(void) { world_free(keep[0]); }
static void free_1_again_half(void) {
    world_free(keep[1]);
    world_malloc(HALF, 1);
}
static void free_1_again_quarter(void) {
    world_free(keep[1]);
    world_malloc(QUARTER, 1);
}
static void free_2_again_half(void) {
    world_free(keep[2]);
    world_malloc(HALF, 1);
}
static void free_4_again_quarter(void) {
    world_free(keep[4]);
    world_malloc(QUARTER, 1);
}
/* A segment of halves that one thread empties while another frees a half of the other segment. */
static void one_left(void) {
    fill(2, HALF);
    world_free(keep[1]);
}
/* One free segment is there for quarters; another thread takes and gives. */
static void free_1_again_run(void) {
    world_free(keep[1]);
    world_malloc(HALF + 1, 1);
}
static void full_runs(void) {
    world_make(2);
    keep[0] = world_malloc(HALF + 1, 1);
    keep[1] = world_malloc(HALF + 1, 1);
}
static void free_1_again_after_run(void) {
    world_free(keep[1]);
    world_malloc(QUARTER, 1);
}

/* A reader of the halves' tree comes late to a segment that is the quarters' by now, takes the only free quarter, and
 * gives it back. */
static void full_segment_with_hint(void) {
    fill(1, QUARTER);
    mm_tree_insert(mm_segment_class_tree(HEAP, mm_class_of(HALF)), 0);
    HEAP->classes[mm_class_of(HALF)].dry = 0;
}
static void half_once(void) {
    void *p = world_malloc(HALF, 0);
    if (p) world_free(p);
}
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
    fill(2, HALF);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const struct mm_tree t = mm_segment_class_tree(HEAP, c);
        HEAP->classes[c].dry = 0;
        t.node[0] = t.node[1] = 1;
        *mm_tree_leaf(t, 0) = 3;
    }
    mm_segment_free_tree(HEAP).node[0] = mm_segment_free_tree(HEAP).node[1] = 1;
}
static void half_or_null(void) { world_malloc(HALF, 0); }
static void quarter_or_null(void) { world_malloc(QUARTER, 0); }
static void run_or_null(void) { world_malloc(HALF + 1, 0); }

static const struct model_scenario scenarios[] = {
    {"null-free-beside-free-halves", full_halves, {free_0, free_1_again_half}, world_check_drained, 0},
    {"null-free-beside-free-quarters", full_quarters, {free_0, free_1_again_quarter}, world_check_drained, 0},
    {"null-two-segments", full_halves, {free_0, free_2_again_half}, world_check_drained, 0},
    {"null-two-segments-quarters", full_quarters, {free_0, free_4_again_quarter}, world_check_drained, 0},
    {"null-retract", one_left, {free_0, free_2_again_half}, world_check_drained, 0},
    {"null-runs", full_runs, {free_0, free_1_again_run}, world_check_drained, 0},
    {"null-slice-after-run", full_runs, {free_0, free_1_again_after_run}, world_check_drained, 0},
    {"null-stale-claim", full_segment_with_hint, {free_1_again_quarter, half_once}, world_check_drained, 0},
    {"null-run-put-back", border, {two_segments, half_then_run}, world_check_drained, 0},
    {"null-exhausted", exhausted, {half_or_null, half_or_null, half_or_null}, world_check_drained, 3},
    {"null-exhausted-classes", exhausted, {half_or_null, quarter_or_null, run_or_null}, world_check_drained, 3},
    {"null-exhausted-one-freed", exhausted, {half_or_null, quarter_or_null, free_0}, world_check_drained, 3},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
