/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/stats.h"

#include <string.h>

#include "runtime/host/kernels.h"
#include "runtime/host/snapshot.h"
#include "runtime/host/state.h"

/* Subtracts the allocations in quarantine, which are live for the allocator only. */
static void take_out_quarantine(struct mm_host_stats *stats, const struct mm_leaks *leaks) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint64_t bytes = leaks->kept[c] * mm_class_bytes(c);
        stats->usage.classes[c].live -= leaks->kept[c], stats->usage.classes[c].bytes -= bytes, stats->usage.small_bytes -= bytes;
    }
    stats->has_asked = true;
    stats->asked_bytes = leaks->bytes;
}

/* Events are counted after the walk. So the counts of misuse and NULLs contain all events whose effects the walk has seen, and perhaps some more. */
bool mm_stats_try_take(const struct mm_driver *d, struct mm_host_heap *h, struct mm_host_stats *stats, struct mm_leaks *leaks, struct mm_driver_error *error) {
#define NAME(name, suffix) name,
    static const char *const names[] = {MM_ALLOCATORS(NAME)};
    struct mm_snapshot s;
    struct mm_leaks found;
    if (!mm_snapshot_try_take(d, h, &s, error)) return false;
    memset(stats, 0, sizeof *stats);
    stats->device = h->device;
    stats->allocator = h->sibling ? h->sibling : names[0], stats->is_default = !h->sibling;
    s.walk(&s.ref, 0, s.segment_count, &stats->usage);
    const struct mm_grow *grow = &mm_heap_of(&s.ref)->grow;
    stats->wait_count = grow->waits, stats->waited_ns = grow->waited_ns;
    bool done = true;
    if (h->guard) {
        done = mm_leaks_try_find(d, h, &s, leaks ? leaks : &found, error);
        if (done) take_out_quarantine(stats, leaks ? leaks : &found);
        if (done && !leaks) mm_leaks_drop(&found);
    }
    mm_snapshot_drop(&s);
    if (!done || !mm_counts_try_take(d, h, &stats->counts, error)) return false;
    const char *kernel = mm_kernels_name(h->kernels, stats->counts.null_first_grid);
    if (strcmp(kernel, MM_KERNEL_NOT_KNOWN) != 0) snprintf(stats->null_first_kernel, sizeof stats->null_first_kernel, "%s", kernel);
    pthread_mutex_lock(&h->lock);
    stats->peak_heap_bytes = h->chunks.peak_count * MM_SEGMENT_BYTES;
    stats->growth_count = h->steps, stats->given_back_bytes = h->given_back_bytes;
    pthread_mutex_unlock(&h->lock);
    const struct mm_usage *u = &stats->usage;
    const uint64_t seen = u->free_segments + u->paged_segments + u->run_segments, mapped = stats->counts.heap_bytes / MM_SEGMENT_BYTES;
    stats->spare_segments = mapped > seen ? mapped - seen : 0;
    for (uint32_t c = 0; c < MM_USAGE_CLASSES; c++) stats->live_count += u->classes[c].live;
    stats->has_live_count = u->uncounted_pages == 0;
    stats->held_bytes = u->small_pages * MM_PAGE_BYTES - u->small_bytes;
    stats->live_count += u->spans + u->runs;
    stats->live_bytes = u->small_bytes + u->span_pages * MM_PAGE_BYTES + u->run_segments * MM_SEGMENT_BYTES;
    return true;
}

double mm_stats_internal(const struct mm_host_stats *s) {
    if (!s->has_asked) return -1;
    return s->live_bytes ? 1 - (double)s->asked_bytes / (double)s->live_bytes : 0;
}

double mm_stats_external(const struct mm_host_stats *s) {
    return s->usage.free_segments ? 1 - (double)s->usage.largest_free / (double)s->usage.free_segments : 0;
}
