/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench's cases pagerank and triangles without a GPU: their graphs and expected results, and their kernels, with a CPU thread for each thread
 * of a CTA. malloc and free are those of the C library, counted; malloc returns NULL when a test wants it. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/counted.h"
#include "tests/bench/cta.h"
#include "tests/runner.h"

#define malloc counted_malloc
#define free counted_free
#include "tools/mmbench/child/papers/ranks_kernels.h"
#undef malloc
#undef free
#include "tools/mmbench/child/lists_check.h"
#include "tools/mmbench/child/rmat.h"
#include "tools/mmbench/protocol.h"

/* ---- kernels ---------------------------------------------------------------------------------- */

/* A graph, what is expected of it, and the device memory of a run. */
struct fixture {
    struct edge *edges; /* as they were before the graph was made */
    unsigned count;
    struct ranks_work w;
    struct list *lists;
    unsigned long long *results, *shares, start; /* start: what ranks_fill_kernel writes */
    struct tally t;
};

static void take_body(const void *of) {
    struct fixture *f = (struct fixture *)of;
    ranks_take_kernel(f->w.graph, f->lists, NULL, &f->t);
}
static void copy_body(const void *of) { ranks_copy_kernel(((const struct fixture *)of)->w.graph, ((const struct fixture *)of)->lists); }
static void fill_body(const void *of) {
    const struct fixture *f = (const struct fixture *)of;
    ranks_fill_kernel(f->results, f->start, f->w.graph.vertices);
}
static void share_body(const void *of) {
    const struct fixture *f = (const struct fixture *)of;
    ranks_share_kernel(f->lists, f->results, f->shares, f->w.graph.vertices);
}
static void push_body(const void *of) {
    const struct fixture *f = (const struct fixture *)of;
    ranks_push_kernel(f->w.graph, f->lists, f->results, f->shares);
}
static void count_body(const void *of) {
    const struct fixture *f = (const struct fixture *)of;
    ranks_count_kernel(f->w.graph, f->lists, f->w.sample_shift, f->results);
}
static void give_body(const void *of) { ranks_give_kernel(((const struct fixture *)of)->lists, ((const struct fixture *)of)->w.graph.vertices); }
static void compare_body(const void *of) {
    struct fixture *f = (struct fixture *)of;
    ranks_compare_kernel(f->results, f->w.results, f->w.graph.vertices, &f->t);
}
static void check_body(const void *of) {
    struct fixture *f = (struct fixture *)of;
    lists_check_kernel(f->lists, f->w.lists, &f->t);
}

static void launch(void (*body)(const void *), struct fixture *f, unsigned threads) {
    cta_launch(body, f, (threads + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS);
}

/* The steps, as ranks_kernels.h launches them. */
static void build(struct fixture *f) {
    launch(take_body, f, f->w.graph.vertices);
    launch(copy_body, f, f->w.graph.pieces * RANKS_GROUP_THREADS);
}
static void rank(struct fixture *f) {
    f->start = RANKS_ONE;
    launch(fill_body, f, f->w.graph.vertices);
    for (unsigned k = 0; k < RANKS_ITERATIONS; k++) {
        launch(share_body, f, f->w.graph.vertices);
        launch(push_body, f, f->w.graph.pieces * RANKS_GROUP_THREADS);
    }
}
static void count(struct fixture *f) {
    f->start = 0;
    launch(fill_body, f, f->w.graph.vertices);
    launch(count_body, f, f->w.graph.pieces * WARP_THREADS);
}
static void give(struct fixture *f) { launch(give_body, f, f->w.graph.vertices); }

/* The lists, or the results, that differ from the expected ones. */
static unsigned long long wrong_lists(struct fixture *f) {
    f->t.corrupt = 0;
    cta_launch(check_body, f, f->w.graph.vertices, 4);
    return f->t.corrupt;
}
static unsigned long long wrong_results(struct fixture *f) {
    f->t.corrupt = 0;
    launch(compare_body, f, f->w.graph.vertices);
    return f->t.corrupt;
}

/* ---- graphs ----------------------------------------------------------------------------------- */

enum application { PAGERANK, TRIANGLES };

/* Takes the edges. */
static void open_graph(struct fixture *f, enum application application, struct edge *edges, unsigned count, unsigned vertices, unsigned sample_shift) {
    struct edge *used = (struct edge *)malloc(count * sizeof *used);
    memset(f, 0, sizeof *f);
    live = calls = null_every = 0;
    ck_assert(used != NULL);
    memcpy(used, edges, count * sizeof *used);
    f->edges = edges;
    f->count = count;
    if (application == PAGERANK) ck_assert(ranks_make_pagerank(&f->w, used, count, vertices));
    else ck_assert(ranks_make_triangles(&f->w, used, count, vertices, sample_shift));
    free(used);
    f->lists = (struct list *)calloc(vertices, sizeof *f->lists);
    f->results = (unsigned long long *)calloc(vertices, sizeof *f->results);
    f->shares = (unsigned long long *)calloc(vertices, sizeof *f->shares);
    ck_assert(f->lists && f->results && f->shares);
}

static void close_graph(struct fixture *f) {
    ranks_drop(&f->w);
    free(f->edges);
    free(f->lists);
    free(f->results);
    free(f->shares);
}

static void open_lesmis(struct fixture *f, enum application application) {
    struct edge *edges = (struct edge *)malloc(MM_BENCH_LESMIS_EDGES * sizeof *edges);
    ck_assert(edges != NULL);
    workload_lesmis(edges);
    open_graph(f, application, edges, MM_BENCH_LESMIS_EDGES, MM_BENCH_LESMIS_VERTICES, 0);
}

/* A small graph, but with lists of many pieces, with multiple edges, and with vertices without edges. */
#define RMAT_SCALE 8u
static void open_rmat(struct fixture *f, enum application application, unsigned sample_shift) {
    enum { VERTICES = 1 << RMAT_SCALE, EDGES = 16 * VERTICES };
    struct edge *edges = (struct edge *)malloc(EDGES * sizeof *edges);
    ck_assert(edges != NULL);
    for (unsigned i = 0; i < EDGES; i++) edges[i] = rmat_edge(RMAT_SCALE, i);
    open_graph(f, application, edges, EDGES, VERTICES, sample_shift);
}

/* ---- expected results, from their definitions ----------------------------------------------------- */

/* PageRank in floating point; the average rank is 1. */
static void check_ranks(const struct fixture *f) {
    enum { MOST = 1 << RMAT_SCALE };
    static double ranks[MOST], next[MOST];
    static unsigned degrees[MOST];
    const unsigned vertices = f->w.graph.vertices;
    unsigned long long all = 0;
    memset(degrees, 0, sizeof degrees);
    for (unsigned i = 0; i < f->count; i++) degrees[f->edges[i].from]++;
    for (unsigned v = 0; v < vertices; v++) ranks[v] = 1;
    for (unsigned k = 0; k < RANKS_ITERATIONS; k++) {
        for (unsigned v = 0; v < vertices; v++) next[v] = 0.15;
        for (unsigned i = 0; i < f->count; i++) next[f->edges[i].to] += 0.85 * ranks[f->edges[i].from] / degrees[f->edges[i].from];
        memcpy(ranks, next, sizeof ranks);
    }
    for (unsigned v = 0; v < vertices; v++) {
        const double got = (double)f->w.results[v] / (double)RANKS_ONE;
        ck_assert_msg(fabs(got - ranks[v]) < 1e-6 * ranks[v], "vertex %u: %.9f, expected %.9f", v, got, ranks[v]);
        all += f->w.results[v];
    }
    ck_assert_uint_le(all, vertices * RANKS_ONE);
}

/* The simple graph as a matrix. */
struct matrix {
    unsigned vertices, degrees[1 << RMAT_SCALE];
    unsigned char linked[1 << RMAT_SCALE][1 << RMAT_SCALE];
};

static const struct matrix *matrix_of(const struct fixture *f) {
    static struct matrix m;
    memset(&m, 0, sizeof m);
    m.vertices = f->w.graph.vertices;
    for (unsigned i = 0; i < f->count; i++)
        if (f->edges[i].from != f->edges[i].to) m.linked[f->edges[i].from][f->edges[i].to] = m.linked[f->edges[i].to][f->edges[i].from] = 1;
    for (unsigned u = 0; u < m.vertices; u++)
        for (unsigned v = 0; v < m.vertices; v++) m.degrees[u] += m.linked[u][v];
    return &m;
}

static int below(const struct matrix *m, unsigned u, unsigned v) { return m->degrees[u] != m->degrees[v] ? m->degrees[u] < m->degrees[v] : u < v; }

/* The triangles of which u is the lowest vertex. */
static unsigned triangles_of(const struct matrix *m, unsigned u) {
    unsigned found = 0;
    for (unsigned v = 0; v < m->vertices; v++)
        for (unsigned w = v + 1; m->linked[u][v] && w < m->vertices; w++) found += m->linked[u][w] && m->linked[v][w] && below(m, u, v) && below(m, u, w);
    return found;
}

/* Checks the expected triangles; returns how many there are, in the sample. */
static unsigned long long check_triangles(const struct fixture *f) {
    const struct matrix *m = matrix_of(f);
    unsigned long long all = 0;
    for (unsigned u = 0; u < m->vertices; u++) {
        ck_assert_uint_eq(f->w.results[u], ranks_sampled(u, f->w.sample_shift) ? triangles_of(m, u) : 0);
        all += f->w.results[u];
    }
    return all;
}

START_TEST(ranks_are_right) {
    struct fixture f;
    open_lesmis(&f, PAGERANK);
    check_ranks(&f);
    close_graph(&f);
    open_rmat(&f, PAGERANK, 0);
    check_ranks(&f);
    close_graph(&f);
}
END_TEST

START_TEST(triangles_are_right) {
    struct fixture f;
    open_lesmis(&f, TRIANGLES);
    ck_assert_uint_eq(check_triangles(&f), 467);
    close_graph(&f);
    open_rmat(&f, TRIANGLES, 0);
    ck_assert_uint_gt(check_triangles(&f), 1000);
    close_graph(&f);
    open_rmat(&f, TRIANGLES, 2);
    ck_assert_uint_gt(check_triangles(&f), 0);
    close_graph(&f);
}
END_TEST

/* Each edge of the simple graph is there once, from the lower vertex, in ascending order. */
START_TEST(graph_is_simple) {
    struct fixture f;
    open_rmat(&f, TRIANGLES, 0);
    const struct ranks_graph *g = &f.w.graph;
    const struct matrix *m = matrix_of(&f);
    unsigned edges = 0;
    for (unsigned v = 0; v < g->vertices; v++) {
        edges += m->degrees[v];
        for (unsigned i = g->offsets[v]; i < g->offsets[v + 1]; i++) {
            ck_assert(m->linked[v][g->targets[i]] && below(m, v, g->targets[i]));
            ck_assert(i == g->offsets[v] || g->targets[i - 1] < g->targets[i]);
        }
    }
    ck_assert_uint_eq(g->edges * 2, edges);
    ck_assert_uint_lt(g->edges, f.count); /* otherwise the test is too small */
    close_graph(&f);
}
END_TEST

/* The pieces are all edges, each once. */
START_TEST(pieces) {
    struct fixture f;
    open_rmat(&f, PAGERANK, 0);
    const struct ranks_graph *g = &f.w.graph;
    unsigned next = 0, most = 0, empty = 0;
    for (unsigned p = 0; p < g->pieces; p++) {
        const unsigned v = g->cut[p].vertex, degree = g->offsets[v + 1] - g->offsets[v];
        ck_assert_uint_eq(g->offsets[v] + g->cut[p].first, next);
        next = g->offsets[v] + ranks_piece_end(&g->cut[p], degree);
        if (degree > most) most = degree;
    }
    for (unsigned v = 0; v < g->vertices; v++) empty += g->offsets[v] == g->offsets[v + 1];
    ck_assert_uint_eq(next, f.count);
    ck_assert(most > 4 * RANKS_PIECE_EDGES && empty > 0); /* otherwise the test is too small */
    close_graph(&f);
}
END_TEST

START_TEST(samples) {
    unsigned in = 0;
    for (unsigned v = 0; v < 1u << 16; v++) {
        ck_assert(ranks_sampled(v, 0));
        in += ranks_sampled(v, 4) != 0;
    }
    ck_assert(in > 3840 && in < 4352); /* 4096, within four standard deviations */
    ck_assert_uint_eq(ranks_sample_shift(1u << 20), 0);
    ck_assert_uint_eq(ranks_sample_shift(1u << 24), 0);
    ck_assert_uint_eq(ranks_sample_shift(1u << 27), 5);
}
END_TEST

/* ---- the steps -------------------------------------------------------------------------------- */

static void work(struct fixture *f, enum application application) {
    if (application == PAGERANK) rank(f);
    else count(f);
}

static void lists_only(struct fixture *f) {
    ck_assert_uint_ne(wrong_lists(f), 0); /* so a step that does nothing is detected */
    build(f);
    ck_assert_uint_eq(f->t.nulls, 0);
    ck_assert_uint_eq(wrong_lists(f), 0);
    ck_assert_uint_eq(live, ranks_bytes(&f->w.graph, 1));
}

static void all_steps(struct fixture *f, enum application application) {
    lists_only(f);
    memset(f->results, 0xff, f->w.graph.vertices * sizeof *f->results); /* of an earlier run */
    ck_assert_uint_ne(wrong_results(f), 0);
    work(f, application);
    ck_assert_uint_eq(wrong_results(f), 0);
    give(f);
    ck_assert_uint_eq(live, 0);
    lists_only(f);
    give(f);
    ck_assert_uint_eq(live, 0);
    close_graph(f);
}

START_TEST(pagerank_steps) {
    struct fixture f;
    open_lesmis(&f, PAGERANK);
    all_steps(&f, PAGERANK);
    open_rmat(&f, PAGERANK, 0);
    all_steps(&f, PAGERANK);
}
END_TEST

START_TEST(triangles_steps) {
    struct fixture f;
    open_lesmis(&f, TRIANGLES);
    all_steps(&f, TRIANGLES);
    for (unsigned shift = 0; shift <= 2; shift += 2) {
        open_rmat(&f, TRIANGLES, shift);
        all_steps(&f, TRIANGLES);
    }
}
END_TEST

/* The bump pointer has room for exactly these bytes. */
START_TEST(bytes) {
    struct ranks_graph g;
    unsigned offsets[] = {0, 0, 1, 5, 10, 43}; /* degrees 0, 1, 4, 5, 33 */
    memset(&g, 0, sizeof g);
    g.vertices = 5;
    g.offsets = offsets;
    ck_assert_uint_eq(ranks_bytes(&g, BUMP_ALIGNMENT), 16 + 16 + 32 + 256);
    ck_assert_uint_eq(ranks_bytes(&g, 64), 64 + 64 + 64 + 256);
}
END_TEST

/* A vertex whose malloc returns NULL has an empty list. The other kernels finish, and no memory leaks. */
START_TEST(nulls) {
    for (int application = PAGERANK; application <= TRIANGLES; application++) {
        struct fixture f;
        open_rmat(&f, (enum application)application, 0);
        null_every = 3;
        build(&f);
        ck_assert_uint_eq(f.t.nulls, calls / 3);
        ck_assert_uint_gt(f.t.nulls, 50);
        ck_assert_uint_eq(wrong_lists(&f), f.t.nulls);
        for (unsigned v = 0; v < f.w.graph.vertices; v++) ck_assert((f.lists[v].edges == NULL) == (f.lists[v].degree == 0));
        work(&f, (enum application)application);
        give(&f);
        ck_assert_uint_eq(live, 0);
        null_every = 1;
        build(&f);
        give(&f);
        ck_assert_uint_eq(live, 0);
        close_graph(&f);
    }
}
END_TEST

/* ---- the comparisons -------------------------------------------------------------------------- */

START_TEST(faults_are_found) {
    for (int application = PAGERANK; application <= TRIANGLES; application++) {
        struct fixture f;
        unsigned v = 0;
        open_lesmis(&f, (enum application)application);
        build(&f);
        while (f.w.results[v] == 0 || f.lists[v].degree < 2) v++;
        f.lists[v].edges[1] ^= 1; /* another vertex of the graph: all numbers below 76 have one */
        ck_assert_uint_eq(wrong_lists(&f), 1);
        work(&f, (enum application)application);
        ck_assert_uint_ne(wrong_results(&f), 0);
        f.lists[v].edges[1] ^= 1;
        ck_assert_uint_eq(wrong_lists(&f), 0);
        work(&f, (enum application)application);
        ck_assert_uint_eq(wrong_results(&f), 0);
        f.results[v]++;
        ck_assert_uint_eq(wrong_results(&f), 1);
        f.lists[v].degree--;
        ck_assert_uint_eq(wrong_lists(&f), 1);
        give(&f);
        ck_assert_uint_eq(live, 0);
        close_graph(&f);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ranks");
    TCase *host = tcase_create("host"), *kernels = tcase_create("kernels");
    tcase_add_test(host, ranks_are_right);
    tcase_add_test(host, triangles_are_right);
    tcase_add_test(host, graph_is_simple);
    tcase_add_test(host, pieces);
    tcase_add_test(host, samples);
    tcase_add_test(host, bytes);
    tcase_add_test(kernels, pagerank_steps);
    tcase_add_test(kernels, triangles_steps);
    tcase_add_test(kernels, nulls);
    tcase_add_test(kernels, faults_are_found);
    tcase_set_timeout(host, 120);
    tcase_set_timeout(kernels, 300);
    suite_add_tcase(suite, host);
    suite_add_tcase(suite, kernels);
    return suite_run(suite);
}
