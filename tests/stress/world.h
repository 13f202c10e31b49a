/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap under test, three oracles over it that do not use the allocator's metadata, and threads.
 *
 *   shadow   one bit for 16 bytes of the heap, set at malloc and cleared before free: a bit that is set already
 *            is an overlap. Its operations are atomic but relaxed, so that they order nothing.
 *   payload  words keyed to their address and the size, written and read by PLAIN accesses at both ends and at a
 *            few places between: ThreadSanitizer sees a race if the allocator does not order one owner's use
 *            before the next one's. Under AddressSanitizer all memory that is not live is poisoned: any
 *            access to it (the allocator must never make one) is caught.
 *
 *   account  bytes granted for all that is live, by the sizes and alignments requested. After each round the heap must
 *            count the same: of a slice taken under a class other than its segment's, the heap's checker sees no more.
 *
 * Only the boxes order threads among each other, one way, from the giver to the taker.
 */
#ifndef STRESS_WORLD_H
#define STRESS_WORLD_H

#include <check.h>
#include <pthread.h>
#include <stdint.h>

#include "runtime/cpu/cpuheap.h"

#ifndef STRESS_OPS /* calls of malloc and free that all phases make together; the environment's STRESS_OPS takes precedence */
#define STRESS_OPS 50000000
#endif
#define STRESS_THREADS_MOST 16
#define STRESS_BOXES 64
#define STRESS_SLOTS_MOST 1024

struct box {
    void *p;
    char line[56]; /* one cache line each */
};

struct world;
struct worker {
    struct world *w;
    pthread_t thread;
    void (*body)(struct worker *);
    const void *plan;
    uint32_t index, threads, bursts;
    uint64_t seed, ops, ops_most; /* ops: calls made so far */
    uint64_t served, nulls;
    void *mine[STRESS_SLOTS_MOST]; /* its live allocations: kept from one run to the next */
};

struct world {
    struct mm_cpu_heap heap;
    uint64_t base, bytes; /* of user memory that is mapped */
    uint64_t segments;
    uint64_t *shadow;
    uint64_t live_bytes, nulls, served, calls; /* relaxed sums */
    uint64_t granted_bytes;                    /* what the heap must count as live: more than was asked for */
    const char *bad;
    struct box box[STRESS_BOXES];
    pthread_barrier_t start;
    struct worker worker[STRESS_THREADS_MOST];
};

/* A heap of `segments`, plus `unmapped` more that are only reserved. */
void world_create(struct world *w, uint64_t segments, uint64_t unmapped);
void world_destroy(struct world *w);

/* Runs body in `threads` threads, which make ops calls together, then checks the heap with everything live. Fails the
 * test if anything was wrong. */
void world_run(struct world *w, uint32_t threads, uint64_t ops, void (*body)(struct worker *), const void *plan);

/* Frees everything in the boxes and held by the workers. */
void world_free_all(struct world *w);
/* With nothing live any more: drains, checks, and expects all segments free and as many NULLs as were counted. */
void world_must_be_empty(struct world *w);

/* `bytes` (at least 16), aligned if align is not 0, checked and filled. Returns NULL if malloc does. */
void *world_malloc(struct worker *me, uint64_t bytes, uint64_t align);
/* Checks p's payload and frees p; NULL is allowed. */
void world_free(struct worker *me, void *p);
/* The same without the call of free, of which there may be several: p has no owner any more. */
void world_let_go(struct world *w, void *p);

/* Puts p into box i if that is empty (release). Takes what is in it, or NULL (acquire). */
int world_put(struct world *w, uint32_t i, void *p);
void *world_take(struct world *w, uint32_t i);

/* The share of all operations, as a percentage of STRESS_OPS. */
uint64_t world_ops(uint32_t percent);
uint64_t world_misuses(const struct world *w);
void world_bad(struct world *w, const char *why);

/* xorshift64*: the same sequence in every run. */
static inline uint64_t world_random(struct worker *me) {
    me->seed ^= me->seed >> 12, me->seed ^= me->seed << 25, me->seed ^= me->seed >> 27;
    return me->seed * 2685821657736338717ull;
}
static inline uint64_t world_live(struct world *w) { return __atomic_load_n(&w->live_bytes, __ATOMIC_RELAXED); }

#define world_holds(cond, ...)                  \
    do {                                        \
        if (!(cond)) ck_abort_msg(__VA_ARGS__); \
    } while (0)

#endif
