/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Interleaving explorer: runs a handful of coroutines through every schedule of their atomics.
 *
 * Depth first over states, each visited once (64-bit hash of the memory that was written and of the stacks).
 * A scenario's shared memory is written only by the atomics of port.h and by model_set, so that a step can be
 * undone. Assertions of a scenario: model_require, in a thread (checked at once) and in check (when all are done).
 * A thread that has only read for MODEL_SPIN steps sleeps until another changes something, and so does one
 * that has called mm_wait MODEL_WAITS times while no other made progress, that is: changed something without
 * itself waiting, or reached the end of a call. This is the fairness a waiting loop may count on. If all remaining threads
 * sleep, they go once more round their loops, MODEL_NUDGES times; then they are stuck, and that is an error.
 * With fair waits, a thread that calls mm_wait goes on only when each of the others has reached the end of a call, or waits
 * itself: by then, everything the others held temporarily is visible. NULL depends on that (shortage.h).
 * A thread is a warp of its own, or a lane of one (model_lanes). The lanes of a warp go on one by one, in any order, like other threads; a warp
 * operation waits for all lanes of its mask. Once no lane of the warp can go on, mm_warp_here returns those that stand at the same
 * place of the code and have reached the fewest ends of calls. Resuming a lane from there is no step: no other thread runs in between.
 * From one state in MODEL_FAIR_EVERY, and from the first MODEL_FAIR_FIRST, all threads also run in turns, without sleep, to their ends: each must get
 * there within MODEL_FAIR_STEPS steps of its own. (Which states these are depends on addresses; small scenarios would sometimes have none.)
 */
#ifndef MM_MODEL_EXPLORE_H
#define MM_MODEL_EXPLORE_H

#include <stdint.h>

#include "runtime/port.h"

#define MODEL_THREADS MODEL_LANES
#define MODEL_SPIN 1000
#define MODEL_WAITS 4
#define MODEL_NUDGES 8
#define MODEL_FAIR_EVERY 256
#define MODEL_FAIR_FIRST 64
#define MODEL_FAIR_STEPS 5000

struct model_scenario {
    const char *name;
    void (*setup)(void);                 /* alone, before the threads */
    void (*thread[MODEL_THREADS])(void); /* NULL: no more */
    void (*check)(void);                 /* alone, after the threads; may write */
    uint32_t preemptions;                /* 0: all schedules; else those with at most that many preemptions */
    uint32_t fair_waits;                 /* mm_wait lets every other thread get on (above) */
};

/* Ends the exploration with the schedule that led here if cond is false. */
#define model_require(cond, ...) ((cond) ? (void)0 : model_fail(__VA_ARGS__))
__attribute__((format(printf, 1, 2), noreturn)) void model_fail(const char *format, ...);

/* Writes a word of the scenario's own shared state (not a step of the schedule). */
void model_set(uint64_t *p, uint64_t v);
/* Calls f (in check) and undoes what it wrote through the atomics and model_set. */
void model_scratch(void (*f)(void));
/* Remembers a remark for the printed schedule. text must be a literal. */
void model_note(const char *text, uint64_t value);
/* The running thread has reached the end of a call: waiters look again. */
void model_progress(void);
/* The running thread's index, and what mm_home returns to each thread. */
uint32_t model_self(void);
extern uint32_t model_homes[MODEL_THREADS];
/* Set-up only: which lane of its warp a thread is; the lanes of a warp are consecutive threads. All 0: warps of one lane. */
extern uint32_t model_lanes[MODEL_THREADS];

/* Explores scenarios: [part of a name [seconds [preemptions]]]. Preemptions: the bound (0: all schedules); with a leading -: the scenario's own bound, but at
 * most that many. Exits 1 at the first violation. */
int model_main(int argc, char **argv, const struct model_scenario *all, uint32_t count);
/* Whether no other thread reads or changes *p meanwhile (or all only add to it), so that this operation on it is no step
 * of its own; provided by the scenario's file. */
int model_is_private(const void *p, enum model_op op);
/* Names an address in a printed schedule; provided by the scenario's file. */
void model_name_address(const void *p, char *out, uint32_t out_bytes);

#endif
