/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What free of allocators of listed segments has in common. */
#ifndef MM_LISTED_FREE_H
#define MM_LISTED_FREE_H

#include "runtime/core/report.h"
#include "runtime/listed/list.h"

/* Finds what p is, in a heap of so many bytes. Returns MM_DEFERRED_SLICE and the byte offset if it is in a segment of the list and `begin` bytes behind a
 * multiple of unit_bytes, where allocations begin; else what is left to do (core/handles.h). */
MM_FN uint64_t mm_listed_locate(const struct mm_heap_ref *ref, const void *p, uint64_t bytes, uint32_t unit_bytes, uint32_t begin) {
    const uint64_t off = (uint64_t)p - ref->user_base;
    if (!MM_LIKELY(off < bytes)) return p == NULL ? 0 : mm_deferred_foreign((uint64_t)p);
    if (!MM_LIKELY(mm_load_relaxed_u8(mm_page_owner(ref, (uint32_t)(off >> MM_PAGE_SHIFT))) == MM_LISTED_OWNER)) return mm_deferred_odd(0, off);
    if (!MM_LIKELY(off % unit_bytes == begin)) return mm_deferred_odd(MM_MISUSE_INTERIOR, off);
    return MM_DEFERRED_SLICE | off;
}

/* Memory was free already: counts and reports that. Its length is not known any more. */
MM_FN_RARE void mm_listed_twice(const struct mm_heap_ref *ref, uint64_t address) {
    const struct mm_misused what = {MM_MISUSE_DOUBLE_FREE, address, 0, 0, 0, 0};
    mm_misuse_count(ref, what.kind, 1);
    mm_misuse_report(ref, what);
}

#endif
