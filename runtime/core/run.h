/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs: neighbouring segments that serve one request larger than half a segment.
 *
 * Representation. The free tree's leaves (segment.h); the first segment of a run has owner
 *   MM_OWNER_RUN | length << 8, the others owner MM_OWNER_RUN_BODY.
 * Invariant. I1  the segments of a run are in no tree but as stale hints, and whole and all slice bits are 0.
 * Claim. Search from the back for enough neighbouring set bits, take them leaf by leaf from the back; a leaf
 *   that no longer has all of them: put back what was taken and search on. Of several that want overlapping
 *   runs the one that comes first to the backmost contested leaf gets that leaf whole or somebody else got a
 *   part of it, and so on forward: somebody succeeds. The lanes of a warp that want runs of the same length take
 *   theirs side by side, as one; and who did not get what it wanted leaves out some of what it finds next, at random,
 *   twice as many each time, or all would meet there again (256 runs of 16 MiB at once: 1.6 us for each, one after the
 *   other). What was left out is found in the next search, which begins at the back.
 * Linearisation. malloc: the last leaf taken. free: the exchange of the owner for nobody.
 * Ordering. Leaves are taken with acquire and put back with release; coalescing is at once, since a free run
 *   is nothing but free segments.
 * NULL. Only after MM_NULL_TRIES searches with a wait between that met no conflict, when there was no stripe to flush
 *   (shortage.h); or MM_TREE_TRIES searches.
 */
#ifndef MM_CORE_RUN_H
#define MM_CORE_RUN_H

#include "runtime/core/slice.h"

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
    *runs = want.most > 1 ? mm_class_at_most((end - low) / want.count, want.most) : 1;
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
        if (in-- == 0) mid = mm_load_relaxed_u64(&t.node[1 + leaf / 64]), in = leaf % 64;
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
                bit = first > leaf * 64 ? mm_class_at_most(first - leaf * 64, 64) : 0; /* at the row's end there is less than a run */
                continue;
            }
            if (bit > 0) end = 0; /* the row ends at the clear bit below */
        }
    }
    return MM_TREE_NONE;
}

/* How far a lane is with its run. All 0: it has not begun. */
struct mm_run_search {
    uint64_t due;
    uint32_t tries, searches, polls, pause;
    int is_less; /* as many as are wanted were refused: one will do */
    struct mm_growth growth;
};

/* One step towards what is wanted, in as many searches as it takes. When done: *first and *runs, or MM_TREE_NONE and 0. */
MM_FN_RARE enum mm_step mm_run_take(const struct mm_heap_ref *ref, struct mm_run want, struct mm_run_search *s, uint32_t *first,
                                    uint32_t *runs) {
    const uint32_t salt = mm_home() * 32 + mm_warp_lane();
    *first = MM_TREE_NONE, *runs = 0;
    if (s->pause > 1) {
        s->pause--;
        return MM_STEP_WAIT;
    }
    if (!mm_growth_is_due(&s->growth)) return MM_STEP_WAIT_HOST;
    MM_ROLLED
    for (; s->tries < MM_TREE_TRIES && s->polls < MM_WAIT_ITERATIONS; s->tries++) {
        int conflict = 0;
        const uint64_t there = mm_grow_mapped(ref);
        *first = mm_run_search(ref, want, salt + s->tries * MM_RUN_SPREAD_SHIFT, runs, &conflict);
        if (*first != MM_TREE_NONE) {
            mm_add_relaxed_u64(&mm_heap_of(ref)->free_count, 0 - (uint64_t)*runs * want.count);
            return MM_STEP_DONE;
        }
        *runs = 0;
        if (conflict) continue;
        enum mm_grown grown = MM_GROWN_NO;
        const uint32_t align = mm_ctz(want.align) << MM_WANTED_ALIGN_SHIFT;
        if (!s->is_less) grown = mm_grow_poll(ref, align | want.count * want.most, there, MM_PATIENCE_CALLER, &s->growth);
        s->is_less |= grown == MM_GROWN_NO;
        if (s->is_less && want.most > 1) grown = mm_grow_poll(ref, want.count, there, MM_PATIENCE_CALLER, &s->growth);
        if (grown == MM_GROWN_WAIT) return MM_STEP_WAIT_HOST;
        s->is_less = 0;
        if (grown == MM_GROWN_MORE) continue;
        const enum mm_turn turn = mm_stripe_flush_turn(ref, &s->due);
        if (turn == MM_TURN_WAIT) { /* that was no search */
            s->polls++;
            return MM_STEP_WAIT;
        }
        if (turn != MM_TURN_NOTHING) continue;
        if (++s->searches == MM_NULL_TRIES) break;
        s->tries++, s->pause = mm_wait_steps(1u << s->searches);
        return MM_STEP_WAIT;
    }
    return MM_STEP_DONE;
}

/* A run for `bytes` (0 counts as 1), aligned to align_bytes, a power of two. NULL: no such run. here: the lanes that call, of those in `in`. */
MM_FN_RARE void *mm_run_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align_bytes, uint32_t here, struct mm_inside in) {
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
    struct mm_run_search search = {0};
    uint32_t first = MM_TREE_NONE, left = group, waits = 0;
    MM_ROLLED
    do { /* all lanes, until the last is served: see mm_slice_malloc_slow */
        uint32_t at = MM_TREE_NONE, runs = 0;
        enum mm_step step = MM_STEP_DONE;
        want.most = mm_popcount(left);
        if (lane == leader && left != 0) step = mm_run_take(ref, want, &search, &at, &runs);
        mm_warp_sync(here);
        if (left != 0 && mm_warp_shuffle(group, step == MM_STEP_DONE, leader)) {
            const struct mm_run_search begun = {0};
            at = mm_warp_shuffle(group, at, leader), runs = mm_warp_shuffle(group, runs, leader);
            const uint32_t rank = mm_popcount(left & mm_bits_low(lane));
            if (left >> lane & 1 && rank < runs) first = at + rank * count;
            left = runs != 0 ? mm_warp_ballot(group, first == MM_TREE_NONE) : 0, search = begun;
        }
        mm_step_wait(ref, in, &waits, step);
    } while (mm_warp_ballot(here, left != 0) != 0);
    if (first == MM_TREE_NONE) {
        mm_null_count(ref, bytes);
        return NULL;
    }
    const uint64_t owner = MM_OWNER_RUN | (uint64_t)count << MM_OWNER_LENGTH_SHIFT;
    mm_segment_enter_era(ref, first, owner);
    MM_ROLLED
    for (uint32_t s = first + 1; s < first + count; s++) {
        mm_segment_enter_era(ref, s, MM_OWNER_RUN_BODY);
        mm_store_relaxed_u64(&mm_segment_at(ref, s)->owner, MM_OWNER_RUN_BODY);
    }
    mm_store_release_u64(&mm_segment_at(ref, first)->owner, owner);
    return (void *)(ref->user_base + ((uint64_t)first << MM_SEGMENT_SHIFT));
}

/* Frees the run at byte offset `off` of the heap. Returns 0, or what is wrong. */
MM_FN_RARE int mm_run_try_free(const struct mm_heap_ref *ref, uint64_t off) {
    struct mm_heap *h = mm_heap_of(ref);
    const uint32_t first = (uint32_t)(off >> MM_SEGMENT_SHIFT);
    if (off & (MM_SEGMENT_BYTES - 1)) return MM_MISUSE_INTERIOR;
    uint64_t *at = &mm_segment_at(ref, first)->owner;
    const uint64_t owner = mm_load_acquire_u64(at);
    if (MM_OWNER_KIND(owner) != MM_OWNER_RUN) return MM_MISUSE_DOUBLE_FREE;
    const int mine = mm_cas_acq_rel_u64(at, owner, MM_OWNER_NOBODY); /* of two at once, one frees it */
    const uint32_t end = first + (mine ? (uint32_t)(owner >> MM_OWNER_LENGTH_SHIFT) : 0);
    MM_ROLLED
    for (uint32_t s = first + 1; s < end; s++) mm_store_relaxed_u64(&mm_segment_at(ref, s)->owner, MM_OWNER_NOBODY);
    mm_segments_put(mm_segment_free_tree(ref), first, end);
    if (mine) mm_add_relaxed_u64(&h->free_count, end - first);
    mm_version_raise(h);
    return mine ? 0 : MM_MISUSE_DOUBLE_FREE;
}

#endif
