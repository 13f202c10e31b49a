/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The case that is an application: a graph that grows and shrinks (graph.h). Every run goes through all phases. After each phase the
 * graph is compared with the expected one. NULLs or a wrong list end the request, and all of its rows are marked. */
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/account.h"
#include "tools/mmbench/child/graph.h"
#include "tools/mmbench/child/papers/papers.h"
#include "tools/mmbench/child/rmat.h"
#include "tools/mmbench/protocol.h"

#define SAMPLE_EVERY 1021u /* one edge in this many is computed on the host, too, and compared */

static const char *const phase_names[GRAPH_PHASES] = {"init", "insert", "delete", "range", "free"};

/* ---- the graph ----------------------------------------------------------------------------------- */

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

/* host: the batches and the expected lists; on_device: a copy. */
struct graph_case {
    struct workload host, on_device;
    struct list *lists;
    struct tally *tally;
    struct account account;
    unsigned run;   /* number of the last run, of either kernels */
    int has_looked; /* at the account, since the device was started */
};

static struct workload workload_of(const struct request *q) {
    const unsigned edges = (unsigned)q->size, updates = edges >> MM_BENCH_GRAPH_BATCH_SHIFT;
    const int real = !strcmp(q->name, "graph_lesmis");
    const unsigned range_shift = real ? MM_BENCH_LESMIS_RANGE_SHIFT : MM_BENCH_GRAPH_RANGE_SHIFT;
    struct edge *all = (struct edge *)malloc((edges + updates) * sizeof *all);
    struct workload w;
    if (all == NULL) child_must(cudaErrorMemoryAllocation);
    if (real) workload_lesmis(all);
    else graph_rmat_edges(all, q->threads, edges);
    if (!workload_make(&w, all, q->threads, edges, updates, q->threads >> range_shift)) child_must(cudaErrorMemoryAllocation);
    free(all);
    return w;
}

static void load_kernels(const struct graph_case *c, const struct graph_kernels *k) {
    struct batch none;
    memset(&none, 0, sizeof none);
    k->insert(c->lists, &none, NULL, c->tally);
    k->remove(c->lists, &none, 1, NULL, c->tally);
    k->free_all(c->lists, 0);
}

/* The account begins before the kernels that allocate are loaded. `taken` exists on the device only. */
static void open_graph(void *of) {
    struct graph_case *c = (struct graph_case *)of;
    c->on_device = c->host;
    for (int phase = 0; phase < GRAPH_BATCHES; phase++) {
        struct batch *b = &c->on_device.batches[phase];
        b->offsets = (unsigned *)child_copied(b->offsets, (b->vertices + 1) * sizeof *b->offsets);
        b->targets = (unsigned *)child_copied(b->targets, b->edges * sizeof *b->targets);
        b->taken = phase == GRAPH_DELETE ? (unsigned *)child_device_alloc(b->edges * sizeof *b->taken) : NULL;
    }
    for (int phase = 0; phase < GRAPH_PHASES; phase++)
        c->on_device.expected[phase] = (struct list_sum *)child_copied(c->host.expected[phase], c->host.vertices * sizeof *c->host.expected[phase]);
    c->lists = (struct list *)child_device_alloc(c->host.vertices * sizeof *c->lists);
    c->tally = (struct tally *)child_device_alloc(sizeof *c->tally);
    plain_lists_check(c->lists, c->on_device.expected[GRAPH_FREE], c->host.vertices, c->tally);
    load_kernels(c, &floor_graph);
    c->has_looked = 0;
    account_begin(&c->account);
    load_kernels(c, &alloc_graph);
    account_warmed();
}

static void close_graph(void *of) {
    const struct graph_case *c = (const struct graph_case *)of;
    for (int phase = 0; phase < GRAPH_BATCHES; phase++) {
        child_must(cudaFree(c->on_device.batches[phase].offsets));
        child_must(cudaFree(c->on_device.batches[phase].targets));
        child_must(cudaFree(c->on_device.batches[phase].taken));
    }
    for (int phase = 0; phase < GRAPH_PHASES; phase++) child_must(cudaFree(c->on_device.expected[phase]));
    child_must(cudaFree(c->lists));
    child_must(cudaFree(c->tally));
}

/* ---- phases ------------------------------------------------------------------------------------- */

static double phase_us(const struct graph_case *c, const struct graph_kernels *k, enum graph_phase phase, struct bump *bump) {
    const struct workload *w = &c->on_device;
    child_time_begin();
    if (phase == GRAPH_FREE) k->free_all(c->lists, w->vertices);
    else if (phase == GRAPH_DELETE) k->remove(c->lists, &w->batches[phase], c->run, bump, c->tally);
    else k->insert(c->lists, &w->batches[phase], bump, c->tally);
    return child_time_end_ms() * 1e3;
}

/* After a NULL the lists are sound, and are freed. Wrong lists are not touched; they end with the process. */
static void run_phases(void *of, struct bump *bump, double *us, struct tally *t) {
    struct graph_case *c = (struct graph_case *)of;
    const struct graph_kernels *k = bump ? &floor_graph : &alloc_graph;
    struct tally found = child_nothing_found();
    memset(us, 0, GRAPH_PHASES * sizeof *us);
    child_must(cudaMemset(c->tally, 0, sizeof *c->tally));
    c->run++;
    for (int phase = 0; phase < GRAPH_PHASES && !found.nulls && !found.corrupt; phase++) {
        us[phase] = phase_us(c, k, (enum graph_phase)phase, bump);
        child_read(&found, c->tally, sizeof found);
        if (found.nulls) break; /* the graph need not be as expected then */
        plain_lists_check(c->lists, c->on_device.expected[phase], c->on_device.vertices, c->tally);
        child_read(&found, c->tally, sizeof found);
        if (!bump && !c->has_looked) account_look(&c->account);
    }
    if (!bump) c->has_looked = 1;
    if (found.nulls) k->free_all(c->lists, c->on_device.vertices);
    child_must(cudaDeviceSynchronize());
    t->nulls += found.nulls;
    t->corrupt += found.corrupt;
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
    static struct graph_case c;
    struct paper_program p;
    memset(&c, 0, sizeof c);
    memset(&p, 0, sizeof p);
    c.host = workload_of(q);
    for (int phase = 0; phase < GRAPH_PHASES; phase++) p.steps[phase] = phase_names[phase];
    p.checked = "nonnull aligned degrees neighbours";
    p.bump_bytes = GRAPH_BATCHES * c.host.most_bytes; /* a batch allocates no more than the lists that it leaves */
    p.of = &c;
    p.open = open_graph;
    p.close = close_graph;
    p.run = run_phases;
    const struct tally t = paper_run(q, &p);
    tell_memory(&c.account, &c.host, &t);
    workload_drop(&c.host);
}
