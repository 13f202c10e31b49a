/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Segments (segment.h) under the explorer: pages are taken and given back, segments become unowned. */
#include "world.h"

/* A thread takes up to `want` groups of 1 << k pages and holds them as spans of one page each: segment << 32 | groups, if it got any. */
static uint64_t hold(uint32_t s, uint64_t pages) {
    for (uint64_t b = pages; b; b &= b - 1) {
        const uint32_t page = s * MM_SEGMENT_PAGES + mm_ctz(b);
        world_take((uint64_t)page << MM_PAGE_SHIFT, PAGE);
        mm_pages_own(&ref, page, 1, MM_OWNER_SPAN + 1);
        mm_store_relaxed_u64(mm_page_words(&ref, page), mm_word_make(2, 0));
    }
    model_note("took", pages);
    return pages;
}
static uint64_t has[MODEL_THREADS], where[MODEL_THREADS]; /* pages held, and in which segment */
static uint32_t self(void) { return model_self() % MODEL_THREADS; }
static int take(uint32_t k, uint32_t want) {
    uint64_t groups = 0;
    const uint32_t s = mm_pages_take(&ref, k, want, &groups);
    if (s != MM_TREE_NONE) {
        model_require(groups != 0 && mm_popcount(groups) <= want, "asked for %u groups, got %u", want, mm_popcount(groups));
        model_set(&where[self()], s);
        model_set(&has[self()], hold(s, mm_cut_pages(mm_cut_evenly(k), groups)));
    }
    model_progress();
    return s != MM_TREE_NONE;
}
static void put_of(uint32_t t) {
    const uint32_t s = (uint32_t)where[t];
    const uint64_t pages = has[t];
    if (pages == 0) return;
    for (uint64_t b = pages; b; b &= b - 1) {
        const uint32_t page = s * MM_SEGMENT_PAGES + mm_ctz(b);
        world_drop((uint64_t)page << MM_PAGE_SHIFT, PAGE);
        mm_pages_own(&ref, page, 1, MM_OWNER_NOBODY);
    }
    model_set(&has[t], 0);
    mm_pages_put(&ref, s, pages);
    model_note("gave back", pages);
    model_progress();
}
static void put(void) { put_of(self()); }
static void pass(uint32_t k, uint32_t want) {
    if (take(k, want)) put();
}
static void one_once(void) { pass(0, 1); }
static void one_keep(void) { take(0, 1); }
static void one_twice(void) { pass(0, 1), pass(0, 1); }
static void two_once(void) { pass(1, 1); }
static void two_keep(void) { take(1, 1); }
static void two_groups(void) { pass(0, 2); }
static void put_then_one(void) { put(), pass(0, 1); }
static void must_one(void) { model_require(take(0, 1), "no page, though some were free all the time"); }
static void run_once(void) {
    const struct mm_tree t = mm_segment_free_tree(&ref);
    if (mm_run_try_take(t, 0, 1)) {
        mm_add_relaxed_u64(&HEAP->free_count, ~0ull);
        mm_store_relaxed_u64(&mm_segment_at(&ref, 0)->run, mm_run_make(1));
        world_take(0, MM_SEGMENT_BYTES);
        world_drop(0, MM_SEGMENT_BYTES);
        mm_run_try_free(&ref, 0);
    }
    model_progress();
}

static void fresh(uint32_t segments) {
    world_make(segments);
    for (uint32_t t = 0; t < MODEL_THREADS; t++) has[t] = where[t] = 0;
}
static void one_segment(void) { fresh(1); }
static void two_segments(void) { fresh(2); }
/* Four pages, all unowned. */
static void four_pages(void) {
    fresh(1);
    world_pages(0, 4);
}
static void two_pages(void) {
    fresh(1);
    world_pages(0, 2);
}
static void had(uint32_t t, uint64_t pages) {
    has[t] = hold(0, pages);
    mm_and_acquire_u64(&mm_segment_at(&ref, 0)->pages, ~pages);
}
/* Each of two threads holds one page of a pair: the second to free makes room for two. */
static void halves_of_pair(void) {
    two_pages();
    had(0, 1), had(1, 2);
}
static void one_of_pair(void) {
    two_pages();
    had(0, 1);
}
/* A segment in which one thread holds all that is not free: it becomes unowned when that comes back. */
static void nearly_whole(void) {
    fresh(1);
    mm_tree_erase(mm_segment_free_tree(&ref), 0);
    HEAP->free_count--;
    mm_pages_put(&ref, 0, ~0ull << 1);
    has[0] = hold(0, 1);
}
static void two_have_some(void) {
    fresh(1);
    mm_tree_erase(mm_segment_free_tree(&ref), 0);
    HEAP->free_count--;
    mm_pages_put(&ref, 0, ~0ull << 2);
    has[0] = hold(0, 1), has[1] = hold(0, 2);
}
/* Everything is unowned, and the room trees say otherwise. */
static void stale_room(void) {
    fresh(1);
    for (uint32_t k = 0; k < 2; k++) mm_tree_insert(mm_segment_room_tree(&ref, k), 0);
}
/* The trees say that there is room for pairs, but there are only single pages. */
static void stale_pairs(void) {
    one_of_pair();
    mm_tree_insert(mm_segment_room_tree(&ref, 1), 0);
}
/* Two segments have a page each. */
static void page_each(void) {
    fresh(2);
    world_pages(0, 1), world_pages(1, 1);
}

static const struct model_scenario scenarios[] = {
    {"segment-two-takers", two_pages, {one_keep, one_keep}, world_check_drained, 0, 0},
    {"segment-two-takers-fresh", one_segment, {one_keep, two_keep}, world_check_drained, 0, 0},
    {"segment-two-takers-pass", one_segment, {one_once, two_once}, world_check_drained, 0, 0},
    {"segment-three-takers", four_pages, {two_once, one_once, two_groups}, world_check_drained, 3, 0},
    {"segment-taker-against-putter", one_of_pair, {put_then_one, one_twice}, world_check_drained, 0, 0},
    {"segment-taker-of-pair", one_of_pair, {put, two_once}, world_check_drained, 0, 0},
    {"segment-putters-make-room", halves_of_pair, {put, put}, world_check_drained, 0, 0},
    {"segment-putters-and-taker", halves_of_pair, {put, put, one_once}, world_check_drained, 0, 0},
    {"segment-putters-and-pair", halves_of_pair, {put, put, two_once}, world_check_drained, 3, 0},
    {"segment-whole-against-taker", nearly_whole, {put, one_keep}, world_check_drained, 0, 0},
    {"segment-whole-against-takers", nearly_whole, {put, one_once, two_once}, world_check_drained, 3, 0},
    {"segment-whole-by-two", two_have_some, {put, put}, world_check_drained, 0, 0},
    {"segment-whole-by-two-taker", two_have_some, {put, put, one_keep}, world_check_drained, 3, 0},
    {"segment-whole-then-run", nearly_whole, {put, run_once, one_once}, world_check_drained, 3, 0},
    {"segment-stale-room", stale_room, {one_keep, two_once}, world_check_drained, 0, 0},
    {"segment-stale-room-run", stale_room, {one_once, run_once}, world_check_drained, 0, 0},
    {"segment-stale-pairs", stale_pairs, {put, two_once, two_once}, world_check_drained, 3, 0},
    {"segment-others-page", page_each, {must_one, must_one}, world_check_drained, 0, 0},
    {"segment-two-segments", two_segments, {one_once, two_once, run_once}, world_check_drained, 3, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
