/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Queue chunks: the memory of the virtualised queues (VA, VL), MM_STORE_SLOTS slots each. In the paper they are chunks of the same heap, so a free in a full
 * heap may find none. Here the first ones are there when a heap begins (ref->firsts), and the others in the table, which grows with the memory that
 * is mapped; there are more than all entries can need: no free needs memory.
 *
 * Representation. pool_fresh: the first so many queue chunks were given before. pool_free: stacks, so that lanes of a warp take queue chunks at the same time:
 *   {changes : 32 | the last one that came back, plus 1 : 32}; link: the next one. A queue chunk comes back to the stack of its id. The slots of a queue
 *   chunk that is not in a queue are all 0: they are cleared when its segment comes, by a whole warp, or by the host, and left so. Position p of a queue is a
 *   slot of its queue chunk number p / MM_STORE_SLOTS. passed: how often callers were done with a position of a queue chunk, for each number modulo
 *   MM_STORE_NUMBERS; it goes on from lap to lap, modulo 2^32.
 * Life. Each position has one caller that puts and one that takes. Each of them comes to the slot once, or has none, and passes then; when all have passed for
 *   all positions, nobody comes back. So the queue chunk can be used again at once: no lag and no epochs are needed.
 * Invariant. Positions that are drawn, and not passed, are less than MM_STORE_NUMBERS numbers apart, so passed counts one number at a time: a put is refused if
 *   the next position is half as many numbers after the oldest one in which not all have passed. Callers that looked at that before others drew are fewer than
 *   the positions of the other half.
 * Ordering. VL: passing acquires and releases, since links.h stores more than slots; it is relaxed in a first draw, which stores nothing but its exchange of a
 *   slot, and mm_queue_passed acquires by an addition of 0. VA: passing is relaxed. Who passes has the result of his exchange or compare-and-swap of the slot,
 *   and GPUs execute atomics where they keep the newest value. (Releasing cost a fence for each warp.)
 * Stale. A thread that follows old links reads number and next of a queue chunk that is elsewhere by now. Both have the number in them. number ends before next
 *   changes, and all stores of next release: who reads next, which acquires, and then the old number, has read what followed in the old life.
 */
#ifndef MM_OURO_STORAGE_H
#define MM_OURO_STORAGE_H

#include "runtime/ouroboros/semaphore.h"

#define MM_STORE_SLOTS (1u << MM_OURO_STORE_SHIFT)
struct mm_store {
    uint64_t number, next, link, spare0; /* number, next: links.h */
    uint32_t slot[MM_STORE_SLOTS];
    uint64_t spare1[4];
};
MM_STATIC_ASSERT(MM_TABLE_SHARE *MM_SEGMENT_PAGES * 8 >= sizeof(struct mm_store) && MM_STORE_SLOTS >= 2 * MM_OURO_SEGMENT_CHUNKS * MM_OURO_MASKS,
                 "one for each segment, which needs half of one");
MM_STATIC_ASSERT(MM_CLASS_COUNT *MM_EXTENT * 8 >= 3 * MM_OURO_QUEUES * sizeof(struct mm_store), "three for each queue, of which two may have few entries");

#define MM_STORE_NUMBERS (1u << MM_OURO_RING_SHIFT)
/* Words for queue chunk `number` of queue q: passed; and that of ring.h or links.h. They are apart: callers of -va add to the one, and read the
 * other (docs/explanation/lessons.md). */
MM_FN uint64_t *mm_store_word(const struct mm_heap_ref *ref, uint32_t q, uint32_t number) {
    return (uint64_t *)ref->made + q * MM_STORE_NUMBERS + number % MM_STORE_NUMBERS;
}
MM_FN uint32_t *mm_store_passed(const struct mm_heap_ref *ref, uint32_t q, uint32_t number) {
    return (uint32_t *)mm_store_word(ref, MM_OURO_QUEUES, 0) + q * MM_STORE_NUMBERS + number % MM_STORE_NUMBERS;
}
/* Whether all have passed in queue chunk `number`: twice for each slot, in its lap and those before. */
MM_FN int mm_store_is_done(uint32_t passed, uint32_t number) { return passed << 8 == (number / MM_STORE_NUMBERS + 1) * (2 * MM_STORE_SLOTS) << 8; }
MM_STATIC_ASSERT(MM_OURO_STORE_SHIFT + 1 + 28 - MM_OURO_RING_SHIFT >= 24, "a number of 28 bits (links.h) suffices");
/* Callers pass n times. Returns whether all have passed now. is_ordered: acquires and releases. */
MM_FN int mm_store_pass(const struct mm_heap_ref *ref, uint32_t q, uint32_t number, uint32_t n, int is_ordered) {
    uint32_t *const passed = mm_store_passed(ref, q, number);
    return mm_store_is_done((is_ordered ? mm_add_acq_rel_u32(passed, n) : mm_add_relaxed_u32(passed, n)) + n, number);
}

/* Queue chunks that are there before the first segment enters; each segment brings one. */
#define MM_STORE_FIRST (3 * MM_OURO_QUEUES)
MM_FN struct mm_store *mm_store_at(const struct mm_heap_ref *ref, uint32_t id) {
    return id <= MM_STORE_FIRST ? (struct mm_store *)ref->firsts + (id - 1) : (struct mm_store *)ref->words - (id - MM_STORE_FIRST);
}

/* Makes all slots of queue chunk `id` 0; a share of them, if several lanes do so. */
MM_FN_RARE void mm_store_clear(const struct mm_heap_ref *ref, uint32_t id, uint32_t rank, uint32_t many) {
    MM_UNROLLED(4)
    for (uint32_t i = 4 * rank; i < MM_STORE_SLOTS; i += 4 * many) mm_store_two((uint64_t *)&mm_store_at(ref, id)->slot[i], 0, 0);
}
/* Segments that have entered. Acquires. */
MM_FN uint64_t mm_store_segments(const struct mm_heap_ref *ref) { return mm_load_acquire_u64(&mm_queue_of(ref, MM_OURO_FRESH)->back) / MM_OURO_SEGMENT_CHUNKS; }
/* Takes a queue chunk, for number `number` of a queue, which says where to begin. Returns its id, or 0. Acquires. */
MM_FN_RARE uint32_t mm_store_take(const struct mm_heap_ref *ref, uint32_t number) {
    struct mm_queue *pool = mm_queue_of(ref, MM_OURO_FREE);
    MM_ROLLED
    for (uint32_t i = 0; i < MM_OURO_STACKS;) {
        uint64_t *top = &pool->pool_free[(number + i) % MM_OURO_STACKS];
        const uint64_t head = mm_load_acquire_u64(top);
        const uint32_t id = (uint32_t)head;
        if (id == 0) i++;
        else if (mm_cas_acq_rel_u64(top, head, ((head >> 32) + 1) << 32 | (uint32_t)mm_load_relaxed_u64(&mm_store_at(ref, id)->link))) return id;
    }
    const uint64_t most = MM_STORE_FIRST + mm_store_segments(ref);
    uint64_t fresh = mm_load_relaxed_u64(&pool->pool_fresh);
    MM_ROLLED
    while (fresh < most && !mm_cas_relaxed_u64(&pool->pool_fresh, fresh, fresh + 1)) fresh = mm_load_relaxed_u64(&pool->pool_fresh);
    return fresh < most ? (uint32_t)fresh + 1 : 0;
}
/* Gives one back. Releases. */
MM_FN_RARE void mm_store_give(const struct mm_heap_ref *ref, uint32_t id) {
    uint64_t *top = &mm_queue_of(ref, MM_OURO_FREE)->pool_free[id % MM_OURO_STACKS], head;
    mm_store_relaxed_u64(&mm_store_at(ref, id)->number, ~0ull);
    do {
        head = mm_load_relaxed_u64(top);
        mm_store_relaxed_u64(&mm_store_at(ref, id)->link, (uint32_t)head);
    } while (!mm_cas_acq_rel_u64(top, head, ((head >> 32) + 1) << 32 | id));
}
MM_FN void mm_queue_reserve(const struct mm_heap_ref *ref, uint32_t q, uint32_t n) { (void)ref, (void)q, (void)n; }
/* n new segments come after `before` others: the lanes clear the queue chunks that these bring. */
MM_FN_RARE void mm_queues_begin(const struct mm_heap_ref *ref, uint32_t before, uint32_t n, uint32_t rank, uint32_t many) {
    MM_ROLLED
    for (uint32_t id = MM_STORE_FIRST + before; id < MM_STORE_FIRST + before + n; id++) mm_store_clear(ref, id + 1, rank, many);
}
/* Looks at the same holder of a queue's lock before a caller takes it over: not all at the same look. */
MM_FN uint32_t mm_store_patience(void) { return MM_OURO_LOCK_LOOKS + (mm_warp_number() + mm_warp_lane()) % MM_OURO_LOCK_LOOKS; }

#endif
