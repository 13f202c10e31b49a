/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the suites of words, tables, making and retiring: a small heap, its blocks and entries. Include after
 * tests/unit/steps.h, or warps.h. */
#ifndef MM_UNIT_BLOCKS_H
#define MM_UNIT_BLOCKS_H

#include "tests/unit/support.h"

#define SEGMENTS 4

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;

UNIT_SOME void set_up(void) {
    unit_create(&heap, SEGMENTS);
    ref = &heap.ref;
#ifdef MM_UNIT_STEPS_H
    unit_home = 0, unit_seed = 1;
#endif
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
UNIT_SOME uint64_t made_at(uint32_t c, uint32_t number) { return *mm_made_at(ref, c, number); }
/* Draws a ticket: the number of a block, and a slice of it. */
UNIT_SOME uint32_t draw_ticket(uint32_t c, uint32_t *slice) { return mm_class_block_of(ref->classes[c], mm_tickets_draw(ref, 1, 1, c), slice); }
/* Makes a block of class c at a page, with that index in the table. */
UNIT_SOME void write_block(uint32_t c, uint32_t index, uint32_t page) {
    const struct mm_blocks one = {{page, MM_MADE_NO_PAGES}, {index, 0}, {0, 0}};
    mm_blocks_write(ref, 1, c, one);
}
/* The number of a block of which the caller has drawn the first ticket, and no one another. */
UNIT_SOME uint32_t first_ticket(uint32_t c) {
    uint32_t slice, number = draw_ticket(c, &slice);
    if (slice != 0) {
        mm_tickets_skip(ref, c, number);
        number = draw_ticket(c, &slice);
    }
    unit_eq(slice, 0);
    return number;
}
/* Makes one block, which must be possible; in a large class, of which mm_blocks_make makes several, step by step. Returns its page; its entry is the last
 * of the table. */
UNIT_SOME uint32_t make(uint32_t c) {
    const uint32_t index = of(c)->count, number = first_ticket(c);
    if (index / MM_MAKE_SHARE < 2) {
        mm_blocks_make(ref, 1, c, number, MM_FIRST_LATE, 0);
    } else {
        uint64_t groups;
        const uint32_t s = mm_pages_take(ref, ref->classes[c].page_shift, 1, &groups), page = s * MM_SEGMENT_PAGES + mm_ctz(groups);
        unit_holds(s != MM_TREE_NONE, "class %u: no pages", c);
        write_block(c, mm_table_add(ref, c, 1), page);
        *mm_made_at(ref, c, number) = mm_made_make(number, index);
    }
    unit_eq(of(c)->count, index + 1);
    unit_eq(made_at(c, number), mm_made_make(number, index));
    unit_holds(mm_entry_is_of(entry_at(c, index), c), "class %u: entry %u is %#llx", c, index, (unsigned long long)entry_at(c, index));
    return mm_entry_page(entry_at(c, index));
}
UNIT_SOME uint64_t word_at(uint32_t page, uint32_t i) { return mm_page_words(ref, page)[i]; }
UNIT_SOME void *slice_at(uint32_t page, uint32_t c, uint32_t i) { return (void *)mm_slice_address(ref, page, c, i); }

/* Claims a number. Returns whether it succeeded. */
UNIT_SOME int claim(uint32_t c, uint32_t number) { return mm_made_claim(ref, c, number, mm_load_relaxed_u64(mm_made_at(ref, c, number))); }

#endif
