/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases "malloc_large" and "hostlog": replay a log. cudaMalloc and cudaMallocAsync take turns. Before the timed runs, one run of each is
 * checked. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/papers/host.h"

#define LOOK_EVERY 100u /* calls between two looks at the device's free memory */
#define CHECKED "nonnull aligned disjoint stamped"

/* One sample for each call, or for each run. */
struct samples {
    double *malloc_us, *free_us, *all_ms;
    unsigned mallocs, frees, runs;
};

struct block {
    void *p; /* NULL: not allocated */
    uint64_t bytes;
};

struct replay {
    const char *name;
    struct host_log log;
    struct block *blocks; /* by id */
    struct host_ranges ranges;
    cudaStream_t stream;
    unsigned long long *damaged; /* in device memory */
    size_t free_before, taken;   /* bytes of the device: free before the first call; taken at most */
    struct samples samples[HOST_KINDS];
    struct tally t;
};

static void *host_array(const struct replay *r, size_t count, size_t bytes) {
    void *p = calloc(count, bytes);
    if (!p) child_fatal(r->name, "the host has no memory");
    return p;
}

static size_t device_free(void) {
    size_t is_free, total;
    child_must(cudaMemGetInfo(&is_free, &total));
    return is_free;
}

/* What mm's pool has of the device, live or not; 0: there is none. cudaMemGetInfo counts as free what the pool would give back. Undefined without libmm. */
extern uint64_t mm_pool_taken_v1(void) __attribute__((weak));
static size_t pool_taken(void) {
    uint64_t (*taken)(void) = mm_pool_taken_v1;
    if (!taken) *(void **)&taken = dlsym(RTLD_DEFAULT, "mm_pool_taken_v1");
    return taken ? taken() : 0;
}

/* A pool gives all that is free to the device before a request of the program fails: the case begins without what others left. */
static void empty_pool(void) {
    size_t is_free, total;
    void *p;
    if (pool_taken() == 0) return;
    child_must(cudaMemGetInfo(&is_free, &total));
    if (cudaMalloc(&p, total) == cudaSuccess) child_must(cudaFree(p));
    cudaGetLastError();
}

/* Launches the kernels once: their module takes memory before the first look. */
static void replay_open(struct replay *r, const char *name, const char *(*generate)(struct host_log *), unsigned runs) {
    memset(r, 0, sizeof *r);
    r->name = name;
    r->t = child_nothing_found();
    host_log_begin(&r->log);
    const char *wrong = generate(&r->log);
    if (wrong) child_fatal(name, wrong);
    empty_pool();
    if (host_ranges_begin(&r->ranges, r->log.most_live_blocks)) child_fatal(name, "the host has no memory");
    r->blocks = (struct block *)host_array(r, r->log.blocks, sizeof *r->blocks);
    for (int k = 0; k < HOST_KINDS; k++) {
        r->samples[k].malloc_us = (double *)host_array(r, (size_t)runs * r->log.blocks, sizeof(double));
        r->samples[k].free_us = (double *)host_array(r, (size_t)runs * r->log.blocks, sizeof(double));
        r->samples[k].all_ms = (double *)host_array(r, runs, sizeof(double));
    }
    r->stream = host_open_stream();
    r->damaged = (unsigned long long *)child_device_alloc(2 * sizeof *r->damaged); /* the second is stamped */
    child_must(cudaDeviceSynchronize());
    host_stamp_ends(r->damaged + 1, sizeof *r->damaged, host_key(0, 0), r->stream);
    host_check_ends(r->damaged + 1, sizeof *r->damaged, host_key(0, 0), r->damaged, r->stream);
    child_must(cudaStreamSynchronize(r->stream));
    r->free_before = device_free();
}

static void replay_close(struct replay *r) {
    child_must(cudaFree(r->damaged));
    child_must(cudaStreamDestroy(r->stream));
    for (int k = 0; k < HOST_KINDS; k++) {
        free(r->samples[k].malloc_us);
        free(r->samples[k].free_us);
        free(r->samples[k].all_ms);
    }
    free(r->blocks);
    host_ranges_end(&r->ranges);
    host_log_end(&r->log);
}

/* Allocates a block of the log. Returns 0 if it is NULL: the run ends. */
static int take_block(struct replay *r, const struct host_kind *k, const struct host_call *call) {
    struct block *b = &r->blocks[call->id];
    b->p = host_take(k, call->size, r->stream);
    b->bytes = call->size;
    r->t.nulls += !b->p;
    return b->p != NULL;
}

static void give_block(struct replay *r, const struct host_kind *k, unsigned id) {
    host_give(k, r->blocks[id].p, r->stream);
    r->blocks[id].p = NULL;
}

/* Frees the blocks of a run that ended early. */
static void give_rest(struct replay *r, const struct host_kind *k) {
    for (unsigned id = 0; id < r->log.blocks; id++)
        if (r->blocks[id].p) give_block(r, k, id);
    child_must(cudaStreamSynchronize(r->stream));
}

static void look(struct replay *r) {
    const size_t now = device_free(), of_pool = pool_taken(), lost = r->free_before > now ? r->free_before - now : 0, taken = of_pool ? of_pool : lost;
    if (taken > r->taken) r->taken = taken;
}

static void check_taken(struct replay *r, unsigned id, unsigned long long key) {
    const struct block *b = &r->blocks[id];
    const uint64_t begin = (uint64_t)(uintptr_t)b->p;
    r->t.corrupt += begin % HOST_ALIGNMENT != 0 || host_ranges_add(&r->ranges, begin, b->bytes, id);
    host_stamp_ends(b->p, b->bytes, key, r->stream);
}

static void check_before_free(struct replay *r, unsigned id, unsigned long long key) {
    const struct block *b = &r->blocks[id];
    host_check_ends(b->p, b->bytes, key, r->damaged, r->stream);
    host_ranges_remove(&r->ranges, (uint64_t)(uintptr_t)b->p, id);
}

/* An untimed run. Keys differ from those of the other kind, whose stamps may still be in memory. */
static void check_run(struct replay *r, unsigned kind) {
    const struct host_kind *k = &host_kinds[kind];
    unsigned long long damaged;
    for (unsigned i = 0; i < r->log.count; i++) {
        const struct host_call *call = &r->log.calls[i];
        const unsigned long long key = host_key(kind + 1, call->id);
        if (call->size && !take_block(r, k, call)) break;
        if (call->size) check_taken(r, call->id, key);
        else check_before_free(r, call->id, key), give_block(r, k, call->id);
        if (kind == HOST_PLAIN && (i % LOOK_EVERY == 0 || i == r->log.most_live_call)) look(r);
    }
    give_rest(r, k);
    child_read(&damaged, r->damaged, sizeof damaged);
    r->t.corrupt += damaged;
    child_must(cudaMemset(r->damaged, 0, sizeof *r->damaged));
    child_must(cudaDeviceSynchronize());
}

/* A timed run. The clock is read once between two calls. */
static void time_run(struct replay *r, unsigned kind) {
    const struct host_kind *k = &host_kinds[kind];
    struct samples *s = &r->samples[kind];
    const double begin = child_now_ms();
    double before = begin;
    for (unsigned i = 0; i < r->log.count; i++) {
        const struct host_call *call = &r->log.calls[i];
        if (call->size && !take_block(r, k, call)) {
            give_rest(r, k);
            return;
        }
        if (!call->size) give_block(r, k, call->id);
        const double now = child_now_ms();
        if (call->size) s->malloc_us[s->mallocs++] = (now - before) * 1e3;
        else s->free_us[s->frees++] = (now - before) * 1e3;
        before = now;
    }
    child_must(cudaStreamSynchronize(r->stream));
    s->all_ms[s->runs++] = child_now_ms() - begin;
    if (kind == HOST_PLAIN) look(r); /* a pool still has all that it took */
}

static int is_fine(const struct replay *r) { return !r->t.nulls && !r->t.corrupt; }

static void tell(struct replay *r) {
    const unsigned fine = (unsigned)is_fine(r);
    double live = (double)r->log.most_live / (1 << 20), taken = (double)r->taken / (1 << 20);
    for (int k = 0; k < HOST_KINDS; k++) {
        struct samples *s = &r->samples[k];
        child_row(host_kinds[k].malloc_op, "us", s->malloc_us, fine ? s->mallocs : 0, "-", &r->t, CHECKED);
        child_row(host_kinds[k].free_op, "us", s->free_us, fine ? s->frees : 0, "-", &r->t, CHECKED);
        child_row(host_kinds[k].all_op, "ms", s->all_ms, fine ? s->runs : 0, "-", &r->t, CHECKED);
    }
    child_row("live", "MiB", &live, 1, "-", &r->t, CHECKED);
    child_row("taken", "MiB", &taken, fine, "-", &r->t, CHECKED);
}

static void run_log(const char *name, const char *(*generate)(struct host_log *), const struct request *q) {
    const struct host_runs runs = host_runs_begin(q);
    struct replay r;
    replay_open(&r, name, generate, runs.most);
    for (unsigned k = 0; k < HOST_KINDS && is_fine(&r); k++) check_run(&r, k);
    for (unsigned run = 0; host_runs_start(&runs, run, &r.t); run++)
        for (unsigned k = 0; k < HOST_KINDS && is_fine(&r); k++) time_run(&r, k);
    tell(&r);
    replay_close(&r);
}

void run_malloc_large(const struct request *q) { run_log("malloc_large", host_log_large, q); }
void run_hostlog(const struct request *q) { run_log("hostlog", host_log_training, q); }
