/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The heap checker's part for the register-efficient allocators (runtime/check.h): invariants of chunks.h. */
#ifndef MM_REGEFF_CHECK_H
#define MM_REGEFF_CHECK_H

#include "runtime/listed/check.h"

#if MM_REGEFF_FACE >= MM_REGEFF_CIRCULAR
/* The chunks of a segment. Returns the bytes of those that are live, with their headers. */
MM_FN_RARE uint64_t mm_ring_check(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t s) {
    const uint64_t unit = (uint64_t)s * MM_RING_UNITS;
    uint64_t live = 0;
    uint32_t chunks = 0, locks = 0, lives = 0; /* of chunks, and in the words */
    for (uint32_t in = 0; in < MM_RING_UNITS; chunks++) {
        const uint64_t word = *mm_ring_word(ref, unit + in);
        const uint32_t end = mm_ring_header(ref, unit + in)->end;
        const int is_live = mm_ring_is_live(ref, unit + in), is_locked = (word & mm_ring_lock_bit(unit + in)) != 0;
        if (!(word & mm_ring_begin_bit(unit + in)) || end <= in || end > MM_RING_UNITS) {
            mm_check_fault(k, MM_FAULT_CHUNK_END, s, in, end);
            break;
        }
        if (is_live != is_locked) mm_check_fault(k, MM_FAULT_CHUNK_LOCK, s, in, (uint64_t)is_live);
        if (is_live) live += mm_ring_header(ref, unit + in)->units, locks++, lives++;
        if (is_live && mm_ring_header(ref, unit + in)->units > end - in) mm_check_fault(k, MM_FAULT_CHUNK_END, s, in, end);
        in = end;
    }
    for (uint32_t w = 0; w < MM_RING_WORDS; w++) {
        const uint64_t word = *mm_ring_word(ref, unit + w * 32);
        chunks -= mm_popcount(mm_ring_begins(word)), locks -= mm_popcount(mm_ring_locked(word));
        if (w % 2 == 0) lives -= mm_popcount(*mm_ring_live(ref, unit + w * 32));
    }
    if ((chunks | locks | lives) != 0) mm_check_fault(k, MM_FAULT_CHUNK_STRAY, s, chunks, lives);
    return live << MM_RING_UNIT_SHIFT;
}
#else
MM_FN uint64_t mm_ring_check(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t s) { return (void)k, (void)ref, (void)s, 0; }
#endif

/* A segment of the list. */
MM_FN_RARE uint32_t mm_small_check_pages(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t page, uint32_t owner) {
    const uint32_t s = page / MM_SEGMENT_PAGES;
    if (page % MM_SEGMENT_PAGES != 0) return 0;
    mm_list_check_segment(k, ref, s, owner);
    mm_add_relaxed_u64(&k->live_bytes, mm_ring_check(k, ref, s));
    return MM_SEGMENT_PAGES;
}

MM_FN void mm_small_check_rest(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t part, uint32_t parts) { mm_list_check_rest(k, ref, part, parts); }

#endif
