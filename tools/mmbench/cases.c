/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The items of a case: one for each size and number of threads, with its heap. */
#include "tools/mmbench/mmbench.h"

#include <string.h>

#define GIB (1024ull * 1024 * 1024)

/* If an item would need more than 7/8 of --heap, it gets its own heap, larger than the bytes it asks for by 1/2^FITS_SHIFT. */
#define FITS_SHIFT 3
#define HEAP_DEFAULT (8 * GIB)
#define HEAP_UNIT (64ull << 20) /* of a heap that follows from its case's size */

#define NAME_OF(name, suffix) name,
const char *const mm_bench_allocator_names[] = {"mm",        "builtin",  MM_SIBLINGS(NAME_OF) "pool-tlsf", "pool-segregated", "pool-bitmask", "pool-first",
                                                "pool-next", "pool-best"};
const char *const mm_bench_floor_names[] = {"store", "atomic", "bitmap", "latency"};
const char *const mm_bench_status_names[] = {"pending", "ok", "null", "corrupt", "crash", "hung", "skipped", "toolarge"};

bool mm_bench_is_allocator(const char *name) {
    for (int a = 0; a < MM_BENCH_ALLOCATORS; a++)
        if (!strcmp(name, mm_bench_allocator_names[a])) return true;
    return false;
}

bool mm_bench_is_pool(enum mm_bench_allocator allocator) { return allocator >= MM_BENCH_POOLS; }

size_t mm_bench_op_count(const struct mm_bench_case *c) {
    size_t n = 0;
    while (n < MM_BENCH_OPS_MAX && c->ops[n].name) n++;
    return n;
}

int mm_bench_op_find(const struct mm_bench_case *c, const char *name) {
    for (size_t i = 0; i < mm_bench_op_count(c); i++)
        if (!strcmp(c->ops[i].name, name)) return (int)i;
    return -1;
}

bool mm_bench_measures(const struct mm_bench_case *c, enum mm_bench_allocator allocator) {
    if (mm_bench_is_pool(allocator)) return c->is_of_host;
    for (int i = 0; i < MM_BENCH_ONLY_MAX && c->only[i]; i++)
        if (!strcmp(c->only[i], mm_bench_allocator_names[allocator])) return true;
    return c->only[0] == NULL;
}

bool mm_bench_measures_any(const struct mm_bench_case *c, const bool *allocators) {
    for (int a = 0; a < MM_BENCH_ALLOCATORS; a++)
        if (allocators[a] && mm_bench_measures(c, (enum mm_bench_allocator)a)) return true;
    return false;
}

enum mm_bench_status mm_bench_status_find(const char *name) {
    for (int i = 0; i < MM_BENCH_STATUSES; i++)
        if (!strcmp(mm_bench_status_names[i], name)) return (enum mm_bench_status)i;
    return MM_BENCH_PENDING;
}

uint64_t mm_bench_heap(const struct mm_bench_item *item, enum mm_bench_allocator allocator) {
    return item->of->grows && allocator != MM_BENCH_BUILTIN ? 0 : item->heap;
}

static uint64_t asked_bytes(const struct mm_bench_case *c, uint64_t size, uint64_t threads) {
    uint64_t sum = 0, n = 0;
    switch (c->asked) {
    case MM_BENCH_ASKED_LITTLE: return 0;
    case MM_BENCH_ASKED_BURSTS: return threads * size * MM_BENCH_BURST_MEAN;
    case MM_BENCH_ASKED_HALF: return threads * (size + 16) / 2;
    case MM_BENCH_ASKED_POWERS:
        for (uint64_t power = 16; power <= size; power *= 2, n++) sum += power;
        return n ? threads * sum / n : 0;
    default: return threads * size;
    }
}

/* A quick run takes the first, the middle and the last element of a list. */
static bool taken(size_t i, size_t n, bool quick) { return !quick || i == 0 || i == n / 2 || i == n - 1; }

size_t mm_bench_items(const struct mm_bench_case *c, const struct mm_bench_options *o, struct mm_bench_item *items, size_t max) {
    size_t sizes = 0, threads = 0, count = 0;
    while (sizes < MM_BENCH_SIZES_MAX && c->sizes[sizes]) sizes++;
    while (threads < MM_BENCH_SIZES_MAX && c->threads[threads]) threads++;
    for (size_t s = 0; s < sizes; s++)
        for (size_t t = 0; t < threads; t++) {
            if (c->paired && (s != t || (o->quick && c->quick_shift && s > 0))) continue;
            if (c->percent && c->threads[t] > c->sizes[s] * c->percent / 100) continue;
            const bool quick = o->quick && !c->paired;
            if (!taken(s, sizes, quick) || !taken(t, threads, quick) || count == max) continue;
            struct mm_bench_item *item = &items[count++];
            memset(item, 0, sizeof *item);
            item->of = c;
            item->size = c->sizes[s] >> (o->quick ? c->quick_shift : 0);
            item->threads = c->threads[t] >> (o->quick ? c->quick_shift : 0);
            item->runs = !c->runs ? o->runs : o->quick ? c->runs_quick : c->runs;
            item->heap = o->heap ? o->heap : HEAP_DEFAULT;
            if (c->heap_large && s > 0) item->heap = c->heap_large;
            if (c->heap && !(o->heap && !strcmp(c->name, "endurance"))) item->heap = c->heap;
            if (c->heap_times) item->heap = (item->size * c->heap_times + HEAP_UNIT - 1) / HEAP_UNIT * HEAP_UNIT;
            if (!strcmp(c->name, "init")) item->size = item->heap;
            if (!strcmp(c->name, "endurance")) item->threads = (uint32_t)(item->heap / 4 * 3 / ((16 + MM_BENCH_ENDURANCE_LARGEST) / 2));
            item->asked_bytes = asked_bytes(c, item->size, item->threads);
            if (c->heap_fits && !o->heap && item->asked_bytes > item->heap - (item->heap >> FITS_SHIFT))
                item->heap = item->asked_bytes + (item->asked_bytes >> FITS_SHIFT);
        }
    return count;
}
