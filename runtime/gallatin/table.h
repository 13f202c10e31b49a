/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tables: which blocks a class has.
 *
 * Representation. The table of a class comes in extents of MM_EXTENT entries, whose numbers (+ 1) are in its part of the directory; a class
 *   that never had so many blocks has none. An entry (handles.h) is a block, or nothing for a moment. index[page] of a block's first page
 *   says where its entry is.
 *   count  entries of the table: [0, count).
 * Invariants.
 *   I1  an entry may be stale, and is then no harm: whoever follows it learns from the block's words, which have another generation (word.h).
 *   I2  a block that is not retired is in the table, at index[its page]; for a moment perhaps twice, or not yet.
 *   I3  an entry is put in by who has got its number from the count, once. Entries are taken out, and moved, by who holds the class's lock.
 *   I4  when nobody is at work no entry below the count is nothing: a table has no holes, so that a sample of it is a sample of the class.
 * Taking out. The last entries, as many as go, are copied to the places of those that go, and become nothing; then the count goes down, by
 *   compare-and-swap. If somebody has put in an entry meanwhile, all is put back, and tried again with that.
 * Ordering. The count goes down with release after the last entry has become nothing, and who adds to it acquires: his entry comes later.
 * Progress. Extents are attached by one, the others wait with a bound. The lock is held for some accesses, and waited for with a bound; who
 *   does not get it leaves the block as it is.
 */
#ifndef MM_GALLATIN_TABLE_H
#define MM_GALLATIN_TABLE_H

#include "runtime/core/segment.h"

MM_FN struct mm_class_state *mm_class_at(const struct mm_heap_ref *ref, uint32_t c) { return (struct mm_class_state *)ref->classes_at + c; }
MM_FN uint32_t *mm_table_index(const struct mm_heap_ref *ref, uint32_t page) { return (uint32_t *)ref->indexes + page; }

#define MM_EXTENT_NONE 0u
#define MM_EXTENT_BUSY ~0u
MM_FN uint32_t *mm_table_directory(const struct mm_heap_ref *ref, uint32_t c, uint32_t index) {
    return (uint32_t *)ref->directory + ref->classes[c].directory + (index >> MM_EXTENT_SHIFT);
}
MM_FN uint64_t *mm_table_in(const struct mm_heap_ref *ref, uint32_t extent, uint32_t index) {
    return (uint64_t *)ref->table + ((uint64_t)(extent - 1) << MM_EXTENT_SHIFT) + (index & (MM_EXTENT - 1));
}

/* Entry `index` of class c, which is below a count. is_cached: it may be as old as the kernel. */
MM_FN uint64_t mm_table_load(const struct mm_heap_ref *ref, uint32_t c, uint32_t index, int is_cached) {
    uint32_t *at = mm_table_directory(ref, c, index);
    const uint32_t extent = is_cached ? mm_load_cached_u32(at) : mm_load_relaxed_u32(at);
    if (extent + 1 <= 1) return MM_ENTRY_NONE;
    return is_cached ? mm_load_cached_u64(mm_table_in(ref, extent, index)) : mm_load_relaxed_u64(mm_table_in(ref, extent, index));
}

/* Extents that there may be: the table is mapped so far. */
MM_FN uint64_t mm_table_extents(const struct mm_heap_ref *ref) {
    return MM_CLASS_COUNT + mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached) * (MM_TABLE_SHARE * MM_SEGMENT_PAGES) / MM_EXTENT;
}

/* An extent for the directory's entry `at`, of class c, which is MM_EXTENT_BUSY by the caller. MM_EXTENT_NONE: there are no more. The first one of
 * a class is its own from the beginning, whatever others have. */
MM_FN_RARE uint32_t mm_table_extend(const struct mm_heap_ref *ref, uint32_t c, uint32_t *at) {
    struct mm_heap *h = mm_heap_of(ref);
    const int is_first = at == mm_table_directory(ref, c, 0);
    uint32_t extent = is_first ? c + 1 : MM_CLASS_COUNT + (uint32_t)mm_add_relaxed_u64(&h->extents, 1) + 1;
    if (extent > mm_table_extents(ref)) {
        mm_add_relaxed_u64(&h->extents, ~0ull);
        extent = MM_EXTENT_NONE;
    }
    uint64_t *entry = mm_table_in(ref, extent, 0);
    if (extent != MM_EXTENT_NONE) {
        MM_ROLLED
        for (uint32_t i = 0; i < MM_EXTENT; i += 2) mm_store_two(entry + i, MM_ENTRY_NONE, MM_ENTRY_NONE);
    }
    mm_store_release_u32(at, extent);
    return extent;
}

/* The entry's address. NULL: it has no extent. */
MM_FN uint64_t *mm_table_find(const struct mm_heap_ref *ref, uint32_t c, uint32_t index) {
    if (index >> MM_EXTENT_SHIFT >= ref->classes[c].directory_length) return NULL;
    const uint32_t extent = mm_load_relaxed_u32(mm_table_directory(ref, c, index));
    return extent + 1 > 1 ? mm_table_in(ref, extent, index) : NULL;
}

/* The entry's address, with an extent if there was none. NULL: there is no room for it. */
MM_FN_RARE uint64_t *mm_table_at(const struct mm_heap_ref *ref, uint32_t c, uint32_t index) {
    uint32_t *at = mm_table_directory(ref, c, index), extent = MM_EXTENT_NONE;
    if (index >> MM_EXTENT_SHIFT >= ref->classes[c].directory_length) return NULL;
    MM_ROLLED
    for (uint32_t polls = 0; polls < MM_WAIT_ITERATIONS; polls++) {
        extent = mm_load_acquire_u32(at);
        if (extent == MM_EXTENT_NONE && mm_cas_relaxed_u32(at, MM_EXTENT_NONE, MM_EXTENT_BUSY)) extent = mm_table_extend(ref, c, at);
        else if (extent == MM_EXTENT_NONE) continue;
        if (extent != MM_EXTENT_BUSY) break;
        mm_wait();
    }
    return extent + 1 > 1 ? mm_table_in(ref, extent, index) : NULL;
}

/* Whether the table has this entry of class c: not yet, if its block is being made. Acquires. */
MM_FN int mm_table_has(const struct mm_heap_ref *ref, uint32_t c, uint64_t entry) {
    int has = 0;
    MM_ROLLED
    for (uint32_t looks = 0; !has && looks < MM_ENTRY_LOOKS; looks++) { /* it may be moved meanwhile */
        uint64_t *at = mm_table_find(ref, c, mm_load_relaxed_u32(mm_table_index(ref, mm_entry_page(entry)))); /* rubbish, perhaps */
        has = at != NULL && mm_load_acquire_u64(at) == entry;
    }
    return has;
}

/* Entries for n blocks, a segment's at most, that the caller is about to put there: the first one's number. */
MM_FN_RARE uint32_t mm_table_add(const struct mm_heap_ref *ref, uint32_t c, uint32_t n) {
    const uint32_t first = mm_add_acquire_u32(&mm_class_at(ref, c)->count, n);
    (void)mm_table_at(ref, c, first);
    (void)mm_table_at(ref, c, first + n - 1);
    return first;
}
/* Puts the block that begins at a page there; the caller has made it. Releases. */
MM_FN void mm_table_put(const struct mm_heap_ref *ref, uint32_t c, uint32_t index, uint32_t page, uint64_t entry) {
    uint64_t *at = mm_table_find(ref, c, index);
    mm_store_relaxed_u32(mm_table_index(ref, page), index);
    if (at != NULL) mm_store_release_u64(at, entry); /* else an extent's maker has been stopped in the middle of it, by a debugger: the block is lost */
}

/* Takes the entries of blocks that are being retired, one of each lane of `group`, all of one class, out of its table. The caller's warp has the lock,
 * and all lanes of the group call. Returns whether it could.
 *   Of k blocks the last k places of the table are to become nothing. The j-th of the entries there that stay goes to the j-th place before them that
 *   is left. */
MM_FN_RARE int mm_table_take_out(const struct mm_heap_ref *ref, uint32_t group, uint64_t entry) {
    const uint32_t lane = mm_warp_lane(), rank = mm_popcount(group & mm_bits_low(lane)), k = mm_popcount(group), leader = mm_ctz(group);
    const uint32_t c = mm_entry_class(entry), index = mm_load_relaxed_u32(mm_table_index(ref, mm_entry_page(entry))); /* it may have been moved */
    uint32_t *count = &mm_class_at(ref, c)->count;
    MM_ROLLED
    for (uint32_t polls = 0; polls < MM_LOCK_POLLS; polls++) {
        const uint32_t low = mm_warp_shuffle(group, mm_load_relaxed_u32(count), leader) - k;
        uint64_t *at = mm_table_find(ref, c, index), *from = mm_table_find(ref, c, low + rank);
        const uint64_t last = from == NULL ? MM_ENTRY_NONE : mm_load_acquire_u64(from);
        if (mm_warp_ballot(group, last == MM_ENTRY_NONE) != 0) { /* one is on its way */
            mm_wait();
            continue;
        }
        const uint32_t goes = mm_warp_or(group, index >= low ? 1u << (index - low) : 0); /* which of the last ones do */
        const uint32_t places = mm_warp_ballot(group, index < low);
        const int is_moved = !(goes >> rank & 1);
        const uint32_t place = mm_warp_shuffle(group, index, is_moved ? mm_bits_select(places, rank - mm_popcount(goes & mm_bits_low(rank))) : lane);
        if (is_moved) {
            mm_store_release_u64(mm_table_find(ref, c, place), last);
            mm_store_relaxed_u32(mm_table_index(ref, mm_entry_page(last)), place);
        }
        mm_store_relaxed_u64(from, MM_ENTRY_NONE);
        mm_warp_sync(group);
        const int is_out = lane == leader && mm_cas_acq_rel_u32(count, low + k, low);
        if (mm_warp_ballot(group, is_out) != 0) return 1;
        mm_store_release_u64(from, last);
        if (is_moved) mm_store_relaxed_u32(mm_table_index(ref, mm_entry_page(last)), low + rank);
        mm_warp_sync(group);
        if (index < low) mm_store_release_u64(at, entry);
    }
    return 0;
}

/* The same, with the lock. Returns whether it did: not if that is not to be had. All lanes of the group call, and have no other lock. */
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
