/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A copy of a heap's metadata in this process, over which the allocator's own walks (runtime/gallatin/usage.h) run as they are.
 *
 * Of words (layout.h) there are those of pages that are given away one by one; of indexes and tables nothing. Beside kernels that allocate,
 * parts of it are of different moments: what is counted in it is then near the truth, and nothing in it leads out of the copy. Of a heap in which no kernel is at work it is exact.
 */
#ifndef MM_HOST_SNAPSHOT_H
#define MM_HOST_SNAPSHOT_H

#include "runtime/host/heap.h"

struct mm_snapshot {
    struct mm_heap_ref ref;   /* leads into the copy; user_base is the device's */
    uint32_t segment_count;   /* looked at: up to the last that is mapped */
    uint64_t bytes;
};

/* The heap is not absent, and its context is current. Waits for no kernel. */
bool mm_snapshot_try_take(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_snapshot *snapshot,
                          struct mm_driver_error *error);
void mm_snapshot_drop(struct mm_snapshot *snapshot);

#endif
