/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Statistics of a heap, read by a walk (runtime/usage.h) over a copy of the metadata that the allocator keeps anyway. So malloc and free count
 * nothing for them. Unknown values are marked as such, not estimated.
 *
 * Fragmentation of a heap at rest. Internal: 1 - requested bytes / granted bytes, of live objects. External: 1 - largest request that free segments can
 * serve / bytes of free segments. Both definitions are those of published comparisons (Steinberger et al., "ScatterAlloc", InPar 2012; Vinkler & Havran,
 * "Register Efficient Dynamic Memory Allocator for GPUs", CGF 34(8), 2015).
 */
#ifndef MM_HOST_STATS_H
#define MM_HOST_STATS_H

#include <stdio.h>

#include "runtime/usage.h"
#include "runtime/host/counts.h"
#include "runtime/host/env.h"
#include "runtime/host/leaks.h"

struct mm_host_stats {
    CUdevice device;
    const char *allocator; /* its name */
    bool is_default;       /* it is the default allocator */
    struct mm_host_counts counts;
    struct mm_usage usage;
    uint64_t peak_heap_bytes;
    uint64_t spare_segments;         /* mapped segments that the device cannot use yet, or that were changing hands */
    uint64_t live_count, live_bytes; /* objects; their granted bytes */
    bool has_live_count;             /* live_count is known: it is not if the allocator does not count its objects */
    uint64_t held_bytes;             /* bytes of small objects' pages without a live object. Only such objects, or those of one class, can use them */
    uint64_t growth_count, given_back_bytes;
    uint64_t wait_count, waited_ns; /* waits for growth, and the sum of their times */
    bool has_asked;                 /* a checked run: asked_bytes is known, and allocations in quarantine are not counted as live */
    uint64_t asked_bytes;           /* requested bytes of live objects */
    char null_first_kernel[200];    /* empty: unknown */
};

/* Takes the statistics of a heap that is not absent. Its context is current. Waits for no kernel: see snapshot.h. leaks: NULL, or receives the findings of a
 * checked run, for which the caller calls mm_leaks_drop. */
bool mm_stats_try_take(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_host_stats *stats, struct mm_leaks *leaks,
                       struct mm_driver_error *error);

/* Fragmentation, 0 to 1; less than 0: unknown. */
double mm_stats_internal(const struct mm_host_stats *stats);
double mm_stats_external(const struct mm_host_stats *stats);

/* The header row of CSV: of heaps and of pools, which may share a file. */
#define MM_STATS_CSV_HEADER "process,device,class,name,value\n"

/* Appends one heap's statistics to `out`: lines of text, one line of JSON (docs/statistics.schema.json), or rows of CSV. is_first: begin CSV with the
 * header row. */
void mm_stats_write(const struct mm_host_stats *stats, enum mm_stats_form form, bool is_first, FILE *out);

#endif
