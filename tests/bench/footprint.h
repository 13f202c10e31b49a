/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* For suites of mmbench's memory accounts without a GPU, each of which includes it once: kernels are loops, device memory is host memory, and the allocator is
 * a stand-in whose account the test sets. With -DNO_ACCOUNT it stands for CUDA's allocator, where only the device's free memory is known.
 */
#ifndef TESTS_BENCH_FOOTPRINT_H
#define TESTS_BENCH_FOOTPRINT_H

#include <check.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "include/mm.h"
#include "tests/runner.h"
#include "tools/mmbench/child/account.h"
#include "tools/mmbench/child/child.h"
#include "tools/mmbench/child/replay.h"
#include "tools/mmbench/protocol.h"

#define MIB (1ull << 20)
#define DEVICE (64ull << 30)
#define OVERHEAD (2 * MIB) /* lost by the device, but unknown to the account */
#define LOCAL (90 * MIB)   /* taken once, by the first kernel with an assertion */
#define METADATA (8 * MIB)
#define PINNED_BYTES (4096 * 1024)

/* live: bytes requested; heap: bytes mapped for them. If `keeps` is set, the heap does not shrink before it is idle. */
static unsigned long long live, live_most, heap, heap_most, calls;
static unsigned long long stack, local,
    unlost; /* local memory that the first kernel that allocates takes; that was taken; less was lost than the account has */
static int asserted, growths, keeps, slept, is_null, breaks, lies, spikes;
static char rows[4096], fatal[256];
static jmp_buf on_fatal;

static void set_heap(unsigned long long bytes) {
    if (heap < bytes) growths++, heap = bytes;
    if (!keeps) heap = bytes;
    if (heap > heap_most) heap_most = heap;
}

static inline void *take(unsigned long long bytes) {
    unsigned long long *p = (unsigned long long *)malloc(2 * sizeof *p);
    calls++;
    asserted = 1; /* as the kernels of CUDA's allocator do */
    if (is_null && live + bytes > 2 * MIB) return free(p), (void *)0;
    p[0] = bytes, p[1] = 0;
    live += bytes;
    if (live > live_most) live_most = live;
    set_heap(2 * live);
    return p;
}

/* A kernel that allocates was launched. */
static void launched(void) { local = stack; }

static void give(void *pointer) {
    unsigned long long *p = (unsigned long long *)pointer;
    if (!p) return;
    live -= p[0];
    set_heap(2 * live);
    free(p);
}

/* ---- stand-ins for the child's functions ---- */

double child_seconds = 60;
unsigned long long child_heap_bytes;
struct tally child_nothing_found(void) {
    struct tally t;
    memset(&t, 0, sizeof t);
    t.lowest = ~0ull;
    return t;
}
void child_fatal(const char *what, const char *why) {
    snprintf(fatal, sizeof fatal, "%s: %s", what, why);
    longjmp(on_fatal, 1);
}
void child_must(cudaError_t error) { ck_assert_int_eq(error, cudaSuccess); }
void *child_device_alloc(size_t bytes) { return calloc(1, bytes); }
void child_read(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
static double now_ms;
double child_now_ms(void) { return now_ms += 1; }
void child_row_of(const char *op, const char *unit, const double *n, unsigned runs, const char *floor, const struct tally *t, const char *checked) {
    const size_t at = strlen(rows);
    snprintf(rows + at, sizeof rows - at, "%s %s %.6g %.6g %.6g %u %s %llu %llu %s\n", op, unit, n[0], n[1], n[2], runs, floor, t->nulls, t->corrupt, checked);
}
void child_row(const char *op, const char *unit, double *samples, unsigned runs, const char *floor, const struct tally *t, const char *checked) {
    ck_assert_uint_le(runs, 1);
    child_row_of(op, unit, (const double[]){samples[0], samples[0], samples[0]}, runs, floor, t, checked);
}

/* ---- stand-ins for the driver's functions ---- */

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) { return (void)kind, memcpy(to, from, bytes), cudaSuccess; }
cudaError_t cudaMemset(void *to, int value, size_t bytes) { return memset(to, value, bytes), cudaSuccess; }
cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
cudaError_t cudaFree(void *p) { return free(p), cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t *is_free, size_t *total) {
    *total = DEVICE;
    *is_free = DEVICE - (asserted ? LOCAL : 0) - (calls ? heap + METADATA + OVERHEAD : 0) - (lies ? ACCOUNT_SLACK_BYTES + MIB : 0) - local + unlost;
    return cudaSuccess;
}
#define PROCESSORS 132
#define THREADS_EACH 2048
#define STACK_LIMIT 1024
cudaError_t cudaGetDevice(int *device) { return *device = 3, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    ck_assert_int_eq(device, 3);
    ck_assert(attribute == cudaDevAttrMultiProcessorCount || attribute == cudaDevAttrMaxThreadsPerMultiProcessor);
    *value = attribute == cudaDevAttrMultiProcessorCount ? PROCESSORS : THREADS_EACH;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit) {
    ck_assert_int_eq(limit, cudaLimitStackSize);
    return *value = STACK_LIMIT, cudaSuccess;
}
int nanosleep(const struct timespec *t, struct timespec *rest) {
    (void)rest;
    slept += (int)t->tv_sec;
    if (slept >= 10 && live == 0) heap = 0; /* like a heap that returns memory after it was idle for long enough */
    return 0;
}
#ifndef NO_ACCOUNT
int mm_get_statistics(struct mm_statistics *s) {
    ck_assert_uint_eq(s->struct_bytes, sizeof *s);
    if (!calls) return MM_ERROR_NO_HEAP;
    s->heap_bytes = heap, s->metadata_bytes = METADATA;
    return MM_OK;
}
int mm_get_usage(struct mm_usage_statistics *u) {
    ck_assert_uint_eq(u->struct_bytes, sizeof *u);
    if (!calls) return MM_ERROR_NO_HEAP;
    u->peak_heap_bytes = heap_most, u->growth_count = (unsigned long long)growths;
    return MM_OK;
}
#endif

/* ---- kernels ---- */

void plain_assert(const unsigned *r, const struct asks *a, unsigned round) {
    for (unsigned i = 0; i < a->count; i++) ck_assert_uint_le(r[i], round);
    asserted = 1;
}
void plain_fill(void **pointers, const struct asks *a, const unsigned *r, int only_round, int first_word_only) {
    ck_assert(!first_word_only);
    for (unsigned i = 0; i < a->count; i++)
        if (pointers[i] && (only_round < 0 || r[i] == (unsigned)only_round)) ((unsigned long long *)pointers[i])[1] = ~(unsigned long long)i;
    if (breaks && calls >= (unsigned long long)breaks && pointers[a->count - 1]) ((unsigned long long *)pointers[a->count - 1])[1] = 0;
}
void plain_check(void **pointers, const struct asks *a, const unsigned *r, int first_word_only, struct tally *t) {
    (void)r;
    ck_assert(!first_word_only);
    for (unsigned i = 0; i < a->count; i++) {
        const unsigned long long *p = (const unsigned long long *)pointers[i];
        t->nulls += !p;
        t->corrupt += p && p[1] != ~(unsigned long long)i;
    }
}
void plain_bounds(void **pointers, const struct asks *a, const unsigned *r, struct tally *t) {
    for (unsigned i = 0; i < a->count; i++) {
        t->nulls += !pointers[i];
        if (pointers[i]) t->bytes += ask_bytes(a, i, r[i]);
    }
}
void alloc_malloc(void **pointers, const struct asks *a) {
    launched();
    for (unsigned i = 0; i < a->count; i++) pointers[i] = take(ask_bytes(a, i, 0));
}
void alloc_free(void **pointers, const struct asks *a) {
    for (unsigned i = 0; i < a->count; i++) give(pointers[i]);
}
void alloc_free_most(void **pointers, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (!pinned_stays(i)) give(pointers[i]), pointers[i] = NULL;
}
void alloc_free_half(void **pointers, unsigned *r, unsigned count, unsigned round) {
    launched();
    for (unsigned i = 0; i < count; i++)
        if (round == 0 || i % 2 == round % 2) give(pointers[i]), pointers[i] = NULL, r[i] = round;
}
void alloc_malloc_half(void **pointers, const unsigned *r, const struct asks *a, unsigned round, struct tally *t) {
    (void)t;
    launched();
    for (unsigned i = 0; i < a->count; i++)
        if (r[i] == round) pointers[i] = take(ask_bytes(a, i, round));
    if (spikes && heap_most < 3 * live) heap_most = 3 * live; /* a peak during the kernel */
}
/* Cycles: 1,000 of malloc and 100 of free, plus the thread's number; 10 times as many in the first kernel, during which the heap grows. */

static unsigned latency_kernels, latency_growing;
void alloc_latency(const struct asks *a, unsigned first, unsigned pairs, unsigned *malloc_cycles, unsigned *free_cycles, struct tally *t) {
    const unsigned factor = ++latency_kernels < latency_growing ? 10 : 1;
    ck_assert_uint_eq(pairs == 0, a->count == 0);
    if (latency_kernels > 1) ck_assert_uint_eq(first, (latency_kernels - 2) * pairs);
    calls++;
    if (a->count && factor != 1) growths++;
    for (unsigned i = 0; i < a->count * pairs; i++) malloc_cycles[i] = factor * (1000 + i % a->count), free_cycles[i] = factor * (100 + i % a->count);
    if (is_null && a->count) t->nulls = 5;
}

/* A step of a replay: so many launches; of them without a call. */
static unsigned steps, no_calls;
void replay_step_run(const struct replay_op *ops, const unsigned *begins, struct replay_step step, void **pointers, struct replay_tally *t) {
    (void)t;
    launched();
    steps++;
    no_calls += begins[step.first_warp] == begins[step.first_warp + step.warps];
    if (begins[step.first_warp] == begins[step.first_warp + step.warps]) ck_assert_uint_eq(step.warps, 3); /* as many as the widest step has */
    for (unsigned i = begins[step.first_warp]; i < begins[step.first_warp + step.warps]; i++)
        if (ops[i].kind == TRACE_MALLOC) pointers[ops[i].number] = take(ops[i].bytes);
        else give(pointers[ops[i].number]), pointers[ops[i].number] = NULL;
}
void replay_free_rest(void **pointers, unsigned count) {
    launched();
    for (unsigned i = 0; i < count; i++) give(pointers[i]), pointers[i] = NULL;
}
void *child_copied(const void *from, size_t bytes) { return memcpy(child_device_alloc(bytes + 1), from, bytes); }
void child_time_begin(void) {}
double child_time_end_ms(void) { return 1; }
unsigned child_runs_for(double ms, unsigned runs) { return (void)ms, runs; }
double child_median(double *samples, unsigned count) { return (void)count, samples[0]; }

/* ---- for tests ---- */

static inline void begin(void) {
    live = live_most = heap = heap_most = calls = 0;
    asserted = growths = keeps = slept = is_null = breaks = lies = spikes = 0;
    stack = local = unlost = 0;
    steps = no_calls = 0;
    latency_kernels = 0, latency_growing = 3;
    now_ms = 0, child_seconds = 60;
    rows[0] = fatal[0] = '\0';
}

static inline void run_request(void (*what)(const struct request *), unsigned long long size, unsigned threads, unsigned runs, int cold) {
    struct request q;
    memset(&q, 0, sizeof q);
    q.size = size, q.threads = threads, q.runs = runs, q.cold = cold;
    if (setjmp(on_fatal) == 0) what(&q);
}
static inline void run(void (*what)(const struct request *), unsigned long long size, unsigned threads, unsigned runs) {
    run_request(what, size, threads, runs, 0);
}

/* The number of a row, in MiB; fails if there is no such row, or if its counts of NULLs and corruption differ. */
static inline double row(const char *op, unsigned long long nulls, unsigned long long corrupt) {
    char key[64], *at = rows;
    double value;
    unsigned long long n, c;
    snprintf(key, sizeof key, "%s ", op);
    while (at && strncmp(at, key, strlen(key)) != 0) at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    ck_assert_msg(at && *at, "no row %s in:\n%s%s", op, rows, fatal);
    ck_assert_int_eq(sscanf(at, "%*s %*s %lf %*s %*s %*s %*s %llu %llu", &value, &n, &c), 3);
    ck_assert_uint_eq(n, nulls);
    ck_assert_uint_eq(c, corrupt);
    return value;
}

static inline void about(double got, double wanted) { ck_assert_msg(got > wanted - .01 && got < wanted + .01, "%g; expected %g\n%s", got, wanted, rows); }

#ifdef NO_ACCOUNT
#define ACCOUNTED OVERHEAD /* only the device's loss is known */
#else
#define ACCOUNTED 0
#endif

#endif
