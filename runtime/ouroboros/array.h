/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The array queue (S): a ring of slots in the table. A segment's share of the table, a row, has as many slots of each queue as the segment can have entries, so
 * the array grows with the memory that is mapped. A queue uses as many rows as the chunks that were cut for it can need.
 *
 * Representation. rows: position p is slot p modulo the slots of so many rows. prior: the rows before the last change, when `since` positions were drawn.
 * Change. More rows change the slot of a position. Entries in the queue stay where they are: a caller that draws a position below `since`, and finds nothing in
 *   its slot, looks into the slot that the position had before (queue.h). So the rows change only when all positions below `since` are drawn; a queue that
 *   needs more rows is almost empty then, since a chunk is cut only when there is no entry.
 * Ordering. rows is stored with release before `since` is read from back by an atomic: who draws a later position sees the rows.
 * Stale. A thread that drew its position before the change and reads rows after it uses the new slot, which a caller looks into first.
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
    if (MM_OURO_ENTRY != MM_OURO_PAGES) return MM_OURO_SEGMENT_CHUNKS * q;
    return MM_OURO_SEGMENT_CHUNKS * (q < 3 ? 16 - (16u >> q) : 14 + q - 3);
}
#define MM_ARRAY_ROW_BYTES ((uint64_t)MM_TABLE_SHARE * MM_SEGMENT_PAGES * 8)
MM_STATIC_ASSERT(MM_OURO_SEGMENT_CHUNKS *(14 + MM_OURO_QUEUES - 3) * 4 <= MM_ARRAY_ROW_BYTES, "a row has room for all queues");

MM_FN uint32_t *mm_array_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint64_t rows) {
    const uint32_t each = mm_array_each(q);
    const uint64_t at = p % (rows * each), fixed = MM_CLASS_COUNT * MM_EXTENT * 8ull;
    return (uint32_t *)(ref->table + fixed + at / each * MM_ARRAY_ROW_BYTES) + mm_array_before(q) + at % each;
}

/* The slot of position p, or NULL. */
MM_FN uint32_t *mm_queue_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t p) {
    const uint64_t rows = mm_load_acquire_u64(&mm_queue_of(ref, q)->rows);
    return rows != 0 ? mm_array_slot(ref, q, p, rows) : NULL;
}
/* The slot that p had before the last change, or NULL. */
MM_FN uint32_t *mm_queue_slot_before(const struct mm_heap_ref *ref, uint32_t q, uint64_t p) {
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint64_t prior = mm_load_relaxed_u64(&of->prior);
    return prior != 0 && p < mm_load_acquire_u64(&of->since) ? mm_array_slot(ref, q, p, prior) : NULL;
}
/* Both callers are done with position p. */
MM_FN void mm_queue_pass(const struct mm_heap_ref *ref, uint32_t q, uint64_t p) { (void)ref, (void)q, (void)p; }

/* Gives queue q slots for n more chunks, before they are enqueued. */
MM_FN_RARE void mm_queue_reserve(const struct mm_heap_ref *ref, uint32_t q, uint32_t n) {
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint64_t reached = mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached), chunks = mm_add_relaxed_u64(&of->chunks, n) + n,
                   wanted = (chunks + MM_OURO_SEGMENT_CHUNKS - 1) / MM_OURO_SEGMENT_CHUNKS, next = wanted < reached ? wanted : reached;
    if (mm_load_relaxed_u64(&of->rows) >= next || !mm_cas_acquire_u64(&of->lock, 0, 1)) return;
    const uint64_t rows = mm_load_relaxed_u64(&of->rows), each = mm_array_each(q);
    if (rows < next && mm_load_relaxed_u64(&of->front) >= mm_load_relaxed_u64(&of->since)) {
        MM_ROLLED
        for (uint64_t i = rows * each; i < next * each; i += 2) mm_store_relaxed_u64((uint64_t *)mm_array_slot(ref, q, i, next), 0);
        mm_store_relaxed_u64(&of->prior, rows);
        mm_store_release_u64(&of->since, ~0ull); /* until it is known */
        mm_store_release_u64(&of->rows, next);
        mm_store_release_u64(&of->since, mm_add_acq_rel_u64(&of->back, 0));
    }
    mm_store_release_u64(&of->lock, 0);
}

#endif
