/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The heap checker's part for the list of segments (runtime/check.h): invariants of list.h. */
#ifndef MM_LISTED_CHECK_H
#define MM_LISTED_CHECK_H

/* Segment s, whose first page has this owner. */
MM_FN void mm_list_check_segment(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t s, uint32_t owner) {
    const uint32_t at = *mm_list_index(ref, s);
    for (uint32_t page = s * MM_SEGMENT_PAGES; page < (s + 1) * MM_SEGMENT_PAGES; page++)
        if (*mm_page_owner(ref, page) != owner || owner != MM_LISTED_OWNER) mm_check_fault(k, MM_FAULT_UNITS_OWNER, s, page, *mm_page_owner(ref, page));
    if (at >= mm_list_state(ref)->count || *mm_list_entry(ref, at) != s) mm_check_fault(k, MM_FAULT_UNITS_LIST, s, at, 0);
}

MM_FN_RARE void mm_list_check_rest(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t part, uint32_t parts) {
    struct mm_class_state *of = mm_list_state(ref);
    if (part == 0 && (of->lock | of->coming | of->wanted) != 0) mm_check_fault(k, MM_FAULT_TABLE_LOCK, 0, of->coming, of->wanted);
    for (uint32_t i = part; i < MM_LISTED_PLACES; i += parts)
        if (*mm_list_bringing(ref, 64 * i) != 0) mm_check_fault(k, MM_FAULT_TABLE_LOCK, 0, i, *mm_list_bringing(ref, 64 * i));
    for (uint32_t i = part; i < of->count; i += parts)
        if (*mm_list_entry(ref, i) >= mm_heap_of(ref)->grow.reached || *mm_list_index(ref, mm_list_segment(ref, i)) != i ||
            !mm_list_has(ref, mm_list_segment(ref, i)))
            mm_check_fault(k, MM_FAULT_UNITS_STRAY, i, *mm_list_entry(ref, i), 0);
}

#endif
