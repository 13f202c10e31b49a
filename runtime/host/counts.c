/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/counts.h"

#include <string.h>

#include "runtime/host/copy.h"
#include "runtime/host/state.h"

bool mm_counts_try_events(const struct mm_driver *d, const struct mm_host_heap *h, struct mm_host_counts *counts, struct mm_driver_error *error) {
    struct mm_heap head;
    const size_t from = offsetof(struct mm_heap, null_count), end = offsetof(struct mm_heap, free_count);
    if (!mm_copy_try_from_device(d, (char *)&head + from, h->ref.heap + from, end - from, error)) return false;
    counts->null_count = head.null_count;
    counts->null_first_grid = head.null_first_grid;
    counts->null_first_bytes = head.null_first_bytes ? head.null_first_bytes - 1 : 0; /* the device writes it after the count, so it may still be 0 */
    memcpy(counts->misuse, head.misuse, sizeof counts->misuse);
    return true;
}

bool mm_counts_try_take(const struct mm_driver *d, struct mm_host_heap *h, struct mm_host_counts *counts, struct mm_driver_error *error) {
    pthread_mutex_lock(&h->lock);
    const struct mm_host_chunks *c = &h->chunks;
    counts->heap_bytes = c->mapped_count * MM_SEGMENT_BYTES;
    counts->metadata_bytes = mm_chunks_metadata_bytes(c);
    counts->reserved_bytes = h->user.bytes + h->metadata.bytes;
    if (!h->user.bytes) { /* a FIXED or EMPTY heap: allocations, not mappings */
        counts->metadata_bytes = h->layout.total_bytes;
        counts->reserved_bytes = counts->heap_bytes + counts->metadata_bytes;
    }
    pthread_mutex_unlock(&h->lock);
    return mm_counts_try_events(d, h, counts, error);
}
