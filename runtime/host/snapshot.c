/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "runtime/host/snapshot.h"

#include <sys/mman.h>

#include "runtime/core/image.h"
#include "runtime/core/segment.h"
#include "runtime/host/copy.h"
#include "runtime/host/min.h"
#include "runtime/host/state.h"

/* The number of segments up to the last mapped one. */
static uint64_t reach_of(struct mm_host_heap *h) {
    pthread_mutex_lock(&h->lock);
    const uint64_t reach = h->chunks.count ? mm_chunks_end(&h->chunks) : h->chunks.mapped_count;
    pthread_mutex_unlock(&h->lock);
    return reach;
}

bool mm_snapshot_try_take(const struct mm_driver *d, struct mm_host_heap *h, struct mm_snapshot *s, struct mm_driver_error *error) {
    const struct mm_layout *l = &h->layout;
    const uint64_t base = h->ref.heap - l->heap;
    char *copy = (char *)mmap(NULL, l->total_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED) return mm_driver_failed(error, "mmap", CUDA_ERROR_OUT_OF_MEMORY);
    s->copy = copy, s->bytes = l->total_bytes;
    s->walk = mm_usage_walk_of(h->sibling);
    /* The header first: not all that the host has mapped is known to the device, which zeroes what describes a segment before the header says that it is there. */
    bool done = mm_copy_try_from_device(d, copy + l->heap, base + l->heap, l->directory - l->heap, error);
    const uint64_t reach = min_u64(reach_of(h), ((struct mm_heap *)(void *)(copy + l->heap))->grow.reached), bytes = reach * sizeof(struct mm_segment);
    s->segment_count = (uint32_t)reach;
    if (done && reach != 0)
        done = mm_copy_try_from_device(d, copy + l->heap - bytes, base + l->heap - bytes, bytes, error) &&
               mm_copy_try_from_device(d, copy + l->owners, base + l->owners, reach * MM_SEGMENT_PAGES, error);
    s->ref = h->ref;
    mm_heap_ref_place(&s->ref, l, (uint64_t)(uintptr_t)copy);
    s->ref.mailbox = 0;
    uint32_t first = s->segment_count, end = 0; /* words of other segments mean nothing */
    for (uint32_t i = 0; done && i < s->segment_count; i++)
        if (mm_segment_is_owned(&s->ref, i)) first = first < i ? first : i, end = i + 1;
    if (done && first < end) {
        const uint64_t from = l->words + first * l->words_each;
        done = mm_copy_try_from_device(d, copy + from, base + from, (end - first) * l->words_each, error);
    }
    if (done && h->sibling && first < end) done = mm_copy_try_from_device(d, copy + l->made, base + l->made, sizeof(uint64_t), error);
    if (!done) mm_snapshot_drop(s);
    return done;
}

void mm_snapshot_drop(struct mm_snapshot *s) { munmap(s->copy, s->bytes); }
