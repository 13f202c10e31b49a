/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "runtime/host/snapshot.h"

#include <sys/mman.h>

#include "runtime/core/segment.h"
#include "runtime/host/copy.h"

/* Segments up to the last one that is mapped. */
static uint64_t reach_of(struct mm_host_heap *h) {
    pthread_mutex_lock(&h->lock);
    const uint64_t reach = h->chunks.count ? mm_chunks_end(&h->chunks) : h->chunks.mapped_count;
    pthread_mutex_unlock(&h->lock);
    return reach;
}

bool mm_snapshot_try_take(const struct mm_driver *d, struct mm_host_heap *h, struct mm_snapshot *s, struct mm_driver_error *error) {
    const struct mm_layout *l = &h->layout;
    const uint64_t reach = reach_of(h), base = h->ref.heap;
    char *copy = (char *)mmap(NULL, l->total_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (copy == MAP_FAILED) {
        error->call = "mmap";
        error->code = CUDA_ERROR_OUT_OF_MEMORY;
        return false;
    }
    const uint64_t at = (uint64_t)(uintptr_t)copy;
    s->bytes = l->total_bytes;
    s->segment_count = (uint32_t)reach;
    bool done = mm_copy_try_from_device(d, copy, base, mm_layout_fresh_bytes(l, reach), error);
    s->ref = ((struct mm_heap *)copy)->ref;
    s->ref.heap = at;
    s->ref.segments = at + l->segments, s->ref.blocks = at + l->fixed_bytes, s->ref.bits = at + l->bits_offset, s->ref.rings = at + l->rings;
    s->ref.free_tree = at + l->free_tree, s->ref.class_trees = at + l->class_trees;
    s->ref.mailbox = 0;
    uint32_t first = s->segment_count, end = 0; /* of a class: the others' slice bits say nothing */
    for (uint32_t i = 0; done && i < s->segment_count; i++)
        if (MM_OWNER_KIND(mm_segment_at(&s->ref, i)->owner) - 1 < MM_CLASS_COUNT) first = first < i ? first : i, end = i + 1;
    if (done && first < end) {
        const uint64_t from = l->bits_offset + first * MM_SEGMENT_BITMAP_BYTES;
        done = mm_copy_try_from_device(d, copy + from, base + from, (end - first) * MM_SEGMENT_BITMAP_BYTES, error);
    }
    if (!done) mm_snapshot_drop(s);
    return done;
}

void mm_snapshot_drop(struct mm_snapshot *s) { munmap((void *)(uintptr_t)s->ref.heap, s->bytes); }
