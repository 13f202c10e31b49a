/* Runs: neighbouring segments that serve one request larger than half a segment.
 *
 * Representation. The free tree's leaves (segment.h); the first segment of a run has owner
 *   MM_OWNER_RUN | length << 8, the others owner MM_OWNER_RUN_BODY.
 * Invariant. I1  the segments of a run are in no tree but as stale hints, and whole and all slice bits are 0.
 * Claim. Search from the back for enough neighbouring set bits, take them leaf by leaf from the back; a leaf
 *   that no longer has all of them: put back what was taken and search on. Of several that want overlapping
 *   runs the one that comes first to the backmost contested leaf gets that leaf whole or somebody else got a
 *   part of it, and so on forward: somebody succeeds.
 * Linearisation. malloc: the last leaf taken. free: the exchange of the owner for nobody.
 * Ordering. Leaves are taken with acquire and put back with release; coalescing is at once, since a free run
 *   is nothing but free segments.
 * NULL. Only after MM_NULL_TRIES searches with a wait between that met no conflict, when there was no stripe to flush
 *   (stripe.h); or MM_TREE_TRIES searches.
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

/* Puts segments [first, end) back into the free tree. Releases. */
MM_FN_RARE void mm_run_put(struct mm_tree t, uint32_t first, uint32_t end) {
    MM_ROLLED
    while (first < end) {
        const uint32_t leaf = first / 64;
        mm_tree_insert_bits(t, first, mm_run_bits(leaf, first, end));
        first = (leaf + 1) * 64;
    }
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
            mm_run_put(t, upto, end);
            return 0;
        }
        upto = leaf * 64 > first ? leaf * 64 : first;
    }
    return 1;
}

/* `count` neighbouring segments, the first a multiple of `align` segments after `skew`, taken out of the free
 * tree: the first of them, or MM_TREE_NONE. */
MM_FN uint32_t mm_run_take(const struct mm_heap_ref *ref, uint32_t count, uint32_t align, uint32_t skew) {
    struct mm_heap *h = mm_heap_of(ref);
    const struct mm_tree t = mm_segment_free_tree(ref);
    uint32_t searches = 0;
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_TREE_TRIES; tries++) {
        int conflict = 0;
        uint32_t end = 0; /* set bits seen in a row reach from the present position up to here */
        MM_ROLLED
        for (uint32_t leaf = (uint32_t)h->tree_leaves; leaf-- > 0;) {
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
                if (end - low >= count) {
                    const uint32_t first = end - count - ((end - count - skew) & (align - 1));
                    if (first >= low && first < end) {
                        if (mm_run_try_take(t, first, first + count)) {
                            mm_add_relaxed_u64(&h->free_count, 0 - (uint64_t)count);
                            return first;
                        }
                        conflict = 1;
                        end = 0;
                        bit = first > leaf * 64 ? first - leaf * 64 : 0;
                        continue;
                    }
                }
                if (bit > 0) end = 0; /* the row ends at the clear bit below */
            }
        }
        if (conflict || mm_stripe_flush(ref)) continue;
        if (++searches == MM_NULL_TRIES) break;
        mm_wait_times(1u << searches);
    }
    return MM_TREE_NONE;
}

/* A run for `bytes` (0 counts as 1), aligned to align_bytes, a power of two. NULL: no such run. */
MM_FN_RARE void *mm_run_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align_bytes) {
    if (bytes > ref->user_bytes || align_bytes > ref->user_bytes) {
        mm_null_count(ref, bytes);
        return NULL;
    }
    const uint32_t count = bytes ? (uint32_t)((bytes + MM_SEGMENT_BYTES - 1) >> MM_SEGMENT_SHIFT) : 1;
    const uint32_t align = align_bytes <= MM_SEGMENT_BYTES ? 1 : (uint32_t)(align_bytes >> MM_SEGMENT_SHIFT);
    /* segment i is aligned where i = skew modulo align */
    const uint32_t skew = (uint32_t)(0 - (ref->user_base >> MM_SEGMENT_SHIFT)) & (align - 1);
    const uint32_t first = mm_run_take(ref, count, align, skew);
    if (first == MM_TREE_NONE) {
        mm_null_count(ref, bytes);
        return NULL;
    }
    MM_ROLLED
    for (uint32_t s = first + 1; s < first + count; s++)
        mm_store_relaxed_u64(&mm_segment_at(ref, s)->owner, MM_OWNER_RUN_BODY);
    mm_store_release_u64(&mm_segment_at(ref, first)->owner, MM_OWNER_RUN | (uint64_t)count << MM_OWNER_LENGTH_SHIFT);
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
    mm_run_put(mm_segment_free_tree(ref), first, end);
    if (mine) mm_add_relaxed_u64(&h->free_count, end - first);
    mm_version_raise(h);
    return mine ? 0 : MM_MISUSE_DOUBLE_FREE;
}

#endif
