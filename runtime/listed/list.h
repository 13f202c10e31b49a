/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The list of the segments that an allocator uses: random walk draws from all of them, a ring goes through one after the other.
 *
 * Such an allocator describes a segment by MM_LISTED_WORDS words, whose low 32 bits are MM_LISTED_FULL if nothing in the word's part of the segment can be
 * claimed. It provides, before this file is included,
 *   mm_listed_word(ref, w)     the address of word number w of the heap; those of segment s begin at s * MM_LISTED_WORDS
 *   mm_listed_prepare(ref, w, is_new)    writes what word w of a segment that enters the list will describe
 *   mm_listed_fill(ref, w, is_patient)   makes that word, unless the segment is new; published (mm_publish_fence). May wait for others if is_patient; returns
 *                                        whether a lane's next call may, too, so that all of its words cost one wait
 *   MM_LISTED_LEAST, MM_LISTED_FULL_WARP      segments that a list which is not empty grows by at least; and any list, if a full warp lets it grow, but no more
 *                              than a quarter of those that are mapped: so only if segments without live units can leave the list. 1 and 0 if not defined
 * and, if it defines MM_LISTED_ROWS, since it has something for each segment that was ever in the list, in the order in which they came first,
 *   mm_listed_is_new(ref, s)             whether segment s was never in the list
 *   mm_listed_rows(ref, n)               draws the numbers of n new segments in that order; returns the first one
 *   mm_listed_begin(ref, row, n, rank, many)       prepares what n new segments need, from number `row` on; all lanes of the warp call it
 *   mm_listed_enters(ref, s, row)        says that segment s enters with that number, under the lock
 *   mm_listed_entered(ref, here)         follows when some have their entries, before the count says so. All lanes of `here` call it
 *
 * Representation. list[k], for k below count, is a segment; indexes: of the segment's first page: k; of its second page: what a sweep has seen in it; of the
 *   next ones, while it is on its way: struct mm_list_batch; of the last page of segment k: list[k]. The owner of all pages of these segments is MM_LISTED_OWNER.
 *   lock     {first segment of the last batch that waits, plus 1 : 32 | warp that has the lock, plus 1 : 32}. If nobody has it, no batch waits.
 *   coming   segments that are on their way into the list
 *   entered  how often segments have entered, modulo 2^32. Who looks through the list and the free tree, and finds nothing, has seen all segments if it is the
 *            same afterwards, nothing is coming and the lock is free: a segment may go from the one to the other behind him, and back
 *   wanted   bytes that callers who found nothing wait for. A hint: it decides how many segments come, not who gets what
 *   bringing (struct mm_heap): a bit for each place of a warp on the GPU (mm_warp_slot): lanes of it are bringing segments
 * Growth. A warp that brings segments counts them in `coming`, takes them from the free tree, prepares them, pushes them as one batch, and takes the lock if it
 *   is free. Who has the lock enters all batches that wait, before it releases it, by a compare-and-swap of the same word; so no batch waits for a lock that is
 *   free, and nobody waits to enter one. Several warps bring segments at the same time, as long as callers want more than are coming, or than a share of
 *   the list. Of callers that want little and found nothing in the same list, the first one lets it grow. (One warp at a time under the lock took 100 us for 64
 *   segments: 1,000,000 of 8 KiB in a fresh heap took 20 to 60 ms.)
 * Invariants.
 *   I1  Only the holder of the lock changes the list. An entry that callers with an old count still read names a segment that is, or was, in the list. All
 *       words of segments that have left it, and are not on their way again, are full.
 *   I2  A segment of the heap is in the free tree, in the list, or counted in `coming`, or the list is locked. (Or it is used page by page, or by a run.)
 *   I3  Pages of a segment on its way have their owner already. So a segment that has the owner may not be in the list; the list says so, under the lock.
 * Ordering. count is stored with release and read with acquire: a thread that reads an entry below the count does not read rubbish. Entries, too, are stored
 *   with release, after owners and words, and read with acquire: a thread that reads an entry sees owners and words of its segment, although the entry may be
 *   newer than the count. A push releases what the warp has prepared; who takes the batches acquires it. `coming` goes down after the count went up. Before a
 *   segment leaves the list, each of its words was made full by a compare-and-swap (retire.h).
 * Linearisation point of growth: the store of the count.
 * Progress. Nobody waits here: who does not bring segments goes on without. A caller whose own warp brings some in other lanes must not wait for the list: its
 *   own wait may be what keeps the others from going on. So it does not bring any either, and its warp's bit belongs to one group of lanes.
 */
#ifndef MM_LISTED_LIST_H
#define MM_LISTED_LIST_H

#include "runtime/core/run.h"

#define MM_LISTED_NONE (1ull << 63) /* no unit; mm_listed_find adds a number to it */
#define MM_LISTED_NEVER ~0u         /* units: more than any segment has */

/* Uses count, wanted, coming, entered, lock, round, swept, most and is_awaited (struct mm_class_state). */
MM_FN struct mm_class_state *mm_list_state(const struct mm_heap_ref *ref) { return (struct mm_class_state *)ref->classes_at; }
#ifndef MM_LISTED_SEGMENTS_MAX
#define MM_LISTED_SEGMENTS_MAX (MM_TREE_BITS_MAX - 1) /* units have 32 bits */
#endif
MM_FN uint32_t *mm_list_index(const struct mm_heap_ref *ref, uint32_t s) { return mm_page_index(ref, s * MM_SEGMENT_PAGES); }
/* The most consecutive units of segment s that were free or held when a round of sweeps saw it last (malloc.h). */
MM_FN uint32_t *mm_list_most(const struct mm_heap_ref *ref, uint32_t s) { return mm_list_index(ref, s) + 1; }

/* The entry at place k of the list. */
MM_FN uint32_t *mm_list_entry(const struct mm_heap_ref *ref, uint32_t k) { return mm_list_index(ref, k) + MM_SEGMENT_PAGES - 1; }

/* The number of segments in the list. Acquires. */
MM_FN uint32_t mm_list_count(const struct mm_heap_ref *ref) { return mm_load_acquire_u32(&mm_list_state(ref)->count); }
/* The segment at place k of the list, which has or had more than k. */
MM_FN uint32_t mm_list_segment(const struct mm_heap_ref *ref, uint32_t k) { return mm_load_acquire_u32(mm_list_entry(ref, k)); }

/* Whether the list has segment s, of which the caller knows by a word that publishes nothing. The answer may be no while the list changes. Acquires: the caller
 * sees the owners and words of the segment. */
MM_FN int mm_list_sees(const struct mm_heap_ref *ref, uint32_t s) {
    const uint32_t k = mm_load_relaxed_u32(mm_list_index(ref, s));
    return k < mm_list_count(ref) && mm_list_segment(ref, k) == s;
}
/* Whether segment s is in the list, or on its way: what its owner says. Acquires nothing. */
MM_FN int mm_list_has(const struct mm_heap_ref *ref, uint32_t s) { return mm_load_relaxed_u8(mm_page_owner(ref, s * MM_SEGMENT_PAGES)) == MM_LISTED_OWNER; }

/* The lock: an attempt; whether lanes of the caller's own warp, which are elsewhere, have it. */
MM_FN int mm_list_lock(const struct mm_heap_ref *ref) {
    uint64_t *lock = &mm_list_state(ref)->lock;
    return mm_load_relaxed_u64(lock) == 0 && mm_cas_acquire_u64(lock, 0, (uint64_t)mm_warp_slot() + 1);
}
MM_FN int mm_list_is_own(const struct mm_heap_ref *ref) { return (uint32_t)mm_load_relaxed_u64(&mm_list_state(ref)->lock) == mm_warp_slot() + 1; }
MM_FN uint64_t *mm_list_bringing(const struct mm_heap_ref *ref, uint32_t slot) { return &mm_heap_of(ref)->bringing[slot / 64 % MM_LISTED_PLACES]; }
/* Whether a segment may be on its way into the list or out of it. */
MM_FN int mm_list_is_changing(const struct mm_heap_ref *ref) {
    return mm_load_relaxed_u64(&mm_list_state(ref)->lock) != 0 || mm_load_relaxed_u64(&mm_list_state(ref)->coming) != 0;
}

/* The same in terms of `entered`: whether one may have entered since the caller saw `before`, or may be on its way. Ordered after what the caller has read; and
 * `entered` is read last, since what is not coming any more has entered. */
MM_FN int mm_list_has_changed(const struct mm_heap_ref *ref, uint32_t before) {
    mm_publish_fence();
    const int is_changing = mm_list_is_changing(ref);
    mm_publish_fence();
    return is_changing || mm_load_relaxed_u32(&mm_list_state(ref)->entered) != before;
}

/* Segments leaf * 64 + i, for each bit i, that wait for the lock; of the new ones, the number of the first one. leaf: that of the segment that has it. */
struct mm_list_batch {
    uint64_t bits, news;
    uint32_t row, next; /* next: first segment of the batch that was pushed before, plus 1 */
};
MM_STATIC_ASSERT(3 * sizeof(uint32_t) + sizeof(struct mm_list_batch) <= MM_SEGMENT_PAGES * sizeof(uint32_t),
                 "in the indexes of a segment, with an entry of the list");
MM_FN struct mm_list_batch *mm_list_batch(const struct mm_heap_ref *ref, uint32_t s) { return (struct mm_list_batch *)(mm_list_index(ref, s) + 2); }

#ifndef MM_LISTED_LEAST
#define MM_LISTED_LEAST 1
#define MM_LISTED_FULL_WARP 0
#endif
#ifndef MM_LISTED_ROWS
MM_FN int mm_listed_is_new(const struct mm_heap_ref *ref, uint32_t s) { return (void)ref, (void)s, 0; }
MM_FN uint32_t mm_listed_rows(const struct mm_heap_ref *ref, uint32_t n) { return (void)ref, (void)n, 0; }
MM_FN void mm_listed_begin(const struct mm_heap_ref *ref, uint32_t row, uint32_t n, uint32_t rank, uint32_t many) {
    (void)ref, (void)row, (void)n, (void)rank, (void)many;
}
MM_FN void mm_listed_enters(const struct mm_heap_ref *ref, uint32_t s, uint32_t row) { (void)ref, (void)s, (void)row; }
MM_FN void mm_listed_entered(const struct mm_heap_ref *ref, uint32_t here) { (void)ref, (void)here; }
#endif

/* Enters all batches of a chain, from that of segment s on. All lanes of `here` call, and have the lock. The batches share the waits for their publication: 50
 * batches with a wait each took 800 us. */
MM_FN void mm_list_enter(const struct mm_heap_ref *ref, uint32_t here, uint32_t s) {
    struct mm_class_state *of = mm_list_state(ref);
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane())), many = mm_popcount(here), count = mm_load_relaxed_u32(&of->count);
    uint32_t end = count;
    mm_publish_fence();
    MM_ROLLED
    for (uint32_t next = s + 1; next != 0;) {
        struct mm_list_batch *batch = mm_list_batch(ref, next - 1);
        const uint64_t bits = mm_load_relaxed_u64(&batch->bits), news = mm_load_relaxed_u64(&batch->news);
        const uint32_t row = mm_load_relaxed_u32(&batch->row), leaf = (next - 1) / 64;
        next = mm_load_relaxed_u32(&batch->next);
        MM_ROLLED
        for (uint32_t bit = rank; bit < 64; bit += many) {
            const uint32_t in = leaf * 64 + bit, k = end + mm_popcount(bits & mm_bits_low(bit));
            if (!(bits >> bit & 1)) continue;
            mm_store_relaxed_u32(mm_list_index(ref, in), k);
            mm_store_relaxed_u32(mm_list_most(ref, in), ~0u); /* no sweep has seen it */
            mm_store_published_u32(mm_list_entry(ref, k), in);
            if (news >> bit & 1) mm_listed_enters(ref, in, row + mm_popcount(news & mm_bits_low(bit)));
        }
        end += mm_popcount(bits);
    }
    mm_warp_sync(here);
    mm_listed_entered(ref, here);
    if (rank == 0) {
        const uint32_t entered = mm_load_relaxed_u32(&of->entered) + 1;
        mm_store_release_u32(&of->count, end);
        mm_store_release_u32(&of->entered, entered); /* who reads it reads this count, or a later one */
        mm_add_release_u64(&of->coming, 0 - (uint64_t)(end - count));
    }
    mm_warp_sync(here);
}
/* Enters what waits, and releases the lock. All lanes of `here` call. */
MM_FN_RARE void mm_list_unlock(const struct mm_heap_ref *ref, uint32_t here) {
    uint64_t *lock = &mm_list_state(ref)->lock;
    const uint64_t mine = (uint64_t)mm_warp_slot() + 1;
    uint32_t first = 0, is_released;
    MM_ROLLED
    do {
        is_released = 0;
        if (mm_warp_lane() == mm_ctz(here)) {
            first = (uint32_t)(mm_exchange_acq_rel_u64(lock, mine) >> 32);
            is_released = first == 0 && mm_cas_acq_rel_u64(lock, mine, 0);
        }
        mm_warp_sync(here);
        first = mm_warp_shuffle(here, first, mm_ctz(here));
        if (first != 0) mm_list_enter(ref, here, first - 1);
    } while (mm_warp_ballot(here, is_released) == 0);
}

enum mm_listed {
    MM_LISTED_MORE, /* the list has grown, or is about to */
    MM_LISTED_BUSY, /* other warps are bringing segments */
    MM_LISTED_OWN,  /* other lanes of this warp are, or have the lock */
    MM_LISTED_NO_SEGMENT
};
#define MM_LISTED_ANY ~0u
/* The lanes of `here`, all of which call, wait for `bytes` each; before, they have waited for `wanted` in all. Returns for how much they do now. */
MM_FN_RARE uint32_t mm_list_want(const struct mm_heap_ref *ref, uint32_t here, uint32_t bytes, uint32_t wanted) {
    const uint32_t now = mm_warp_sum(here, bytes);
    if (now != wanted && mm_warp_lane() == mm_ctz(here)) mm_add_relaxed_u64(&mm_list_state(ref)->wanted, (uint64_t)now - wanted);
    return now;
}
/* How many segments should be on their way to a list that has `count`: a share of it, or what callers want. A warp brings more at once the more of its lanes
 * call, since they prepare them together. */
MM_FN uint32_t mm_list_wanted(const struct mm_heap_ref *ref, uint32_t count, uint32_t lanes) {
    uint32_t least = count == 0 ? 1 : MM_LISTED_LEAST;
    if (MM_LISTED_FULL_WARP != 0) {
        const uint32_t most = mm_at_most(lanes * MM_LISTED_FULL_WARP / 32, (uint32_t)mm_grow_mapped(ref) / 4);
        least = most > least ? most : least;
    }
    const uint32_t share = least + count / MM_LISTED_SHARE, wanted = (uint32_t)(mm_load_relaxed_u64(&mm_list_state(ref)->wanted) >> MM_SEGMENT_SHIFT);
    return mm_at_most(wanted > share ? wanted : share, MM_LISTED_SEGMENTS_MAX - count);
}
/* How many segments the caller may bring if `all` should be on their way and `coming` are. Counts them in `coming`. Of thousands of warps that come at once one
 * in 4 us succeeds, and that is as well: those that are about to find something count as wanting still. (With an addition, 1,000,000 of 8 KiB took up to 16,384
 * segments instead of 8,000.) */
MM_FN uint32_t mm_list_expect(const struct mm_heap_ref *ref, uint32_t all, uint32_t coming) {
    const uint32_t n = mm_at_most(all - coming, MM_LISTED_BATCH);
    return mm_cas_acq_rel_u64(&mm_list_state(ref)->coming, coming, coming + n) ? n : 0;
}

/* Prepares the segments of `bits`, which the caller has taken, and lets them enter the list. slot: where the warp counts as bringing them. All lanes of `here`
 * call. */
MM_FN_RARE void mm_list_bring(const struct mm_heap_ref *ref, uint32_t here, uint32_t slot, uint32_t leaf, uint64_t bits) {
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane())), many = mm_popcount(here), leader = mm_ctz(here);
    uint32_t row = 0, is_locked = 0;
    uint64_t news = 0;
    int is_patient = 1;
    MM_ROLLED
    for (uint32_t i = rank; i < 64; i += many) news |= bits >> i & 1 ? (uint64_t)mm_listed_is_new(ref, leaf * 64 + i) << i : 0;
    news = (uint64_t)mm_warp_or(here, (uint32_t)(news >> 32)) << 32 | mm_warp_or(here, (uint32_t)news);
    if (news != 0) {
        row = mm_warp_shuffle(here, rank == 0 ? mm_listed_rows(ref, mm_popcount(news)) : 0, leader);
        mm_listed_begin(ref, row, mm_popcount(news), rank, many);
    }
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
    for (uint64_t rest = bits & ~news; rest != 0; rest &= rest - 1) {
        const uint32_t s = leaf * 64 + mm_ctz(rest);
        MM_ROLLED
        for (uint32_t w = rank; w < MM_LISTED_WORDS; w += many) is_patient = mm_listed_fill(ref, s * MM_LISTED_WORDS + w, is_patient);
    }
    mm_warp_sync(here);
    if (rank == 0) {
        const uint32_t s = leaf * 64 + mm_ctz(bits);
        struct mm_list_batch *batch = mm_list_batch(ref, s);
        uint64_t *lock = &mm_list_state(ref)->lock, now;
        mm_store_relaxed_u64(&batch->bits, bits);
        mm_store_relaxed_u64(&batch->news, news);
        mm_store_relaxed_u32(&batch->row, row);
        do {
            now = mm_load_relaxed_u64(lock), is_locked = (uint32_t)now == 0;
            mm_store_relaxed_u32(&batch->next, (uint32_t)(now >> 32));
        } while (!mm_cas_acq_rel_u64(lock, now, (uint64_t)(s + 1) << 32 | (is_locked ? slot + 1 : (uint32_t)now)));
    }
    mm_warp_sync(here);
    if (mm_warp_ballot(here, is_locked) != 0) mm_list_unlock(ref, here);
}
/* The part of one lane of mm_list_add: takes segments, if the warp may bring some. Returns them: bits of *leaf; *added: what mm_list_add returns. Looks first
 * whether enough are coming, since most callers wait for them, and whether there are any, so that callers in a full heap change nothing. */
MM_FN_RARE uint64_t mm_list_take(const struct mm_heap_ref *ref, uint32_t known, uint32_t slot, uint32_t lanes, uint32_t *leaf, enum mm_listed *added) {
    struct mm_class_state *of = mm_list_state(ref);
    const uint32_t coming = (uint32_t)mm_load_relaxed_u64(&of->coming), count = mm_list_count(ref);
    uint64_t *const own = mm_list_bringing(ref, slot), mine = 1ull << slot % 64;
    *added = MM_LISTED_MORE;
    if (count > known) return 0;
    *added = MM_LISTED_OWN;
    if ((mm_load_relaxed_u64(own) & mine) != 0 || mm_list_is_own(ref)) return 0;
    *added = MM_LISTED_BUSY;
    const uint32_t all = mm_list_wanted(ref, count, lanes);
    if (all != 0 && all <= coming) return 0;
    const int is_none = all == 0 || mm_tree_find(mm_segment_free_tree(ref), 0) == MM_TREE_NONE;
    const uint32_t n = is_none ? 0 : mm_list_expect(ref, all, coming);
    uint64_t bits = 0;
    if (n != 0 && mm_list_count(ref) == count) { /* else others have brought some between */
        mm_or_release_u64(own, mine);
        bits = mm_segments_take(ref, n, leaf);
        if (bits == 0) mm_and_release_u64(own, ~mine);
    }
    if (mm_popcount(bits) < n) mm_add_release_u64(&of->coming, 0 - (uint64_t)(n - mm_popcount(bits)));
    if (bits != 0 || mm_list_count(ref) != count) *added = MM_LISTED_MORE;
    else if ((is_none || n != 0) && !mm_list_is_changing(ref)) *added = MM_LISTED_NO_SEGMENT;
    return bits;
}
/* Lets the list grow. known: the number of segments in which the lanes found nothing; if the list has more by now, it stays as it is (MM_LISTED_MORE).
 * MM_LISTED_ANY: it grows anyway. All lanes of `here` call, with the same `known`. */
MM_FN_RARE enum mm_listed mm_list_add(const struct mm_heap_ref *ref, uint32_t here, uint32_t known) {
    const uint32_t leader = mm_ctz(here), slot = mm_warp_slot();
    const int is_leader = mm_warp_lane() == leader;
    enum mm_listed added = MM_LISTED_BUSY;
    uint32_t leaf = 0;
    uint64_t bits = 0;
    if (is_leader) bits = mm_list_take(ref, known, slot, mm_popcount(here), &leaf, &added);
    mm_warp_sync(here);
    leaf = mm_warp_shuffle(here, leaf, leader), bits = mm_warp_shuffle_u64(here, bits, leader);
    if (bits != 0) mm_list_bring(ref, here, slot, leaf, bits);
    if (is_leader && bits != 0) mm_and_release_u64(mm_list_bringing(ref, slot), ~(1ull << slot % 64));
    mm_warp_sync(here);
    return (enum mm_listed)mm_warp_shuffle(here, added, leader);
}

/* Other warps bring segments: waits until the list has other than `count`, for at most so many looks. One load for each look, since thousands of warps wait. */
MM_FN_RARE void mm_list_await(const struct mm_heap_ref *ref, uint32_t count, uint32_t looks) {
    MM_ROLLED
    for (uint32_t i = 0; i < looks && mm_load_relaxed_u32(&mm_list_state(ref)->count) == count; i++) {
        mm_pause(ref, MM_LISTED_PAUSE);
        mm_wait();
    }
}

/* Takes segment s out of the list. The caller holds the lock, and has made all of its words full. */
MM_FN void mm_list_remove(const struct mm_heap_ref *ref, uint32_t s) {
    struct mm_class_state *of = mm_list_state(ref);
    const uint32_t last = mm_load_relaxed_u32(&of->count) - 1, at = mm_load_relaxed_u32(mm_list_index(ref, s)), moved = mm_list_segment(ref, last);
    mm_store_release_u32(mm_list_entry(ref, at), moved);
    mm_store_relaxed_u32(mm_list_index(ref, moved), at);
    mm_store_release_u32(&of->count, last);
}

#endif
