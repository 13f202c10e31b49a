/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The graph of the case "graph": adjacency lists in device memory that kernels allocate, grow, shrink and free, after the
 * graph test cases of M. Winter, D. Mlakar, M. Parger, M. Steinberger, "Are dynamic memory managers on GPUs slow? A
 * survey and benchmarks", PPoPP 2021.
 *
 *   rmat.h        edges of a random graph, by number
 *   lesmis.h      edges of a real one
 *   workload.c    batches of edges, grouped by vertex; what the graph must be after each. Needs no GPU.
 *   lists.h       the kernels that allocate, graph.cu their launches: compiled by nvcc and by mmnvcc
 *   lists_check.h the kernel that compares the graph with what it must be; launched from plain.cu
 *   graph.c       the case: phases, times, rows
 *
 * A vertex's list holds its neighbours in any order, and a neighbour as often as the edge was inserted. Its allocation is
 * capacity_of(its degree) edges: the least power of two that holds them, and four at least, 16 bytes, as in the survey;
 * none if there are none. So it doubles when it is full, is halved when half of it would do, and goes with the last edge.
 *
 * Phases, as the survey's: all edges of the graph go into empty lists; then a batch of new ones, evenly over all vertices;
 * then a batch is deleted, evenly over all edges; then one is inserted at a small range of vertices; all lists are freed.
 *
 * Who may touch what: a batch is grouped by vertex, and one thread owns a vertex and its list for the time of a kernel.
 * It alone allocates and frees for it. Long lists it does not copy alone: its CTA does, between two barriers that every
 * thread of the CTA reaches. There are no locks, and no thread waits for another CTA.
 *
 * Timed: one kernel for each phase, with its malloc, free, copying and searching. Not timed: making and grouping batches,
 * their way to the device, and the comparison, which follows every phase of every run and leaves the lists it read in the
 * cache, under either allocator.
 */
#ifndef MM_BENCH_GRAPH_H
#define MM_BENCH_GRAPH_H

#include "tools/mmbench/child/child.h"

enum graph_phase { GRAPH_INIT, GRAPH_INSERT, GRAPH_DELETE, GRAPH_RANGE, GRAPH_FREE, GRAPH_PHASES };
#define GRAPH_BATCHES GRAPH_FREE /* every phase has one but the last */

struct edge {
    unsigned from, to;
};

/* Edges to insert or to delete at the vertices first, first + 1, ...; on the host, or a copy on the device. Those of
 * vertex first + i lead to targets[offsets[i]] and up to, not including, targets[offsets[i + 1]]. */
struct batch {
    unsigned first, vertices, edges;
    unsigned *offsets; /* vertices + 1 */
    unsigned *targets; /* a vertex's own in ascending order in a batch to delete */
    unsigned *taken;   /* of each target, to delete: the last run in which an edge was found for it; from 1 */
};

struct list {
    unsigned *edges;
    unsigned degree;
};

/* What a list must be: its degree, and the sum over neighbour_hash. */
struct list_sum {
    unsigned long long sum;
    unsigned degree;
};

#define LIST_EDGES_MIN 4u

TOOLS_BOTH unsigned capacity_of(unsigned degree) {
    unsigned capacity = LIST_EDGES_MIN;
    while (capacity < degree) capacity *= 2; /* of a degree below 2^31 */
    return capacity;
}

TOOLS_BOTH unsigned neighbour_hash(unsigned to) { return mix(to + 0x51ed270bu); }

/* ---- workload.c ------------------------------------------------------------------------------- */

struct workload {
    unsigned vertices;
    struct batch batches[GRAPH_BATCHES];
    struct list_sum *expected[GRAPH_PHASES]; /* after each phase; of each vertex */
};

/* Batches of a graph of `edges` edges, and what becomes of it. all: the edges, and room for `updates` more: those to
 * insert, from any vertex to any. As many are deleted then, one of every so many of all that there are; and as many again are
 * inserted, from one of the middle `range` vertices to any. 0: no memory. */
int workload_make(struct workload *w, struct edge *all, unsigned vertices, unsigned edges, unsigned updates,
                  unsigned range);
void workload_drop(struct workload *w);
/* The graph of lesmis.h: MM_BENCH_LESMIS_EDGES, every pair both ways. */
void workload_lesmis(struct edge *all);

#ifdef __cplusplus
extern "C" {
#endif

/* ---- graph.cu --------------------------------------------------------------------------------- */

/* Counts vertices whose list could not be had; they are as they were before. */
void graph_insert(struct list *lists, const struct batch *b, struct tally *t);
/* run: another one than before for the same b->taken. Counts lists that could not be made smaller; they stay where they
 * are. */
void graph_delete(struct list *lists, const struct batch *b, unsigned run, struct tally *t);
void graph_free(struct list *lists, unsigned vertices);

/* ---- plain.cu --------------------------------------------------------------------------------- */

/* Edges 0 to count - 1 of the R-MAT graph of 2^scale vertices. */
void plain_rmat(struct edge *edges, unsigned scale, unsigned count);
/* Counts, as corrupt, vertices whose list is not as expected, or not aligned. */
void plain_lists_check(const struct list *lists, const struct list_sum *expected, unsigned vertices, struct tally *t);

#ifdef __cplusplus
}
#endif
#endif
