/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Narrow blocks: memory for a class whose blocks have several pages, in a heap whose free pages are scattered.
 *
 * A block of 32 slices of 8 KiB needs 16 free pages in a row. Where one object in a thousand stays, many pages are free, and hardly any rows. So before the
 * heap grows, or malloc returns NULL, a warp takes single pages, and makes a block of each: a narrow block. It has as many slices as fit in a page, 2 to 25.
 * In all else it is a block like others: its entry is in the table of its class, its words are those of its page, and it is retired in the same way. The
 * owner of its page and its entry name its shape (core/class.h), which says how many slices it has. Cursors count slices of wide blocks, so they would
 * seldom find one in a narrow block: draws leave these out, samples and sweeps do not.
 *
 * A warp makes as many narrow blocks as it needs slices, with these allocated. So it makes progress: nobody can retire the block before. While fewer than
 * 1/MM_NARROW_SHARE of the pages are free the heap grows instead. Narrow blocks do not count when a class grows by a share of itself (mm_class_wide).
 */
#ifndef MM_GALLATIN_NARROW_H
#define MM_GALLATIN_NARROW_H

#include "runtime/gallatin/make.h"

/* Finds a segment for narrow blocks, before the heap grows: of random ones, one for each lane, the one that has most free pages. MM_TREE_NONE: none has, or
 * the heap should grow. All lanes of `here` call. */
MM_FN uint32_t mm_narrow_segment(const struct mm_heap_ref *ref, uint32_t here) {
    const uint32_t lane = mm_warp_lane(), segments = (uint32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached);
    const uint32_t s = mm_mulhi(mm_random() + lane * 0x9e3779b1u, segments), free = mm_popcount(mm_load_relaxed_u64(&mm_segment_at(ref, s)->pages));
    const uint32_t all = mm_warp_sum(here, free), most = mm_warp_max(here, free << 5 | (31 - lane));
    if (most >> 5 == 0 || all * MM_NARROW_SHARE < mm_popcount(here) * MM_SEGMENT_PAGES) return MM_TREE_NONE;
    return mm_warp_shuffle(here, s, 31 - (most & 31));
}
/* Takes up to `want` pages of this segment; MM_TREE_NONE: of any. Returns the segment; *pages: the pages, 0 if there are none. Tries again if others take
 * what it saw: who gives up although there are pages would return NULL. */
MM_FN_RARE uint32_t mm_narrow_take(const struct mm_heap_ref *ref, uint32_t segment, uint32_t want, uint64_t *pages) {
    const uint32_t random = mm_random(), given = segment;
    int is_full = 0;
    *pages = 0;
    MM_ROLLED
    for (uint32_t tries = 0; *pages == 0 && tries < MM_TREE_TRIES && !(is_full && given != MM_TREE_NONE); tries++) {
        const uint32_t other = tries == 0 ? 0 : mm_tree_random(random + tries);
        if (given == MM_TREE_NONE) segment = mm_tree_find(mm_segment_room_tree(ref, 0), other >> 16);
        if (segment == MM_TREE_NONE) break;
        *pages = mm_room_take(ref, segment, mm_cut_evenly(0), want, other, &is_full);
    }
    return segment;
}

/* How many narrow blocks class c may have, so that there is room for the entries of wide blocks in any case. In the directory: even if all pages were wide
 * blocks. That is the smaller number in most heaps: for 8 KiB 1/128 of the reserved pages, and 1,000 to 2,000 more. In the pool of extents, which has 24
 * entries for each page (MM_TABLE_SHARE): a fourth of the pages. If each class has had as many, and the other pages as wide blocks, in turn, they take 23.1. */
MM_FN uint32_t mm_narrow_most(const struct mm_heap_ref *ref, uint32_t c) {
    const struct mm_class k = ref->classes[c];
    const uint32_t all = k.directory_length << MM_EXTENT_SHIFT, wide = (uint32_t)(ref->user_bytes >> (MM_PAGE_SHIFT + k.page_shift));
    return mm_at_most((uint32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached) * (MM_SEGMENT_PAGES / 4), all - wide);
}
/* Counts up to `want` more. Returns how many. Counted before they are made, since thousands of warps may be about to make some. */
MM_FN_RARE uint32_t mm_narrow_reserve(const struct mm_heap_ref *ref, uint32_t c, uint32_t want) {
    uint32_t *narrow = &mm_class_at(ref, c)->narrow;
    const uint32_t most = mm_narrow_most(ref, c), had = mm_add_relaxed_u32(narrow, want), got = had < most ? mm_at_most(want, most - had) : 0;
    if (got < want) mm_add_relaxed_u32(narrow, got - want);
    return got;
}

/* Makes narrow blocks with slices of class c for the lanes of `need`, a part of `here`: for as many as one segment has pages. Returns the caller's address,
 * or 0. All lanes of `here` call, with the same arguments. */
MM_FN_RARE uint64_t mm_narrow_make(const struct mm_heap_ref *ref, uint32_t here, uint32_t need, uint32_t c, int is_last) {
    const uint32_t lane = mm_warp_lane(), rank = mm_popcount(here & mm_bits_low(lane)), leader = mm_ctz(here), many = mm_popcount(here);
    const uint32_t shape = mm_shape_narrow(c), each = ref->classes[shape].slices, count = mm_popcount(need), of = mm_popcount(need & mm_bits_low(lane));
    uint32_t base = 0;
    uint64_t pages = 0;
    uint32_t segment = is_last ? MM_TREE_NONE : mm_narrow_segment(ref, here);
    if (segment == MM_TREE_NONE && !is_last) return 0;
    if (lane == leader) {
        const uint32_t want = mm_narrow_reserve(ref, c, mm_at_most((count + each - 1) / each, MM_MAKE_EACH * many));
        if (want != 0) segment = mm_narrow_take(ref, segment, want, &pages);
        const uint32_t got = mm_popcount(pages);
        if (got < want) mm_add_relaxed_u32(&mm_class_at(ref, c)->narrow, got - want);
        if (got != 0) base = mm_table_add(ref, c, got);
    }
    mm_warp_sync(here);
    base = mm_warp_shuffle(here, base, leader), segment = mm_warp_shuffle(here, segment, leader), pages = mm_warp_shuffle_u64(here, pages, leader);
    struct mm_blocks mine;
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) {
        const uint32_t n = rank + i * many;
        mine.page[i] = n < mm_popcount(pages) ? segment * MM_SEGMENT_PAGES + mm_bits_select(pages, n) : MM_MADE_NO_PAGES, mine.index[i] = base + n;
        mine.taken[i] = n * each < count ? (uint32_t)mm_bits_low(mm_at_most(count - n * each, each)) : 0;
    }
    mm_blocks_write(ref, here, shape, mine);
    mm_warp_sync(here);
    if (!(need >> lane & 1) || of / each >= mm_popcount(pages)) return 0;
    return mm_slice_address(ref, segment * MM_SEGMENT_PAGES + mm_bits_select(pages, of / each), c, of % each);
}

/* The same for lanes in shortage, group after group: before the heap grows (is: MM_SHORT_SOME), or if there is nothing else (MM_SHORT_NONE). A heap that
 * cannot grow first retires all free blocks, which may leave rows: narrow blocks may waste a fourth of a page. shorts: the lanes of the caller's group that
 * want a slice. All lanes of `here` call. */
MM_FN_RARE uint64_t mm_narrow_malloc(const struct mm_heap_ref *ref, uint32_t here, uint32_t shorts, uint32_t c, enum mm_short is) {
    uint64_t p = 0;
    const int is_due = is == MM_SHORT_NONE || (is == MM_SHORT_SOME && !mm_grow_is_refused(ref, 1));
    const int is_turn = is_due && mm_class_has_narrow(c) && !mm_is_checked(ref);
    MM_ROLLED
    for (uint32_t turns = mm_warp_ballot(here, is_turn); turns != 0; turns &= turns - 1) {
        const uint32_t of = mm_ctz(turns), want = mm_warp_shuffle(here, c, of);
        const int is_last = (int)mm_warp_shuffle(here, is == MM_SHORT_NONE, of);
        uint32_t need = mm_warp_shuffle(here, shorts, of), got;
        MM_ROLLED
        do { /* segment after segment */
            const uint64_t q = mm_narrow_make(ref, here, need, want, is_last);
            if (q != 0) p = q;
            got = mm_warp_ballot(here, q != 0);
            need &= ~got;
        } while (got != 0 && need != 0);
    }
    mm_warp_sync(here);
    return p;
}

#endif
