/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Retiring a block: a block whose slices are all free gives its pages back. free never does that. It happens when another class needs memory, before the heap
 * grows, and when the host wants memory (maintain.h). The lanes of a warp retire a block each, together, and take the lock of the table once for all of them.
 *
 * Steps. 1. Find the block's entry, which is written last: while a block is being made, garbage in its words may look like a block.
 *   2. Exchange each word, by compare-and-swap, from {the block's generation, all free} to {the same generation, none free}, word 0 first, so that of two
 *      warps one continues. If a word is not all free, stop, and set the bits that were taken again. Afterwards the block is the caller's: no thread can
 *      claim or free a slice there.
 *   3. Class by class, remove the entries from the table (if that fails, set the bits again).
 *   4. Give the words the next generation, which is odd; make the owners unowned; give the pages back (release).
 * A bit that is found set in step 4 was set by a misuse of free.
 */
#ifndef MM_GALLATIN_RETIRE_H
#define MM_GALLATIN_RETIRE_H

#include "runtime/core/shortage.h"
#include "runtime/gallatin/word.h"

/* Sets all bits again in the first n words of a block of this shape, whose bits were taken. */
MM_FN void mm_block_put_back(const struct mm_heap_ref *ref, uint32_t shape, uint32_t page, uint32_t n) {
    MM_ROLLED
    for (uint32_t i = 0; i < n; i++) mm_or_release_u64(mm_page_words(ref, page) + i, mm_class_word_mask(ref->classes[shape], i));
}

/* Takes all slices of the block that begins at a page, if there is a block and all of its slices are free. Returns its entry, or MM_ENTRY_NONE. Acquires. */
MM_FN_RARE uint64_t mm_block_take(const struct mm_heap_ref *ref, uint32_t page) {
    const uint32_t shape = mm_load_relaxed_u8(mm_page_owner(ref, page)) - 1;
    if (shape >= MM_SHAPES) return MM_ENTRY_NONE;
    const struct mm_class k = ref->classes[shape];
    uint64_t *word = mm_page_words(ref, page);
    const uint32_t generation = mm_word_generation(mm_load_relaxed_u64(word));
    uint32_t taken = 0;
    /* The shape of this generation never changes: I1 of word.h. */
    if (page & ((1u << k.page_shift) - 1) || generation & 1) return MM_ENTRY_NONE;
    const uint64_t entry = mm_entry_make(generation, page, shape);
    if (!mm_entry_is_of(entry, shape) || !mm_table_has(ref, mm_shape_class(shape), entry)) return MM_ENTRY_NONE; /* garbage, or the block is being made */
    MM_ROLLED
    for (uint32_t i = 0; i < k.words; i++) /* usually not all free: then no slice is taken from callers of malloc */
        if (mm_load_relaxed_u64(word + i) != mm_word_make(generation, mm_class_word_mask(k, i))) return MM_ENTRY_NONE;
    MM_ROLLED
    for (; taken < k.words; taken++)
        if (!mm_cas_acq_rel_u64(word + taken, mm_word_make(generation, mm_class_word_mask(k, taken)), mm_word_make(generation, 0))) break;
    if (taken == k.words && mm_load_relaxed_u8(mm_page_owner(ref, page)) == shape + 1) return entry;
    mm_block_put_back(ref, shape, page, taken);
    return MM_ENTRY_NONE;
}

/* Retires the block that begins at the caller's page (which may be MM_TREE_NONE), if there is one and all of its slices are free. Returns the number of pages
 * that came back. All lanes of `here` call, each with a different page. */
MM_FN_RARE uint32_t mm_blocks_retire(const struct mm_heap_ref *ref, uint32_t here, uint32_t page) {
    const uint64_t entry = page != MM_TREE_NONE ? mm_block_take(ref, page) : MM_ENTRY_NONE;
    const uint32_t lane = mm_warp_lane(), c = mm_entry_class(entry);
    int is_out = 0;
    mm_warp_sync(here);
    uint32_t rest = mm_warp_ballot(here, entry != MM_ENTRY_NONE);
    MM_ROLLED
    while (rest != 0) { /* a warp holds at most one lock */
        const uint32_t of = mm_warp_shuffle(here, c, mm_ctz(rest)), group = mm_warp_ballot(here, c == of && entry != MM_ENTRY_NONE);
        if (group >> lane & 1) is_out = mm_table_remove(ref, group, entry);
        mm_warp_sync(here);
        rest &= ~group;
    }
    if (entry == MM_ENTRY_NONE) return 0;
    const uint32_t shape = mm_entry_shape(entry);
    const struct mm_class k = ref->classes[shape];
    if (!is_out) {
        mm_block_put_back(ref, shape, page, k.words);
        return 0;
    }
    MM_ROLLED
    for (uint32_t i = 0; i < k.words; i++) mm_store_relaxed_u64(mm_page_words(ref, page) + i, mm_word_make(mm_generation_end(mm_entry_generation(entry)), 0));
    mm_pages_own(ref, page, 1u << k.page_shift, MM_OWNER_NOBODY);
    mm_pages_put(ref, page / MM_SEGMENT_PAGES, mm_bits_low(1u << k.page_shift) << page % MM_SEGMENT_PAGES);
    return 1u << k.page_shift;
}

/* The pages of segment s at which blocks begin whose first word is all free, one bit each. *count: pages of these blocks. */
MM_FN_RARE uint64_t mm_segment_free_blocks(const struct mm_heap_ref *ref, uint32_t s, uint32_t *count) {
    uint64_t free = 0;
    const int any = mm_segment_is_owned(ref, s);
    MM_ROLLED
    for (uint32_t i = 0; any && i < MM_SEGMENT_PAGES; i += MM_RETIRE_AT_ONCE) {
        uint64_t word[MM_RETIRE_AT_ONCE];
        uint32_t some = 0;
        for (uint32_t k = 0; k < MM_RETIRE_AT_ONCE; k++) word[k] = mm_load_relaxed_u64(mm_page_words(ref, s * MM_SEGMENT_PAGES + i + k));
        for (uint32_t k = 0; k < MM_RETIRE_AT_ONCE; k++) { /* free slices are the first ones: so it is in a free block of any class, and seldom elsewhere */
            const uint32_t bits = mm_word_free(word[k]);
            if (bits != 0 && (bits & (bits + 1)) == 0) some |= 1u << k;
        }
        MM_ROLLED
        for (; some != 0; some &= some - 1) {
            const uint32_t at = i + mm_ctz(some), page = s * MM_SEGMENT_PAGES + at, shape = mm_load_relaxed_u8(mm_page_owner(ref, page)) - 1u;
            if (shape >= MM_SHAPES || at & ((1u << ref->classes[shape].page_shift) - 1)) continue;
            if (mm_word_free(mm_load_relaxed_u64(mm_page_words(ref, page))) == mm_class_word_mask(ref->classes[shape], 0))
                free |= 1ull << at, *count += 1u << ref->classes[shape].page_shift;
        }
    }
    return free;
}

/* Retires those blocks of segment s that begin at `pages` and whose slices are all free. Returns the number of pages that came back. All lanes of `here`
 * call, with the same segment and pages. */
MM_FN_RARE uint32_t mm_segment_retire_of(const struct mm_heap_ref *ref, uint32_t here, uint32_t s, uint64_t pages) {
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane())), many = mm_popcount(here);
    uint32_t got = 0;
    MM_ROLLED
    for (uint32_t done = 0, all = mm_popcount(pages); done < all; done += many) {
        const uint32_t i = done + rank;
        got += mm_blocks_retire(ref, here, i < all ? s * MM_SEGMENT_PAGES + mm_bits_select(pages, i) : MM_TREE_NONE);
    }
    got = mm_warp_sum(here, got);
    if (got != 0 && mm_warp_lane() == mm_ctz(here)) mm_add_relaxed_u64(&mm_heap_of(ref)->retired, got);
    return got;
}
/* Retires all free blocks of segment s. Returns whether there were any. All lanes of `here` call, with the same segment. */
MM_FN int mm_segment_retire(const struct mm_heap_ref *ref, uint32_t here, uint32_t s) {
    uint32_t count = 0;
    return mm_segment_retire_of(ref, here, s, mm_warp_shuffle_u64(here, mm_segment_free_blocks(ref, s, &count), mm_ctz(here))) != 0;
}

/* See shortage.h. The lanes examine random segments, and the warp retires the free blocks of the one that has most: so a whole group of blocks finds room
 * there. Leaves out classes that other warps are retiring. */
MM_FN_RARE uint32_t mm_slices_retire_some(const struct mm_heap_ref *ref, uint32_t here, int *is_busy) {
    const uint32_t lane = mm_warp_lane(), many = mm_popcount(here), segments = (uint32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached);
    uint32_t random = mm_random() + lane * 0x9e3779b1u, most = 0, at = 0;
    uint64_t pages = 0;
    int is_locked = 0;
    MM_ROLLED
    for (uint32_t i = 0; i == 0 || i + many <= mm_at_most(MM_RETIRE_SEGMENTS, segments); i += many) {
        const uint32_t s = mm_mulhi(random, segments);
        uint32_t count = 0;
        const uint64_t free = mm_segment_free_blocks(ref, s, &count);
        random = mm_random_next(random);
        if (count <= most) continue;
        const uint32_t shape = mm_load_relaxed_u8(mm_page_owner(ref, s * MM_SEGMENT_PAGES + mm_ctz(free))) - 1u;
        if (shape < MM_SHAPES && mm_load_relaxed_u64(&mm_class_at(ref, mm_shape_class(shape))->lock) != 0) is_locked = 1;
        else most = count, at = s, pages = free;
    }
    mm_warp_sync(here);
    *is_busy = mm_warp_ballot(here, is_locked) != 0;
    const uint32_t of = 31 - (mm_warp_max(here, most << 5 | (31 - lane)) & 31);
    return mm_segment_retire_of(ref, here, mm_warp_shuffle(here, at, of), mm_warp_shuffle_u64(here, pages, of));
}

/* See shortage.h. Begins at the back of the heap, where runs are claimed (run.h): a run that is claimed meanwhile then finds consecutive free segments. */
MM_FN_RARE int mm_slices_retire_all(const struct mm_heap_ref *ref, uint32_t here) {
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane())), many = mm_popcount(here);
    int any = 0;
    MM_ROLLED
    for (uint32_t left = mm_warp_shuffle(here, (uint32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached), mm_ctz(here)); left > 0;
         left -= mm_at_most(left, many)) {
        uint32_t count = 0;
        const uint64_t pages = rank < left ? mm_segment_free_blocks(ref, left - 1 - rank, &count) : 0;
        MM_ROLLED
        for (uint32_t rest = mm_warp_ballot(here, pages != 0); rest != 0; rest &= rest - 1) {
            const uint32_t of = mm_ctz(rest), s = mm_warp_shuffle(here, left - 1 - rank, of);
            const int had = any;
            any |= mm_segment_retire_of(ref, here, s, mm_warp_shuffle_u64(here, pages, of)) != 0;
            if (any && !had && mm_warp_lane() == mm_ctz(here)) mm_flight_found_some((uint64_t *)ref->giving_up);
        }
    }
    return any;
}

#endif
