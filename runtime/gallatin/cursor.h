/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Cursors: how malloc finds a free slice without looking for one.
 *
 * A cursor is a number that lanes add to: with n cursors, place p of cursor s means slice p % slices of entry ((p / slices) * n + s) % count of
 * the class's table (table.h). Each place is drawn by one lane, so lanes that draw at the same time go to different slices, and the lanes of
 * a warp, which draw as one, to neighbours: one atomic for each word. A cursor holds no memory: what it has passed is anybody's, and it comes
 * round again. Cursors are never moved to where more is free; a class in which that helps little is sampled instead (sample.h).
 *
 * Which cursor: at random for each group of lanes. Cursors that belong to multiprocessors drift apart, and then run into each other's
 * wake; one cursor takes an atomic every ns or so (docs/notes/claims.md).
 */
#ifndef MM_GALLATIN_CURSOR_H
#define MM_GALLATIN_CURSOR_H

#include "runtime/gallatin/word.h"

/* How many cursors a class has whose table has so many entries. */
MM_FN uint32_t mm_class_cursors(struct mm_class k, uint32_t count) {
    const uint32_t n = count * k.slices >> MM_CURSOR_SLICES_SHIFT;
    return n < 1 ? 1 : mm_at_most(n, MM_CURSORS);
}

/* A class that is growing (mm_class_raise): so many slices are drawn at its frontier, in place of places that others have. Returns the first, or
 * MM_PLACE_NONE: it has grown as far as it is to. */
#define MM_PLACE_NONE ~0u
MM_FN uint32_t mm_cursor_grow(const struct mm_heap_ref *ref, struct mm_class_state *of, uint32_t c, uint32_t limit, uint32_t n) {
    const uint64_t first = mm_add_relaxed_u64(&of->frontier, n);
    if (first < (uint64_t)limit * ref->classes[c].slices) return (uint32_t)first;
    mm_cas_relaxed_u64(&of->frontier, first + n, first); /* if others have drawn meanwhile, entries stay that nobody makes before they are drawn */
    mm_cas_relaxed_u32(&of->limit, limit, 0);
    return MM_PLACE_NONE;
}

/* Lanes that `go`, those of `need`, which want class c all, draw a slice each from a cursor of it. Returns the address, or 0, or what mm_token_grow
 * makes of one drawn at the frontier. All lanes of `here` call. */
MM_FN uint64_t mm_cursor_draw(const struct mm_heap_ref *ref, uint32_t here, uint32_t need, int go, uint32_t c, uint32_t random) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const struct mm_class k = ref->classes[c];
    const uint32_t lane = mm_warp_lane(), first = need ? mm_ctz(need) : mm_ctz(here), all = ~0u >> MM_CURSORS_SHIFT;
    uint64_t drawn = 0; /* count, or all bits if it grows : 29 | cursor : 3 | place : 32 */
    if (go && lane == first) {
        const uint32_t n = mm_load_cached_u32(&of->count), limit = mm_load_cached_u32(&of->limit), s = mm_mulhi(random, mm_class_cursors(k, n));
        const uint32_t place = limit != 0 ? mm_cursor_grow(ref, of, c, limit, mm_popcount(need)) : MM_PLACE_NONE;
        if (place != MM_PLACE_NONE) drawn = (uint64_t)(all << MM_CURSORS_SHIFT) << 32 | place;
        else if (n != 0) drawn = ((uint64_t)(n << MM_CURSORS_SHIFT | s) << 32) | mm_add_relaxed_u32(&of->cursor[s].place, mm_popcount(need));
    }
    drawn = mm_warp_shuffle_u64(here, drawn, first);
    const uint32_t n = (uint32_t)(drawn >> 32) >> MM_CURSORS_SHIFT, s = (uint32_t)(drawn >> 32) % MM_CURSORS;
    const uint32_t place = (uint32_t)drawn + mm_popcount(need & mm_bits_low(lane));
    uint64_t entry = MM_ENTRY_NONE;
    uint32_t slice = 0;
    if (go && n != 0 && n != all) {
        const uint32_t block = mm_class_block_of(k, place, &slice);
        entry = mm_table_look(ref, c, (block * mm_class_cursors(k, n) + s) % n);
    }
    const uint64_t p = mm_slices_claim(ref, here, mm_entry_is_of(entry, c), entry, slice, c);
    return n == all ? mm_token_grow(c, place) : p;
}

#endif
