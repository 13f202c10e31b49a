/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The case "multistream": threads with a stream each. Each round allocates a block, launches a kernel that stamps it and spins, launches one that
 * checks the stamp, and frees the block. Rounds of one thread are compared with rounds of all threads: if an allocator serialises the streams,
 * a round of n threads takes n times as long.
 *
 * The host frees a block while kernels use it. Both ways of freeing allow that: cudaFreeAsync by the order of the stream, cudaFree because it
 * synchronises all streams (CUDA C++ Programming Guide, "Stream Ordered Memory Allocator"). An allocator that hands the block out too early lets
 * another stream overwrite the stamp.
 */
#define _GNU_SOURCE /* pthread_barrier_t */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/papers/host.h"

#define STREAMS_MAX 64u
#define ROUNDS 200u    /* of each thread in a run: some 20 ms, so that the start of threads does not count */
#define SPIN_NS 50000u /* longer than cudaMalloc: shows a call that waits for a kernel */
#define CHECKED "nonnull stamped"

enum { ONE, MANY, OVER, OPS };

struct worker {
    pthread_t thread;
    pthread_barrier_t *start;
    const struct host_kind *kind;
    unsigned long long words; /* of a block */
    unsigned team;            /* the number of the run_team: keys differ */
    unsigned number;
    cudaStream_t stream;
    unsigned long long *intact; /* in device memory: words that held their stamp */
    unsigned rounds;            /* done */
    int is_null;                /* the next one got NULL */
    double begin_ms, end_ms;
};

static void *work(void *of) {
    struct worker *w = (struct worker *)of;
    pthread_barrier_wait(w->start);
    w->begin_ms = child_now_ms();
    for (w->rounds = 0; w->rounds < ROUNDS; w->rounds++) {
        const unsigned long long key = host_key(w->team * STREAMS_MAX + w->number, w->rounds);
        void *p = host_take(w->kind, w->words * sizeof(unsigned long long), w->stream);
        w->is_null = !p;
        if (!p) break;
        host_stamp_all(p, w->words, key, SPIN_NS, w->stream);
        host_check_all(p, w->words, key, w->intact, w->stream);
        host_give(w->kind, p, w->stream);
    }
    child_must(cudaStreamSynchronize(w->stream));
    w->end_ms = child_now_ms();
    return NULL;
}

/* Adds what is wrong with a worker's rounds. Words that are not intact belong to as few blocks as possible. */
static void check(const struct worker *w, struct tally *t) {
    const unsigned long long expected = w->rounds * w->words;
    unsigned long long intact;
    child_read(&intact, w->intact, sizeof intact);
    t->nulls += (unsigned)w->is_null;
    if (intact < expected) t->corrupt += (expected - intact + w->words - 1) / w->words;
    if (intact > expected) t->corrupt++;
}

/* Runs the first n workers at once. Returns microseconds per round. */
static double run_team(struct worker *workers, unsigned n, const struct host_kind *kind, struct tally *t) {
    static unsigned teams;
    pthread_barrier_t start;
    double begin = 0, end = 0;
    if (pthread_barrier_init(&start, NULL, n)) child_fatal("multistream", "the host has no barrier");
    for (unsigned i = 0; i < n; i++) {
        workers[i].start = &start, workers[i].kind = kind, workers[i].team = teams;
        child_must(cudaMemset(workers[i].intact, 0, sizeof *workers[i].intact));
    }
    child_must(cudaDeviceSynchronize());
    for (unsigned i = 0; i < n; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) child_fatal("multistream", "the host has no thread");
    for (unsigned i = 0; i < n; i++) pthread_join(workers[i].thread, NULL);
    for (unsigned i = 0; i < n; i++) {
        check(&workers[i], t);
        if (i == 0 || workers[i].begin_ms < begin) begin = workers[i].begin_ms;
        if (i == 0 || workers[i].end_ms > end) end = workers[i].end_ms;
    }
    pthread_barrier_destroy(&start);
    teams++;
    return (end - begin) * 1e3 / ROUNDS;
}

static void open_workers(struct worker *workers, const struct request *q) {
    memset(workers, 0, q->threads * sizeof *workers);
    for (unsigned i = 0; i < q->threads; i++) {
        workers[i].words = q->size / sizeof(unsigned long long);
        workers[i].number = i;
        workers[i].stream = host_open_stream();
        workers[i].intact = (unsigned long long *)child_device_alloc(sizeof *workers[i].intact);
    }
}

static void close_workers(struct worker *workers, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        child_must(cudaFree(workers[i].intact));
        child_must(cudaStreamDestroy(workers[i].stream));
    }
}

void run_multistream(const struct request *q) {
    static double samples[HOST_KINDS][OPS][CHILD_RUNS_MAX];
    struct worker workers[STREAMS_MAX];
    struct tally t = child_nothing_found();
    const struct host_runs runs = host_runs_begin(q);
    unsigned done = 0;
    if (q->threads < 1 || q->threads > STREAMS_MAX) child_fatal("multistream", "expected 1 to 64 streams");
    if (q->size == 0 || q->size % sizeof(unsigned long long)) child_fatal("multistream", "expected blocks of a multiple of 8 bytes");
    open_workers(workers, q);
    for (unsigned k = 0; k < HOST_KINDS; k++) run_team(workers, q->threads, &host_kinds[k], &t); /* the warm-up */
    for (; host_runs_start(&runs, done, &t); done++)
        for (unsigned k = 0; k < HOST_KINDS; k++) {
            const double one = run_team(workers, 1, &host_kinds[k], &t), many = run_team(workers, q->threads, &host_kinds[k], &t);
            samples[k][ONE][done] = one;
            samples[k][MANY][done] = many;
            samples[k][OVER][done] = many / one;
        }
    close_workers(workers, q->threads);
    if (t.nulls || t.corrupt) done = 0;
    for (unsigned k = 0; k < HOST_KINDS; k++) {
        child_row(host_kinds[k].one_op, "us", samples[k][ONE], done, "-", &t, CHECKED);
        child_row(host_kinds[k].many_op, "us", samples[k][MANY], done, "-", &t, CHECKED);
        child_row(host_kinds[k].over_op, "ratio", samples[k][OVER], done, "-", &t, CHECKED);
    }
}
