/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the suites of Ouroboros have in common. Include after eight.h. */
#ifndef MM_UNIT_OURO_H
#define MM_UNIT_OURO_H

#define IS_CHUNKS (MM_OURO_ENTRY == MM_OURO_CHUNKS)
/* Entries that queues refused. */
UNIT_SOME uint64_t refused(void) {
    uint64_t sum = 0;
    for (uint32_t q = 0; q < MM_OURO_QUEUES; q++) sum += mm_queue_of(ref, q)->refused;
    return sum;
}
/* Takes what is at position p. */
UNIT_SOME uint32_t take_at(uint32_t q, uint64_t p) {
    uint32_t passes = 0;
    const uint32_t entry = mm_queue_take(ref, q, p, mm_queue_view(ref, q), &passes);
    mm_queue_pass_lanes(ref, 1, q, p, p, passes);
    return entry;
}

/* Takes all entries of class q out of the caller's cell and the queue. Returns how many. */
UNIT_SOME uint32_t drain(uint32_t q, uint32_t *entries, uint32_t most) {
    uint32_t n = 0;
    const uint32_t held = mm_exchange_acquire_u32(mm_cell_of(ref, q), 0);
    if (held != 0) entries[n++] = held - 1;
    while (mm_semaphore_take(ref, q, 1) != 0) {
        const uint32_t entry = take_at(q, mm_add_acq_rel_u64(&mm_queue_of(ref, q)->front, 1));
        unit_lt(n, most);
        if (entry != MM_QUEUE_NONE) entries[n++] = entry;
    }
    return n;
}

/* All memory of the heap as pages: the most there can be, and those that a test has. */
#define ALL (SEGMENTS * MM_OURO_SEGMENT_CHUNKS << (MM_OURO_CLASSES - 1))
static uint8_t *all_held[ALL + 1];
UNIT_SOME uint32_t take_all(uint64_t bytes) {
    uint32_t n = 0;
    while (n <= ALL && (all_held[n] = take(bytes)) != NULL) n++;
    return n;
}
UNIT_SOME void free_all(uint32_t n) {
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, all_held[i]);
}

#endif
