/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tables: the blocks of each size class.
 *
 * Representation. The table of a class consists of extents of MM_EXTENT entries. The first one is at a place of its own (ref->firsts), so finding its
 *   entries costs no access, and it is all 0, empty, when a heap begins. The numbers of the others, plus 1, are in the class's part of the directory; a class
 *   gets them only as its number of blocks grows. An entry (handles.h) names a block, or is empty for a moment. index[page] of a block's first page is the
 *   index of its entry.
 *   count  the table's entries are [0, count); narrow: so many of them name narrow blocks, with a lag.
 * Invariants.
 *   I1  an entry may be stale. That does no harm: the block's words then have another generation than the entry (word.h).
 *   I2  a block that is not retired is in the table, at index[its page]. For a moment it may be there twice, or not yet.
 *   I3  an entry is written once, by the thread that got its index from the count. Only the holder of the class's lock removes or moves entries.
 *   I4  in a quiescent heap no entry below the count is empty: a table has no holes, so a sample of the table is a sample of the class.
 * Removal. To remove k entries, copy the last entries of the table to the places of the removed ones, make the last k places empty, and lower the count by
 *   compare-and-swap. If another thread has added an entry meanwhile, restore everything, and try again with the new last entries.
 * Ordering. The count is lowered with release after the last entries became empty. A thread that adds to the count acquires, so it writes its entry later.
 * Progress. One thread attaches an extent, the others wait with a bound. The lock is held for a few accesses, and waited for with a bound; a thread that
 *   does not get it leaves its block in the table.
 */
#ifndef MM_GALLATIN_TABLE_H
#define MM_GALLATIN_TABLE_H

#include "runtime/core/segment.h"

MM_FN struct mm_class_state *mm_class_at(const struct mm_heap_ref *ref, uint32_t c) { return (struct mm_class_state *)ref->classes_at + c; }

/* The wide blocks of class c; fewer while warps have reserved narrow blocks, or retire some (a hint). */
MM_FN uint32_t mm_class_wide(const struct mm_heap_ref *ref, uint32_t c) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const uint32_t count = mm_load_relaxed_u32(&of->count), narrow = mm_load_relaxed_u32(&of->narrow);
    return count > narrow ? count - narrow : 0;
}

#define MM_EXTENT_NONE 0u
#define MM_EXTENT_BUSY ~0u
MM_FN uint32_t *mm_table_directory(const struct mm_heap_ref *ref, uint32_t c, uint32_t index) {
    return (uint32_t *)ref->directory + ref->classes[c].directory + (index >> MM_EXTENT_SHIFT);
}
/* An entry of the class's first extent; of another one. */
MM_FN uint64_t *mm_table_first(const struct mm_heap_ref *ref, uint32_t c, uint32_t index) { return (uint64_t *)ref->firsts + c * MM_EXTENT + index; }
MM_FN uint64_t *mm_table_in(const struct mm_heap_ref *ref, uint32_t extent, uint32_t index) {
    return (uint64_t *)ref->words - ((uint64_t)extent << MM_EXTENT_SHIFT) + (index & (MM_EXTENT - 1));
}

/* Entry `index` of class c; index is below a count that was read. is_cached: the value may be as old as the kernel. */
MM_FN uint64_t mm_table_load(const struct mm_heap_ref *ref, uint32_t c, uint32_t index, int is_cached) {
    uint64_t *entry = mm_table_first(ref, c, index);
    if (index >= MM_EXTENT) {
        uint32_t *at = mm_table_directory(ref, c, index), extent = mm_load_cached_u32(at);
        if (extent + 1 <= 1) extent = mm_load_relaxed_u32(at); /* once attached, an extent stays */
        if (extent + 1 <= 1) return MM_ENTRY_NONE;
        entry = mm_table_in(ref, extent, index);
    }
    return is_cached ? mm_load_cached_u64(entry) : mm_load_relaxed_u64(entry);
}

/* The number of extents for which the table is mapped. */
MM_FN uint64_t mm_table_extents(const struct mm_heap_ref *ref) {
    return mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached) * (MM_TABLE_SHARE * MM_SEGMENT_PAGES) / MM_EXTENT;
}

/* Attaches an extent to an entry of the directory, which the caller has set to MM_EXTENT_BUSY. MM_EXTENT_NONE: no extent is left. */
MM_FN_RARE uint32_t mm_table_extend(const struct mm_heap_ref *ref, uint32_t *at) {
    struct mm_heap *h = mm_heap_of(ref);
    uint32_t extent = (uint32_t)mm_add_relaxed_u64(&h->extents, 1) + 1;
    if (extent > mm_table_extents(ref)) {
        mm_add_relaxed_u64(&h->extents, ~0ull);
        extent = MM_EXTENT_NONE;
    }
    uint64_t *entry = mm_table_in(ref, extent, 0);
    if (extent != MM_EXTENT_NONE) {
        MM_UNROLLED(8)
        for (uint32_t i = 0; i < MM_EXTENT; i += 2) mm_store_two(entry + i, MM_ENTRY_NONE, MM_ENTRY_NONE);
    }
    mm_store_release_u32(at, extent);
    return extent;
}

/* The address of an entry, or NULL if its extent is not attached. */
MM_FN uint64_t *mm_table_find(const struct mm_heap_ref *ref, uint32_t c, uint32_t index) {
    if (index < MM_EXTENT) return mm_table_first(ref, c, index);
    if (index >> MM_EXTENT_SHIFT >= ref->classes[c].directory_length) return NULL;
    const uint32_t extent = mm_load_relaxed_u32(mm_table_directory(ref, c, index));
    return extent + 1 > 1 ? mm_table_in(ref, extent, index) : NULL;
}

/* The address of an entry; attaches its extent if necessary. NULL: no extent is left. */
MM_FN_RARE uint64_t *mm_table_at(const struct mm_heap_ref *ref, uint32_t c, uint32_t index) {
    uint32_t *at = mm_table_directory(ref, c, index), extent = MM_EXTENT_NONE;
    if (index < MM_EXTENT) return mm_table_first(ref, c, index);
    if (index >> MM_EXTENT_SHIFT >= ref->classes[c].directory_length) return NULL;
    MM_ROLLED
    for (uint32_t polls = 0; polls < MM_WAIT_ITERATIONS; polls++) {
        extent = mm_load_acquire_u32(at);
        if (extent == MM_EXTENT_NONE && mm_cas_relaxed_u32(at, MM_EXTENT_NONE, MM_EXTENT_BUSY)) extent = mm_table_extend(ref, at);
        else if (extent == MM_EXTENT_NONE) continue;
        if (extent != MM_EXTENT_BUSY) break;
        mm_wait();
    }
    return extent + 1 > 1 ? mm_table_in(ref, extent, index) : NULL;
}

/* Whether the table has this entry of class c. It does not have it yet while the block is being made. Acquires. */
MM_FN int mm_table_has(const struct mm_heap_ref *ref, uint32_t c, uint64_t entry) {
    int has = 0;
    MM_ROLLED
    for (uint32_t looks = 0; !has && looks < MM_ENTRY_LOOKS; looks++) {                                      /* the entry may be moved meanwhile */
        uint64_t *at = mm_table_find(ref, c, mm_load_relaxed_u32(mm_page_index(ref, mm_entry_page(entry)))); /* the index may be garbage */
        has = at != NULL && mm_load_acquire_u64(at) == entry;
    }
    return has;
}

MM_STATIC_ASSERT(MM_SEGMENT_PAGES <= MM_EXTENT, "the entries of a segment's blocks are in one or two extents");
/* Reserves entries for n blocks, at most a segment's, that the caller is about to write. Returns the first index. */
MM_FN_RARE uint32_t mm_table_add(const struct mm_heap_ref *ref, uint32_t c, uint32_t n) {
    const uint32_t first = mm_add_acquire_u32(&mm_class_at(ref, c)->count, n);
    (void)mm_table_at(ref, c, first);
    if ((first ^ (first + n - 1)) >> MM_EXTENT_SHIFT != 0) (void)mm_table_at(ref, c, first + n - 1);
    return first;
}
/* Removes the entries of blocks that are being retired from the table of their class: one for each lane of `group`. The caller's warp holds the lock, and all
 * lanes of the group call. Returns whether it succeeded.
 *   With k blocks the last k places of the table become empty. The j-th entry there that stays moves to the j-th removed place before them. */
MM_FN_RARE int mm_table_take_out(const struct mm_heap_ref *ref, uint32_t group, uint64_t entry) {
    const uint32_t lane = mm_warp_lane(), rank = mm_popcount(group & mm_bits_low(lane)), k = mm_popcount(group), leader = mm_ctz(group);
    const uint32_t c = mm_entry_class(entry), index = mm_load_relaxed_u32(mm_page_index(ref, mm_entry_page(entry))); /* the entry may have been moved */
    const uint32_t narrow = mm_popcount(mm_warp_ballot(group, mm_entry_shape(entry) != c));
    uint32_t *count = &mm_class_at(ref, c)->count;
    MM_ROLLED
    for (uint32_t polls = 0; polls < MM_LOCK_POLLS; polls++) {
        const uint32_t low = mm_warp_shuffle(group, mm_load_relaxed_u32(count), leader) - k;
        uint64_t *at = mm_table_find(ref, c, index), *from = mm_table_find(ref, c, low + rank);
        const uint64_t last = from == NULL ? MM_ENTRY_NONE : mm_load_acquire_u64(from);
        if (mm_warp_ballot(group, last == MM_ENTRY_NONE) != 0) { /* an entry is not written yet */
            mm_wait();
            continue;
        }
        const uint32_t goes = mm_warp_or(group, index >= low ? 1u << (index - low) : 0); /* which of the last entries are removed */
        const uint32_t places = mm_warp_ballot(group, index < low);
        const int is_moved = !(goes >> rank & 1);
        const uint32_t place = mm_warp_shuffle(group, index, is_moved ? mm_bits_select(places, rank - mm_popcount(goes & mm_bits_low(rank))) : lane);
        if (is_moved) {
            mm_store_release_u64(mm_table_find(ref, c, place), last);
            mm_store_relaxed_u32(mm_page_index(ref, mm_entry_page(last)), place);
        }
        mm_store_relaxed_u64(from, MM_ENTRY_NONE);
        mm_warp_sync(group);
        const int is_out = lane == leader && mm_cas_acq_rel_u32(count, low + k, low);
        if (is_out && narrow != 0) mm_add_relaxed_u32(&mm_class_at(ref, c)->narrow, 0 - narrow);
        if (mm_warp_ballot(group, is_out) != 0) return 1;
        mm_store_release_u64(from, last);
        if (is_moved) mm_store_relaxed_u32(mm_page_index(ref, mm_entry_page(last)), low + rank);
        mm_warp_sync(group);
        if (index < low) mm_store_release_u64(at, entry);
    }
    return 0;
}

/* The same; takes the lock first. Returns false if the lock was not available within the bound. All lanes of the group call, and hold no other lock. */
MM_FN_RARE int mm_table_remove(const struct mm_heap_ref *ref, uint32_t group, uint64_t entry) {
    uint64_t *lock = &mm_class_at(ref, mm_entry_class(entry))->lock;
    const int is_leader = mm_warp_lane() == mm_ctz(group);
    int has_lock = 0, is_out = 0;
    MM_ROLLED
    for (uint32_t polls = 0; is_leader && !has_lock && polls < MM_LOCK_POLLS; polls++) {
        has_lock = mm_load_relaxed_u64(lock) == 0 && mm_cas_acquire_u64(lock, 0, 1);
        if (!has_lock) mm_wait();
    }
    mm_warp_sync(group);
    if (mm_warp_ballot(group, has_lock) == 0) return 0;
    is_out = mm_table_take_out(ref, group, entry);
    mm_warp_sync(group);
    if (is_leader) mm_store_release_u64(lock, 0);
    return is_out;
}

#endif
