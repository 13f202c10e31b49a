/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The virtualised linked-list queue (VL): a list of queue chunks (storage.h).
 *
 * Representation. oldest, newest: {number : 32 | id : 32} of the first queue chunk and of one at the end; oldest is exact, newest is a hint. next, in a queue
 *   chunk: the word of the next one; with id 0, and the number of the queue chunk itself: there is none yet. note: the id for a number, once it is appended; a
 *   hint, too: it may be missing, but is not wrong for a caller that has a position of the number, or that finds oldest unchanged before it.
 * Invariants.
 *   I1  a queue chunk is in the list until all have passed in it, and in those before it. So a thread with a position finds its queue chunk
 *       by the links from oldest on.
 *   I2  number of a queue chunk is constant while it is in the list, and differs for each of its lives; so does the word that next has while there is none.
 * Appending. Who comes to the end of the list takes the queue's lock, if it is free, and appends all that are missing up to back, one more, and a share of the
 *   list's length: those who wait have not drawn their positions yet. The others look. The lock is a hint, since its holder may be a lane that waits for a lane
 *   of the caller's warp: who has found the same holder, and the same end of the list, at MM_OURO_LOCK_LOOKS looks and some more takes it over. So one caller
 *   appends, and not all that have waited as long. If the list does not become longer for MM_OURO_LONG_LOOKS looks, they have no slots (missed); puts that have
 *   no position yet are refused. A caller that takes has no need to wait: an entry was put at its position or a later one, so its queue chunk is in the list.
 *   Several queue chunks that are linked first and appended together are slower: the list does not become longer meanwhile (docs/explanation/lessons.md).
 * Finding. By the note; if there is none yet, by a walk, from newest on, or from oldest if that is too new. A link is valid if the number of the queue chunk
 *   that it was read from is unchanged afterwards. Otherwise that one has left the list, and the walk begins anew at oldest. In the paper a third pointer lags
 *   ten queue chunks behind instead: a heuristic. (Without notes, who came late walked along the whole list.)
 * Linearisation points. Appending: the compare-and-swap of next, which cannot succeed in another life (I2). Removal: the compare-and-swap of oldest.
 * Progress. Bounded: a walk begins anew only if oldest moved, and waits at the end of the list as said above.
 */
#ifndef MM_OURO_LINKS_H
#define MM_OURO_LINKS_H

#include "runtime/ouroboros/storage.h"

/* A number in 32 bits: {queue : 4 | number : 28}. So a word of one queue is none of another. */
#define MM_LINKS_NUMBERS (1u << 28)
MM_FN uint32_t mm_links_number(uint32_t q, uint32_t number) { return q << 28 | number % MM_LINKS_NUMBERS; }
MM_FN int32_t mm_links_ahead(uint64_t word, uint32_t number) { return (int32_t)(((uint32_t)(word >> 32) - number) << 4) >> 4; }
#define MM_LINKS_NONE (~0ull << 32)
#define MM_LINKS_GONE ~0u
MM_FN uint64_t mm_links_word(uint32_t number, uint32_t id) { return (uint64_t)number << 32 | id; }

/* Two words of 32 bits for each number modulo MM_STORE_NUMBERS. The last number, plus 1, that could not be appended when a caller came to put: it has no slot at
 * its position; the caller that takes may have one, and leaves its mark in it. */
MM_FN uint32_t *mm_links_missed(const struct mm_heap_ref *ref, uint32_t q, uint32_t number) { return (uint32_t *)mm_store_word(ref, q, number); }
/* And a note: {lap | id} of the last one that was appended. */
#define MM_LINKS_ID_BITS (MM_OURO_LIST_SHIFT + 2)
MM_STATIC_ASSERT(MM_LINKS_ID_BITS < 32 && MM_STORE_FIRST + (1u << MM_OURO_LIST_SHIFT) < 1u << MM_LINKS_ID_BITS, "one for each segment, and the first ones");
MM_FN uint32_t *mm_links_note_at(const struct mm_heap_ref *ref, uint32_t q, uint32_t number) { return mm_links_missed(ref, q, number) + 1; }
MM_FN uint32_t mm_links_note(uint32_t number, uint32_t id) { return number / MM_STORE_NUMBERS << MM_LINKS_ID_BITS | id; }
/* The id of queue chunk `number` in a note, or 0: it is not noted. If the caller has a position of that number, the queue chunk is in the list (I1). */
MM_FN uint32_t mm_links_noted(uint32_t note, uint32_t number) {
    const uint32_t id = note ^ mm_links_note(number, 0);
    return id >> MM_LINKS_ID_BITS == 0 ? id : 0;
}

/* What follows a word: the next queue chunk's; 0: the word is of one that has left; MM_LINKS_NONE: none. Acquires. */
MM_FN uint64_t mm_links_next(const struct mm_heap_ref *ref, uint64_t word) {
    struct mm_store *of = mm_store_at(ref, (uint32_t)word);
    const uint64_t next = mm_load_acquire_u64(&of->next);
    if ((uint32_t)mm_load_acquire_u64(&of->number) != (uint32_t)(word >> 32)) return 0;
    return (uint32_t)next != 0 ? next : MM_LINKS_NONE;
}
/* The list is not longer than to this number: half as many as there are words, from oldest on (storage.h). An oldest of 0 is number 0 of any queue. */
MM_FN uint32_t mm_links_most(uint32_t q, uint64_t oldest) { return mm_links_number(q, (uint32_t)(oldest >> 32) + MM_STORE_NUMBERS / 2); }
/* Appends behind `word`, the last one, up to the last number that is drawn, the next one, and 1/MM_OURO_AHEAD of the list's length beyond two more, unless
 * another thread does so. word 0: the list is empty. late: a holder of the lock from whom the caller takes it over, or 0. Returns the holder that the caller found, or
 * 0. */
MM_FN_RARE uint64_t mm_links_extend(const struct mm_heap_ref *ref, uint32_t q, uint64_t word, uint64_t late) {
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint64_t holder = mm_load_relaxed_u64(&of->lock), before = word;
    uint64_t *at = word != 0 ? &mm_store_at(ref, (uint32_t)word)->next : &of->oldest;
    if (holder != 0 && holder != late) return holder;
    const uint64_t mine = 1 + (uint64_t)mm_random();
    if (!mm_cas_acquire_u64(&of->lock, holder, mine)) return holder;
    const uint64_t oldest = mm_load_relaxed_u64(&of->oldest);
    const uint32_t drawn = (uint32_t)(mm_load_relaxed_u64(&of->back) >> MM_OURO_STORE_SHIFT) + 2, most = mm_links_most(q, oldest),
                   length = mm_at_most((drawn - (uint32_t)(oldest >> 32)) % MM_LINKS_NUMBERS, MM_STORE_NUMBERS),
                   wanted = mm_links_number(q, drawn + (length > 2 ? (length - 2) / MM_OURO_AHEAD : 0)),
                   end = mm_links_ahead(mm_links_word(wanted, 0), most) < 0 ? wanted : most;
    MM_ROLLED
    while (word != before || mm_load_relaxed_u64(at) == word >> 32 << 32) { /* others may have appended there before the caller had the lock */
        const uint32_t number = mm_links_number(q, word != 0 ? (uint32_t)(word >> 32) + 1 : 0);
        if (word != 0 && mm_links_ahead(mm_links_word(number, 0), end) >= 0) break;
        const uint32_t id = mm_store_take(ref, number);
        if (id == 0) break;
        mm_store_release_u64(&mm_store_at(ref, id)->next, mm_links_word(number, 0));
        mm_store_relaxed_u64(&mm_store_at(ref, id)->number, number);
        if (!mm_cas_acq_rel_u64(at, word >> 32 << 32, mm_links_word(number, id))) {
            mm_store_give(ref, id);
            break;
        }
        mm_store_release_u32(mm_links_note_at(ref, q, number), mm_links_note(number, id));
        word = mm_links_word(number, id);
        at = &mm_store_at(ref, id)->next;
    }
    if (word != before && mm_load_relaxed_u64(&of->lock) == mine) mm_store_release_u64(&of->newest, word);
    mm_cas_acq_rel_u64(&of->lock, mine, 0); /* unless another thread took it over */
    return holder;
}

/* The id of queue chunk `number`; 0: it is not appended; MM_LINKS_GONE: it has left. `most` looks at a list that does not become longer; with fewer than twice
 * MM_OURO_LOCK_LOOKS the caller takes no lock over, for it has looked longer before (queue.h). A walk begins anew if newest is old, or oldest went on, which does
 * not go beyond a number of which the caller has a position: less often than there are numbers. */
MM_FN_RARE uint32_t mm_links_find(const struct mm_heap_ref *ref, uint32_t q, uint32_t number, uint32_t most) {
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint32_t noted = mm_links_noted(mm_load_acquire_u32(mm_links_note_at(ref, q, number)), number);
    if (noted != 0) return noted;
    const uint32_t patience = mm_store_patience();
    uint64_t at = mm_load_acquire_u64(&of->newest), holder = 0;
    MM_ROLLED
    for (uint32_t looks = 0, same = 0, last = 0, walks = 0; looks < most && walks < 2 * MM_STORE_NUMBERS;) {
        if ((uint32_t)at == 0 || mm_links_ahead(at, number) > 0) at = mm_load_acquire_u64(&of->oldest);
        if ((uint32_t)at != 0 && mm_links_ahead(at, number) > 0) return MM_LINKS_GONE;
        uint64_t next = (uint32_t)at != 0 ? at : MM_LINKS_NONE;
        MM_ROLLED
        while ((uint32_t)next != 0 && mm_links_ahead(next, number) < 0) at = next, next = mm_links_next(ref, at);
        if (next == MM_LINKS_NONE) {
            const uint64_t found = mm_links_extend(ref, q, (uint32_t)at != 0 ? at : 0, same >= patience ? holder : 0);
            same = found == holder && (uint32_t)at == last ? same + 1 : 0, holder = found;
            looks = (uint32_t)at == last ? looks + 1 : 0, last = (uint32_t)at;
            mm_pause(ref, MM_OURO_PAUSE);
            mm_wait();
            continue;
        }
        at = next;
        if ((uint32_t)at != 0 && (uint32_t)mm_load_acquire_u64(&mm_store_at(ref, (uint32_t)at)->number) == number) return (uint32_t)at;
        at = 0, walks++;
    }
    return 0;
}
MM_FN uint64_t mm_queue_view(const struct mm_heap_ref *ref, uint32_t q) { return (void)ref, (void)q, 0; }
/* The slot of position p, if its queue chunk is noted; else NULL. NULL for the first slot, too: who puts there appends (mm_queue_slot). Relaxed: slots are only
 * accessed by atomics (storage.h). */
MM_FN uint32_t *mm_queue_slot_soon(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint64_t view) {
    const uint32_t in = (uint32_t)p % MM_STORE_SLOTS, number = mm_links_number(q, (uint32_t)(p >> MM_OURO_STORE_SHIFT)),
                   id = mm_links_noted(mm_load_relaxed_u32(mm_links_note_at(ref, q, number)), number);
    (void)view;
    return in != 0 && id != 0 ? &mm_store_at(ref, id)->slot[in] : NULL;
}
MM_FN uint32_t *mm_queue_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint64_t view, uint32_t most) {
    (void)view;
    const uint32_t in = (uint32_t)p % MM_STORE_SLOTS, number = mm_links_number(q, (uint32_t)(p >> MM_OURO_STORE_SHIFT)),
                   id = mm_links_find(ref, q, number, most);
    if (id == 0) {
        mm_store_relaxed_u32(mm_links_missed(ref, q, number), number + 1);
        return NULL;
    }
    if (in == 0 && mm_links_next(ref, mm_links_word(number, id)) == MM_LINKS_NONE) mm_links_extend(ref, q, mm_links_word(number, id), 0);
    return &mm_store_at(ref, id)->slot[in];
}
/* Whether the next position of queue q has no slot. All lanes of `group` call, and get the same. */
MM_FN int mm_queue_is_full(const struct mm_heap_ref *ref, uint32_t q, uint32_t group, uint32_t most) {
    struct mm_queue *of = mm_queue_of(ref, q);
    int is_full = 0;
    if (mm_warp_lane() == mm_ctz(group)) {
        const uint64_t newest = mm_load_relaxed_u64(&of->newest);
        const uint32_t next = mm_links_number(q, (uint32_t)(mm_load_relaxed_u64(&of->back) >> MM_OURO_STORE_SHIFT));
        if (!MM_LIKELY((uint32_t)newest != 0 && mm_links_ahead(newest, next) >= 0))
            is_full = mm_links_ahead(mm_links_word(mm_links_most(q, mm_load_relaxed_u64(&of->oldest)), 0), next) <= 0 || mm_links_find(ref, q, next, most) == 0;
    }
    return mm_warp_ballot(group, is_full) != 0;
}
/* Whether the next position of queue q has no slot, as far as a caller sees that does not wait. */
MM_FN int mm_queue_is_full_soon(const struct mm_heap_ref *ref, uint32_t q) {
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint64_t newest = mm_load_cached_u64(&of->newest);
    return (uint32_t)newest == 0 || mm_links_ahead(newest, mm_links_number(q, (uint32_t)(mm_load_cached_u64(&of->back) >> MM_OURO_STORE_SHIFT))) < 0;
}
/* All have passed in some queue chunk: takes those from oldest on in which all have out of the list. in: see ring.h. */
MM_FN_RARE void mm_queue_passed(const struct mm_heap_ref *ref, uint32_t q, uint32_t in) {
    struct mm_queue *of = mm_queue_of(ref, q);
    (void)in;
    MM_ROLLED
    for (;;) {
        const uint64_t word = mm_load_acquire_u64(&of->oldest);
        const uint32_t number = (uint32_t)(word >> 32), after = mm_links_number(q, number + 1),
                       noted = mm_links_noted(mm_load_acquire_u32(mm_links_note_at(ref, q, after)), after);
        if ((uint32_t)word == 0 || !mm_store_pass(ref, q, number, 0, 1)) return; /* by an addition, so that one of two sees the other */
        const uint64_t next = noted != 0 ? mm_links_word(after, noted) : mm_links_next(ref, word);
        if (next == MM_LINKS_NONE) {
            mm_links_extend(ref, q, word, 0);
            if (mm_links_next(ref, word) == MM_LINKS_NONE) return; /* the next one that passes goes on */
            continue;
        }
        const int is_left = mm_load_relaxed_u32(mm_links_missed(ref, q, number)) == number + 1;
        if (next == 0 || !mm_cas_acq_rel_u64(&of->oldest, word, next)) continue;
        if (is_left) mm_store_clear(ref, (uint32_t)word, 0, 1);
        mm_store_give(ref, (uint32_t)word);
    }
}
/* Passes n times, relaxed: the caller has stored nothing but its exchange of the slot, whose result it has. Returns whether it was the last one: then it has to
 * call mm_queue_passed. */
MM_FN int mm_queue_pass_soon(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint32_t n) {
    return mm_store_pass(ref, q, mm_links_number(q, (uint32_t)(p >> MM_OURO_STORE_SHIFT)), n, 0);
}
MM_FN_RARE void mm_queue_pass(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint32_t n) {
    if (mm_store_pass(ref, q, mm_links_number(q, (uint32_t)(p >> MM_OURO_STORE_SHIFT)), n, 1)) mm_queue_passed(ref, q, 0);
}
MM_FN void mm_queue_go_ahead(const struct mm_heap_ref *ref, uint32_t q, uint32_t group, uint64_t p, uint32_t n) {
    (void)ref, (void)q, (void)group, (void)p, (void)n;
}
MM_FN uint32_t mm_queue_skip(uint64_t p, uint64_t *drawn) { return (void)p, (void)drawn, 0; }
MM_FN void mm_queue_turn(const struct mm_heap_ref *ref, uint32_t q, const uint32_t *slot) { (void)ref, (void)q, (void)slot; }

#endif
