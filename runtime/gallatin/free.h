/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* free of a slice: the owner of its page names the shape of its block, and one atomic or sets the slice's bit (the linearisation point). Lanes that free neighbouring
 * slices of a word, in the order of the lanes, free them together; if others are in the warp, each lane frees its slice alone.
 *
 * Ordering. A leader acts for its group, so the group's plain accesses must be ordered before the leader's atomic, which releases: the warp synchronisation in
 * front of it does that. The value that the or returns shows whether the slice was free already. Lanes that free the same slice at once free it once, and the
 * double free is reported.
 */
#ifndef MM_GALLATIN_FREE_H
#define MM_GALLATIN_FREE_H

#include "runtime/core/report.h"
#include "runtime/gallatin/word.h"

/* First part: finds what p is, in the first `bytes` of the heap. Returns what is left to do (core/handles.h). */
MM_FN uint64_t mm_small_locate(const struct mm_heap_ref *ref, const void *p, uint64_t bytes) {
    const uint64_t off = (uint64_t)p - ref->user_base;
    if (!MM_LIKELY(off < bytes)) return p == NULL ? 0 : mm_deferred_foreign((uint64_t)p);
    const uint32_t page = (uint32_t)(off >> MM_PAGE_SHIFT), shape = mm_load_relaxed_u8(mm_page_owner(ref, page)) - 1;
    if (!MM_LIKELY(shape < MM_SHAPES)) return mm_deferred_odd(0, off);
    const uint32_t mask = (1u << ref->classes[shape].page_shift) - 1;
    const uint32_t in = (page & mask) << MM_PAGE_SHIFT | ((uint32_t)off & (uint32_t)(MM_PAGE_BYTES - 1));
    const uint32_t i = mm_class_number(ref->classes[shape], in); /* the shift rounded down */
    if (!MM_LIKELY(in == i * ref->classes[shape].bytes && i < ref->classes[shape].slices))
        return mm_deferred_odd(i < ref->classes[shape].slices ? MM_MISUSE_INTERIOR : MM_MISUSE_NEVER, off);
    return mm_deferred_slice(shape, ((page & ~mask) << (uint32_t)ref->word_shift) + (i >> MM_WORD_SHIFT), i & ((1u << MM_WORD_SHIFT) - 1));
}

/* The address of that slice. */
MM_FN uint64_t mm_small_address(const struct mm_heap_ref *ref, uint64_t left) {
    const uint32_t number = mm_deferred_word(left), page = number >> (uint32_t)ref->word_shift;
    return mm_slice_address(ref, page, mm_deferred_shape(left), (number - (page << (uint32_t)ref->word_shift)) << MM_WORD_SHIFT | mm_deferred_bit(left));
}

/* Second part: marks the slices of the lanes of `here` free, which all call and have one each. Returns 0, or a deferred double free: this slice, or another
 * that the group freed with it, was free already. */
MM_FN uint64_t mm_slices_mark(const struct mm_heap_ref *ref, uint32_t here, uint64_t left) {
    const uint32_t number = mm_deferred_word(left), bit = mm_deferred_bit(left);
    uint32_t group = mm_warp_match(here, number);
    const uint32_t more = bit - mm_warp_shuffle(here, bit, mm_ctz(group)) - mm_popcount(group & mm_warp_before());
    if (mm_warp_ballot(here, more != 0) != 0) group = mm_warp_self(); /* also if lanes free the same slice */
    mm_warp_sync(here);
    if ((group & ~mm_warp_from()) != 0) return 0;
    left = left >> 32 << 32 | mm_hidden(ref, (uint32_t)left);
    const uint32_t bits = (uint32_t)mm_bits_low(mm_popcount(group)) << mm_deferred_bit(left);
    uint64_t *word = (uint64_t *)ref->words + mm_deferred_word(left);
    const uint64_t old = mm_or_release_u64(word, bits);
    if (MM_LIKELY((mm_word_free(old) & bits) == 0 && !mm_word_is_dead(old))) return 0;
    if (!mm_word_is_dead(old)) return mm_deferred_twice(left, bits, mm_word_free(old) & bits);
    mm_word_claim(word, mm_word_generation(old), bits); /* the block has been retired: clears the bit again, but takes none from the next block */
    return mm_deferred_twice(left, bits, bits);
}
/* The same if it is a slice, for any lanes; all that is no slice is left. */
MM_FN_LEAF uint64_t mm_small_mark(const struct mm_heap_ref *ref, uint64_t left) {
    if (mm_deferred_kind(left) != MM_DEFERRED_SLICE) return left;
    return mm_slices_mark(ref, mm_warp_group(left >> MM_DEFERRED_KIND_SHIFT), left);
}
/* The same for a full warp with slices; all else is left. */
MM_FN uint64_t mm_small_mark_warp(const struct mm_heap_ref *ref, uint64_t left) {
    if (!MM_LIKELY(mm_deferred_kind(left) == MM_DEFERRED_SLICE && mm_warp_here() == MM_WARP_ALL)) return left;
    return mm_slices_mark(ref, MM_WARP_ALL, left);
}

/* Slices were free already: counts them, and reports the first one. */
MM_FN_RARE void mm_small_twice(const struct mm_heap_ref *ref, uint64_t left) {
    const struct mm_misused what = {
        MM_MISUSE_DOUBLE_FREE, mm_small_address(ref, left), ref->classes[mm_deferred_shape(left)].bytes, (left & MM_DEFERRED_AS_ONE) != 0, 0, 0};
    mm_misuse_count(ref, what.kind, mm_deferred_times(left));
    mm_misuse_report(ref, what);
}

/* Bytes of the slice; 0 if it is not allocated. */
MM_FN uint64_t mm_small_size(const struct mm_heap_ref *ref, uint64_t left) {
    const uint64_t word = mm_load_relaxed_u64((uint64_t *)ref->words + mm_deferred_word(left));
    return mm_word_is_dead(word) || mm_word_free(word) >> mm_deferred_bit(left) & 1 ? 0 : ref->classes[mm_deferred_shape(left)].bytes;
}

#endif
