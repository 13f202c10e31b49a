/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Batches of edges for the graph, and the expected graph after each. The expectation is computed from the list of edges, and not
 * from the grouped batches that the kernels use, so that it also checks the grouping. */
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/graph.h"
#include "tools/mmbench/child/lesmis.h"

/* ---- batches ---------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/* Groups edges by their vertex, first to first + vertices - 1. Returns 0 if there is no memory. */
static int group(struct batch *b, const struct edge *edges, unsigned count, unsigned first, unsigned vertices) {
    b->first = first;
    b->vertices = vertices;
    b->edges = count;
    b->offsets = (unsigned *)calloc(vertices + 2u, sizeof *b->offsets);
    b->targets = (unsigned *)malloc((count + 1u) * sizeof *b->targets);
    if (!b->offsets || !b->targets) return 0;
    unsigned *next = b->offsets + 1; /* next[i]: where the next target of vertex i goes; at the end this is where those of i + 1 begin */
    for (unsigned i = 0; i < count; i++) next[edges[i].from - first + 1]++;
    for (unsigned v = 1; v <= vertices; v++) next[v] += next[v - 1];
    for (unsigned i = 0; i < count; i++) b->targets[next[edges[i].from - first]++] = edges[i].to;
    return 1;
}

static void sort_targets(struct batch *b) {
    for (unsigned v = 0; v < b->vertices; v++) qsort(b->targets + b->offsets[v], b->offsets[v + 1] - b->offsets[v], sizeof *b->targets, ascending);
}

/* ---- the expected graph ----------------------------------------------------------------------- */

static struct list_sum *sums_after(const struct list_sum *before, unsigned vertices, const struct edge *edges, unsigned count, int sign) {
    struct list_sum *sums = (struct list_sum *)calloc(vertices, sizeof *sums);
    if (!sums) return NULL;
    if (before) memcpy(sums, before, vertices * sizeof *sums);
    for (unsigned i = 0; i < count; i++) {
        struct list_sum *s = &sums[edges[i].from];
        s->degree += sign > 0 ? 1u : ~0u;
        s->sum += sign > 0 ? neighbour_hash(edges[i].to) : 0ull - neighbour_hash(edges[i].to);
    }
    return sums;
}

/* ---- both ------------------------------------------------------------------------------------- */

static int add(struct workload *w, enum graph_phase phase, const struct edge *edges, unsigned count, unsigned first, unsigned vertices) {
    const struct list_sum *before = phase == GRAPH_INIT ? NULL : w->expected[phase - 1];
    unsigned long long bytes = 0;
    w->expected[phase] = sums_after(before, w->vertices, edges, count, phase == GRAPH_DELETE ? -1 : 1);
    for (unsigned v = 0; w->expected[phase] && v < w->vertices; v++)
        if (w->expected[phase][v].degree) bytes += capacity_of(w->expected[phase][v].degree) * sizeof(unsigned);
    if (bytes > w->most_bytes) w->most_bytes = bytes;
    return w->expected[phase] && group(&w->batches[phase], edges, count, first, vertices);
}

/* Draws edges to insert: from the `range` vertices from `first` on, evenly, to any vertex. */
static void draw(struct edge *edges, unsigned count, unsigned vertices, unsigned first, unsigned range, unsigned salt) {
    for (unsigned i = 0; i < count; i++) {
        edges[i].from = first + mix(2 * i + salt) % range;
        edges[i].to = mix(2 * i + 1 + salt) % vertices;
    }
}

int workload_make(struct workload *w, struct edge *all, unsigned vertices, unsigned edges, unsigned updates, unsigned range) {
    const unsigned first = (vertices - range) / 2, every = (edges + updates) / updates;
    struct edge *chosen = (struct edge *)calloc(updates + 1u, sizeof *chosen);
    memset(w, 0, sizeof *w);
    w->vertices = vertices;
    if (!chosen) return 0;
    draw(all + edges, updates, vertices, 0, vertices, 0x632be59bu);
    int made = add(w, GRAPH_INIT, all, edges, 0, vertices) && add(w, GRAPH_INSERT, all + edges, updates, 0, vertices);
    for (unsigned i = 0; i < updates; i++) chosen[i] = all[i * every + mix(i + 0x2545f491u) % every];
    made = made && add(w, GRAPH_DELETE, chosen, updates, 0, vertices);
    if (made) sort_targets(&w->batches[GRAPH_DELETE]);
    draw(chosen, updates, vertices, first, range, 0x9216d5d9u);
    made = made && add(w, GRAPH_RANGE, chosen, updates, first, range);
    w->expected[GRAPH_FREE] = sums_after(NULL, vertices, NULL, 0, 1);
    free(chosen);
    return made && w->expected[GRAPH_FREE];
}

void workload_drop(struct workload *w) {
    for (int phase = 0; phase < GRAPH_PHASES; phase++) free(w->expected[phase]);
    for (int phase = 0; phase < GRAPH_BATCHES; phase++) {
        free(w->batches[phase].offsets);
        free(w->batches[phase].targets);
    }
    memset(w, 0, sizeof *w);
}

void workload_lesmis(struct edge *all) {
    for (unsigned i = 0; i < MM_BENCH_LESMIS_EDGES / 2; i++, all += 2) {
        all[0].from = all[1].to = lesmis_pairs[i][0];
        all[0].to = all[1].from = lesmis_pairs[i][1];
    }
}
