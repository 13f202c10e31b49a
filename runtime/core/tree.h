/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Bitmap tree: a set of segments, 64-way and three levels deep, every node one atomic word.
 *
 * A van Emde Boas layout as in Gallatin (McCoy & Pandey, PPoPP'24, section 4.1), without its min and max,
 * which would have to change together with the bits.
 *
 * Representation. node[0] is the root, then the mids, then the leaves. Bit i of the leaves: segment i is in
 *   the set. Bit i of the mids: leaf i may be non-empty. Bit i of the root: mid i may be non-empty.
 * Invariants (when nobody is between two of its steps):
 *   I1  a non-empty word has its bit in the level above.
 *   A bit above an empty word is allowed: mids and root are hints.
 * Linearisation: of insert and take, the read-modify-write of the leaf. find is a hint.
 * Ordering: who makes a word non-empty then sets the bit above (always, not only when it reads as clear);
 *   who makes a word empty clears the bit above and then looks at the word again. Clear and set are
 *   read-modify-writes of one word and one of them comes last: if the set, the bit is there; if the clear,
 *   it has read from the set (the set releases, the clear acquires), so sees the word non-empty and sets the bit
 *   again.
 * Progress: insert and erase are wait-free; find is bounded by MM_TREE_TRIES.
 * Stale: find may answer a segment that has just left, and may miss one that has just come, or whose bit above
 *   is just being cleared and set again. So a search that finds nothing proves nothing by itself.
 *
 * Version of the supply. Who has brought something to light that a search may want counts in `version`. A request that
 *   found nothing, several times, remembers the version at which that was so; while it stands, others need not search
 *   long. What is on its way from one set to another is out of sight meanwhile: whoever finds nothing waits a little
 *   and searches again, MM_NULL_TRIES times (shortage.h).
 */
#ifndef MM_CORE_TREE_H
#define MM_CORE_TREE_H

#include "runtime/core/layout.h"
#include "runtime/core/step.h"

#define MM_TREE_NONE 0xffffffffu

struct mm_tree {
    uint64_t *node;
    uint32_t mids; /* words in the middle level; the leaves begin at node[1 + mids] */
};

MM_FN void mm_version_raise(struct mm_heap *h) { mm_add_relaxed_u64(&h->version[mm_home() % MM_VERSIONS].word, 1); }
MM_FN_RARE uint64_t mm_version_read(struct mm_heap *h) {
    uint64_t version = 0;
    MM_ROLLED
    for (uint32_t i = 0; i < MM_VERSIONS; i++) version += mm_load_acquire_u64(&h->version[i].word);
    return version;
}

MM_FN uint64_t *mm_tree_leaf(struct mm_tree t, uint32_t segment) {
    return t.node + (1 + t.mids + segment / 64);
}

/* The leaf of `segment` has become non-empty: make it be found. */
MM_FN void mm_tree_announce(struct mm_tree t, uint32_t segment) {
    if (mm_or_release_u64(&t.node[1 + segment / MM_TREE_MID_SEGMENTS], 1ull << (segment / 64 % 64)) == 0)
        mm_or_release_u64(&t.node[0], 1ull << (segment / MM_TREE_MID_SEGMENTS));
}

/* The mid of `segment` has been seen empty: stop it from being looked at, unless it has filled again. */
MM_FN void mm_tree_retract_mid(struct mm_tree t, uint32_t segment) {
    const uint64_t root_bit = 1ull << (segment / MM_TREE_MID_SEGMENTS);
    mm_and_acquire_u64(&t.node[0], ~root_bit);
    if (mm_load_acquire_u64(&t.node[1 + segment / MM_TREE_MID_SEGMENTS]) != 0) mm_or_release_u64(&t.node[0], root_bit);
}

/* The leaf of `segment` has become empty: stop it from being looked at, unless it has filled again. */
MM_FN_RARE void mm_tree_retract(struct mm_tree t, uint32_t segment) {
    uint64_t *mid = &t.node[1 + segment / MM_TREE_MID_SEGMENTS];
    const uint64_t mid_bit = 1ull << (segment / 64 % 64);
    if ((mm_and_acquire_u64(mid, ~mid_bit) & ~mid_bit) == 0) mm_tree_retract_mid(t, segment);
    if (mm_load_acquire_u64(mm_tree_leaf(t, segment)) != 0) mm_tree_announce(t, segment);
}

/* Adds the segments of `bits` in the leaf of `segment`. Returns the leaf as it was. Releases. */
MM_FN_RARE uint64_t mm_tree_insert_bits(struct mm_tree t, uint32_t segment, uint64_t bits) {
    const uint64_t old = mm_or_release_u64(mm_tree_leaf(t, segment), bits);
    if (old == 0) mm_tree_announce(t, segment);
    return old;
}

/* Takes out the segments of `bits` in the leaf of `segment`. Returns the leaf as it was: those of `bits`
 * that are set there are the caller's now. Acquires. */
MM_FN_RARE uint64_t mm_tree_erase_bits(struct mm_tree t, uint32_t segment, uint64_t bits) {
    const uint64_t old = mm_and_acquire_u64(mm_tree_leaf(t, segment), ~bits);
    if (old != 0 && (old & ~bits) == 0) mm_tree_retract(t, segment);
    return old;
}

MM_FN void mm_tree_insert(struct mm_tree t, uint32_t segment) {
    mm_tree_insert_bits(t, segment, 1ull << (segment % 64));
}
MM_FN int mm_tree_erase(struct mm_tree t, uint32_t segment) {
    return (int)(mm_tree_erase_bits(t, segment, 1ull << (segment % 64)) >> (segment % 64) & 1);
}

/* A segment of the set, or MM_TREE_NONE. salt 0: the first one; else callers part ways by it, near the front. A hint.
 * A bit that leads to an empty word is taken back on the way, so that it costs one search only. */
MM_FN_RARE uint32_t mm_tree_find(struct mm_tree t, uint32_t salt) {
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_TREE_TRIES; tries++) {
        const uint64_t root = mm_load_relaxed_u64(&t.node[0]);
        if (root == 0) return MM_TREE_NONE;
        const uint32_t mid_idx = mm_ctz(root);
        const uint64_t mid = mm_load_relaxed_u64(&t.node[1 + mid_idx]);
        if (mid == 0) { /* only the root's bit: a leaf not seen empty keeps its own, or two of us could go on for ever */
                    mm_tree_retract_mid(t, mid_idx * MM_TREE_MID_SEGMENTS);
                    continue;
        }
        const uint32_t first = (mid_idx * 64 + mm_bits_pick(mid, mm_ctz(mid) + salt % MM_TREE_SPREAD)) * 64;
        const uint64_t leaf = mm_load_relaxed_u64(mm_tree_leaf(t, first));
        if (leaf != 0) return first + mm_bits_pick(leaf, mm_ctz(leaf) + salt % MM_TREE_SPREAD);
        mm_tree_retract(t, first);
    }
    return MM_TREE_NONE;
}

/* A number that differs in all its bits from that of i - 1 (multiplicative hashing: Knuth 3, 6.4). */
MM_FN uint32_t mm_tree_random(uint32_t i) { return (i + 1) * 0x9e3779b1u; }

/* One of the bits of x, which is not 0, by a random number: a bit after a gap more often than others. */
MM_FN uint32_t mm_bits_any(uint64_t x, uint32_t random) {
    return mm_bits_pick(x, mm_mulhi(random, 64 - mm_clz(x)));
}

/* A segment of the set from anywhere in it, by a random number; adds to *count about how many there are. MM_TREE_NONE: this
 * time it met a bit above an empty word. A hint. */
MM_FN_RARE uint32_t mm_tree_any(struct mm_tree t, uint32_t random, uint32_t *count) {
    const uint64_t root = mm_load_relaxed_u64(&t.node[0]);
    if (root == 0) return MM_TREE_NONE;
    const uint32_t mid_idx = mm_bits_any(root, random);
    const uint64_t mid = mm_load_relaxed_u64(&t.node[1 + mid_idx]);
    if (mid == 0) return MM_TREE_NONE;
    const uint32_t first = (mid_idx * 64 + mm_bits_any(mid, random << 6)) * 64;
    const uint64_t leaf = mm_load_relaxed_u64(mm_tree_leaf(t, first));
    if (leaf == 0) return MM_TREE_NONE;
    *count += mm_popcount(root) * mm_popcount(mid) * mm_popcount(leaf);
    return first + mm_bits_any(leaf, random << 12);
}

/* Takes up to `want` segments of one leaf out of the set. Returns the first of the leaf, or MM_TREE_NONE; *bits: which of the
 * leaf. s: one in whose leaf to look first, or MM_TREE_NONE. salt 0: the first ones, if nobody else wants them; else those
 * after what callers of smaller numbers want at the same time. stride: who met others goes on by so much more. Acquires. */
MM_FN uint32_t mm_tree_take(struct mm_tree t, uint32_t s, uint32_t salt, uint32_t stride, uint32_t want, uint64_t *bits) {
    uint64_t leaf = s == MM_TREE_NONE || salt * want >= 64 ? 0 : mm_load_relaxed_u64(mm_tree_leaf(t, s)); /* as it was seen last */
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_TREE_TRIES; tries++) {
        if (leaf == 0) {
            s = mm_tree_find(t, salt * want / 64);
            if (s == MM_TREE_NONE) break;
            leaf = mm_load_relaxed_u64(mm_tree_leaf(t, s));
            if (leaf == 0) continue;
        }
        const uint64_t mine = mm_bits_first(leaf & ~0ull << mm_bits_pick(leaf, mm_ctz(leaf) + (salt + tries * stride) * want), want);
        const uint64_t old = mm_tree_erase_bits(t, s, mine);
        leaf = old & ~mine;
        if ((old & mine) == 0) continue;
        *bits = old & mine;
        return s & ~63u;
    }
    return MM_TREE_NONE;
}

#endif
