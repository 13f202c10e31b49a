/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The graph of the case "graph": adjacency lists in device memory that kernels allocate, grow, shrink and free, after the
 * graph test cases of M. Winter, M. Parger, D. Mlakar, M. Steinberger, "Are dynamic memory managers on GPUs slow? A
 * survey and benchmarks", PPoPP 2021.
 *
 *   rmat.h        edges of a random graph, computed from their numbers
 *   lesmis.h      edges of a real graph
 *   workload.c    batches of edges, grouped by vertex, and the expected graph after each. Needs no GPU.
 *   lists.h       the kernels that allocate (papers/papers.h)
 *   lists_check.h the kernel that compares the graph with the expected one; launched from plain.cu
 *   graph_case.c  the case: phases, times, rows
 *
 * A vertex's list holds its neighbours in any order, and a neighbour as often as the edge was inserted. Its allocation has room for
 * capacity_of(degree) edges: the least power of two that is large enough, and at least four (16 bytes), as in the survey. An empty
 * list has no allocation. So an allocation doubles when it is full, is halved when half of it is enough, and is freed with the last edge.
 *
 * The phases are those of the survey: insert all edges of the graph into empty lists; insert a batch of new edges, evenly over all vertices;
 * delete a batch, evenly over all edges; insert a batch at a small range of vertices; free all lists.
 *
 * Ownership: a batch is grouped by vertex, and during a kernel one thread owns a vertex and its list. Only that thread allocates and
 * frees for it. A long list is copied by the whole CTA, between two barriers that every thread of the CTA reaches. There are no locks, and
 * no thread waits for another CTA.
 *
 * Timed: one kernel per phase, with its malloc, free, copying and searching. Not timed: making and grouping batches, copying them to the
 * device, and the comparison. The comparison follows every phase of every run, and leaves the lists that it read in the cache, with
 * either allocator.
 */
#ifndef MM_BENCH_GRAPH_H
#define MM_BENCH_GRAPH_H

#include "tools/mmbench/child/child.h"

enum graph_phase { GRAPH_INIT, GRAPH_INSERT, GRAPH_DELETE, GRAPH_RANGE, GRAPH_FREE, GRAPH_PHASES };
#define GRAPH_BATCHES GRAPH_FREE /* every phase except the last one has a batch */

struct edge {
    unsigned from, to;
};

/* Edges to insert or to delete at the vertices first, first + 1, ...; on the host, or a copy on the device. The edges of vertex
 * first + i lead to targets[offsets[i]], ..., targets[offsets[i + 1] - 1]. */
struct batch {
    unsigned first, vertices, edges;
    unsigned *offsets; /* vertices + 1 of them */
    unsigned *targets; /* in a batch to delete, the targets of a vertex are in ascending order */
    unsigned *taken;   /* to delete; for each target the last run, from 1, in which an edge was found for it */
};

struct list {
    unsigned *edges;
    unsigned degree;
};

/* The expected list: its degree, and the sum of neighbour_hash over its neighbours. */
struct list_sum {
    unsigned long long sum;
    unsigned degree;
};

#define LIST_EDGES_MIN 4u

TOOLS_BOTH unsigned capacity_of(unsigned degree) {
    unsigned capacity = LIST_EDGES_MIN;
    while (capacity < degree) capacity *= 2; /* for a degree below 2^31 */
    return capacity;
}

TOOLS_BOTH unsigned neighbour_hash(unsigned to) { return mix(to + 0x51ed270bu); }

/* ---- workload.c ------------------------------------------------------------------------------- */

struct workload {
    unsigned vertices;
    struct batch batches[GRAPH_BATCHES];
    struct list_sum *expected[GRAPH_PHASES]; /* after each phase, for each vertex */
    unsigned long long most_bytes;           /* of all lists after a phase, by their capacity */
};

/* Makes the batches and the expected lists of a graph of `edges` edges. all: these edges, followed by room for `updates` more. The insert batch
 * is `updates` edges from any vertex to any; it is written to that room. The delete batch takes `updates` edges of all, one from each group of
 * equal length. The range batch is `updates` edges from the middle `range` vertices to any. Returns 0 if there is no memory. */
int workload_make(struct workload *w, struct edge *all, unsigned vertices, unsigned edges, unsigned updates, unsigned range);
void workload_drop(struct workload *w);
/* The graph of lesmis.h: MM_BENCH_LESMIS_EDGES edges, each pair in both directions. */
void workload_lesmis(struct edge *all);

#ifdef __cplusplus
extern "C" {
#endif

/* ---- graph_case.c ----------------------------------------------------------------------------- */

/* Edges 0 to count - 1 of the R-MAT graph, computed on the GPU. A sample is compared with the host's. vertices: a power of two. */
void graph_rmat_edges(struct edge *all, unsigned vertices, unsigned count);

/* ---- lists.h ---------------------------------------------------------------------------------- */

struct bump;

/* Launches. */
struct graph_kernels {
    /* Counts NULLs of malloc; the vertex of each stays as it was. */
    void (*insert)(struct list *lists, const struct batch *b, struct bump *bump, struct tally *t);
    /* run: must differ from all earlier runs with the same b->taken. Counts NULLs of malloc; such a list keeps its larger
     * allocation. */
    void (*remove)(struct list *lists, const struct batch *b, unsigned run, struct bump *bump, struct tally *t);
    void (*free_all)(struct list *lists, unsigned vertices);
};
extern const struct graph_kernels alloc_graph, floor_graph;

/* ---- plain.cu --------------------------------------------------------------------------------- */

/* Edges 0 to count - 1 of the R-MAT graph of 2^scale vertices. */
void plain_rmat(struct edge *edges, unsigned scale, unsigned count);
/* Counts, as corrupt, the vertices whose list is not as expected or not aligned. */
void plain_lists_check(const struct list *lists, const struct list_sum *expected, unsigned vertices, struct tally *t);

#ifdef __cplusplus
}
#endif
#endif
