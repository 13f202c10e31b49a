/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the unit suites share: heaps made, checked and compared with a fresh one; random numbers; the runner. */
#ifndef MM_UNIT_SUPPORT_H
#define MM_UNIT_SUPPORT_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/heap.h"
#include "runtime/cpu/cpuheap.h"
#include "tests/runner.h"
#include "tests/unit/serve.h"

#define UNIT_SOME __attribute__((unused)) static

#define UNIT_ANY ~0ull

/* As Check's own, but free of charge while they hold: those write to a file each time. */
#define unit_holds(cond, ...)                     \
    do {                                          \
        if (!(cond)) ck_abort_msg(__VA_ARGS__);   \
    } while (0)
#define unit_compare(a, op, b)                                                                                \
    do {                                                                                                      \
        const uint64_t a_ = (uint64_t)(a), b_ = (uint64_t)(b);                                                \
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

UNIT_SOME void unit_create(struct mm_cpu_heap *heap, uint64_t segments) {
    unit_holds(mm_cpu_heap_create(heap, segments, segments, MM_SEGMENT_BYTES) == 0, "a heap of %llu segments",
                  (unsigned long long)segments);
}

/* The heap's invariants hold; `live` bytes of slices and runs are handed out (UNIT_ANY: not compared). */
UNIT_SOME void unit_sound(const struct mm_cpu_heap *heap, uint64_t live) {
    char why[200];
    uint64_t found = 0;
    const char *bad = mm_cpu_heap_check_quiescent(heap, why, sizeof why, &found);
    unit_holds(bad == NULL, "heap not sound: %s", bad ? bad : "");
    if (live != UNIT_ANY) unit_eq(found, live);
}

/* Without live memory and drained, the heap must be, word for word, as one just made with `mapped` segments, but for what
 * it has counted. */
UNIT_SOME void unit_fresh(struct mm_cpu_heap *heap, uint64_t mapped) {
    struct mm_heap *h = mm_heap_of(&heap->ref);
    mm_cpu_heap_drain_quiescent(heap);
    unit_sound(heap, 0);
    for (uint32_t s = 0; s < h->segment_count; s++) {
        const int in = (int)(*mm_tree_leaf(mm_segment_free_tree(&h->ref), s) >> (s % 64) & 1);
        unit_holds(in == (s < mapped), "segment %u of %u is %sin the free tree", s, (uint32_t)mapped, in ? "" : "not ");
    }
    struct mm_heap *image = (struct mm_heap *)malloc(heap->layout.image_bytes);
    mm_heap_image(image, &heap->layout, heap->ref.heap, h->ref.user_base, mapped);
    image->null_count = h->null_count, image->null_first_bytes = h->null_first_bytes, image->null_first_grid = h->null_first_grid;
    image->grow.reached = h->grow.reached;
    image->grow.waits = h->grow.waits, image->grow.waited_ns = h->grow.waited_ns;
    memcpy(image->misuse, h->misuse, sizeof h->misuse);
    image->reports = h->reports;
    const uint64_t *is = (const uint64_t *)heap->metadata, *was = (const uint64_t *)image;
    const uint64_t words = heap->layout.bits_offset / 8, in_image = heap->layout.image_bytes / 8;
    uint64_t i = memcmp(is, was, heap->layout.image_bytes) == 0 ? in_image : 0;
    while (i < in_image && is[i] == was[i]) i++;
    if (i == in_image)
        while (i < words && is[i] == 0) i++;
    unit_holds(i == words, "word %llu of the metadata is %#llx", (unsigned long long)i, (unsigned long long)is[i]);
    free(image);
}

struct unit_slices {
    uint32_t c, n, *slice;
};
UNIT_SOME void unit_note_slice(void *to, uint64_t off) {
    struct unit_slices *all = (struct unit_slices *)to;
    const uint32_t in = (uint32_t)(off % MM_SEGMENT_BYTES) / mm_class_bytes(all->c);
    all->slice[all->n++] = (uint32_t)(off / MM_SEGMENT_BYTES) * mm_class_slices(all->c) + in;
}
/* A group that has drawn n tickets of stripe k, the first of which is t: its slices, numbered from the beginning of the heap on, to
 * *slice (not NULL). Returns how many. */
UNIT_SOME uint32_t unit_serve(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t k, uint32_t t, uint32_t *slice) {
    struct unit_slices all = {c, 0, slice};
    return unit_serve_by(ref, c, n, k, t, unit_note_slice, &all);
}
/* The same for one who comes now. */
UNIT_SOME uint32_t unit_take(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t k, uint32_t *slice) {
    return unit_serve(ref, c, n, k, mm_ring_draw(mm_ring_at(ref, c, k), n), slice);
}

/* Ring i of class c, of which nothing is in use, goes on with lot m, as if all lots before it had been used up, and nothing were in
 * those that are ready. */
UNIT_SOME void unit_ring_from(const struct mm_heap_ref *ref, uint32_t c, uint32_t i, uint32_t m) {
    const uint32_t shift = mm_ring_shift(ref->classes[c], i), ahead = mm_ring_ahead(ref->classes[c], i);
    struct mm_ring *ring = mm_ring_at(ref, c, i);
    ring->tickets = m << shift;
    for (uint32_t k = 0; k < MM_RING; k++) {
        const uint32_t lots = (m + MM_RING - 1 - k) / MM_RING; /* that the slot has had */
        ring->slot[k].taken = lots << shift;
        ring->slot[k].what = lots == 0 ? 0 : mm_lot_tag(k + (lots - 1) * MM_RING) | MM_LOT_NONE;
    }
    for (uint32_t n = 0; n < ahead; n++) {
        const uint32_t lot = mm_lot_after(m, n, shift);
        if (lot >= ahead || lot < m) mm_ring_put(ring, lot, MM_LOT_NONE);
    }
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
    unit_holds(unit_misuses(heap) == all + (kind != 0), "%s: %llu misuses counted, not %d", what,
                  (unsigned long long)(unit_misuses(heap) - all), kind != 0);
    if (kind) unit_holds(mm_cpu_misuse_count(heap, (enum mm_misuse)kind) == this_kind + 1, "%s: not of kind %d", what, kind);
    unit_sound(heap, live);
}

/* What a request gets: the bytes it takes from the heap. */
UNIT_SOME uint64_t unit_taken(uint64_t bytes) {
    return bytes <= MM_SLICE_BYTES_MAX ? mm_class_bytes(mm_class_of((uint32_t)bytes)) : mm_round_up(bytes, MM_SEGMENT_BYTES);
}

UNIT_SOME void unit_add(Suite *suite, const char *name, const TTest *const *tests, int n) {
    TCase *one = tcase_create(name);
    tcase_set_timeout(one, 120);
    for (int i = 0; i < n; i++) tcase_add_test(one, tests[i]);
    suite_add_tcase(suite, one);
}
#define UNIT_ADD(suite, name, ...)                                                                 \
    do {                                                                                           \
        const TTest *const tests_[] = {__VA_ARGS__};                                               \
        unit_add(suite, name, tests_, (int)(sizeof tests_ / sizeof *tests_));                      \
    } while (0)

#endif
