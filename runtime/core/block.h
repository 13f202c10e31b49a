/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Blocks: how slices come back, are used again one by one, and become a whole block again.
 *
 * Representation. For the slice i of segment s, of block j = i >> block shift:
 *   bits[s][i / 64]  bit i % 64, 1: the slice was handed out and has come back. 0: live, or not handed out, or there is
 *                    no such slice. Of no meaning in a block that is not open and not handed out.
 *   words[s][j]      some   how many words of the block's bits are not 0
 *                    full   how many are full, that is all its slices have come back
 *                    reusers  how many callers are looking for slices to use again
 *                    life   how often the block has become whole, modulo 2^14: so that the compare and swap of one
 *                           who is late does not hit a later life of the same count
 *                    MM_WORDS_WHOLE  the block is just becoming whole
 *   avail            (segment.h) the blocks of which some word is not 0.
 * Invariants.
 *   I1  a bit is set only for a slice that was handed out (free looks, stripe.h), once.
 *   I2  a bit is cleared only by a reuser that is registered in the block, with all slices handed out, which makes it
 *       the reuser's; the block cannot become whole, nor the segment nobody's, while there is one.
 *   I3  a block that has a word that is not 0 is in avail, or whoever counted the first such word is on the way.
 *   I4  some and full lag behind the bits (who changes a bit counts afterwards), but a reuser counts what it took as it
 *       leaves. So if full is all, and there is no reuser, then all words are full and stay so.
 * Whole again. Whoever brings words to "all full, no reuser" tries to set MM_WORDS_WHOLE, and the counts to 0 (compare and
 *   swap); if that fails, somebody has registered meanwhile, and will bring it there again. The block is then its own: it
 *   goes into unissued, MM_WORDS_WHOLE goes, and it is given back. The bits stay set, so that a slice that is freed once
 *   more is told, until somebody who has claimed the block clears them (stripe.h). A reuser who is late may be registered
 *   even then; it sees MM_WORDS_WHOLE, or that the block is in unissued, and leaves. Who hands out a block's last slice
 *   offers what has come back meanwhile.
 * Linearisation. Slice free: the or on its word. Reuse: the and that gets a bit. Whole: the compare and swap.
 * Ordering. free: or (release). Reuse: and (acquire). Who makes the block whole acquires from all its words, and give
 *   back releases (segment.h), claim acquires, who puts a lot releases, who looks it up acquires (stripe.h): so
 *   what the last user of a slice did happens before what its next user does. avail is set with release after the
 *   count, and who clears it acquires, then looks at the count again. unissued is set before MM_WORDS_WHOLE is cleared; a
 *   reuser registers, then reads it: one fence for that, and to acquire from the words.
 * Progress. Wait-free; but who makes the block whole may have to wait for its words' last bits to be seen, which were
 *   set before they were counted.
 * Stale. A search may come to a block that has changed since it was listed, or whose segment has changed hands. A reuser
 *   reads three words, in this order; each read makes the next one lasting:
 *     words     it registers, and MM_WORDS_WHOLE is not set. From now on no handed-out block of this number becomes whole.
 *     unissued  the block's bit is 0: all its slices have been handed out. So the block is not whole, and does not become
 *               whole before the reuser leaves: it pins the segment (segment.h I2).
 *     owner     the segment is pinned: this is the block's class until the reuser leaves.
 *   A bit of 1 in unissued pins nothing: registration does not keep a block that is already whole from being claimed, nor its
 *   segment from changing hands. So an owner that is read before unissued may be the last one's, and the bit the next one's:
 *   then the reuser would take slice bits of another class for its own.
 */
#ifndef MM_CORE_BLOCK_H
#define MM_CORE_BLOCK_H

#include "runtime/core/segment.h"

/* Some slices that the caller has been given, as one word, 0 for none: any of 32 neighbours in one word of slice bits. */
typedef uint64_t mm_claim;
#define MM_SLICE_BITS (MM_SEGMENT_SHIFT - MM_ALIGN_SHIFT)
#define MM_CLAIM_SHIFT (MM_WORD_SHIFT < 5 ? MM_WORD_SHIFT : 5)
MM_STATIC_ASSERT((uint64_t)MM_TREE_BITS_MAX * MM_SEGMENT_SLICES_MAX >> MM_CLAIM_SHIFT <= 1ull << 32, "the number of 32 slices fits");
MM_FN mm_claim mm_claim_make(uint32_t s, uint32_t i, uint32_t mask) {
    return ((uint64_t)s << MM_SLICE_BITS | i) >> MM_CLAIM_SHIFT << 32 | mask;
}
MM_FN uint32_t mm_claim_count(mm_claim claim) { return mm_popcount((uint32_t)claim); }
/* The slice of rank `rank`, below the count: segment << MM_SLICE_BITS | number. */
MM_FN uint64_t mm_claim_slice(mm_claim claim, uint32_t rank) {
    uint32_t mask = (uint32_t)claim;
    MM_ROLLED
    while (rank-- > 0) mask &= mask - 1;
    return (claim >> 32 << MM_CLAIM_SHIFT) + mm_ctz(mask);
}
/* Its byte offset in the heap. */
MM_FN uint64_t mm_claim_offset(struct mm_class k, mm_claim claim, uint32_t rank) {
    const uint64_t slice = mm_claim_slice(claim, rank);
    return (slice >> MM_SLICE_BITS << MM_SEGMENT_SHIFT) + (slice & ((1u << MM_SLICE_BITS) - 1)) * k.bytes;
}

/* Fields of words. */
#define MM_WORDS_FULL (1ull << 16)
#define MM_WORDS_REUSER (1ull << 32)
#define MM_WORDS_LIFE (1ull << 48)
#define MM_WORDS_WHOLE (1ull << 62)
#define MM_WORDS_LIVES (MM_WORDS_WHOLE / MM_WORDS_LIFE)
MM_FN uint64_t mm_words_but_life(uint64_t words) { return words & ~(MM_WORDS_WHOLE - MM_WORDS_LIFE); }
MM_FN uint32_t mm_words_some(uint64_t words) { return (uint32_t)words & (uint32_t)(MM_WORDS_FULL - 1); }
MM_STATIC_ASSERT(MM_SEGMENT_WORDS < MM_WORDS_FULL, "a count of words fits");
/* Counts that lag behind may be negative, and borrow from the fields above, for the time being: the bias takes that
 * back. */
MM_FN int mm_words_are_whole(uint64_t words) { return (int)((words + (MM_WORDS_FULL << 15) + (1u << 15)) >> 62 & 1); }
/* Whether all words of block j are full and nobody uses them again. */
MM_FN int mm_words_are_all(uint64_t words, struct mm_class k, uint32_t j) {
    return (words & (MM_WORDS_LIFE - 1)) == mm_class_block_words(k, j) * (MM_WORDS_FULL + 1) && words < MM_WORDS_WHOLE;
}
/* The first word of block j; the block of a word. */
MM_FN uint32_t mm_block_first_word(struct mm_class k, uint32_t j) { return j << (k.block_shift - MM_WORD_SHIFT); }
MM_FN uint32_t mm_block_of_word(struct mm_class k, uint32_t word) { return word >> (k.block_shift - MM_WORD_SHIFT); }

/* Block j of segment s, class c, is to be found by who looks for slices to use again. Releases. */
MM_FN void mm_block_list(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j) {
    mm_or_release_u64(&mm_segment_at(ref, s)->avail, 1ull << j);
    mm_tree_insert(mm_segment_class_tree(ref, c, MM_AVAIL), s); /* whatever avail was: one of another class, who
                                                                   was late, may have set a bit */
}

/* Block j of segment s has, as it seems, no slices to be used again: out of avail with it, unless that has changed. */
MM_FN_RARE void mm_block_withdraw(const struct mm_heap_ref *ref, uint32_t s, uint32_t j) {
    struct mm_segment *at = mm_segment_at(ref, s);
    struct mm_blocks *of = mm_segment_blocks(ref, s);
    mm_and_acquire_u64(&at->avail, ~(1ull << j));
    const uint64_t words = mm_add_acq_rel_u64(&of->words[j], 0);
    const uint32_t kind = MM_OWNER_KIND(mm_load_acquire_u64(&at->owner));
    if (!mm_words_are_whole(words) && mm_words_some(words) != 0 && kind - 1 < MM_CLASS_COUNT &&
        !(mm_load_acquire_u64(&at->unissued) >> j & 1))
        mm_block_list(ref, s, kind - 1, j);
}

/* Block j of segment s, class c, has slices to be used again. Releases. */
MM_FN_RARE void mm_block_offer(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j) {
    struct mm_segment *at = mm_segment_at(ref, s);
    mm_block_list(ref, s, c, j);
    /* Who made it whole meanwhile may have been quicker: a hint that is wrong costs each who follows it. */
    if (!(mm_load_relaxed_u64(&at->unissued) >> j & 1)) return;
    mm_block_withdraw(ref, s, j);
    if (mm_load_relaxed_u64(&at->avail) == 0) mm_segment_unlist(ref, s, c, MM_AVAIL);
}

/* The words of block j of segment s, class c, were `all`, that is all full: makes the block whole, unless they have
 * changed. */
MM_FN_RARE void mm_block_try_whole(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j, uint64_t all) {
    struct mm_segment *at = mm_segment_at(ref, s);
    struct mm_blocks *of = mm_segment_blocks(ref, s);
    const uint64_t life = all & (MM_WORDS_WHOLE - MM_WORDS_LIFE), others = mm_load_relaxed_u64(&at->whole);
    if (!mm_cas_acquire_u64(&of->words[j], all, MM_WORDS_WHOLE | ((life + MM_WORDS_LIFE) & (MM_WORDS_WHOLE - 1)))) return;
    const uint32_t first = mm_block_first_word(ref->classes[c], j), n = mm_class_block_words(ref->classes[c], j);
    const uint64_t last = mm_class_word_mask(ref->classes[c], first + n - 1), full = mm_bits_low(1u << MM_WORD_SHIFT);
    mm_wait_words(mm_segment_bits(ref, s) + first, n - (last != full), full);
    mm_wait_words(mm_segment_bits(ref, s) + (first + n - 1), last != full, last);
    mm_store_relaxed_u32(&of->opener[j], 0);
    mm_or_relaxed_u64(&at->unissued, 1ull << j);
    mm_and_relaxed_u64(&at->avail, ~(1ull << j));
    mm_gather_fence(); /* acquires from the words; unissued before what follows */
    mm_and_relaxed_u64(&of->words[j], ~MM_WORDS_WHOLE);
    mm_segment_put_back(ref, s, c, 1ull << j, others);
}

/* What is to be done for a block after its words have changed. */
enum mm_due { MM_DUE_NOTHING, MM_DUE_WHOLE, MM_DUE_WITHDRAW, MM_DUE_OFFER };
/* The words of block j were `words` before `change` was added. */
MM_FN uint32_t mm_block_due(struct mm_class k, uint32_t j, uint64_t words, uint64_t change) {
    const uint64_t now = words + change;
    if (mm_words_are_all(now, k, j)) return MM_DUE_WHOLE;
    return mm_words_some(now) == 0 ? MM_DUE_WITHDRAW : mm_words_some(words) == 0 ? MM_DUE_OFFER : MM_DUE_NOTHING;
}
/* Does it. `now`: the words, if they are all full. The segment may be gone when this returns. */
MM_FN void mm_block_do(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j, uint32_t due, uint64_t now) {
    if (due == MM_DUE_WHOLE) mm_block_try_whole(ref, s, c, j, now);
    else if (due == MM_DUE_WITHDRAW) mm_block_withdraw(ref, s, j);
    else if (due == MM_DUE_OFFER) mm_block_offer(ref, s, c, j);
}

/* Both: the words were `words` before `change` was added. */
MM_FN void mm_block_counted(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j, uint64_t words, uint64_t change) {
    mm_block_do(ref, s, c, j, mm_block_due(ref->classes[c], j, words, change), words + change);
}

/* What to add to the words of a block when in its word `word`, of which `back` slices had come back, `more` did. */
MM_FN uint32_t mm_block_change(struct mm_class k, uint32_t word, uint32_t back, uint32_t more) {
    return (back == 0) + (back + more == mm_class_word_slices(k, word) && more != 0 ? (uint32_t)MM_WORDS_FULL : 0);
}

/* Marks the slices of `mask` in word `word` of segment s, class c, free. Releases. */
MM_FN void mm_block_free_bits(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t word, uint64_t mask) {
    const uint64_t old = mm_or_release_u64(mm_segment_bits(ref, s) + word, mask);
    const uint32_t j = mm_block_of_word(ref->classes[c], word);
    const uint32_t change = mm_block_change(ref->classes[c], word, mm_popcount(old), mm_popcount(mask & ~old));
    if (change != 0) mm_block_counted(ref, s, c, j, mm_add_relaxed_u64(&mm_segment_blocks(ref, s)->words[j], change), change);
}

/* Claims up to n (at most 32) slices that came back, of a block of segment s, for class c. Returns none if the block it
 * looked at had none. salt: callers part ways by it. Acquires. */
MM_FN_RARE mm_claim mm_block_reuse(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t n, uint32_t salt) {
    struct mm_segment *at = mm_segment_at(ref, s);
    struct mm_blocks *of = mm_segment_blocks(ref, s);
    const uint64_t avail = mm_load_relaxed_u64(&at->avail);
    if (avail == 0) return 0;
    const uint32_t j = mm_bits_pick(avail, salt), first = mm_block_first_word(ref->classes[c], j);
    const uint64_t block = 1ull << j;
    mm_claim claim = 0;
    uint64_t change = 0 - MM_WORDS_REUSER;
    uint32_t words = 0;
    /* In this order: what is read makes the next lasting (Stale, above). */
    if (!mm_words_are_whole(mm_add_acq_rel_u64(&of->words[j], MM_WORDS_REUSER)) &&
        !(mm_load_acquire_u64(&at->unissued) & block) && MM_OWNER_KIND(mm_load_acquire_u64(&at->owner)) == c + 1)
        words = mm_class_block_words(ref->classes[c], j);
    else
        mm_block_withdraw(ref, s, j);
    MM_ROLLED
    for (uint32_t i = 0; i < words && claim == 0; i++) {
        const uint32_t word = first + (i + salt) % words;
        uint64_t *bits = mm_segment_bits(ref, s) + word, seen = mm_load_relaxed_u64(bits);
        MM_ROLLED
        while (seen != 0 && claim == 0) {
            const uint32_t half = (uint32_t)seen ? 0 : 32, some = (uint32_t)(seen >> half);
            uint32_t rest = some;
            MM_ROLLED
            for (uint32_t k = 0; k < n; k++) rest &= rest - 1; /* 0 stays 0 */
            const uint64_t want = (uint64_t)(some & ~rest) << half;
            const uint64_t old = mm_and_acquire_u64(bits, ~want), got = old & want;
            seen = old & ~want;
            if (got == 0) continue;
            change -= (old == got) + (old == mm_class_word_mask(ref->classes[c], word) ? MM_WORDS_FULL : 0);
            claim = mm_claim_make(s, (word << MM_WORD_SHIFT) + half, (uint32_t)(got >> half));
        }
    }
    const uint64_t before = mm_add_acq_rel_u64(&of->words[j], change);
    if (words != 0) {
        mm_block_counted(ref, s, c, j, before, change);
    } else { /* it may have filled up meanwhile, and whoever filled it left it to us */
        const uint32_t kind = MM_OWNER_KIND(mm_load_acquire_u64(&at->owner));
        if (kind - 1 < MM_CLASS_COUNT && j < ref->classes[kind - 1].blocks && mm_words_are_all(before + change, ref->classes[kind - 1], j))
            mm_block_try_whole(ref, s, kind - 1, j, before + change);
    }
    return claim;
}

#endif
