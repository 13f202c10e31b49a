/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The list of the segments that have units. Callers draw units at random from all of them: the paper's T pages, but T follows what is in use.
 *
 * Representation. list[k], for k below count, is a segment; indexes: of the segment's first page: k. The owner of all pages of these segments is MM_WALK_OWNER.
 * Invariant. Only the holder of the lock changes the list. An entry that callers with an old count still read names a segment that is, or was, in the list.
 * Ordering. count is stored with release and read with acquire: who sees the count sees entries, owners and words. Before a segment leaves the list, each of its
 *   words was taken by a compare-and-swap from 0 to MM_UNITS_FULL (I2 of units.h).
 * Progress. Nobody waits here: who does not get the lock goes on without.
 */
#ifndef MM_WALK_LIST_H
#define MM_WALK_LIST_H

#include "runtime/core/run.h"
#include "runtime/random_walk/units.h"

#define MM_WALK_OWNER 1u

/* Uses count, lock and swept (struct mm_class_state). */
MM_FN struct mm_class_state *mm_walk_state(const struct mm_heap_ref *ref) { return (struct mm_class_state *)ref->classes_at; }
MM_FN uint64_t *mm_walk_list(const struct mm_heap_ref *ref) { return (uint64_t *)ref->table; }
MM_FN uint32_t *mm_walk_index(const struct mm_heap_ref *ref, uint32_t s) { return (uint32_t *)ref->indexes + s * MM_SEGMENT_PAGES; }

/* The number of segments in the list. Acquires. */
MM_FN uint32_t mm_walk_count(const struct mm_heap_ref *ref) { return mm_load_acquire_u32(&mm_walk_state(ref)->count); }
/* The segment at place k of the list, which has or had more than k. */
MM_FN uint32_t mm_walk_segment(const struct mm_heap_ref *ref, uint32_t k) { return (uint32_t)mm_load_relaxed_u64(mm_walk_list(ref) + k); }
/* The next random number. */
MM_FN uint32_t mm_walk_next(uint32_t random) { return random * 1664525u + 1013904223u; }
/* A unit of the list, for a random number. count: of the list, not 0. */
MM_FN uint32_t mm_walk_unit(const struct mm_heap_ref *ref, uint32_t count, uint32_t random) {
    const uint32_t at = mm_mulhi(random, count * MM_WALK_UNITS);
    return mm_walk_segment(ref, at / MM_WALK_UNITS) * MM_WALK_UNITS + at % MM_WALK_UNITS;
}

/* Whether segment s has units. */
MM_FN int mm_walk_has(const struct mm_heap_ref *ref, uint32_t s) { return mm_load_relaxed_u8(mm_page_owner(ref, s * MM_SEGMENT_PAGES)) == MM_WALK_OWNER; }

MM_FN int mm_walk_lock(const struct mm_heap_ref *ref) {
    uint64_t *lock = &mm_walk_state(ref)->lock;
    return mm_load_relaxed_u64(lock) == 0 && mm_cas_acquire_u64(lock, 0, 1);
}
MM_FN void mm_walk_unlock(const struct mm_heap_ref *ref) { mm_store_release_u64(&mm_walk_state(ref)->lock, 0); }

enum mm_walk_added { MM_WALK_ADDED, MM_WALK_BUSY, MM_WALK_NO_SEGMENT }; /* BUSY: another warp has the lock */

/* Adds free segments to the list: a share of what it has, at least one. All lanes of `here` call. */
MM_FN_RARE enum mm_walk_added mm_walk_add(const struct mm_heap_ref *ref, uint32_t here) {
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane())), many = mm_popcount(here), leader = mm_ctz(here);
    uint32_t is_mine = 0, leaf = 0, count = 0;
    uint64_t bits = 0;
    enum mm_walk_added added = MM_WALK_BUSY;
    if (rank == 0 && mm_walk_lock(ref)) {
        is_mine = 1, count = mm_load_relaxed_u32(&mm_walk_state(ref)->count);
        bits = mm_segments_take(ref, mm_at_most(mm_at_most(1 + count / MM_WALK_SHARE, 64), MM_TREE_BITS_MAX - 1 - count), &leaf); /* units have 32 bits */
    }
    mm_warp_sync(here);
    is_mine = mm_warp_shuffle(here, is_mine, leader), leaf = mm_warp_shuffle(here, leaf, leader), bits = mm_warp_shuffle_u64(here, bits, leader);
    if (is_mine) added = bits != 0 ? MM_WALK_ADDED : MM_WALK_NO_SEGMENT;
    MM_ROLLED
    for (uint64_t rest = bits; rest != 0; rest &= rest - 1) {
        const uint32_t s = leaf * 64 + mm_ctz(rest);
        if (rank == 0) mm_era_enter_segment(ref, s, MM_ERA_PAGES);
        MM_ROLLED
        for (uint32_t page = rank; page < MM_SEGMENT_PAGES; page += many) mm_pages_own(ref, s * MM_SEGMENT_PAGES + page, 1, MM_WALK_OWNER);
        mm_warp_sync(here);
        mm_publish_fence(); /* a caller with an old count may claim units as soon as the words say so; its free reads the owners */
        MM_ROLLED
        for (uint32_t w = rank; w < MM_WALK_WORDS; w += many) mm_store_published_u64(mm_units_word(ref, s * MM_WALK_WORDS + w), mm_units_make(0, 0));
    }
    mm_warp_sync(here);
    if (rank == 0 && is_mine) {
        MM_ROLLED
        for (; bits != 0; bits &= bits - 1, count++) {
            const uint32_t s = leaf * 64 + mm_ctz(bits);
            mm_store_relaxed_u64(mm_walk_list(ref) + count, s);
            mm_store_relaxed_u32(mm_walk_index(ref, s), count);
        }
        mm_store_release_u32(&mm_walk_state(ref)->count, count);
        mm_walk_unlock(ref);
    }
    mm_warp_sync(here);
    return added;
}

/* Takes segment s out of the list. The caller holds the lock, and has taken all of its units. */
MM_FN void mm_walk_remove(const struct mm_heap_ref *ref, uint32_t s) {
    struct mm_class_state *of = mm_walk_state(ref);
    const uint32_t last = mm_load_relaxed_u32(&of->count) - 1, at = mm_load_relaxed_u32(mm_walk_index(ref, s)), moved = mm_walk_segment(ref, last);
    mm_store_relaxed_u64(mm_walk_list(ref) + at, moved);
    mm_store_relaxed_u32(mm_walk_index(ref, moved), at);
    mm_store_release_u32(&of->count, last);
}

#endif
