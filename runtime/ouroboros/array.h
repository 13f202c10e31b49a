/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The array queue (S): a ring of slots. Each queue has MM_ARRAY_FIRST slots at first (ref->firsts). A segment's share of the
 * table, a row, has as many slots of each queue as the segment can have entries, so the array grows with the memory that is mapped. A queue uses as many rows
 * as the chunks that were cut for it can need.
 *
 * Representation. shape: {rows : 32 | shift : 32}. Position p is slot (p + shift) modulo the slots of `rows` rows. chunks: for how many the
 *   queue was to have room, so no fewer than have an entry; of the queue of free chunks: all. In the end a queue uses all rows: to take off what lost its
 *   class costs more.
 * Rows. A segment that comes into the list for the first time brings a row (fresh.h), which is mapped, since as many segments are. The warp that brings it
 *   clears the row before it counts, and a queue uses only rows that count.
 * Room. Positions that were drawn in vain lie between front and back, too. If all chunks are free, an array without spare slots may have more positions
 *   than slots; then puts are in vain, and each of them makes another one so. In chunk allocators, where a chunk may have entries in several queues, a row
 *   has room for twice as many.
 * Change. A queue that may need more slots gets twice as many, and a shift with which front keeps its slot. So do all positions between front and back, if
 *   they are in one lap of the array; those of the next lap get other slots. So a later cut changes the array if they are in two laps, or almost, unless
 *   three quarters of the slots are in use; but that of free chunks, which is asked only when segments come, is changed at once. (Without that, 18 of 240
 *   kernels that allocated 1 M of any size with -s-c took 1.1 to 2.8 times as long: puts met entries in their slots and were refused, and callers looked for
 *   these in 8,000 segments. With it, 2 of 144 took 1.7 times.)
 * Ordering. A caller reads the shape, relaxed, while the addition that draws its position is under way: an acquire would wait for it. So a caller may know a
 *   row of which it has not acquired that it was cleared. Rows are cleared before their segments count, long before a queue has them; the first slots by
 *   the host; and slots are only accessed by atomics, which GPUs execute where they keep the newest value.
 * Linearisation point of a change: the compare-and-swap of shape, so that of callers that saw the same array one changes it. If another one saw
 *   more rows, the array gets them at the next cut; what finds no slot until then is found by sweeps.
 * Stale. A thread whose position the change moved comes to another slot than the one that put or takes there. A putter leaves its entry behind front, or in a
 *   slot that front reaches in the next lap; it is found then. A taker finds nothing, waits MM_OURO_LOOKS looks, and gives its right back; or finds nothing up
 *   to back, and drops the right, until a taker begins the next lap. There are as many such positions as entries, at each doubling.
 */
#ifndef MM_OURO_ARRAY_H
#define MM_OURO_ARRAY_H

#include "runtime/ouroboros/semaphore.h"

/* Slots of a queue before the rows; in a row, and how many are before them there. In chunk allocators a row has room for twice as many slots as entries. */
#define MM_ARRAY_FIRST (MM_CLASS_COUNT * MM_EXTENT * 2 / MM_OURO_QUEUES & ~63u)
MM_FN uint32_t mm_array_shift(uint32_t q) {
    return MM_SEGMENT_SHIFT - MM_OURO_CHUNK_SHIFT + (MM_OURO_ENTRY != MM_OURO_PAGES ? 1 : q < MM_OURO_CLASSES ? mm_ctz(mm_chunk_masks(q)) : 0);
}
MM_FN uint32_t mm_array_before(uint32_t q) {
    const uint32_t most = 2 * MM_OURO_MASKS, log = mm_ctz(MM_OURO_MASKS); /* a chunk has most / 2 masks, most / 4 and so on, or one */
    if (MM_OURO_ENTRY != MM_OURO_PAGES) return 2 * MM_OURO_SEGMENT_CHUNKS * q;
    return MM_OURO_SEGMENT_CHUNKS * (q < log ? most - (most >> q) : most - 2 + q - log);
}
MM_STATIC_ASSERT(MM_ARRAY_FIRST + ((MM_LISTED_SEGMENTS_MAX * (uint64_t)MM_OURO_SEGMENT_CHUNKS) * MM_OURO_MASKS) < 1ull << 31, "slots have numbers of 32 bits");
#define MM_ARRAY_ROW_BYTES ((uint64_t)MM_TABLE_SHARE * MM_SEGMENT_PAGES * 8)
MM_STATIC_ASSERT(MM_OURO_SEGMENT_CHUNKS *(14 + MM_OURO_QUEUES - 3) * 4 <= MM_ARRAY_ROW_BYTES &&
                     MM_OURO_SEGMENT_CHUNKS * 2 * MM_OURO_QUEUES * 4 <= MM_ARRAY_ROW_BYTES,
                 "a row has room for all queues");
MM_FN uint64_t mm_array_slots(uint32_t q, uint64_t rows) { return MM_ARRAY_FIRST + (rows << mm_array_shift(q)); }

/* Slot number `at` of queue q. */
MM_FN uint32_t *mm_array_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t at) {
    if (at < MM_ARRAY_FIRST) return (uint32_t *)ref->firsts + q * MM_ARRAY_FIRST + at;
    at -= MM_ARRAY_FIRST;
    return (uint32_t *)(ref->words - ((at >> mm_array_shift(q)) + 1) * MM_ARRAY_ROW_BYTES) + mm_array_before(q) + at % (1u << mm_array_shift(q));
}
MM_FN uint64_t mm_queue_view(const struct mm_heap_ref *ref, uint32_t q) { return mm_load_relaxed_u64(&mm_queue_of(ref, q)->shape); }
/* The slot of position p. */
MM_FN uint32_t *mm_queue_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint64_t shape, uint32_t most) {
    (void)ref, (void)most;
    const uint64_t slots = mm_array_slots(q, shape >> 32);
    uint64_t at = p + (uint32_t)shape;
    if (at >= slots) { /* a division of 64 bits is a call */
        MM_ROLLED
        while (at >> 32 != 0) at = (at >> 32) * ((0 - (uint32_t)slots) % (uint32_t)slots) + (uint32_t)at;
        at = (uint32_t)at % (uint32_t)slots;
    }
    return mm_array_slot(ref, q, at);
}
MM_FN uint32_t *mm_queue_slot_soon(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint64_t shape) { return mm_queue_slot(ref, q, p, shape, 0); }
MM_FN int mm_queue_pass_soon(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint32_t n) { return (void)ref, (void)q, (void)p, (void)n, 0; }
MM_FN void mm_queue_passed(const struct mm_heap_ref *ref, uint32_t q, uint32_t in) { (void)ref, (void)q, (void)in; }
MM_FN void mm_queue_pass(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint32_t n) { (void)ref, (void)q, (void)p, (void)n; }
/* A caller has taken at the first slot of a lap: entries that were behind front are ahead of it now, and those rights that were dropped come back. */
MM_FN void mm_queue_turn(const struct mm_heap_ref *ref, uint32_t q, const uint32_t *slot) {
    struct mm_queue *of = mm_queue_of(ref, q);
    if (MM_LIKELY(slot != mm_array_slot(ref, q, 0))) return;
    const uint64_t dropped = mm_load_relaxed_u64(&of->dropped);
    if (dropped != 0 && mm_cas_acq_rel_u64(&of->dropped, dropped, 0)) mm_semaphore_put(ref, q, (uint32_t)dropped);
}
MM_FN uint32_t mm_queue_skip(uint64_t p, uint64_t *drawn) { return (void)p, (void)drawn, 0; }
MM_FN int mm_queue_is_full_soon(const struct mm_heap_ref *ref, uint32_t q) { return (void)ref, (void)q, 0; }
MM_FN void mm_queue_go_ahead(const struct mm_heap_ref *ref, uint32_t q, uint32_t group, uint64_t p, uint32_t n) {
    (void)ref, (void)q, (void)group, (void)p, (void)n;
}
MM_FN int mm_queue_is_full(const struct mm_heap_ref *ref, uint32_t q, uint32_t group, uint32_t most) { return (void)ref, (void)q, (void)group, (void)most, 0; }

/* Queue q has to have room for n chunks more, before they are enqueued. */
MM_FN_RARE void mm_queue_reserve(const struct mm_heap_ref *ref, uint32_t q, uint32_t n) {
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint32_t shift = mm_array_shift(q);
    const uint64_t chunks = mm_add_relaxed_u64(&of->chunks, n) + n, wanted = chunks << (shift - (MM_SEGMENT_SHIFT - MM_OURO_CHUNK_SHIFT)),
                   shape = mm_load_relaxed_u64(&of->shape), all = mm_array_slots(q, shape >> 32);
    if (wanted + wanted / 8 <= all) return;
    const uint64_t clear = mm_load_acquire_u64(&mm_queue_of(ref, MM_OURO_FRESH)->back) / MM_OURO_SEGMENT_CHUNKS,
                   twice = ((2 * all - MM_ARRAY_FIRST) >> shift) + 1, rows = twice < clear ? twice : clear;
    if (rows <= shape >> 32) return;
    const uint64_t end = mm_array_slots(q, rows), front = mm_load_relaxed_u64(&of->front), in = (front + (uint32_t)shape) % all,
                   held = mm_load_relaxed_u64(&of->back) - front;
    if (q != MM_OURO_FREE && in + held + all / 8 > all && held < all / 4 * 3) return; /* in two laps, or soon */
    mm_cas_acq_rel_u64(&of->shape, shape, rows << 32 | (in + end - front % end) % end);
}
/* n new segments come after `before` others: the lanes clear as many rows. */
MM_FN_RARE void mm_queues_begin(const struct mm_heap_ref *ref, uint32_t before, uint32_t n, uint32_t rank, uint32_t many) {
    MM_UNROLLED(4)
    for (uint64_t at = before * MM_ARRAY_ROW_BYTES + 16 * rank; at < (before + n) * MM_ARRAY_ROW_BYTES; at += 16 * many)
        mm_store_two((uint64_t *)(ref->words - 16 - at), 0, 0);
}

#endif
