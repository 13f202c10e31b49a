/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The case that is an application: a graph that grows and shrinks (graph.h). Every run goes through all phases. After each phase the
 * graph is compared with the expected one. NULLs or a wrong list end the request, and all of its rows are marked. */
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/account.h"
#include "tools/mmbench/child/graph.h"
#include "tools/mmbench/child/rmat.h"
#include "tools/mmbench/protocol.h"

#define SAMPLE_EVERY 1021u /* one edge in this many is computed on the host, too, and compared */

static const char *const phase_names[GRAPH_PHASES] = {"init", "insert", "delete", "range", "free"};

/* ---- batches, on the device --------------------------------------------------------------------- */

void graph_rmat_edges(struct edge *all, unsigned vertices, unsigned count) {
    struct edge *on_device = (struct edge *)child_device_alloc(count * sizeof *on_device);
    unsigned scale = 0;
    while (1u << scale < vertices) scale++;
    plain_rmat(on_device, scale, count);
    child_read(all, on_device, count * sizeof *all);
    child_must(cudaFree(on_device));
    for (unsigned i = 0; i < count; i += SAMPLE_EVERY) {
        const struct edge e = rmat_edge(scale, i);
        if (e.from != all[i].from || e.to != all[i].to) child_fatal("R-MAT", "an edge of the GPU's is not the host's");
    }
}

/* Computed on the host, then copied to the device; `taken` exists on the device only. */
static struct workload workload_open(const struct request *q) {
    const unsigned edges = (unsigned)q->size, updates = edges >> MM_BENCH_GRAPH_BATCH_SHIFT;
    const int real = !strcmp(q->name, "graph_lesmis");
    const unsigned range_shift = real ? MM_BENCH_LESMIS_RANGE_SHIFT : MM_BENCH_GRAPH_RANGE_SHIFT;
    struct edge *all = (struct edge *)malloc((edges + updates) * sizeof *all);
    struct workload w, on_device;
    if (all == NULL) child_must(cudaErrorMemoryAllocation);
    if (real) workload_lesmis(all);
    else graph_rmat_edges(all, q->threads, edges);
    if (!workload_make(&w, all, q->threads, edges, updates, q->threads >> range_shift)) child_must(cudaErrorMemoryAllocation);
    free(all);
    on_device = w;
    for (int phase = 0; phase < GRAPH_BATCHES; phase++) {
        struct batch *b = &on_device.batches[phase];
        b->offsets = (unsigned *)child_copied(b->offsets, (b->vertices + 1) * sizeof *b->offsets);
        b->targets = (unsigned *)child_copied(b->targets, b->edges * sizeof *b->targets);
        b->taken = phase == GRAPH_DELETE ? (unsigned *)child_device_alloc(b->edges * sizeof *b->taken) : NULL;
    }
    for (int phase = 0; phase < GRAPH_PHASES; phase++)
        on_device.expected[phase] = (struct list_sum *)child_copied(w.expected[phase], w.vertices * sizeof *w.expected[phase]);
    workload_drop(&w);
    return on_device;
}

static void workload_close(struct workload *w) {
    for (int phase = 0; phase < GRAPH_BATCHES; phase++) {
        child_must(cudaFree(w->batches[phase].offsets));
        child_must(cudaFree(w->batches[phase].targets));
        child_must(cudaFree(w->batches[phase].taken));
    }
    for (int phase = 0; phase < GRAPH_PHASES; phase++) child_must(cudaFree(w->expected[phase]));
}

/* ---- phases ------------------------------------------------------------------------------------- */

static double phase_ms(enum graph_phase phase, const struct workload *w, struct list *lists, unsigned run, struct tally *t) {
    child_time_begin();
    if (phase == GRAPH_FREE) graph_free(lists, w->vertices);
    else if (phase == GRAPH_DELETE) graph_delete(lists, &w->batches[phase], run, t);
    else graph_insert(lists, &w->batches[phase], t);
    return child_time_end_ms();
}

/* What the lists need at most, and what the heap has taken for them. CUDA's allocator has no account, and then nothing is told. */
static void tell_memory(struct account *a, const struct workload *w, const struct tally *t) {
    const double lists = (double)w->most_bytes / (1 << 20);
    account_peak(a);
    const double taken = (double)a->most / (1 << 20), over = taken / lists;
    const unsigned runs = account_is_heaps();
    child_row_of("lists", "MiB", (const double[]){lists, lists, lists}, 1, "-", t, "counted");
    child_row_of("taken", "MiB", (const double[]){taken, taken, taken}, runs, "-", t, "cudaMemGetInfo");
    child_row_of("taken_over", "ratio", (const double[]){over, over, over}, runs, "-", t, "cudaMemGetInfo");
}

void run_graph(const struct request *q) {
    static double us[GRAPH_PHASES][CHILD_RUNS_MAX];
    struct workload w = workload_open(q);
    struct list *lists = (struct list *)child_device_alloc(w.vertices * sizeof *lists);
    struct tally *on_device = (struct tally *)child_device_alloc(sizeof *on_device), t = child_nothing_found();
    unsigned runs = q->runs < CHILD_RUNS_MAX ? q->runs : CHILD_RUNS_MAX;
    struct account account;
    plain_lists_check(lists, w.expected[GRAPH_FREE], w.vertices, on_device);
    account_begin(&account);
    for (unsigned run = 0; run <= runs; run++) { /* run 0 is the warm-up */
        double all_ms = 0;
        for (int phase = 0; phase < GRAPH_PHASES && !t.nulls && !t.corrupt; phase++) {
            const double ms = phase_ms((enum graph_phase)phase, &w, lists, run + 1, on_device);
            child_read(&t, on_device, sizeof t);
            if (t.nulls) break; /* the graph need not be as expected then */
            plain_lists_check(lists, w.expected[phase], w.vertices, on_device);
            child_read(&t, on_device, sizeof t);
            if (run > 0) us[phase][run - 1] = ms * 1e3;
            if (run == 0) account_look(&account);
            all_ms += ms;
        }
        runs = t.nulls || t.corrupt ? 0 : run > 0 ? child_runs_for(all_ms, runs) : runs;
    }
    for (int phase = 0; phase < GRAPH_PHASES; phase++) child_row(phase_names[phase], "us", us[phase], runs, "-", &t, "nonnull aligned degrees neighbours");
    tell_memory(&account, &w, &t);
    /* After a NULL the lists are sound, and are freed. Wrong lists are not touched; they end with the process. */
    if (t.nulls) graph_free(lists, w.vertices);
    child_must(cudaDeviceSynchronize());
    child_must(cudaFree(lists));
    child_must(cudaFree(on_device));
    workload_close(&w);
}
