/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The heap checker's part for units (runtime/check.h): invariants of units.h. */
#ifndef MM_WALK_CHECK_H
#define MM_WALK_CHECK_H

#include "runtime/listed/check.h"

/* A segment of the list. */
MM_FN_RARE uint32_t mm_small_check_pages(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t page, uint32_t owner) {
    const uint32_t s = page / MM_SEGMENT_PAGES;
    uint64_t live = 0;
    if (page % MM_SEGMENT_PAGES != 0) return 0;
    mm_list_check_segment(k, ref, s, owner);
    for (uint32_t w = s * MM_WALK_WORDS; w < (s + 1) * MM_WALK_WORDS; w++) {
        const uint64_t word = *mm_units_word(ref, w), next = (w + 1) % MM_WALK_WORDS != 0 ? *mm_units_word(ref, w + 1) : 0;
        const uint32_t taken = mm_units_taken(word), continues = mm_units_continue(word), after = taken >> 1 | mm_units_taken(next) << 31;
        if (continues & ~(taken & after)) mm_check_fault(k, MM_FAULT_UNITS_WORD, s, w % MM_WALK_WORDS, continues & ~(taken & after));
        live += mm_popcount(taken);
    }
    mm_add_relaxed_u64(&k->live_bytes, live << MM_WALK_UNIT_SHIFT);
    return MM_SEGMENT_PAGES;
}

MM_FN void mm_small_check_rest(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t part, uint32_t parts) { mm_list_check_rest(k, ref, part, parts); }

#endif
