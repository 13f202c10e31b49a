/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reports: requests that got NULL, and misuse of free. All are counted, by kind; the first ones are also written to host memory, and the host prints them.
 *
 * A report is written once, by the thread that drew its number, in host memory. So it survives a kernel that is stopped by its fault, or by us
 * (MM_ON_MISUSE=trap). The number is written last, with release at system scope: a host thread that acquires the number sees the rest. There are
 * MM_REPORTS reports; a thread that draws a later number writes nothing. No thread waits.
 */
#ifndef MM_CORE_REPORT_H
#define MM_CORE_REPORT_H

#include "runtime/core/grow.h"

/* Counts a misuse of free. */
MM_FN void mm_misuse_count(const struct mm_heap_ref *ref, enum mm_misuse kind, uint32_t times) { mm_add_relaxed_u64(&mm_heap_of(ref)->misuse[kind], times); }

/* A misuse: see struct mm_report. */
struct mm_misused {
    enum mm_misuse kind;
    uint64_t address, bytes;
    uint32_t is_of_warp;
    uint64_t made_by, freed_by;
};

/* Reports a misuse that was counted, if it is among the first, and stops the kernel if MM_ON_MISUSE says so. */
MM_FN_RARE void mm_misuse_report(const struct mm_heap_ref *ref, struct mm_misused what) {
    if (ref->on_misuse == MM_ON_MISUSE_IGNORE) return;
    const uint64_t n = ref->mailbox != 0 ? mm_add_relaxed_u64(&mm_heap_of(ref)->reports, 1) : MM_REPORTS;
    if (n < MM_REPORTS) {
        struct mm_report *r = &mm_grow_mailbox(ref)->reports[n];
        r->address = what.address, r->bytes = what.bytes;
        r->kind = (uint32_t)what.kind, r->is_of_warp = what.is_of_warp;
        r->made_by = what.made_by, r->freed_by = what.freed_by, r->grid = mm_grid() + 1;
        mm_thread_id(r->thread, r->block);
        mm_store_release_system_u64(&r->number, n + 1);
    }
    if (ref->on_misuse == MM_ON_MISUSE_TRAP) mm_trap();
}

/* Counts a request that got NULL. */
MM_FN_RARE void mm_null_report(const struct mm_heap_ref *ref, uint64_t bytes) {
    struct mm_heap *h = mm_heap_of(ref);
    if (mm_add_relaxed_u64(&h->null_count, 1) != 0) return;
    mm_store_relaxed_u64(&h->null_first_grid, mm_grid() + 1);
    mm_store_relaxed_u64(&h->null_first_bytes, bytes + 1);
    if (ref->mailbox != 0) mm_store_release_system_u64(&mm_grow_mailbox(ref)->null_bytes, bytes + 1);
}

/* Counts a request that could not be served, except in a checked run, where it may still be served (guarded.h). */
MM_FN_RARE void mm_null_count(const struct mm_heap_ref *ref, uint64_t bytes) {
    if (!mm_is_checked(ref)) mm_null_report(ref, bytes);
}

#endif
