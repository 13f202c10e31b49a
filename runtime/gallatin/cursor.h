/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Cursors: how malloc finds a free slice without looking for one.
 *
 * A cursor is a number that lanes add to: place p of shard s means slice p % slices of entry (p / slices) % count[s] of the shard's table
 * (table.h). Each place is drawn by one lane, so lanes that draw at the same time go to different slices, and the lanes of a warp, which draw
 * as one, to neighbours: one atomic for each word. A cursor holds no memory: what it has passed is anybody's, and it comes round again.
 * Cursors are never moved to where more is free; a class in which that helps little is sampled instead (sample.h).
 *
 * Which shard: at random for each group of lanes. Cursors that belong to multiprocessors drift apart, and then run into each other's
 * wake; one cursor takes an atomic every ns or so (docs/notes/claims.md).
 */
#ifndef MM_GALLATIN_CURSOR_H
#define MM_GALLATIN_CURSOR_H

#include "runtime/gallatin/word.h"

/* How many shards a class uses whose first one has so many entries: fewer if its blocks are large and it has few. */
MM_FN uint32_t mm_class_shards(struct mm_class k, uint32_t first) {
    if (k.page_shift == 0 || first * k.slices >= MM_SHARDS_SLICES) return MM_SHARDS;
    return MM_SHARDS >> mm_at_most(k.page_shift, MM_SHARDS_SHIFT);
}

/* Lanes that `go`, those of `need`, which want class c all, draw a slice each from a cursor of it. Returns the address, or 0. All lanes of
 * `here` call. */
MM_FN uint64_t mm_cursor_draw(const struct mm_heap_ref *ref, uint32_t here, uint32_t need, int go, uint32_t c, uint32_t random) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const struct mm_class k = ref->classes[c];
    const uint32_t lane = mm_warp_lane(), leader = mm_ctz(need | here);
    uint64_t drawn = 0; /* count : 29 | shard : 3 | place : 32 */
    const uint32_t first = need ? mm_ctz(need) : leader;
    if (go && lane == first) {
        const uint32_t n0 = mm_load_cached_u32(&of->count[0]), s = mm_mulhi(random, mm_class_shards(k, n0));
        const uint32_t n = s == 0 ? n0 : mm_load_cached_u32(&of->count[s]);
        if (n != 0) drawn = ((uint64_t)(n << MM_SHARDS_SHIFT | s) << 32) | mm_add_relaxed_u32(&of->shard[s].cursor, mm_popcount(need));
    }
    drawn = mm_warp_shuffle_u64(here, drawn, first);
    const uint32_t n = (uint32_t)(drawn >> 32) >> MM_SHARDS_SHIFT, s = (uint32_t)(drawn >> 32) % MM_SHARDS;
    uint64_t entry = MM_ENTRY_NONE;
    uint32_t slice = 0;
    if (go && n != 0) {
        const uint32_t block = mm_class_block_of(k, (uint32_t)drawn + mm_popcount(need & mm_bits_low(lane)), &slice);
        entry = mm_table_look(ref, c, block % n * MM_SHARDS + s);
    }
    return mm_slices_claim(ref, here, mm_entry_is_of(entry, c), entry, slice, c);
}

#endif
