/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Threads that use one heap in several ways; see world.h for what is checked. Heaps are small, so that
 * memory runs out, blocks and segments retire and change their class all the time. Each phase runs in rounds over the
 * same heap. After each the heap is checked as it is; after some everything is freed, and must be free again. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/runner.h"
#include "tests/stress/world.h"

#define ROUNDS 16 /* of a phase */
#define ROUNDS_TO_EMPTY 4
#define SOME_BYTES (1ull << 16) /* far less than a segment */

struct plan {
    const char *name;
    void (*body)(struct worker *);
    uint32_t threads, segments, percent;
    uint32_t slots;            /* of a thread */
    uint32_t large_in;         /* one request in so many is log-uniform up to 4 MiB, the others up to 4 KiB; 0: none */
    uint32_t run_in, run_most; /* one in so many is a run of up to run_most segments */
    uint32_t live_percent;     /* of the heap's bytes */
    int null_is_wrong;
};

/* Sizes least << 0..doublings-1, plus a fraction of that. */
static uint64_t log_uniform(struct worker *me, uint64_t least, uint32_t doublings) {
    const uint64_t half = least << world_random(me) % doublings;
    return half + world_random(me) % half;
}

static void *get(struct worker *me) {
    const struct plan *is = (const struct plan *)me->plan;
    const uint64_t r = world_random(me);
    uint64_t bytes = log_uniform(me, 16, 8), align = 0;
    if (is->large_in && r % is->large_in == 0) bytes = log_uniform(me, 16, is->null_is_wrong ? 16 : 18);
    if (is->run_in && (r >> 16) % is->run_in == 0) bytes = MM_SEGMENT_BYTES * (1 + world_random(me) % is->run_most) - world_random(me) % SOME_BYTES;
    if ((r >> 32) % 16 == 0) align = 1ull << world_random(me) % ((r >> 40) % 16 ? 12 : 23);
    if (is->null_is_wrong && align > SOME_BYTES) align = 0;
    void *p = world_malloc(me, bytes, align);
    if (p == NULL && is->null_is_wrong) world_bad(me->w, "NULL while there is memory");
    return p;
}

/* Keeps its allocations to itself: only the allocator orders one owner's use of memory before the next one's. */
static void burst(struct worker *me) {
    static const uint64_t bytes[] = {16, 1 << 20, 48, 4096, 65536, 256, MM_SEGMENT_BYTES, 1 << 18, 1000, 24576, 2 << 20, 3 << 20, 32, 128, 80, 9 << 20};
    const struct plan *is = (const struct plan *)me->plan;
    void **mine = me->mine;
    for (uint32_t i = 0; i < is->slots; i++) world_free(me, mine[i]), mine[i] = NULL;
    for (;; me->bursts++) { /* the threads progress alike, so sizes agree */
        uint32_t n = 0;
        while (n < is->slots && (mine[n] = world_malloc(me, bytes[me->bursts % 16], 0)) != NULL) n++;
        if (me->ops >= me->ops_most) break;
        const uint32_t step = 1 + 2 * (uint32_t)(world_random(me) % 8);
        for (uint32_t i = 0, at = 0; i < n; i++, at = (at + step) % n) { /* a step that does not divide n visits all */
            while (mine[at] == NULL) at = (at + 1) % n;
            world_free(me, mine[at]), mine[at] = NULL;
        }
    }
}

/* Random lifetimes, up to live_percent of the heap; one allocation in eight is freed by another thread. */
static void lives(struct worker *me) {
    const struct plan *is = (const struct plan *)me->plan;
    const uint64_t most = me->w->bytes / 100 * is->live_percent;
    uint64_t looked = 0; /* checks without a call, when others hold all memory */
    while (me->ops < me->ops_most && looked < me->ops_most) {
        const uint64_t r = world_random(me);
        const int full = world_live(me->w) >= most;
        void **at = &me->mine[r % is->slots];
        for (uint32_t i = 0; full && *at == NULL && i < is->slots; i++) at = &me->mine[(r + i) % is->slots];
        if (*at != NULL) {
            if ((r >> 32) % 8 != 0 || !world_put(me->w, (uint32_t)(r >> 40), *at)) world_free(me, *at);
            *at = NULL;
            if ((r >> 35) % 8 == 0) world_free(me, world_take(me->w, (uint32_t)(r >> 48)));
        }
        if (!full) *at = get(me);
        else looked++;
    }
}

/* One half allocates, the other frees. The boxes order the allocating thread before the freeing one; in the other direction only
 * the allocator does. */
static void pipe_line(struct worker *me) {
    uint32_t idle = 0;
    while (me->ops < me->ops_most && idle < 1u << 16) {
        const uint32_t i = (uint32_t)world_random(me);
        if (me->index % 2 == 0) {
            void *p = get(me);
            if (p != NULL && !world_put(me->w, i, p)) world_free(me, p);
        } else {
            void *p = world_take(me->w, i);
            idle = p ? 0 : idle + 1; /* the allocating threads have ended */
            world_free(me, p);
        }
    }
}

/* Few allocations are live at any time, and only briefly: a thread's own, or passed on. */
static void churn(struct worker *me) {
    const struct plan *is = (const struct plan *)me->plan;
    while (me->ops < me->ops_most) {
        void **at = &me->mine[world_random(me) % is->slots];
        world_free(me, *at);
        *at = get(me);
    }
}

/* Everything goes through the boxes: nearly all is freed by another thread than the one that allocated it. */
static void hand_over(struct worker *me) {
    while (me->ops < me->ops_most) {
        const uint64_t r = world_random(me);
        world_free(me, world_take(me->w, (uint32_t)(r >> 8)));
        if (r % 4 == 0) continue;
        void *p = get(me);
        if (p != NULL && !world_put(me->w, (uint32_t)(r >> 24), p)) world_free(me, p);
    }
}

static const struct plan plan[] = {
    /* name, body, threads, segments, percent, slots, large_in, run_in, run_most, live_percent, null_is_wrong */
    {"bursts of one size", burst, 8, 16, 18, 512, 0, 0, 0, 0, 0},
    {"bursts that hardly fit", burst, 8, 12, 6, 64, 0, 0, 0, 0, 0},
    {"random lifetimes, 75 % live", lives, 8, 48, 18, 1024, 16, 512, 4, 75, 0},
    {"random lifetimes, a larger heap", lives, 8, 256, 8, 1024, 16, 256, 16, 20, 0},
    {"one half gets, the other frees", pipe_line, 8, 24, 11, 0, 64, 512, 3, 0, 0},
    /* a live allocation, and the one a thread is working on, hold at most a segment each */
    {"churn, never short", churn, 8, 64, 16, 2, 16, 0, 0, 0, 1},
    {"churn of large ones and runs", churn, 16, 16, 1, 3, 1, 4, 5, 0, 0},
    {"churn, everything", churn, 16, 16, 4, 16, 16, 256, 6, 0, 0},
    {"handed over", hand_over, 8, 16, 9, 0, 32, 256, 4, 0, 0},
};
#define PLANS ((int)(sizeof plan / sizeof *plan))

START_TEST(lives_off) {
    static struct world w;
    const struct plan *is = &plan[_i];
    struct timespec from, to;
    timespec_get(&from, TIME_UTC);
    world_create(&w, is->segments, 0);
    for (int round = 1; round <= ROUNDS; round++) {
        world_run(&w, is->threads, world_ops(is->percent) / ROUNDS, is->body, is);
        if (round % ROUNDS_TO_EMPTY == 0) world_free_all(&w), world_must_be_empty(&w);
        world_holds(world_misuses(&w) == 0, "%s: a good free was counted as misuse", is->name);
    }
    world_holds(w.served >= world_ops(is->percent) / 64, "%s: only %llu served", is->name, (unsigned long long)w.served);
    world_holds(!is->null_is_wrong || w.nulls == 0, "%s: NULLs", is->name);
    timespec_get(&to, TIME_UTC);
    printf("%-34s %9llu calls %9llu NULL %6.1f s\n", is->name, (unsigned long long)w.calls, (unsigned long long)w.nulls,
           (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
    fflush(stdout);
    world_destroy(&w);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lives");
    TCase *one = tcase_create("lives");
    tcase_set_timeout(one, 900); /* for one phase, under ThreadSanitizer, on a busy machine */
    tcase_add_loop_test(one, lives_off, 0, PLANS);
    suite_add_tcase(suite, one);
    return suite_run(suite);
}
