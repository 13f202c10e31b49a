/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The graphs of "pagerank" and "triangles", and the expected results (ranks.h). The expected lists and ranks are computed from the list of
 * edges, and not from the grouped graph that the kernels use, so that they also check the grouping. The expected triangles are counted by marking
 * neighbours, and not by searching. All sorting is counting sort by vertex, which is linear and keeps the order of equal vertices. */
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/papers/ranks.h"

/* ---- grouping --------------------------------------------------------------------------------- */

/* Takes the memory of a graph. The offsets are 0, and there is one more than needed, for counting. Returns 0 if there is no memory. */
static int open_graph(struct ranks_graph *g, unsigned edges, unsigned vertices) {
    memset(g, 0, sizeof *g);
    g->vertices = vertices;
    g->edges = edges;
    g->offsets = (unsigned *)calloc(vertices + 2u, sizeof *g->offsets);
    g->targets = (unsigned *)malloc((edges + 1u) * sizeof *g->targets);
    return g->offsets && g->targets;
}

static void drop_graph(struct ranks_graph *g) {
    free(g->offsets);
    free(g->targets);
    free(g->cut);
    memset(g, 0, sizeof *g);
}

/* Before: next[v + 1] is the degree of v. After: next[v] is the start of the group of v. */
static void add_up(unsigned *next, unsigned vertices) {
    for (unsigned v = 1; v <= vertices; v++) next[v] += next[v - 1];
}

/* Groups edges by `from`; the targets of a vertex stay in the order of the edges. */
static int group(struct ranks_graph *g, const struct edge *edges, unsigned count, unsigned vertices) {
    if (!open_graph(g, count, vertices)) return 0;
    unsigned *next = g->offsets + 1; /* next[v]: position of the next target of v; at the end, the start of the group of v + 1 */
    for (unsigned i = 0; i < count; i++) next[edges[i].from + 1]++;
    add_up(next, vertices);
    for (unsigned i = 0; i < count; i++) g->targets[next[edges[i].from]++] = edges[i].to;
    return 1;
}

/* The same edges in the other direction, grouped by `to`; the targets of a vertex are in ascending order. */
static int transpose(struct ranks_graph *back, const struct ranks_graph *g) {
    if (!open_graph(back, g->edges, g->vertices)) return 0;
    unsigned *next = back->offsets + 1;
    for (unsigned i = 0; i < g->edges; i++) next[g->targets[i] + 1]++;
    add_up(next, g->vertices);
    for (unsigned v = 0; v < g->vertices; v++)
        for (unsigned i = g->offsets[v]; i < g->offsets[v + 1]; i++) back->targets[next[g->targets[i]]++] = v;
    return 1;
}

static unsigned degree_of(const struct ranks_graph *g, unsigned v) { return g->offsets[v + 1] - g->offsets[v]; }

static int cut_pieces(struct ranks_graph *g) {
    for (unsigned v = 0; v < g->vertices; v++) g->pieces += (degree_of(g, v) + RANKS_PIECE_EDGES - 1) / RANKS_PIECE_EDGES;
    struct ranks_piece *p = g->cut = (struct ranks_piece *)malloc((g->pieces + 1u) * sizeof *p);
    if (!p) return 0;
    for (unsigned v = 0; v < g->vertices; v++)
        for (unsigned first = 0; first < degree_of(g, v); first += RANKS_PIECE_EDGES, p++) {
            p->vertex = v;
            p->first = first;
        }
    return 1;
}

unsigned long long ranks_bytes(const struct ranks_graph *g, unsigned alignment) {
    unsigned long long bytes = 0;
    for (unsigned v = 0; v < g->vertices; v++)
        if (degree_of(g, v) != 0) bytes += (capacity_of(degree_of(g, v)) * sizeof *g->targets + alignment - 1) / alignment * alignment;
    return bytes;
}

/* ---- simple graphs ------------------------------------------------------------------------------ */

/* Replaces the edges by the pairs of different vertices that they connect, with the higher number first. Returns how many. */
static unsigned higher_first(struct edge *edges, unsigned count) {
    unsigned kept = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct edge e = edges[i];
        if (e.from == e.to) continue;
        edges[kept].from = e.from > e.to ? e.from : e.to;
        edges[kept++].to = e.from > e.to ? e.to : e.from;
    }
    return kept;
}

/* Writes each pair of g once, with the lower number first, in ascending order; and counts the pairs of each vertex. The lists of g are in
 * ascending order. Returns how many. */
static unsigned distinct_pairs(struct edge *pairs, unsigned *degrees, const struct ranks_graph *g) {
    unsigned kept = 0;
    for (unsigned v = 0; v < g->vertices; v++)
        for (unsigned i = g->offsets[v]; i < g->offsets[v + 1]; i++) {
            if (i > g->offsets[v] && g->targets[i] == g->targets[i - 1]) continue;
            pairs[kept].from = v;
            pairs[kept++].to = g->targets[i];
            degrees[v]++;
            degrees[g->targets[i]]++;
        }
    return kept;
}

/* Turns each pair to lead to the higher degree. The edges from a vertex x stay in ascending order of their targets: first those to lower numbers
 * y, which are from pairs (y, x), then those to higher ones, from pairs (x, y). */
static void orient(struct edge *pairs, unsigned count, const unsigned *degrees) {
    for (unsigned i = 0; i < count; i++) {
        const struct edge e = pairs[i];
        if (degrees[e.from] <= degrees[e.to]) continue;
        pairs[i].from = e.to;
        pairs[i].to = e.from;
    }
}

/* Returns 0 if there is no memory. Otherwise the graph is simple and oriented, and its edges from each vertex are in ascending order. */
static int make_simple(struct edge *edges, unsigned *count, unsigned vertices) {
    struct ranks_graph by_higher, by_lower;
    unsigned *degrees = (unsigned *)calloc(vertices, sizeof *degrees);
    memset(&by_lower, 0, sizeof by_lower);
    *count = higher_first(edges, *count);
    const int made = group(&by_higher, edges, *count, vertices) && transpose(&by_lower, &by_higher) && degrees;
    if (made) {
        *count = distinct_pairs(edges, degrees, &by_lower);
        orient(edges, *count, degrees);
    }
    drop_graph(&by_higher);
    drop_graph(&by_lower);
    free(degrees);
    return made;
}

/* ---- expected results --------------------------------------------------------------------------- */

static struct list_sum *sums(const struct edge *edges, unsigned count, unsigned vertices) {
    struct list_sum *lists = (struct list_sum *)calloc(vertices, sizeof *lists);
    for (unsigned i = 0; lists && i < count; i++) {
        lists[edges[i].from].degree++;
        lists[edges[i].from].sum += neighbour_hash(edges[i].to);
    }
    return lists;
}

static unsigned long long *pagerank(const struct edge *edges, unsigned count, const struct list_sum *lists, unsigned vertices) {
    unsigned long long *ranks = (unsigned long long *)malloc(vertices * sizeof *ranks), *shares = (unsigned long long *)malloc(vertices * sizeof *shares);
    for (unsigned v = 0; ranks && v < vertices; v++) ranks[v] = RANKS_ONE;
    for (unsigned k = 0; ranks && shares && k < RANKS_ITERATIONS; k++) {
        for (unsigned v = 0; v < vertices; v++) {
            shares[v] = ranks_share(ranks[v], lists[v].degree);
            ranks[v] = RANKS_BASE;
        }
        for (unsigned i = 0; i < count; i++) ranks[edges[i].to] += shares[edges[i].from];
    }
    if (!shares) {
        free(ranks);
        ranks = NULL;
    }
    free(shares);
    return ranks;
}

static unsigned long long *triangles(const struct ranks_graph *g, unsigned sample_shift) {
    unsigned long long *found = (unsigned long long *)calloc(g->vertices, sizeof *found);
    unsigned *marks = (unsigned *)calloc((g->vertices >> 5) + 1, sizeof *marks); /* a bit for each vertex: the neighbours of u */
    for (unsigned u = 0; found && marks && u < g->vertices; u++) {
        if (!ranks_sampled(u, sample_shift)) continue;
        const unsigned begin = g->offsets[u], end = g->offsets[u + 1];
        for (unsigned i = begin; i < end; i++) marks[g->targets[i] >> 5] |= 1u << g->targets[i] % 32;
        for (unsigned i = begin; i < end; i++) {
            const unsigned v = g->targets[i];
            unsigned count = 0;
            for (unsigned k = g->offsets[v]; k < g->offsets[v + 1]; k++) count += marks[g->targets[k] >> 5] >> g->targets[k] % 32 & 1;
            found[u] += count;
        }
        for (unsigned i = begin; i < end; i++) marks[g->targets[i] >> 5] = 0;
    }
    if (!marks) {
        free(found);
        found = NULL;
    }
    free(marks);
    return found;
}

/* ---- both ------------------------------------------------------------------------------------- */

/* All but the results. */
static int make(struct ranks_work *w, const struct edge *edges, unsigned count, unsigned vertices) {
    w->lists = sums(edges, count, vertices);
    return group(&w->graph, edges, count, vertices) && w->lists && cut_pieces(&w->graph);
}

int ranks_make_pagerank(struct ranks_work *w, const struct edge *edges, unsigned count, unsigned vertices) {
    memset(w, 0, sizeof *w);
    if (!make(w, edges, count, vertices)) return 0;
    w->results = pagerank(edges, count, w->lists, vertices);
    return w->results != NULL;
}

int ranks_make_triangles(struct ranks_work *w, struct edge *edges, unsigned count, unsigned vertices, unsigned sample_shift) {
    memset(w, 0, sizeof *w);
    w->sample_shift = sample_shift;
    if (!make_simple(edges, &count, vertices) || !make(w, edges, count, vertices)) return 0;
    w->results = triangles(&w->graph, sample_shift);
    return w->results != NULL;
}

void ranks_drop(struct ranks_work *w) {
    drop_graph(&w->graph);
    free(w->lists);
    free(w->results);
    memset(w, 0, sizeof *w);
}
