/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The virtualised array queue (VA): a ring of words, each of which names a queue chunk (storage.h).
 *
 * Representation. The word of queue chunk `number` is that of the number modulo MM_STORE_NUMBERS: {lap : 32 | id : 32}; lap: number / MM_STORE_NUMBERS. id 0:
 *   it is not installed yet; MM_RING_NONE: there was no memory, so it has no slots. When all have passed, the word becomes that of the next lap.
 *   oldest: the number of the first one in which not all have passed.
 * Installing. Any thread that needs a queue chunk installs it, by a compare-and-swap; nobody has to wait for another one. So that not all do so at once, the
 *   thread that draws the first position of a queue chunk installs the next one, and the others look MM_OURO_LOOKS times first.
 * Invariants.
 *   I1  All that come to a position see the same: its slot, or that it has none. Else one of them could leave an entry where nobody takes it.
 *   I2  The words of all numbers that are drawn, from oldest on, are of their laps (storage.h).
 * Linearisation point. The compare-and-swap of the word.
 */
#ifndef MM_OURO_RING_H
#define MM_OURO_RING_H

#include "runtime/ouroboros/storage.h"

#define MM_RING_NONE ~0u
MM_FN uint64_t *mm_ring_at(const struct mm_heap_ref *ref, uint32_t q, uint64_t number) { return mm_store_words(ref, q, (uint32_t)number) + 1; }
/* The word of a number that is not installed yet. */
MM_FN uint64_t mm_ring_empty(uint64_t number) { return number / MM_STORE_NUMBERS << 32; }
MM_FN int mm_ring_is_there(uint64_t word) { return (uint32_t)word != 0 && (uint32_t)word != MM_RING_NONE; }

/* The word of queue chunk `number` of queue q. If it is not there, it is installed; or, if there is no memory, becomes `without`. Acquires. */
MM_FN_RARE uint64_t mm_ring_install(const struct mm_heap_ref *ref, uint32_t q, uint64_t number, uint32_t looks, uint32_t without) {
    uint64_t *at = mm_ring_at(ref, q, number), word = mm_load_acquire_u64(at);
    const uint64_t empty = mm_ring_empty(number);
    MM_ROLLED
    for (; word == empty && looks > 0; looks--) {
        mm_pause(ref, MM_MAKE_PAUSE);
        mm_wait();
        word = mm_load_acquire_u64(at);
    }
    if (word != empty) return word;
    const uint32_t id = mm_store_take(ref, number);
    if (mm_cas_acq_rel_u64(at, empty, empty | (id != 0 ? id : without))) return empty | (id != 0 ? id : without);
    if (id != 0) mm_store_give(ref, id);
    return mm_load_acquire_u64(at);
}
MM_FN uint32_t *mm_queue_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t p) {
    const uint64_t number = p >> MM_OURO_STORE_SHIFT;
    const uint32_t in = (uint32_t)p % MM_STORE_SLOTS;
    uint64_t word = mm_load_acquire_u64(mm_ring_at(ref, q, number));
    if ((uint32_t)word == 0) word = mm_ring_install(ref, q, number, in != 0 ? MM_OURO_LOOKS : 0, MM_RING_NONE);
    if (in == 0) mm_ring_install(ref, q, number + 1, 0, 0);
    return mm_ring_is_there(word) ? &mm_store_at(ref, (uint32_t)word)->slot[in] : NULL;
}
MM_FN int mm_queue_is_full(const struct mm_heap_ref *ref, uint32_t q) {
    const uint64_t oldest = mm_load_relaxed_u64(&mm_queue_of(ref, q)->oldest);
    return (int64_t)((mm_load_relaxed_u64(&mm_queue_of(ref, q)->back) >> MM_OURO_STORE_SHIFT) - oldest) >= MM_STORE_NUMBERS / 2;
}
/* The last one that passes gives the queue chunk back, makes the word that of the next lap, and oldest goes on. */
MM_FN void mm_queue_pass(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint32_t n) {
    const uint64_t number = p >> MM_OURO_STORE_SHIFT;
    uint64_t *const oldest = &mm_queue_of(ref, q)->oldest, *const at = mm_ring_at(ref, q, number);
    if (!mm_store_pass(ref, q, (uint32_t)number, n)) return;
    const uint64_t word = mm_load_relaxed_u64(at);
    mm_cas_acq_rel_u64(at, word, mm_ring_empty(number + MM_STORE_NUMBERS));
    if (mm_ring_is_there(word)) mm_store_give(ref, (uint32_t)word);
    MM_ROLLED
    for (uint64_t first = mm_load_relaxed_u64(oldest);; first = mm_load_relaxed_u64(oldest)) {
        const uint64_t next = mm_add_acq_rel_u64(mm_ring_at(ref, q, first), 0); /* by an addition, so that one of two sees the other */
        if ((next ^ mm_ring_empty(first + MM_STORE_NUMBERS)) >> 32 != 0) return;
        mm_cas_acq_rel_u64(oldest, first, first + 1);
    }
}
MM_FN void mm_queue_turn(const struct mm_heap_ref *ref, uint32_t q, const uint32_t *slot) { (void)ref, (void)q, (void)slot; }

#endif
