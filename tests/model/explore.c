/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "explore.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/port.h"

#define STACK_BYTES 32768
#define DEPTH_MAX 20000
#define UNDO_MAX (1u << 20)
#define UNDO_STEP 4096 /* most words written in one step */
#define NOTES_MAX 4
#define RUBBISH 0x5a5a5a5a5a5a5a5aull
#define SEEN_SHIFT_MAX 26

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
struct undo {
    void *p;
    uint32_t bits;
    uint64_t old;
};

static _Alignas(64) unsigned char stacks[MODEL_THREADS][STACK_BYTES];
static struct thread threads[MODEL_THREADS];
static uint32_t thread_count, current = MODEL_THREADS, depth;
static void *main_sp;
static const struct model_scenario *scenario;
static struct frame frames[DEPTH_MAX];
static struct undo undo_log[UNDO_MAX];
static uint32_t undo_count;
static unsigned char *arena; /* copies of stacks, one after the other */
static uint32_t arena_used;
#define ARENA_BYTES (256u << 20)
static uint64_t memory_hash, *seen, seen_count, steps, executions, deepest;
static uint32_t seen_shift;
uint32_t model_homes[MODEL_THREADS], model_lanes[MODEL_THREADS];

static uint64_t mix(uint64_t a, uint64_t b) {
    const __uint128_t m = (__uint128_t)(a ^ 0x9e3779b97f4a7c15ull) * (b ^ 0xd1342543de82ef95ull);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}
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
    case MODEL_MAX:
        if (before < v) write_logged(p, bits, v);
        break;
    }
    if (step) frames[depth].op = (struct op){kind, bits, p, v, expected, before};
    return before;
}
static int waits_for_lanes(uint32_t t) { return threads[t].meets != 0 && !threads[t].is_met; }
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
        if (is_lane_of(t, current) && waits_for_lanes(t)) has_got_on(t);
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

static void print_schedule(void) {
    static const char *const kinds[] = {"load", "store", "add", "or", "and", "xchg", "cas", "max"};
    for (uint32_t d = 0; d <= depth; d++) {
        const struct frame *f = &frames[d];
        char name[64] = "start";
        if (!f->op.p && f->notes == 0 && d > 0) continue; /* from a warp operation to the next step */
        if (f->op.p) model_name_address(f->op.p, name, sizeof name);
        if (f->op.p) fprintf(stderr, "  %s%c %-5s %-22s", d && frames[d - 1].ran == f->ran ? " " : "*", (char)('A' + f->ran), kinds[f->op.kind], name);
        if (f->op.p && f->op.kind != MODEL_LOAD) fprintf(stderr, " %#" PRIx64, f->op.v);
        if (f->op.p && f->op.kind == MODEL_CAS) fprintf(stderr, " if %#" PRIx64, f->op.expected);
        if (f->op.p) fprintf(stderr, "  was %#" PRIx64, f->op.before);
        for (uint32_t n = 0; n < f->notes; n++) fprintf(stderr, "  | %s %#" PRIx64, f->note[n].text, f->note[n].value);
        fprintf(stderr, "\n");
    }
}
void model_fail(const char *format, ...) {
    va_list args;
    fflush(stdout);
    fprintf(stderr, "model: %s: ", scenario->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    if (!getenv("MODEL_QUIET")) print_schedule();
    fflush(stderr);
    _Exit(1);
}

static void thread_body(void) {
    scenario->thread[current]();
    threads[current].done = 1;
    has_got_on(current);
    meet(current - model_lanes[current]);
    yield();
    abort();
}

static void resume(uint32_t t) {
    current = t;
    model_switch(&main_sp, threads[t].sp);
    current = MODEL_THREADS;
}

static void undo_writes(uint32_t mark, uint64_t hash) {
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
static void undo_to(struct frame *f) {
    undo_writes(f->log_mark, f->hash);
    memcpy(threads, f->threads, sizeof threads);
    memcpy(stacks[f->ran] + STACK_BYTES - f->stack_bytes, arena + f->arena_mark, f->stack_bytes);
    arena_used = f->arena_mark;
}

static int awake_now(uint32_t t) { return !waits_for_lanes(t) && threads[t].spin < MODEL_SPIN && threads[t].waits < MODEL_WAITS && !threads[t].owed; }
static uint64_t state_hash(void) {
    uint64_t h = memory_hash;
    for (uint32_t t = 0; t < thread_count; t++) {
        h = mix(h, threads[t].done + 2 * (uint32_t)awake_now(t) + 4 * threads[t].waiting + 8 * t + 64 * threads[t].owed + 17);
        if (threads[t].done) continue;
        if (threads[t].meets != 0) { /* what it brings, and where, its stack tells */
            h = mix(h, 2 * threads[t].calls + threads[t].is_met);
            for (uint32_t u = 0; u < MODEL_THREADS; u++) h = mix(h, threads[t].met[u]);
        }
        const uint64_t *end = (const uint64_t *)(stacks[t] + STACK_BYTES);
        for (const uint64_t *w = threads[t].sp; w < end; w++) h = mix(h + 1, *w);
    }
    return h ? h : 1;
}
static int seen_has(uint64_t h) {
    const uint64_t mask = (1ull << seen_shift) - 1;
    for (uint64_t i = h >> (64 - seen_shift); seen[i & mask]; i++)
        if (seen[i & mask] == h) return 1;
    return 0;
}
static void seen_put(uint64_t h) {
    const uint64_t mask = (1ull << seen_shift) - 1;
    uint64_t i = h >> (64 - seen_shift);
    while (seen[i & mask]) i++;
    seen[i & mask] = h;
    if (++seen_count * 2 <= mask || seen_shift == SEEN_SHIFT_MAX) return;
    uint64_t *old = seen;
    seen = calloc(2ull << seen_shift, 8);
    if (!seen) abort();
    seen_shift++;
    seen_count = 0;
    for (uint64_t j = 0; j <= mask; j++)
        if (old[j]) seen_put(old[j]);
    free(old);
}
/* Adds the state h, reached after `preempted` preemptions by a step of t. Returns whether it is new: with a bound, not
 * seen after as few preemptions and a step of the same thread. */
static int seen_add(uint64_t h, uint32_t preempted, uint32_t t, uint32_t bound) {
    if (bound)
        for (uint32_t i = 0; i < preempted; i++)
            if (seen_has(mix(h, i * 8 + t + 1) | 1)) return 0;
    if (bound) h = mix(h, preempted * 8 + t + 1) | 1;
    if (seen_has(h)) return 0;
    seen_put(h);
    return 1;
}

static uint32_t enabled(void) {
    uint32_t running = 0, awake = 0;
    int is_any = 0;
    for (uint32_t t = 0; t < thread_count; t++) {
        if (threads[t].done) continue;
        if (threads[t].is_met) return 1u << t;
        is_any = 1;
        if (!waits_for_lanes(t)) running |= 1u << t;
        if (awake_now(t)) awake |= 1u << t;
    }
    if (!is_any || awake) return awake;
    model_require(running, "stuck: a lane waits for one of its warp that does not come");
    for (uint32_t t = 0; t < thread_count; t++) {
        if (!(running >> t & 1)) continue;
        model_require(++threads[t].nudges < MODEL_NUDGES, "stuck: everybody waits");
        threads[t].waits = MODEL_WAITS - 1;
        threads[t].spin = threads[t].owed = 0;
    }
    return running;
}

/* Makes room for one more step: in the frames, the copies of stacks, the log. */
static int deep(void) { return depth + 2 > DEPTH_MAX || arena_used + STACK_BYTES > ARENA_BYTES || undo_count + UNDO_STEP > UNDO_MAX; }
/* Thread t takes one step, which can be undone by the frame at `depth`. */
static void step(uint32_t t) {
    struct frame *f = &frames[depth];
    f->ran = t;
    f->notes = 0;
    f->op.p = NULL;
    f->log_mark = undo_count;
    f->arena_mark = arena_used;
    f->hash = memory_hash;
    f->stack_bytes = (uint32_t)(stacks[t] + STACK_BYTES - (unsigned char *)threads[t].sp);
    memcpy(f->threads, threads, sizeof threads);
    memcpy(arena + arena_used, threads[t].sp, f->stack_bytes);
    arena_used += f->stack_bytes;
    resume(t);
    steps++;
}
static int all_done(void) {
    for (uint32_t t = 0; t < thread_count; t++)
        if (!threads[t].done) return 0;
    return 1;
}

/* From here all threads take turns of `quantum` steps (those that wait for others go on when these have got on): each must end after at most
 * MODEL_FAIR_STEPS steps of its own. Then restores the state. */
static void run_fairly(uint32_t quantum) {
    const uint32_t from = depth;
    uint32_t own[MODEL_THREADS] = {0};
    for (uint32_t t = 0, skipped = 0; !all_done(); t = (t + 1) % thread_count) {
        if (!threads[t].done && (threads[t].owed || waits_for_lanes(t)) && skipped++ < thread_count) continue; /* fair waits */
        model_require(threads[t].done || !waits_for_lanes(t) || skipped < 2 * thread_count, "a lane waits for one of its warp that does not come");
        if (waits_for_lanes(t)) continue;
        skipped = 0;
        for (uint32_t i = 0; i < quantum && !threads[t].done && !(threads[t].owed && i > 0) && !waits_for_lanes(t); i++) {
            model_require(++own[t] <= MODEL_FAIR_STEPS && !deep(), "%c does not come to an end by turns of %u steps", (char)('A' + t), quantum);
            step(t);
            depth++;
        }
    }
    const uint32_t log_mark = undo_count;
    const uint64_t hash = memory_hash;
    depth--; /* the last step, in case the check fails and prints */
    scenario->check();
    depth++;
    undo_writes(log_mark, hash);
    while (depth > from) undo_to(&frames[--depth]);
}

static void start(void) {
    thread_count = 0;
    undo_count = arena_used = 0;
    memory_hash = 0;
    depth = 0;
    memset(stacks, 0, sizeof stacks);
    memset(threads, 0, sizeof threads);
    scenario->setup();
    undo_count = 0;
    while (thread_count < MODEL_THREADS && scenario->thread[thread_count]) thread_count++;
    memset(&frames[0], 0, sizeof frames[0]);
    for (uint32_t t = 0; t < thread_count; t++) {
        void **sp = (void **)(stacks[t] + STACK_BYTES - 16);
        *--sp = NULL; /* keeps the stack aligned as after a call */
        *--sp = (void *)(uintptr_t)thread_body;
        threads[t].sp = sp - 6;
        resume(t); /* up to its first atomic */
    }
    frames[0].notes = 0;
}

static const char *explore(uint32_t bound, double seconds) {
    const clock_t begun = clock();
    seen_shift = 16;
    seen = calloc(1ull << seen_shift, 8);
    seen_count = steps = executions = deepest = 0;
    start();
    frames[0].todo = enabled();
    frames[0].last = MODEL_THREADS;
    const char *end = "complete";
    for (uint64_t turns = 0;;) {
        struct frame *f = &frames[depth];
        if (f->todo == 0) {
            if (depth == 0) break;
            undo_to(&frames[--depth]);
            continue;
        }
        /* the thread that ran last goes first, so that schedules with few preemptions come first */
        const uint32_t go_on = f->last < MODEL_THREADS && (f->todo >> f->last & 1);
        const uint32_t t = go_on ? f->last : (uint32_t)__builtin_ctz(f->todo);
        f->todo &= ~(1u << t);
        uint32_t preempted = f->preempted;
        const uint32_t last = threads[t].is_met ? f->last : t; /* after a warp operation: as if the step belonged to it */
        if (last == t && f->last < MODEL_THREADS && t != f->last && !threads[f->last].done && awake_now(f->last)) preempted++;
        if (bound && preempted > bound) continue;
        if (deep()) {
            end = "TOO DEEP";
            break;
        }
        step(t);
        const uint64_t h = state_hash();
        if (!seen_add(h, preempted, last, bound)) {
            undo_to(f);
            continue;
        }
        if (all_done()) {
            executions++;
            scenario->check();
            undo_to(f);
            continue;
        }
        depth++;
        if (depth > deepest) deepest = depth;
        frames[depth].todo = enabled();
        frames[depth].last = last;
        frames[depth].preempted = preempted;
        frames[depth].ran = MODEL_THREADS;
        if (h % MODEL_FAIR_EVERY == 0 || seen_count <= MODEL_FAIR_FIRST) run_fairly(1 + (uint32_t)(h / MODEL_FAIR_EVERY % 12));
        if ((++turns & 0xfff) == 0 && (double)(clock() - begun) / CLOCKS_PER_SEC > seconds) {
            end = "OUT OF TIME";
            break;
        }
    }
    free(seen);
    printf("%-34s bound %u: %9" PRIu64 " states, %9" PRIu64 " steps, %7" PRIu64 " ends, depth %4" PRIu64 ", %.1f s, %s\n", scenario->name, bound, seen_count,
           steps, executions, deepest, (double)(clock() - begun) / CLOCKS_PER_SEC, end);
    fflush(stdout);
    return end;
}

/* only: part of the name; or all of it, with = appended. */
static int chosen(const char *name, const char *only) {
    const size_t n = strlen(only);
    if (n > 0 && only[n - 1] == '=') return strlen(name) == n - 1 && strncmp(name, only, n - 1) == 0;
    return strstr(name, only) != NULL;
}

int model_main(int argc, char **argv, const struct model_scenario *all, uint32_t count) {
    const char *only = argc > 1 ? argv[1] : "";
    const double seconds = argc > 2 ? atof(argv[2]) : 60;
    const char *asked = argc > 3 ? argv[3] : "";
    const uint32_t most = (uint32_t)abs(atoi(asked));
    int incomplete = 0, found = 0;
    arena = malloc(ARENA_BYTES);
    for (uint32_t i = 0; i < count; i++) {
        if (!chosen(all[i].name, only)) continue;
        found = 1;
        scenario = &all[i];
        uint32_t bound = scenario->preemptions;
        if (!*asked) explore(1, seconds); /* few preemptions first: short schedules to read */
        else if (*asked != '-' || bound == 0 || bound > most) bound = most;
        incomplete |= strcmp(explore(bound, seconds), "complete") != 0;
    }
    if (!found) {
        fprintf(stderr, "explore: no scenario has '%s' in its name; expected one of:", only);
        for (uint32_t i = 0; i < count; i++) fprintf(stderr, " %s", all[i].name);
        fprintf(stderr, "\n");
        return 1;
    }
    return incomplete ? 2 : 0;
}
