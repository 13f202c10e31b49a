/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The heap checker's part for units (runtime/check.h): invariants of units.h and list.h. */
#ifndef MM_WALK_CHECK_H
#define MM_WALK_CHECK_H

/* A segment of the list. */
MM_FN_RARE uint32_t mm_small_check_pages(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t page, uint32_t owner) {
    const uint32_t s = page / MM_SEGMENT_PAGES, at = *mm_walk_index(ref, s);
    uint64_t live = 0;
    if (page % MM_SEGMENT_PAGES != 0) return 0;
    for (uint32_t i = 0; i < MM_SEGMENT_PAGES; i++)
        if (*mm_page_owner(ref, page + i) != owner || owner != MM_WALK_OWNER)
            mm_check_fault(k, MM_FAULT_UNITS_OWNER, s, page + i, *mm_page_owner(ref, page + i));
    if (at >= mm_walk_state(ref)->count || mm_walk_list(ref)[at] != s) mm_check_fault(k, MM_FAULT_UNITS_LIST, s, at, 0);
    for (uint32_t w = s * MM_WALK_WORDS; w < (s + 1) * MM_WALK_WORDS; w++) {
        const uint64_t word = *mm_units_word(ref, w), next = (w + 1) % MM_WALK_WORDS != 0 ? *mm_units_word(ref, w + 1) : 0;
        const uint32_t taken = mm_units_taken(word), continues = mm_units_continue(word), after = taken >> 1 | mm_units_taken(next) << 31;
        if (continues & ~(taken & after)) mm_check_fault(k, MM_FAULT_UNITS_WORD, s, w % MM_WALK_WORDS, continues & ~(taken & after));
        live += mm_popcount(taken);
    }
    mm_add_relaxed_u64(&k->live_bytes, live << MM_WALK_UNIT_SHIFT);
    return MM_SEGMENT_PAGES;
}

MM_FN_RARE void mm_small_check_rest(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t part, uint32_t parts) {
    struct mm_class_state *of = mm_walk_state(ref);
    if (part == 0 && of->lock != 0) mm_check_fault(k, MM_FAULT_TABLE_LOCK, 0, 0, 0);
    for (uint32_t i = part; i < of->count; i += parts)
        if (mm_walk_list(ref)[i] >= mm_heap_of(ref)->grow.reached || *mm_walk_index(ref, mm_walk_segment(ref, i)) != i ||
            !mm_walk_has(ref, mm_walk_segment(ref, i)))
            mm_check_fault(k, MM_FAULT_UNITS_STRAY, i, mm_walk_list(ref)[i], 0);
}

#endif
