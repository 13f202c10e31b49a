/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Adjacency lists that grow and shrink: the kernels that allocate (graph.h describes a list and its owner). One thread per vertex
 * of the batch, CTA_THREADS per CTA. Plain C except for the barrier and the atomics, so that a test can run the kernels without a
 * GPU (tests/bench/cta.h).
 */
#ifndef MM_BENCH_LISTS_H
#define MM_BENCH_LISTS_H

#include "tools/mmbench/child/graph.h"
#include "tools/mmbench/child/papers/memory.h"

#define LISTS_ALONE 32u /* edges that one thread moves or searches; the whole CTA handles longer lists */

/* Copies for the whole CTA; in shared memory. A thread has at most two: the old edges, and the new ones. */
struct move {
    unsigned *to;
    const unsigned *from;
    unsigned edges;
};
struct moves {
    unsigned count;
    struct move all[2 * CTA_THREADS];
};

/* Copies at once, or leaves a long copy to moves_do. */
static __device__ void moves_add(struct moves *m, unsigned *to, const unsigned *from, unsigned edges) {
    if (edges > LISTS_ALONE) {
        struct move *move = &m->all[atomicAdd(&m->count, 1u)];
        move->to = to;
        move->from = from;
        move->edges = edges;
        return;
    }
    unsigned *__restrict__ const into = to;
    for (unsigned i = 0; i < edges; i++) into[i] = from[i];
}

/* Called by the whole CTA. All copies are complete when this returns. */
static __device__ void moves_do(const struct moves *m) {
    __syncthreads();
    for (unsigned k = 0; k < m->count; k++) {
        const struct move move = m->all[k];
        unsigned *__restrict__ const to = move.to;
        for (unsigned i = threadIdx.x; i < move.edges; i += CTA_THREADS) to[i] = move.from[i];
    }
    __syncthreads();
}

static __device__ unsigned *lists_alloc(unsigned degree, struct bump *bump, struct tally *t) {
    unsigned *edges = (unsigned *)memory_take(bump, capacity_of(degree) * sizeof *edges);
    if (edges == NULL) atomicAdd(&t->nulls, 1ull);
    return edges;
}

/* ---- insert ----------------------------------------------------------------------------------- */

static __global__ void insert_kernel(struct list *lists, struct batch b, struct bump *bump, struct tally *t) {
    __shared__ struct moves moves;
    const unsigned i = thread_idx();
    unsigned *old = NULL;
    if (threadIdx.x == 0) moves.count = 0;
    __syncthreads();
    const unsigned begin = i < b.vertices ? b.offsets[i] : 0, more = i < b.vertices ? b.offsets[i + 1] - begin : 0;
    if (more != 0) {
        struct list l = lists[b.first + i];
        unsigned *edges = l.edges;
        if (l.degree == 0 || l.degree + more > capacity_of(l.degree)) edges = lists_alloc(l.degree + more, bump, t);
        if (edges != NULL) {
            if (edges != l.edges) {
                old = l.edges;
                moves_add(&moves, edges, old, l.degree);
            }
            moves_add(&moves, edges + l.degree, b.targets + begin, more);
            l.edges = edges;
            l.degree += more;
            lists[b.first + i] = l;
        }
    }
    moves_do(&moves);
    if (old != NULL) memory_give(old);
}

/* ---- delete ----------------------------------------------------------------------------------- */

/* Searches targets [begin, end) for an occurrence of `to` that is not taken in this run yet, and takes it; returns whether there is one. Each
 * occurrence is taken once, so that of several equal edges of a list only as many are deleted as the batch contains. */
static __device__ int found(const struct batch *b, unsigned begin, unsigned end, unsigned to, unsigned run) {
    unsigned i = begin, beyond = end; /* the first target that is not less lies in [i, beyond] */
    while (i < beyond) {
        const unsigned middle = i + (beyond - i) / 2;
        if (b->targets[middle] < to) i = middle + 1;
        else beyond = middle;
    }
    for (; i < end && b->targets[i] == to; i++)
        if (atomicExch(&b->taken[i], run) != run) return 1;
    return 0;
}

/* A list that the whole CTA searches; in shared memory. */
struct search {
    unsigned *edges;
    unsigned degree, begin, end;
    unsigned kept;
};
struct searches {
    unsigned count;
    struct search all[CTA_THREADS];
};

/* Called by the whole CTA. Moves the kept edges to the front, CTA_THREADS edges at a time. Writes go only to positions that were read
 * before the barrier. */
static __device__ void searches_do(struct searches *s, const struct batch *b, unsigned run) {
    __syncthreads();
    for (unsigned k = 0; k < s->count; k++) {
        struct search *search = &s->all[k];
        const unsigned degree = search->degree;
        for (unsigned first = 0; first < degree; first += CTA_THREADS) {
            const unsigned i = first + threadIdx.x, to = i < degree ? search->edges[i] : 0;
            const int keep = i < degree && !found(b, search->begin, search->end, to, run);
            __syncthreads();
            if (keep) search->edges[atomicAdd(&search->kept, 1u)] = to;
        }
    }
    __syncthreads();
}

static __global__ void delete_kernel(struct list *lists, struct batch b, unsigned run, struct bump *bump, struct tally *t) {
    __shared__ struct moves moves;
    __shared__ struct searches searches;
    const unsigned i = thread_idx();
    unsigned *old = NULL, degree = 0, mine = ~0u; /* mine: index into searches.all */
    struct list l = {NULL, 0};
    if (threadIdx.x == 0) moves.count = searches.count = 0;
    __syncthreads();
    const unsigned begin = i < b.vertices ? b.offsets[i] : 0, end = i < b.vertices ? b.offsets[i + 1] : 0;
    if (begin != end) {
        l = lists[b.first + i];
        degree = l.degree;
        if (degree > LISTS_ALONE) {
            mine = atomicAdd(&searches.count, 1u);
            struct search *s = &searches.all[mine];
            s->edges = l.edges;
            s->degree = degree;
            s->begin = begin;
            s->end = end;
            s->kept = 0;
        } else {
            for (unsigned k = 0; k < degree;)
                if (found(&b, begin, end, l.edges[k], run)) l.edges[k] = l.edges[--degree];
                else k++;
        }
    }
    searches_do(&searches, &b, run);
    if (mine != ~0u) degree = searches.all[mine].kept;
    if (degree != l.degree) {
        unsigned *edges = degree == 0 ? NULL : l.edges;
        if (degree != 0 && capacity_of(degree) < capacity_of(l.degree)) {
            edges = lists_alloc(degree, bump, t);
            if (edges != NULL) moves_add(&moves, edges, l.edges, degree);
            else edges = l.edges;
        }
        if (edges != l.edges) old = l.edges;
        l.edges = edges;
        l.degree = degree;
        lists[b.first + i] = l;
    }
    moves_do(&moves);
    if (old != NULL) memory_give(old);
}

/* ---- free ------------------------------------------------------------------------------------- */

static __global__ void free_kernel(struct list *lists, unsigned vertices) {
    const unsigned i = thread_idx();
    if (i >= vertices) return;
    struct list l = lists[i];
    if (l.edges != NULL) memory_give(l.edges);
    l.edges = NULL;
    l.degree = 0;
    lists[i] = l;
}

/* ---- launches --------------------------------------------------------------------------------- */

#ifdef __CUDACC__
static void graph_insert(struct list *lists, const struct batch *b, struct bump *bump, struct tally *t) {
    insert_kernel<<<memory_ctas(b->vertices), CTA_THREADS>>>(lists, *b, bump, t);
}
static void graph_delete(struct list *lists, const struct batch *b, unsigned run, struct bump *bump, struct tally *t) {
    delete_kernel<<<memory_ctas(b->vertices), CTA_THREADS>>>(lists, *b, run, bump, t);
}
static void graph_free(struct list *lists, unsigned vertices) { free_kernel<<<memory_ctas(vertices), CTA_THREADS>>>(lists, vertices); }

extern "C" const struct graph_kernels MEMORY_KERNELS(graph) = {graph_insert, graph_delete, graph_free};
#endif

#endif
