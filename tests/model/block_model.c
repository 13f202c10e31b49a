/* Blocks (block.h) under the explorer: tickets, refills, retiring, stale readers of two classes. */
#include "world.h"

#define HALF ((uint32_t)MM_SEGMENT_BYTES / 2)
#define QUARTER ((uint32_t)MM_SEGMENT_BYTES / 4)
#define EIGHTH ((uint32_t)MM_SEGMENT_BYTES / 8)

static void *keep[16];

static void pass(uint32_t bytes) {
    void *p = world_malloc(bytes, 0);
    if (p) world_free(p);
}
static void half_once(void) { pass(HALF); }
static void half_twice(void) { pass(HALF), pass(HALF); }
static void quarter_once(void) { pass(QUARTER); }
static void quarter_twice(void) { pass(QUARTER), pass(QUARTER); }
static void eighth_once(void) { pass(EIGHTH); }
static void half_two(void) {
    void *p = world_malloc(HALF, 0), *q = world_malloc(HALF, 0);
    if (p) world_free(p);
    if (q) world_free(q);
}
static void half_keep(void) { world_malloc(HALF, 0); }
static void quarter_keep(void) { world_malloc(QUARTER, 0); }
static void free_keep_0(void) { world_free(keep[0]); }
static void free_keep_1(void) { world_free(keep[1]); }

static void one(void) { world_make(1); }
static void two(void) { world_make(2); }
/* A block of halves is open, with tickets left or just none; another class will want its segment. */
static void open_half(void) {
    world_make(1);
    keep[0] = world_malloc(HALF, 1);
}
static void open_halves(void) {
    world_make(1);
    keep[0] = world_malloc(HALF, 1);
    keep[1] = world_malloc(HALF, 1);
}

/* A reader that saw the block open for halves adds to it when it is open for quarters. */
static void recycle(void) {
    pass(HALF);
    world_free(keep[0]);
    for (uint32_t i = 0; i < 3; i++) world_malloc(QUARTER, 0); /* the fourth quarter begins where the halves' block did */
}
/* One takes the last ticket and has nothing to refill with, while another frees something and refills. */
static void one_ticket(void) {
    world_make(2);
    for (uint32_t i = 0; i < 2 * (MM_SEGMENT_BYTES / HALF) - 1; i++) keep[i] = world_malloc(HALF, 1);
}
static void free_two_then_half(void) {
    world_free(keep[0]);
    world_free(keep[1]);
    world_malloc(HALF, 0);
}
/* Two groups, one block: it has slices for both. */
static void two_groups(void) {
    world_make(1);
    for (uint32_t i = 0; i < MM_STRIPES; i++)
        HEAP->classes[mm_class_of(HALF)].stripe[i] = (uint64_t)(1u << MM_STRIPES_SHIFT | i) << 2 | MM_STRIPE_NONE;
}
static void half_must(void) { world_malloc(HALF, 1); }

static const struct model_scenario scenarios[] = {
    {"block-two-threads", one, {half_twice, half_twice}, world_check_drained, 0},
    {"block-two-threads-two-each", two, {half_two, half_two}, world_check_drained, 0},
    {"block-three-threads-keep", two, {half_keep, half_keep, half_keep}, world_check_drained, 3},
    {"block-three-threads", one, {half_once, half_once, half_once}, world_check_drained, 3},
    {"block-three-threads-quarters", one, {quarter_once, quarter_once, quarter_once}, world_check_drained, 3},
    {"block-two-classes", one, {half_twice, quarter_twice}, world_check_drained, 0},
    {"block-two-classes-keep", one, {half_twice, quarter_keep}, world_check_drained, 0},
    {"block-three-classes", one, {half_once, quarter_once, eighth_once}, world_check_drained, 3},
    {"block-stale-reader", open_half, {free_keep_0, half_once, quarter_once}, world_check_drained, 3},
    {"block-stale-reader-keep", open_halves, {free_keep_0, free_keep_1, half_once, quarter_keep}, world_check_drained, 3},
    {"block-recycled-under-a-reader", open_half, {half_once, recycle}, world_check_drained, 3},
    {"block-last-ticket-beside-refill", one_ticket, {free_two_then_half, half_keep}, world_check_drained, 0},
    {"block-two-groups", two_groups, {half_must, half_must}, world_check_drained, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
