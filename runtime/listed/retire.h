/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Giving segments back: a segment in which nothing is live leaves the list, and becomes free. free never does that; it happens when other memory is short
 * (core/shortage.h) and when the host wants memory (maintain.h).
 *
 * Steps. 1. Look whether the low halves of all words are 0. 2. Take the lock of the list, and look whether the segment is in it: it may be on its way. 3. Make
 *   each word full by a compare-and-swap that finds its low half 0; if one fails, make those that were made full 0 again: the segment may have left the list
 *   meanwhile. 4. Take the segment out of the list, make its pages unowned, and give it back. Its words stay full (list.h). 5. Release the lock: while a
 *   segment is in neither place, the list is locked, and a caller that finds no memory waits.
 */
#ifndef MM_LISTED_RETIRE_H
#define MM_LISTED_RETIRE_H

#include "runtime/core/shortage.h"
#include "runtime/listed/list.h"

/* Makes words w, w + step, ... of segment s full, MM_LISTED_RETIRE_AT_ONCE of them, so that their accesses overlap. Returns whether the low halves of all of
 * them were 0; if not, none is changed. */
MM_FN int mm_listed_take(const struct mm_heap_ref *ref, uint32_t s, uint32_t w, uint32_t step) {
    uint64_t seen[MM_LISTED_RETIRE_AT_ONCE];
    uint32_t is_full = 0;
    for (uint32_t i = 0; i < MM_LISTED_RETIRE_AT_ONCE; i++)
        seen[i] = w + i * step < MM_LISTED_WORDS ? mm_load_relaxed_u64(mm_listed_word(ref, s * MM_LISTED_WORDS + w + i * step)) : 0;
    for (uint32_t i = 0; i < MM_LISTED_RETIRE_AT_ONCE; i++) {
        uint64_t *word = mm_listed_word(ref, s * MM_LISTED_WORDS + w + i * step);
        const int is_there = w + i * step < MM_LISTED_WORDS;
        if (!is_there || ((uint32_t)seen[i] == 0 && mm_cas_acq_rel_u64(word, seen[i], seen[i] | MM_LISTED_FULL))) is_full |= 1u << i;
    }
    if (is_full == (1u << MM_LISTED_RETIRE_AT_ONCE) - 1) return 1;
    MM_ROLLED
    for (uint32_t i = 0; i < MM_LISTED_RETIRE_AT_ONCE; i++)
        if (is_full >> i & 1 && w + i * step < MM_LISTED_WORDS) mm_and_release_u64(mm_listed_word(ref, s * MM_LISTED_WORDS + w + i * step), ~MM_LISTED_FULL);
    return 0;
}

/* Gives segment s back, if it is in the list and nothing in it is live. Returns whether it did. All lanes of `here` call. */
MM_FN_RARE int mm_segment_retire(const struct mm_heap_ref *ref, uint32_t here, uint32_t s) {
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane())), many = mm_popcount(here), leader = mm_ctz(here);
    uint32_t is_locked = 0, taken = rank;
    int is_free = mm_list_has(ref, s);
    MM_ROLLED
    for (uint32_t w = rank; is_free && w < MM_LISTED_WORDS; w += many)
        is_free = (uint32_t)mm_load_relaxed_u64(mm_listed_word(ref, s * MM_LISTED_WORDS + w)) == 0;
    if (mm_warp_ballot(here, !is_free) != 0) return 0;
    MM_ROLLED
    for (uint32_t polls = 0; rank == 0 && !is_locked && polls < MM_LOCK_POLLS && !mm_list_is_own(ref); polls++) is_locked = (uint32_t)mm_list_lock(ref);
    mm_warp_sync(here);
    if (!mm_warp_shuffle(here, is_locked, leader)) return 0;
    is_free = mm_list_sees(ref, s);
    MM_ROLLED
    for (; is_free && taken < MM_LISTED_WORDS; taken += is_free ? MM_LISTED_RETIRE_AT_ONCE * many : 0) is_free = mm_listed_take(ref, s, taken, many);
    mm_warp_sync(here);
    if (mm_warp_ballot(here, !is_free) != 0) {
        MM_ROLLED
        for (uint32_t w = rank; w < taken && w < MM_LISTED_WORDS; w += many) mm_and_release_u64(mm_listed_word(ref, s * MM_LISTED_WORDS + w), ~MM_LISTED_FULL);
        mm_warp_sync(here);
        mm_list_unlock(ref, here);
        return 0;
    }
    if (rank == 0) mm_list_remove(ref, s);
    MM_ROLLED
    for (uint32_t page = rank; page < MM_SEGMENT_PAGES; page += many) mm_pages_own(ref, s * MM_SEGMENT_PAGES + page, 1, MM_OWNER_NOBODY);
    mm_warp_sync(here);
    if (rank == 0) {
        mm_tree_insert(mm_segment_free_tree(ref), s);
        mm_add_relaxed_u64(&mm_heap_of(ref)->free_count, 1);
        mm_add_relaxed_u64(&mm_heap_of(ref)->retired, MM_SEGMENT_PAGES);
    }
    mm_warp_sync(here);
    mm_list_unlock(ref, here);
    return 1;
}

/* See shortage.h. */
MM_FN_RARE uint32_t mm_slices_retire_some(const struct mm_heap_ref *ref, uint32_t here, int *is_busy) {
    const uint32_t leader = mm_ctz(here), count = mm_warp_shuffle(here, mm_list_count(ref), leader);
    uint32_t got = 0, random = mm_warp_shuffle(here, mm_random(), leader);
    *is_busy = 0;
    MM_ROLLED
    for (uint32_t i = 0; count != 0 && i < MM_LISTED_RETIRE_SOME; i++, random = mm_random_next(random))
        got += mm_segment_retire(ref, here, mm_warp_shuffle(here, mm_list_segment(ref, mm_mulhi(random, count)), leader)) ? MM_SEGMENT_PAGES : 0;
    return got;
}

/* See shortage.h. Begins at the back of the heap, where runs are claimed (run.h). */
MM_FN_RARE int mm_slices_retire_all(const struct mm_heap_ref *ref, uint32_t here) {
    int any = 0;
    MM_ROLLED
    for (uint32_t s = mm_warp_shuffle(here, (uint32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached), mm_ctz(here)); s-- > 0;) {
        if (!mm_segment_retire(ref, here, s)) continue;
        if (!any && mm_warp_lane() == mm_ctz(here)) mm_flight_found_some((uint64_t *)ref->giving_up);
        any = 1;
    }
    return any;
}

#endif
