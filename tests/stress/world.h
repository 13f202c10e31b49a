/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap under test, three oracles over it that know nothing of the allocator's metadata, and threads.
 *
 *   shadow   one bit for 16 bytes of the heap, set at malloc and cleared before free: a bit that is set already
 *            is an overlap. Its operations are atomic but relaxed, so that they order nothing.
 *   payload  words keyed to their address and the size, written and read by PLAIN accesses at both ends and at a
 *            few places between: ThreadSanitizer sees a race if the allocator does not order one owner's use
 *            before the next one's. Under AddressSanitizer all memory that is not live is poisoned: whoever
 *            touches it (the allocator must not, ever) is caught.
 *
 *   account  bytes granted for all that is live, by the sizes and alignments asked for. After each round the heap must
 *            count as many: of a slice that was taken under another class than its segment's the heap's checker sees no more.
 *
 * Nothing here orders threads among each other but the boxes, one way, from the giver to the taker.
 */
#ifndef STRESS_WORLD_H
#define STRESS_WORLD_H

#include <check.h>
#include <pthread.h>
#include <stdint.h>

#include "runtime/cpu/cpuheap.h"

#ifndef STRESS_OPS /* calls of malloc and free that all phases make together; the environment's STRESS_OPS goes first */
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
    void *mine[STRESS_SLOTS_MOST]; /* what it has: stays from one run to the next */
};

struct world {
    struct mm_cpu_heap heap;
    uint64_t base, bytes; /* of user memory that is mapped */
    uint64_t segments;
    uint64_t *shadow;
    uint64_t live_bytes, nulls, served, calls; /* relaxed sums */
    uint64_t granted_bytes; /* what the heap has to count as live: more than was asked for */
    const char *bad;
    struct box box[STRESS_BOXES];
    pthread_barrier_t start;
    struct worker worker[STRESS_THREADS_MOST];
};

/* A heap of `segments`, and `unmapped` more that are reserved only. */
void world_create(struct world *w, uint64_t segments, uint64_t unmapped);
void world_destroy(struct world *w);

/* Runs body in `threads` threads, which make ops calls together, then checks the heap with all that is live. Fails the
 * test if anything was bad. */
void world_run(struct world *w, uint32_t threads, uint64_t ops, void (*body)(struct worker *), const void *plan);

/* Frees what is in the boxes and what the workers have. */
void world_free_all(struct world *w);
/* Nothing is live any more: drains, checks, and expects all segments free and as many NULLs as were counted. */
void world_must_be_empty(struct world *w);

/* `bytes` (at least 16), aligned if align is not 0, checked and filled. NULL as it comes. */
void *world_malloc(struct worker *me, uint64_t bytes, uint64_t align);
/* Checks p's payload and gives p back; NULL is fine. */
void world_free(struct worker *me, void *p);
/* The same but for the call of free, of which there may be several: p is no longer anybody's. */
void world_let_go(struct world *w, void *p);

/* Puts p into box i if that is empty (release). Takes what is in it, or NULL (acquire). */
int world_put(struct world *w, uint32_t i, void *p);
void *world_take(struct world *w, uint32_t i);

/* The share of all operations, in per cent of what STRESS_OPS says. */
uint64_t world_ops(uint32_t percent);
uint64_t world_misuses(const struct world *w);
void world_bad(struct world *w, const char *why);

/* xorshift64*: the same sequence in every run. */
static inline uint64_t world_random(struct worker *me) {
    me->seed ^= me->seed >> 12, me->seed ^= me->seed << 25, me->seed ^= me->seed >> 27;
    return me->seed * 2685821657736338717ull;
}
static inline uint64_t world_live(struct world *w) { return __atomic_load_n(&w->live_bytes, __ATOMIC_RELAXED); }

#define world_holds(cond, ...)                    \
    do {                                          \
        if (!(cond)) ck_abort_msg(__VA_ARGS__);   \
    } while (0)

#endif
