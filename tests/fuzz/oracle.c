/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tests/fuzz/oracle.h"

#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAYLOAD_END_BYTES 1024u     /* up to twice this, all of it is written; else both ends and some words between */
#define PAYLOAD_STRIDE_BYTES 65536u /* least distance of the words between */
#define POISON_SEGMENTS_MOST 4u     /* poisoning larger heaps takes longer than everything else */

#define must(cond, ...)                                                               \
    do {                                                                              \
        if (!(cond)) {                                                                \
            fprintf(stderr, "fuzz: " __VA_ARGS__), fprintf(stderr, " (%s)\n", #cond); \
            abort();                                                                  \
        }                                                                             \
    } while (0)
/* For functions whose branches tell libFuzzer nothing about the allocator. */
#define NOT_COVERAGE __attribute__((no_sanitize("coverage")))
#define ull(x) ((unsigned long long)(x))

static void *pointer(uint64_t at) { return (void *)(uintptr_t)at; }
static int poisons(const struct oracle *o) { return o->reserved_bytes <= POISON_SEGMENTS_MOST * MM_SEGMENT_BYTES; }

/* -- payload -- */

static uint64_t key(uint64_t at, uint64_t bytes) {
    const uint64_t x = (at ^ bytes << 44) * 0x9e3779b97f4a7c15ull;
    return x ^ x >> 31;
}
/* Writes or checks [from, end) of the payload of l. */
NOT_COVERAGE static void payload_part(const struct live *l, uint64_t from, uint64_t end, int write) {
    for (uint64_t o = from; o < end; o += 8) {
        const uint64_t k = key(l->at + o, l->bytes);
        const size_t n = end - o < 8 ? (size_t)(end - o) : 8;
        if (write) memcpy(pointer(l->at + o), &k, n);
        else must(memcmp(pointer(l->at + o), &k, n) == 0, "%llu B: byte %llu was written over", ull(l->bytes), ull(o));
    }
}
static void payload(const struct live *l, int write) {
    const uint64_t bytes = l->asked;
    if (bytes <= 2 * PAYLOAD_END_BYTES) {
        payload_part(l, 0, bytes, write);
        return;
    }
    payload_part(l, 0, PAYLOAD_END_BYTES, write);
    const uint64_t stride = bytes / 8 > PAYLOAD_STRIDE_BYTES ? bytes / 8 / 8 * 8 : PAYLOAD_STRIDE_BYTES;
    for (uint64_t o = stride; o + PAYLOAD_STRIDE_BYTES < bytes; o += stride) payload_part(l, o, o + 8, write);
    payload_part(l, bytes - PAYLOAD_END_BYTES, bytes, write);
}

/* -- the map -- */

/* The first live allocation that begins at or after `at`. */
NOT_COVERAGE static uint32_t find(const struct oracle *o, uint64_t at) {
    uint32_t low = 0, high = o->lives;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (o->live[mid].at < at) low = mid + 1;
        else high = mid;
    }
    return low;
}
static void count_segments(struct oracle *o, const struct live *l, uint32_t by) {
    const uint64_t in = l->at - o->base;
    for (uint64_t s = in / MM_SEGMENT_BYTES; s <= (in + l->bytes - 1) / MM_SEGMENT_BYTES; s++) o->in_segment[s] += by;
}
static void forget(struct oracle *o, uint32_t index) {
    count_segments(o, &o->live[index], ~0u);
    memmove(&o->live[index], &o->live[index + 1], (--o->lives - index) * sizeof o->live[0]);
}

/* Whether segments with nothing live suffice. For slices and spans, a segment with such pages may suffice, too. */
NOT_COVERAGE static int has_room(const struct oracle *o, uint64_t bytes, uint64_t align) {
    const uint64_t count = bytes ? (bytes - 1) / MM_SEGMENT_BYTES + 1 : 1, mapped = o->mapped_bytes / MM_SEGMENT_BYTES;
    if (bytes > o->mapped_bytes || align > o->reserved_bytes) return 0;
    const int whole = bytes > MM_SLICE_BYTES_MAX || align > MM_SLICE_BYTES_MAX;
    for (uint64_t s = 0, row = 0; s < mapped; s++) {
        row = o->in_segment[s] ? 0 : row + 1;
        if (row >= count && (!whole || (o->base + (s + 1 - count) * MM_SEGMENT_BYTES) % (align ? align : 1) == 0)) return 1;
    }
    return 0;
}

/* -- counts -- */

NOT_COVERAGE static void counts_match(const struct oracle *o, const char *after) {
    for (int i = 1; i < MM_MISUSE_KINDS; i++) {
        const uint64_t counted = mm_cpu_misuse_count(&o->heap, (enum mm_misuse)i);
        must(counted == o->misuse[i], "%s: misuse of kind %d: %llu, not %llu", after, i, ull(counted), ull(o->misuse[i]));
    }
    must(mm_cpu_null_count(&o->heap) == o->nulls, "%s: NULLs: %llu, not %llu", after, ull(mm_cpu_null_count(&o->heap)), ull(o->nulls));
}

void oracle_misuse(struct oracle *o, uint64_t at, int kind) {
    mm_cpu_free(&o->heap, pointer(at));
    for (int i = 1; kind == ORACLE_ANY_KIND && i < MM_MISUSE_KINDS; i++)
        if (i != MM_MISUSE_FOREIGN && mm_cpu_misuse_count(&o->heap, (enum mm_misuse)i) == o->misuse[i] + 1) kind = i;
    must(kind != ORACLE_ANY_KIND, "misuse at %llx was not counted", ull(at - o->base));
    o->misuse[kind]++;
    counts_match(o, "misuse");
}

/* -- operations -- */

void oracle_begin(struct oracle *o, uint32_t segments, uint32_t mapped, uint64_t align_bytes) {
    memset(o, 0, sizeof *o);
    must(mm_cpu_heap_create(&o->heap, segments, mapped, align_bytes) == 0, "no heap");
    o->mapped_bytes = mapped * MM_SEGMENT_BYTES, o->reserved_bytes = segments * MM_SEGMENT_BYTES;
    void *all = mm_cpu_malloc(&o->heap, o->mapped_bytes);
    must(all != NULL, "a fresh heap does not give all it has");
    o->base = (uint64_t)(uintptr_t)all;
    must(o->base % align_bytes == 0, "the heap is not aligned");
    mm_cpu_free(&o->heap, all);
    if (poisons(o)) ASAN_POISON_MEMORY_REGION(pointer(o->base), o->reserved_bytes);
}

int oracle_malloc(struct oracle *o, uint64_t bytes, uint64_t align, int is_aligned) {
    const int valid = !is_aligned || (align != 0 && (align & (align - 1)) == 0);
    if (o->lives == ORACLE_LIVE_MOST) return 0;
    void *p = is_aligned ? mm_cpu_aligned_malloc(&o->heap, bytes, align) : mm_cpu_malloc(&o->heap, bytes);
    must(p != NULL || !valid || !has_room(o, bytes, align), "NULL for %llu B aligned to %llu, though there is room", ull(bytes), ull(align));
    if (p == NULL) {
        if (valid || mm_cpu_null_count(&o->heap) != o->nulls) o->nulls++;
        counts_match(o, "NULL");
        return 0;
    }
    const uint64_t take = bytes ? bytes : 1, at = (uint64_t)(uintptr_t)p, larger = take > align ? take : align;
    must(valid, "memory for an alignment of %llu", ull(align));
    must(at % (is_aligned ? align : 1u << MM_ALIGN_SHIFT) == 0, "%llx is not aligned to %llu", ull(at), ull(align));
    must(at >= o->base && take <= o->mapped_bytes && at - o->base <= o->mapped_bytes - take, "%llu B at %llx", ull(take), ull(at - o->base));
    const uint32_t index = find(o, at);
    must(index == o->lives || take <= o->live[index].at - at, "%llu B overlap the next", ull(take));
    must(index == 0 || o->live[index - 1].bytes <= at - o->live[index - 1].at, "%llu B overlap the one before", ull(take));
    memmove(&o->live[index + 1], &o->live[index], (o->lives++ - index) * sizeof o->live[0]);
    struct live *l = &o->live[index];
    l->at = at, l->bytes = take, l->asked = bytes;
    const int is_span = bytes <= 56 * MM_PAGE_BYTES && align < MM_SEGMENT_BYTES;
    const uint64_t unit = is_span ? MM_PAGE_BYTES : MM_SEGMENT_BYTES;
    l->is_slice = larger <= MM_SLICE_BYTES_MAX;
    l->bytes_most = is_aligned ? 2 * larger : larger + larger / 4;
    if (l->is_slice) l->bytes_most += 16;
    else if (!is_span || !is_aligned) l->bytes_most = (((take - 1) | (unit - 1)) + 1) * (is_span ? 5 : 4) / 4;
    count_segments(o, l, 1);
    if (poisons(o)) ASAN_UNPOISON_MEMORY_REGION(p, bytes);
    payload(l, 1);
    counts_match(o, "malloc");
    return 1;
}

/* Removes number `index` from the map, after checking its payload. */
static uint64_t let_go(struct oracle *o, uint32_t index) {
    const struct live was = o->live[index];
    payload(&was, 0);
    if (poisons(o)) ASAN_POISON_MEMORY_REGION(pointer(was.at), (was.bytes + 7) / 8 * 8);
    forget(o, index);
    o->stale[o->stales++ % ORACLE_STALE] = was.at;
    return was.at;
}

void oracle_free(struct oracle *o, uint32_t index) {
    mm_cpu_free(&o->heap, pointer(let_go(o, index)));
    counts_match(o, "free");
}

void oracle_free_twice(struct oracle *o, uint32_t index) {
    const int is_slice = o->live[index].is_slice;
    const uint64_t at = o->live[index].at;
    oracle_free(o, index);
    oracle_misuse(o, at, is_slice ? MM_MISUSE_DOUBLE_FREE : MM_MISUSE_NOT_ALLOCATED); /* free never retires a block */
}

void oracle_free_at(struct oracle *o, uint64_t at) {
    const uint32_t index = find(o, at);
    if (at == 0) {
        mm_cpu_free(&o->heap, NULL);
        counts_match(o, "free(NULL)");
    } else if (at - o->base >= o->reserved_bytes) {
        oracle_misuse(o, at, MM_MISUSE_FOREIGN);
    } else if (at - o->base >= o->mapped_bytes) {
        oracle_misuse(o, at, MM_MISUSE_NOT_ALLOCATED);
    } else if (index < o->lives && o->live[index].at == at) {
        oracle_free(o, index);
    } else if (index > 0 && at - o->live[index - 1].at < o->live[index - 1].bytes) {
        oracle_misuse(o, at, MM_MISUSE_INTERIOR);
    } else {
        oracle_misuse(o, at, ORACLE_ANY_KIND);
    }
}

void oracle_check(struct oracle *o) {
    char why[200];
    uint64_t found = 0, least = 0, most = 0;
    const char *bad = mm_cpu_heap_check_quiescent(&o->heap, why, sizeof why, &found);
    must(bad == NULL, "heap not sound: %s", bad);
    for (uint32_t i = 0; i < o->lives; i++) least += o->live[i].bytes, most += o->live[i].bytes_most;
    must(least <= found && found <= most, "%llu B live, not %llu to %llu", ull(found), ull(least), ull(most));
    uint64_t untouched = 0;
    for (uint64_t s = 0; s < o->mapped_bytes / MM_SEGMENT_BYTES; s++) untouched += o->in_segment[s] == 0;
    must(mm_cpu_heap_free_segments(&o->heap) <= untouched, "a segment is free that holds something live");
}

void oracle_drain(struct oracle *o) {
    mm_cpu_heap_drain_quiescent(&o->heap);
    counts_match(o, "drain");
    oracle_check(o);
    uint64_t untouched = 0;
    for (uint64_t s = 0; s < o->mapped_bytes / MM_SEGMENT_BYTES; s++) untouched += o->in_segment[s] == 0;
    must(mm_cpu_heap_free_segments(&o->heap) == untouched, "drained: a segment without anything live is not free");
}

void oracle_end(struct oracle *o, int backwards) {
    oracle_check(o);
    while (o->lives) oracle_free(o, backwards ? o->lives - 1 : 0);
    oracle_drain(o);
    must(oracle_malloc(o, o->mapped_bytes, 0, 0), "a drained heap does not give all it has");
    oracle_free(o, 0);
    if (poisons(o)) ASAN_UNPOISON_MEMORY_REGION(pointer(o->base), o->reserved_bytes);
    mm_cpu_heap_destroy(&o->heap);
}
