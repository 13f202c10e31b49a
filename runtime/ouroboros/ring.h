/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The virtualised array queue (VA): a ring of words, each of which names a queue chunk (storage.h).
 *
 * Representation. Position p is a slot of queue chunk number p / MM_STORE_SLOTS, whose word is that number modulo MM_RING_WORDS_VA. The word: {number : 32 |
 *   id : 32}; id 0: nobody has installed that queue chunk yet, or it is done with.
 * Installing. Any thread that needs a queue chunk installs it, by a compare-and-swap; nobody has to wait for another one. So that not all do so at once, the
 *   thread that draws the first position of a queue chunk installs the next one, and the others look MM_OURO_LOOKS times first.
 * Linearisation point. The compare-and-swap of the word.
 * Limit. A queue has at most MM_RING_WORDS_VA queue chunks. Beyond that a position has no slot: the mask or chunk stays out of the queue (queue.h).
 */
#ifndef MM_OURO_RING_H
#define MM_OURO_RING_H

#include "runtime/ouroboros/storage.h"

#define MM_RING_WORDS_VA (1u << MM_OURO_RING_SHIFT)
MM_STATIC_ASSERT((1u << MM_OURO_LIST_SHIFT) + MM_OURO_QUEUES * MM_RING_WORDS_VA <= MM_CLASS_COUNT * MM_MADE, "list and rings are in made");
MM_FN uint64_t *mm_ring_at(const struct mm_heap_ref *ref, uint32_t q, uint64_t number) {
    return (uint64_t *)ref->made + (1u << MM_OURO_LIST_SHIFT) + q * MM_RING_WORDS_VA + number % MM_RING_WORDS_VA;
}

/* The id of queue chunk `number` of queue q, which is installed if it is not there; 0: it cannot be. Acquires. */
MM_FN_RARE uint32_t mm_ring_install(const struct mm_heap_ref *ref, uint32_t q, uint64_t number, uint32_t looks) {
    uint64_t *at = mm_ring_at(ref, q, number), word = mm_load_acquire_u64(at);
    MM_ROLLED
    for (; (uint32_t)word == 0 && looks > 0; looks--) {
        mm_pause(ref, MM_MAKE_PAUSE);
        mm_wait();
        word = mm_load_acquire_u64(at);
    }
    if ((uint32_t)word == 0) {
        const uint32_t id = mm_store_take(ref, number);
        if (id != 0 && mm_cas_acq_rel_u64(at, word, mm_store_word(number, id))) return id;
        if (id != 0) mm_store_give(ref, id);
        word = mm_load_acquire_u64(at);
    }
    return word >> 32 == (uint32_t)number ? (uint32_t)word : 0;
}
MM_FN uint32_t *mm_queue_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t p) {
    const uint64_t number = p >> MM_OURO_STORE_SHIFT, word = mm_load_acquire_u64(mm_ring_at(ref, q, number));
    uint32_t in = (uint32_t)p % MM_STORE_SLOTS, id = (uint32_t)word;
    if (id == 0 || word >> 32 != (uint32_t)number) id = mm_ring_install(ref, q, number, in != 0 ? MM_OURO_LOOKS : 0);
    if (in == 0) mm_ring_install(ref, q, number + 1, 0);
    return id != 0 ? &mm_store_at(ref, id)->slot[in] : NULL;
}
MM_FN void mm_queue_pass(const struct mm_heap_ref *ref, uint32_t q, uint64_t p) {
    uint64_t *at = mm_ring_at(ref, q, p >> MM_OURO_STORE_SHIFT);
    const uint32_t id = (uint32_t)mm_load_relaxed_u64(at);
    if (!mm_store_pass(ref, id)) return;
    mm_store_release_u64(at, 0);
    mm_store_give(ref, id);
}

#endif
