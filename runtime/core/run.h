/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs: neighbouring segments that serve one request.
 *
 * Representation. The first segment of a run has run = mm_run_make(length), the others
 *   MM_RUN_BODY.
 * Invariant. I1  the segments of a run are in no tree but as stale hints, and their pages are 0.
 * Claim of a run. Search from the back for enough neighbouring set bits, take them leaf by leaf from the back; a leaf
 *   that no longer has all of them: put back what was taken and search on. Of several that want overlapping
 *   runs the one that comes first to the backmost contested leaf gets that leaf whole or somebody else got a
 *   part of it, and so on forward: somebody succeeds. The lanes of a warp that want runs of the same length take
 *   theirs side by side, as one; and who did not get what it wanted leaves out some of what it finds next, at random,
 *   twice as many each time, or all would meet there again (256 runs of 16 MiB at once: 1.6 us for each, one after the
 *   other). What was left out is found in the next search, which begins at the back.
 * Linearisation. malloc: the last leaf taken. free: the compare-and-swap of run.
 * Ordering. Leaves are taken with acquire and put back with release; coalescing is at once, since a free run
 *   is nothing but free segments.
 * NULL. After a shortage (shortage.h) that met no conflict; or MM_TREE_TRIES searches.
 */
#ifndef MM_CORE_RUN_H
#define MM_CORE_RUN_H

#include "runtime/core/report.h"
#include "runtime/core/shortage.h"

/* Bits of the leaf `leaf` that segments [first, end) have there. */
MM_FN uint64_t mm_run_bits(uint32_t leaf, uint32_t first, uint32_t end) {
    const uint32_t base = leaf * 64;
    const uint32_t from = first > base ? first - base : 0, to = end - base < 64 ? end - base : 64;
    return mm_bits_low(to) & ~mm_bits_low(from);
}

/* Takes segments [first, end) from the free tree: all or none. Acquires. */
MM_FN_RARE int mm_run_try_take(struct mm_tree t, uint32_t first, uint32_t end) {
    MM_ROLLED
    for (uint32_t upto = end; upto > first;) {
        const uint32_t leaf = (upto - 1) / 64;
        const uint64_t want = mm_run_bits(leaf, first, upto);
        const uint64_t got = mm_tree_erase_bits(t, upto - 1, want) & want;
        if (got != want) {
            if (got) mm_tree_insert_bits(t, upto - 1, got);
            mm_segments_put(t, upto, end);
            return 0;
        }
        upto = leaf * 64 > first ? leaf * 64 : first;
    }
    return 1;
}

/* What is wanted: up to `most` runs of `count` segments side by side, the first a multiple of `align` segments after `skew`. */
struct mm_run {
    uint32_t count, align, skew, most;
};

/* Of the free segments [low, end), those at the end that are wanted: the first, or MM_TREE_NONE; *runs: how many. */
MM_FN uint32_t mm_run_fit(struct mm_run want, uint32_t low, uint32_t end, uint32_t *runs) {
    *runs = want.most > 1 ? mm_at_most((end - low) / want.count, want.most) : 1;
    const uint32_t n = *runs * want.count;
    if (n == 0 || end - low < n) return MM_TREE_NONE;
    const uint32_t first = end - n - ((end - n - want.skew) & (want.align - 1));
    return first >= low && first < end ? first : MM_TREE_NONE;
}

/* Takes what is wanted out of the free tree: the first segment, or MM_TREE_NONE; *runs: how many. salt: callers part ways by
 * it. *conflict: whether somebody else took what was found, or some was left out. */
MM_FN uint32_t mm_run_search(const struct mm_heap_ref *ref, struct mm_run want, uint32_t salt, uint32_t *runs, int *conflict) {
    const struct mm_tree t = mm_segment_free_tree(ref);
    uint64_t mid = 0;
    uint32_t end = 0; /* set bits seen in a row reach from the present position up to here */
    uint32_t failures = 0, leave = 0;
    MM_ROLLED
    for (uint32_t leaf = (uint32_t)mm_heap_of(ref)->tree_leaves, in = 0; leaf-- > 0;) {
        if (in-- == 0) mid = mm_load_relaxed_u64(&t.node[t.roots + leaf / 64]), in = leaf % 64;
        if (end == 0 && !(mid >> in & 1)) { /* on to the next that is not empty: a heap has addresses for more than there is memory */
            const uint64_t below = mid & mm_bits_low(in);
            const uint32_t next = below ? 63 - mm_clz(below) : 0;
            leaf -= in - next, in = next;
            if (below == 0) continue;
        }
        const uint64_t word = mm_load_relaxed_u64(mm_tree_leaf(t, leaf * 64));
        uint32_t bit = 64;
        MM_ROLLED
        while (bit > 0) {
            if (end == 0) { /* skip clear bits */
                const uint64_t below = word & mm_bits_low(bit);
                if (below == 0) break;
                bit = 64 - mm_clz(below);
                end = leaf * 64 + bit;
            }
            const uint64_t clear = ~word & mm_bits_low(bit);
            bit = clear ? 64 - mm_clz(clear) : 0; /* lowest segment of the row in this leaf */
            const uint32_t low = leaf * 64 + bit;
            const int is_all = bit > 0 || leaf == 0 || end - low >= want.count * want.most; /* of the row, or enough */
            const uint32_t first = is_all ? mm_run_fit(want, low, end, runs) : MM_TREE_NONE;
            if (first != MM_TREE_NONE) {
                if (leave > 0) {
                    leave--;
                } else {
                    if (mm_run_try_take(t, first, first + *runs * want.count)) return first;
                    failures += failures < MM_RUN_SPREAD_SHIFT;
                    leave = mm_tree_random(salt + failures) >> (32 - failures);
                }
                *conflict = 1;
                end = 0;
                bit = first > leaf * 64 ? mm_at_most(first - leaf * 64, 64) : 0; /* at the row's end there is less than a run */
                continue;
            }
            if (bit > 0) end = 0; /* the row ends at the clear bit below */
        }
    }
    return MM_TREE_NONE;
}

/* How far a lane is with its run, or span. All 0: it has not begun. */
struct mm_run_search {
    struct mm_shortage shortage;
    uint32_t tries;
    uint32_t need; /* pages that grow.need has in it for this one */
    int is_less;   /* as many as are wanted were refused: one will do */
    enum mm_short is; /* for mm_shortage_help */
};
/* That is so many pages less, or more, for which somebody waits. */
MM_FN void mm_run_need(const struct mm_heap_ref *ref, struct mm_run_search *s, uint32_t pages) {
    if (s->need != pages) mm_add_relaxed_u64(&mm_heap_of(ref)->grow.need, (uint64_t)pages - s->need);
    s->need = pages;
}
/* After a shortage's step, of who wants so many pages. */
MM_FN enum mm_step mm_run_short(const struct mm_heap_ref *ref, struct mm_run_search *s, uint32_t pages, enum mm_short is) {
    s->is = is;
    mm_run_need(ref, s, is == MM_SHORT_WAIT_HOST ? pages : 0);
    return is == MM_SHORT_NONE ? MM_STEP_DONE : is == MM_SHORT_WAIT_HOST ? MM_STEP_WAIT_HOST : MM_STEP_WAIT;
}

/* One step towards what is wanted. When done: *first and *runs, or MM_TREE_NONE and 0. */
MM_FN_RARE enum mm_step mm_run_take(const struct mm_heap_ref *ref, struct mm_run want, struct mm_run_search *s, uint32_t *first,
                                    uint32_t *runs) {
    const uint32_t salt = mm_home() * 32 + mm_warp_lane(), align = mm_ctz(want.align) << MM_WANTED_ALIGN_SHIFT;
    const uint64_t there = mm_grow_mapped(ref);
    int conflict = 1;
    if (!mm_growth_is_due(&s->shortage.growth)) return MM_STEP_WAIT_HOST;
    MM_ROLLED
    while (conflict && s->tries < MM_TREE_TRIES) { /* a step that waits is no try */
        conflict = 0;
        *first = mm_run_search(ref, want, salt + s->tries * MM_RUN_SPREAD_SHIFT, runs, &conflict);
        if (*first != MM_TREE_NONE) {
            mm_add_relaxed_u64(&mm_heap_of(ref)->free_count, 0 - (uint64_t)*runs * want.count);
            mm_run_need(ref, s, 0);
            return MM_STEP_DONE;
        }
        s->tries += (uint32_t)conflict;
    }
    *runs = 0;
    if (s->tries >= MM_TREE_TRIES) {
        mm_run_need(ref, s, 0);
        return MM_STEP_DONE;
    }
    if (!s->is_less && want.most > 1 && mm_grow_is_refused(ref, align | want.count * want.most)) s->is_less = 1;
    const uint32_t segments = want.count * (s->is_less ? 1 : want.most);
    return mm_run_short(ref, s, segments << MM_PAGES_SHIFT, mm_shortage_step(ref, align | segments, there, &s->shortage));
}

/* A run for `bytes`, aligned to align_bytes, a power of two. NULL: no such run. here: the lanes that call. */
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
    struct mm_run_search search = {{{0, 0, 0}, 0, 0, 0, 0, 0, MM_FLIGHT_NONE}, 0, 0, 0, MM_SHORT_WAIT};
    uint32_t first = MM_TREE_NONE, left = group;
    MM_ROLLED
    do { /* all lanes, until the last is served (single_flight.h) */
        uint32_t at = MM_TREE_NONE, runs = 0;
        enum mm_step step = MM_STEP_DONE;
        want.most = mm_popcount(left);
        search.is = MM_SHORT_WAIT;
        if (lane == leader && left != 0) step = mm_run_take(ref, want, &search, &at, &runs);
        mm_warp_sync(here);
        if (left != 0 && mm_warp_shuffle(group, step == MM_STEP_DONE, leader)) {
            at = mm_warp_shuffle(group, at, leader), runs = mm_warp_shuffle(group, runs, leader);
            const uint32_t rank = mm_popcount(left & mm_bits_low(lane));
            if (left >> lane & 1 && rank < runs) first = at + rank * count;
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

/* Frees the run at byte offset `off` of the heap. Returns 0, or what is wrong. */
MM_FN_RARE int mm_run_try_free(const struct mm_heap_ref *ref, uint64_t off) {
    const uint32_t first = (uint32_t)(off >> MM_SEGMENT_SHIFT);
    uint64_t *at = &mm_segment_at(ref, first)->run;
    const uint64_t run = mm_load_acquire_u64(at);
    if (run == MM_RUN_NONE) return MM_MISUSE_NOT_ALLOCATED;
    if (run == MM_RUN_BODY || (off & (MM_SEGMENT_BYTES - 1)) != 0) return MM_MISUSE_INTERIOR;
    if (!mm_cas_acq_rel_u64(at, run, MM_RUN_NONE)) return MM_MISUSE_DOUBLE_FREE; /* of two at once, one frees it */
    const uint32_t end = first + (uint32_t)mm_run_segments(run);
    MM_ROLLED
    for (uint32_t s = first + 1; s < end; s++) mm_store_relaxed_u64(&mm_segment_at(ref, s)->run, MM_RUN_NONE);
    mm_segments_put(mm_segment_free_tree(ref), first, end);
    mm_add_relaxed_u64(&mm_heap_of(ref)->free_count, end - first);
    return 0;
}

#endif
