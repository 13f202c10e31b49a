/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The search of a checked run through the whole heap: live allocations, by size class and by the kernel that allocated them; writes past their end; and
 * writes after free to allocations in quarantine (runtime/checked/guard.h).
 */
#ifndef MM_HOST_LEAKS_H
#define MM_HOST_LEAKS_H

#include "runtime/host/snapshot.h"

/* The leaks of one kernel and one size class. */
struct mm_leak {
    const char *kernel;    /* mm_kernels_name */
    uint32_t class_;       /* of the requested size without MM_CHECK; MM_CLASS_COUNT: a span or run; MM_LEAK_LOST: unknown */
    uint64_t count, bytes; /* requested bytes; if the class is unknown, the most that were possible */
};
#define MM_LEAK_LOST (MM_CLASS_COUNT + 1)

struct mm_leaks {
    struct mm_leak *leak; /* largest first */
    size_t leak_count;
    uint64_t count, bytes;             /* sums over all leaks */
    uint64_t kept[MM_CLASS_COUNT + 1]; /* allocations in quarantine, by the class of their slices; the last: spans and runs */
    uint64_t overrun_count, after_free_count;
    struct mm_report found[MM_REPORTS]; /* the first overruns and writes after free */
};

/* Searches a heap that has a guard. Its context is current, and no kernel runs there. Copies live memory to the host, one segment at a time. On success
 * the caller calls mm_leaks_drop. */
bool mm_leaks_try_find(const struct mm_driver *d, const struct mm_host_heap *heap, const struct mm_snapshot *snapshot, struct mm_leaks *leaks,
                       struct mm_driver_error *error);
void mm_leaks_drop(struct mm_leaks *leaks);

#endif
