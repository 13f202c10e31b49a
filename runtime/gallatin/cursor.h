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
/* The index of the entry at position `place` of a cursor, of 1 << shift; *slice: the slice in that block. */
MM_FN uint32_t mm_cursor_entry(struct mm_class k, uint32_t count, uint32_t shift, uint32_t cursor, uint32_t place, uint32_t *slice) {
    const uint32_t block = mm_class_block_of(k, place, slice);
    return (block % (((count - cursor - 1) >> shift) + 1) << shift) + cursor;
}

/* Whether callers must draw tickets, since the class is to grow. is_cached: the answer may be as old as the kernel. */
MM_FN int mm_class_is_growing(struct mm_class_state *of, int is_cached) {
    uint32_t tickets, until;
    if (is_cached) mm_gather_cached_u32(&of->tickets, &tickets, &until);
    else mm_gather_u32(&of->tickets, &tickets, &until);
    return (int32_t)(until - tickets) > 0;
}

/* What a cursor gave: {log2 of the number of cursors : 2 | the table's count, or MM_CURSOR_GROWS : 27 | cursor : 3 | first place, or ticket : 32}. */
#define MM_CURSOR_COUNT_BITS 27
#define MM_CURSOR_GROWS ((1u << MM_CURSOR_COUNT_BITS) - 1)
MM_STATIC_ASSERT(MM_CURSORS_SHIFT == 3 && (uint64_t)MM_TREE_BITS_MAX * MM_SEGMENT_PAGES < MM_CURSOR_GROWS, "mm_drawn_make");
MM_FN uint64_t mm_drawn_make(uint32_t shift, uint32_t count, uint32_t cursor, uint32_t place) {
    return (uint64_t)((shift << MM_CURSOR_COUNT_BITS | count) << MM_CURSORS_SHIFT | cursor) << 32 | place;
}
MM_FN uint32_t mm_drawn_shift(uint64_t drawn) { return (uint32_t)(drawn >> 32) >> (MM_CURSORS_SHIFT + MM_CURSOR_COUNT_BITS); }
MM_FN uint32_t mm_drawn_count(uint64_t drawn) { return (uint32_t)(drawn >> (32 + MM_CURSORS_SHIFT)) & MM_CURSOR_GROWS; }
MM_FN uint32_t mm_drawn_cursor(uint64_t drawn) { return (uint32_t)(drawn >> 32) % MM_CURSORS; }
MM_FN int mm_drawn_is_ticket(uint64_t drawn) { return mm_drawn_count(drawn) == MM_CURSOR_GROWS; }

/* How many lanes draw. A first draw counts them where it adds, so that the number is in no register before (hardware.md). */
MM_FN uint32_t mm_cursor_lanes(const struct mm_heap_ref *ref, uint32_t turn, uint32_t group) { return mm_popcount(turn == 0 ? mm_hidden(ref, group) : group); }
/* Draws a position of a cursor of class c for each lane of a group, or a ticket if the class is to grow. turn: how often the caller has drawn. */
MM_FN uint64_t mm_cursor_add(const struct mm_heap_ref *ref, uint32_t c, uint32_t turn, uint32_t group) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const uint32_t count = turn == 0 ? mm_load_cached_u32(&of->count) : mm_load_relaxed_u32(&of->count);
    const int is_growing = mm_class_is_growing(of, turn == 0);
    if (count == 0 || is_growing) return mm_drawn_make(0, MM_CURSOR_GROWS, 0, mm_add_relaxed_u32(&of->tickets, mm_cursor_lanes(ref, turn, group)));
    const uint32_t shift = mm_class_cursors_shift(ref->classes[c], count), s = (mm_warp_number() + turn) & ((1u << shift) - 1);
    return mm_drawn_make(shift, count, s, mm_add_relaxed_u32(&of->cursor[s].place, mm_cursor_lanes(ref, turn, group)));
}
/* The entry at a position that was drawn; *slice: the slice in that block. is_cached: the value may be as old as the kernel. */
MM_FN uint64_t mm_drawn_entry(const struct mm_heap_ref *ref, uint32_t c, uint64_t drawn, uint32_t place, int is_cached, uint32_t *slice) {
    const uint32_t index = mm_cursor_entry(ref->classes[c], mm_drawn_count(drawn), mm_drawn_shift(drawn), mm_drawn_cursor(drawn), place, slice);
    return mm_table_load(ref, c, index, is_cached);
}

/* Lanes with `go`, which are the lanes of `need` and all want class c, draw a slice each from a cursor of the class, or a ticket if the class is to grow. turn:
 * how often they have drawn. Returns the address, 0, or a ticket as mm_token_grow makes it. All lanes of `here` call. */
MM_FN uint64_t mm_cursor_draw(const struct mm_heap_ref *ref, uint32_t here, uint32_t need, int go, uint32_t c, uint32_t turn) {
    const uint32_t lane = mm_warp_lane(), first = need ? mm_ctz(need) : mm_ctz(here);
    uint64_t drawn = 0;
    if (go && lane == first) drawn = mm_cursor_add(ref, c, turn, need);
    drawn = mm_warp_shuffle_u64(here, drawn, first);
    const uint32_t place = (uint32_t)drawn + mm_popcount(need & mm_bits_low(lane));
    uint64_t entry = MM_ENTRY_NONE;
    uint32_t slice = 0;
    if (go && !mm_drawn_is_ticket(drawn)) entry = mm_drawn_entry(ref, c, drawn, place, turn == 0, &slice);
    const uint64_t p = mm_slices_claim(ref, here, mm_entry_is_of(entry, c), entry, slice, c);
    return go && mm_drawn_is_ticket(drawn) ? mm_token_grow(c, place) : p;
}

/* The first draw of the lanes of `here`, which all call: each draws a slice of its class c from a cursor, and claims it. Returns the address, or a token for
 * mm_small_malloc. The same as above without its rare cases: no second claim, and no slices if a lane of the warp has a ticket. So the compiler finds enough
 * registers that a function need not save; what functions save is most of what malloc writes.
 *   Of lanes of one class whose entries name the same page, and whose slices are in one word, one claims for all, with its own entry. If that names the block
 * which is there now, the slices are that block's, however old the entries of the others are. If not, none of them gets anything. */
MM_FN uint64_t mm_cursor_draw_first(const struct mm_heap_ref *ref, uint32_t here, int is_warp, uint32_t c) {
    uint32_t group = mm_warp_match(here, c), slice, free = 0;
    uint64_t drawn = 0;
    if ((group & mm_warp_before()) == 0) drawn = mm_cursor_add(ref, c, 0, group);
    drawn = mm_warp_shuffle_u64(here, drawn, mm_warp_first(group));
    const uint32_t place = (uint32_t)drawn + mm_popcount(group & mm_warp_before());
    if (mm_warp_ballot(here, mm_drawn_is_ticket(drawn)) != 0) return mm_drawn_is_ticket(drawn) ? mm_token_grow(c, place) : MM_TOKEN | c;
    const uint64_t entry = mm_drawn_entry(ref, mm_anew(c), drawn, place, 1, &slice);
    const uint32_t page = mm_entry_page(entry), number = mm_slice_word(ref, page, slice);
    const int go = mm_entry_is_of(entry, c);
    group &= mm_warp_ballot(here, go);
    group &= mm_warp_match(here, number);
    const uint32_t more = slice - mm_warp_shuffle(here, slice, mm_warp_first(group)) - mm_popcount(group & ~mm_warp_from());
    if (mm_warp_ballot(here, go && more % (1u << MM_WORD_SHIFT) != 0) != 0) group &= mm_warp_self();
    if (go && (group & (0 - group) & mm_warp_self()) != 0)
        free = mm_word_claim((uint64_t *)ref->words + number, mm_entry_generation(entry), mm_rotate_left((uint32_t)mm_bits_low(mm_popcount(group)), slice));
    mm_warp_sync(here);
    free = mm_warp_shuffle(here, free, mm_warp_first(group));
    if (!go || !(free >> slice % (1u << MM_WORD_SHIFT) & 1)) return MM_TOKEN | c;
    const uint32_t at = is_warp ? mm_hidden(ref, number) >> (uint32_t)ref->word_shift : page; /* the page again, for a full warp without a register for it */
    return mm_page_address(ref, at) + slice * mm_class_bytes(mm_hidden(ref, c));
}

#endif
