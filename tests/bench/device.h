/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Stand-ins for the tests of mmbench's cases: device memory is host memory, the child's answers are collected, and the allocator is malloc, counted,
 * which can fail or return the same memory again. Include it after tests/bench/cta.h.
 */
#ifndef MM_BENCH_DEVICE_H
#define MM_BENCH_DEVICE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/counted.h"
#include "tools/mmbench/child/child.h"

/* ---- the allocator ------------------------------------------------------------------------------ */

/* device_shares: all calls return the same memory. Neither this nor a NULL happens while device_is_floor is set: a floor has no faults. */
static int device_shares, device_is_floor;

static inline void *device_malloc(size_t bytes) {
    static _Alignas(16) char shared[1 << 16];
    if (!device_is_floor) {
        void *p = counted_malloc(bytes);
        if (p == NULL || !device_shares) return p;
        counted_free(p);
        return shared;
    }
    return malloc(bytes);
}

static inline void device_free(void *p) {
    if (device_is_floor) free(p);
    else if (!device_shares) counted_free(p);
}

/* ---- the child ---------------------------------------------------------------------------------- */

double child_seconds = 60;
unsigned long long child_heap_bytes = 1 << 20;
static char device_rows[8192], device_fatal[256];
static double device_ms;

static inline void device_reset(void) {
    live = calls = null_every = 0;
    device_shares = device_is_floor = 0;
    device_rows[0] = device_fatal[0] = '\0';
}

struct tally child_nothing_found(void) {
    struct tally t;
    memset(&t, 0, sizeof t);
    t.lowest = ~0ull;
    return t;
}
void child_fatal(const char *what, const char *why) { ck_abort_msg("%s: %s", what, why); }
void child_must(cudaError_t error) { ck_assert_int_eq(error, cudaSuccess); }
void child_start_device(void) {}
void child_restart_device(void) {}
void *child_device_alloc(size_t bytes) { return calloc(1, bytes); }
void *child_copied(const void *from, size_t bytes) { return memcpy(calloc(1, bytes), from, bytes); }
void child_read(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
double child_now_ms(void) { return device_ms += 1; }
void child_time_begin(void) {}
double child_time_end_ms(void) { return 1; }
unsigned child_runs_for(double ms, unsigned runs) { return (void)ms, runs; }
double child_median(double *samples, unsigned count) { return samples[count / 2]; }
/* As the child's, without the numbers: "OP UNIT RUNS FLOOR NULLS CORRUPT", a line each. */
void child_row_of(const char *op, const char *unit, const double *n, unsigned runs, const char *floor, const struct tally *t, const char *checked) {
    const size_t at = strlen(device_rows);
    (void)n, (void)checked;
    snprintf(device_rows + at, sizeof device_rows - at, "%s %s %u %s %llu %llu\n", op, unit, runs, floor, t->nulls, t->corrupt);
}
void child_row(const char *op, const char *unit, double *samples, unsigned runs, const char *floor, const struct tally *t, const char *checked) {
    child_row_of(op, unit, samples, runs, floor, t, checked);
}

/* ---- the driver --------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **p, size_t bytes) { return *p = calloc(1, bytes ? bytes : 1), cudaSuccess; }
cudaError_t cudaFree(void *p) { return free(p), cudaSuccess; }
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) { return (void)kind, memcpy(to, from, bytes), cudaSuccess; }
cudaError_t cudaMemset(void *to, int value, size_t bytes) { return memset(to, value, bytes), cudaSuccess; }
cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaDeviceReset(void) { return cudaSuccess; }

#endif
