/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs: consecutive segments that serve one request.
 *
 * Representation. The first segment of a run has run = mm_run_make(length), the others MM_RUN_BODY.
 * Invariant. I1  the segments of a run are in no tree, except as stale hints, and their pages are 0.
 * Claim. Search from the back of what was ever mapped for enough consecutive set bits of the free tree, and take them leaf by leaf from the back. If a leaf
 *   no longer has all of them, put back what was taken and search on. Lanes of a warp that want runs of the same length claim theirs side by side, together.
 *   Warps that search at the same time are counted: below the first place that fits, each skips as many segments as the searches before it want, if they want
 *   what it wants, so that few collide. (A count that is wrong for a moment, or for ever since a thread was stopped, costs time only.) Runs of one segment are
 *   any segments of one leaf, taken by one atomic, or by several if others took some of them (mm_segments_take).
 * Progress. Of several warps that claim overlapping runs, the first one at the backmost contested leaf gets its part of that leaf, or another warp took a
 *   part of it before; the same holds for the next leaf, and so on. So some warp succeeds. A warp that failed skips some of what it finds next, at
 *   random, twice as many each time; otherwise all would collide again. The next search begins at the back again, so what was skipped is found then. A warp
 *   whose lanes do not find room in one place goes on below it for the others, and at the back when it comes to the front.
 * Linearisation points. malloc: the last leaf that is taken. free: the compare-and-swap of run.
 * Ordering. Leaves are taken with acquire and put back with release. Coalescing is immediate, since a free run is nothing but free segments.
 * NULL. After a shortage (shortage.h) in which no search met a conflict, or after MM_TREE_TRIES searches.
 */
#ifndef MM_CORE_RUN_H
#define MM_CORE_RUN_H

#include "runtime/core/report.h"
#include "runtime/core/shortage.h"

/* Takes segments [first, end) from the free tree, all or none. Acquires. The bits above leaves that are empty then are cleared together, word by word. */
MM_FN_RARE int mm_run_try_take(struct mm_tree t, uint32_t first, uint32_t end) {
    uint64_t empty = 0;
    MM_ROLLED
    for (uint32_t upto = end; upto > first;) {
        const uint32_t base = (upto - 1) / 64 * 64, from = first > base ? first - base : 0, to = upto - base < 64 ? upto - base : 64;
        const uint64_t want = mm_bits_low(to) & ~mm_bits_low(from);
        const uint64_t old = mm_and_acquire_u64(mm_tree_leaf(t, base), ~want), got = old & want;
        if (got != want) {
            if (got) mm_tree_insert_bits(t, base, got);
            mm_segments_put(t, upto, end);
            return 0;
        }
        empty |= (uint64_t)((old & ~want) == 0) << base / 64 % 64;
        upto = base + from;
        if (empty == 0 || (upto > first && base % MM_TREE_MID_SEGMENTS != 0)) continue;
        mm_tree_retract_leaves(t, base, empty);
        empty = 0;
    }
    return 1;
}

/* A request: up to `most` runs of `count` segments, side by side, the first one a multiple of `align` segments after `skew`. */
struct mm_run {
    uint32_t count, align, skew, most;
};

/* Chooses runs at the end of the free segments [low, end). Returns their first segment, or MM_TREE_NONE; *runs: their number. */
MM_FN uint32_t mm_run_fit(struct mm_run want, uint32_t low, uint32_t end, uint32_t *runs) {
    *runs = want.most > 1 ? mm_at_most((end - low) / want.count, want.most) : 1;
    const uint32_t n = *runs * want.count;
    if (n == 0 || end - low < n) return MM_TREE_NONE;
    const uint32_t first = end - n - ((end - n - want.skew) & (want.align - 1));
    return first >= low && first < end ? first : MM_TREE_NONE;
}

/* How many leaves below `leaf` have all of their segments, in steps of MM_RUN_AT_ONCE: there may be more. At most n. */
MM_FN uint32_t mm_run_full_leaves(struct mm_tree t, uint32_t leaf, uint32_t n) {
    uint32_t full = 0;
    MM_ROLLED
    for (uint64_t all = ~0ull; full + MM_RUN_AT_ONCE <= n; full += MM_RUN_AT_ONCE) {
        for (uint32_t i = 0; i < MM_RUN_AT_ONCE; i++) all &= mm_load_relaxed_u64(mm_tree_leaf(t, (leaf - 1 - full - i) * 64));
        if (all != ~0ull) break;
    }
    return full;
}

/* Takes the requested runs out of the free tree, below segment `from`. Returns their first segment, or MM_TREE_NONE; *runs: their number. salt: spreads
 * callers that collided. leave: how many places to skip, from the first one that fits on, whether the others fit or not.
 * *conflict: whether another thread took what was found, or some of it was skipped. */
MM_FN uint32_t mm_run_search(const struct mm_heap_ref *ref, struct mm_run want, uint32_t from, uint32_t salt, uint32_t leave, uint32_t *runs, int *conflict) {
    const struct mm_tree t = mm_segment_free_tree(ref);
    uint64_t mid = 0;
    uint32_t end = 0; /* consecutive set bits reach from the present position up to here */
    uint32_t failures = 0;
    MM_ROLLED
    for (uint32_t leaf = (from + 63) / 64, in = 0; leaf-- > 0;) {
        if (in-- == 0) mid = mm_load_relaxed_u64(&t.node[t.roots + leaf / 64]), in = leaf % 64;
        if (end == 0 && !(mid >> in & 1)) { /* skip empty leaves: a heap has more addresses than memory */
            const uint64_t below = mid & mm_bits_low(in);
            const uint32_t next = below ? 63 - mm_clz(below) : 0;
            leaf -= in - next, in = next;
            if (below == 0) continue;
        }
        const uint64_t word = mm_load_relaxed_u64(mm_tree_leaf(t, leaf * 64));
        uint32_t bit = mm_at_most(from - leaf * 64, 64);
        MM_ROLLED
        while (bit > 0) {
            if (end == 0) { /* skip clear bits */
                const uint64_t below = word & mm_bits_low(bit);
                if (below == 0) break;
                bit = 64 - mm_clz(below);
                end = leaf * 64 + bit;
            }
            const uint64_t clear = ~word & mm_bits_low(bit);
            bit = clear ? 64 - mm_clz(clear) : 0; /* lowest of the consecutive segments in this leaf */
            const uint32_t low = leaf * 64 + bit;
            const int is_all = bit > 0 || leaf == 0 || end - low >= want.count * want.most; /* all of them, or enough */
            const uint32_t first = is_all ? mm_run_fit(want, low, end, runs) : MM_TREE_NONE;
            if (first != MM_TREE_NONE) {
                const uint32_t n = *runs * want.count;
                if (leave == 0) {
                    if (mm_run_try_take(t, first, first + n)) return first;
                    failures += failures < MM_RUN_SPREAD_SHIFT;
                    leave = 1 + (mm_tree_random(salt + failures) >> (32 - failures));
                }
                *conflict = 1;
                from = first - mm_at_most(first, (leave - 1) * ((n + want.align - 1) & (0 - want.align))); /* aligned places are at least so far apart */
                leaf = (from + 63) / 64, leave = end = in = 0;
                break;
            }
            if (bit > 0) end = 0; /* the clear bit below ends them */
        }
        const uint32_t have = end - leaf * 64, all = want.count * want.most;
        if (end != 0 && leaf != 0 && have < all) { /* they go on below, and are not enough */
            const uint32_t full = mm_run_full_leaves(t, leaf, mm_at_most((all - have - 1) / 64, leaf - 1));
            leaf -= full, in = full < in ? in - full : 0;
        }
    }
    return MM_TREE_NONE;
}

/* The progress of a lane towards its run or span. All 0: not begun. */
struct mm_run_search {
    struct mm_shortage shortage;
    uint32_t tries;
    uint32_t from;    /* the next search begins below this segment; 0: at the back */
    uint32_t need;    /* pages that this lane has added to grow.need */
    int is_less;      /* the host refused the full number: one run will do */
    enum mm_short is; /* for mm_shortage_help */
};
/* Adds to the number of pages for which threads wait; negative: subtracts. */
MM_FN void mm_run_need(const struct mm_heap_ref *ref, struct mm_run_search *s, uint32_t pages) {
    if (s->need != pages) mm_add_relaxed_u64(&mm_heap_of(ref)->grow.need, (uint64_t)pages - s->need);
    s->need = pages;
}
/* After a step of the shortage, for a caller that wants so many pages. */
MM_FN enum mm_step mm_run_short(const struct mm_heap_ref *ref, struct mm_run_search *s, uint32_t pages, enum mm_short is) {
    s->is = is;
    mm_run_need(ref, s, is == MM_SHORT_WAIT_HOST ? pages : 0);
    return is == MM_SHORT_NONE ? MM_STEP_DONE : is == MM_SHORT_WAIT_HOST ? MM_STEP_WAIT_HOST : MM_STEP_WAIT;
}

/* Takes the requested runs, in as many searches as it takes until one meets no conflict; warps that search are counted meanwhile. Returns their first segment,
 * or MM_TREE_NONE; *runs: their number. */
MM_FN uint32_t mm_runs_take(const struct mm_heap_ref *ref, struct mm_run want, struct mm_run_search *s, uint32_t *runs) {
    const uint32_t salt = mm_home() * 32 + mm_warp_lane();
    uint32_t *searches = &mm_heap_of(ref)->run_searches, first = MM_TREE_NONE;
    const uint32_t before = mm_add_relaxed_u32(searches, 1) & ((1u << MM_RUN_SPREAD_SHIFT) - 1);
    uint32_t leave = s->from == 0 ? before : 0; /* a search that goes on is apart from the others */
    int is_again = 1;
    MM_ROLLED
    while (first == MM_TREE_NONE && is_again && s->tries < MM_TREE_TRIES) { /* a step that waits does not count as a try */
        const uint32_t from = s->from;
        int conflict = 0;
        first = mm_run_search(ref, want, from != 0 ? from : (uint32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached),
                              salt + s->tries * MM_RUN_SPREAD_SHIFT, leave, runs, &conflict);
        leave = 0, s->from = 0;
        s->tries += (uint32_t)(first == MM_TREE_NONE && conflict);
        is_again = conflict || from != 0;
    }
    if (first != MM_TREE_NONE) s->from = first;
    mm_add_relaxed_u32(searches, ~0u);
    if (first == MM_TREE_NONE) *runs = 0;
    mm_add_relaxed_u64(&mm_heap_of(ref)->free_count, 0 - (uint64_t)*runs * want.count);
    return first;
}

/* One step towards the requested runs. When it is done: *first and *runs, or MM_TREE_NONE and 0. *bits: if the runs are single segments, which ones, from
 * *first on. */
MM_FN_RARE enum mm_step mm_run_take(const struct mm_heap_ref *ref, struct mm_run want, struct mm_run_search *s, uint32_t *first, uint32_t *runs,
                                    uint64_t *bits) {
    const uint32_t align = mm_ctz(want.align) << MM_WANTED_ALIGN_SHIFT;
    const uint64_t there = mm_grow_mapped(ref);
    uint32_t leaf = 0;
    *runs = 0, *first = MM_TREE_NONE;
    if (!mm_growth_is_due(&s->shortage.growth)) return MM_STEP_WAIT_HOST;
    if (want.count == 1 && want.align == 1) {
        *bits = mm_segments_take(ref, want.most, &leaf);
        if (*bits != 0) *first = leaf * 64, *runs = mm_popcount(*bits);
    } else {
        *first = mm_runs_take(ref, want, s, runs);
        mm_shortage_leave_some(&s->shortage); /* with random segments retired, 72 runs of 3 segments found room where 85 had been */
    }
    if (*first != MM_TREE_NONE || s->tries >= MM_TREE_TRIES) {
        mm_run_need(ref, s, 0);
        return MM_STEP_DONE;
    }
    if (!s->is_less && want.most > 1 && mm_grow_is_refused(ref, align | want.count * want.most)) s->is_less = 1;
    const uint32_t segments = want.count * (s->is_less ? 1 : want.most);
    return mm_run_short(ref, s, segments << MM_PAGES_SHIFT, mm_shortage_step(ref, align | segments, there, &s->shortage));
}

/* malloc for `bytes`, aligned to align_bytes, a power of two. here: the lanes that call. Returns the address, or NULL. */
MM_FN_RARE void *mm_run_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align_bytes, uint32_t here) {
    const int is_beyond = bytes > ref->user_bytes || align_bytes > ref->user_bytes;
    here = mm_warp_ballot(here, !is_beyond);
    if (is_beyond) {
        mm_null_count(ref, bytes);
        return NULL;
    }
    struct mm_run want = {bytes ? (uint32_t)((bytes + MM_SEGMENT_BYTES - 1) >> MM_SEGMENT_SHIFT) : 1,
                          align_bytes <= MM_SEGMENT_BYTES ? 1 : (uint32_t)(align_bytes >> MM_SEGMENT_SHIFT), 0, 1};
    /* segment i is aligned where i = skew modulo align */
    want.skew = (uint32_t)(0 - (ref->user_base >> MM_SEGMENT_SHIFT)) & (want.align - 1);
    const uint32_t lane = mm_warp_lane(), count = want.count;
    const uint32_t group = mm_warp_match(here, want.align == 1 ? count : ~lane), leader = mm_ctz(group);
    struct mm_run_search search = {MM_SHORTAGE_NONE, 0, 0, 0, 0, MM_SHORT_WAIT};
    uint32_t first = MM_TREE_NONE, left = group;
    MM_ROLLED
    do { /* all lanes stay in the loop until the last one is served (single_flight.h) */
        uint32_t at = MM_TREE_NONE, runs = 0;
        uint64_t bits = 0;
        enum mm_step step = MM_STEP_DONE;
        want.most = mm_popcount(left);
        search.is = MM_SHORT_WAIT;
        if (lane == leader && left != 0) step = mm_run_take(ref, want, &search, &at, &runs, &bits);
        mm_warp_sync(here);
        if (left != 0 && mm_warp_shuffle(group, step == MM_STEP_DONE, leader)) {
            at = mm_warp_shuffle(group, at, leader), runs = mm_warp_shuffle(group, runs, leader);
            bits = mm_warp_shuffle_u64(group, bits, leader);
            const uint32_t rank = mm_popcount(left & mm_bits_low(lane));
            if (left >> lane & 1 && rank < runs) first = at + (bits != 0 ? mm_bits_select(bits, rank) : rank * count);
            left = runs != 0 ? mm_warp_ballot(group, first == MM_TREE_NONE) : 0;
            mm_shortage_end(&search.shortage);
            search.tries = 0, search.is_less = 0;
        }
        mm_shortage_help(ref, here, search.is, &search.shortage);
        if (step != MM_STEP_DONE && search.is <= MM_SHORT_WAIT_HOST) mm_shortage_wait(ref, step == MM_STEP_WAIT_HOST, &search.shortage);
    } while (mm_warp_ballot(here, left != 0) != 0);
    if (first == MM_TREE_NONE) {
        mm_null_count(ref, bytes);
        return NULL;
    }
    mm_era_enter_segment(ref, first, (uint32_t)mm_run_make(count));
    MM_ROLLED
    for (uint32_t s = first + 1; s < first + count; s++) {
        mm_era_enter_segment(ref, s, MM_RUN_BODY);
        mm_store_relaxed_u64(&mm_segment_at(ref, s)->run, MM_RUN_BODY);
    }
    mm_store_release_u64(&mm_segment_at(ref, first)->run, mm_run_make(count));
    return (void *)(ref->user_base + ((uint64_t)first << MM_SEGMENT_SHIFT));
}

/* Frees the run at byte offset `off` of the heap. Returns 0, or the kind of misuse. */
MM_FN_RARE int mm_run_try_free(const struct mm_heap_ref *ref, uint64_t off) {
    const uint32_t first = (uint32_t)(off >> MM_SEGMENT_SHIFT);
    uint64_t *at = &mm_segment_at(ref, first)->run;
    const uint64_t run = mm_load_acquire_u64(at);
    if (run == MM_RUN_NONE) return MM_MISUSE_NOT_ALLOCATED;
    if (run == MM_RUN_BODY || (off & (MM_SEGMENT_BYTES - 1)) != 0) return MM_MISUSE_INTERIOR;
    if (!mm_cas_acq_rel_u64(at, run, MM_RUN_NONE)) return MM_MISUSE_DOUBLE_FREE; /* of two concurrent frees, one succeeds */
    const uint32_t end = first + (uint32_t)mm_run_segments(run);
    MM_ROLLED
    for (uint32_t s = first + 1; s < end; s++) mm_store_relaxed_u64(&mm_segment_at(ref, s)->run, MM_RUN_NONE);
    mm_segments_put(mm_segment_free_tree(ref), first, end);
    mm_add_relaxed_u64(&mm_heap_of(ref)->free_count, end - first);
    return 0;
}

#endif
