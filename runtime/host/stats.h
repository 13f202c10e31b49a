/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Statistics of a heap: what the allocator keeps anyway, read by a walk (runtime/gallatin/usage.h) over a copy of its metadata, so that
 * malloc and free count nothing for them. What is not known is not guessed.
 *
 * Fragmentation. Internal: 1 - bytes asked for / bytes granted, of live objects; external: 1 - largest request that free segments can
 * serve / bytes of free segments. Both are those of the field's comparisons (Steinberger et al., "ScatterAlloc", InPar 2012; Vinkler &
 * Havran, "Register Efficient Dynamic Memory Allocator for GPUs", CGF 34(8), 2015), for a heap at rest.
 */
#ifndef MM_HOST_STATS_H
#define MM_HOST_STATS_H

#include <stdio.h>

#include "runtime/gallatin/usage.h"
#include "runtime/host/leaks.h"

struct mm_host_stats {
    CUdevice device;
    struct mm_host_counts counts;
    struct mm_usage usage;
    uint64_t peak_heap_bytes;
    uint64_t spare_segments; /* mapped, and not yet the heap's, or on their way */
    uint64_t live_count, live_bytes; /* objects; as granted */
    uint64_t held_bytes; /* of blocks, free: for objects of their class, until a block is free as a whole */
    uint64_t growth_count, given_back_bytes;
    uint64_t wait_count, waited_ns; /* for growth, of all callers together */
    bool has_asked; /* a checked run: what is in quarantine does not count as live */
    uint64_t asked_bytes; /* of live objects */
    char null_first_kernel[200]; /* empty: not known */
};

/* The heap is not absent, and its context is current. Waits for no kernel: see snapshot.h. leaks: NULL, or what is found in a
 * checked run, which the caller drops. */
bool mm_stats_try_take(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_host_stats *stats, struct mm_leaks *leaks,
                       struct mm_driver_error *error);

/* Shares, 0 to 1; less than 0: not known. */
double mm_stats_internal(const struct mm_host_stats *stats);
double mm_stats_external(const struct mm_host_stats *stats);

enum mm_stats_form { MM_STATS_NONE, MM_STATS_TEXT, MM_STATS_JSON, MM_STATS_CSV };

/* Appends one heap's statistics to `out`: lines of text, one line of JSON (docs/statistics.schema.json), or rows of CSV. is_first: with the
 * row that names the columns. */
void mm_stats_write(const struct mm_host_stats *stats, enum mm_stats_form form, bool is_first, FILE *out);

#endif
