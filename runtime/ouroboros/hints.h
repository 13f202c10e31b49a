/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Cells of chunk allocators (cells.h says where they are). Not in the paper, in which all callers take pages of the chunk at the front of a queue.
 *
 * Hints. A cell of a class below MM_OURO_CELL_FREE names the chunk from which callers in that place took pages last. Nobody needs the chunk's entry to take pages:
 *   they are reserved by the header, which says whether the chunk still has the class. So a hint is stored and read without any order, and may name anything.
 *   A caller takes pages by a hint only if there are enough for all of its lanes: else few pages would be left in each of many chunks. If it gives back what it
 *   has reserved, since one mask had too few, it enqueues the chunk, which may have lost its entry meanwhile (chunk.h, I5).
 * Free chunks. A cell of class MM_OURO_CELL_FREE has the entry of a chunk that became free (chunk.h, I2): it goes there if the cell is empty, else into the queue.
 *   Who takes it out has it, as one from the queue. So a caller that frees the last page of a chunk and wants one again needs no queue.
 *   A hint may name a free chunk. Its entry stays where it is if a caller cuts it now. It does so only if that is a cell (MM_OURO_CELLED): there it is in nobody's
 *   way, and right again when the chunk becomes free. (Entries of cut chunks in the queue: at the end of a kernel some warps met thousands of them, one by one,
 *   and the list grew from 256 to 3,840 segments.)
 * MM_OURO_CELLED is a hint, too: it is set after the entry is in the cell, and may be set later than somebody takes it out.
 * Stale. A free chunk whose entry is in a cell of a place that no longer asks is found by callers that find neither a free chunk in the queue nor a fresh one, or
 *   by sweeps.
 */
#ifndef MM_OURO_HINTS_H
#define MM_OURO_HINTS_H

#include "runtime/ouroboros/pages.h"

/* Which cells a caller looks into: the one of its place, its hint first; hints of others; free chunks of others. */
enum mm_cells { MM_CELLS_NONE, MM_CELLS_OWN, MM_CELLS_OTHERS, MM_CELLS_FREE };

/* Callers in this place took pages of a chunk of class q. */
MM_FN void mm_cell_note(const struct mm_heap_ref *ref, uint32_t q, uint32_t chunk) {
    if (q < MM_OURO_CELL_FREE) mm_store_relaxed_u32(mm_cell_of(ref, q), chunk + 1);
}
/* One of some cells of class q, at random, that holds something; *at: where. Returns what it holds, or 0. */
MM_FN uint32_t mm_cells_look(const struct mm_heap_ref *ref, uint32_t q, uint32_t **at) {
    const uint32_t random = mm_random();
    uint32_t held = 0;
    MM_UNROLLED(MM_OURO_CELL_LOOKS)
    for (uint32_t k = 0; k < MM_OURO_CELL_LOOKS; k++) {
        uint32_t *const cell = mm_cell_at(ref, q, random * MM_OURO_CELL_LOOKS + k);
        const uint32_t now = mm_load_relaxed_u32(cell);
        if (now != 0 && (held == 0 || (random >> (16 + k) & 1) != 0)) held = now, *at = cell;
    }
    return held;
}
/* n pages of a chunk that a hint of class q names, or none if it has fewer. If the chunk has become free, and its entry is in a cell, the caller cuts it; the entry
 * stays there until somebody looks at it. */
MM_FN struct mm_pages_got mm_hint_take(const struct mm_heap_ref *ref, uint32_t chunk, uint32_t q, uint32_t n) {
    uint64_t header = MM_OURO_PREPARED;
    MM_ROLLED
    for (uint32_t looks = 0; looks < MM_OURO_LOOKS && (uint32_t)header == MM_OURO_PREPARED; looks++) {
        if (looks != 0) mm_pause(ref, 1);
        header = mm_load_relaxed_u64(mm_chunk_header(ref, chunk));
    }
    if ((uint32_t)header != 0) return mm_chunk_take(ref, chunk, q, n, n);
    struct mm_pages_got got = {0, 0, MM_QUEUE_NONE};
    if (!(header & MM_OURO_CELLED)) return got;
    mm_queue_reserve(ref, q, 1);
    return mm_chunk_cut(ref, chunk, q, n, 0);
}
/* Up to n pages of class q of a chunk that a cell names: the caller's own hint, or else its free chunk, if all find room in one; a hint of others; a free chunk of
 * others. */
MM_FN_RARE struct mm_pages_got mm_cells_chunk(const struct mm_heap_ref *ref, uint32_t q, uint32_t n, enum mm_cells which) {
    struct mm_pages_got got = {0, 0, MM_QUEUE_NONE};
    uint32_t *at = mm_cell_of(ref, MM_OURO_CELL_FREE), held = 0;
    if (q < MM_OURO_CELL_FREE && which != MM_CELLS_FREE) {
        uint32_t *from = mm_cell_of(ref, q);
        held = which == MM_CELLS_OWN ? mm_load_relaxed_u32(from) : mm_cells_look(ref, q, &from);
        if (held != 0) got = mm_hint_take(ref, held - 1, q, n);
        if (got.again != MM_QUEUE_NONE) mm_chunk_gave_back(ref, got.again, q);
    }
    const uint32_t tries = which == MM_CELLS_FREE ? MM_OURO_CELL_TRIES : which == MM_CELLS_OWN && n <= mm_chunk_pages(q);
    MM_ROLLED
    for (uint32_t i = 0; i < tries && got.bits == 0; i++) {
        if (which == MM_CELLS_FREE && mm_cells_look(ref, MM_OURO_CELL_FREE, &at) == 0) break;
        held = mm_exchange_acquire_u32(at, 0);
        if (held == 0) continue;
        mm_queue_reserve(ref, q, 1);
        got = mm_chunk_cut(ref, held - 1, q, n, 1);
    }
    if (got.bits != 0) mm_cell_note(ref, q, held - 1);
    return got;
}

#endif
