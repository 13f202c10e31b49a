/* Stripes and reserves (stripe.h) under the explorer: tickets, refills, regions, stealing, flushing, misuse of what was never
 * handed out. */
#include "world.h"

static void *keep[16];
static void *got[MODEL_THREADS][8];

static void pass(uint32_t bytes) { world_free(world_malloc(bytes, 0)); }
static void two(uint32_t bytes) {
    void *p = world_malloc(bytes, 0), *q = world_malloc(bytes, 0);
    world_free(p);
    world_free(q);
}
static void warp(uint32_t bytes, uint32_t n) {
    void **p = got[model_self()];
    n = world_malloc_warp(bytes, n, p, 0);
    for (uint32_t i = 0; i < n; i++) world_free(p[i]);
}
static void half_once(void) { pass(HALF); }
static void half_two(void) { two(HALF); }
static void half_keep(void) { world_malloc(HALF, 0); }
static void quarter_once(void) { pass(QUARTER); }
static void quarter_two(void) { two(QUARTER); }
static void quarter_keep(void) { world_malloc(QUARTER, 0); }
static void eighth_once(void) { pass(EIGHTH); }
static void third_two(void) { two(THIRD); }
static void third_keep(void) { world_malloc(THIRD, 0); }
static void third_keep_two(void) { third_keep(), third_keep(); }
static void half_warp_3(void) { warp(HALF, 3); }
static void quarter_warp_3(void) { warp(QUARTER, 3); }
static void third_warp_2(void) { warp(THIRD, 2); }
static void half_warp_keep(void) {
    void *p[4];
    world_malloc_warp(HALF, 4, p, 0);
}
static void free_keep_0(void) { world_free(keep[0]); }
static void flush(void) {
    mm_stripe_flush(&ref);
    model_progress();
}
static void steal_quarter(void) {
    const uint32_t c = mm_class_of(QUARTER);
    void *p;
    const uint32_t n = world_got(mm_stripe_steal(&ref, c, 1), c, &p);
    model_progress();
    if (n) world_free(p);
}

static void one_segment(void) { world_make(1); }
static void two_segments(void) { world_make(2); }
static void three_segments(void) { world_make(3); }
static void one_home(void) {
    world_make(2);
    world_same_home();
}
static void one_home_four(void) {
    world_make(4);
    world_same_home();
}
/* A region of quarters, of which some tickets are left. */
static void some_left(void) {
    one_home();
    keep[0] = world_malloc(QUARTER, 1);
}
static void some_left_of_one(void) {
    world_make(1);
    keep[0] = world_malloc(QUARTER, 1);
}
/* The last ticket below the limit is next. */
static void one_left(void) {
    one_home();
    const uint32_t c = mm_class_of(QUARTER);
    do keep[0] = world_malloc(QUARTER, 1);
    while (mm_stripe_limit(HEAP->classes[c].stripe[0].word) > mm_stripe_cursor(HEAP->classes[c].stripe[0].word) + 1);
}

/* A reserve of several segments: what a region of it begins with is not its first segment. */
static void reserve_setup(void) {
    const uint32_t c = mm_class_of(HALF);
    uint32_t n = 0;
    world_make(3);
    const uint32_t s = mm_segment_claim_fresh(&ref, c, (uint32_t)HEAP->free_near, 0, 3, &n);
    mm_store_relaxed_u64(&HEAP->classes_used, 1ull << c);
    mm_store_relaxed_u64(&HEAP->classes[c].stripe[MM_STRIPES].word, mm_stripe_make(s + 1, n * mm_class_blocks(c), 0));
}
static void reserve_same_home(void) {
    reserve_setup();
    world_same_home();
}

/* Frees of what was never handed out, beside who hands it out: told, and nothing changes. */
static void never_setup(void) {
    world_make(2); /* enough for all: nobody steals the ticket, whose slice a wrong free would then hit */
    keep[0] = world_malloc(QUARTER, 1);
}
static void *slice_of(uint32_t i) { return (void *)(ref.user_base + i * QUARTER); }
/* Of the block that is open for another home; or of none. */
static void free_never(void) {
    mm_heap_free(&ref, slice_of(mm_class_block_shift(mm_class_of(QUARTER)) ? 1 : 3));
    model_progress();
}
static void never_check(void) {
    model_require(world_misuses() == 1, "a slice never handed out was freed: %u misuses", world_misuses());
    world_check_drained();
}
/* All but the first were never handed out when the heap came back; then it is another class's. */
static void free_never_twice(void) {
    free_never();
    free_never();
}
static void never_twice_check(void) {
    model_require(world_misuses() == 2, "a slice never handed out was freed twice: %u misuses", world_misuses());
    world_check_drained();
}

static const struct model_scenario scenarios[] = {
    {"stripe-two-threads", two_segments, {half_two, half_two}, world_check_drained, 0, 0},
    {"stripe-same-home", one_home, {half_two, half_two}, world_check_drained, 0, 0},
    {"stripe-same-home-quarters", one_home, {quarter_two, quarter_two}, world_check_drained, 0, 0},
    {"stripe-thirds", one_home, {third_two, third_warp_2}, world_check_drained, 0, 0},
    {"stripe-thirds-kept", one_home, {third_keep_two, third_keep}, world_check_drained, 0, 0},
    {"stripe-crossing-the-limit", one_left, {quarter_once, quarter_once}, world_check_drained, 0, 0},
    {"stripe-crossing-the-limit-three", one_left, {quarter_once, quarter_once, quarter_once}, world_check_drained, 3, 0},
    {"stripe-warp-over-the-limit", one_left, {quarter_warp_3, quarter_once}, world_check_drained, 0, 0},
    {"stripe-two-warps", one_home_four, {half_warp_3, half_warp_3}, world_check_drained, 3, 0},
    {"stripe-three-keep", one_home, {half_keep, half_keep, half_keep}, world_check_drained, 3, 0},
    {"stripe-region-of-segments", reserve_same_home, {half_warp_3, half_warp_3}, world_check_drained, 3, 0},
    {"stripe-region-two-homes", reserve_setup, {half_warp_keep, half_keep, half_once}, world_check_drained, 3, 0},
    {"stripe-reserve-by-two", three_segments, {half_keep, quarter_keep, half_two}, world_check_drained, 3, 0},
    {"stripe-one-segment-by-two", one_segment, {quarter_two, quarter_two}, world_check_drained, 0, 0},
    {"stripe-three-classes", one_segment, {half_once, quarter_once, eighth_once}, world_check_drained, 3, 0},
    {"stripe-flush-beside-draw", some_left, {flush, quarter_two}, world_check_drained, 0, 0},
    {"stripe-flush-beside-flush", some_left, {flush, flush, quarter_once}, world_check_drained, 3, 0},
    {"stripe-flush-beside-free", some_left_of_one, {flush, free_keep_0, quarter_once}, world_check_drained, 3, 0},
    {"stripe-steal-beside-refill", one_left, {steal_quarter, quarter_two}, world_check_drained, 0, 0},
    {"stripe-steal-beside-flush", some_left, {steal_quarter, flush, quarter_once}, world_check_drained, 3, 0},
    {"stripe-never", never_setup, {free_never, quarter_once}, never_check, 0, 0},
    {"stripe-never-beside-whole", never_setup, {free_never_twice, free_keep_0}, never_twice_check, 0, 0},
    {"stripe-never-beside-opening", never_setup, {free_never, quarter_once, free_keep_0}, never_check, 3, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
