/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Bitmap tree: a set of segments, 64-way and three levels deep, every node one atomic word.
 *
 * A van Emde Boas layout as in Gallatin (McCoy & Pandey, PPoPP'24, section 4.1), without its min and max,
 * which would have to change together with the bits.
 *
 * Representation. The roots (up to four words), then the mids, then the leaves. Bit i of the leaves: segment i is in
 *   the set. Bit i of the mids: leaf i may be non-empty. Bit i of the roots: mid i may be non-empty.
 * Invariants (while no thread is between two of its steps):
 *   I1  a non-empty word has its bit in the level above.
 *   A bit above an empty word is allowed: mids and root are hints.
 * Linearisation points: of insert and take, the read-modify-write of the leaf. find is a hint.
 * Ordering: a thread that makes a word non-empty sets the bit above afterwards (always, not only if the bit reads as clear); a thread
 *   that makes a word empty clears the bit above and then reads the word again. Clear and set are read-modify-writes of one word, so one of
 *   them comes last. If it is the set, the bit is set. If it is the clear, it has read from the set (the set releases, the clear acquires),
 *   so its thread sees the word non-empty and sets the bit again.
 * Progress: insert and erase are wait-free; find is bounded by MM_TREE_TRIES.
 * Stale: find may return a segment that has just left, and may miss one that has just come, or whose bit above is being cleared and set
 *   again. So a single search that finds nothing does not prove that the set is empty. A thread that is suspended between its two steps
 *   hides all segments of a leaf or a mid; mm_tree_mend takes the second step for it.
 */
#ifndef MM_CORE_TREE_H
#define MM_CORE_TREE_H

#include "runtime/core/layout.h"

#define MM_TREE_NONE 0xffffffffu

struct mm_tree {
    uint64_t *node;
    uint32_t roots, mids; /* words in the upper and in the middle level */
};

MM_FN uint64_t *mm_tree_leaf(struct mm_tree t, uint32_t segment) { return t.node + (t.roots + t.mids + segment / 64); }

MM_FN uint64_t *mm_tree_mid(struct mm_tree t, uint32_t segment) { return t.node + (t.roots + segment / MM_TREE_MID_SEGMENTS); }
MM_FN uint64_t *mm_tree_root(struct mm_tree t, uint32_t segment) { return t.node + segment / MM_TREE_ROOT_SEGMENTS; }
MM_FN uint64_t mm_tree_root_bit(uint32_t segment) { return 1ull << (segment / MM_TREE_MID_SEGMENTS % 64); }

/* The leaf of `segment` has become non-empty: sets the bits above. */
MM_FN void mm_tree_announce(struct mm_tree t, uint32_t segment) {
    if (mm_or_release_u64(mm_tree_mid(t, segment), 1ull << (segment / 64 % 64)) == 0) mm_or_release_u64(mm_tree_root(t, segment), mm_tree_root_bit(segment));
}

/* The mid of `segment` was seen empty: clears the bit above, unless the mid has filled again. */
MM_FN void mm_tree_retract_mid(struct mm_tree t, uint32_t segment) {
    mm_and_acquire_u64(mm_tree_root(t, segment), ~mm_tree_root_bit(segment));
    if (mm_load_acquire_u64(mm_tree_mid(t, segment)) != 0) mm_or_release_u64(mm_tree_root(t, segment), mm_tree_root_bit(segment));
}

/* The leaf of `segment` has become empty: clears the bit above, unless the leaf has filled again. */
MM_FN_RARE void mm_tree_retract(struct mm_tree t, uint32_t segment) {
    const uint64_t mid_bit = 1ull << (segment / 64 % 64);
    if ((mm_and_acquire_u64(mm_tree_mid(t, segment), ~mid_bit) & ~mid_bit) == 0) mm_tree_retract_mid(t, segment);
    if (mm_load_acquire_u64(mm_tree_leaf(t, segment)) != 0) mm_tree_announce(t, segment);
}

/* The leaves `empty` of the mid of `segment` have become empty: mm_tree_retract for all of them, with one clear. It acquires, so the loads of the second
 * look can be relaxed, and overlap. */
MM_FN_RARE void mm_tree_retract_leaves(struct mm_tree t, uint32_t segment, uint64_t empty) {
    const uint32_t base = segment / MM_TREE_MID_SEGMENTS * MM_TREE_MID_SEGMENTS;
    uint64_t filled = 0;
    if ((mm_and_acquire_u64(mm_tree_mid(t, base), ~empty) & ~empty) == 0) mm_tree_retract_mid(t, base);
    MM_ROLLED
    while (empty != 0) {
        const uint32_t first = mm_ctz(empty) & ~(MM_TREE_AT_ONCE - 1u), these = (uint32_t)(empty >> first);
        uint32_t some = 0;
        for (uint32_t i = 0; i < MM_TREE_AT_ONCE; i++)
            some |= (uint32_t)(these >> i & 1 && mm_load_relaxed_u64(mm_tree_leaf(t, base + first * 64) + i) != 0) << i;
        filled |= (uint64_t)some << first;
        empty &= ~(mm_bits_low(MM_TREE_AT_ONCE) << first);
    }
    MM_ROLLED
    for (; filled != 0; filled &= filled - 1) mm_tree_announce(t, base + mm_ctz(filled) * 64);
}

/* Inserts the segments of `bits` in the leaf of `segment`. Returns the leaf's previous value. Releases. */
MM_FN_RARE uint64_t mm_tree_insert_bits(struct mm_tree t, uint32_t segment, uint64_t bits) {
    const uint64_t old = mm_or_release_u64(mm_tree_leaf(t, segment), bits);
    if (old == 0) mm_tree_announce(t, segment);
    return old;
}

/* Takes the segments of `bits` in the leaf of `segment` out of the set. Returns the leaf's previous value: those of `bits` that are set in it
 * belong to the caller now. Acquires. */
MM_FN_RARE uint64_t mm_tree_erase_bits(struct mm_tree t, uint32_t segment, uint64_t bits) {
    const uint64_t old = mm_and_acquire_u64(mm_tree_leaf(t, segment), ~bits);
    if (old != 0 && (old & ~bits) == 0) mm_tree_retract(t, segment);
    return old;
}

/* Sets the bits above non-empty words among the first `leaves` leaves where they are clear: a thread is about to set them, and may be suspended. Returns
 * whether there were any. */
MM_FN_RARE int mm_tree_mend(struct mm_tree t, uint32_t leaves) {
    int any = 0;
    MM_ROLLED
    for (uint32_t leaf = 0; leaf < leaves; leaf += MM_TREE_AT_ONCE) {
        uint64_t word[MM_TREE_AT_ONCE], filled = 0;
        for (uint32_t i = 0; i < MM_TREE_AT_ONCE; i++) word[i] = leaf + i < leaves ? mm_load_relaxed_u64(mm_tree_leaf(t, (leaf + i) * 64)) : 0;
        for (uint32_t i = 0; i < MM_TREE_AT_ONCE; i++) filled |= (uint64_t)(word[i] != 0) << (leaf + i) % 64;
        if (filled == 0) continue;
        const int is_hidden = (filled & ~mm_load_relaxed_u64(mm_tree_mid(t, leaf * 64))) != 0;
        if (!is_hidden && mm_load_relaxed_u64(mm_tree_root(t, leaf * 64)) & mm_tree_root_bit(leaf * 64)) continue;
        if (is_hidden) mm_or_release_u64(mm_tree_mid(t, leaf * 64), filled);
        mm_or_release_u64(mm_tree_root(t, leaf * 64), mm_tree_root_bit(leaf * 64)); /* also if it reads as set, as when the mid fills (above) */
        any = 1;
    }
    return any;
}

MM_FN void mm_tree_insert(struct mm_tree t, uint32_t segment) { mm_tree_insert_bits(t, segment, 1ull << (segment % 64)); }
MM_FN int mm_tree_erase(struct mm_tree t, uint32_t segment) { return (int)(mm_tree_erase_bits(t, segment, 1ull << (segment % 64)) >> (segment % 64) & 1); }

/* Returns a segment of the set, or MM_TREE_NONE; a hint. salt: 0 for the first segment; otherwise it spreads callers, near the front. A stale bit
 * above an empty word is cleared on the way, so that it costs only one search. */
MM_FN_RARE uint32_t mm_tree_find(struct mm_tree t, uint32_t salt) {
    MM_ROLLED
    for (uint32_t tries = 0, root_idx = 0; tries < MM_TREE_TRIES && root_idx < t.roots; tries++) {
        const uint64_t root = mm_load_relaxed_u64(&t.node[root_idx]);
        if (root == 0) {
            root_idx++;
            continue;
        }
        const uint32_t mid_idx = root_idx * 64 + mm_ctz(root);
        const uint64_t mid = mm_load_relaxed_u64(&t.node[t.roots + mid_idx]);
        if (mid == 0) { /* only the root's bit: a leaf that was not seen empty keeps its bit, otherwise two threads could go on for ever */
            mm_tree_retract_mid(t, mid_idx * MM_TREE_MID_SEGMENTS);
            continue;
        }
        const uint32_t first = (mid_idx * 64 + mm_bits_pick(mid, mm_ctz(mid) + salt % MM_TREE_SPREAD)) * 64;
        const uint64_t leaf = mm_load_relaxed_u64(mm_tree_leaf(t, first));
        if (leaf != 0) return first + mm_bits_pick(leaf, mm_ctz(leaf) + salt / MM_TREE_SPREAD);
        mm_tree_retract(t, first);
    }
    return MM_TREE_NONE;
}

/* A hash of i (multiplicative hashing: Knuth 3, 6.4). */
MM_FN uint32_t mm_tree_random(uint32_t i) { return (i + 1) * 0x9e3779b1u; }

/* The salt for a search after `tries` + 1 collisions, `used` segments being in use: for one of the first 2, 4, 8, ... segments of a set without gaps, or of as
 * many as MM_TREE_SHARE in use. So a few callers leave no gaps between segments in use, and many callers do not meet again and again. */
MM_FN uint32_t mm_tree_salt(uint32_t random, uint32_t tries, uint32_t used) {
    const uint32_t among = mm_at_most((2u << mm_at_most(tries, 16)) + used / MM_TREE_SHARE, 64 * MM_TREE_SPREAD);
    const uint32_t place = mm_mulhi(mm_tree_random(random + tries), among);
    return place / 64 + place % 64 * MM_TREE_SPREAD;
}

/* Takes one of the first segments out of the set. Returns it, or MM_TREE_NONE. random: any number; used: segments in use, a hint. Acquires. */
MM_FN uint32_t mm_tree_take(struct mm_tree t, uint32_t random, uint32_t used) {
    uint32_t salt = 0;
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_TREE_TRIES; tries++) {
        const uint32_t s = mm_tree_find(t, salt);
        if (s == MM_TREE_NONE || mm_tree_erase(t, s)) return s;
        salt = mm_tree_salt(random, tries, used);
    }
    return MM_TREE_NONE;
}

#endif
