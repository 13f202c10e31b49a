/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tables: which blocks a class has.
 *
 * Representation. The table of a class comes in extents of MM_EXTENT entries, whose numbers (+ 1) are in its part of the directory; a class
 *   that never had so many blocks has none. An entry (handles.h) is nothing, being made, or a block. index[page] of a block's first page
 *   says where its entry is.
 *   count  entries that may be something: [0, count).
 * Invariants.
 *   I1  an entry may be stale, and is then no harm: whoever follows it learns from the block's words, which have another generation (word.h).
 *   I2  a block that is not retired is in the table, at index[its page]; for a moment perhaps twice.
 *   I3  entries are taken out, and moved, by who holds the class's lock. They are put in by who has made them MM_ENTRY_BUSY.
 *   I4  an entry of a block is below the count: the count is raised first, and is lowered by who has the last entry as MM_ENTRY_BUSY.
 * Taking out. The last entry moves to the place of the one that goes, so that a table has (nearly) no holes: a sample of it is a
 *   sample of the class. The frontier goes down with it, unless somebody has drawn beyond (make.h); then, or if the last one is being made, a
 *   hole stays.
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

/* Entry `index` of class c, which is below a count. May be old. */
MM_FN uint64_t mm_table_look(const struct mm_heap_ref *ref, uint32_t c, uint32_t index) {
    const uint32_t extent = mm_load_cached_u32(mm_table_directory(ref, c, index));
    return extent + 1 > 1 ? mm_load_cached_u64(mm_table_in(ref, extent, index)) : MM_ENTRY_NONE;
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
    const uint64_t *at = mm_table_find(ref, c, mm_load_relaxed_u32(mm_table_index(ref, mm_entry_page(entry)))); /* rubbish, perhaps */
    return at != NULL && mm_load_acquire_u64((uint64_t *)at) == entry;
}

/* The last entry, number `last`, is the caller's, and busy. The table becomes shorter, unless somebody has drawn slices beyond; returns whether
 * it did. The entry becomes nothing. */
MM_FN int mm_table_shorten(const struct mm_heap_ref *ref, uint32_t c, uint32_t last, uint64_t *entry) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const uint64_t low = (uint64_t)last * ref->classes[c].slices, frontier = mm_load_relaxed_u64(&of->frontier);
    const int is_shorter = frontier <= low + ref->classes[c].slices && mm_cas_relaxed_u32(&of->count, last + 1, last);
    if (is_shorter && frontier > low) mm_cas_relaxed_u64(&of->frontier, frontier, low);
    mm_store_release_u64(entry, MM_ENTRY_NONE); /* last, or who makes it meanwhile would be beyond the end */
    return is_shorter;
}

/* Takes the entry of a block that is being retired out of the table of class c. The caller has the lock. */
MM_FN_RARE void mm_table_take_out(const struct mm_heap_ref *ref, uint32_t c, uint32_t page) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const uint32_t index = mm_load_relaxed_u32(mm_table_index(ref, page)); /* it may have been moved */
    uint64_t *at = mm_table_find(ref, c, index), moved = MM_ENTRY_NONE;
    MM_ROLLED
    while (moved == MM_ENTRY_NONE) { /* until the last entry is no hole */
        const uint32_t last = mm_load_relaxed_u32(&of->count) - 1;
        uint64_t *from = mm_table_find(ref, c, last);
        moved = from == at ? MM_ENTRY_BUSY : mm_load_acquire_u64(from);
        if (mm_entry_is_of(moved, c)) {
            mm_store_release_u64(at, moved);
            mm_store_relaxed_u32(mm_table_index(ref, mm_entry_page(moved)), index);
            mm_store_release_u64(from, MM_ENTRY_BUSY);
            mm_table_shorten(ref, c, last, from);
        } else if (from == at) {
            mm_store_release_u64(at, MM_ENTRY_BUSY);
            mm_table_shorten(ref, c, last, at);
        } else if (moved == MM_ENTRY_BUSY || !mm_cas_acquire_u64(from, MM_ENTRY_NONE, MM_ENTRY_BUSY) || !mm_table_shorten(ref, c, last, from)) {
            mm_store_release_u64(at, MM_ENTRY_NONE);
            break;
        }
    }
}

/* The same, with the lock. Returns whether it did: not if that is not to be had. Who gets it does all inside the loop, and what ends the loop comes
 * out of memory: else a lane that has the lock would wait, behind the loop, for those of its warp that want it. */
MM_FN_RARE int mm_table_remove(const struct mm_heap_ref *ref, uint32_t c, uint32_t page) {
    uint64_t *lock = &mm_class_at(ref, c)->lock, was = 0;
    MM_ROLLED
    for (uint32_t polls = 0; was == 0 && polls < MM_LOCK_POLLS; polls++) {
        if (mm_cas_acquire_u64(lock, 0, 1)) {
            mm_table_take_out(ref, c, page);
            was = mm_exchange_acq_rel_u64(lock, 0);
        } else {
            mm_wait();
        }
    }
    return was != 0;
}

#endif
