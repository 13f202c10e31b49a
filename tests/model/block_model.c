/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Blocks (block.h) under the explorer: slices come back, are used again, blocks become whole. */
#include "world.h"

static void *keep[16];

static void pass(uint32_t bytes) { world_free(world_malloc(bytes, 0)); }
static void half_once(void) { pass(HALF); }
static void half_keep(void) { world_malloc(HALF, 0); }
static void quarter_once(void) { pass(QUARTER); }
static void quarter_keep(void) { world_malloc(QUARTER, 0); }
static void quarter_two(void) { pass(QUARTER), pass(QUARTER); }
static void third_once(void) { pass(THIRD); }
static void free_0(void) { world_free(keep[0]); }
static void free_1(void) { world_free(keep[1]); }
static void free_2(void) { world_free(keep[2]); }
static void free_0_1(void) { free_0(), free_1(); }
static void free_1_0(void) { free_1(), free_0(); }
static void free_1_quarter(void) { free_1(), pass(QUARTER); }
/* Then, if the segment has come back, all of it is quarters, one of which comes back. */
static void free_1_quarters(void) {
    free_1();
    void *first = world_malloc(QUARTER, 0);
    for (uint32_t i = 1; i < 4 && first; i++) world_malloc(QUARTER, 0);
    world_free(first);
}
static void free_0_third(void) { free_0(), pass(THIRD); }
static void flush(void) {
    mm_stripe_flush(&ref);
    model_progress();
}
/* The rest of the quarters comes back; if the segment is nobody's then, its first block is circulated as halves: one is kept, the
 * other one has come back. */
static void free_rest_circulate_half(void) {
    const uint32_t c = mm_class_of(HALF);
    void *p[8];
    for (uint32_t i = 1; i < 4; i++) world_free(keep[i]);
    world_got(mm_stripe_circulate(&ref, c, 1, 0), c, p);
    model_progress();
}

/* Reuse by itself, whatever the stripes say: n slices of one of the blocks that seem to have some. */
static uint32_t reuse_into(void **p, uint32_t bytes, uint32_t n) {
    const uint32_t c = mm_class_of(bytes), count = world_got(mm_stripe_reuse(&ref, c, n, model_self()), c, p);
    model_require(count <= n, "asked for %u, got %u", n, count);
    model_progress();
    return count;
}
static void reuse(uint32_t bytes, uint32_t n) {
    void *p[8];
    const uint32_t count = reuse_into(p, bytes, n);
    for (uint32_t i = 0; i < count; i++) world_free(p[i]);
}
/* Between what it gets and what it frees there is no step of others: only what is kept shows that it was handed out twice. */
static void reuse_quarter_keep(void) {
    void *p[8];
    reuse_into(p, QUARTER, 1);
}
static void reuse_quarter(void) { reuse(QUARTER, 1); }
static void reuse_two_quarters(void) { reuse(QUARTER, 2); }
static void reuse_half(void) { reuse(HALF, 1); }
static void reuse_third(void) { reuse(THIRD, 1); }
/* The block that has something to offer has it for a class whose stale hint leads there. */
static void reuse_half_at_0(void) {
    const mm_claim claim = mm_block_reuse(&ref, 0, mm_class_of(HALF), 1, 0);
    model_require(mm_claim_count(claim) == 0, "a half of a segment of quarters");
    model_progress();
}

/* A segment is full of quarters (halves, thirds). */
static void full(uint32_t segments, uint32_t bytes) {
    world_make(segments);
    model_require(world_fill(bytes, keep, 16) == segments * mm_class_slices(mm_class_of(bytes)), "not filled");
    world_forget_dry();
}
static void full_quarters(void) { full(1, QUARTER); }
static void full_halves(void) { full(1, HALF); }
static void full_thirds(void) { full(1, THIRD); }
static void full_one_home(void) {
    full_quarters();
    world_same_home();
}
/* One of each pair has come back. */
static void one_free(void) {
    full_quarters();
    world_free(keep[0]);
}
static void one_free_second(void) {
    full_quarters();
    world_free(keep[1]);
}
static void two_free(void) {
    full_quarters();
    world_free(keep[0]);
    world_free(keep[2]);
}
static void one_free_thirds(void) {
    full_thirds();
    world_free(keep[0]);
}
/* Tickets are left in the block of which something has come back: nothing is reused there, until the last is drawn. */
static void some_left(void) {
    world_make(1);
    world_same_home();
    keep[0] = world_malloc(QUARTER, 1);
}
/* So is one in a second block; the first, all handed out, has something, too. Who comes to the second block and finds nothing
 * to be had there goes on to the first: it does not come back to what it left. */
static void some_left_second(void) {
    world_make(1);
    world_same_home();
    for (uint32_t i = 0; i < 3; i++) keep[i] = world_malloc(QUARTER, 1);
    world_free(keep[0]);
}
/* The block of halves is whole, its bit in avail stale; segment and hints of both classes are there. */
static void stale_avail(void) {
    full_halves();
    world_free(keep[1]);
    mm_tree_insert(mm_segment_class_tree(&HEAP->ref, mm_class_of(HALF), MM_AVAIL), 0);
    mm_or_release_u64(&mm_segment_at(&ref, 0)->avail, 3);
}

/* The first block of quarters is whole, and still listed, by one who freed in it and was late. */
static void listed_whole(void) {
    full_quarters();
    world_free(keep[0]), world_free(keep[1]);
    keep[1] = NULL;
    mm_block_list(&ref, 0, mm_class_of(QUARTER), 0);
}

/* Freed twice: told once, and the other frees it, whoever comes first. */
static void again_0(void) {
    mm_heap_free(&ref, keep[0]);
    model_progress();
}
static void twice_check(void) {
    model_require(world_misuses() == 1, "freed twice: %u misuses counted", world_misuses());
    world_check_drained();
}

static const struct model_scenario scenarios[] = {
    {"block-whole-by-two", full_quarters, {free_0_1, free_2}, world_check_drained, 0, 0},
    {"block-whole-same-block", full_quarters, {free_0, free_1}, world_check_drained, 0, 0},
    {"block-whole-three", full_quarters, {free_0, free_1, free_2}, world_check_drained, 0, 0},
    {"block-reuse-against-whole", one_free, {reuse_quarter, free_1}, world_check_drained, 0, 0},
    {"block-reuse-against-whole-second", one_free_second, {reuse_quarter, free_0}, world_check_drained, 0, 0},
    {"block-reuse-two-against-whole", one_free, {reuse_two_quarters, free_1}, world_check_drained, 0, 0},
    {"block-reuse-against-reuse", one_free, {reuse_quarter, reuse_quarter}, world_check_drained, 0, 0},
    {"block-reuse-against-reuse-two", two_free, {reuse_quarter, reuse_two_quarters}, world_check_drained, 0, 0},
    {"block-reuse-kept", one_free, {reuse_quarter_keep, reuse_quarter_keep}, world_check_drained, 0, 0},
    {"block-reuse-reuse-whole", one_free, {reuse_quarter, reuse_quarter, free_1}, world_check_drained, 3, 0},
    {"block-reuse-thirds", one_free_thirds, {reuse_third, free_2, free_1}, world_check_drained, 3, 0},
    {"block-reuse-beside-last-ticket", some_left, {reuse_quarter, free_0, quarter_keep}, world_check_drained, 3, 0},
    {"block-reuse-beside-last-ticket-free", some_left, {reuse_quarter, free_0, quarter_once}, world_check_drained, 3, 0},
    {"block-reuse-left-behind", some_left_second, {free_2, reuse_quarter, quarter_once}, world_check_drained, 3, 0},
    {"block-free-beside-last-ticket", some_left, {free_0, quarter_two}, world_check_drained, 0, 0},
    {"block-stale-avail-whole", one_free, {reuse_quarter, free_1_quarter}, world_check_drained, 0, 0},
    {"block-stale-avail-opened", full_halves, {free_0_1, reuse_half, half_keep}, world_check_drained, 3, 0},
    {"block-stale-avail-other-class", full_halves, {free_0_1, reuse_half, quarter_keep}, world_check_drained, 3, 0},
    {"block-stale-avail-both-classes", stale_avail, {free_0_third, reuse_half, reuse_third}, world_check_drained, 3, 0},
    {"block-stale-avail-late-offer", full_halves, {free_0, free_1_quarters}, world_check_drained, 0, 0},
    {"block-stale-reuse-other-class", full_quarters, {free_0, reuse_half_at_0, reuse_quarter}, world_check_drained, 0, 0},
    {"block-listed-retired-circulated", one_free, {reuse_quarter_keep, free_rest_circulate_half}, world_check_drained, 0, 0},
    {"block-listed-whole-circulated", listed_whole, {reuse_quarter_keep, free_rest_circulate_half}, world_check_drained, 0, 0},
    {"block-whole-against-open", full_halves, {free_0_1, half_once}, world_check_drained, 0, 0},
    {"block-whole-against-open-two", full_halves, {free_0, free_1, half_once}, world_check_drained, 3, 0},
    {"block-whole-against-open-class", full_halves, {free_1_0, quarter_once, half_once}, world_check_drained, 3, 0},
    {"block-mallocs-reuse", one_free, {quarter_keep, quarter_once}, world_check_drained, 0, 0},
    {"block-mallocs-reuse-one-home", full_one_home, {free_0, quarter_once, quarter_once}, world_check_drained, 3, 0},
    {"block-thirds-whole", full_thirds, {free_0_1, free_2, third_once}, world_check_drained, 3, 0},
    {"block-flush-beside-reuse", two_free, {flush, reuse_quarter, free_1}, world_check_drained, 3, 0},
    {"block-freed-twice", full_quarters, {free_0, again_0}, twice_check, 0, 0},
    {"block-freed-twice-beside-whole", one_free, {again_0, free_1}, twice_check, 0, 0},
    {"block-freed-twice-both-beside-whole", full_quarters, {free_0, again_0, free_1}, twice_check, 0, 0},
    {"block-freed-twice-beside-segment", full_halves, {again_0, free_0, free_1}, twice_check, 0, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
