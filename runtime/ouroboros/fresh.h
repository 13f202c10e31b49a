/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Chunks that were never taken: a queue without slots, so that a fresh heap costs no flood of entries (in the paper all chunks are enqueued at the beginning).
 *
 * Representation. fresh[k]: the segment that has row k, plus 1; 0 until it has entered the list. Rows are drawn when segments come into the list for the first
 *   time, and several warps may bring some at once (listed/list.h), so later rows may enter first. newest: rows that were drawn. Position p is chunk p modulo
 *   MM_OURO_SEGMENT_CHUNKS of segment fresh[p / MM_OURO_SEGMENT_CHUNKS] - 1. back: positions that there are: of the rows up to the first one that has not
 *   entered. known: for each segment, whether it was in the list. Rights and front as of other queues.
 * Invariants. A chunk has a position here once. As long as that is not drawn, the chunk counts as one that the queue of free chunks has an entry for (chunk.h,
 *   I2). What rows bring for queues (array.h, storage.h) is prepared for all that back counts.
 * Ordering. back, and then the number of positions, are stored with release, after the rows; a right acquires.
 */
#ifndef MM_OURO_FRESH_H
#define MM_OURO_FRESH_H

#include "runtime/ouroboros/semaphore.h"

/* The chunk of position p, which the caller has drawn with a right. */
MM_FN uint32_t mm_fresh_chunk(const struct mm_heap_ref *ref, uint64_t p) {
    const uint32_t s = mm_load_acquire_u32(mm_chunks_fresh(ref, p / MM_OURO_SEGMENT_CHUNKS)) - 1;
    return s * MM_OURO_SEGMENT_CHUNKS + (uint32_t)p % MM_OURO_SEGMENT_CHUNKS;
}
/* Draws n rows. Returns the first one. */
MM_FN uint32_t mm_fresh_rows(const struct mm_heap_ref *ref, uint32_t n) { return (uint32_t)mm_add_relaxed_u64(&mm_queue_of(ref, MM_OURO_FRESH)->newest, n); }
/* Segment s enters the list with row k. The caller has the lock of the list. */
MM_FN void mm_fresh_enters(const struct mm_heap_ref *ref, uint32_t s, uint32_t k) {
    mm_store_relaxed_u32(mm_chunks_fresh(ref, k), s + 1);
    mm_store_relaxed_u8(mm_chunks_known(ref, s), 1);
}
/* Segments may have entered. Returns how many chunks can be taken now (mm_fresh_count). All lanes of `here` call. */
MM_FN uint32_t mm_fresh_entered(const struct mm_heap_ref *ref, uint32_t here) {
    struct mm_queue *of = mm_queue_of(ref, MM_OURO_FRESH);
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane()));
    const uint64_t rows = ref->user_bytes >> MM_SEGMENT_SHIFT, back = mm_load_relaxed_u64(&of->back) / MM_OURO_SEGMENT_CHUNKS;
    uint64_t k = back;
    uint32_t came;
    MM_ROLLED
    do {
        const uint64_t first = k + MM_OURO_AT_ONCE * rank;
        uint32_t seen[MM_OURO_AT_ONCE], there = 0;
        for (uint32_t i = 0; i < MM_OURO_AT_ONCE; i++) seen[i] = first + i < rows ? mm_load_relaxed_u32(mm_chunks_fresh(ref, first + i)) : 0;
        for (uint32_t i = 0; i < MM_OURO_AT_ONCE; i++) there += there == i && seen[i] != 0;
        came = mm_lanes_there(here, there);
        k += came;
    } while (came == MM_OURO_AT_ONCE * mm_popcount(here));
    if (rank == 0 && k != back) mm_store_release_u64(&of->back, k * MM_OURO_SEGMENT_CHUNKS);
    return (uint32_t)(k - back) * MM_OURO_SEGMENT_CHUNKS;
}
MM_FN void mm_fresh_count(const struct mm_heap_ref *ref, uint32_t chunks) { mm_add_acq_rel_u64(&mm_queue_of(ref, MM_OURO_FRESH)->count, chunks); }

#endif
