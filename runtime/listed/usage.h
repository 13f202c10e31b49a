/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The usage walk's part for the list of segments (runtime/usage.h). An allocator provides, before this file is included, mm_listed_usage(ref, s, usage), which
 * adds the objects in segment s of the list. */
#ifndef MM_LISTED_USAGE_H
#define MM_LISTED_USAGE_H

MM_FN_RARE uint32_t mm_small_usage(const struct mm_heap_ref *ref, uint32_t page, uint32_t owner, struct mm_usage *usage) {
    if (page % MM_SEGMENT_PAGES != 0 || owner != MM_LISTED_OWNER) return 0;
    usage->small_pages += MM_SEGMENT_PAGES;
    mm_listed_usage(ref, page / MM_SEGMENT_PAGES, usage);
    return MM_SEGMENT_PAGES;
}

#endif
