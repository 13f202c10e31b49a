/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Chunks that were never taken: a queue without slots, so that a fresh heap costs no flood of entries (in the paper all chunks are enqueued at the beginning).
 *
 * Representation. fresh[k]: the k-th segment that entered the list for the first time. Position p is chunk p modulo MM_OURO_SEGMENT_CHUNKS of segment
 *   fresh[p / MM_OURO_SEGMENT_CHUNKS]. known: for each segment, whether it was in the list. back: positions that there are. Rights and front as of other
 *   queues.
 * Invariant. A chunk has a position here once. As long as that is not drawn, the chunk counts as one that the queue of free chunks has an entry for (chunk.h,
 *   I2).
 * Ordering. fresh[k] is stored before the positions are counted, which releases; a right acquires.
 */
#ifndef MM_OURO_FRESH_H
#define MM_OURO_FRESH_H

#include "runtime/ouroboros/semaphore.h"

/* The chunk of position p, which the caller has drawn with a right. */
MM_FN uint32_t mm_fresh_chunk(const struct mm_heap_ref *ref, uint64_t p) {
    return mm_load_acquire_u32(mm_chunks_fresh(ref, p / MM_OURO_SEGMENT_CHUNKS)) * MM_OURO_SEGMENT_CHUNKS + (uint32_t)p % MM_OURO_SEGMENT_CHUNKS;
}
/* Segments s + i, for bits i, enter. The caller has the lock of the list. Then mm_fresh_count: their chunks can be taken. */
MM_FN void mm_fresh_add(const struct mm_heap_ref *ref, uint32_t s, uint64_t bits) {
    struct mm_queue *of = mm_queue_of(ref, MM_OURO_FRESH);
    const uint64_t chunks = (uint64_t)mm_popcount(bits) * MM_OURO_SEGMENT_CHUNKS, back = mm_load_relaxed_u64(&of->back);
    uint64_t k = back / MM_OURO_SEGMENT_CHUNKS;
    MM_ROLLED
    for (; bits != 0; bits &= bits - 1, k++) {
        mm_store_relaxed_u32(mm_chunks_fresh(ref, k), s + mm_ctz(bits));
        mm_store_relaxed_u8(mm_chunks_known(ref, s + mm_ctz(bits)), 1);
    }
    mm_store_release_u64(&of->back, back + chunks);
}
MM_FN void mm_fresh_count(const struct mm_heap_ref *ref, uint32_t chunks) { mm_add_acq_rel_u64(&mm_queue_of(ref, MM_OURO_FRESH)->count, chunks); }

#endif
