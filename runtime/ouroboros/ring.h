/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The virtualised array queue (VA): a ring of words, each of which names a queue chunk (storage.h).
 *
 * Representation. The word of queue chunk `number` is that of the number modulo MM_STORE_NUMBERS: {lap : 32 | id : 32}; lap: number / MM_STORE_NUMBERS. id 0:
 *   it is not installed yet; MM_RING_NONE: it has no slots. When all have passed, the word becomes that of the next lap.
 *   oldest: in all numbers before it all have passed. newest: the number before it was installed; all before have their words.
 * Installing. The lanes of a warp that need a queue chunk take the queue's lock, if it is free, and install all that are missing up to back, one more, and some
 *   ahead, each lane one at a time, so that the accesses overlap. Each takes its queue chunk from another stack. A lane that calls alone installs none ahead.
 *   The others look. The lock only keeps thousands of threads from installing the same. Its holder may be suspended, or be a lane of a warp whose other lanes
 *   wait for another queue: who has found the same holder, and the same newest, at MM_OURO_LOCK_LOOKS looks and some more takes it over (who has fewer looks
 *   gives up before). So one caller installs, and not all that have waited as long. (When all of these installed without the lock, the first million frees of
 *   8 KiB took 265 ms. When the lock was needed, two warps could each wait for what lanes of the other one had locked: in one of five runs of mixed sizes -va-p
 *   refused 93,000 puts, 650,000 callers found nothing at their positions, and the list grew by a half.) If newest does not go on for as many looks as a caller
 *   has, at most MM_OURO_LONG_LOOKS, there is no memory, or it had few: then those that have a position make the word MM_RING_NONE, and the puts that have none
 *   yet are refused, until newest goes on. It goes on only at a queue chunk that is installed, so that puts do not use up the positions of those that are not.
 *   A lane whose number cannot be had yet stops newest there; what lanes behind it have installed is found by the next ones. So the last free queue chunk may
 *   be that of a later number than the one that is missing, until another one comes back or those with a position do without. Puts install when theirs is not
 *   there, and at the beginning of one that after it. (When each thread installed what it needed, 270,336 of them took queue chunks at once, by
 *   compare-and-swaps of one word: 100 ms.)
 * Passing. Who passes last in a queue chunk gives it back. oldest goes on later, when a caller installs, whose lanes look at several numbers each. (When those
 *   who passed last let it go on, one of them walked behind all others: 1 M requests of 8 KiB, which take 105 us with an array, took 200.)
 * Invariants.
 *   I1  All that come to a position see the same: its slot, or that it has none. Else one of them could leave an entry where nobody takes it.
 *   I2  The words of all numbers that are drawn, from oldest on, are of their laps (storage.h).
 * Linearisation point. The compare-and-swap of the word.
 * Stale. newest, if a thread stores an old one: who installs next finds the words behind it, or behind oldest, and goes on; meanwhile puts wait. oldest changes
 *   by a compare-and-swap, since a lap later an old one would look as if not all had passed there.
 */
#ifndef MM_OURO_RING_H
#define MM_OURO_RING_H

#include "runtime/ouroboros/storage.h"

#define MM_RING_NONE ~0u
MM_FN uint64_t *mm_ring_at(const struct mm_heap_ref *ref, uint32_t q, uint64_t number) { return mm_store_word(ref, q, (uint32_t)number); }
/* The word of a number that is not installed yet. */
MM_FN uint64_t mm_ring_empty(uint64_t number) { return number / MM_STORE_NUMBERS << 32; }
MM_FN int mm_ring_is_there(uint64_t word) { return (uint32_t)word != 0 && (uint32_t)word != MM_RING_NONE; }

/* How many a warp of n lanes installs beyond those that are needed now: some for each lane, so that a call does not take long. All queues together have no more
 * of them than half of what segments bring, and entries need the other half at most. */
#define MM_RING_SHARE 32
MM_STATIC_ASSERT(MM_RING_SHARE >= 2 * MM_OURO_QUEUES, "half of what segments bring is enough for all queues");
MM_FN uint32_t mm_ring_ahead(const struct mm_heap_ref *ref, uint32_t n) {
    return n > 1 ? mm_at_most((uint32_t)(mm_store_segments(ref) / MM_RING_SHARE), 4 * n) : 0;
}

/* Whether the word of a number is that of the next lap: all have passed. */
MM_FN int mm_ring_has_passed(uint64_t word, uint64_t number) { return (word ^ mm_ring_empty(number + MM_STORE_NUMBERS)) >> 32 == 0; }
/* oldest goes on, by some numbers; by more if there is no room up to number `end`. All lanes of `group` call. Returns it. */
MM_FN uint64_t mm_ring_go_on(const struct mm_heap_ref *ref, uint32_t q, uint32_t group, uint64_t end) {
    uint64_t *at = &mm_queue_of(ref, q)->oldest;
    const uint64_t before = mm_warp_shuffle_u64(group, mm_load_relaxed_u64(at), mm_ctz(group));
    uint64_t oldest = before;
    const uint32_t rank = mm_popcount(group & mm_warp_before()), many = mm_popcount(group);
    uint32_t gone = 0;
    MM_ROLLED
    do {
        const uint64_t first = oldest + MM_OURO_AT_ONCE * rank;
        uint64_t seen[MM_OURO_AT_ONCE];
        uint32_t done = 0;
        for (uint32_t i = 0; i < MM_OURO_AT_ONCE; i++) seen[i] = mm_load_relaxed_u64(mm_ring_at(ref, q, first + i));
        for (uint32_t i = 0; i < MM_OURO_AT_ONCE; i++) done += done == i && mm_ring_has_passed(seen[i], first + i);
        gone = mm_lanes_there(group, done);
        oldest += gone;
    } while (gone == MM_OURO_AT_ONCE * many && oldest + MM_STORE_NUMBERS / 2 < end);
    if (rank == 0 && oldest != before) mm_cas_relaxed_u64(at, before, oldest); /* it never goes back */
    return oldest;
}
/* Installs queue chunks, from the first one that is missing up to the last one that is drawn, the next one, and what a warp installs ahead, unless the queue is
 * full, or another thread does so. late: a holder of the lock from whom the caller takes it over, or 0. Returns the holder that the caller found, or 0. All lanes of
 * `group` call, with the same `late`, and each installs one at a time. */
MM_FN_RARE uint64_t mm_ring_extend(const struct mm_heap_ref *ref, uint32_t q, uint32_t group, uint64_t late) {
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint32_t n = mm_popcount(group), lane = mm_warp_lane(), leader = mm_ctz(group);
    const uint64_t holder = mm_warp_shuffle_u64(group, mm_load_relaxed_u64(&of->lock), leader), mine = 1 + (uint64_t)mm_random();
    if (holder != 0 && holder != late) return holder;
    const int is_locked = lane == leader && mm_cas_acquire_u64(&of->lock, holder, mine);
    if (mm_warp_ballot(group, is_locked) == 0) return holder;
    const uint32_t ahead = 2 + mm_ring_ahead(ref, n);
    const uint64_t drawn = mm_warp_shuffle_u64(group, (mm_load_relaxed_u64(&of->back) >> MM_OURO_STORE_SHIFT) + ahead, leader),
                   newest = mm_warp_shuffle_u64(group, mm_load_relaxed_u64(&of->newest), leader), oldest = mm_ring_go_on(ref, q, group, drawn),
                   most = oldest + MM_STORE_NUMBERS / 2, end = drawn < most ? drawn : most;
    uint64_t number = (newest > oldest ? newest : oldest) + mm_popcount(group & mm_bits_low(lane)); /* a stale newest is before the oldest one */
    MM_ROLLED
    for (uint32_t stops = 0; stops == 0; number += n) {
        uint64_t *at = mm_ring_at(ref, q, number);
        const uint64_t empty = mm_ring_empty(number), word = mm_load_relaxed_u64(at);
        const uint32_t id = number < end && word == empty ? mm_store_take(ref, (uint32_t)number) : 0;
        const int is_lost = id != 0 && !mm_cas_acq_rel_u64(at, empty, empty | id);
        if (is_lost) mm_store_give(ref, id);
        stops = mm_warp_ballot(group, number >= end || word < empty || (word == empty && id == 0)); /* the last lap's is still used; or there is no memory */
        const uint32_t there = mm_warp_ballot(group, !is_lost && word != (empty | MM_RING_NONE)) & (stops - 1) & ~stops;
        if (there >> lane == 1) mm_store_relaxed_u64(&of->newest, number + 1);
    }
    mm_warp_sync(group);
    if (is_locked) mm_cas_acq_rel_u64(&of->lock, mine, 0); /* unless another thread took it over */
    return holder;
}
/* Waits until the word of queue chunk `number` is not empty; or, is_put, until that one or a later one is installed; `most` looks without a change of newest.
 * All lanes of `group` call. Returns whether it is. */
MM_FN_RARE int mm_ring_await(const struct mm_heap_ref *ref, uint32_t q, uint32_t group, uint64_t number, int is_put, uint32_t most) {
    uint64_t *at = mm_ring_at(ref, q, number), *newest = &mm_queue_of(ref, q)->newest, seen = 0, holder = 0;
    const uint32_t patience = mm_warp_shuffle(group, mm_store_patience(), mm_ctz(group));
    MM_ROLLED
    for (uint32_t looks = 0, same = 0; looks < most; looks++) {
        const uint64_t found = mm_ring_extend(ref, q, group, same >= patience ? holder : 0), now = mm_load_relaxed_u64(newest);
        if (mm_warp_ballot(group, is_put ? now > number : mm_load_relaxed_u64(at) != mm_ring_empty(number)) != 0) return 1;
        const int has_moved = mm_warp_ballot(group, now != seen) != 0;
        same = found == holder && !has_moved ? same + 1 : 0, holder = found;
        if (has_moved) looks = 0;
        seen = now;
        mm_pause(ref, MM_OURO_PAUSE);
        mm_wait();
    }
    return 0;
}
/* The word of queue chunk `number` of queue q, of which the caller has a position, and which was not there yet. Acquires. */
MM_FN uint64_t mm_ring_install(const struct mm_heap_ref *ref, uint32_t q, uint64_t number, uint32_t most) {
    uint64_t *at = mm_ring_at(ref, q, number);
    const uint64_t empty = mm_ring_empty(number), none = empty | MM_RING_NONE;
    return !mm_ring_await(ref, q, 1u << mm_warp_lane(), number, 0, most) && mm_cas_acq_rel_u64(at, empty, none) ? none : mm_load_acquire_u64(at);
}
MM_FN uint64_t mm_queue_view(const struct mm_heap_ref *ref, uint32_t q) { return (void)ref, (void)q, 0; }
MM_FN uint32_t *mm_ring_slot(const struct mm_heap_ref *ref, uint64_t word, uint64_t p) {
    return mm_ring_is_there(word) ? &mm_store_at(ref, (uint32_t)word)->slot[(uint32_t)p % MM_STORE_SLOTS] : NULL;
}
MM_FN uint32_t *mm_queue_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint64_t view, uint32_t most) {
    (void)view;
    const uint64_t number = p >> MM_OURO_STORE_SHIFT;
    uint64_t word = mm_load_acquire_u64(mm_ring_at(ref, q, number));
    if ((uint32_t)word == 0) word = mm_ring_install(ref, q, number, most);
    return mm_ring_slot(ref, word, p);
}
/* The same, or NULL if the queue chunk is not there yet. Relaxed: slots are only accessed by atomics (storage.h). */
MM_FN uint32_t *mm_queue_slot_soon(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint64_t view) {
    (void)view;
    return mm_ring_slot(ref, mm_load_relaxed_u64(mm_ring_at(ref, q, p >> MM_OURO_STORE_SHIFT)), p);
}
/* Whether the next position of queue q has no slot, as far as a caller sees that does not wait. */
MM_FN int mm_queue_is_full_soon(const struct mm_heap_ref *ref, uint32_t q) {
    struct mm_queue *of = mm_queue_of(ref, q);
    return mm_load_cached_u64(&of->newest) <= mm_load_cached_u64(&of->back) >> MM_OURO_STORE_SHIFT;
}
/* Whether queue chunk `next` is too far from the oldest one in which not all have passed. */
MM_FN int mm_ring_has_no_room(const struct mm_heap_ref *ref, uint32_t q, uint64_t next) {
    const uint64_t oldest = mm_load_relaxed_u64(&mm_queue_of(ref, q)->oldest);
    return next >= oldest + MM_STORE_NUMBERS / 2 && !mm_ring_has_passed(mm_load_relaxed_u64(mm_ring_at(ref, q, oldest)), oldest);
}
/* Whether the next position of queue q has no slot. All lanes of `group` call, and get the same. If its queue chunk is not installed, they install it, or wait. */
MM_FN int mm_queue_is_full(const struct mm_heap_ref *ref, uint32_t q, uint32_t group, uint32_t most) {
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint64_t next = mm_load_relaxed_u64(&of->back) >> MM_OURO_STORE_SHIFT;
    if (MM_LIKELY(mm_warp_ballot(group, mm_load_relaxed_u64(&of->newest) <= next) == 0)) return 0;
    return mm_warp_ballot(group, mm_ring_has_no_room(ref, q, next)) != 0 || !mm_ring_await(ref, q, group, next, 1, most);
}
/* `group` has drawn n positions from p on, to put. Those who draw the first position of a queue chunk install the next one, if nobody else installs. (When all
 * who drew one of the first 64 did so, half of all puts came there while one thread installed.) */
MM_FN int mm_ring_begins(uint64_t p, uint32_t n) { return (p + n - 1) >> MM_OURO_STORE_SHIFT != (p - 1) >> MM_OURO_STORE_SHIFT; }
MM_FN void mm_queue_go_ahead(const struct mm_heap_ref *ref, uint32_t q, uint32_t group, uint64_t p, uint32_t n) {
    if (mm_ring_begins(p, n)) mm_ring_extend(ref, q, group, 0);
}
/* All have passed in the queue chunk of word `in`: gives it back, and makes the word that of the next lap. */
MM_FN_RARE void mm_queue_passed(const struct mm_heap_ref *ref, uint32_t q, uint32_t in) {
    uint64_t *const at = mm_ring_at(ref, q, in), word = mm_load_relaxed_u64(at);
    mm_store_release_u64(at, ((word >> 32) + 1) << 32);
    if (mm_ring_is_there(word)) mm_store_give(ref, (uint32_t)word);
}
/* Passes n times. Returns whether it was the last one: then it has to call mm_queue_passed. */
MM_FN int mm_queue_pass_soon(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint32_t n) {
    return mm_store_pass(ref, q, (uint32_t)(p >> MM_OURO_STORE_SHIFT), n, 0);
}
MM_FN_RARE void mm_queue_pass(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint32_t n) {
    if (mm_queue_pass_soon(ref, q, p, n)) mm_queue_passed(ref, q, (uint32_t)(p >> MM_OURO_STORE_SHIFT) % MM_STORE_NUMBERS);
}
/* The caller has position p, in a queue chunk that has no slots: draws those that are left in it, too, from *drawn, which is front or back. Returns how many. A
 * caller that takes has a right to an entry that is behind all of them, so back does not stay behind front. */
MM_FN uint32_t mm_queue_skip(uint64_t p, uint64_t *drawn) {
    const uint64_t now = mm_load_relaxed_u64(drawn), end = (p | (MM_STORE_SLOTS - 1)) + 1;
    return now < end && mm_cas_relaxed_u64(drawn, now, end) ? (uint32_t)(end - now) : 0;
}
MM_FN void mm_queue_turn(const struct mm_heap_ref *ref, uint32_t q, const uint32_t *slot) { (void)ref, (void)q, (void)slot; }

#endif
