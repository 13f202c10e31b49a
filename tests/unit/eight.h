/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap of eight segments for each test: shared by the suites of allocators of listed segments. */
#ifndef MM_UNIT_EIGHT_H
#define MM_UNIT_EIGHT_H

#include "tests/unit/support.h"

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;
#define SEGMENTS 8u
static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    ref = &heap.ref;
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }
UNIT_SOME uint8_t *take(uint64_t bytes) { return (uint8_t *)mm_heap_malloc(ref, bytes); }

#endif
