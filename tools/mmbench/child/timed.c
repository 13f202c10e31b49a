/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases that measure kernel times: a warm-up, in which everything is checked, then the runs. The last run is checked
 * again. A run that got NULL ends its request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/child.h"
#include "tools/mmbench/protocol.h"

#define SLOW_MS 1000.0 /* if a run takes longer, there are fewer runs */
#define FLOOR_RUNS 12u
#define FLOOR_ATOMICS 1000u
#define CHURN_ROUNDS 32u

static unsigned runs_wanted(unsigned runs) { return runs < CHILD_RUNS_MAX ? runs : CHILD_RUNS_MAX; }

unsigned child_runs_for(double ms, unsigned runs) { return ms > SLOW_MS && runs > MM_BENCH_RUNS_SLOW ? MM_BENCH_RUNS_SLOW : runs; }

/* ---- malloc in one kernel, free in the next ------------------------------------------------------- */

static struct asks asks_of(const struct request *q) {
    struct asks a;
    memset(&a, 0, sizeof a);
    a.count = q->threads;
    a.size = q->size;
    a.every_shift = !strcmp(q->name, "warp") ? WARP_SHIFT : 0;
    a.sizing = !strcmp(q->name, "mixed") ? SIZING_POWERS : !strcmp(q->name, "mixedu") ? SIZING_UNIFORM : SIZING_ONE;
    while (16ull << a.powers <= a.size) a.powers++;
    return a;
}

enum look { LOOK_NULLS, LOOK_FIRST_WORDS, LOOK_ALL };

static struct tally look(void **pointers, const struct asks *a, struct tally *on_device, enum look how) {
    struct tally t = child_nothing_found();
    child_must(cudaMemcpy(on_device, &t, sizeof t, cudaMemcpyHostToDevice));
    if (how == LOOK_NULLS) {
        plain_bounds(pointers, a, NULL, on_device);
    } else {
        plain_fill(pointers, a, NULL, -1, how == LOOK_FIRST_WORDS);
        plain_check(pointers, a, NULL, how == LOOK_FIRST_WORDS, on_device);
    }
    child_read(&t, on_device, sizeof t);
    return t;
}

/* Loads the kernels and lets CUDA allocate their stack before anything is timed. */
static void load_kernels(void **pointers) {
    struct asks none;
    memset(&none, 0, sizeof none);
    alloc_malloc(pointers, &none);
    alloc_free(pointers, &none);
    child_must(cudaDeviceSynchronize());
}

void run_kernels(const struct request *q) {
    static double malloc_us[CHILD_RUNS_MAX], free_us[CHILD_RUNS_MAX];
    const struct asks a = asks_of(q);
    const char *checked = "nonnull aligned filled firstword";
    void **pointers = NULL;
    struct tally *on_device = NULL, t = child_nothing_found();
    unsigned runs = runs_wanted(q->runs);
    for (unsigned run = 0; run <= runs; run++) { /* run 0 is the warm-up */
        if (q->cold) child_restart_device();
        if (q->cold || run == 0) {
            pointers = (void **)child_device_alloc(a.count * sizeof *pointers);
            on_device = (struct tally *)child_device_alloc(sizeof *on_device);
            load_kernels(pointers);
        }
        child_time_begin();
        alloc_malloc(pointers, &a);
        const double malloc_ms = child_time_end_ms();
        t = look(pointers, &a, on_device, run == 0 ? LOOK_ALL : run == runs ? LOOK_FIRST_WORDS : LOOK_NULLS);
        child_time_begin();
        alloc_free(pointers, &a);
        const double free_ms = child_time_end_ms();
        if (t.nulls || t.corrupt) {
            runs = 0;
            checked = run == 0 ? "nonnull aligned filled" : checked;
        } else if (run > 0) {
            malloc_us[run - 1] = malloc_ms * 1e3;
            free_us[run - 1] = free_ms * 1e3;
            runs = child_runs_for(malloc_ms + free_ms, runs);
        }
    }
    child_must(cudaFree(pointers));
    child_must(cudaFree(on_device));
    child_row("malloc", "us", malloc_us, runs, "atomic", &t, checked);
    child_row("free", "us", free_us, runs, "bitmap", &t, checked);
}

/* ---- malloc, write, check, free: in one kernel ---------------------------------------------------- */

void run_churn(const struct request *q) {
    static double us[CHILD_RUNS_MAX];
    struct tally *on_device = (struct tally *)child_device_alloc(sizeof *on_device), t = child_nothing_found();
    unsigned runs = runs_wanted(q->runs);
    for (unsigned run = 0; run <= runs; run++) {
        child_time_begin();
        alloc_churn(q->threads, CHURN_ROUNDS, run == 0, on_device);
        const double ms = child_time_end_ms();
        child_read(&t, on_device, sizeof t);
        if (t.nulls || t.corrupt) runs = 0;
        else if (run > 0) {
            us[run - 1] = ms * 1e3;
            runs = child_runs_for(ms, runs);
        }
    }
    child_must(cudaFree(on_device));
    child_row("churn", "us", us, runs, "-", &t, "nonnull aligned filled firstword lastword");
}

/* ---- floors --------------------------------------------------------------------------------------- */

void run_floors(unsigned count, unsigned every_shift) {
    static const struct { /* bitmap uses the pointers that store left */
        const char *name;
        void (*launch)(struct floor_memory *, const struct asks *);
    } floors[] = {{"store", floor_store}, {"bitmap", floor_bitmap}, {"atomic", floor_atomic}};
    static unsigned cycles[FLOOR_ATOMICS];
    static double sample[FLOOR_ATOMICS];
    struct asks a;
    memset(&a, 0, sizeof a);
    a.count = count;
    a.every_shift = every_shift;
    struct floor_memory *m = floor_open(count);
    for (size_t f = 0; f < sizeof floors / sizeof *floors; f++) {
        for (unsigned run = 0; run <= FLOOR_RUNS; run++) {
            child_time_begin();
            floors[f].launch(m, &a);
            const double ms = child_time_end_ms();
            if (run > 0) sample[run - 1] = ms * 1e3;
        }
        child_floor(floors[f].name, "us", sample, FLOOR_RUNS);
    }
    unsigned *on_device_cycles = (unsigned *)child_device_alloc(sizeof cycles);
    for (int run = 0; run <= 1; run++) floor_latency(m, on_device_cycles, FLOOR_ATOMICS);
    child_read(cycles, on_device_cycles, sizeof cycles);
    for (unsigned i = 0; i < FLOOR_ATOMICS; i++) sample[i] = cycles[i];
    child_floor("latency", "cycles", sample, FLOOR_ATOMICS);
    child_must(cudaFree(on_device_cycles));
    floor_close(m);
}
