/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A copy of a heap's metadata in host memory. The allocator's walks (runtime/usage.h) run on it unchanged.
 *
 * It contains the words (layout.h) from the first to the last segment that is used page by page, and no tables; of other allocators than the default also the
 * word that mm_bump_word is in. While kernels allocate, its parts are of different moments: counts are approximate then, and no reference leads out of the copy.
 * If no kernel allocates or frees, it is exact.
 */
#ifndef MM_HOST_SNAPSHOT_H
#define MM_HOST_SNAPSHOT_H

#include "runtime/core/layout.h"
#include "runtime/host/driver.h"
#include "runtime/host/usage.h"

struct mm_host_heap;

struct mm_snapshot {
    struct mm_heap_ref ref; /* with addresses in the copy; user_base is the device's */
    uint32_t segment_count; /* segments up to the last mapped one */
    void *copy;
    uint64_t bytes;
    mm_usage_walk_fn *walk; /* for the heap's allocator */
};

/* The heap is not absent, and its context is current. Waits for no kernel. */
bool mm_snapshot_try_take(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_snapshot *snapshot, struct mm_driver_error *error);
void mm_snapshot_drop(struct mm_snapshot *snapshot);

#endif
