/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The threads of the explorer, and the memory that they write: coroutines that stop before each atomic, a log of what they wrote, and warps. Internal to the
 * explorer: scenarios include explore.h. */
#ifndef MM_MODEL_EXPLORE_THREADS_H
#define MM_MODEL_EXPLORE_THREADS_H

#include "explore.h"

#define STACK_BYTES 32768
#define DEPTH_MAX 20000
#define UNDO_MAX (1u << 20)
#define NOTES_MAX 4

/* An atomic, and the value before it. */
struct op {
    enum model_op kind;
    uint32_t bits;
    const void *p;
    uint64_t v, expected, before;
};
struct thread {
    void *sp;
    uint32_t done;
    uint32_t spin;                       /* steps since anything changed */
    uint32_t waiting;                    /* it has called mm_wait in this call */
    uint32_t waits;                      /* times it did so since a thread that was not waiting changed something */
    uint32_t nudges;                     /* times it was woken because all threads slept */
    uint32_t owed;                       /* with fair waits: threads that must get on before it does */
    uint32_t calls;                      /* ends of calls it has reached (model_progress) */
    uint32_t meets;                      /* the lanes of its warp, itself included, that it waits for; 0: none */
    uint32_t is_met;                     /* they have arrived; it goes on before any other thread */
    const void *place;                   /* it waits in mm_warp_here, at that place of the code */
    uint64_t brings, met[MODEL_THREADS]; /* its contribution, for the other lanes; and theirs */
};
/* One step of the schedule, and the state before it. */
struct frame {
    uint32_t todo, last, preempted, ran, notes, stack_bytes, log_mark, arena_mark;
    struct thread threads[MODEL_THREADS];
    uint64_t hash;
    struct op op;
    struct {
        const char *text;
        uint64_t value;
    } note[NOTES_MAX];
};

/* explore.c: what is explored, and the schedule so far. */
extern const struct model_scenario *scenario;
extern struct frame frames[DEPTH_MAX];
extern uint32_t depth; /* of the step that is being taken */

/* explore_threads.c */
extern struct thread threads[MODEL_THREADS];
extern uint32_t thread_count, current; /* current: MODEL_THREADS while no thread runs */
extern unsigned char stacks[MODEL_THREADS][STACK_BYTES];
extern uint32_t undo_count; /* words in the log */
extern uint64_t memory_hash;

/* Whether t waits in a warp operation; whether it need not sleep. */
int thread_waits_for_lanes(uint32_t t);
int thread_is_awake(uint32_t t);
/* Prepares t to run the scenario's function; runs it up to its next atomic, or warp operation that waits. */
void thread_make(uint32_t t);
void thread_resume(uint32_t t);
/* Takes back what was written since the log had `mark` words and memory had this hash. */
void undo_writes(uint32_t mark, uint64_t hash);

static inline uint64_t mix(uint64_t a, uint64_t b) {
    const __uint128_t m = (__uint128_t)(a ^ 0x9e3779b97f4a7c15ull) * (b ^ 0xd1342543de82ef95ull);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

#endif
