/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap's memory, and the events that kernels counted. */
#ifndef MM_HOST_COUNTS_H
#define MM_HOST_COUNTS_H

#include "runtime/core/layout.h"
#include "runtime/host/driver.h"

struct mm_host_heap;

struct mm_host_counts {
    uint64_t heap_bytes, metadata_bytes, reserved_bytes;    /* mapped segments; mapped metadata; reserved addresses */
    uint64_t null_count, null_first_bytes, null_first_grid; /* null_first_grid: launch number + 1; 0: unknown */
    uint64_t misuse[MM_MISUSE_KINDS];
};

/* The heap is not absent. Waits for no kernel. */
bool mm_counts_try_take(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_host_counts *counts, struct mm_driver_error *error);

/* Fills only the members that kernels count. Does not take the heap's lock, which is held during driver calls for memory. */
bool mm_counts_try_events(const struct mm_driver *d, const struct mm_host_heap *heap, struct mm_host_counts *counts, struct mm_driver_error *error);

#endif
