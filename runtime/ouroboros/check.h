/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The heap checker's part for Ouroboros (runtime/check.h): invariants of chunk.h. */
#ifndef MM_OURO_CHECK_H
#define MM_OURO_CHECK_H

#include "runtime/listed/check.h"

/* A segment of the list. */
MM_FN_RARE uint32_t mm_small_check_pages(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t page, uint32_t owner) {
    const uint32_t s = page / MM_SEGMENT_PAGES;
    if (page % MM_SEGMENT_PAGES != 0) return 0;
    mm_list_check_segment(k, ref, s, owner);
    for (uint32_t chunk = s * MM_OURO_SEGMENT_CHUNKS; chunk < (s + 1) * MM_OURO_SEGMENT_CHUNKS; chunk++) {
        const uint64_t header = *mm_chunk_header(ref, chunk);
        const uint32_t q = mm_chunk_class(header);
        if ((uint32_t)header == 0) continue;
        if (!mm_chunk_is_cut(header) || q >= MM_OURO_CLASSES) {
            mm_check_fault(k, MM_FAULT_CHUNK_STATE, s, chunk, (uint32_t)header);
            continue;
        }
        const uint32_t free = mm_chunk_free_pages(ref, chunk, q);
        if (MM_OURO_ENTRY == MM_OURO_CHUNKS && free != mm_chunk_count(header)) mm_check_fault(k, MM_FAULT_CHUNK_COUNT, chunk, mm_chunk_count(header), free);
        for (uint32_t i = 0; i < mm_chunk_masks(q); i++)
            if ((*mm_chunk_mask(ref, chunk * MM_OURO_MASKS + i) ^ mm_chunk_mask_fresh(q)) & ~mm_chunk_mask_pages(q))
                mm_check_fault(k, MM_FAULT_CHUNK_BEYOND, chunk, i, q);
        mm_add_relaxed_u64(&k->live_bytes, (uint64_t)(mm_chunk_pages(q) - free) << (MM_ALIGN_SHIFT + q));
    }
    return MM_SEGMENT_PAGES;
}

/* Entry number i of queue q plus 1, or 0, in any order. */
#if MM_OURO_QUEUE == MM_OURO_S
MM_FN uint64_t mm_queue_check_many(const struct mm_heap_ref *ref, uint32_t q) { return mm_array_slots(q, mm_queue_of(ref, q)->shape >> 32); }
MM_FN uint32_t mm_queue_check_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t i) { return *mm_array_slot(ref, q, i); }
#else
MM_FN uint64_t mm_queue_check_many(const struct mm_heap_ref *ref, uint32_t q) { return mm_queue_of(ref, q)->back - mm_queue_of(ref, q)->front; }
MM_FN uint32_t mm_queue_check_slot(const struct mm_heap_ref *ref, uint32_t q, uint64_t i) {
    const uint32_t *slot = mm_queue_slot(ref, q, mm_queue_of(ref, q)->front + i, mm_queue_view(ref, q), 1);
    return slot != NULL ? *slot : 0;
}
#endif
/* The entries of queue q are as many as are counted, and one more for each right that was dropped. Masks, or chunks, that have to be in it are: one entry for
 * each, except for those that it refused. */
MM_FN_RARE void mm_queue_check(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t q) {
    const struct mm_queue *of = mm_queue_of(ref, q);
    uint64_t entries = 0, must = 0, useful = 0;
    for (uint64_t i = 0, many = mm_queue_check_many(ref, q); i < many; i++) {
        const uint32_t entry = mm_queue_check_slot(ref, q, i);
        if (!mm_slot_has_entry(entry)) continue;
        entries++;
        const int is_mask = MM_OURO_ENTRY == MM_OURO_PAGES && q != MM_OURO_FREE;
        const uint64_t header = *mm_chunk_header(ref, is_mask ? (entry - 1) / MM_OURO_MASKS : entry - 1);
        if (!is_mask && !(header & mm_chunk_queued(q))) mm_check_fault(k, MM_FAULT_QUEUE_ENTRY, q, entry - 1, 0);
        if (q == MM_OURO_FREE) useful += (uint32_t)header == 0;
        else if (is_mask) useful += *mm_chunk_mask(ref, entry - 1) != 0;
        else useful += mm_chunk_is_of(header, q) && mm_chunk_count(header) != 0;
    }
    for (uint32_t i = 0; MM_OURO_ENTRY == MM_OURO_PAGES && q < MM_OURO_CELL_CLASSES && i < MM_OURO_CELLS; i++) {
        const uint32_t held = *mm_cell_at(ref, q, i);
        if (held != 0 && !mm_chunk_is_of(*mm_chunk_header(ref, (held - 1) / MM_OURO_MASKS), q)) mm_check_fault(k, MM_FAULT_QUEUE_ENTRY, q, held - 1, 2);
        useful += held != 0 && *mm_chunk_mask(ref, held - 1) != 0;
    }
    for (uint32_t i = 0; MM_OURO_ENTRY == MM_OURO_CHUNKS && q == MM_OURO_FREE && i < MM_OURO_CELLS; i++) {
        const uint32_t held = *mm_cell_at(ref, MM_OURO_CELL_FREE, i);
        if (held != 0 && !(*mm_chunk_header(ref, held - 1) & mm_chunk_queued(q))) mm_check_fault(k, MM_FAULT_QUEUE_ENTRY, q, held - 1, 2);
        useful += held != 0 && (uint32_t)*mm_chunk_header(ref, held - 1) == 0;
    }
    const struct mm_queue *fresh = mm_queue_of(ref, MM_OURO_FRESH);
    for (uint64_t p = fresh->front; q == MM_OURO_FREE && p < fresh->back; p++) {
        const uint64_t header = *mm_chunk_header(ref, mm_fresh_chunk(ref, p));
        if (!(header & mm_chunk_queued(q))) mm_check_fault(k, MM_FAULT_QUEUE_ENTRY, q, mm_fresh_chunk(ref, p), 1);
        useful += (uint32_t)header == 0;
    }
    if (q == MM_OURO_FREE && fresh->back != fresh->newest * MM_OURO_SEGMENT_CHUNKS)
        mm_check_fault(k, MM_FAULT_QUEUE_COUNT, MM_OURO_FRESH, fresh->back, fresh->newest * MM_OURO_SEGMENT_CHUNKS);
    if (q == MM_OURO_FREE && fresh->back - fresh->front != fresh->count)
        mm_check_fault(k, MM_FAULT_QUEUE_COUNT, MM_OURO_FRESH, fresh->back - fresh->front, fresh->count);
    for (uint32_t i = 0; i < mm_list_state(ref)->count; i++)
        for (uint32_t c = 0, chunk = mm_list_segment(ref, i) * MM_OURO_SEGMENT_CHUNKS; c < MM_OURO_SEGMENT_CHUNKS; c++, chunk++) {
            const uint64_t header = *mm_chunk_header(ref, chunk);
            if (q == MM_OURO_FREE) must += (uint32_t)header == 0;
            else if (!mm_chunk_is_of(header, q)) continue;
            else if (MM_OURO_ENTRY == MM_OURO_CHUNKS) must += mm_chunk_count(header) != 0;
            else
                for (uint32_t m = 0; m < mm_chunk_masks(q); m++) must += *mm_chunk_mask(ref, chunk * MM_OURO_MASKS + m) != 0;
        }
    if (entries != of->count + of->dropped) mm_check_fault(k, MM_FAULT_QUEUE_COUNT, q, entries, of->count);
    if (useful + of->refused < must) mm_check_fault(k, MM_FAULT_QUEUE_LOST, q, useful, must);
    if ((uint32_t)of->awaited != 0) mm_check_fault(k, MM_FAULT_QUEUE_AWAITED, q, of->awaited >> 32, of->awaited);
}
MM_FN_RARE void mm_small_check_rest(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t part, uint32_t parts) {
    mm_list_check_rest(k, ref, part, parts);
    for (uint32_t q = part; q < MM_OURO_QUEUES; q += parts) mm_queue_check(k, ref, q);
}

#endif
