/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* madvise */
#include "runtime/host/events.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES (2ull << 20)

/* The live allocations, by address: open addressing, linear probing. An address stays in the table when it is freed. */
struct live_entry {
    uint64_t address, mark; /* the malloc's mark (events.h), plus 1; 0: freed */
};
struct live {
    struct live_entry *entries;
    uint64_t mask;
};

static uint64_t place_of(uint64_t address) { return (address >> MM_ALIGN_SHIFT) * 0x9e3779b97f4a7c15ull >> 20; }

/* `count` (a power of two) empty entries, in large pages of the host if it can, since most look-ups meet another page. NULL: no memory. */
static struct live_entry *entries_new(uint64_t count) {
    const size_t bytes = count * sizeof(struct live_entry);
    struct live_entry *const entries = (struct live_entry *)(bytes < HUGE_BYTES ? malloc(bytes) : aligned_alloc(HUGE_BYTES, bytes));
    if (!entries) return NULL;
    if (bytes >= HUGE_BYTES) madvise(entries, bytes, MADV_HUGEPAGE);
    return (struct live_entry *)memset(entries, 0, bytes);
}

static struct live_entry *entry_of(const struct live *l, uint64_t address) {
    uint64_t i = place_of(address);
    while (l->entries[i & l->mask].address && l->entries[i & l->mask].address != address) i++;
    return &l->entries[i & l->mask];
}

/* The distance of two launch numbers, of which MM_GRID_BITS bits are known. */
static int32_t distance(uint32_t grid, uint32_t from) {
    const uint32_t unused = 32 - MM_GRID_BITS;
    return (int32_t)((grid - from) << unused) >> unused;
}

static int ascending(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Whether it is complete, and of a launch. */
static bool has_launch(const struct mm_trace_event *e) { return e->what != 0 && !mm_event_is_reset(e); }

/* The launch of the first such event. */
static uint32_t first_grid(const struct mm_trace_event *events, uint64_t count) {
    while (count > 1 && !has_launch(events)) events++, count--;
    return count ? mm_event_grid(events) : 0;
}

/* Writes the launches' distances from the first one to `launches`, in ascending order; returns their number. */
static uint64_t launches_of(const struct mm_trace_event *events, uint64_t count, uint32_t first, int32_t *launches) {
    uint64_t seen = 0, kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!has_launch(&events[i])) continue;
        const int32_t at = distance(mm_event_grid(&events[i]), first);
        if (seen == 0 || launches[seen - 1] != at) launches[seen++] = at;
    }
    qsort(launches, seen, sizeof *launches, ascending);
    for (uint64_t i = 0; i < seen; i++)
        if (kept == 0 || launches[kept - 1] != launches[i]) launches[kept++] = launches[i];
    return kept;
}

/* The number of the launch at this distance from the first: its place among the launches. */
static uint64_t launch_of(const int32_t *launches, uint64_t launch_count, int32_t at) {
    const int32_t *const found = (const int32_t *)bsearch(&at, launches, launch_count, sizeof *launches, ascending);
    return (uint64_t)(found - launches);
}

/* Most of a large trace's time is misses of the cache in the table: it has the entries of later events fetched. No function: gcc takes one for one without effect. */
#define AHEAD 24

/* Whether it counts; *entry receives the entry of its allocation, NULL for a request that got none. */
static bool take(const struct live *l, const struct mm_trace_event *e, struct mm_trace_sum *sum, struct live_entry **entry) {
    *entry = NULL;
    if (mm_event_is_free(e)) {
        *entry = entry_of(l, e->address);
        if (!(*entry)->mark) return sum->left_out++, false;
        return sum->frees++, true;
    }
    if ((e->what & 0xff) != MM_TRACE_MALLOC) return sum->left_out++, false;
    if (e->address == 0) return sum->nulls++, true;
    *entry = entry_of(l, e->address);
    (*entry)->address = e->address;
    return sum->mallocs++, true;
}

/* Has the event visited. */
static bool visit(struct live_entry *entry, const struct mm_trace_event *e, uint64_t launch, mm_events_visitor *visitor, void *argument) {
    uint64_t mark = entry && mm_event_is_free(e) ? entry->mark - 1 : 0;
    const bool goes_on = visitor(argument, e, launch, &mark);
    if (entry) entry->mark = mm_event_is_free(e) ? 0 : mark + 1;
    return goes_on;
}

/* Nothing is live any more of what these events allocated. */
static void forget(const struct live *l, const struct mm_trace_event *events, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (events[i].address) entry_of(l, events[i].address)->mark = 0;
}

bool mm_events_try_walk(const struct mm_trace_event *events, uint64_t count, uint64_t dropped, struct mm_trace_sum *sum, mm_events_visitor *visitor,
                        void *argument) {
    struct live l = {NULL, 1};
    while (l.mask < 2 * count) l.mask = 2 * l.mask + 1;
    l.entries = entries_new(l.mask + 1);
    int32_t *launches = (int32_t *)malloc((count + 1) * sizeof *launches);
    bool done = l.entries && launches;
    *sum = (struct mm_trace_sum){.dropped = dropped};
    const uint32_t first = first_grid(events, count);
    const uint64_t launch_count = done ? launches_of(events, count, first, launches) : 0;
    uint64_t launch = 0, begin = 0; /* begin: after the last mm_reset */
    int64_t grid = -1;              /* of that launch; at first none */
    for (uint64_t i = 0; done && i < count; i++) {
        const struct mm_trace_event *e = &events[i];
        struct live_entry *entry;
        if (mm_event_is_reset(e)) {
            forget(&l, events + begin, i - begin), begin = i;
            done = visit(NULL, e, launch, visitor, argument);
            continue;
        }
        if (i + AHEAD < count) __builtin_prefetch(&l.entries[place_of(events[i + AHEAD].address) & l.mask]);
        if (!take(&l, e, sum, &entry)) continue;
        if (mm_event_grid(e) != grid) launch = launch_of(launches, launch_count, distance(mm_event_grid(e), first));
        grid = mm_event_grid(e);
        done = visit(entry, e, launch, visitor, argument);
    }
    free(l.entries), free(launches);
    return done;
}
