/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the suites of stripes and of shortage share: a small heap whose classes are as in one of any size. Include after
 * tests/unit/steps.h.
 */
#ifndef MM_UNIT_STRIPES_H
#define MM_UNIT_STRIPES_H

#include "tests/unit/support.h"

#define SEGMENTS 8

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;
static struct mm_heap *h;

/* Stripes, reserves and lots ahead as in a heap in which a class may hold 2^hold bytes. */
UNIT_SOME void set_hold(uint32_t hold) {
    heap.ref.hold_shift = hold;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) heap.ref.classes[c] = mm_class_make(c, hold);
}
#define LARGE 40 /* as in the largest heap */

UNIT_SOME void set_up(void) {
    unit_create(&heap, SEGMENTS);
    set_hold(LARGE);
    ref = &heap.ref;
    h = mm_heap_of(ref);
    unit_home = 0;
}
UNIT_SOME void tear_down(void) { mm_cpu_heap_destroy(&heap); }

UNIT_SOME struct mm_segment *at(uint32_t s) { return mm_segment_at(ref, s); }
UNIT_SOME struct mm_blocks *of(uint32_t s) { return mm_segment_blocks(ref, s); }
UNIT_SOME struct mm_ring *ring(uint32_t c, uint32_t i) { return mm_ring_at(ref, c, i); }
UNIT_SOME uint32_t stripes(uint32_t c) { return ref->classes[c].stripe_mask + 1u; }
UNIT_SOME uint32_t take(uint32_t c, uint32_t k) {
    uint32_t slice;
    return unit_take(ref, c, 1, k, &slice) ? slice : MM_TREE_NONE;
}
UNIT_SOME void *address(uint32_t c, uint32_t slice) {
    const uint32_t slices = mm_class_slices(c);
    return (void *)(ref->user_base + slice / slices * MM_SEGMENT_BYTES + (uint64_t)(slice % slices) * mm_class_bytes(c));
}
UNIT_SOME void free_all(uint32_t c, const uint32_t *slice, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, address(c, slice[i]));
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}

#endif
