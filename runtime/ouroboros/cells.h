/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Cells: for each class below MM_OURO_CELL_CLASSES, one for each place of a warp on the GPU (beyond MM_OURO_CELLS some share one). What is below is about those
 * of page allocators; chunk allocators use theirs otherwise (hints.h). A warp that takes an entry of the queue and leaves pages in its mask puts the entry into
 * its cell (first.h), and the next warp in that place takes pages from there: a warp of 32 lanes takes half of a mask. Through the queue that would cost four
 * additions to words that all warps share. Not in the paper.
 *
 * Representation. A cell is 0, or an entry plus 1. Cells are in made (chunk.h).
 * Taking. Several lanes take the entry out of their cell, then pages of its mask, and put the entry back if pages are left. A lane that is alone takes a page
 *   and leaves the entry in the cell. A caller that finds the queue empty does the same with cells of others (mm_cells_take). So many callers can take pages of
 *   one mask at the same time.
 * No entry is lost. An entry leaves a cell by an atomic of one caller, which has it then. It is dropped only by a caller that has it, and then sees that its
 *   mask is 0. Who frees the next page there enqueues it. So a mask that is not 0 has an entry (chunk.h, I3).
 *   A caller that leaves the entry in the cell, and takes the last page, does not have it. A lane that is alone takes it out then, and looks at the mask once
 *   more; those that look into cells of others leave it, and the next caller in that place drops it. (Dropping it without a second look: two callers that
 *   both saw the mask 0 could take out the entry and, after a free, the next one.)
 * Ordering. Putting an entry into a cell is relaxed: whoever puts it has the result of his atomic on its mask, and GPUs execute atomics, and relaxed loads,
 *   where they keep the newest value. By the formal model the next owner's look at the mask may be old, and then it drops the entry, which sweeps find.
 * Stale. Pages of an entry in a cell of a place that no longer asks for its class are found by those that look into cells of others, or by sweeps. An entry there
 *   whose mask is 0 stays. So who looks takes one of the entries that it sees at random, not always the same.
 */
#ifndef MM_OURO_CELLS_H
#define MM_OURO_CELLS_H

#include "runtime/ouroboros/chunk.h"

MM_FN uint32_t *mm_cell_at(const struct mm_heap_ref *ref, uint32_t q, uint32_t i) {
    return (uint32_t *)((uint64_t *)ref->made + MM_OURO_CELLS_AT) + q * MM_OURO_CELLS + i % MM_OURO_CELLS;
}
/* That of the calling warp. */
MM_FN uint32_t *mm_cell_of(const struct mm_heap_ref *ref, uint32_t q) { return mm_cell_at(ref, q, mm_warp_slot()); }

/* The entry in the caller's cell, plus 1; 0: none. is_alone: it stays there. */
MM_FN uint32_t mm_cell_open(const struct mm_heap_ref *ref, uint32_t q, int is_alone) {
    return is_alone ? mm_load_relaxed_u32(mm_cell_of(ref, q)) : mm_exchange_acquire_u32(mm_cell_of(ref, q), 0);
}
/* The caller has taken pages of the mask of an entry, of which `rest` is left. stays: it has left the entry in its cell. Returns whether the caller has the entry,
 * and has to put it into the queue. */
MM_FN int mm_cell_close(const struct mm_heap_ref *ref, uint32_t q, uint32_t entry, uint64_t rest, int has_cell, int stays) {
    if (!stays) return rest != 0 && !(has_cell && mm_cas_relaxed_u32(mm_cell_of(ref, q), 0, entry + 1));
    return rest == 0 && mm_cas_acquire_u32(mm_cell_of(ref, q), entry + 1, 0) && mm_load_relaxed_u64(mm_chunk_mask(ref, entry)) != 0;
}

/* Each lane with `go` looks into some cells of class q, at random, and takes a page of a mask there; a lane that is alone looks into more. Returns its address, or
 * 0. All lanes of `group` call. */
MM_FN uint64_t mm_cells_take(const struct mm_heap_ref *ref, uint32_t group, int go, uint32_t q) {
    const uint32_t tries = q >= MM_OURO_CELL_CLASSES ? 0 : mm_popcount(group) == 1 ? MM_OURO_CELL_TRIES : 1;
    const uint32_t random = mm_warp_shuffle(group, mm_random(), mm_ctz(group)) + mm_warp_lane();
    uint32_t at = random * MM_OURO_CELL_LOOKS;
    uint64_t address = 0;
    MM_ROLLED
    for (uint32_t i = 0; go && address == 0 && i < tries; i++, at += MM_OURO_CELL_LOOKS) {
        uint32_t held = 0;
        MM_UNROLLED(MM_OURO_CELL_LOOKS)
        for (uint32_t k = 0; k < MM_OURO_CELL_LOOKS; k++) {
            const uint32_t now = mm_load_relaxed_u32(mm_cell_at(ref, q, at + k));
            if (now != 0 && (held == 0 || ((random >> (16 + k) ^ i) & 1) != 0)) held = now;
        }
        if (held == 0) continue;
        uint64_t *const mask = mm_chunk_mask(ref, held - 1), seen = mm_load_relaxed_u64(mask);
        if (seen == 0) continue;
        const uint32_t page = mm_bits_pick(seen, at / MM_OURO_CELL_LOOKS); /* others take another one */
        if (mm_and_acquire_u64(mask, ~(1ull << page)) >> page & 1) address = mm_chunk_address(ref, held - 1, page, q);
    }
    mm_warp_sync(group);
    return address;
}

/* Of chunk allocators: the class of the cells that hold entries of free chunks. */
#define MM_OURO_CELL_FREE (MM_OURO_CELL_CLASSES - 1)
/* The caller has the entry of a chunk that has become free. Returns whether the cell of its place keeps it. */
MM_FN int mm_cell_keep(const struct mm_heap_ref *ref, uint32_t entry) {
    uint32_t *const cell = mm_cell_of(ref, MM_OURO_CELL_FREE);
    if (mm_load_relaxed_u32(cell) != 0 || !mm_cas_relaxed_u32(cell, 0, entry + 1)) return 0;
    mm_or_release_u64(mm_chunk_header(ref, entry), MM_OURO_CELLED);
    return 1;
}
#endif
