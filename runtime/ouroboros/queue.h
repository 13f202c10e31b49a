/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Queues of entries (Winter et al., ICS 2020): for each class, the masks or chunks with free pages; and the free chunks.
 *
 * Representation. front and back: positions drawn so far. Each position has a slot (array.h, ring.h, links.h): 0, an entry plus 1, or MM_QUEUE_SKIP.
 * Put. Draw a position; a compare-and-swap of its slot from 0; count the entry (semaphore.h). Take, with a right: draw a position, wait for its entry, and swap
 *   the slot to 0. A caller that takes and has waited MM_OURO_LOOKS looks, since the one that puts is suspended or in its own warp, swaps the slot to
 *   MM_QUEUE_SKIP, and gives its right back. The one that puts finds that, clears the slot, and draws another position.
 * Invariants.
 *   I1  each entry is at a position that was not drawn for taking, or whose taker is about to find it. So rights never exceed the entries that can be reached.
 *   I2  a position's putter and taker each come to its slot once; the second one that is done with it leaves it 0.
 * Full. There are as many slots as entries (array.h, storage.h), but a put may meet an entry in its slot while an array changes, or if a sweep has made entries
 *   stale; then it draws another position, MM_OURO_TRIES at most. If it gets none, the mask or chunk stays out of the queue, and free: a sweep finds it, and, of
 *   chunk allocators, the next free in the chunk. No page is lost, and nobody traps.
 * Linearisation points. The compare-and-swaps of the slot.
 * Progress. All loops are bounded.
 * Stale. Array queue: a putter that is suspended while the queue goes round once may put its entry behind front. Rights exceed the entries ahead until front is
 *   there again; callers then give rights back, and cut chunks.
 */
#ifndef MM_OURO_QUEUE_H
#define MM_OURO_QUEUE_H

#define MM_OURO_S 0
#define MM_OURO_VA 1
#define MM_OURO_VL 2
#ifndef MM_OURO_QUEUE
#define MM_OURO_QUEUE MM_OURO_VA
#endif

#if MM_OURO_QUEUE == MM_OURO_S
#include "runtime/ouroboros/array.h"
#elif MM_OURO_QUEUE == MM_OURO_VA
#include "runtime/ouroboros/ring.h"
#else
#include "runtime/ouroboros/links.h"
#endif

#define MM_QUEUE_SKIP ~0u
#define MM_QUEUE_NONE ~0u

/* Puts an entry into queue q. Returns whether it found a slot. Releases. */
MM_FN_RARE int mm_queue_put(const struct mm_heap_ref *ref, uint32_t q, uint32_t entry) {
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_OURO_TRIES; tries++) {
        const uint64_t p = mm_add_acq_rel_u64(&mm_queue_of(ref, q)->back, 1);
        uint32_t *slot = mm_queue_slot(ref, q, p);
        if (slot == NULL) continue;
        if (mm_cas_acq_rel_u32(slot, 0, entry + 1)) {
            mm_semaphore_put(ref, q, 1);
            return 1;
        }
        if (mm_cas_acq_rel_u32(slot, MM_QUEUE_SKIP, 0)) mm_queue_pass(ref, q, p);
    }
    return 0;
}

/* Swaps a slot's entry to 0. Returns the entry, or MM_QUEUE_NONE if there is none. Acquires. */
MM_FN uint32_t mm_queue_swap(uint32_t *slot) {
    const uint32_t seen = mm_load_relaxed_u32(slot);
    return seen != 0 && seen != MM_QUEUE_SKIP && mm_cas_acq_rel_u32(slot, seen, 0) ? seen - 1 : MM_QUEUE_NONE;
}
/* Takes the entry at position p, which the caller has drawn with a right. Returns it, or MM_QUEUE_NONE, and gives the right back. */
MM_FN_RARE uint32_t mm_queue_take(const struct mm_heap_ref *ref, uint32_t q, uint64_t p) {
    uint32_t *slot = mm_queue_slot(ref, q, p), entry = MM_QUEUE_NONE;
    MM_ROLLED
    for (uint32_t looks = 0; slot != NULL && entry == MM_QUEUE_NONE; looks++) {
        entry = mm_queue_swap(slot);
        if (entry != MM_QUEUE_NONE) {
            mm_queue_pass(ref, q, p);
        } else if (looks >= MM_OURO_LOOKS || mm_queue_slot_before(ref, q, p) != NULL) {
            if (!mm_cas_acq_rel_u32(slot, 0, MM_QUEUE_SKIP) && mm_load_relaxed_u32(slot) != MM_QUEUE_SKIP) continue; /* it has come */
            slot = mm_queue_slot_before(ref, q, p);
            if (slot != NULL) entry = mm_queue_swap(slot);
            break;
        }
        if (entry == MM_QUEUE_NONE) mm_wait();
    }
    if (entry == MM_QUEUE_NONE) mm_semaphore_put(ref, q, 1);
    return entry;
}

#endif
