/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the suites of words, tables, making and retiring share: a small heap, its blocks and entries. Include after tests/unit/steps.h. */
#ifndef MM_UNIT_BLOCKS_H
#define MM_UNIT_BLOCKS_H

/* One block at a time, if a suite does not say otherwise. */
#undef MM_UNIT_SHARE
#define MM_UNIT_SHARE unit_share
static uint32_t unit_share = 1u << 31;

#include "tests/unit/support.h"

#define SEGMENTS 4

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;

UNIT_SOME void set_up(void) {
    unit_create(&heap, SEGMENTS);
    ref = &heap.ref;
    unit_home = 0, unit_seed = 1;
}
UNIT_SOME void tear_down(void) { mm_cpu_heap_destroy(&heap); }
/* Another heap, for the next step. */
UNIT_SOME void new_heap(void) {
    if (heap.metadata != NULL) tear_down();
    set_up();
}

UNIT_SOME struct mm_class_state *of(uint32_t c) { return mm_class_at(ref, c); }
UNIT_SOME uint64_t entry_at(uint32_t c, uint32_t index) {
    uint64_t *at = mm_table_find(ref, c, index);
    return at == NULL ? MM_ENTRY_NONE : *at;
}
/* Makes the block for an entry, which must be possible. Returns its page. */
UNIT_SOME uint32_t make(uint32_t c, uint32_t index) {
    if (of(c)->frontier <= (uint64_t)index * mm_class_slices(c)) of(c)->frontier = (uint64_t)index * mm_class_slices(c) + 1;
    unit_eq(mm_blocks_make(ref, 1, c, index), MM_MADE_SOME);
    unit_holds(mm_entry_is_of(entry_at(c, index), c), "class %u: entry %u is %#llx", c, index, (unsigned long long)entry_at(c, index));
    if (of(c)->frontier < (uint64_t)(index + 1) * mm_class_slices(c)) of(c)->frontier = (uint64_t)(index + 1) * mm_class_slices(c);
    return mm_entry_page(entry_at(c, index));
}
UNIT_SOME uint64_t word_at(uint32_t page, uint32_t i) { return mm_page_words(ref, page)[i]; }
UNIT_SOME void *slice_at(uint32_t page, uint32_t c, uint32_t i) { return (void *)mm_slice_address(ref, page, c, i); }

#endif
