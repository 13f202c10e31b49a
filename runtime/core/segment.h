/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Segments: who owns one, and which of its blocks can be claimed as a whole.
 *
 * Representation.
 *   owner      nobody (0), class + 1, MM_OWNER_RUN | length << 8 in the first segment of a run, MM_OWNER_RUN_BODY in
 *              its others.
 *   whole      bit j: all slices of block j are free, and so are their marks: to be claimed.
 *              0 in a segment that belongs to nobody or to a run.
 *   avail      bit j: block j has slices to be used again (block.h). A hint.
 *   unissued   bit j: not all slices of block j have been handed out (stripe.h).
 *   free tree  the segments that belong to nobody. Its leaves are the truth.
 *   whole tree of c, avail tree of c: the segments of class c whose whole, or avail, is not 0. Hints: their leaves too.
 * Invariants.
 *   I1  a segment in the free tree has whole 0, owner nobody, and unissued ~0 if it was ever used.
 *   I2  a claimed block (taken out of whole, not yet given back) pins the segment: whole cannot be all of the class's
 *       blocks, so nobody can retire it. The owner read after the claim is the owner until the block is back. So does
 *       a slice that is live: its block is not whole; and a reuser that is registered in a block (block.h).
 *   I3  a segment of class c with whole (avail) not 0 is in the whole (avail) tree of c, unless its setter is on the
 *   way.
 * Linearisation. Claim: the and on whole that takes the bit. Give back: the or. Retire: the exchange of whole
 *   by 0 while holding the bits that make it all. (Without holding one, the segment may have changed hands
 *   between the or and the exchange, and its new owner's word look like all in the old owner's eyes.) Take from the
 *   free tree: the and on its leaf.
 * Ordering. Give back releases and claim acquires, so what happened to a block before it came back happens
 *   before what its next owner does with it. The class's trees follow the protocol of tree.h one level
 *   further down: who makes whole (avail) non-zero sets the leaf bit; who saw it zero clears the leaf bit and
 *   looks at it and the owner again.
 * Progress. Searches are bounded. give_back goes round again only because somebody else has claimed or given back in
 *   between, so somebody gets on. Nobody waits here.
 * Stale. A reader of a class tree may come to a segment that has been retired since: whole is 0 (nothing
 *   claimed) or holds blocks of another class: it claims some, sees the owner, gives them back. avail may be set by
 *   one who freed in an earlier life of the segment: who follows it finds that block or segment has changed, and
 *   clears it.
 */
#ifndef MM_CORE_SEGMENT_H
#define MM_CORE_SEGMENT_H

#include "runtime/core/class.h"
#include "runtime/core/tree.h"

#define MM_OWNER_NOBODY 0u
#define MM_OWNER_RUN 128u
#define MM_OWNER_RUN_BODY 129u
#define MM_OWNER_KIND(owner) ((uint32_t)(owner)&0xffu)
#define MM_OWNER_LENGTH_SHIFT 8

MM_FN struct mm_heap *mm_heap_of(const struct mm_heap_ref *ref) { return (struct mm_heap *)ref->heap; }
MM_FN struct mm_guard *mm_guard_of(const struct mm_heap_ref *ref) { return (struct mm_guard *)ref->guard; }
MM_FN struct mm_segment *mm_segment_at(const struct mm_heap_ref *ref, uint32_t s) {
    return (struct mm_segment *)ref->segments + s;
}
MM_FN struct mm_blocks *mm_segment_blocks(const struct mm_heap_ref *ref, uint32_t s) {
    return (struct mm_blocks *)ref->blocks + s;
}
MM_FN uint64_t *mm_segment_bits(const struct mm_heap_ref *ref, uint32_t s) {
    return (uint64_t *)ref->bits + (uint64_t)s * MM_SEGMENT_WORDS;
}

/* The caller has taken segment s from nobody, and it will be `owner`'s. A checked run knows a tag that an earlier owner left (guard.h). */
MM_FN void mm_segment_enter_era(const struct mm_heap_ref *ref, uint32_t s, uint64_t owner) {
    if (ref->guard == 0) return;
    uint64_t *at = &mm_guard_of(ref)->eras[s];
    const uint64_t era = mm_load_relaxed_u64(at);
    if ((uint32_t)era != (uint32_t)owner) mm_store_relaxed_u64(at, ((uint64_t)mm_era_number(era) + 1) << MM_ERA_SHIFT | owner);
}
MM_STATIC_ASSERT(MM_TREE_BITS_MAX < 1ull << (MM_ERA_SHIFT - MM_OWNER_LENGTH_SHIFT), "a run's length fits");

MM_FN struct mm_tree mm_segment_free_tree(const struct mm_heap_ref *ref) {
    const struct mm_tree t = {(uint64_t *)ref->free_tree, (uint32_t)ref->tree_mids};
    return t;
}
/* The trees of class c: MM_WHOLE, MM_AVAIL. */
#define MM_WHOLE 0u
#define MM_AVAIL 1u
MM_FN struct mm_tree mm_segment_class_tree(const struct mm_heap_ref *ref, uint32_t c, uint32_t which) {
    const struct mm_tree t = {(uint64_t *)(ref->class_trees + (2 * c + which) * ref->tree_bytes), (uint32_t)ref->tree_mids};
    return t;
}

/* Segment s has nothing (any more) that tree `which` of class c is about: out of it, unless that has changed. */
MM_FN_RARE void mm_segment_unlist(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t which) {
    const struct mm_tree t = mm_segment_class_tree(ref, c, which);
    struct mm_segment *at = mm_segment_at(ref, s);
    mm_tree_erase(t, s);
    if (mm_load_acquire_u64(which == MM_WHOLE ? &at->whole : &at->avail) != 0 &&
        MM_OWNER_KIND(mm_load_acquire_u64(&at->owner)) == c + 1)
        mm_tree_insert(t, s);
}

/* Takes segment s out of both trees of class c. Returns those of which it was the last one in its leaf, as bits. */
MM_FN_LEAF uint32_t mm_segment_leave(const struct mm_heap_ref *ref, uint32_t s, uint32_t c) {
    const struct mm_tree whole = mm_segment_class_tree(ref, c, MM_WHOLE), avail = mm_segment_class_tree(ref, c, MM_AVAIL);
    const uint64_t bit = 1ull << (s % 64);
    const uint64_t wholes = mm_and_relaxed_u64(mm_tree_leaf(whole, s), ~bit), avails = mm_and_relaxed_u64(mm_tree_leaf(avail, s), ~bit);
    return (uint32_t)(wholes == bit) << MM_WHOLE | (uint32_t)(avails == bit) << MM_AVAIL;
}

/* All blocks of segment s of class c are the caller's: it is nobody's now. Out of line, so that mm_segment_put_back keeps less on the stack. */
MM_FN_RARE void mm_segment_end(const struct mm_heap_ref *ref, uint32_t s, uint32_t c) {
    struct mm_heap *h = mm_heap_of(ref);
    struct mm_segment *at = mm_segment_at(ref, s);
    mm_add_relaxed_u64(&h->classes[c].segments, 0 - 1ull);
    mm_store_relaxed_u64(&at->owner, MM_OWNER_NOBODY);
    mm_store_relaxed_u64(&at->avail, 0);
    const uint32_t last = mm_segment_leave(ref, s, c); /* what that calls for can wait until the segment can be had */
    mm_tree_insert(mm_segment_free_tree(ref), s);
    if (last >> MM_WHOLE & 1) mm_tree_retract(mm_segment_class_tree(ref, c, MM_WHOLE), s);
    if (last >> MM_AVAIL & 1) mm_tree_retract(mm_segment_class_tree(ref, c, MM_AVAIL), s);
    mm_add_relaxed_u64(&h->free_count, 1);
    if (s < mm_load_relaxed_u64(&h->free_near)) mm_store_relaxed_u64(&h->free_near, s);
    mm_version_raise(h);
}

/* Gives the blocks of `bits` back to segment s of class c, and the segment to nobody if that is all. The
 * caller holds the bits. seen: what `whole` was a moment ago. Releases. */
MM_FN_RARE void mm_segment_put_back(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint64_t bits, uint64_t seen) {
    struct mm_heap *h = mm_heap_of(ref);
    struct mm_segment *at = mm_segment_at(ref, s);
    uint64_t all = mm_bits_low(ref->classes[c].blocks);
    MM_ROLLED
    for (; bits != all; seen = mm_load_relaxed_u64(&at->whole)) {
        if ((seen | bits) != all) { /* the usual case */
            const uint64_t old = mm_or_release_u64(&at->whole, bits);
            if (old == 0) {
                mm_tree_insert(mm_segment_class_tree(ref, c, MM_WHOLE), s);
                /* Who made it nobody's meanwhile may have been quicker: a hint that is wrong costs each who follows it. */
                if (mm_load_relaxed_u64(&at->whole) == 0) mm_segment_unlist(ref, s, c, MM_WHOLE);
            }
            if ((old | bits) != all) {
                mm_version_raise(h);
                return;
            }
            /* All, but no longer pinned: take ours out again, whoever owns the segment by now. */
            bits &= mm_and_acquire_u64(&at->whole, ~bits);
            if (bits == 0) return; /* claimed: whoever gives them back comes here */
            c = MM_OWNER_KIND(mm_load_acquire_u64(&at->owner)) - 1;
            all = mm_bits_low(ref->classes[c].blocks);
        } else if (mm_cas_acq_rel_u64(&at->whole, seen, 0)) {
            bits = all;
        }
    }
    mm_segment_end(ref, s, c);
}

MM_FN void mm_segment_give_back(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint64_t bits) {
    mm_segment_put_back(ref, s, c, bits, mm_load_relaxed_u64(&mm_segment_at(ref, s)->whole));
}

/* Claims those of `want`, or all, that are whole blocks of segment s, whosever it is. Returns which. Acquires. */
MM_FN uint64_t mm_segment_claim(const struct mm_heap_ref *ref, uint32_t s, uint64_t want) {
    return mm_and_acquire_u64(&mm_segment_at(ref, s)->whole, ~want) & want;
}
/* The caller has claimed blocks of segment s, which pins it, and keeps them if it is class c's. Returns whether it is. */
MM_FN int mm_segment_keep(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint64_t blocks) {
    const uint32_t owner = MM_OWNER_KIND(mm_load_relaxed_u64(&mm_segment_at(ref, s)->owner));
    if (owner != c + 1) mm_segment_give_back(ref, s, owner - 1, blocks);
    return owner == c + 1;
}

/* Takes up to `want` segments from nobody for class c; their blocks are claimed. Returns a segment, of which they are no more
 * than 63 away, or MM_TREE_NONE; *bits: how far. near: as free_near said; salt: see mm_tree_take. */
MM_FN uint32_t mm_segment_claim_fresh(const struct mm_heap_ref *ref, uint32_t c, uint32_t near, uint32_t salt, uint32_t want,
                                      uint64_t *bits) {
    struct mm_heap *h = mm_heap_of(ref);
    const uint32_t first = mm_tree_take(mm_segment_free_tree(ref), near, salt, want == 1 ? 1 + c % MM_PARTING : 1, want, bits);
    if (first == MM_TREE_NONE) return first;
    if (first / 64 != near / 64) mm_store_relaxed_u64(&h->free_near, first);
    mm_add_relaxed_u64(&h->free_count, 0 - (uint64_t)mm_popcount(*bits));
    mm_add_relaxed_u64(&h->classes[c].segments, mm_popcount(*bits));
    MM_ROLLED
    for (uint64_t rest = *bits; rest != 0; rest &= rest - 1) {
        struct mm_segment *at = mm_segment_at(ref, first + mm_ctz(rest));
        mm_segment_enter_era(ref, first + mm_ctz(rest), c + 1);
        mm_store_relaxed_u64(&at->unissued, ~0ull);
        mm_store_relaxed_u64(&at->owner, c + 1);
    }
    return first;
}

#endif
