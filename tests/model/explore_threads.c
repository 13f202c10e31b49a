/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "explore_threads.h"

#include <stdlib.h>
#include <string.h>

#define RUBBISH 0x5a5a5a5a5a5a5a5aull

/* Saves the callee's registers on the stack, stores its pointer to *save and goes on at `to`. */
void model_switch(void **save, void *to);
#if defined(__x86_64__)
__asm__(".text\n.globl model_switch\nmodel_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
#else
#error "the explorer switches stacks in x86-64 assembly"
#endif

struct undo {
    void *p;
    uint32_t bits;
    uint64_t old;
};

_Alignas(64) unsigned char stacks[MODEL_THREADS][STACK_BYTES];
struct thread threads[MODEL_THREADS];
uint32_t thread_count, current = MODEL_THREADS;
static void *main_sp;
static struct undo undo_log[UNDO_MAX];
uint32_t undo_count;
uint64_t memory_hash;
uint32_t model_homes[MODEL_THREADS], model_lanes[MODEL_THREADS];

static uint64_t word_hash(const void *p, uint64_t v) { return v == 0 ? 0 : mix(mix((uint64_t)(uintptr_t)p, v), 0x2545f4914f6cdd1dull); }

static void put(void *p, uint32_t bits, uint64_t v) {
    if (bits == 64) *(uint64_t *)p = v;
    else if (bits == 32) *(uint32_t *)p = (uint32_t)v;
    else *(uint8_t *)p = (uint8_t)v;
}
static uint64_t get(const void *p, uint32_t bits) { return bits == 64 ? *(const uint64_t *)p : bits == 32 ? *(const uint32_t *)p : *(const uint8_t *)p; }
/* Something has changed. A write by a waiting thread (its next attempt) does not count as progress to other waiters:
 * else two of them could wake each other for ever while a third, for which they wait, gets no turn. */
static void wake(int progress) {
    for (uint32_t t = 0; t < thread_count; t++) {
        threads[t].spin = 0;
        if (progress && t != current) threads[t].waits = threads[t].nudges = 0;
    }
}
static void write_logged(void *p, uint32_t bits, uint64_t v) {
    const uint64_t old = get(p, bits);
    if (old == v) return;
    undo_log[undo_count++] = (struct undo){p, bits, old};
    memory_hash ^= word_hash(p, old) ^ word_hash(p, v);
    put(p, bits, v);
    if (current < MODEL_THREADS) wake(!threads[current].waiting);
}
void model_set(uint64_t *p, uint64_t v) { write_logged(p, 64, v); }
void undo_writes(uint32_t mark, uint64_t hash) {
    while (undo_count > mark) {
        const struct undo *u = &undo_log[--undo_count];
        put(u->p, u->bits, u->old);
    }
    memory_hash = hash;
}
void model_scratch(void (*f)(void)) {
    const uint32_t mark = undo_count;
    const uint64_t hash = memory_hash;
    f();
    undo_writes(mark, hash);
}

static void yield(void) { model_switch(&threads[current].sp, main_sp); }

uint64_t model_atomic(void *p, uint32_t bits, enum model_op kind, uint64_t v, uint64_t expected) {
    const int step = current < MODEL_THREADS && !model_is_private(p, kind);
    if (step) {
        threads[current].spin++;
        yield();
    }
    const uint64_t before = get(p, bits);
    switch (kind) {
    case MODEL_LOAD: break;
    case MODEL_STORE: write_logged(p, bits, v); break;
    case MODEL_fetch_add: write_logged(p, bits, bits == 64 ? before + v : (uint32_t)(before + v)); break;
    case MODEL_fetch_or: write_logged(p, bits, before | v); break;
    case MODEL_fetch_and: write_logged(p, bits, before & v); break;
    case MODEL_exchange_n: write_logged(p, bits, v); break;
    case MODEL_CAS:
        if (before == expected) write_logged(p, bits, v);
        break;
    }
    if (step) frames[depth].op = (struct op){kind, bits, p, v, expected, before};
    return before;
}
int thread_waits_for_lanes(uint32_t t) { return threads[t].meets != 0 && !threads[t].is_met; }
int thread_is_awake(uint32_t t) { return !thread_waits_for_lanes(t) && threads[t].spin < MODEL_SPIN && threads[t].waits < MODEL_WAITS && !threads[t].owed; }
static int is_lane_of(uint32_t t, uint32_t u) { return t - model_lanes[t] == u - model_lanes[u]; }
/* Thread t has reached the end of a call, or waits itself, or waits for a lane of its warp that does. */
static void has_got_on(uint32_t t) {
    for (uint32_t u = 0; u < thread_count; u++) threads[u].owed &= ~(1u << t);
}
void model_wait(void) {
    if (current == MODEL_THREADS) return;
    threads[current].waiting = 1;
    threads[current].waits++;
    has_got_on(current);
    if (!scenario->fair_waits) return;
    for (uint32_t t = 0; t < thread_count; t++)
        if (is_lane_of(t, current) && thread_waits_for_lanes(t)) has_got_on(t);
        else if (!is_lane_of(t, current) && !threads[t].done) threads[current].owed |= 1u << t;
}
void model_progress(void) {
    if (current == MODEL_THREADS) return;
    threads[current].waiting = threads[current].waits = threads[current].nudges = 0;
    threads[current].calls++;
    has_got_on(current);
    wake(1);
}
uint32_t model_self(void) { return current; }
uint32_t model_home(void) { return current < MODEL_THREADS ? model_homes[current] : 0; }
void model_note(const char *text, uint64_t value) {
    struct frame *f = &frames[depth];
    if (f->notes == NOTES_MAX) return;
    f->note[f->notes].text = text;
    f->note[f->notes++].value = value;
}

/* ---- Warps ---------------------------------------------------------------------------------- */

static uint32_t warp_lanes(uint32_t first) {
    uint32_t n = 1;
    while (first + n < MODEL_THREADS && model_lanes[first + n] == n && scenario->thread[first + n]) n++;
    return n;
}
/* A lane of the warp that begins with thread `first` has reached a warp operation, or its end: which lanes can go on? */
static void meet(uint32_t first) {
    struct thread *lane = threads + first;
    const uint32_t n = warp_lanes(first);
    uint32_t fewest = ~0u, here = 0;
    int all_wait = 1;
    for (uint32_t u = 0; u < n; u++) {
        uint32_t come = 0;
        for (uint32_t v = 0; v < n; v++)
            if (lane[v].meets == lane[u].meets && !lane[v].place && !lane[v].is_met) come |= 1u << v;
        for (uint32_t v = 0; v < n && lane[u].meets != 0 && (come & lane[u].meets) == lane[u].meets; v++)
            if (lane[u].meets >> v & 1) {
                lane[v].is_met = 1;
                for (uint32_t w = 0; w < n; w++) lane[v].met[w] = lane[v].meets >> w & 1 ? lane[w].brings : RUBBISH;
            }
    }
    for (uint32_t u = 0; u < n; u++) all_wait &= lane[u].done || (lane[u].meets != 0 && !lane[u].is_met);
    for (uint32_t u = 0; u < n && all_wait; u++)
        if (lane[u].place && lane[u].calls < fewest) fewest = lane[u].calls, here = u;
    for (uint32_t u = 0; u < n && fewest != ~0u; u++) {
        if (lane[u].place != lane[here].place || lane[u].calls != fewest || u == here) continue;
        lane[u].is_met = 1;
        lane[here].met[0] |= 1u << u;
    }
    if (fewest == ~0u) return;
    lane[here].is_met = 1;
    lane[here].met[0] |= 1u << here;
    for (uint32_t u = 0; u < n; u++) lane[u].met[0] = lane[u].is_met ? lane[here].met[0] : 0;
}
uint32_t model_lane(void) { return current < MODEL_THREADS ? model_lanes[current] : 0; }
void model_meet(uint32_t group, uint64_t brings, const void *place, uint64_t met[MODEL_THREADS]) {
    const uint32_t lane = model_lane();
    if (!place) model_require(group >> lane & 1, "lane %u is not in the group %#x that it calls with", lane, group);
    for (uint32_t i = 0; i < MODEL_THREADS; i++) met[i] = RUBBISH;
    if (current == MODEL_THREADS || group == 1u << lane || warp_lanes(current - lane) == 1) {
        met[place ? 0 : lane] = place ? 1u << lane : brings;
        return;
    }
    struct thread *t = &threads[current];
    t->meets = group, t->place = place, t->brings = brings;
    meet(current - lane);
    for (uint32_t u = 0; u < thread_count && !t->is_met; u++)
        if (is_lane_of(u, current) && threads[u].owed) has_got_on(current);
    if (!t->is_met) yield();
    memcpy(met, t->met, sizeof t->met);
    memset(t->met, 0, sizeof t->met);
    t->meets = t->is_met = 0, t->place = NULL, t->brings = 0;
}
__attribute__((noinline)) uint32_t model_here(void) {
    uint64_t met[MODEL_THREADS];
    model_meet(~0u, 0, __builtin_return_address(0), met);
    return (uint32_t)met[0];
}

static void thread_body(void) {
    scenario->thread[current]();
    threads[current].done = 1;
    has_got_on(current);
    meet(current - model_lanes[current]);
    yield();
    abort();
}
void thread_make(uint32_t t) {
    void **sp = (void **)(stacks[t] + STACK_BYTES - 16);
    *--sp = NULL; /* keeps the stack aligned as after a call */
    *--sp = (void *)(uintptr_t)thread_body;
    threads[t].sp = sp - 6;
}
void thread_resume(uint32_t t) {
    current = t;
    model_switch(&main_sp, threads[t].sp);
    current = MODEL_THREADS;
}
