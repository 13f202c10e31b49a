/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of "pagerank" and "triangles" (ranks.h), with memory from memory.h. Plain C except for atomics and warp shuffles, so that a test
 * can run the kernels without a GPU (tests/bench/cta.h). CTA_THREADS per CTA.
 *
 * Ownership: in ranks_take_kernel and ranks_give_kernel one thread owns a list. The other kernels do not change it, except that
 * ranks_copy_kernel fills it: each position is written by one thread. No thread waits for another one outside its warp.
 */
#ifndef MM_BENCH_RANKS_KERNELS_H
#define MM_BENCH_RANKS_KERNELS_H

#include "tools/mmbench/child/papers/memory.h"
#include "tools/mmbench/child/papers/ranks.h"

/* Threads that read a list together: 8 of them read a sector of 32 bytes. Most lists are short, and a whole warp per list would be mostly idle. */
#define RANKS_GROUP_THREADS 8u

/* ---- build ------------------------------------------------------------------------------------ */

static __global__ void ranks_take_kernel(struct ranks_graph g, struct list *lists, struct bump *bump, struct tally *t) {
    const unsigned v = thread_idx();
    if (v >= g.vertices) return;
    struct list l = {NULL, g.offsets[v + 1] - g.offsets[v]};
    if (l.degree != 0) {
        l.edges = (unsigned *)memory_take(bump, capacity_of(l.degree) * sizeof *l.edges);
        if (l.edges == NULL) {
            l.degree = 0;
            atomicAdd(&t->nulls, 1ull);
        }
    }
    lists[v] = l;
}

/* RANKS_GROUP_THREADS for each piece. */
static __global__ void ranks_copy_kernel(struct ranks_graph g, const struct list *lists) {
    const unsigned group = thread_idx() / RANKS_GROUP_THREADS;
    if (group >= g.pieces) return;
    const struct ranks_piece p = g.cut[group];
    const struct list l = lists[p.vertex];
    const unsigned *__restrict__ const from = g.targets + g.offsets[p.vertex];
    unsigned *__restrict__ const to = l.edges;
    const unsigned end = ranks_piece_end(&p, l.degree);
    for (unsigned i = p.first + threadIdx.x % RANKS_GROUP_THREADS; i < end; i += RANKS_GROUP_THREADS) to[i] = from[i];
}

/* ---- rank ------------------------------------------------------------------------------------- */

static __global__ void ranks_fill_kernel(unsigned long long *results, unsigned long long value, unsigned vertices) {
    const unsigned v = thread_idx();
    if (v < vertices) results[v] = value;
}

/* Starts an iteration. */
static __global__ void ranks_share_kernel(const struct list *lists, unsigned long long *ranks, unsigned long long *shares, unsigned vertices) {
    const unsigned v = thread_idx();
    if (v >= vertices) return;
    shares[v] = ranks_share(ranks[v], lists[v].degree);
    ranks[v] = RANKS_BASE;
}

/* RANKS_GROUP_THREADS for each piece. */
static __global__ void ranks_push_kernel(struct ranks_graph g, const struct list *lists, unsigned long long *ranks, const unsigned long long *shares) {
    const unsigned group = thread_idx() / RANKS_GROUP_THREADS;
    if (group >= g.pieces) return;
    const struct ranks_piece p = g.cut[group];
    const struct list l = lists[p.vertex];
    const unsigned long long share = shares[p.vertex];
    const unsigned end = ranks_piece_end(&p, l.degree);
    for (unsigned i = p.first + threadIdx.x % RANKS_GROUP_THREADS; i < end; i += RANKS_GROUP_THREADS) atomicAdd(&ranks[l.edges[i]], share);
}

/* ---- count ------------------------------------------------------------------------------------ */

/* Whether x is in the list, which is in ascending order. */
static __device__ int ranks_holds(const struct list *l, unsigned x) {
    unsigned i = 0, beyond = l->degree; /* the first neighbour that is not less than x lies in [i, beyond] */
    while (i < beyond) {
        const unsigned middle = i + (beyond - i) / 2;
        if (l->edges[middle] < x) i = middle + 1;
        else beyond = middle;
    }
    return i < l->degree && l->edges[i] == x;
}

/* A warp for each piece, and in it RANKS_GROUP_THREADS for each edge u->v. All lanes of a warp return early, or none. */
static __global__ void ranks_count_kernel(struct ranks_graph g, const struct list *lists, unsigned sample_shift, unsigned long long *triangles) {
    const unsigned warp = thread_idx() / WARP_THREADS, lane = threadIdx.x % WARP_THREADS;
    unsigned mine = 0;
    if (warp >= g.pieces) return;
    const struct ranks_piece p = g.cut[warp];
    if (!ranks_sampled(p.vertex, sample_shift)) return;
    const struct list u = lists[p.vertex];
    const unsigned end = ranks_piece_end(&p, u.degree);
    for (unsigned i = p.first + lane / RANKS_GROUP_THREADS; i < end; i += WARP_THREADS / RANKS_GROUP_THREADS) {
        const struct list v = lists[u.edges[i]];
        const struct list shorter = u.degree < v.degree ? u : v, longer = u.degree < v.degree ? v : u;
        for (unsigned k = lane % RANKS_GROUP_THREADS; k < shorter.degree; k += RANKS_GROUP_THREADS) mine += ranks_holds(&longer, shorter.edges[k]);
    }
    for (unsigned bit = WARP_THREADS / 2; bit != 0; bit /= 2) mine += __shfl_xor_sync(~0u, mine, bit);
    if (lane == 0 && mine != 0) atomicAdd(&triangles[p.vertex], (unsigned long long)mine);
}

/* ---- free and compare --------------------------------------------------------------------------- */

static __global__ void ranks_give_kernel(struct list *lists, unsigned vertices) {
    const unsigned v = thread_idx();
    if (v >= vertices) return;
    const struct list l = lists[v];
    if (l.edges != NULL) memory_give(l.edges);
    lists[v].edges = NULL;
    lists[v].degree = 0;
}

static __global__ void ranks_compare_kernel(const unsigned long long *results, const unsigned long long *expected, unsigned vertices, struct tally *t) {
    const unsigned v = thread_idx();
    if (v < vertices && results[v] != expected[v]) atomicAdd(&t->corrupt, 1ull);
}

/* ---- launches --------------------------------------------------------------------------------- */

#ifdef __CUDACC__
static unsigned ranks_group_ctas(const struct ranks_graph *g) { return memory_ctas((unsigned long long)g->pieces * RANKS_GROUP_THREADS); }

static void ranks_build(const struct ranks_graph *g, struct list *lists, struct bump *bump, struct tally *t) {
    ranks_take_kernel<<<memory_ctas(g->vertices), CTA_THREADS>>>(*g, lists, bump, t);
    ranks_copy_kernel<<<ranks_group_ctas(g), CTA_THREADS>>>(*g, lists);
}

static void ranks_rank(const struct ranks_graph *g, const struct list *lists, unsigned long long *ranks, unsigned long long *shares) {
    const unsigned ctas = memory_ctas(g->vertices);
    ranks_fill_kernel<<<ctas, CTA_THREADS>>>(ranks, RANKS_ONE, g->vertices);
    for (unsigned k = 0; k < RANKS_ITERATIONS; k++) {
        ranks_share_kernel<<<ctas, CTA_THREADS>>>(lists, ranks, shares, g->vertices);
        ranks_push_kernel<<<ranks_group_ctas(g), CTA_THREADS>>>(*g, lists, ranks, shares);
    }
}

static void ranks_count(const struct ranks_graph *g, const struct list *lists, unsigned sample_shift, unsigned long long *triangles) {
    ranks_fill_kernel<<<memory_ctas(g->vertices), CTA_THREADS>>>(triangles, 0, g->vertices);
    ranks_count_kernel<<<memory_ctas((unsigned long long)g->pieces * WARP_THREADS), CTA_THREADS>>>(*g, lists, sample_shift, triangles);
}

static void ranks_give(struct list *lists, unsigned vertices) { ranks_give_kernel<<<memory_ctas(vertices), CTA_THREADS>>>(lists, vertices); }

static void ranks_compare(const unsigned long long *results, const unsigned long long *expected, unsigned vertices, struct tally *t) {
    ranks_compare_kernel<<<memory_ctas(vertices), CTA_THREADS>>>(results, expected, vertices, t);
}

extern "C" const struct ranks_kernels MEMORY_KERNELS(ranks) = {ranks_build, ranks_rank, ranks_count, ranks_give, ranks_compare};
#endif

#endif
