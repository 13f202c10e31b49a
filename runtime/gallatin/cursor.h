/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Cursors: how malloc finds a free slice without a search.
 *
 * A cursor is a counter that lanes add to. With n cursors, cursor s passes through the entries s, s + n, s + 2 n, ... of the class's table (table.h), slice by
 * slice, and begins again at the end. Each position is drawn by one lane, so lanes that draw concurrently go to different slices; the lanes of a warp draw
 * together and get neighbouring slices, with one atomic for each word. A cursor reserves no memory: any lane may take slices that it has passed. Cursors are
 * never moved to a place with more free slices; a class in which cursors rarely succeed is sampled instead (sample.h).
 *
 * A warp's number chooses its cursor, so each cursor gets the same share of warps that want one slice each. Alternatives were measured
 * (docs/explanation/lessons.md): random choice gives one of eight cursors 6 % more than another with 1,000 warps each, so that it comes round before the class
 * is full; cursors of multiprocessors drift apart; one cursor sustains one atomic per ns or so. A warp that finds nothing at one cursor tries the next one.
 */
#ifndef MM_GALLATIN_CURSOR_H
#define MM_GALLATIN_CURSOR_H

#include "runtime/gallatin/word.h"

/* Log2 of the number of cursors of a class whose table has so many entries. */
MM_FN uint32_t mm_class_cursors_shift(struct mm_class k, uint32_t count) {
    const uint32_t n = count * k.slices >> MM_CURSOR_SLICES_SHIFT;
    return n == 0 ? 0 : mm_at_most(31 - mm_clz_u32(n), MM_CURSORS_SHIFT);
}
/* The index of the entry at position `place` of a cursor; *slice: the slice in that block. */
MM_FN uint32_t mm_cursor_entry(struct mm_class k, uint32_t count, uint32_t cursor, uint32_t place, uint32_t *slice) {
    const uint32_t shift = mm_class_cursors_shift(k, count), block = mm_class_block_of(k, place, slice);
    return (block % ((count - cursor + (1u << shift) - 1) >> shift) << shift) + cursor;
}

/* Whether callers must draw tickets, since the class is to grow. is_cached: the answer may be as old as the kernel. */
MM_FN int mm_class_is_growing(struct mm_class_state *of, int is_cached) {
    const uint32_t tickets = is_cached ? mm_load_cached_u32(&of->tickets) : mm_load_relaxed_u32(&of->tickets);
    return (int32_t)((is_cached ? mm_load_cached_u32(&of->until) : mm_load_relaxed_u32(&of->until)) - tickets) > 0;
}

/* Lanes with `go`, which are the lanes of `need` and all want class c, draw a slice each from a cursor of the class, or a ticket if the class is to grow. turn:
 * how often they have drawn. Returns the address, 0, or a ticket as mm_token_grow makes it. All lanes of `here` call. */
MM_FN uint64_t mm_cursor_draw(const struct mm_heap_ref *ref, uint32_t here, uint32_t need, int go, uint32_t c, uint32_t turn) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const struct mm_class k = ref->classes[c];
    const uint32_t lane = mm_warp_lane(), first = need ? mm_ctz(need) : mm_ctz(here), grows = ~0u >> MM_CURSORS_SHIFT;
    uint64_t drawn = 0; /* count, or `grows` : 29 | cursor : 3 | place, or ticket : 32 */
    if (go && lane == first) {
        uint32_t n = mm_load_cached_u32(&of->count);
        int is_growing = mm_class_is_growing(of, 1);
        if (turn != 0 || n == 0 || is_growing) n = mm_load_relaxed_u32(&of->count), is_growing = mm_class_is_growing(of, 0);
        const uint32_t s = (mm_warp_number() + turn) & ((1u << mm_class_cursors_shift(k, n)) - 1);
        if (n == 0 || is_growing) drawn = (uint64_t)(grows << MM_CURSORS_SHIFT) << 32 | mm_add_relaxed_u32(&of->tickets, mm_popcount(need));
        else drawn = (uint64_t)(n << MM_CURSORS_SHIFT | s) << 32 | mm_add_relaxed_u32(&of->cursor[s].place, mm_popcount(need));
    }
    drawn = mm_warp_shuffle_u64(here, drawn, first);
    const uint32_t n = (uint32_t)(drawn >> 32) >> MM_CURSORS_SHIFT, s = (uint32_t)(drawn >> 32) % MM_CURSORS;
    const uint32_t place = (uint32_t)drawn + mm_popcount(need & mm_bits_low(lane));
    uint64_t entry = MM_ENTRY_NONE;
    uint32_t slice = 0;
    if (go && n != grows) entry = mm_table_load(ref, c, mm_cursor_entry(k, n, s, place, &slice), turn == 0);
    const uint64_t p = mm_slices_claim(ref, here, mm_entry_is_of(entry, c), entry, slice, c);
    return go && n == grows ? mm_token_grow(c, place) : p;
}

#endif
