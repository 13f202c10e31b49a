/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases "pagerank" and "triangles" (ranks.h). Timed: the kernels of each step. Not timed: making and grouping the graph, the comparisons.
 * Lists are compared after "build", which leaves them in the cache with either allocator; ranks or triangles after the second step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/papers/papers.h"
#include "tools/mmbench/child/papers/ranks.h"

enum ranks_step { RANKS_BUILD, RANKS_WORK, RANKS_FREE, RANKS_STEPS };

/* A case: on the host its work, and everything else in device memory. */
struct ranks_case {
    int counts; /* triangles; otherwise pagerank */
    struct ranks_work work;
    struct ranks_graph graph;
    struct list *lists;
    struct list_sum *expected_lists;
    unsigned long long *results, *expected;
    unsigned long long *shares; /* pagerank */
    struct tally *found;
};

/* ---- device memory ------------------------------------------------------------------------------ */

static void load_kernels(const struct ranks_case *c, const struct ranks_kernels *k) {
    struct ranks_graph none;
    memset(&none, 0, sizeof none);
    k->build(&none, c->lists, NULL, c->found);
    if (c->counts) k->count(&none, c->lists, 0, c->results);
    else k->rank(&none, c->lists, c->results, c->shares);
    k->give(c->lists, 0);
    k->compare(c->results, c->expected, 0, c->found);
}

static void open_case(void *of) {
    struct ranks_case *c = (struct ranks_case *)of;
    const struct ranks_work *w = &c->work;
    struct ranks_graph *g = &c->graph;
    *g = w->graph;
    g->offsets = (unsigned *)child_copied(g->offsets, (g->vertices + 1) * sizeof *g->offsets);
    g->targets = (unsigned *)child_copied(g->targets, g->edges * sizeof *g->targets);
    g->cut = (struct ranks_piece *)child_copied(g->cut, g->pieces * sizeof *g->cut);
    c->lists = (struct list *)child_device_alloc(g->vertices * sizeof *c->lists);
    c->expected_lists = (struct list_sum *)child_copied(w->lists, g->vertices * sizeof *w->lists);
    c->results = (unsigned long long *)child_device_alloc(g->vertices * sizeof *c->results);
    c->expected = (unsigned long long *)child_copied(w->results, g->vertices * sizeof *w->results);
    c->shares = c->counts ? NULL : (unsigned long long *)child_device_alloc(g->vertices * sizeof *c->shares);
    c->found = (struct tally *)child_device_alloc(sizeof *c->found);
    load_kernels(c, &alloc_ranks);
    load_kernels(c, &floor_ranks);
}

static void close_case(void *of) {
    const struct ranks_case *c = (const struct ranks_case *)of;
    void *const all[] = {c->graph.offsets, c->graph.targets, c->graph.cut, c->lists, c->expected_lists, c->results, c->expected, c->shares, c->found};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) child_must(cudaFree(all[i]));
}

/* ---- a run ------------------------------------------------------------------------------------ */

static double step_us(struct ranks_case *c, enum ranks_step step, struct bump *bump) {
    const struct ranks_kernels *k = bump ? &floor_ranks : &alloc_ranks;
    child_time_begin();
    if (step == RANKS_BUILD) k->build(&c->graph, c->lists, bump, c->found);
    else if (step == RANKS_FREE) k->give(c->lists, c->graph.vertices);
    else if (c->counts) k->count(&c->graph, c->lists, c->work.sample_shift, c->results);
    else k->rank(&c->graph, c->lists, c->results, c->shares);
    return child_time_end_ms() * 1e3;
}

/* After a NULL, the lists are sound but incomplete: they are freed only. Wrong lists are not touched; they end with the process. */
static void run_case(void *of, struct bump *bump, double *us, struct tally *t) {
    struct ranks_case *c = (struct ranks_case *)of;
    const struct ranks_kernels *k = bump ? &floor_ranks : &alloc_ranks;
    struct tally found;
    memset(us, 0, RANKS_STEPS * sizeof *us);
    child_must(cudaMemset(c->found, 0, sizeof *c->found));
    us[RANKS_BUILD] = step_us(c, RANKS_BUILD, bump);
    child_read(&found, c->found, sizeof found);
    if (!found.nulls) plain_lists_check(c->lists, c->expected_lists, c->graph.vertices, c->found);
    child_read(&found, c->found, sizeof found);
    const int sound = !found.corrupt;
    if (sound && !found.nulls) {
        us[RANKS_WORK] = step_us(c, RANKS_WORK, bump);
        k->compare(c->results, c->expected, c->graph.vertices, c->found);
        child_read(&found, c->found, sizeof found);
    }
    if (sound) us[RANKS_FREE] = step_us(c, RANKS_FREE, bump);
    t->nulls += found.nulls;
    t->corrupt += found.corrupt;
}

/* ---- the cases -------------------------------------------------------------------------------- */

static void run_ranks(const struct request *q, int counts) {
    static struct ranks_case c;
    struct paper_program p = {{"build", counts ? "count" : "rank", "free"}, NULL, 0, &c, open_case, close_case, run_case};
    const unsigned count = (unsigned)q->size, shift = ranks_sample_shift(count);
    char checked[64];
    memset(&c, 0, sizeof c);
    c.counts = counts;
    if (q->threads > 1u << RANKS_SCALE_MAX) child_fatal("pagerank, triangles", "too many vertices");
    struct edge *edges = (struct edge *)malloc(count * sizeof *edges);
    if (edges == NULL) child_must(cudaErrorMemoryAllocation);
    graph_rmat_edges(edges, q->threads, count);
    if (counts ? !ranks_make_triangles(&c.work, edges, count, q->threads, shift) : !ranks_make_pagerank(&c.work, edges, count, q->threads))
        child_must(cudaErrorMemoryAllocation);
    free(edges);
    snprintf(checked, sizeof checked, "nonnull aligned neighbours %s", counts ? "triangles" : "ranks");
    if (counts && shift) snprintf(checked + strlen(checked), sizeof checked - strlen(checked), " of 1 vertex in %u", 1u << shift);
    p.checked = checked;
    p.bump_bytes = ranks_bytes(&c.work.graph, BUMP_ALIGNMENT);
    paper_run(q, &p);
    ranks_drop(&c.work);
}

void run_pagerank(const struct request *q) { run_ranks(q, 0); }
void run_triangles(const struct request *q) { run_ranks(q, 1); }
