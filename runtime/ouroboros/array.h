/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The array queue (S): a ring of slots in the table. A segment's share of the table, a row, has as many slots of each queue as the segment can have entries, so
 * the array grows with the memory that is mapped. A queue uses as many rows as the chunks that were cut for it can need.
 *
 * Representation. Position p is slot p - base modulo the slots of `rows` rows.
 * Change. The queue gets more rows, and base becomes the position of slot 0 in the lap that front is in, only if back is in that lap, too: then all positions
 *   between them keep their slots. Otherwise it stays as it is until the next try. It has half a row more than it needs, so that it is large enough meanwhile.
 * Ordering. base is stored before rows, which releases; rows is read with acquire, before base. Old rows and the new base give the same slots.
 * Stale. A thread that drew its position before the change, in an earlier lap, and reads rows after it, comes to another slot. If it takes, it may leave its
 *   entry behind front, or make another thread do so; the entry is found when the queue has gone round once. A taker that has a right for it meanwhile finds
 *   nothing up to back, and drops the right, until a taker begins the next lap.
 */
#ifndef MM_OURO_ARRAY_H
#define MM_OURO_ARRAY_H

#include "runtime/ouroboros/semaphore.h"

/* Slots of a queue in a row; how many are before them. */
MM_FN uint32_t mm_array_each(uint32_t q) {
    const uint32_t masks = MM_OURO_ENTRY == MM_OURO_PAGES && q < MM_OURO_CLASSES ? mm_chunk_masks(q) : 1;
    return MM_OURO_SEGMENT_CHUNKS * masks;
}
MM_FN uint32_t mm_array_before(uint32_t q) {
    const uint32_t most = 2 * MM_OURO_MASKS, log = mm_ctz(MM_OURO_MASKS); /* a chunk has most / 2 masks, most / 4 and so on, or one */
    if (MM_OURO_ENTRY != MM_OURO_PAGES) return MM_OURO_SEGMENT_CHUNKS * q;
    return MM_OURO_SEGMENT_CHUNKS * (q < log ? most - (most >> q) : most - 2 + q - log);
}
#define MM_ARRAY_ROW_BYTES ((uint64_t)MM_TABLE_SHARE * MM_SEGMENT_PAGES * 8)
MM_STATIC_ASSERT(MM_OURO_SEGMENT_CHUNKS *(14 + MM_OURO_QUEUES - 3) * 4 <= MM_ARRAY_ROW_BYTES, "a row has room for all queues");

/* Slot number `at` of queue q. */
MM_FN uint32_t *mm_array_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t at) {
    const uint32_t each = mm_array_each(q);
    return (uint32_t *)(ref->table + MM_CLASS_COUNT * MM_EXTENT * 8ull + at / each * MM_ARRAY_ROW_BYTES) + mm_array_before(q) + at % each;
}
/* The slot of position p, or NULL. */
MM_FN uint32_t *mm_queue_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t p) {
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint64_t rows = mm_load_acquire_u64(&of->rows);
    return rows != 0 ? mm_array_slot(ref, q, (p - mm_load_relaxed_u64(&of->base)) % (rows * mm_array_each(q))) : NULL;
}
MM_FN void mm_queue_pass(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint32_t n) { (void)ref, (void)q, (void)p, (void)n; }
/* A caller has taken at the first slot of a lap: entries that were behind front are ahead of it now, and those rights that were dropped come back. */
MM_FN void mm_queue_turn(const struct mm_heap_ref *ref, uint32_t q, const uint32_t *slot) {
    struct mm_queue *of = mm_queue_of(ref, q);
    if (MM_LIKELY(slot != mm_array_slot(ref, q, 0))) return;
    const uint64_t dropped = mm_load_relaxed_u64(&of->dropped);
    if (dropped != 0 && mm_cas_acq_rel_u64(&of->dropped, dropped, 0)) mm_semaphore_put(ref, q, (uint32_t)dropped);
}
MM_FN int mm_queue_is_full(const struct mm_heap_ref *ref, uint32_t q) { return (void)ref, (void)q, 0; }

/* Gives queue q slots for n more chunks, before they are enqueued. */
MM_FN_RARE void mm_queue_reserve(const struct mm_heap_ref *ref, uint32_t q, uint32_t n) {
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint64_t reached = mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached), chunks = mm_add_relaxed_u64(&of->chunks, n) + n,
                   wanted = (chunks + MM_OURO_SEGMENT_CHUNKS / 2) / MM_OURO_SEGMENT_CHUNKS + 1, next = wanted < reached ? wanted : reached;
    if (mm_load_relaxed_u64(&of->rows) >= next || !mm_cas_acquire_u64(&of->lock, 0, 1)) return;
    const uint64_t rows = mm_load_relaxed_u64(&of->rows), each = mm_array_each(q), base = mm_load_relaxed_u64(&of->base), all = rows * each;
    const uint64_t front = mm_load_relaxed_u64(&of->front), lap = all != 0 ? (front - base) / all * all : 0;
    if (rows < next && mm_load_relaxed_u64(&of->back) - base - lap <= all) {
        MM_ROLLED
        for (uint64_t i = all; i < next * each; i += 2) mm_store_relaxed_u64((uint64_t *)mm_array_slot(ref, q, i), 0);
        mm_store_release_u64(&of->base, base + lap);
        mm_store_release_u64(&of->rows, next);
    }
    mm_store_release_u64(&of->lock, 0);
}
/* Before the first chunk can be cut: each queue gets some slots. */
MM_FN void mm_queues_begin(const struct mm_heap_ref *ref) {
    MM_ROLLED
    for (uint32_t q = 0; q < MM_OURO_CLASSES; q++) mm_queue_reserve(ref, q, 0);
}

#endif
