/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases "pagerank" and "triangles": applications over the adjacency lists of a graph, in memory that a kernel allocated. They measure how
 * fast lists are built and freed, and how fast a program reads them where the allocator placed them. M. Winter, D. Mlakar, R. Zayer, H.-P. Seidel,
 * M. Steinberger, "faimGraph: high performance management of fully-dynamic graphs under tight memory constraints on the GPU", SC 2018, measures
 * the same two applications on its lists. The graph is R-MAT (../rmat.h).
 *
 * Representation: a list holds the out-neighbours of one vertex, in memory for capacity_of(degree) edges (../graph.h). One thread takes this
 * memory, and one thread gives it back. An empty list has no memory. The input of a kernel is the graph grouped by vertex, cut into pieces: a piece is
 * up to RANKS_PIECE_EDGES consecutive edges of one list, so that many warps share the work on a long list. The host cuts the pieces, untimed; they
 * depend on the degrees only.
 *
 *   build     takes memory for the lists, one thread per vertex; then copies the neighbours there, piece by piece
 *   rank      pagerank: RANKS_ITERATIONS over all edges
 *   count     triangles: intersects lists
 *   free      gives all lists back, one thread per vertex
 *
 * PageRank, push style: in each iteration a vertex sends 0.85 of its rank to its out-neighbours, in equal shares. The rank of a vertex without
 * out-neighbours is dropped. Ranks are 64-bit fixed-point numbers, so that they do not depend on the order of the additions, and the GPU's
 * ranks equal the CPU's bit by bit.
 *   Invariant: the ranks of n vertices add up to at most n * RANKS_ONE. Each starts with RANKS_ONE. In an iteration, a vertex of rank r sends at
 *   most r * 17/20, because shares are rounded down; and each vertex starts with RANKS_BASE <= RANKS_ONE * 3/20.
 *   So a rank is at most 2^RANKS_SCALE_MAX * RANKS_ONE = 2^59, at any time in an iteration, and 17 times that is below 2^64.
 *
 * Triangles: the graph is made simple, and each edge is oriented from the vertex of lower degree to the other one; between equal degrees, from the
 * lower number to the higher one. Then each triangle has exactly one vertex u with edges u->v, v->w, u->w, and is counted for u (T. Schank,
 * D. Wagner, "Finding, counting and listing all triangles in large graphs, an experimental study", WEA 2005). Lists are in ascending order. For each
 * edge u->v, each neighbour in the shorter list is searched in the longer one. In a large graph only the triangles of a sample of the vertices
 * u are counted.
 */
#ifndef MM_BENCH_RANKS_H
#define MM_BENCH_RANKS_H

#include "tools/mmbench/child/graph.h"

/* ---- the graph, on the host or on the device ---------------------------------------------------- */

#define RANKS_PIECE_EDGES 32u /* few, so that the piece with most work does not prolong a kernel: in "count" each edge is a search for a whole list */

struct ranks_piece {
    unsigned vertex, first; /* edges first, first + 1, ... of its list */
};

struct ranks_graph {
    unsigned vertices, edges, pieces;
    unsigned *offsets; /* vertices + 1 of them: the edges of vertex v lead to targets[offsets[v]], ..., targets[offsets[v + 1] - 1] */
    unsigned *targets;
    struct ranks_piece *cut; /* `pieces` of them, of all lists, by vertex */
};

/* The end of the piece in a list of that degree. It is not after p->first if the list is too short, as after a NULL. */
TOOLS_BOTH unsigned ranks_piece_end(const struct ranks_piece *p, unsigned degree) {
    return degree < p->first + RANKS_PIECE_EDGES ? degree : p->first + RANKS_PIECE_EDGES;
}

/* ---- PageRank --------------------------------------------------------------------------------- */

#define RANKS_ITERATIONS 10u
#define RANKS_SCALE_MAX 27u             /* at most 2^27 vertices: see the invariant */
#define RANKS_ONE (1ull << 32)          /* the rank of every vertex at first */
#define RANKS_BASE (RANKS_ONE * 3 / 20) /* the rank of a vertex that receives no share: 1 - 0.85 */

/* The share of each neighbour: 0.85 * rank / degree. */
TOOLS_BOTH unsigned long long ranks_share(unsigned long long rank, unsigned degree) { return degree == 0 ? 0 : rank * 17 / (20ull * degree); }

/* ---- triangles -------------------------------------------------------------------------------- */

/* The largest graph that is counted in full. */
#define RANKS_FULL_EDGES (1u << 24)

/* Whether u is in the sample of one vertex in 2^shift. */
TOOLS_BOTH int ranks_sampled(unsigned u, unsigned shift) { return (mix(u + 0x2f0b4c47u) & ((1u << shift) - 1)) == 0; }

/* The sample for a graph of that many edges. A doubling of the edges about triples the CPU's work, and the sample shrinks accordingly:
 * log2(3) is about 3/2, rounded up. So the CPU takes about as long for 2^27 edges as for 2^24. */
TOOLS_BOTH unsigned ranks_sample_shift(unsigned long long edges) {
    unsigned doublings = 0;
    while (edges > (unsigned long long)RANKS_FULL_EDGES << doublings) doublings++;
    return (doublings * 3 + 1) / 2;
}

/* ---- ranks_host.c ------------------------------------------------------------------------------- */

/* The input of a case, and the expected results. */
struct ranks_work {
    struct ranks_graph graph;
    struct list_sum *lists;      /* the expected lists */
    unsigned long long *results; /* the expected rank of each vertex, or its triangles: 0 outside the sample */
    unsigned sample_shift;       /* triangles */
};

/* Both return 0 if there is no memory; ranks_drop also then. The vertices are at most 2^RANKS_SCALE_MAX, the edges at most 2^31. */
int ranks_make_pagerank(struct ranks_work *w, const struct edge *edges, unsigned count, unsigned vertices);
/* Makes the graph simple and oriented; uses `edges` for that. */
int ranks_make_triangles(struct ranks_work *w, struct edge *edges, unsigned count, unsigned vertices, unsigned sample_shift);
void ranks_drop(struct ranks_work *w);
/* Bytes of all lists, each rounded up to `alignment`. */
unsigned long long ranks_bytes(const struct ranks_graph *g, unsigned alignment);

/* ---- ranks_kernels.h ---------------------------------------------------------------------------- */

struct bump;

/* Launches. All pointers are to device memory, except g itself. */
struct ranks_kernels {
    /* Counts NULLs; the lists of those vertices are empty. */
    void (*build)(const struct ranks_graph *g, struct list *lists, struct bump *bump, struct tally *t);
    void (*rank)(const struct ranks_graph *g, const struct list *lists, unsigned long long *ranks, unsigned long long *shares);
    void (*count)(const struct ranks_graph *g, const struct list *lists, unsigned sample_shift, unsigned long long *triangles);
    void (*give)(struct list *lists, unsigned vertices);
    /* Counts, as corrupt, the vertices with another result. */
    void (*compare)(const unsigned long long *results, const unsigned long long *expected, unsigned vertices, struct tally *t);
};

#ifdef __cplusplus
extern "C" {
#endif

extern const struct ranks_kernels alloc_ranks, floor_ranks;

/* ---- ranks_case.c ----------------------------------------------------------------------------- */

void run_pagerank(const struct request *q);
void run_triangles(const struct request *q);

#ifdef __cplusplus
}
#endif
#endif
