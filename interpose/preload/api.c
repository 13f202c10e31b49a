/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The host functions of mm.h. Programs reach them through mmhook.o or their own dlsym. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "interpose/preload/attach.h"
#include "interpose/preload/resolve.h"
#include "runtime/host/heap.h"
#include "runtime/host/stats.h"

#define EXPORT __attribute__((visibility("default")))

/* Adds a heap's counts to those of the heaps before it. */
static bool try_count(const struct mm_driver *d, struct mm_host_heap *heap, void *counts, struct mm_driver_error *error) {
    struct mm_host_counts n, *const sum = (struct mm_host_counts *)counts;
    if (!mm_counts_try_take(d, heap, &n, error)) return false;
    sum->heap_bytes += n.heap_bytes, sum->metadata_bytes += n.metadata_bytes, sum->reserved_bytes += n.reserved_bytes;
    if (sum->null_count == 0) sum->null_first_bytes = n.null_first_bytes;
    sum->null_count += n.null_count;
    for (int kind = 0; kind < MM_MISUSE_KINDS; kind++) sum->misuse[kind] += n.misuse[kind];
    return true;
}

/* Copies a struct to a caller whose version of it has to_bytes bytes. Members that only a later version has become 0. */
static void copy_known(void *to, size_t to_bytes, const void *from, size_t from_bytes) {
    memset(to, 0, to_bytes);
    memcpy(to, from, to_bytes < from_bytes ? to_bytes : from_bytes);
}

EXPORT int mm_get_statistics(struct mm_statistics *s) {
    struct mm_host_counts n = {0};
    if (!s || s->struct_bytes < offsetof(struct mm_statistics, misuse_overrun)) return MM_ERROR_ARGUMENT; /* the length in the first version, the shortest */
    const enum mm_result result = mm_attach_with_heaps(mm_driver_get(), try_count, &n);
    if (result != MM_OK) return result;
    const struct mm_statistics found = {
        s->struct_bytes,
        n.heap_bytes,
        n.metadata_bytes,
        n.reserved_bytes,
        n.null_count,
        n.null_first_bytes,
        n.misuse[MM_MISUSE_FOREIGN],
        n.misuse[MM_MISUSE_NOT_ALLOCATED],
        n.misuse[MM_MISUSE_INTERIOR],
        n.misuse[MM_MISUSE_NEVER],
        n.misuse[MM_MISUSE_DOUBLE_FREE],
        n.misuse[MM_MISUSE_OVERRUN],
        n.misuse[MM_MISUSE_AFTER_FREE],
    };
    copy_known(s, s->struct_bytes, &found, sizeof found);
    return MM_OK;
}

struct usage {
    struct mm_host_stats stats;
    bool has; /* stats are those of a heap */
};

static bool try_take(const struct mm_driver *d, struct mm_host_heap *heap, void *argument, struct mm_driver_error *error) {
    struct usage *const u = (struct usage *)argument;
    if (u->has && mm_host_heap_sibling(heap)) return true; /* the default's goes before, and then the first one */
    u->has = true;
    return mm_stats_try_take(d, heap, &u->stats, NULL, error);
}

_Static_assert(MM_USAGE_CLASSES <= MM_SIZE_CLASSES_MAX, "mm.h has room for all");

EXPORT int mm_get_usage(struct mm_usage_statistics *usage) {
    struct usage own = {.has = false};
    struct mm_usage_statistics found = {0};
    /* the length in the first version, the shortest */
    if (!usage || usage->struct_bytes < offsetof(struct mm_usage_statistics, classes) + sizeof usage->classes) return MM_ERROR_ARGUMENT;
    const enum mm_result result = mm_attach_with_heaps(mm_driver_get(), try_take, &own);
    if (result != MM_OK) return result;
    const struct mm_host_stats n = own.stats;
    found.struct_bytes = usage->struct_bytes;
    found.heap_bytes = n.counts.heap_bytes, found.peak_heap_bytes = n.peak_heap_bytes;
    found.segment_bytes = MM_SEGMENT_BYTES, found.page_bytes = MM_PAGE_BYTES;
    found.paged_segments = n.usage.paged_segments, found.run_segments = n.usage.run_segments, found.free_segments = n.usage.free_segments;
    found.spare_segments = n.spare_segments, found.largest_free_segments = n.usage.largest_free;
    found.class_pages = n.usage.small_pages, found.span_pages = n.usage.span_pages, found.free_pages = n.usage.free_pages, found.spans = n.usage.spans,
    found.runs = n.usage.runs;
    found.live_objects = n.has_live_count ? n.live_count : MM_NOT_COUNTED, found.live_bytes = n.live_bytes, found.held_bytes = n.held_bytes;
    found.asked_bytes = n.has_asked ? n.asked_bytes : MM_NOT_COUNTED;
    found.growth_count = n.growth_count, found.wait_count = n.wait_count, found.waited_ns = n.waited_ns;
    found.given_back_bytes = n.given_back_bytes;
    found.internal_fragmentation = mm_stats_internal(&n), found.external_fragmentation = mm_stats_external(&n);
    for (uint32_t c = 0; c < MM_USAGE_CLASSES; c++) {
        const struct mm_class_usage *k = &n.usage.classes[c];
        const struct mm_size_class row = {mm_class_bytes(c), k->live, k->bytes, k->pages, k->blocks, k->free_blocks};
        if (k->pages || k->live) found.classes[found.class_count++] = row;
    }
    snprintf(found.allocator, sizeof found.allocator, "%s", n.allocator);
    copy_known(usage, usage->struct_bytes, &found, sizeof found);
    return MM_OK;
}

static bool try_reset(const struct mm_driver *d, struct mm_host_heap *heap, void *nothing, struct mm_driver_error *error) {
    (void)nothing;
    return mm_host_heap_try_reset(d, heap, error);
}

EXPORT int mm_reset(void) {
    const struct mm_driver *d = mm_driver_get();
    CUcontext context = NULL;
    if (!d || d->cuCtxGetCurrent(&context) != CUDA_SUCCESS) return d ? MM_ERROR_CUDA : MM_ERROR_NO_HEAP;
    if (!mm_attach_has_heap(context)) return MM_ERROR_NO_HEAP;
    if (!mm_attach_try_synchronize(d, context)) return MM_ERROR_CUDA; /* not under the lock: kernels may wait for memory */
    return mm_attach_with_heaps(d, try_reset, NULL);
}
