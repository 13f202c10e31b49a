/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Heap checker and drain, for a heap in which nobody else is at work: the same code on the GPU (one thread for each
 * part, say) and on the CPU. The checker reads the metadata as the comments of the other files describe it.
 */
#ifndef MM_CORE_CHECK_H
#define MM_CORE_CHECK_H

#include "runtime/core/heap.h"

/* What can be wrong: name, text. The text's numbers are mm_check.at[0..2]. */
#define MM_FAULTS(X)                                                                               \
    X(TREE_LEAF, "a tree's leaf %u is not announced (tree %u)")                                    \
    X(TREE_MID, "a tree's middle word %u is not announced (tree %u)")                              \
    X(RING_TAKEN, "ring %u of class %u: slot %u counts more or fewer tickets than were drawn")     \
    X(RING_READY, "ring %u of class %u: lot %u is not ready, or too early")                        \
    X(RING_SEGMENT, "ring %u of class %u has segment %u, which is not of its class")               \
    X(RING_BLOCK, "ring %u of class %u has block %u, which it has not opened")                     \
    X(FREE_COUNT, "%u segments are in the free tree, %u are counted")                               \
    X(FREE_OWNER, "segment %u is in the free tree, its owner is %u")                               \
    X(FREE_WHOLE, "segment %u is nobody's, but has whole blocks")                                  \
    X(FREE_WORDS, "segment %u is nobody's, but block %u counts %u words")                          \
    X(LOST_SEGMENT, "segment %u is whole, but still its class's")                                  \
    X(WHOLE_UNLISTED, "segment %u has whole blocks, but is not in the tree of class %u")           \
    X(AVAIL_UNLISTED, "segment %u has slices to be used again, but is not in the tree of class %u") \
    X(AVAIL_UNSET, "segment %u: block %u has slices to be used again, but is not in avail")        \
    X(WHOLE_STRAY, "segment %u: block %u is whole, but there is no such block")                    \
    X(WHOLE_DIRTY, "segment %u: block %u is whole or in a reserve, but counts words (%#x)")             \
    X(WHOLE_OPEN, "segment %u: block %u is whole, but open or all handed out")                     \
    X(BITS_BEYOND, "segment %u: word %u has bits beyond the last slice")                           \
    X(WORDS, "segment %u: block %u counts its words as %#x")                                       \
    X(NOT_WHOLE, "segment %u: all slices of block %u are free, but it is not whole")               \
    X(UNISSUED_BITS, "segment %u: word %u has bits of slices that were not handed out")            \
    X(LOST_BLOCK, "segment %u: block %u is neither whole nor in a lot nor handed out")             \
    X(RUN_LENGTH, "segment %u begins a run of %u segments")                                        \
    X(RUN_SEGMENT, "segment %u is of a run, but its owner is %u")                                  \
    X(RUN_FREE, "segment %u is of a run, but can be claimed")                                      \
    X(OWNER, "segment %u has owner %u")
#define MM_FAULT_ENUM(name, text) MM_FAULT_##name,
enum mm_fault { MM_FAULT_NONE, MM_FAULTS(MM_FAULT_ENUM) MM_FAULT_KINDS };

/* Zero before. */
struct mm_check {
    uint64_t fault;      /* the first one found */
    uint64_t at[3];
    uint64_t live_bytes; /* of slices and runs handed out */
};

MM_FN_RARE void mm_check_fault(struct mm_check *k, enum mm_fault what, uint64_t a, uint64_t b, uint64_t c) {
    if (!mm_cas_acq_rel_u64(&k->fault, MM_FAULT_NONE, what)) return;
    k->at[0] = a, k->at[1] = b, k->at[2] = c;
}

MM_FN int mm_check_in_tree(struct mm_tree t, uint32_t s) { return (int)(*mm_tree_leaf(t, s) >> (s % 64) & 1); }

/* How many blocks of segment s there are to look at: none if it never was there (layout.h). */
MM_FN uint32_t mm_check_blocks(const struct mm_heap_ref *ref, uint32_t s) {
    return s < mm_heap_of(ref)->grow.reached ? MM_SEGMENT_BLOCKS_MAX : 0;
}

/* tree.h I1, upwards from the leaves. */
MM_FN_RARE void mm_check_tree(struct mm_check *k, const struct mm_heap *h, struct mm_tree t, uint32_t number) {
    for (uint32_t leaf = 0; leaf < h->tree_leaves; leaf++) {
        if (*mm_tree_leaf(t, leaf * 64) == 0) continue;
        if (!(t.node[1 + leaf / 64] >> (leaf % 64) & 1)) mm_check_fault(k, MM_FAULT_TREE_LEAF, leaf, number, 0);
        if (!(t.node[0] >> (leaf / 64) & 1)) mm_check_fault(k, MM_FAULT_TREE_MID, leaf / 64, number, 0);
    }
}

/* A ring, and what of it was not drawn: from place `place` of lot m on, up to `ahead` more lots. */
struct mm_check_ring {
    struct mm_ring *ring;
    uint32_t shift, ahead, m, place;
};
MM_FN struct mm_check_ring mm_check_ring_of(const struct mm_heap_ref *ref, uint32_t c, uint32_t i) {
    struct mm_check_ring r;
    r.ring = mm_ring_at(ref, c, i);
    r.shift = mm_ring_shift(ref->classes[c], i), r.ahead = mm_ring_ahead(ref->classes[c], i);
    r.m = r.ring->tickets >> r.shift, r.place = r.ring->tickets & ((1u << r.shift) - 1);
    return r;
}
/* The lot n after the first one, and whether it should be ready. */
MM_FN uint32_t mm_check_ring_lot(struct mm_check_ring r, uint32_t n) { return mm_lot_after(r.m, n, r.shift); }
MM_FN int mm_check_ring_ready(struct mm_check_ring r, uint32_t n) {
    if (n == 0 && r.place != 0) return 1;
    if (n >= r.ahead + (r.place != 0)) return 0;
    return mm_check_ring_lot(r, n) >= r.ahead || mm_ring_slot(r.ring, r.m + n)->what != 0; /* if the tickets have begun again */
}

MM_FN_RARE void mm_check_ring(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t c, uint32_t i) {
    const struct mm_class class_ = ref->classes[c];
    const struct mm_check_ring r = mm_check_ring_of(ref, c, i);
    for (uint32_t slot = 0; slot < MM_RING; slot++) {
        const uint32_t lots = (r.m + MM_RING - 1 - slot) / MM_RING;
        const uint32_t drawn = (lots << r.shift) + (slot == r.m % MM_RING ? r.place : 0);
        if ((r.ring->slot[slot].taken - drawn) << MM_RING_SHIFT != 0) mm_check_fault(k, MM_FAULT_RING_TAKEN, i, c, slot);
    }
    for (uint32_t n = 0; n <= r.ahead; n++) {
        const uint32_t m = mm_check_ring_lot(r, n);
        const uint64_t what = mm_ring_slot(r.ring, m)->what;
        if (mm_lot_is(what, m) != mm_check_ring_ready(r, n)) mm_check_fault(k, MM_FAULT_RING_READY, i, c, m);
        if (!mm_lot_is(what, m) || mm_lot_is_none(what)) continue;
        for (uint32_t place = n == 0 ? r.place : 0;; place++) {
            const uint32_t block = i < MM_STRIPES ? mm_stripe_block(class_, what) : mm_reserve_block(class_, r.ring, what, m, place);
            if (block == MM_BLOCK_NONE) break;
            const uint32_t s = block >> 6, j = block & 63, opener = i < MM_STRIPES ? (i + 1) | m << MM_OPENER_LOT_SHIFT : 0;
            if (i < MM_STRIPES && place >= mm_class_block_slices(class_, j)) break;
            if (s >= mm_heap_of(ref)->segment_count || MM_OWNER_KIND(mm_segment_at(ref, s)->owner) != c + 1) {
                mm_check_fault(k, MM_FAULT_RING_SEGMENT, i, c, s);
                break;
            }
            if (mm_segment_blocks(ref, s)->opener[j] != opener || !(mm_segment_at(ref, s)->unissued >> j & 1)) {
                mm_check_fault(k, MM_FAULT_RING_BLOCK, i, c, j);
                break;
            }
            if (i < MM_STRIPES) break;
        }
    }
}

/* The first slice of block j of segment s, class c, which is in unissued, that was not handed out, counted from the block's first
 * on; or all its slices, if none is in a lot of a stripe. */
MM_FN_RARE uint32_t mm_check_issued(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j) {
    const uint32_t opener = mm_segment_blocks(ref, s)->opener[j], none = mm_class_block_slices(ref->classes[c], j);
    const uint32_t i = (opener & ((1u << MM_OPENER_LOT_SHIFT) - 1)) - 1;
    if (i >= MM_STRIPES) return none;
    const struct mm_check_ring r = mm_check_ring_of(ref, c, i);
    for (uint32_t n = 0; n <= r.ahead; n++) {
        const uint64_t what = mm_ring_slot(r.ring, r.m + n)->what;
        const uint32_t m = mm_check_ring_lot(r, n);
        if (m << MM_OPENER_LOT_SHIFT != opener - (i + 1) || !mm_lot_is(what, m) || mm_lot_is_none(what)) continue;
        if (mm_stripe_block(ref->classes[c], what) == (s << 6 | j)) return n == 0 ? r.place : 0;
    }
    return none;
}
MM_FN_RARE int mm_check_is_reserved(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j) {
    for (uint32_t i = MM_STRIPES; i < MM_RINGS; i++) {
        const struct mm_check_ring r = mm_check_ring_of(ref, c, i);
        for (uint32_t n = 0; n <= r.ahead; n++) {
            const uint32_t m = mm_check_ring_lot(r, n);
            const uint64_t what = mm_ring_slot(r.ring, m)->what;
            uint32_t block;
            if (!mm_lot_is(what, m)) continue;
            for (uint32_t place = n == 0 ? r.place : 0; (block = mm_reserve_block(ref->classes[c], r.ring, what, m, place)) != MM_BLOCK_NONE; place++)
                if (block == (s << 6 | j)) return 1;
        }
    }
    return 0;
}

MM_FN_RARE void mm_check_class(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t c) {
    struct mm_heap *h = mm_heap_of(ref);
    for (uint32_t i = 0; i < MM_RINGS; i++) mm_check_ring(k, ref, c, i);
    mm_check_tree(k, h, mm_segment_class_tree(ref, c, MM_WHOLE), 2 * c + 1);
    mm_check_tree(k, h, mm_segment_class_tree(ref, c, MM_AVAIL), 2 * c + 2);
}

/* Block j of segment s, class c, which is not whole. Returns how many slices are live. */
MM_FN_RARE uint32_t mm_check_block(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j) {
    const struct mm_segment *at = mm_segment_at(ref, s);
    const struct mm_blocks *of = mm_segment_blocks(ref, s);
    const uint32_t words = mm_class_block_words(ref->classes[c], j), first = j << mm_class_block_shift(c);
    const uint32_t last = first + mm_class_block_slices(ref->classes[c], j);
    uint32_t from = last, some = 0, full = 0, live = 0; /* [from, last) was not handed out */
    if (at->unissued >> j & 1) {
        const int is_reserved = of->opener[j] == 0 && mm_check_is_reserved(ref, s, c, j);
        from = first + mm_check_issued(ref, s, c, j);
        if (from == last && !is_reserved) mm_check_fault(k, MM_FAULT_LOST_BLOCK, s, j, 0);
        if (is_reserved) {
            if (mm_words_but_life(of->words[j]) != 0) mm_check_fault(k, MM_FAULT_WHOLE_DIRTY, s, j, of->words[j]);
            return 0;
        }
    }
    for (uint32_t i = 0; i < words; i++) {
        const uint32_t word = mm_block_first_word(ref->classes[c], j) + i;
        const uint64_t bits = mm_segment_bits(ref, s)[word], all = mm_class_word_mask(ref->classes[c], word);
        if (bits & ~all) mm_check_fault(k, MM_FAULT_BITS_BEYOND, s, word, 0);
        some += bits != 0;
        full += bits == all;
        for (uint32_t b = 0; b < 1u << MM_WORD_SHIFT; b++) {
            const uint32_t slice = (word << MM_WORD_SHIFT) + b;
            if (!(all >> b & 1)) continue;
            if (slice >= from) {
                if (bits >> b & 1) mm_check_fault(k, MM_FAULT_UNISSUED_BITS, s, word, 0);
            } else {
                live += !(bits >> b & 1);
            }
        }
    }
    if (mm_words_but_life(of->words[j]) != some + full * MM_WORDS_FULL) mm_check_fault(k, MM_FAULT_WORDS, s, j, of->words[j]);
    if (full == words) mm_check_fault(k, MM_FAULT_NOT_WHOLE, s, j, 0);
    if (some != 0 && !(at->unissued >> j & 1)) { /* to be found by who looks for slices to use again */
        if (!(at->avail >> j & 1)) mm_check_fault(k, MM_FAULT_AVAIL_UNSET, s, j, 0);
        if (!mm_check_in_tree(mm_segment_class_tree(ref, c, MM_AVAIL), s)) mm_check_fault(k, MM_FAULT_AVAIL_UNLISTED, s, c, 0);
    }
    return live;
}

MM_FN_RARE void mm_check_class_segment(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t s, uint32_t c) {
    const struct mm_segment *at = mm_segment_at(ref, s);
    const struct mm_blocks *of = mm_segment_blocks(ref, s);
    const uint64_t all = mm_bits_low(ref->classes[c].blocks);
    uint64_t live = 0;
    if (at->whole == all) mm_check_fault(k, MM_FAULT_LOST_SEGMENT, s, 0, 0);
    if (at->whole & ~all) mm_check_fault(k, MM_FAULT_WHOLE_STRAY, s, mm_ctz(at->whole & ~all), 0);
    if (at->whole != 0 && !mm_check_in_tree(mm_segment_class_tree(ref, c, MM_WHOLE), s))
        mm_check_fault(k, MM_FAULT_WHOLE_UNLISTED, s, c, 0);
    for (uint32_t j = 0; j < ref->classes[c].blocks; j++) {
        if (!(at->whole >> j & 1)) {
            live += mm_check_block(k, ref, s, c, j);
            continue;
        }
        if (mm_words_but_life(of->words[j]) != 0) mm_check_fault(k, MM_FAULT_WHOLE_DIRTY, s, j, of->words[j]);
        if (of->opener[j] != 0 || !(at->unissued >> j & 1)) mm_check_fault(k, MM_FAULT_WHOLE_OPEN, s, j, 0);
    }
    mm_add_relaxed_u64(&k->live_bytes, live * mm_class_bytes(c));
}

/* A segment that is nobody's: segment.h I1. */
MM_FN_RARE void mm_check_free_segment(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t s) {
    const struct mm_segment *at = mm_segment_at(ref, s);
    const struct mm_blocks *of = mm_segment_blocks(ref, s);
    if (at->owner != MM_OWNER_NOBODY) mm_check_fault(k, MM_FAULT_FREE_OWNER, s, at->owner, 0);
    if (at->whole != 0) mm_check_fault(k, MM_FAULT_FREE_WHOLE, s, 0, 0);
    for (uint32_t j = 0; j < mm_check_blocks(ref, s); j++)
        if (mm_words_but_life(of->words[j]) != 0) mm_check_fault(k, MM_FAULT_FREE_WORDS, s, j, of->words[j]);
}

/* A run that begins at segment s. */
MM_FN_RARE void mm_check_run(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t s) {
    struct mm_heap *h = mm_heap_of(ref);
    const uint64_t n = mm_segment_at(ref, s)->owner >> MM_OWNER_LENGTH_SHIFT;
    if (n == 0 || s + n > h->segment_count) {
        mm_check_fault(k, MM_FAULT_RUN_LENGTH, s, n, 0);
        return;
    }
    for (uint32_t i = s; i < s + n; i++) {
        const struct mm_segment *at = mm_segment_at(ref, i);
        if (i != s && at->owner != MM_OWNER_RUN_BODY) mm_check_fault(k, MM_FAULT_RUN_SEGMENT, i, at->owner, 0);
        if (mm_check_in_tree(mm_segment_free_tree(ref), i) || at->whole != 0) mm_check_fault(k, MM_FAULT_RUN_FREE, i, 0, 0);
    }
    mm_add_relaxed_u64(&k->live_bytes, n << MM_SEGMENT_SHIFT);
}

/* Checks part `part` of `parts` of a heap: invariants of tree.h, segment.h, block.h, stripe.h, run.h. */
MM_FN_RARE void mm_heap_check_quiescent(const struct mm_heap_ref *ref, uint32_t part, uint32_t parts, struct mm_check *k) {
    struct mm_heap *h = mm_heap_of(ref);
    if (part == 0) {
        uint32_t count = 0;
        mm_check_tree(k, h, mm_segment_free_tree(ref), 0);
        for (uint32_t leaf = 0; leaf < h->tree_leaves; leaf++) count += mm_popcount(*mm_tree_leaf(mm_segment_free_tree(ref), leaf * 64));
        if (count != h->free_count) mm_check_fault(k, MM_FAULT_FREE_COUNT, count, h->free_count, 0);
    }
    for (uint32_t c = part; c < MM_CLASS_COUNT; c += parts) mm_check_class(k, ref, c);
    for (uint32_t s = part; s < h->segment_count; s += parts) {
        const uint32_t kind = MM_OWNER_KIND(mm_segment_at(ref, s)->owner);
        const int is_free = mm_check_in_tree(mm_segment_free_tree(ref), s);
        if (is_free || kind == MM_OWNER_NOBODY) mm_check_free_segment(k, ref, s);
        else if (kind <= MM_CLASS_COUNT) mm_check_class_segment(k, ref, s, kind - 1);
        else if (kind == MM_OWNER_RUN) mm_check_run(k, ref, s);
        else if (kind != MM_OWNER_RUN_BODY || s == 0 || MM_OWNER_KIND(mm_segment_at(ref, s - 1)->owner) < MM_OWNER_RUN)
            mm_check_fault(k, MM_FAULT_OWNER, s, mm_segment_at(ref, s)->owner, 0);
    }
}

/* Puts everything back that no live allocation needs: what stripes and reserves hold is flushed by one caller (part 0
 * of pass 0), then, in pass 1, the hints that have become stale go. Afterwards a heap without live memory is as a fresh
 * one, but for its counts of misuse and of NULL. */
MM_FN_RARE void mm_heap_drain_quiescent(const struct mm_heap_ref *ref, uint32_t pass, uint32_t part, uint32_t parts) {
    struct mm_heap *h = mm_heap_of(ref);
    if (pass == 0) {
        if (part == 0) {
            mm_stripe_flush(ref);
            h->classes_used = 0;
        }
        return;
    }
    if (part == 0) {
        h->free_near = h->flushing = 0;
        for (uint32_t i = 0; i < MM_VERSIONS; i++) h->version[i].word = 0;
    }
    for (uint32_t c = part; c < MM_CLASS_COUNT; c += parts) {
        for (uint32_t i = 0; i < MM_RINGS; i++) {
            struct mm_ring *ring = mm_ring_at(ref, c, i);
            ring->tickets = 0;
            for (uint32_t slot = 0; slot < MM_RING; slot++) ring->slot[slot].what = ring->slot[slot].taken = 0;
            for (uint32_t slot = 0; i == MM_STRIPES && slot < MM_RING; slot++) ring->blocks[slot] = 0;
        }
        struct mm_class_state *cs = &h->classes[c];
        cs->dry = cs->rich = cs->whole_row = cs->looked = cs->circulating = 0;
        for (uint32_t which = MM_WHOLE; which <= MM_AVAIL; which++) {
            const struct mm_tree t = mm_segment_class_tree(ref, c, which);
            for (uint32_t i = 0; i <= ref->tree_mids; i++) t.node[i] = 0;
            for (uint32_t leaf = 0; leaf < h->tree_leaves; leaf++) {
                uint64_t keep = *mm_tree_leaf(t, leaf * 64);
                for (uint64_t rest = keep; rest; rest &= rest - 1) {
                    const uint32_t s = leaf * 64 + mm_ctz(rest);
                    const struct mm_segment *at = mm_segment_at(ref, s);
                    if (MM_OWNER_KIND(at->owner) != c + 1 || (which == MM_WHOLE ? at->whole : at->avail) == 0)
                        keep &= ~(1ull << (s % 64));
                }
                *mm_tree_leaf(t, leaf * 64) = keep;
                if (keep) mm_tree_announce(t, leaf * 64);
            }
        }
    }
    for (uint32_t s = part; s < h->segment_count; s += parts) {
        struct mm_segment *at = mm_segment_at(ref, s);
        const uint32_t kind = MM_OWNER_KIND(at->owner);
        if (kind - 1 < MM_CLASS_COUNT) {
            mm_or_release_u64(&h->classes_used, 1ull << (kind - 1));
        } else {
            at->unissued = 0;
            at->avail = 0;
            for (uint32_t j = 0; j < mm_check_blocks(ref, s); j++) mm_segment_blocks(ref, s)->words[j] = 0;
        }
    }
}

#endif
