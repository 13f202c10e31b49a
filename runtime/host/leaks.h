/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a checked run finds when it looks at all there is: live allocations, by size class and by the kernel that made them; writes past
 * their end; writes after free to what is in quarantine (runtime/checked/guard.h).
 */
#ifndef MM_HOST_LEAKS_H
#define MM_HOST_LEAKS_H

#include "runtime/host/snapshot.h"

/* Of one kernel and one size class. */
struct mm_leak {
    const char *kernel; /* mm_kernels_name */
    uint32_t class_;    /* that the bytes asked for have without MM_CHECK; MM_CLASS_COUNT: a span or run; more: not known */
    uint64_t count, bytes; /* as asked for */
};
#define MM_LEAK_LOST (MM_CLASS_COUNT + 1)

struct mm_leaks {
    struct mm_leak *leak; /* largest first */
    size_t leak_count;
    uint64_t count, bytes;   /* of all */
    uint64_t kept[MM_CLASS_COUNT + 1]; /* in quarantine, by the class that they take; the last: spans and runs */
    uint64_t overrun_count, after_free_count;
    struct mm_report found[MM_REPORTS]; /* the first of those */
};

/* Of a heap with a guard; its context is current, and nothing runs there. Copies what is live to the host, piece by piece. */
bool mm_leaks_try_find(const struct mm_driver *d, const struct mm_host_heap *heap, const struct mm_snapshot *snapshot, struct mm_leaks *leaks,
                       struct mm_driver_error *error);
void mm_leaks_drop(struct mm_leaks *leaks);

#endif
