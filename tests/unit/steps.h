/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The CPU port with a step before every atomic access, so that a test can run actors of one thread (two, or UNIT_ACTORS)
 * step by step in any order; and a home stripe that the test sets. Include before the core.
 *
 * unit_interleave lets A make a steps, B b steps, A c steps, then B and A in turns until both are done. All
 * (a, b, c) together are all schedules with up to three switches. It does not show reordering by the
 * processor: ThreadSanitizer and the model cover that.
 */
#ifndef MM_UNIT_STEPS_H
#define MM_UNIT_STEPS_H

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/unit/coroutine.h"

#ifndef UNIT_ACTORS
#define UNIT_ACTORS 2
#define UNIT_STACK_BYTES (256u << 10)
#endif
#define UNIT_TURN_STEPS 200 /* of an actor that waits for the other */

struct unit_actor {
    struct unit_coroutine coroutine;
    void (*act)(void *);
    void *arg;
    char *stack;
    int done;
};
static struct unit_actor unit_actor[UNIT_ACTORS];
static struct unit_coroutine unit_scheduler;
static int unit_running = -1;
static long unit_steps_left;
static uint32_t unit_home;     /* for callers that are no actor */
static uint32_t unit_seed = 1; /* of mm_random */
static uint32_t unit_actor_home[UNIT_ACTORS];
static void (*unit_each_step)(void); /* if not NULL: called before every atomic access outside of actors */

__attribute__((unused)) static void unit_step(void) {
    if (unit_running < 0) {
        if (unit_each_step) unit_each_step();
    } else if (unit_steps_left-- <= 0) {
        unit_coroutine_switch(&unit_actor[unit_running].coroutine, &unit_scheduler);
    }
}

#define __atomic_load_n(p, order) (unit_step(), __atomic_load_n(p, order))
#define __atomic_store_n(p, v, order) (unit_step(), __atomic_store_n(p, v, order))
#define __atomic_fetch_add(p, v, order) (unit_step(), __atomic_fetch_add(p, v, order))
#define __atomic_fetch_or(p, v, order) (unit_step(), __atomic_fetch_or(p, v, order))
#define __atomic_fetch_and(p, v, order) (unit_step(), __atomic_fetch_and(p, v, order))
#define __atomic_compare_exchange_n(p, e, d, w, s, f) (unit_step(), __atomic_compare_exchange_n(p, e, d, w, s, f))

#define mm_home unit_port_home
#define mm_warp_number unit_port_warp_number
#define mm_warp_slot unit_port_warp_slot
#define mm_random unit_port_random
#define mm_wait unit_port_wait
#include "runtime/port.h"
#undef mm_home
#undef mm_warp_number
#undef mm_warp_slot
#undef mm_random
#undef mm_wait
#ifndef UNIT_WAIT_STEPS
#define UNIT_WAIT_STEPS 0
#endif
static long unit_waits; /* calls of mm_wait */
MM_FN void mm_wait(void) {
    unit_waits++;
    for (int i = 0; i < UNIT_WAIT_STEPS; i++) unit_step();
}
MM_FN uint32_t mm_random(void) {
    unit_seed = unit_seed * 1664525u + 1013904223u;
    return unit_seed ^ unit_seed >> 16;
}
MM_FN uint32_t mm_home(void) { return unit_running < 0 ? unit_home : unit_actor_home[unit_running]; }
MM_FN uint32_t mm_warp_number(void) { return mm_home(); }
MM_FN uint32_t mm_warp_slot(void) { return unit_running < 0 ? unit_port_warp_slot() : mm_home(); }

static long unit_at, unit_count;
static void (*unit_other)(void);
static void unit_other_at(void) {
    if (unit_count++ != unit_at) return;
    unit_each_step = NULL;
    unit_other();
    unit_each_step = unit_other_at;
}
/* Runs `other` at once just before step n of `act`, for each n: begin, act with other, end. Returns how many steps act has. */
__attribute__((unused)) static long unit_at_each_step(void (*begin)(void), void (*act)(void), void (*other)(void), void (*end)(void)) {
    for (unit_at = 0, unit_other = other;; unit_at++) {
        begin();
        unit_count = 0, unit_each_step = unit_other_at;
        act();
        unit_each_step = NULL;
        if (unit_count <= unit_at) other();
        end();
        if (unit_count <= unit_at) return unit_count;
    }
}

__attribute__((unused)) static void unit_actor_main(void *actor) {
    struct unit_actor *me = (struct unit_actor *)actor;
    me->act(me->arg);
    me->done = 1;
}

/* Makes actor i, which does act(arg) once it is resumed. */
__attribute__((unused)) static void unit_actor_make(int i, void (*act)(void *), void *arg) {
    struct unit_actor *actor = &unit_actor[i];
    if (actor->stack == NULL) actor->stack = (char *)malloc(UNIT_STACK_BYTES);
    actor->act = act, actor->arg = arg, actor->done = 0;
    unit_coroutine_make(&actor->coroutine, actor->stack, UNIT_STACK_BYTES, unit_actor_main, actor, &unit_scheduler);
}

/* Lets actor i make that many steps. */
__attribute__((unused)) static void unit_go(int i, long steps) {
    if (unit_actor[i].done) return;
    unit_running = i;
    unit_steps_left = steps;
    unit_coroutine_switch(&unit_scheduler, &unit_actor[i].coroutine);
    unit_running = -1;
}

/* Runs both. Returns bits: 1: A was done in its first a steps, 2: B in its b, 4: A in a + c. */
__attribute__((unused)) static int unit_interleave(void (*act)(void *), void *arg[2], long a, long b, long c) {
    for (int i = 0; i < 2; i++) unit_actor_make(i, act, arg[i]);
    int ended = 0;
    unit_go(0, a), ended |= unit_actor[0].done;
    unit_go(1, b), ended |= unit_actor[1].done << 1;
    unit_go(0, c), ended |= unit_actor[0].done << 2;
    while (!unit_actor[0].done || !unit_actor[1].done) unit_go(1, UNIT_TURN_STEPS), unit_go(0, UNIT_TURN_STEPS);
    return ended;
}

#endif
