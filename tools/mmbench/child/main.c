/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The child: reads requests, runs them, answers. Any CUDA error ends it with one line, and mmbench starts another child.
 * The allocator's name in the build is not trusted: "identify" finds out which allocator runs.
 */
#define _GNU_SOURCE /* clock_gettime */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/mmbench/child/account.h"
#include "tools/mmbench/child/child.h"
#include "tools/mmbench/child/papers/bursts.h"
#include "tools/mmbench/child/papers/halves.h"
#include "tools/mmbench/child/papers/host.h"
#include "tools/mmbench/child/papers/join.h"
#include "tools/mmbench/child/papers/kdtree.h"
#include "tools/mmbench/child/papers/probes.h"
#include "tools/mmbench/child/papers/ranks.h"
#include "tools/mmbench/child/papers/registers.h"
#include "tools/mmbench/child/papers/words.h"
#include "tools/mmbench/child/replay.h"
#include "tools/mmbench/protocol.h"

unsigned long long child_heap_bytes;
double child_seconds;

static cudaEvent_t begin_event, end_event;

void child_fatal(const char *what, const char *why) {
    printf("@fatal %s%s%s\n", what, *why ? ": " : "", why);
    fflush(stdout);
    _Exit(1); /* the context may be broken: no clean-up */
}

void child_must(cudaError_t error) {
    if (error != cudaSuccess) child_fatal("CUDA", cudaGetErrorString(error));
}

double child_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void child_start_device(void) {
    child_must(cudaSetDevice(0));
    /* mm takes its heap size from MM_HEAP_SIZE, and may refuse this one. */
    if (child_heap_bytes && cudaDeviceSetLimit(cudaLimitMallocHeapSize, child_heap_bytes) != cudaSuccess) cudaGetLastError();
    child_must(cudaEventCreate(&begin_event));
    child_must(cudaEventCreate(&end_event));
}

void child_restart_device(void) {
    child_must(cudaDeviceReset());
    child_start_device();
    alloc_empty();
    child_must(cudaDeviceSynchronize());
}

void *child_device_alloc(size_t bytes) {
    void *p;
    child_must(cudaMalloc(&p, bytes));
    child_must(cudaMemset(p, 0, bytes));
    return p;
}

void *child_copied(const void *from, size_t bytes) {
    void *to = child_device_alloc(bytes);
    child_must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    return to;
}

void child_read(void *to, const void *from, size_t bytes) {
    child_must(cudaGetLastError());
    child_must(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

void child_time_begin(void) { child_must(cudaEventRecord(begin_event, 0)); }

double child_time_end_ms(void) {
    float ms;
    child_must(cudaGetLastError());
    child_must(cudaEventRecord(end_event, 0));
    child_must(cudaEventSynchronize(end_event));
    child_must(cudaEventElapsedTime(&ms, begin_event, end_event));
    return ms;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double child_median(double *samples, unsigned count) {
    qsort(samples, count, sizeof *samples, compare);
    return (samples[(count - 1) / 2] + samples[count / 2]) / 2;
}

static int is_time(const char *unit) { return !strcmp(unit, "us") || !strcmp(unit, "ms") || !strcmp(unit, "cycles"); }

void child_row_of(const char *op, const char *unit, const double *median_least_most, unsigned runs, const char *floor, const struct tally *t,
                  const char *checked) {
    const char *status = t->corrupt ? "corrupt" : t->nulls ? "null" : "ok";
    const int told = runs != 0 && (!strcmp(status, "ok") || !is_time(unit));
    printf("@row %s %s ", op, unit);
    if (told) printf("%.6g %.6g %.6g %u", median_least_most[0], median_least_most[1], median_least_most[2], runs);
    else printf("- - - 0");
    printf(" %s %llu %llu %s %s\n", floor, t->nulls, t->corrupt, status, checked);
    fflush(stdout);
}

void child_row(const char *op, const char *unit, double *samples, unsigned runs, const char *floor, const struct tally *t, const char *checked) {
    double numbers[3] = {0, 0, 0};
    if (runs != 0) {
        numbers[0] = child_median(samples, runs);
        numbers[1] = samples[0];
        numbers[2] = samples[runs - 1];
    }
    child_row_of(op, unit, numbers, runs, floor, t, checked);
}

void child_floor(const char *name, const char *unit, double *samples, unsigned count) {
    printf("@floor %s %s %.6g\n", name, unit, child_median(samples, count));
    fflush(stdout);
}

struct tally child_nothing_found(void) {
    struct tally t;
    memset(&t, 0, sizeof t);
    t.lowest = ~0ull;
    return t;
}

/* ---- requests --------------------------------------------------------------------------------- */

/* The host can copy from a pointer of mm's heap, but not from one of CUDA's (docs/reference/contract.md). Only mm's default allocator counts its objects. */
static void identify(void) {
    struct asks a;
    memset(&a, 0, sizeof a);
    a.count = 1;
    a.size = 16;
    void **pointers = (void **)child_device_alloc(sizeof *pointers), *p;
    unsigned word;
    alloc_malloc(pointers, &a);
    child_read(&p, pointers, sizeof p);
    const int copied = p != NULL && cudaMemcpy(&word, p, sizeof word, cudaMemcpyDeviceToHost) == cudaSuccess;
    if (!copied) cudaGetLastError();
    alloc_free(pointers, &a);
    child_must(cudaDeviceSynchronize());
    printf("@identity %s\n", !copied ? "builtin" : account_is_default() ? "mm" : "sibling");
}

static int run_case(struct request *q) {
    /* clang-format off */
    static const struct {
        const char *name;
        void (*run)(const struct request *);
    } cases[] = {
        {"single", run_kernels}, {"mixed", run_kernels}, {"mixedu", run_kernels}, {"scaling", run_kernels}, {"warp", run_kernels}, {"large", run_kernels},
        {"churn", run_churn}, {"latency", run_latency}, {"util", run_util}, {"frag", run_frag}, {"endurance", run_endurance}, {"init", run_init},
        {"footprint", run_footprint}, {"pinned", run_pinned}, {"converged", run_converged}, {"graph", run_graph}, {"graph_lesmis", run_graph},
        {"ad", run_bursts}, {"acd", run_bursts}, {"p", run_bursts}, {"half", run_half}, {"write", run_write}, {"workgen", run_workgen},
        {"registers", run_registers}, {"kdtree", run_kdtree}, {"kdtree_tight", run_kdtree},
        {"join", run_join}, {"join_zipf", run_join}, {"join_counter", run_join}, {"join_scan", run_join},
        {"probes", run_probes}, {"probes_large", run_probes}, {"pagerank", run_pagerank}, {"triangles", run_triangles},
        {"malloc_large", run_malloc_large}, {"hostlog", run_hostlog}, {"multistream", run_multistream},
    };
    /* clang-format on */
    char *suffix = strstr(q->name, "_cold");
    q->cold = suffix != NULL;
    if (suffix) *suffix = '\0';
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(q->name, cases[i].name)) {
            cases[i].run(q);
            return 1;
        }
    return 0;
}

/* "RUNS PATH\n" */
static void replay(const char *line) {
    char path[MM_BENCH_LINE_BYTES];
    unsigned runs;
    int at = 0;
    if (sscanf(line, "%u %n", &runs, &at) != 1 || !at || runs == 0) child_fatal("not a request", line);
    snprintf(path, sizeof path, "%.*s", (int)strcspn(line + at, "\n"), line + at);
    run_replay(path, runs);
}

static void answer(const char *line) {
    struct request q;
    unsigned count, every_shift;
    memset(&q, 0, sizeof q);
    if (!strcmp(line, "identify\n")) identify();
    else if (!strncmp(line, "replay ", 7)) replay(line + 7);
    else if (sscanf(line, "floor %u %u", &count, &every_shift) == 2) run_floors(count, every_shift);
    else if (sscanf(line, "run %31s %llu %u %u", q.name, &q.size, &q.threads, &q.runs) != 4 || !run_case(&q)) child_fatal("not a request", line);
    printf("@done\n");
    fflush(stdout);
}

int main(int argc, char **argv) {
    char line[MM_BENCH_LINE_BYTES];
    struct cudaDeviceProp properties;
    int driver, devices = 0;
    if (argc != 3) child_fatal("usage", "HEAP_BYTES SECONDS, and requests on standard input");
    child_heap_bytes = strtoull(argv[1], NULL, 10);
    child_seconds = strtod(argv[2], NULL);
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) child_fatal("no GPU", cudaGetErrorString(error));
    child_start_device();
    child_must(cudaGetDeviceProperties(&properties, 0));
    child_must(cudaDriverGetVersion(&driver));
    printf("@ready %s %d.%d %d.%d %zu %s\n", alloc_name, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, driver / 1000, driver % 1000 / 10,
           properties.totalGlobalMem, properties.name);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) answer(line);
    return 0;
}
