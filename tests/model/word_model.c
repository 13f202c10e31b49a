/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Words (word.h) and free (free.h) under the explorer: slices are claimed, perhaps through an old entry, put back and freed, while the
 * page goes to another class. A block has two slices, in one page; there are one or two pages. */
#include "world.h"

static void *keep[8];
static uint64_t old_entry; /* of a block of class A that was, or is, at page 0 */

static void claim(uint64_t entry, uint32_t c) { world_got(mm_slices_claim(&ref, 1, 1, entry, 0, c), c); }
static uint64_t entry_of(uint32_t c, uint32_t i) { return mm_table_load(&ref, c, i, 0); }
static void retire_0(void) {
    mm_blocks_retire(&ref, 1, 0);
    model_progress();
}

static void claim_keep(void) { claim(old_entry, A); }
static void claim_second(void) { world_got(mm_slices_claim(&ref, 1, 1, old_entry, 1, A), A); }
static void claim_must(void) {
    const uint64_t p = mm_slices_claim(&ref, 1, 1, old_entry, 0, A);
    model_require(p != 0, "two slices were free, and two wanted one");
    world_got(p, A);
}
/* Lanes of a warp, each with an entry and a slice of its own. */
static uint64_t claim_lane(uint64_t entry, uint32_t slice, uint32_t c) {
    const uint64_t p = mm_slices_claim(&ref, 3, mm_entry_is_of(entry, c), entry, slice, c);
    world_got(p, c);
    return p;
}
static void lane_first(void) { claim_lane(old_entry, 0, A); }
static void lane_second(void) { claim_lane(old_entry, 1, A); }
static void lane_first_must(void) { model_require(claim_lane(old_entry, 0, A), "two slices were free, and two lanes of a warp wanted one"); }
static void lane_new(void) { claim_lane(entry_of(B, 0), 1, B); }
static void lane_none(void) { claim_lane(MM_ENTRY_NONE, 0, A); }
/* The first draw of lanes of a warp: an address, or a token. */
static uint64_t draw_lane(void) {
    const uint64_t p = mm_cursor_draw_first(&ref, 3, 0, A);
    if (!(p & MM_TOKEN)) world_got(p, A);
    model_progress();
    return p;
}
static void lane_draws(void) { draw_lane(); }
static void lane_draws_must(void) { model_require(!(draw_lane() & MM_TOKEN), "two slices were free, and two lanes of a warp drew"); }
/* Two claims at once: one slice may be free, the other not. */
static void claim_pair(void) {
    const uint32_t got = mm_word_claim(mm_page_words(&ref, 0), mm_entry_generation(old_entry), 3) & 3;
    for (uint32_t i = 0; i < 2; i++)
        if (got >> i & 1) world_got(mm_slice_address(&ref, 0, A, i), A);
    model_progress();
}
static void a_keep(void) { world_malloc(16, 0); }
static void b_keep(void) { world_malloc(32, 0); }
static void b_two(void) { world_malloc(32, 0), world_malloc(32, 0); }
static void b_once(void) { world_free(world_malloc(32, 0)); }
static void retire_b(void) { retire_0(), world_malloc(32, 0); }
static void retire_b_two(void) { retire_0(), b_two(); }
static void retire_b_once(void) { retire_0(), b_once(); }
static void retire_a(void) { retire_0(), world_malloc(16, 0); }
static void retire_b_retire_a(void) { retire_0(), b_once(), retire_0(), world_malloc(16, 0); }
static void retire_span(void) {
    retire_0();
    world_free(world_malloc(PAGE, 0));
}
static void free_0(void) { world_free(keep[0]); }
static void free_1(void) { world_free(keep[1]); }
static void free_0_retire(void) { free_0(), retire_0(); }
static void free_0_claim(void) { free_0(), claim_keep(); }
static void again_0(void) {
    mm_heap_free(&ref, keep[0]);
    model_progress();
}

static void make(uint32_t pages) {
    world_make(1);
    world_pages(0, pages);
    world_cut(A, 2), world_cut(B, 2);
    keep[0] = world_malloc(16, 1);
    old_entry = entry_of(A, 0);
}
/* Both slices are free; one is; none is. */
static void all_free(void) {
    make(1);
    free_0();
}
static void all_free_two(void) {
    make(2);
    free_0();
}
static void one_live(void) { make(1); }
static void both_live(void) {
    make(1);
    keep[1] = world_malloc(16, 1);
}
/* The page belongs to class B; the entry of the block before it is known. */
static void is_b(void) {
    all_free();
    retire_0();
    keep[1] = world_malloc(32, 1);
}
static void is_b_free(void) {
    is_b();
    free_1();
}
static void is_b_full(void) {
    is_b();
    keep[2] = world_malloc(32, 1);
}

/* Threads 0 and 1 are the lanes of a warp. */
static void warp_all_free(void) { all_free(), world_warp(0, 2); }
static void warp_one_live(void) { one_live(), world_warp(0, 2); }
static void warp_both_live(void) { both_live(), world_warp(0, 2); }
static void warp_is_b(void) { is_b(), world_warp(0, 2); }

static void check_both(void) {
    world_check_drained();
    model_require(world_free_slices(A) == 0, "two claimed, and something is free");
}
/* Nothing is held: two slices of a block are free, or the page is. */
static void check_lost(void) {
    world_check_drained();
    const uint32_t n = world_free_slices(A) + world_free_slices(B);
    model_require(n == 2 || mm_segment_at(&ref, 0)->pages == 1, "%u slices are free", n);
}
/* Freed twice at once: reported, or not if a block was retired just then; never reported more than once. */
static void check_twice(void) {
    world_check_drained();
    model_require(world_misuses() <= 1, "freed twice: %u misuses counted", world_misuses());
}
static void check_told(void) {
    world_check_drained();
    model_require(world_misuses() == 1, "freed twice: %u misuses counted", world_misuses());
}
/* Freed twice, and the page has changed owners meanwhile: the bit of one of the new owner's slices may be set, and no other. */
static void check_misused(void) {
    struct mm_check k = {0};
    mm_heap_check_quiescent(&ref, 0, 1, &k);
    model_require(k.fault == 0, "freed twice: fault %u", (uint32_t)k.fault);
}

static void make_b(void) {
    uint32_t slice;
    const uint32_t number = mm_class_block_of(ref.classes[B], mm_tickets_draw(&ref, 1, 1, B), &slice);
    mm_blocks_make(&ref, 1, B, number, MM_FIRST_SOME, 0);
    model_progress();
}
/* The same where the page changes owners: reported, or it has hit one of the new owner's slices. */
static void check_if_told(void) {
    if (world_misuses() == 1) world_check_drained();
    else check_misused();
}
/* The block has been retired, and its slice is freed again. */
static void retired(void) {
    all_free();
    retire_0();
}

static const struct model_scenario scenarios[] = {
    {"word-two-claimers", all_free, {claim_must, claim_must}, check_both, 0, 0},
    {"word-two-claimers-one-slice", one_live, {claim_keep, claim_keep}, check_both, 0, 0},
    {"word-three-claimers", all_free, {claim_keep, claim_second, claim_keep}, check_both, 0, 0},
    {"word-claim-against-free", both_live, {claim_keep, free_0_claim}, world_check_drained, 0, 0},
    {"word-claim-against-retire", all_free, {claim_keep, retire_0}, world_check_drained, 0, 0},
    {"word-stale-claim", is_b_free, {claim_keep, b_once}, check_lost, 0, 0},
    {"word-stale-claim-one", is_b, {claim_keep, b_keep}, world_check_drained, 0, 0},
    {"word-stale-claim-free", is_b, {claim_keep, free_1}, check_lost, 0, 0},
    {"word-stale-claim-pair", is_b, {claim_pair, b_keep}, world_check_drained, 0, 0},
    {"word-claim-pair", one_live, {claim_pair, free_0}, world_check_drained, 0, 0},
    {"word-stale-claim-full", is_b_full, {claim_keep, free_1, b_keep}, world_check_drained, 0, 0},
    {"word-stale-claim-two", is_b, {claim_keep, claim_second, b_keep}, world_check_drained, 0, 0},
    {"word-stale-claim-retire", is_b_free, {claim_keep, retire_0}, check_lost, 0, 0},
    {"word-stale-claim-retire-a", is_b_free, {claim_keep, retire_a}, world_check_drained, 0, 0},
    {"word-reuse-race", all_free, {claim_keep, retire_b}, world_check_drained, 0, 0},
    {"word-reuse-race-two", all_free, {claim_keep, retire_b_two}, world_check_drained, 0, 0},
    {"word-reuse-race-mallocs", all_free, {a_keep, retire_b}, world_check_drained, 2, 0},
    {"word-reuse-race-mallocs-two", all_free_two, {a_keep, retire_b_two}, world_check_drained, 2, 0},
    {"word-reuse-race-three", all_free, {claim_keep, retire_b_once, b_keep}, world_check_drained, 2, 0},
    {"word-reuse-race-and-back", all_free, {claim_keep, retire_b_retire_a}, world_check_drained, 0, 0},
    {"word-reuse-race-span", all_free, {claim_keep, retire_span}, world_check_drained, 0, 0},
    {"word-free-against-retire", one_live, {free_0, retire_0}, check_lost, 0, 0},
    {"word-free-against-retire-two", both_live, {free_0_retire, free_1, retire_0}, check_lost, 0, 0},
    {"word-free-against-retire-claim", one_live, {free_0, retire_b, claim_keep}, world_check_drained, 3, 0},
    {"word-freed-twice", both_live, {free_0, again_0}, check_told, 0, 0},
    {"word-freed-twice-beside-retire", one_live, {free_0, again_0, retire_0}, check_twice, 0, 0},
    {"word-freed-late-beside-make", retired, {make_b, again_0}, check_told, 0, 0},
    {"word-freed-late-beside-claim", retired, {again_0, claim_keep, b_keep}, check_if_told, 3, 0},
    {"word-freed-late-beside-retire", one_live, {free_0_retire, again_0, make_b}, check_misused, 0, 0},
    {"word-freed-twice-beside-make", one_live, {free_0, again_0, retire_b}, check_misused, 3, 0},
    {"word-warp-claims", warp_all_free, {lane_first, lane_second}, check_both, 0, 0},
    {"word-warp-claims-same", warp_all_free, {lane_first_must, lane_first_must}, check_both, 0, 0},
    {"word-warp-claims-one", warp_all_free, {lane_none, lane_first_must, claim_second}, check_both, 0, 0},
    {"word-warp-claims-beside-claim", warp_all_free, {lane_first, lane_first, claim_keep}, check_both, 0, 0},
    {"word-warp-claims-beside-free", warp_one_live, {lane_first, lane_second, free_0}, world_check_drained, 0, 0},
    {"word-warp-claims-beside-retire", warp_all_free, {lane_first, lane_second, retire_b}, world_check_drained, 0, 0},
    {"word-warp-stale-claims", warp_is_b, {lane_first, lane_second, free_1}, check_lost, 0, 0},
    {"word-warp-two-entries", warp_is_b, {lane_first, lane_new, b_once}, world_check_drained, 0, 0},
    {"word-warp-draws", warp_all_free, {lane_draws_must, lane_draws_must}, check_both, 0, 0},
    {"word-warp-draws-beside-claim", warp_all_free, {lane_draws, lane_draws, claim_keep}, check_both, 0, 0},
    {"word-warp-draws-beside-free", warp_both_live, {lane_draws, lane_draws, free_0}, world_check_drained, 0, 0},
    {"word-warp-draws-beside-retire", warp_all_free, {lane_draws, lane_draws, retire_b}, world_check_drained, 0, 0},
    {"word-warp-draws-beside-two", warp_all_free, {lane_draws, lane_draws, retire_b_retire_a}, world_check_drained, 0, 0},
    {"word-warp-frees", warp_both_live, {free_0, free_1, retire_0}, check_lost, 0, 0},
    {"word-warp-frees-beside-claim", warp_both_live, {free_0, free_1, claim_keep}, world_check_drained, 0, 0},
    {"word-warp-freed-twice", warp_both_live, {free_0, again_0}, check_told, 0, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
