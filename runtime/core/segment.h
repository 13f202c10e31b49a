/* Segments: who owns one, and the blocks of it that are free.
 *
 * Representation.
 *   word[s]    bit i: the block that begins at granule i of segment s is free, for its class to claim.
 *              0 in a segment that belongs to nobody or to a run.
 *   owner[s]   nobody (0), class + 1, MM_OWNER_RUN | length << 8 in the first segment of a run,
 *              MM_OWNER_RUN_BODY in its others.
 *   free tree  the segments that belong to nobody. Its leaves are the truth.
 *   class tree of c: the segments of class c whose word is not 0. A hint: its leaves too are hints.
 * Invariants.
 *   I1  a segment in the free tree has word 0, owner nobody, and all its control words closed.
 *   I2  a claimed bit (taken out of the word, not yet given back) pins the segment: the word cannot be all
 *       ones, so nobody can retire it. The owner read after the claim is the owner until the bit is back.
 *   I3  a segment of class c with a word that is not 0 is in class tree c, unless its setter is on the way.
 * Linearisation. Claim: the and on word[s] that takes the bit. Give back: the or. Retire: the exchange of the
 *   word by 0 while holding the bits that make it whole. (Without holding one, the segment may have changed hands
 *   between the or and the exchange, and its new owner's word look whole in the old owner's eyes.) Take from the
 *   free tree: the and on its leaf.
 * Ordering. Give back releases and claim acquires, so what happened to a block before it came back happens
 *   before what its next owner does with it. The class tree follows the protocol of tree.h one level
 *   further down: who makes word[s] non-zero sets the leaf bit; who makes it zero clears the leaf bit and
 *   looks at word and owner again.
 * Progress. Searches are bounded. give_back goes round again only because somebody else has claimed or given back in
 *   between, so somebody gets on. Nobody waits here except mm_segment_claim_block for a segment that somebody
 *   else is fetching, at most MM_FETCH_POLLS times.
 * Stale. A reader of a class tree may come to a segment that has been retired since: its word is 0 (nothing
 *   claimed) or holds blocks of another class: it claims one, sees the owner, gives it back.
 */
#ifndef MM_CORE_SEGMENT_H
#define MM_CORE_SEGMENT_H

#include "runtime/core/class.h"
#include "runtime/core/tree.h"

#define MM_OWNER_NOBODY 0u
#define MM_OWNER_RUN 128u
#define MM_OWNER_RUN_BODY 129u
#define MM_OWNER_KIND(owner) ((owner)&0xffu)
#define MM_OWNER_LENGTH_SHIFT 8

#define MM_BLOCK_NONE 0xffffffffu /* blocks are named by their first granule, counted over the heap */
MM_STATIC_ASSERT((uint64_t)MM_TREE_BITS_MAX * MM_SEGMENT_GRANULES < MM_BLOCK_NONE, "a granule fits 32 bits");

MM_FN struct mm_heap *mm_heap_of(const struct mm_heap_ref *ref) { return (struct mm_heap *)ref->heap; }

MM_FN uint64_t *mm_segment_word(struct mm_heap *h, uint32_t s) { return (uint64_t *)h->segment_words + s; }
MM_FN uint64_t *mm_segment_owner(struct mm_heap *h, uint32_t s) { return (uint64_t *)h->segment_owners + s; }

MM_FN struct mm_tree mm_segment_free_tree(struct mm_heap *h) {
    const struct mm_tree t = {(uint64_t *)h->free_tree, h, (uint32_t)h->tree_mids};
    return t;
}
MM_FN struct mm_tree mm_segment_class_tree(struct mm_heap *h, uint32_t c) {
    const struct mm_tree t = {(uint64_t *)(h->class_trees + c * h->tree_bytes), h, (uint32_t)h->tree_mids};
    return t;
}

/* Segment s has no free block of class c: out of the class tree with it, unless that has changed. */
MM_FN_RARE void mm_segment_unlist(struct mm_heap *h, uint32_t s, uint32_t c) {
    const struct mm_tree t = mm_segment_class_tree(h, c);
    mm_tree_erase(t, s);
    if (mm_load_acquire_u64(mm_segment_word(h, s)) != 0 && mm_load_acquire_u64(mm_segment_owner(h, s)) == c + 1)
        mm_tree_insert(t, s);
}

/* Gives the blocks of `bits` back to segment s of class c, and the segment to nobody if it is whole. The
 * caller holds the bits. Releases. */
MM_FN_RARE void mm_segment_give_back(struct mm_heap *h, uint32_t s, uint32_t c, uint64_t bits) {
    uint64_t *word = mm_segment_word(h, s);
    mm_move_begin(h);
    MM_ROLLED
    for (;;) {
        uint64_t all = mm_class_segment_mask(c);
        if (bits != all) {
            const uint64_t old = mm_or_release_u64(word, bits);
            if (old == 0) mm_tree_insert(mm_segment_class_tree(h, c), s);
            if ((old | bits) != all) break;
            /* Whole, but no longer pinned: take ours out again, whoever owns the segment by now. */
            bits &= mm_and_acquire_u64(word, ~bits);
            if (bits == 0) break; /* claimed: it will be whole again when they are given back */
            c = (uint32_t)mm_load_acquire_u64(mm_segment_owner(h, s)) - 1;
            all = mm_class_segment_mask(c);
            if (!mm_cas_acq_rel_u64(word, all & ~bits, 0)) continue; /* not whole any more */
        }
        mm_store_relaxed_u64(mm_segment_owner(h, s), MM_OWNER_NOBODY);
        if (all != 1) mm_segment_unlist(h, s, c); /* a segment of one block never gets listed */
        mm_tree_insert(mm_segment_free_tree(h), s);
        break;
    }
    mm_move_end(h);
}

/* Claims a free block of segment s for class c: its first granule, or MM_BLOCK_NONE if s has none (any
 * more). salt: callers that collide part ways by it. Acquires. */
MM_FN uint32_t mm_segment_claim_from(struct mm_heap *h, uint32_t s, uint32_t c, uint32_t salt) {
    uint64_t *word = mm_segment_word(h, s);
    uint64_t seen = mm_load_relaxed_u64(word);
    uint32_t block = MM_BLOCK_NONE;
    mm_move_begin(h); /* what a stale reader claims, its class misses until it is back */
    MM_ROLLED
    while (seen != 0 && block == MM_BLOCK_NONE) {
        const uint32_t i = mm_bits_pick(seen, salt);
        const uint64_t bit = 1ull << i;
        const uint64_t old = mm_and_acquire_u64(word, ~bit);
        seen = old;
        if (!(old & bit)) continue;
        const uint32_t owner = (uint32_t)mm_load_acquire_u64(mm_segment_owner(h, s)); /* pinned by the bit */
        if (owner != c + 1) {
            mm_segment_give_back(h, s, owner - 1, bit);
            break;
        }
        block = s * MM_SEGMENT_GRANULES + i;
        seen &= ~bit;
    }
    if (block == MM_BLOCK_NONE || seen == 0) mm_segment_unlist(h, s, c);
    mm_move_end(h);
    return block;
}

/* Takes a segment from nobody for class c and claims its first block. MM_BLOCK_NONE: there is none. */
MM_FN uint32_t mm_segment_claim_fresh(struct mm_heap *h, uint32_t c, uint32_t salt) {
    const uint32_t s = mm_tree_take(mm_segment_free_tree(h), salt);
    if (s == MM_TREE_NONE) return MM_BLOCK_NONE;
    const uint64_t rest = mm_class_segment_mask(c) & ~1ull;
    mm_store_relaxed_u64(mm_segment_owner(h, s), c + 1);
    if (rest != 0) {
        mm_store_release_u64(mm_segment_word(h, s), rest); /* stale readers' ands left it 0 (I1) */
        mm_tree_insert(mm_segment_class_tree(h, c), s);
    }
    return s * MM_SEGMENT_GRANULES;
}

/* Claims a block for class c, from its segments or from a fresh one. MM_BLOCK_NONE: neither there. So that a
 * class takes segments in proportion to its demand, only mm_class_fetchers callers fetch one at a time; the others
 * look again meanwhile. Acquires. */
MM_FN_RARE uint32_t mm_segment_claim_block(struct mm_heap *h, uint32_t c, uint32_t salt) {
    const struct mm_tree mine = mm_segment_class_tree(h, c), nobodys = mm_segment_free_tree(h);
    uint64_t *fetching = &h->classes[c].fetching;
    MM_ROLLED
    for (uint32_t polls = 0; polls < MM_TREE_TRIES; polls++) {
        const uint32_t s = mm_tree_find(mine, salt);
        if (s != MM_TREE_NONE) {
            const uint32_t block = mm_segment_claim_from(h, s, c, salt + polls);
            if (block != MM_BLOCK_NONE) return block;
        } else if (mm_load_relaxed_u64(nobodys.node) == 0) {
            return MM_BLOCK_NONE;
        } else {
            const uint64_t before = mm_add_relaxed_u64(fetching, 1);
            const uint64_t most = mm_class_fetchers(c);
            const int elected = before < most || polls >= MM_FETCH_POLLS;
            const uint32_t block = elected ? mm_segment_claim_fresh(h, c, salt) : MM_BLOCK_NONE;
            mm_add_relaxed_u64(fetching, ~0ull);
            if (elected) return block;
            mm_wait();
        }
    }
    return MM_BLOCK_NONE;
}

#endif
