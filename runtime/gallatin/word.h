/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Words: which slices of a block are free, and how they are claimed.
 *
 * Representation. Word i of a block (handles.h) has a bit for each of the slices [32 i, 32 i + 32), set if the slice is free, and the block's generation. The
 *   words of a block belong to its first page.
 * Invariants.
 *   I1  a generation of a page belongs to one block of one class for ever (word 0 of the page counts generations).
 *   I2  in a block that is not retired each word has the block's generation; a bit is clear exactly if the slice is allocated, or a running call holds
 *       it for a moment.
 *   I3  the words of an unowned page have an odd generation, or one that no entry has, and no bit that any thread takes.
 * Claim (linearisation point of malloc). The atomic and that clears bits. The bits are the caller's if the word has the generation of the entry that led there.
 *   Otherwise the entry was stale, and the caller sets the cleared bits again. The word's present block cannot be retired in between, since these bits are
 *   missing. (Bits in a word of an odd generation come from a misuse of free, and are not set again.)
 * Ordering. Claims acquire; frees release (free.h). A block's owner bytes are published by its words (make.h), so a successful claim sees them, however the
 *   entry was read. Its words and index are published by its entry (table.h), for the thread that retires it.
 */
#ifndef MM_GALLATIN_WORD_H
#define MM_GALLATIN_WORD_H

#include "runtime/gallatin/table.h"

/* Returns x: the high half of the mask is 0, but ptxas does not know it (mm_anew hides a value from nvcc's first stage only). So it does not compute early
 * what comes of it: one instruction more, and one register less across what is between (hardware.md). */
MM_FN uint32_t mm_hidden(const struct mm_heap_ref *ref, uint32_t x) { return x ^ (uint32_t)(ref->spacing_mask >> 32); }

/* Claims those of `bits` that are free in a word, for the generation. Returns all that were free. Acquires. */
MM_FN uint32_t mm_word_claim(uint64_t *word, uint32_t generation, uint32_t bits) {
    const uint64_t old = mm_and_acquire_u64(word, ~(uint64_t)bits);
    if (MM_LIKELY(mm_word_generation(old) == generation)) return mm_word_free(old);
    if ((mm_word_free(old) & bits) != 0 && !mm_word_is_dead(old)) mm_or_release_u64(word, mm_word_free(old) & bits);
    return 0;
}

/* The address of slice `slice` of the block of class c that begins at a page. */
MM_FN uint64_t mm_slice_address(const struct mm_heap_ref *ref, uint32_t page, uint32_t c, uint32_t slice) {
    return mm_page_address(ref, page) + (uint64_t)slice * ref->classes[c].bytes;
}

/* The number of the word of slice `slice` of the block that begins at a page. */
MM_FN uint32_t mm_slice_word(const struct mm_heap_ref *ref, uint32_t page, uint32_t slice) {
    return (page << (uint32_t)ref->word_shift) + (slice >> MM_WORD_SHIFT);
}

/* Lanes with `go` claim slice `slice` of the block of `entry`, class c. A lane that does not get its slice gets another one of the word. Returns the address,
 * or 0. All lanes of `here` call.
 *   Lanes of one word whose slices are neighbours, in the order of the lanes, claim together. If others are in the warp, each lane claims alone. All votes and
 * shuffles are over `here`: with masks that differ between lanes the hardware executes them once for each mask. */
MM_FN uint64_t mm_slices_claim(const struct mm_heap_ref *ref, uint32_t here, int go, uint64_t entry, uint32_t slice, uint32_t c) {
    const uint32_t lane = mm_warp_lane(), page = mm_entry_page(entry), bit = slice & ((1u << MM_WORD_SHIFT) - 1);
    const uint32_t number = mm_slice_word(ref, page, slice), generation = mm_entry_generation(entry);
    uint64_t *word = (uint64_t *)ref->words + number;
    uint32_t group = mm_warp_match(here, go ? number : ~lane), leader = mm_ctz(group), free = 0;
    const uint32_t from = mm_warp_shuffle(here, bit, leader), their = mm_warp_shuffle(here, generation, leader); /* one entry may be older than the other */
    const int is_odd = bit != from + mm_popcount(group & mm_bits_low(lane)) || their != generation;
    if (mm_warp_ballot(here, go && is_odd) != 0) group = 1u << lane, leader = lane;
    if (go && lane == leader) free = mm_word_claim(word, generation, (uint32_t)(mm_bits_low(mm_popcount(group)) << bit));
    mm_warp_sync(here);
    free = mm_warp_shuffle(here, free, leader);
    const uint32_t rest = free & ~(uint32_t)(mm_bits_low(mm_popcount(group)) << (lane == leader ? bit : from)); /* for the leader */
    int is_mine = go && (free >> bit & 1);
    const uint32_t fails = mm_warp_ballot(here, go && !is_mine) & group;
    if (mm_warp_ballot(here, fails != 0 && rest != 0) != 0) {
        uint32_t more = 0;
        if (go && lane == leader && fails != 0 && rest != 0) {
            const uint32_t want = mm_bits_first_u32(rest, mm_popcount(fails));
            more = mm_word_claim(word, generation, want) & want;
        }
        mm_warp_sync(here);
        more = mm_warp_shuffle(here, more, leader);
        const uint32_t rank = mm_popcount(fails & mm_bits_low(lane));
        if (go && !is_mine && rank < mm_popcount(more)) {
            slice += mm_bits_select_u32(more, rank) - bit;
            is_mine = 1;
        }
    }
    return is_mine ? mm_slice_address(ref, page, c, slice) : 0;
}

#endif
