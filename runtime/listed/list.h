/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The list of the segments that an allocator uses: random walk draws from all of them, a ring goes through one after the other.
 *
 * Such an allocator describes a segment by MM_LISTED_WORDS words, whose low 32 bits are MM_LISTED_FULL if nothing in the word's part of the segment can be
 * claimed. It provides, before this file is included,
 *   mm_listed_word(ref, w)     the address of word number w of the heap; those of segment s begin at s * MM_LISTED_WORDS
 *   mm_listed_prepare(ref, w, is_new)    writes what word w of a segment that enters the list will describe
 *   mm_listed_fill(ref, w, is_new, is_patient)   makes that word; published (mm_publish_fence). May wait for others if is_patient; returns whether a lane's
 *   next call may, too, so that all of its words cost one wait
 *   mm_listed_is_new(ref, s)             whether segment s was never in the list; 0 if prepare and fill do not want to know it
 *   mm_listed_begin(ref, n, rank, many)  prepares what n new segments need; all lanes of the warp call it
 *   mm_listed_entered(ref, s, bits)      says that new segments have entered: s + i for each bit i. One lane calls it
 *   MM_LISTED_LEAST                      segments that a list which is not empty grows by at least; 1 if not defined
 *
 * Representation. list[k], for k below count, is a segment; indexes: of the segment's first page: k; of its second page: what a sweep has seen in it. The owner
 *   of all pages of these segments is MM_LISTED_OWNER.
 * Invariant. Only the holder of the lock changes the list. An entry that callers with an old count still read names a segment that is, or was, in the list. All
 *   words of segments that were in it are full.
 * Ordering. count is stored with release and read with acquire: a thread that reads an entry below the count does not read rubbish. Entries, too, are stored
 *   with release, after owners and words, and read with acquire: a thread that reads an entry sees owners and words of its segment, although the entry may be
 *   newer than the count. Before a segment leaves the list, each of its words was made full by a compare-and-swap (retire.h).
 * Progress. Nobody waits here: who does not get the lock goes on without. The lock says which warp has it. Lanes of that warp that want it, too, must not wait:
 *   their own wait may be what keeps the others from going on.
 * Growth. Of callers that found nothing in the same list, the first one lets it grow. The others find, under the lock, that it has grown, and draw again.
 */
#ifndef MM_LISTED_LIST_H
#define MM_LISTED_LIST_H

#include "runtime/core/run.h"

#define MM_LISTED_NONE (1ull << 63) /* no unit; mm_listed_find adds a number to it */
#define MM_LISTED_NEVER ~0u         /* units: more than any segment has */

/* Uses count, lock, round, swept, most and is_awaited (struct mm_class_state). */
MM_FN struct mm_class_state *mm_list_state(const struct mm_heap_ref *ref) { return (struct mm_class_state *)ref->classes_at; }
#ifndef MM_LISTED_ENTRIES                             /* an allocator may have the list elsewhere, for so many segments */
#define MM_LISTED_SEGMENTS_MAX (MM_TREE_BITS_MAX - 1) /* units have 32 bits */
MM_FN uint64_t *mm_list_entries(const struct mm_heap_ref *ref) { return (uint64_t *)ref->table; }
#else
MM_FN uint64_t *mm_list_entries(const struct mm_heap_ref *ref) { return MM_LISTED_ENTRIES(ref); }
#endif
MM_FN uint32_t *mm_list_index(const struct mm_heap_ref *ref, uint32_t s) { return (uint32_t *)ref->indexes + s * MM_SEGMENT_PAGES; }
/* The most consecutive units of segment s that were free or held when a round of sweeps saw it last (malloc.h). */
MM_FN uint32_t *mm_list_most(const struct mm_heap_ref *ref, uint32_t s) { return mm_list_index(ref, s) + 1; }

/* The number of segments in the list. Acquires. */
MM_FN uint32_t mm_list_count(const struct mm_heap_ref *ref) { return mm_load_acquire_u32(&mm_list_state(ref)->count); }
/* The segment at place k of the list, which has or had more than k. */
MM_FN uint32_t mm_list_segment(const struct mm_heap_ref *ref, uint32_t k) { return (uint32_t)mm_load_acquire_u64(mm_list_entries(ref) + k); }

/* Whether the list has segment s, of which the caller knows by a word that publishes nothing. The answer may be no while the list changes. Acquires: the caller
 * sees the owners and words of the segment. */
MM_FN int mm_list_sees(const struct mm_heap_ref *ref, uint32_t s) {
    const uint32_t k = mm_load_relaxed_u32(mm_list_index(ref, s));
    return k < mm_list_count(ref) && mm_list_segment(ref, k) == s;
}
/* Whether segment s is in the list: what its owner says. Acquires nothing. */
MM_FN int mm_list_has(const struct mm_heap_ref *ref, uint32_t s) { return mm_load_relaxed_u8(mm_page_owner(ref, s * MM_SEGMENT_PAGES)) == MM_LISTED_OWNER; }

MM_FN int mm_list_lock(const struct mm_heap_ref *ref) {
    uint64_t *lock = &mm_list_state(ref)->lock;
    return mm_load_relaxed_u64(lock) == 0 && mm_cas_acquire_u64(lock, 0, (uint64_t)mm_warp_slot() + 1);
}
/* Whether lanes of the caller's own warp, which are elsewhere, have the lock. */
MM_FN int mm_list_is_own(const struct mm_heap_ref *ref) { return mm_load_relaxed_u64(&mm_list_state(ref)->lock) == (uint64_t)mm_warp_slot() + 1; }
MM_FN int mm_list_is_locked(const struct mm_heap_ref *ref) { return mm_load_relaxed_u64(&mm_list_state(ref)->lock) != 0; }
MM_FN void mm_list_unlock(const struct mm_heap_ref *ref) { mm_store_release_u64(&mm_list_state(ref)->lock, 0); }

enum mm_listed {
    MM_LISTED_MORE,
    MM_LISTED_BUSY, /* another warp has the lock */
    MM_LISTED_OWN,  /* other lanes of this warp have it */
    MM_LISTED_NO_SEGMENT
};
#define MM_LISTED_ANY ~0u
#ifndef MM_LISTED_LEAST
#define MM_LISTED_LEAST 1
#endif
/* The leader of mm_list_add: another warp has the lock; other lanes of its warp; it has the lock, and adds segments, or has seen that the list grew; it has
 * seen without the lock that there is no segment. */
enum mm_list_is { MM_LIST_OTHERS, MM_LIST_OWN, MM_LIST_GROWS, MM_LIST_GREW, MM_LIST_VAIN };
/* Whether there is no segment for a list that has no more than `known`, and nobody is bringing or taking one. A look without the lock, so that callers in a
 * full heap do not take it in turns. */
MM_FN int mm_list_is_vain(const struct mm_heap_ref *ref, uint32_t known) {
    return !mm_list_is_locked(ref) && mm_tree_find(mm_segment_free_tree(ref), 0) == MM_TREE_NONE && mm_list_count(ref) <= known && !mm_list_is_locked(ref);
}

/* Adds free segments to the list: a share of what it has, at least one. known: the number of segments in which the lanes found nothing; if the list has more by
 * now, it stays as it is (MM_LISTED_MORE). MM_LISTED_ANY: it grows anyway. All lanes of `here` call, with the same `known`. */
MM_FN_RARE enum mm_listed mm_list_add(const struct mm_heap_ref *ref, uint32_t here, uint32_t known) {
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane())), many = mm_popcount(here), leader = mm_ctz(here);
    uint32_t is_mine = MM_LIST_OTHERS, leaf = 0, count = 0;
    uint64_t bits = 0, news = 0;
    int is_patient = 1;
    enum mm_listed added = MM_LISTED_BUSY;
    if (rank == 0 && mm_list_is_vain(ref, known)) {
        is_mine = MM_LIST_VAIN;
    } else if (rank == 0 && mm_list_lock(ref)) {
        count = mm_load_relaxed_u32(&mm_list_state(ref)->count);
        is_mine = count > known ? MM_LIST_GREW : MM_LIST_GROWS;
        if (is_mine == MM_LIST_GROWS)
            bits = mm_segments_take(
                ref, mm_at_most(mm_at_most((count != 0 ? MM_LISTED_LEAST : 1) + count / MM_LISTED_SHARE, 64), MM_LISTED_SEGMENTS_MAX - count), &leaf);
    } else if (rank == 0 && mm_list_is_own(ref)) {
        is_mine = MM_LIST_OWN;
    }
    mm_warp_sync(here);
    is_mine = mm_warp_shuffle(here, is_mine, leader), leaf = mm_warp_shuffle(here, leaf, leader), bits = mm_warp_shuffle_u64(here, bits, leader);
    if (is_mine == MM_LIST_OWN) added = MM_LISTED_OWN;
    else if (is_mine != MM_LIST_OTHERS) added = bits != 0 || is_mine == MM_LIST_GREW ? MM_LISTED_MORE : MM_LISTED_NO_SEGMENT;
    MM_ROLLED
    for (uint32_t i = 0; i < 64; i++) news |= bits >> i & 1 ? (uint64_t)mm_listed_is_new(ref, leaf * 64 + i) << i : 0;
    if (news != 0) mm_listed_begin(ref, mm_popcount(news), rank, many);
    MM_ROLLED
    for (uint64_t rest = bits; rest != 0; rest &= rest - 1) {
        const uint32_t s = leaf * 64 + mm_ctz(rest);
        if (rank == 0) mm_era_enter_segment(ref, s, MM_ERA_PAGES);
        MM_ROLLED
        for (uint32_t page = rank; page < MM_SEGMENT_PAGES; page += many) mm_pages_own(ref, s * MM_SEGMENT_PAGES + page, 1, MM_LISTED_OWNER);
        MM_ROLLED
        for (uint32_t w = rank; w < MM_LISTED_WORDS; w += many) mm_listed_prepare(ref, s * MM_LISTED_WORDS + w, (int)(news >> s % 64 & 1));
    }
    mm_warp_sync(here);
    mm_publish_fence(); /* a caller with an old count may claim something as soon as the words say so; its free reads the owners */
    MM_ROLLED
    for (uint64_t rest = bits; rest != 0; rest &= rest - 1) {
        const uint32_t s = leaf * 64 + mm_ctz(rest);
        MM_ROLLED
        for (uint32_t w = rank; w < MM_LISTED_WORDS; w += many)
            is_patient = mm_listed_fill(ref, s * MM_LISTED_WORDS + w, (int)(news >> s % 64 & 1), is_patient);
    }
    mm_warp_sync(here);
    if (rank == 0 && (is_mine == MM_LIST_GROWS || is_mine == MM_LIST_GREW)) {
        mm_publish_fence();
        MM_ROLLED
        for (; bits != 0; bits &= bits - 1, count++) {
            const uint32_t s = leaf * 64 + mm_ctz(bits);
            mm_store_relaxed_u32(mm_list_index(ref, s), count);
            mm_store_relaxed_u32(mm_list_most(ref, s), ~0u); /* no sweep has seen it */
            mm_store_published_u64(mm_list_entries(ref) + count, s);
        }
        mm_store_release_u32(&mm_list_state(ref)->count, count);
        if (news != 0) mm_listed_entered(ref, leaf * 64, news);
        mm_list_unlock(ref);
    }
    mm_warp_sync(here);
    return added;
}

/* Takes segment s out of the list. The caller holds the lock, and has made all of its words full. */
MM_FN void mm_list_remove(const struct mm_heap_ref *ref, uint32_t s) {
    struct mm_class_state *of = mm_list_state(ref);
    const uint32_t last = mm_load_relaxed_u32(&of->count) - 1, at = mm_load_relaxed_u32(mm_list_index(ref, s)), moved = mm_list_segment(ref, last);
    mm_store_release_u64(mm_list_entries(ref) + at, moved);
    mm_store_relaxed_u32(mm_list_index(ref, moved), at);
    mm_store_release_u32(&of->count, last);
}

#endif
