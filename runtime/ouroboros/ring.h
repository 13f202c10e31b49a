/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The virtualised array queue (VA): a ring of words, each of which names a queue chunk (storage.h).
 *
 * Representation. The word of queue chunk `number` is that of the number modulo MM_STORE_NUMBERS: {lap : 32 | id : 32}; lap: number / MM_STORE_NUMBERS. id 0:
 *   it is not installed yet. When all have passed, the word becomes that of the next lap.
 * Installing. Any thread that needs a queue chunk installs it, by a compare-and-swap; nobody has to wait for another one. So that not all do so at once, the
 *   thread that draws the first position of a queue chunk installs the next one, and the others look MM_OURO_LOOKS times first. A late one finds another lap.
 * Linearisation point. The compare-and-swap of the word.
 */
#ifndef MM_OURO_RING_H
#define MM_OURO_RING_H

#include "runtime/ouroboros/storage.h"

MM_FN uint64_t *mm_ring_at(const struct mm_heap_ref *ref, uint32_t q, uint32_t number) { return mm_store_words(ref, q, number) + 1; }

/* The id of queue chunk `number` of queue q, which is installed if it is not there; 0: it cannot be. Acquires. */
MM_FN_RARE uint32_t mm_ring_install(const struct mm_heap_ref *ref, uint32_t q, uint32_t number, uint32_t looks) {
    uint64_t *at = mm_ring_at(ref, q, number), word = mm_load_acquire_u64(at);
    const uint64_t lap = (uint64_t)(number / MM_STORE_NUMBERS) << 32;
    MM_ROLLED
    for (; word == lap && looks > 0; looks--) {
        mm_pause(ref, MM_MAKE_PAUSE);
        mm_wait();
        word = mm_load_acquire_u64(at);
    }
    if (word == lap) {
        const uint32_t id = mm_store_take(ref, number);
        if (id != 0 && mm_cas_acq_rel_u64(at, lap, lap | id)) return id;
        if (id != 0) mm_store_give(ref, id);
        word = mm_load_acquire_u64(at);
    }
    return (word ^ lap) >> 32 == 0 ? (uint32_t)word : 0;
}
MM_FN uint32_t *mm_queue_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t p) {
    const uint32_t number = (uint32_t)(p >> MM_OURO_STORE_SHIFT), in = (uint32_t)p % MM_STORE_SLOTS;
    const uint64_t word = mm_load_acquire_u64(mm_ring_at(ref, q, number));
    uint32_t id = word >> 32 == number / MM_STORE_NUMBERS ? (uint32_t)word : 0;
    if (id == 0) id = mm_ring_install(ref, q, number, in != 0 ? MM_OURO_LOOKS : 0);
    if (in == 0) mm_ring_install(ref, q, number + 1, 0);
    return id != 0 ? &mm_store_at(ref, id)->slot[in] : NULL;
}
MM_FN void mm_queue_pass(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint32_t n) {
    const uint32_t number = (uint32_t)(p >> MM_OURO_STORE_SHIFT);
    uint64_t *at = mm_ring_at(ref, q, number), word;
    if (!mm_store_pass(ref, q, number, n)) return;
    mm_store_release_u64(mm_store_words(ref, q, number), 0);
    do {
        word = mm_load_relaxed_u64(at); /* a late thread may install it just now */
    } while (!mm_cas_acq_rel_u64(at, word, ((word >> 32) + 1) << 32));
    if ((uint32_t)word != 0) mm_store_give(ref, (uint32_t)word);
}

#endif
