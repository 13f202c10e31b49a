/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* free of a slice: the owner of its page says which class it is, and one atomic or sets its bit. The lanes that free in the same word go as one.
 *
 * A leader acts for its group, so the group's plain accesses must be ordered with the leader's atomic: the warp synchronisation before it
 * does that. What the or returns tells a slice that was free already. Lanes that free the same slice at once free it once; it is told.
 */
#ifndef MM_GALLATIN_FREE_H
#define MM_GALLATIN_FREE_H

#include "runtime/core/report.h"
#include "runtime/gallatin/word.h"

/* First part: whose slice p is. bytes: of the heap, from its beginning. */
MM_FN uint64_t mm_slice_locate_in(const struct mm_heap_ref *ref, const void *p, uint64_t bytes) {
    const uint64_t off = (uint64_t)p - ref->user_base;
    if (!MM_LIKELY(off < bytes)) return p == NULL ? 0 : mm_deferred_foreign((uint64_t)p);
    const uint32_t page = (uint32_t)(off >> MM_PAGE_SHIFT), c = mm_load_relaxed_u8(mm_page_owner(ref, page)) - 1;
    if (!MM_LIKELY(c < MM_CLASS_COUNT)) return mm_deferred_odd(0, off);
    const uint32_t mask = (1u << ref->classes[c].page_shift) - 1;
    const uint32_t in = (page & mask) << MM_PAGE_SHIFT | ((uint32_t)off & (uint32_t)(MM_PAGE_BYTES - 1));
    const uint32_t i = mm_class_number(ref->classes[c], in); /* the shift rounded down */
    if (!MM_LIKELY(in == i * ref->classes[c].bytes && i < ref->classes[c].slices))
        return mm_deferred_odd(i < ref->classes[c].slices ? MM_MISUSE_INTERIOR : MM_MISUSE_NEVER, off);
    return mm_deferred_slice(c, ((page & ~mask) << (uint32_t)ref->word_shift) + (i >> MM_WORD_SHIFT), i & ((1u << MM_WORD_SHIFT) - 1));
}

/* Where that slice is. */
MM_FN uint64_t mm_deferred_slice_address(const struct mm_heap_ref *ref, uint64_t left) {
    const uint32_t number = mm_deferred_word(left), page = number >> (uint32_t)ref->word_shift;
    return mm_slice_address(ref, page, mm_deferred_class(left), (number - (page << (uint32_t)ref->word_shift)) << MM_WORD_SHIFT | mm_deferred_bit(left));
}

/* Second part: marks the slice free. Returns 0, or that it was free, it or another that the lanes here freed as one. */
MM_FN uint64_t mm_slice_mark(const struct mm_heap_ref *ref, uint64_t left) {
    if (!MM_LIKELY(mm_deferred_kind(left) == MM_DEFERRED_SLICE)) return left;
    const uint32_t number = mm_deferred_word(left), bit = 1u << mm_deferred_bit(left);
    const uint32_t group = mm_warp_match(mm_warp_here(), number), leader = mm_ctz(group);
    uint32_t bits = bit;
    if (group & (group - 1)) bits = mm_warp_or(group, bit);
    const int is_twice = mm_popcount(bits) != mm_popcount(group); /* then each for itself */
    mm_warp_sync(group);
    if (!is_twice && mm_warp_lane() != leader) return 0;
    if (is_twice) bits = bit;
    uint64_t *word = (uint64_t *)ref->words + number;
    const uint64_t old = mm_or_release_u64(word, bits);
    if (MM_LIKELY((mm_word_free(old) & bits) == 0 && !mm_word_is_dead(old))) return 0;
    if (!mm_word_is_dead(old)) return mm_deferred_twice(left, bits, mm_word_free(old) & bits);
    mm_word_claim(word, mm_word_generation(old), bits); /* its block has been retired since: no bit stays there, nor is one taken from the next block */
    return mm_deferred_twice(left, bits, bits);
}

/* Slices were free already: counted; the first one is told. */
MM_FN_RARE void mm_slice_twice(const struct mm_heap_ref *ref, uint64_t left) {
    const struct mm_misused what = {MM_MISUSE_DOUBLE_FREE, mm_deferred_slice_address(ref, left), ref->classes[mm_deferred_class(left)].bytes,
                                    (left & MM_DEFERRED_AS_ONE) != 0, 0, 0};
    mm_misuse_count(ref, what.kind, mm_deferred_times(left));
    mm_misuse_report(ref, what);
}

/* Whether the slice is allocated. */
MM_FN int mm_deferred_is_live(const struct mm_heap_ref *ref, uint64_t left) {
    const uint64_t word = mm_load_relaxed_u64((uint64_t *)ref->words + mm_deferred_word(left));
    return !mm_word_is_dead(word) && !(mm_word_free(word) >> mm_deferred_bit(left) & 1);
}

#endif
