/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The CPU port with warps of several lanes, scheduled like a GPU that never switches between the lanes of a warp on its own:
 * a running lane goes on until it reaches a warp operation, or ends. A lane that waits in a loop for another lane of its warp
 * waits for ever. Warps take turns at random, before any atomic access. Include before the core.
 *
 * A warp may also be split into parts whose lanes never converge with those of another part: then one part has the multiprocessor until
 * it cannot go on; or loses it at random, but only at the beginning of a call, so that a waiting part keeps it until a bound has passed.
 *
 * Once no lane of the warp can go on, mm_warp_here returns the lanes that stand at the same place of the code and have made the
 * fewest calls: what a compiler's convergence barriers bring together. The other operations wait for all lanes of their mask.
 */
#ifndef MM_UNIT_WARPS_H
#define MM_UNIT_WARPS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/coroutine.h"

#define UNIT_LANES 8
#ifndef UNIT_WARPS
#define UNIT_WARPS 6
#endif
#define UNIT_WARP_STACK (128u << 10)
#define UNIT_PARTS_MOST 2
#define UNIT_PART_STEPS 48 /* the beginning of a call, in steps, in which a part may lose the multiprocessor */

enum unit_op { UNIT_RUNS, UNIT_HERE, UNIT_MEETS, UNIT_ENDED };
struct unit_lane {
    struct unit_coroutine coroutine;
    char *stack;
    enum unit_op op;
    const void *place; /* in the code */
    uint32_t mask;     /* MEETS: the lanes it waits for */
    uint64_t value;    /* its contribution, for the other lanes */
    uint32_t calls;    /* calls it has made (unit_lane_calls) */
    uint32_t here;     /* HERE: the answer */
    uint64_t met[UNIT_LANES];
};
struct unit_warp {
    struct unit_lane lane[UNIT_LANES];
    uint32_t home;
    long steps;                       /* since one of its lanes last ended a call */
    int part;                         /* the one that has the multiprocessor */
    long part_steps[UNIT_PARTS_MOST]; /* since one of its lanes last ended a call */
    int idle;                         /* how many parts in a row could not go on */
};
static struct unit_warp unit_warp[UNIT_WARPS];
static struct unit_coroutine unit_warps_scheduler;
static int unit_warp_now = -1, unit_lane_now; /* -1: outside of warps */
static uint64_t unit_warps_seed;
static int unit_warps_parts = 1; /* lane i is in part i % unit_warps_parts */
static uint32_t unit_warps_turn; /* a warp yields once in so many steps, on average; a power of two */

static uint32_t unit_warps_random(void) {
    unit_warps_seed = unit_warps_seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(unit_warps_seed >> 33);
}
static void unit_warps_give_way(void) {
    struct unit_lane *lane = &unit_warp[unit_warp_now].lane[unit_lane_now];
    unit_coroutine_switch(&lane->coroutine, &unit_warps_scheduler);
}
static void (*unit_warps_each_step)(void); /* if not NULL: called before every atomic access of a lane, as if from outside of warps */
__attribute__((unused)) static void unit_warps_step(void) {
    if (unit_warp_now < 0) return;
    if (unit_warps_each_step != NULL) {
        const int w = unit_warp_now;
        unit_warp_now = -1;
        unit_warps_each_step();
        unit_warp_now = w;
    }
    unit_warp[unit_warp_now].steps++;
    unit_warp[unit_warp_now].part_steps[unit_lane_now % unit_warps_parts]++;
    if ((unit_warps_random() & (unit_warps_turn - 1)) == 0) unit_warps_give_way();
}

#define __atomic_load_n(p, order) (unit_warps_step(), __atomic_load_n(p, order))
#define __atomic_store_n(p, v, order) (unit_warps_step(), __atomic_store_n(p, v, order))
#define __atomic_fetch_add(p, v, order) (unit_warps_step(), __atomic_fetch_add(p, v, order))
#define __atomic_fetch_or(p, v, order) (unit_warps_step(), __atomic_fetch_or(p, v, order))
#define __atomic_fetch_and(p, v, order) (unit_warps_step(), __atomic_fetch_and(p, v, order))
#define __atomic_compare_exchange_n(p, e, d, w, s, f) (unit_warps_step(), __atomic_compare_exchange_n(p, e, d, w, s, f))

#define mm_home unit_port_home
#define mm_warp_number unit_port_warp_number
#define mm_warp_slot unit_port_warp_slot
#define mm_wait unit_port_wait
#define mm_wait_host unit_port_wait_host
#define mm_warp_lane unit_port_lane
#define mm_warp_before unit_port_before
#define mm_warp_self unit_port_self
#define mm_warp_from unit_port_from
#define mm_warp_group unit_port_group
#define mm_warp_here unit_port_here
#define mm_warp_match unit_port_match
#define mm_warp_shuffle unit_port_shuffle
#define mm_warp_shuffle_u64 unit_port_shuffle_u64
#define mm_warp_sync unit_port_sync
#define mm_warp_ballot unit_port_ballot
#define mm_warp_sum unit_port_sum
#define mm_warp_or unit_port_or
#define mm_warp_max unit_port_max
#define mm_random unit_port_random
#include "runtime/port.h"
#undef mm_home
#undef mm_warp_number
#undef mm_warp_slot
#undef mm_wait
#undef mm_wait_host
#undef mm_warp_lane
#undef mm_warp_before
#undef mm_warp_self
#undef mm_warp_from
#undef mm_warp_group
#undef mm_warp_here
#undef mm_warp_match
#undef mm_warp_shuffle
#undef mm_warp_shuffle_u64
#undef mm_warp_sync
#undef mm_warp_ballot
#undef mm_warp_sum
#undef mm_warp_or
#undef mm_warp_max
#undef mm_random
#undef MM_WARP_ALL
#define MM_WARP_ALL ((1u << UNIT_LANES) - 1)

/* The running lane, or NULL outside of warps. */
static struct unit_lane *unit_lane(void) { return unit_warp_now < 0 ? NULL : &unit_warp[unit_warp_now].lane[unit_lane_now]; }

__attribute__((noinline)) static uint32_t unit_warps_here(void) {
    struct unit_lane *lane = unit_lane();
    if (lane == NULL) return 1;
    lane->op = UNIT_HERE, lane->place = __builtin_return_address(0);
    unit_warps_give_way();
    return lane->here;
}
/* All lanes of `mask` meet, each with a value; each gets all values in its met[]. */
__attribute__((noinline)) static void unit_warps_meet(uint32_t mask, uint64_t value) {
    struct unit_lane *lane = unit_lane();
    if (!(mask >> unit_lane_now & 1)) {
        fprintf(stderr, "warp %d, lane %d: a warp operation of lanes %#x, and it is none\n", unit_warp_now, unit_lane_now, mask);
        abort();
    }
    lane->op = UNIT_MEETS, lane->mask = mask, lane->value = value;
    unit_warps_give_way();
}

MM_FN uint32_t mm_home(void) { return unit_warp_now < 0 ? 0 : unit_warp[unit_warp_now].home; }
MM_FN uint32_t mm_warp_number(void) { return mm_home(); }
MM_FN uint32_t mm_warp_slot(void) { return mm_home(); }
MM_FN uint32_t mm_random(void) { return unit_warps_random() << 1 ^ unit_warps_random(); }
MM_FN uint32_t mm_warp_lane(void) { return unit_warp_now < 0 ? 0 : (uint32_t)unit_lane_now; }
MM_FN uint32_t mm_warp_before(void) { return (1u << mm_warp_lane()) - 1; }
MM_FN uint32_t mm_warp_self(void) { return 1u << mm_warp_lane(); }
MM_FN uint32_t mm_warp_from(void) { return ~0u << mm_warp_lane(); }
#define mm_warp_here() unit_warps_here()
#define mm_warp_group(same) ((void)(same), unit_warps_here())
static void unit_warps_next_part(struct unit_warp *w) { w->part = (w->part + 1) % unit_warps_parts; }
/* Yields to the other warps; the lanes of this one stay where they are. */
MM_FN void mm_wait(void) {
    if (unit_lane() == NULL) return;
    unit_warp[unit_warp_now].steps++;
    unit_warps_give_way();
}
MM_FN void mm_wait_host(void) { mm_wait(); }
MM_FN void mm_warp_sync(uint32_t group) {
    if (unit_lane() != NULL) unit_warps_meet(group, 0);
}
MM_FN uint64_t mm_warp_shuffle_u64(uint32_t group, uint64_t value, uint32_t from) {
    if (unit_lane() == NULL) return value;
    unit_warps_meet(group, value);
    return unit_lane()->met[from];
}
MM_FN uint32_t mm_warp_shuffle(uint32_t group, uint32_t value, uint32_t from) { return (uint32_t)mm_warp_shuffle_u64(group, value, from); }
MM_FN uint32_t mm_warp_match(uint32_t here, uint32_t key) {
    uint32_t same = 0;
    if (unit_lane() == NULL) return here;
    unit_warps_meet(here, key);
    for (uint32_t i = 0; i < UNIT_LANES; i++)
        if (here >> i & 1 && unit_lane()->met[i] == key) same |= 1u << i;
    return same;
}
MM_FN uint32_t mm_warp_ballot(uint32_t group, int x) {
    uint32_t votes = 0;
    if (unit_lane() == NULL) return x ? group : 0;
    unit_warps_meet(group, x != 0);
    for (uint32_t i = 0; i < UNIT_LANES; i++)
        if (group >> i & 1 && unit_lane()->met[i]) votes |= 1u << i;
    return votes;
}
MM_FN uint32_t mm_warp_or(uint32_t group, uint32_t value) {
    if (unit_lane() == NULL) return value;
    unit_warps_meet(group, value);
    for (uint32_t i = 0; i < UNIT_LANES; i++)
        if (group >> i & 1) value |= (uint32_t)unit_lane()->met[i];
    return value;
}
MM_FN uint32_t mm_warp_max(uint32_t group, uint32_t value) {
    if (unit_lane() == NULL) return value;
    unit_warps_meet(group, value);
    for (uint32_t i = 0; i < UNIT_LANES; i++)
        if (group >> i & 1 && unit_lane()->met[i] > value) value = (uint32_t)unit_lane()->met[i];
    return value;
}
MM_FN uint32_t mm_warp_sum(uint32_t group, uint32_t value) {
    uint32_t sum = 0;
    if (unit_lane() == NULL) return value;
    unit_warps_meet(group, value);
    for (uint32_t i = 0; i < UNIT_LANES; i++)
        if (group >> i & 1) sum += (uint32_t)unit_lane()->met[i];
    return sum;
}

/* The running lane has ended a call. */
__attribute__((unused)) static void unit_lane_called(void) {
    unit_lane()->calls++;
    unit_warp[unit_warp_now].steps = unit_warp[unit_warp_now].part_steps[unit_lane_now % unit_warps_parts] = 0;
}

static int unit_warps_has(const struct unit_warp *w, int i) { return i % unit_warps_parts == w->part; }

/* Lets the lanes of warp w, of the part that has the multiprocessor, go on that have met, or, if none have, those that mm_warp_here groups. Returns whether any
 * can. */
static int unit_warps_resolve(struct unit_warp *w) {
    int any = 0;
    for (int i = 0; i < UNIT_LANES; i++) {
        struct unit_lane *lane = &w->lane[i];
        uint32_t there = 0;
        if (lane->op != UNIT_MEETS || !unit_warps_has(w, i)) continue;
        for (int k = 0; k < UNIT_LANES; k++)
            if (w->lane[k].op == UNIT_MEETS && w->lane[k].mask == lane->mask) there |= 1u << k;
        if ((there & lane->mask) != lane->mask) continue;
        const uint32_t mask = lane->mask;
        for (int k = 0; k < UNIT_LANES; k++) {
            if (!(mask >> k & 1)) continue;
            for (int j = 0; j < UNIT_LANES; j++) w->lane[k].met[j] = w->lane[j].value;
        }
        for (int k = 0; k < UNIT_LANES; k++)
            if (mask >> k & 1) w->lane[k].op = UNIT_RUNS, any = 1;
    }
    if (any) return 1;
    const struct unit_lane *first = NULL;
    for (int i = 0; i < UNIT_LANES; i++)
        if (w->lane[i].op == UNIT_HERE && unit_warps_has(w, i) && (first == NULL || w->lane[i].calls < first->calls)) first = &w->lane[i];
    if (first == NULL) return 0;
    const void *place = first->place;
    const uint32_t calls = first->calls;
    uint32_t here = 0;
    for (int i = 0; i < UNIT_LANES; i++)
        if (w->lane[i].op == UNIT_HERE && unit_warps_has(w, i) && w->lane[i].place == place && w->lane[i].calls == calls) here |= 1u << i;
    for (int i = 0; i < UNIT_LANES; i++)
        if (here >> i & 1) w->lane[i].op = UNIT_RUNS, w->lane[i].here = here;
    return 1;
}

static void (*unit_warps_act)(uint32_t thread);
static void unit_warps_main(void *lane) {
    const int w = unit_warp_now, i = unit_lane_now;
    unit_warps_act((uint32_t)(w * UNIT_LANES + i));
    ((struct unit_lane *)lane)->op = UNIT_ENDED;
}

static void unit_warps_begin(int w, int i) {
    struct unit_lane *lane = &unit_warp[w].lane[i];
    if (lane->stack == NULL) lane->stack = (char *)malloc(UNIT_WARP_STACK);
    lane->op = UNIT_RUNS, lane->calls = 0;
    unit_coroutine_make(&lane->coroutine, lane->stack, UNIT_WARP_STACK, unit_warps_main, lane, &unit_warps_scheduler);
}
static void unit_warps_go(int w, int i) {
    unit_warp_now = w, unit_lane_now = i;
    unit_coroutine_switch(&unit_warps_scheduler, &unit_warp[w].lane[i].coroutine);
    unit_warp_now = -1;
}

/* Runs act on all lanes of all warps. Returns 0; or the number, from 1, of a warp that made the maximum of steps without ending a call, or that
 * cannot go on. */
__attribute__((unused)) static int unit_warps_run(void (*act)(uint32_t thread), uint64_t seed, uint32_t turn, long most_steps) {
    int lane_of[UNIT_WARPS], left = UNIT_WARPS;
    unit_warps_act = act, unit_warps_seed = seed * 2 + 1, unit_warps_turn = turn;
    for (int w = 0; w < UNIT_WARPS; w++) {
        unit_warp[w].steps = 0, unit_warp[w].part = unit_warp[w].idle = 0, lane_of[w] = 0;
        memset(unit_warp[w].part_steps, 0, sizeof unit_warp[w].part_steps);
        for (int i = 0; i < UNIT_LANES; i++) unit_warps_begin(w, i);
    }
    while (left > 0) {
        const int w = (int)(unit_warps_random() % UNIT_WARPS);
        struct unit_warp *warp = &unit_warp[w];
        if (warp->steps > most_steps) return w + 1;
        int i = lane_of[w], ended = 0; /* the lane that ran goes on, if it can */
        if (unit_warps_parts > 1 && warp->idle == 0 && warp->part_steps[warp->part] < UNIT_PART_STEPS && unit_warps_random() % 8 == 0)
            unit_warps_next_part(warp);
        for (int k = 0; k < UNIT_LANES && (warp->lane[i].op != UNIT_RUNS || !unit_warps_has(warp, i)); k++) i = (i + 1) % UNIT_LANES;
        if (warp->lane[i].op != UNIT_RUNS || !unit_warps_has(warp, i)) {
            for (int k = 0; k < UNIT_LANES; k++) ended += warp->lane[k].op == UNIT_ENDED;
            if (ended == UNIT_LANES) {
                int all = 0;
                for (int v = 0; v < UNIT_WARPS; v++)
                    for (int k = 0; k < UNIT_LANES; k++) all += unit_warp[v].lane[k].op == UNIT_ENDED;
                if (all == UNIT_WARPS * UNIT_LANES) left = 0;
            } else if (unit_warps_resolve(warp)) {
                warp->idle = 0;
            } else {
                if (++warp->idle == unit_warps_parts) return w + 1;
                unit_warps_next_part(warp);
            }
            continue;
        }
        lane_of[w] = i, warp->idle = 0;
        unit_warps_go(w, i);
    }
    return 0;
}

#endif
