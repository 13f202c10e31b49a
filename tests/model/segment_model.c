/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Segments (segment.h) under the explorer: whole blocks are claimed and given back, segments change class. Sizes: config.sh. */
#include "world.h"

#define C mm_class_of(HALF)
#define D mm_class_of(QUARTER)
#define T mm_class_of(THIRD)

/* Bytes that block j of class c has, and where. */
static uint64_t block_off(uint32_t s, uint32_t c, uint32_t j) {
    return ((uint64_t)s << MM_SEGMENT_SHIFT) + ((uint64_t)(j << mm_class_block_shift(c))) * mm_class_bytes(c);
}
static uint64_t block_bytes(uint32_t c, uint32_t j) {
    const uint32_t left = mm_class_slices(c) - (j << mm_class_block_shift(c)), most = 1u << mm_class_block_shift(c);
    return (uint64_t)(left < most ? left : most) * mm_class_bytes(c);
}

/* What a thread holds: segment << 32 | bits; 0: nothing. */
static uint64_t hold(uint32_t s, uint32_t c, uint64_t bits) {
    for (uint64_t b = bits; b; b &= b - 1) world_take(block_off(s, c, mm_ctz(b)), block_bytes(c, mm_ctz(b)));
    model_note("claimed", bits);
    return bits ? (uint64_t)s << 32 | bits : 0;
}
static uint64_t claim(uint32_t c, uint32_t want) {
    const struct mm_tree t = mm_segment_class_tree(&HEAP->ref, c, MM_WHOLE);
    uint64_t got = 0;
    for (uint32_t tries = 0; tries < 2 && !got; tries++) {
        const uint32_t s = mm_tree_find(t, 0);
        if (s == MM_TREE_NONE) break;
        got = mm_load_relaxed_u64(&mm_segment_at(&ref, s)->whole);
        got = got ? mm_segment_claim(&ref, s, mm_bits_first(got, want)) : 0;
        got = got && mm_segment_keep(&ref, s, c, got) ? hold(s, c, got) : 0;
        if (!got) mm_segment_unlist(&ref, s, c, MM_WHOLE);
    }
    model_progress();
    return got;
}
static uint64_t claim_fresh(uint32_t c) {
    uint64_t bit = 0;
    const uint32_t s = mm_segment_claim_fresh(&ref, c, (uint32_t)HEAP->free_near, 0, 1, &bit);
    const uint64_t got = s == MM_TREE_NONE ? 0 : hold(s + mm_ctz(bit), c, mm_class_blocks_mask(c));
    model_progress();
    return got;
}
static uint64_t back(uint64_t held, uint32_t c, uint64_t some) {
    const uint64_t bits = held & some & 0xffffffff;
    if (!bits) return held;
    for (uint64_t b = bits; b; b &= b - 1) world_drop(block_off((uint32_t)(held >> 32), c, mm_ctz(b)), block_bytes(c, mm_ctz(b)));
    mm_segment_give_back(&ref, (uint32_t)(held >> 32), c, bits);
    model_progress();
    model_note("gave back", bits);
    return (held & 0xffffffff) == bits ? 0 : held & ~bits;
}
static void all_back(uint64_t held, uint32_t c) { back(held, c, ~0ull); }
static void pass(uint32_t c, uint32_t want) { all_back(claim(c, want), c); }

/* A thread that gets the segment for other sizes, gives back one by one, and claims again. */
static void other(uint32_t c) {
    uint64_t held = claim_fresh(c);
    held = back(held, c, 1);
    pass(c, 1);
    all_back(held, c);
}
static void other_d(void) { other(D); }
static void other_t(void) { other(T); }
static void pass_c(void) { pass(C, 1); }
static void pass_d(void) { pass(D, 2); }

/* Two blocks of class C (THIRD where C has but one) or more, one of which is back. */
static uint32_t two_class(void) { return mm_class_blocks(C) > 1 ? C : T; }
static void retire_setup(void) {
    world_make(1);
    cell_set(0, back(claim_fresh(two_class()), two_class(), 1));
}
static void retire_back(void) { all_back(cell[0], two_class()); }
static void retire_pass(void) { pass(two_class(), 1); }
static void retire_pass_two(void) { pass(two_class(), 2); }
/* Two blocks come back at once; before the later one can take out again what makes it all, a third thread does, and the
 * segment is another class's, of more blocks, of which as many come back as were all of it before. */
static void alike_setup(void) {
    world_make(1);
    cell_set(0, claim_fresh(two_class()));
}
static uint32_t alike_class(void) { return two_class() == C ? D : mm_class_of(EIGHTH); }
static void alike_back(void) { back(cell[0], two_class(), 1); }
static void alike_back_second(void) { back(cell[0], two_class(), 2); }
static void alike_other(void) {
    retire_pass();
    const uint64_t held = claim_fresh(alike_class());
    cell_set(1, back(held, alike_class(), mm_class_blocks_mask(two_class())));
}
static void alike_check(void) {
    all_back(cell[1], alike_class());
    world_check_drained();
}
/* All of four quarters (two, of two) are out; each of two threads has half of them. */
static void halves_setup(void) {
    world_make(1);
    cell_set(0, claim_fresh(D));
}
static uint64_t lower(void) { return mm_bits_low(mm_class_blocks(D) / 2); }
static void back_lower(void) { back(cell[0], D, lower()); }
static void back_upper(void) { back(cell[0], D, ~lower()); }
static void upper_one_by_one(void) {
    uint64_t held = cell[0] & ~lower();
    while (held) held = back(held, D, held & -held & 0xffffffff);
}
static void lower_and_claim(void) {
    back_lower();
    pass_d();
}
/* One takes the only whole block while another gives one back: the segment stays listed. */
static void listed_setup(void) {
    halves_setup();
    cell_set(0, back(cell[0], D, 1));
    cell_set(1, claim_fresh(D));
}
static void listed_claim(void) {
    cell_set(2, claim(D, 1));
    cell_set(3, claim(D, 1));
}
static void listed_back(void) { cell_set(0, back(cell[0], D, 2)); }
static void listed_check(void) {
    const struct mm_segment *at = mm_segment_at(&ref, 0);
    model_require(at->whole == 0 || mm_check_in_tree(mm_segment_class_tree(&HEAP->ref, D, MM_WHOLE), 0), "the segment is not listed");
    all_back(cell[2], D), all_back(cell[3], D), all_back(cell[0], D);
    world_check_drained();
}
/* Two ask for fresh segments, of which there is one, and a third gives one back. */
static void fresh_setup(void) {
    world_make(2);
    cell_set(0, claim_fresh(C));
}
static void fresh_back(void) { all_back(cell[0], C); }
static void fresh_pass(void) { all_back(claim_fresh(D), D); }

static const struct model_scenario scenarios[] = {
    {"segment-retire-two-classes", retire_setup, {retire_back, retire_pass, other_d}, world_check_drained, 0, 0},
    {"segment-retire-two-at-once", retire_setup, {retire_back, retire_pass_two, other_t}, world_check_drained, 0, 0},
    {"segment-retire-looks-alike", alike_setup, {alike_back, alike_back_second, alike_other}, alike_check, 0, 0},
    {"segment-stays-listed", listed_setup, {listed_claim, listed_back}, listed_check, 0, 0},
    {"segment-whole-by-two", halves_setup, {back_lower, upper_one_by_one, other_t}, world_check_drained, 0, 0},
    {"segment-claim-beside-whole", halves_setup, {lower_and_claim, back_upper, other_t}, world_check_drained, 0, 0},
    {"segment-stale-reader", retire_setup, {retire_back, retire_pass, other_d, pass_c}, world_check_drained, 3, 0},
    {"segment-fresh", fresh_setup, {fresh_back, fresh_pass, fresh_pass}, world_check_drained, 0, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
