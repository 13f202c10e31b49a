/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Spans: consecutive pages of one segment that serve one request (more than a slice has, or aligned to more; at most MM_SPAN_PAGES_MAX pages).
 *
 * Representation. The first page of a span has owner MM_OWNER_SPAN + pages, the others MM_OWNER_SPAN_BODY. The first word of its first page is that of a
 *   block with one slice.
 * Claim. Lanes of a warp that want spans of the same length claim together. If they want at least a segment together, they take whole segments, up to
 *   all of a leaf of the free tree, by one atomic (65,536 spans of half a segment: 8.8 ms by single threads, 0.35 ms so). Otherwise they take pages of
 *   one segment, wherever enough consecutive pages are free: twelve spans of five pages fit into a segment so, and only eight at multiples of eight pages.
 * Linearisation points. malloc: the atomic that takes the segments or pages. free: the compare-and-swap of the word.
 * NULL. Only after a shortage (shortage.h).
 */
#ifndef MM_CORE_SPAN_H
#define MM_CORE_SPAN_H

#include "runtime/core/run.h"

/* The largest span, in pages. Larger requests are runs. */
#define MM_SPAN_PAGES_MAX (7u << (MM_ROOMS_EVEN - 3))

/* The cut for a span of n pages at a multiple of 1 << align; n <= MM_SPAN_PAGES_MAX, align < MM_ROOMS_EVEN. The span has n pages or some more: there are four
 * lengths to a doubling, as for slices, and aligned spans have a power of two of pages. So the room that a freed span leaves is found by the next one. */
MM_FN struct mm_cut mm_span_cut(uint32_t n, uint32_t align) {
    uint32_t shift = 0, r = align;
    while (8u << shift < n) shift++;
    const uint32_t unit = (n + (1u << shift) - 1) >> shift; /* 5 to 8, or n */
    if (align == 0 && unit > 4 && unit < 8) return mm_room_cut(MM_ROOMS_EVEN + 3 * shift + unit - 5);
    while (1u << r < unit << shift) r++;
    return mm_cut_evenly(r);
}

/* What the lanes of a warp claimed together: groups of pages of one segment, or whole segments of one leaf of the free tree. */
struct mm_spans {
    uint32_t at; /* the segment, or the leaf */
    int is_leaf;
    uint64_t bits; /* the first page of each group, or the segments */
};

/* One step towards `want` spans. When it is done, *got has some of them, or none. */
MM_FN_RARE enum mm_step mm_spans_take(const struct mm_heap_ref *ref, struct mm_cut cut, uint32_t want, struct mm_run_search *s, struct mm_spans *got) {
    if (!mm_growth_is_due(&s->shortage.growth)) return MM_STEP_WAIT_HOST;
    const uint64_t there = mm_grow_mapped(ref);
    const uint32_t each = mm_popcount(mm_cut_first(cut, ~0ull, MM_SEGMENT_PAGES));
    got->bits = 0, got->is_leaf = 1;
    if (want > each) got->bits = mm_segments_take(ref, want / each, &got->at);
    if (got->bits == 0) got->is_leaf = 0, got->at = mm_groups_take(ref, cut, want, &got->bits);
    if (got->bits == 0) return mm_run_short(ref, s, cut.pages * want, mm_shortage_step(ref, 1, there, &s->shortage));
    mm_run_need(ref, s, 0);
    return MM_STEP_DONE;
}

/* Returns the first page of the span in `got` for the rank-th lane that wants one, or MM_TREE_NONE; *count: the number of spans in `got`. The first lane
 * of each whole segment gives back the pages of the segment that no span uses. */
MM_FN_RARE uint32_t mm_spans_part(const struct mm_heap_ref *ref, struct mm_cut cut, const struct mm_spans *got, uint32_t rank, uint32_t *count) {
    const uint64_t groups = got->is_leaf ? mm_cut_first(cut, ~0ull, MM_SEGMENT_PAGES) : got->bits;
    const uint32_t each = mm_popcount(groups);
    *count = got->is_leaf ? mm_popcount(got->bits) * each : each;
    if (rank >= *count) return MM_TREE_NONE;
    const uint32_t segment = got->is_leaf ? got->at * 64 + mm_bits_select(got->bits, rank / each) : got->at;
    if (got->is_leaf && rank % each == 0) {
        const uint64_t rest = ~mm_cut_pages(cut, groups);
        mm_era_enter_segment(ref, segment, MM_ERA_PAGES);
        if (rest != 0) mm_pages_put(ref, segment, rest);
    }
    return segment * MM_SEGMENT_PAGES + mm_bits_select(groups, rank % each);
}

/* The pages of `bytes`. */
MM_FN uint32_t mm_span_pages(uint64_t bytes) { return bytes ? (uint32_t)((bytes + MM_PAGE_BYTES - 1) >> MM_PAGE_SHIFT) : 1; }
/* Whether a segment that is used page by page may have room for a span of so many bytes. A hint. */
MM_FN_RARE int mm_span_has_room(const struct mm_heap_ref *ref, uint64_t bytes) {
    const struct mm_cut cut = mm_span_cut(mm_span_pages(bytes), 0);
    return cut.room < MM_ROOMS && mm_tree_find(mm_segment_room_tree(ref, cut.room), 0) != MM_TREE_NONE;
}

/* malloc for `bytes`, at most MM_SPAN_PAGES_MAX pages, aligned to align_bytes, a power of two less than a segment. Lanes that want spans of the same length
 * claim together. here: the lanes that call. Returns the address, or NULL. */
MM_FN_RARE void *mm_span_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align_bytes, uint32_t here) {
    uint32_t page = MM_TREE_NONE, align = 0;
    struct mm_run_search search = {MM_SHORTAGE_NONE, 0, 0, 0, 0, MM_SHORT_WAIT};
    while (MM_PAGE_BYTES << align < align_bytes) align++;
    const struct mm_cut cut = mm_span_cut(mm_span_pages(bytes), align);
    const uint32_t n = cut.pages, lane = mm_warp_lane(), group = mm_warp_match(here, n << 3 | align), leader = mm_ctz(group);
    uint32_t left = group;
    MM_ROLLED
    do { /* all lanes stay in the loop until the last one is served (single_flight.h) */
        struct mm_spans got = {0, 0, 0};
        enum mm_step step = MM_STEP_DONE;
        search.is = MM_SHORT_WAIT;
        if (lane == leader && left != 0) step = mm_spans_take(ref, cut, mm_popcount(left), &search, &got);
        mm_warp_sync(here);
        if (left != 0 && mm_warp_shuffle(group, step == MM_STEP_DONE, leader)) {
            uint32_t count = 0;
            got.at = mm_warp_shuffle(group, got.at, leader), got.is_leaf = (int)mm_warp_shuffle(group, (uint32_t)got.is_leaf, leader);
            got.bits = mm_warp_shuffle_u64(group, got.bits, leader);
            const uint32_t at = mm_spans_part(ref, cut, &got, left >> lane & 1 ? mm_popcount(left & mm_bits_low(lane)) : ~0u, &count);
            if (at != MM_TREE_NONE) page = at;
            left = count != 0 ? mm_warp_ballot(group, page == MM_TREE_NONE) : 0;
            mm_shortage_end(&search.shortage);
        }
        mm_shortage_help(ref, here, search.is, &search.shortage);
        if (step != MM_STEP_DONE && search.is <= MM_SHORT_WAIT_HOST) mm_shortage_wait(ref, step == MM_STEP_WAIT_HOST, &search.shortage);
    } while (mm_warp_ballot(here, left != 0) != 0);
    if (page == MM_TREE_NONE) {
        mm_null_count(ref, bytes);
        return NULL;
    }
    uint64_t *word = mm_page_words(ref, page);
    mm_pages_own(ref, page + 1, n - 1, MM_OWNER_SPAN_BODY);
    mm_pages_own(ref, page, 1, MM_OWNER_SPAN + n);
    mm_store_release_u64(word, mm_word_make(mm_generation_next(mm_load_relaxed_u64(word)), 0));
    return (void *)mm_page_address(ref, page);
}

/* Frees the span that begins at a page whose owner was `owner`. Returns 0, or the kind of misuse. */
MM_FN_RARE int mm_span_try_free(const struct mm_heap_ref *ref, uint32_t page, uint32_t owner) {
    uint64_t *word = mm_page_words(ref, page);
    const uint64_t seen = mm_load_relaxed_u64(word), live = mm_word_make(mm_word_generation(seen), 0);
    const uint32_t n = mm_owner_span_pages(owner), bit = page % MM_SEGMENT_PAGES;
    if (mm_word_is_dead(seen) || !mm_cas_acq_rel_u64(word, live, mm_word_make(mm_generation_end(mm_word_generation(seen)), 0)))
        return MM_MISUSE_DOUBLE_FREE; /* of two concurrent frees, one succeeds */
    mm_pages_own(ref, page, n, MM_OWNER_NOBODY);
    mm_pages_put(ref, page / MM_SEGMENT_PAGES, mm_bits_low(n) << bit);
    return 0;
}

#endif
