/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "explore.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "explore_seen.h"
#include "explore_threads.h"

#define UNDO_STEP 4096 /* most words written in one step */
#define ARENA_BYTES (256u << 20)

const struct model_scenario *scenario;
struct frame frames[DEPTH_MAX];
uint32_t depth;
static unsigned char *arena; /* copies of stacks, one after the other */
static uint32_t arena_used;
static uint64_t steps, executions, deepest;

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

static void undo_to(struct frame *f) {
    undo_writes(f->log_mark, f->hash);
    memcpy(threads, f->threads, sizeof threads);
    memcpy(stacks[f->ran] + STACK_BYTES - f->stack_bytes, arena + f->arena_mark, f->stack_bytes);
    arena_used = f->arena_mark;
}

static uint64_t state_hash(void) {
    uint64_t h = memory_hash;
    for (uint32_t t = 0; t < thread_count; t++) {
        h = mix(h, threads[t].done + 2 * (uint32_t)thread_is_awake(t) + 4 * threads[t].waiting + 8 * t + 64 * threads[t].owed + 17);
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

static uint32_t enabled(void) {
    uint32_t running = 0, awake = 0;
    int is_any = 0;
    for (uint32_t t = 0; t < thread_count; t++) {
        if (threads[t].done) continue;
        if (threads[t].is_met) return 1u << t;
        is_any = 1;
        if (!thread_waits_for_lanes(t)) running |= 1u << t;
        if (thread_is_awake(t)) awake |= 1u << t;
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
    thread_resume(t);
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
        if (!threads[t].done && (threads[t].owed || thread_waits_for_lanes(t)) && skipped++ < thread_count) continue; /* fair waits */
        model_require(threads[t].done || !thread_waits_for_lanes(t) || skipped < 2 * thread_count, "a lane waits for one of its warp that does not come");
        if (thread_waits_for_lanes(t)) continue;
        skipped = 0;
        for (uint32_t i = 0; i < quantum && !threads[t].done && !(threads[t].owed && i > 0) && !thread_waits_for_lanes(t); i++) {
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
        thread_make(t);
        thread_resume(t); /* up to its first atomic */
    }
    frames[0].notes = 0;
}

static const char *explore(uint32_t bound, double seconds) {
    const clock_t begun = clock();
    seen_start();
    steps = executions = deepest = 0;
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
        if (last == t && f->last < MODEL_THREADS && t != f->last && !threads[f->last].done && thread_is_awake(f->last)) preempted++;
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
    seen_end();
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
