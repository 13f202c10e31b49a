/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The bulk semaphore of a queue (Winter et al., ICS 2020): callers get rights to entries, several by one addition.
 *
 * Representation. count: entries that were put, less rights that were given; for a moment it may be negative. awaited: {wanted : 32 | cutting : 32}: pages that
 *   callers wanted and found no entry for, in all, modulo 2^32; and how many warps are cutting a chunk. In the paper the three are one word, with 14 bits for
 *   what callers wait for: 16,384 lanes overflow it, and an H200 has 270,336. waiters: warps that wait.
 * Invariant. Rights that callers have, plus count, are at most the entries in the queue: an entry is counted after it is put.
 * Ordering. The count publishes nothing: slots do (queue.h). Who has a right may come to a slot before its entry, and waits.
 * Waiting. A caller that finds no entry adds the pages that it wants to `wanted`. Each time that passes a multiple of the pages of a chunk, the caller that did
 *   it cuts one, so callers that come at once cut as many as they need; who wants as many as a chunk has cuts one without that. The others wait, MM_OURO_LOOKS
 *   looks at most, since the warp that cuts may be suspended, or be the caller's own; and only MM_OURO_SHORT_LOOKS if nobody cuts. Then they cut a chunk
 *   themselves. Callers that come later may take what was cut for them: so they want their pages again after MM_OURO_AGAIN looks. One that sees entries tries
 *   to take with the probability entries / waiters. All of this is a hint: it decides who waits, never who gets an entry. (With `cutting` alone, all that came
 *   before the first one had said so cut a chunk each. When all that waited tried at once, count was negative, and nobody got anything, most of the time.)
 */
#ifndef MM_OURO_SEMAPHORE_H
#define MM_OURO_SEMAPHORE_H

#include "runtime/core/single_flight.h"
#include "runtime/ouroboros/chunk.h"

/* A queue; zero at first. What all callers write is so far apart as cursors are (mmconfig.h), but those that wait read count and waiters together. */
#define MM_QUEUE_WORDS (MM_CURSOR_BYTES / sizeof(uint64_t))
struct mm_queue {
    uint64_t count, waiters, spare0[MM_QUEUE_WORDS - 2];
    uint64_t awaited, spare1[MM_QUEUE_WORDS - 1 - MM_OURO_STACKS], pool_free[MM_OURO_STACKS]; /* pool_free: storage.h, in the queue of free chunks */
    uint64_t front, spare2[MM_QUEUE_WORDS - 1];                                               /* positions that were drawn for entries to take */
    uint64_t back, spare3[MM_QUEUE_WORDS - 1];                                                /* and to put */
    uint64_t lock, chunks, shape, spare5;                                                     /* lock: ring.h, links.h; chunks, shape: array.h */
    uint64_t oldest, newest;                                                                  /* ring.h, links.h; newest: fresh.h, too */
    uint64_t pool_fresh;                                                                      /* storage.h, in the queue of free chunks */
    uint64_t refused, dropped;                                                                /* queue.h */
    uint64_t visits, visitors, lap;                                                           /* malloc.h */
    uint64_t spare4[5];
};
MM_STATIC_ASSERT(sizeof(struct mm_queue) <= sizeof(struct mm_class_state), "a queue in the state of a class");
MM_STATIC_ASSERT(1 + MM_OURO_QUEUES + 1 <= MM_CLASS_COUNT, "the list has the first one");
MM_FN struct mm_queue *mm_queue_of(const struct mm_heap_ref *ref, uint32_t q) {
    return (struct mm_queue *)(ref->classes_at + (1 + q) * sizeof(struct mm_class_state));
}

/* Rights to up to `want` entries of queue q. Returns how many. Those to fresh chunks acquire (fresh.h). */
MM_FN uint32_t mm_semaphore_take(const struct mm_heap_ref *ref, uint32_t q, uint32_t want) {
    uint64_t *count = &mm_queue_of(ref, q)->count;
    const int64_t seen = (int64_t)mm_load_relaxed_u64(count);
    if (seen <= 0) return 0;
    if (seen < (int64_t)want) want = (uint32_t)seen;
    const int64_t had = (int64_t)(q == MM_OURO_FRESH ? mm_add_acquire_u64(count, 0 - (uint64_t)want) : mm_add_relaxed_u64(count, 0 - (uint64_t)want));
    const uint32_t got = had >= (int64_t)want ? want : had > 0 ? (uint32_t)had : 0;
    if (got < want) mm_add_relaxed_u64(count, want - got);
    return got;
}
/* n entries were put; or rights come back. */
MM_FN void mm_semaphore_put(const struct mm_heap_ref *ref, uint32_t q, uint32_t n) { mm_add_relaxed_u64(&mm_queue_of(ref, q)->count, n); }

/* The caller wants n pages. Returns whether it has to cut a chunk. */
MM_FN int mm_semaphore_wants(const struct mm_heap_ref *ref, uint32_t q, uint32_t n) {
    const uint32_t pages = mm_chunk_pages(q);
    if (n >= pages) return 1;
    return (0 - (uint32_t)(mm_add_relaxed_u64(&mm_queue_of(ref, q)->awaited, (uint64_t)n << 32) >> 32)) % pages < n;
}
/* A caller that has said that it wants n pages waits for a right. Returns 1; or 0: it has to cut a chunk. */
MM_FN_RARE uint32_t mm_semaphore_wait(const struct mm_heap_ref *ref, uint32_t q, uint32_t n) {
    struct mm_queue *of = mm_queue_of(ref, q);
    uint32_t rights = 0, random = mm_random();
    mm_add_relaxed_u64(&of->waiters, 1);
    MM_ROLLED
    for (uint32_t looks = 0; looks < MM_OURO_LOOKS; looks++) {
        uint64_t count, waiters;
        if ((looks + 1) % MM_OURO_AGAIN == 0 && mm_semaphore_wants(ref, q, n)) break; /* others have taken what was cut for the caller */
        mm_gather_two(&of->count, &count, &waiters);
        random = mm_random_next(random);
        if ((int64_t)count > 0 && mm_mulhi(random, (uint32_t)waiters) < count) rights = mm_semaphore_take(ref, q, 1);
        if (rights != 0 || (looks >= MM_OURO_SHORT_LOOKS && (uint32_t)mm_load_relaxed_u64(&of->awaited) == 0)) break;
        mm_pause(ref, mm_at_most(looks + 1, MM_OURO_PAUSE));
        mm_wait();
    }
    mm_add_relaxed_u64(&of->waiters, 0 - 1ull);
    return rights;
}
/* The caller is going to cut a chunk for queue q; it has done so, or there is none. */
MM_FN void mm_semaphore_expect(const struct mm_heap_ref *ref, uint32_t q) { mm_add_relaxed_u64(&mm_queue_of(ref, q)->awaited, 1); }
MM_FN void mm_semaphore_expected(const struct mm_heap_ref *ref, uint32_t q) { mm_add_relaxed_u64(&mm_queue_of(ref, q)->awaited, 0 - 1ull); }

/* Lanes of `here`, all of which call, have looked at MM_OURO_AT_ONCE words each, one lane after another: the caller's first `there` are as they should be. Returns
 * how many are up to the first one that is not. */
MM_FN uint32_t mm_lanes_there(uint32_t here, uint32_t there) {
    const uint32_t others = mm_warp_ballot(here, there < MM_OURO_AT_ONCE), last = others != 0 ? mm_ctz(others) : 31 - mm_clz_u32(here);
    return MM_OURO_AT_ONCE * mm_popcount(here & mm_bits_low(last)) + mm_warp_shuffle(here, there, last);
}

#endif
