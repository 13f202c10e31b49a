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

static const struct model_scenario scenarios[] = {
    {"null-free-beside-free-halves", full_halves, {free_0, free_1_again_half}, world_check_drained, 0},
    {"null-free-beside-free-quarters", full_quarters, {free_0, free_1_again_quarter}, world_check_drained, 0},
    {"null-two-segments", full_halves, {free_0, free_2_again_half}, world_check_drained, 0},
    {"null-two-segments-quarters", full_quarters, {free_0, free_4_again_quarter}, world_check_drained, 0},
    {"null-retract", one_left, {free_0, free_2_again_half}, world_check_drained, 0},
    {"null-runs", full_runs, {free_0, free_1_again_run}, world_check_drained, 0},
    {"null-slice-after-run", full_runs, {free_0, free_1_again_after_run}, world_check_drained, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
