/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the unit suites: making, checking and comparing heaps; random numbers; the runner. */
#ifndef MM_UNIT_SUPPORT_H
#define MM_UNIT_SUPPORT_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cpu/cpuheap.h"
#include "runtime/check.h"
#include "tests/runner.h"
#include "tests/unit/until.h"

#define UNIT_SOME __attribute__((unused)) static

#define UNIT_ANY ~0ull

/* Whether the allocator keeps the segments of small memory for ever. */
#if defined MM_OURO_ENTRY && MM_OURO_ENTRY == MM_OURO_PAGES
#define UNIT_KEEPS 1
#else
#define UNIT_KEEPS 0
#endif
/* What is left of memory that the host has taken back. The rings may still read there (regeff/chunks.h, "Stale"). */
#ifdef MM_RING_UNIT_BYTES
#define UNIT_TAKEN_BACK PROT_READ
#else
#define UNIT_TAKEN_BACK PROT_NONE
#endif

/* Like Check's own, but without cost while they hold: Check's write to a file each time. */
#define unit_holds(cond, ...)                   \
    do {                                        \
        if (!(cond)) ck_abort_msg(__VA_ARGS__); \
    } while (0)
#define unit_compare(a, op, b)                                                                                     \
    do {                                                                                                           \
        const uint64_t a_ = (uint64_t)(a), b_ = (uint64_t)(b);                                                     \
        unit_holds(a_ op b_, "%s " #op " %s: %llu, %llu", #a, #b, (unsigned long long)a_, (unsigned long long)b_); \
    } while (0)
#define unit_eq(a, b) unit_compare(a, ==, b)
#define unit_lt(a, b) unit_compare(a, <, b)
#define unit_le(a, b) unit_compare(a, <=, b)

/* xorshift64*: the same sequence in every run. */
UNIT_SOME uint64_t unit_random(uint64_t *state) {
    *state ^= *state >> 12, *state ^= *state << 25, *state ^= *state >> 27;
    return *state * 2685821657736338717ull;
}

/* The words of made of a class. */
UNIT_SOME uint32_t unit_made(const struct mm_heap_ref *ref, uint32_t c) { return 1u << ref->classes[c].made_shift; }

/* Fills what need not be zero (layout.h) with rubbish that looks like blocks of class 0, all free. */
UNIT_SOME void unit_rubbish(struct mm_cpu_heap *heap) {
    char *at = (char *)heap->metadata;
    for (uint64_t i = heap->layout.words; i < heap->layout.total_bytes; i += 8) *(uint64_t *)(at + i) = mm_word_make(2, ~0u);
    for (uint32_t page = 0; page < heap->layout.segment_count * MM_SEGMENT_PAGES; page++) *mm_page_index(&heap->ref, page) = 0x5a5a5a5au;
    for (uint64_t i = heap->layout.zero_bytes; i < heap->layout.words; i += 8) *(uint64_t *)(at + i) = mm_entry_make(2, 0, 0);
}
UNIT_SOME void unit_create(struct mm_cpu_heap *heap, uint64_t segments) {
    unit_holds(mm_cpu_heap_create(heap, segments, segments, MM_SEGMENT_BYTES) == 0, "a heap of %llu segments", (unsigned long long)segments);
    if (segments <= 300) unit_rubbish(heap);
}

/* The heap's invariants hold; `live` bytes of slices, spans and runs are handed out (UNIT_ANY: not compared). */
UNIT_SOME void unit_sound(const struct mm_cpu_heap *heap, uint64_t live) {
    char why[200];
    uint64_t found = 0;
    const char *bad = mm_cpu_heap_check_quiescent(heap, why, sizeof why, &found);
    unit_holds(bad == NULL, "heap not sound: %s", bad ? bad : "");
    if (live != UNIT_ANY) unit_eq(found, live);
    unit_eq(mm_heap_of(&heap->ref)->run_searches, 0);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++)
        unit_holds(((struct mm_class_state *)heap->ref.classes_at)[c].makers == 0, "class %u: somebody makes blocks for ever", c);
    unit_eq(mm_heap_of(&heap->ref)->grow.need, 0);
}

/* Without live memory and drained, the heap must equal one just made with `mapped` segments: no page has an owner, no table an entry.
 * Counters and hints may differ. */
UNIT_SOME void unit_fresh(struct mm_cpu_heap *heap, uint64_t mapped) {
    const struct mm_heap_ref *ref = &heap->ref;
    struct mm_heap *h = mm_heap_of(ref);
    mm_cpu_heap_drain_quiescent(heap);
    unit_sound(heap, 0);
    if (UNIT_KEEPS) return;
    for (uint32_t s = 0; s < h->segment_count; s++) {
        const int in = (int)(*mm_tree_leaf(mm_segment_free_tree(ref), s) >> (s % 64) & 1);
        unit_holds(in == (s < mapped), "segment %u of %u is %sin the free tree", s, (uint32_t)mapped, in ? "" : "not ");
        unit_holds(mm_segment_at(ref, s)->pages == 0 && mm_segment_at(ref, s)->run == MM_RUN_NONE, "segment %u is in use", s);
    }
    for (uint32_t page = 0; page < h->segment_count * MM_SEGMENT_PAGES; page++)
        unit_holds(*mm_page_owner(ref, page) == MM_OWNER_NOBODY, "page %u has owner %u", page, *mm_page_owner(ref, page));
#ifdef MM_OURO_CLASSES
    const uint32_t classes = 1; /* the others are queues */
#else
    const uint32_t classes = MM_CLASS_COUNT;
#endif
    const struct mm_class_state *const state = (const struct mm_class_state *)heap->ref.classes_at;
    for (uint32_t c = 0; c < classes; c++) unit_holds(state[c].count == 0, "class %u: %u entries are left", c, state[c].count);
    unit_eq(h->giving_up & MM_FLIGHT_WORD_BUSY, 0);
    for (uint32_t k = 0; k < sizeof h->opening / sizeof *h->opening; k++) unit_eq(h->opening[k], 0);
    unit_eq(h->grow.lock, 0);
}

/* Slices of class c in a segment. */
UNIT_SOME uint32_t unit_slices(uint32_t c) { return (MM_SEGMENT_PAGES >> mm_class_page_shift(c)) * mm_class_slices(c); }
/* A size near that of class c of which a full heap has no gaps, and how many of those are in a segment. */
#ifdef MM_WALK_UNIT_BYTES
UNIT_SOME uint64_t unit_whole(uint32_t c) { return mm_at_most(mm_class_bytes(c), MM_WALK_UNIT_BYTES); }
UNIT_SOME uint32_t unit_whole_count(uint32_t c) { return (void)c, MM_WALK_UNITS; }
#elif defined MM_RING_UNIT_BYTES
UNIT_SOME uint64_t unit_whole(uint32_t c) { return (void)c, MM_RING_UNIT_BYTES - MM_RING_HEADER_BYTES; }
UNIT_SOME uint32_t unit_whole_count(uint32_t c) { return (void)c, MM_RING_UNITS; }
#elif defined MM_OURO_CLASSES
UNIT_SOME uint64_t unit_whole(uint32_t c) { return (void)c, 16; }
UNIT_SOME uint32_t unit_whole_count(uint32_t c) { return (void)c, MM_OURO_SEGMENT_CHUNKS << (MM_OURO_CLASSES - 1); }
#else
UNIT_SOME uint64_t unit_whole(uint32_t c) { return mm_class_bytes(c); }
UNIT_SOME uint32_t unit_whole_count(uint32_t c) { return unit_slices(c); }
#endif

/* As the host's kernels do: takes segments [first, first + count) from the heap. Returns whether they were free. */
UNIT_SOME int unit_chunk_claim(const struct mm_heap_ref *ref, uint32_t first, uint32_t count) {
    struct mm_heap *h = mm_heap_of(ref);
    for (uint32_t s = first; s < first + count; s++) mm_segment_retire(ref, 1, s);
    if (!mm_run_try_take(mm_segment_free_tree(ref), first, first + count)) return 0;
    mm_add_relaxed_u64(&h->free_count, 0 - (uint64_t)count);
    mm_add_relaxed_u64(&h->grow.mapped, 0 - (uint64_t)count);
    return 1;
}

UNIT_SOME uint64_t unit_misuses(const struct mm_cpu_heap *heap) {
    uint64_t sum = 0;
    for (int kind = 0; kind < MM_MISUSE_KINDS; kind++) sum += mm_cpu_misuse_count(heap, (enum mm_misuse)kind);
    return sum;
}

/* Frees p, which must be counted once as `kind` (0: no misuse) and as nothing else, and leave the heap sound. */
UNIT_SOME void unit_free(struct mm_cpu_heap *heap, void *p, int kind, uint64_t live, const char *what) {
    const uint64_t all = unit_misuses(heap), this_kind = kind ? mm_cpu_misuse_count(heap, (enum mm_misuse)kind) : 0;
    mm_cpu_free(heap, p);
    unit_holds(unit_misuses(heap) == all + (kind != 0), "%s: %llu misuses counted, not %d", what, (unsigned long long)(unit_misuses(heap) - all), kind != 0);
    if (kind) unit_holds(mm_cpu_misuse_count(heap, (enum mm_misuse)kind) == this_kind + 1, "%s: not of kind %d", what, kind);
    unit_sound(heap, live);
}

/* Pages of a span for n pages: 1, 2, 4; 5, 6, 7, 8; 10, 12, 14, 16; ... */
UNIT_SOME uint32_t unit_span_pages(uint64_t n) {
    for (uint32_t s = 0;; s++)
        for (uint32_t unit = s == 0 ? 1 : 5; unit <= 8; unit++)
            if ((uint64_t)unit << s >= n && unit != 3) return unit << s;
}
/* The bytes that a request takes from the heap. */
UNIT_SOME uint64_t unit_taken(uint64_t bytes) {
#ifdef MM_LISTED_UNITS_MAX
    if (bytes <= MM_SMALL_BYTES_MAX) return mm_listed_bytes(mm_listed_units(bytes));
#else
    if (bytes <= MM_SMALL_BYTES_MAX) return mm_class_bytes(mm_class_of((uint32_t)bytes));
#endif
    if (bytes <= 56 * MM_PAGE_BYTES) return unit_span_pages((bytes + MM_PAGE_BYTES - 1) / MM_PAGE_BYTES) * MM_PAGE_BYTES;
    return mm_round_up(bytes, MM_SEGMENT_BYTES);
}

UNIT_SOME void unit_add(Suite *suite, const char *name, const TTest *const *tests, int n) {
    TCase *one = tcase_create(name);
    tcase_set_timeout(one, 120);
    for (int i = 0; i < n; i++) tcase_add_test(one, tests[i]);
    suite_add_tcase(suite, one);
}
#define UNIT_ADD(suite, name, ...)                                            \
    do {                                                                      \
        const TTest *const tests_[] = {__VA_ARGS__};                          \
        unit_add(suite, name, tests_, (int)(sizeof tests_ / sizeof *tests_)); \
    } while (0)

#endif
