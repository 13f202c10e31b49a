/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Cells of page allocators with an array or a ring: for each class below MM_OURO_CELL_CLASSES, one for each place of a warp on the GPU (beyond MM_OURO_CELLS
 * some share one). A warp that takes an entry of the queue and leaves pages in its mask puts the entry into its cell (first.h), and the next warp in that place
 * takes it from there: a warp of 32 lanes takes half of a mask. Through the queue that would cost four additions to words that all warps share. Not in the
 * paper.
 *
 * Representation. A cell is 0, or an entry plus 1. Who exchanges it for 0 has the entry, so chunk.h's I3 has one place more for it. Cells are at the end of made.
 * Ordering. Putting an entry into a cell is relaxed: whoever puts it has the result of his atomic on its mask, and GPUs execute atomics, and relaxed loads,
 *   where they keep the newest value. By the formal model the next owner's look at the mask may be old, and then it drops the entry, which sweeps find.
 * Stale. An entry in a cell of a place that no longer asks for its class. So a caller that finds none in the queue first looks into some cells, at random, and
 *   puts what it finds into the queue (mm_cells_give). What is in the few cells that are full then, sweeps find.
 */
#ifndef MM_OURO_CELLS_H
#define MM_OURO_CELLS_H

#include "runtime/ouroboros/pages.h"

/* Of chunk allocators, an entry's header costs more than the queue. A list's slot is not found without a walk. */
#define MM_OURO_SOON (MM_OURO_ENTRY == MM_OURO_PAGES && MM_OURO_QUEUE != MM_OURO_VL)

#define MM_CELLS_AT (MM_CLASS_COUNT * MM_MADE - MM_OURO_CELL_CLASSES * MM_OURO_CELLS / 2) /* the end of made */
MM_STATIC_ASSERT(MM_CELLS_AT >= (1u << MM_OURO_LIST_SHIFT) + MM_OURO_QUEUES * 3 * (1u << MM_OURO_RING_SHIFT) / 2,
                 "list, words (storage.h) and cells have room");
MM_STATIC_ASSERT(MM_OURO_CELLS % MM_OURO_CELL_LOOKS == 0, "a caller looks at whole groups");
MM_FN uint32_t *mm_cell_at(const struct mm_heap_ref *ref, uint32_t q, uint32_t i) {
    return (uint32_t *)((uint64_t *)ref->made + MM_CELLS_AT) + q * MM_OURO_CELLS + i % MM_OURO_CELLS;
}
/* That of the calling warp. */
MM_FN uint32_t *mm_cell_of(const struct mm_heap_ref *ref, uint32_t q) { return mm_cell_at(ref, q, mm_warp_slot()); }

/* Each lane of `group` looks into MM_OURO_CELL_LOOKS cells of class q, and puts an entry that it finds into the queue. Returns whether one did. */
MM_FN int mm_cells_give(const struct mm_heap_ref *ref, uint32_t group, uint32_t q) {
    uint32_t *cell = NULL;
    const uint32_t first = (mm_warp_shuffle(group, mm_random(), mm_ctz(group)) + mm_warp_lane()) * MM_OURO_CELL_LOOKS;
    MM_UNROLLED(MM_OURO_CELL_LOOKS)
    for (uint32_t i = 0; i < MM_OURO_CELL_LOOKS; i++)
        if (mm_load_relaxed_u32(mm_cell_at(ref, q, first + i)) != 0) cell = mm_cell_at(ref, q, first + i);
    const uint32_t held = cell != NULL ? mm_exchange_acquire_u32(cell, 0) : 0;
    if (mm_warp_ballot(group, held != 0) == 0) return 0;
    mm_entries_put(ref, group, q, held != 0 ? held - 1 : MM_QUEUE_NONE, 1, MM_OURO_LONG_LOOKS);
    return 1;
}

#endif
