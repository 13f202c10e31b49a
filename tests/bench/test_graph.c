/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench's graph without a GPU: its edges, its batches, and its kernels, with a CPU thread for each thread of a CTA. malloc and free are
 * those of the C library, counted; malloc returns NULL when a test wants it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/counted.h"
#include "tests/bench/cta.h"
#include "tests/runner.h"

#define malloc counted_malloc
#define free counted_free
#include "tools/mmbench/child/lists.h"
#undef malloc
#undef free
#include "tools/mmbench/child/lists_check.h"
#include "tools/mmbench/child/rmat.h"
#include "tools/mmbench/protocol.h"

/* ---- kernels ---------------------------------------------------------------------------------- */

struct arguments {
    struct list *lists;
    const struct batch *batch;
    const struct list_sum *expected;
    unsigned vertices, run;
    struct tally *t;
};

static void insert_body(const void *of) {
    const struct arguments *a = (const struct arguments *)of;
    insert_kernel(a->lists, *a->batch, NULL, a->t);
}
static void delete_body(const void *of) {
    const struct arguments *a = (const struct arguments *)of;
    delete_kernel(a->lists, *a->batch, a->run, NULL, a->t);
}
static void free_body(const void *of) {
    const struct arguments *a = (const struct arguments *)of;
    free_kernel(a->lists, a->vertices);
}
static void check_body(const void *of) {
    const struct arguments *a = (const struct arguments *)of;
    lists_check_kernel(a->lists, a->expected, a->t);
}

static unsigned ctas_for(unsigned vertices) { return (vertices + CTA_THREADS - 1) / CTA_THREADS; }

/* A graph, its workload, and its lists during a run. */
struct fixture {
    struct workload w;
    struct list *lists;
    struct tally t;
};

static void phase(struct fixture *f, int phase, unsigned run) {
    const struct batch *b = phase == GRAPH_FREE ? NULL : &f->w.batches[phase];
    const struct arguments a = {f->lists, b, f->w.expected[phase], f->w.vertices, run, &f->t};
    cta_launch(phase == GRAPH_FREE ? free_body : phase == GRAPH_DELETE ? delete_body : insert_body, &a, ctas_for(b ? b->vertices : f->w.vertices), CTA_THREADS);
}

/* The number of lists that are not as expected after that phase. Checks that the kernel finds the same number. */
static unsigned long long wrong(struct fixture *f, int phase) {
    struct tally t;
    const struct arguments a = {f->lists, NULL, f->w.expected[phase], f->w.vertices, 0, &t};
    unsigned long long count = 0;
    memset(&t, 0, sizeof t);
    cta_launch(check_body, &a, f->w.vertices, 4);
    for (unsigned v = 0; v < f->w.vertices; v++) {
        const struct list *l = &f->lists[v];
        unsigned long long sum = 0;
        for (unsigned i = 0; i < l->degree; i++) sum += neighbour_hash(l->edges[i]);
        count += l->degree != f->w.expected[phase][v].degree || sum != f->w.expected[phase][v].sum || (l->edges == NULL) != (l->degree == 0);
    }
    ck_assert_uint_eq(t.corrupt, count);
    return count;
}

/* Bytes of all lists, if each has the right capacity. */
static unsigned long long asked(const struct fixture *f) {
    unsigned long long bytes = 0;
    for (unsigned v = 0; v < f->w.vertices; v++)
        if (f->lists[v].degree != 0) bytes += capacity_of(f->lists[v].degree) * sizeof *f->lists[v].edges;
    return bytes;
}

static void open_graph(struct fixture *f, struct edge *all, unsigned vertices, unsigned edges, unsigned updates, unsigned range) {
    memset(f, 0, sizeof *f);
    live = calls = null_every = 0;
    ck_assert(workload_make(&f->w, all, vertices, edges, updates, range));
    struct batch *b = &f->w.batches[GRAPH_DELETE];
    b->taken = (unsigned *)calloc(b->edges, sizeof *b->taken);
    f->lists = (struct list *)calloc(vertices, sizeof *f->lists);
    ck_assert(b->taken && f->lists);
}

static void close_graph(struct fixture *f) {
    free(f->w.batches[GRAPH_DELETE].taken);
    workload_drop(&f->w);
    free(f->lists);
}

static void open_lesmis(struct fixture *f) {
    const unsigned edges = MM_BENCH_LESMIS_EDGES, updates = edges >> MM_BENCH_GRAPH_BATCH_SHIFT;
    struct edge all[MM_BENCH_LESMIS_EDGES * 2];
    workload_lesmis(all);
    open_graph(f, all, MM_BENCH_LESMIS_VERTICES, edges, updates, MM_BENCH_LESMIS_VERTICES >> MM_BENCH_LESMIS_RANGE_SHIFT);
}

/* A small graph, but with lists longer than a CTA's width, and with multiple edges. */
#define RMAT_SCALE 9u
static void open_rmat(struct fixture *f) {
    enum { VERTICES = 1 << RMAT_SCALE, EDGES = 64 * VERTICES, UPDATES = EDGES / 4 };
    struct edge *all = (struct edge *)malloc((EDGES + UPDATES) * sizeof *all);
    ck_assert(all != NULL);
    for (unsigned i = 0; i < EDGES; i++) all[i] = rmat_edge(RMAT_SCALE, i);
    open_graph(f, all, VERTICES, EDGES, UPDATES, VERTICES / 16);
    free(all);
}

static void all_phases(struct fixture *f) {
    for (unsigned run = 1; run <= 3; run++) {
        for (int p = 0; p < GRAPH_PHASES; p++) {
            if (p > 0) ck_assert_uint_ne(wrong(f, p), 0); /* so a phase that does nothing is detected */
            phase(f, p, run);
            ck_assert_uint_eq(f->t.nulls, 0);
            ck_assert_uint_eq(wrong(f, p), 0);
            ck_assert_uint_eq(live, asked(f));
        }
        ck_assert_uint_eq(live, 0);
    }
    close_graph(f);
}

START_TEST(lesmis_phases) {
    struct fixture f;
    open_lesmis(&f);
    all_phases(&f);
}
END_TEST

START_TEST(rmat_phases) {
    struct fixture f;
    unsigned most = 0, shrunk = 0;
    open_rmat(&f);
    for (unsigned v = 0; v < f.w.vertices; v++) {
        const unsigned before = f.w.expected[GRAPH_INSERT][v].degree, after = f.w.expected[GRAPH_DELETE][v].degree;
        if (before > most) most = before;
        shrunk += capacity_of(after) < capacity_of(before);
    }
    ck_assert_uint_gt(most, 2 * CTA_THREADS); /* otherwise the test is too small */
    ck_assert_uint_gt(shrunk, 10);
    all_phases(&f);
}
END_TEST

/* If malloc returns NULL, the vertex stays as it was, the NULL is counted, and no memory leaks. */
START_TEST(nulls) {
    struct fixture f;
    open_rmat(&f);
    for (int p = 0; p < GRAPH_PHASES; p++) {
        const unsigned long long nulls = f.t.nulls, before = calls;
        null_every = 3;
        phase(&f, p, 1);
        null_every = 0;
        ck_assert_uint_eq(f.t.nulls - nulls, calls / 3 - before / 3);
        ck_assert_uint_ge(live, asked(&f)); /* more, if a list could not shrink */
    }
    ck_assert_uint_gt(f.t.nulls, 100);
    ck_assert_uint_eq(live, 0);
    close_graph(&f);
}
END_TEST

/* Deleting edges that do not exist is harmless, and all edges of a vertex may be deleted at once. */
START_TEST(deletes_what_is_there) {
    enum { DEGREE = 300 };
    struct edge all[DEGREE + 1];
    struct fixture f;
    for (unsigned i = 0; i < DEGREE; i++) {
        all[i].from = 1;
        all[i].to = i / 50;
    }
    open_graph(&f, all, 2, DEGREE, 1, 1);
    phase(&f, GRAPH_INIT, 1);
    ck_assert_uint_eq(f.lists[1].degree, DEGREE);
    struct batch *b = &f.w.batches[GRAPH_DELETE]; /* the inserted edges, which are in ascending order */
    free(b->offsets);
    free(b->targets);
    free(b->taken);
    *b = f.w.batches[GRAPH_INIT];
    f.w.batches[GRAPH_INIT].offsets = f.w.batches[GRAPH_INIT].targets = NULL;
    b->taken = (unsigned *)calloc(b->edges, sizeof *b->taken);
    ck_assert_ptr_nonnull(b->taken);
    for (unsigned run = 1; run <= 2; run++) {
        phase(&f, GRAPH_DELETE, run);
        ck_assert_uint_eq(f.lists[1].degree, 0);
        ck_assert_ptr_null(f.lists[1].edges);
        ck_assert_uint_eq(live, 0);
    }
    close_graph(&f);
}
END_TEST

/* ---- the comparison --------------------------------------------------------------------------- */

/* A wrong edge, or a missing neighbour, is found. */
START_TEST(faults_are_found) {
    struct fixture f;
    open_lesmis(&f);
    phase(&f, GRAPH_INIT, 1);
    f.lists[5].edges[0] ^= 1;
    ck_assert_uint_eq(wrong(&f, GRAPH_INIT), 1);
    f.lists[7].degree--;
    ck_assert_uint_eq(wrong(&f, GRAPH_INIT), 2);
    f.lists[7].degree++;
    f.lists[5].edges[0] ^= 1;
    ck_assert_uint_eq(wrong(&f, GRAPH_INIT), 0);
    phase(&f, GRAPH_FREE, 1);
    close_graph(&f);
}
END_TEST

START_TEST(capacities) {
    for (unsigned degree = 1; degree <= 5000; degree++) {
        const unsigned capacity = capacity_of(degree);
        ck_assert(capacity >= degree && capacity >= LIST_EDGES_MIN && (capacity & (capacity - 1)) == 0);
        ck_assert(capacity == LIST_EDGES_MIN || capacity / 2 < degree);
    }
}
END_TEST

/* ---- edges ------------------------------------------------------------------------------------ */

START_TEST(rmat_numbers_are_one_to_one) {
    for (unsigned scale = 1; scale <= 20; scale++) {
        unsigned char *seen = (unsigned char *)calloc(1u << scale, 1);
        ck_assert(seen != NULL);
        for (unsigned place = 0; place < 1u << scale; place++) {
            const unsigned v = rmat_number(scale, place);
            if (v >= 1u << scale || seen[v]) ck_abort_msg("scale %u: place %u has number %u", scale, place, v);
            seen[v] = 1;
        }
        free(seen);
    }
}
END_TEST

/* At every level, the shares of the quadrants are 0.57, 0.19, 0.19, 0.05, within five standard deviations. */
START_TEST(rmat_shares) {
    enum { EDGES = 1 << 18, SCALE = 16 };
    static unsigned count[SCALE][4];
    const double share[4] = {0.57, 0.19, 0.19, 0.05};
    for (unsigned i = 0; i < EDGES; i++) {
        const struct edge e = rmat_places(SCALE, i);
        for (unsigned level = 0; level < SCALE; level++) count[level][(e.from >> level & 1) << 1 | (e.to >> level & 1)]++;
    }
    for (unsigned level = 0; level < SCALE; level++)
        for (unsigned q = 0; q < 4; q++) {
            const double off = count[level][q] - share[q] * EDGES;
            ck_assert_msg(off * off < 25 * share[q] * (1 - share[q]) * EDGES, "level %u, quadrant %u: %u", level, q, count[level][q]);
        }
}
END_TEST

/* The graph is the same in every version, so that rows of two versions can be compared. */
START_TEST(rmat_stays) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 10000; i++) {
        const struct edge e = rmat_edge(20, i);
        sum = mix(sum ^ e.from) + mix(e.to + i);
    }
    ck_assert_uint_eq(sum, 2637680238u);
}
END_TEST

/* The real graph: no pair twice, no pair of a character with itself, no character alone. Only Valjean (10) has degree 36. */
START_TEST(lesmis_is_the_novel) {
    static unsigned char met[MM_BENCH_LESMIS_VERTICES][MM_BENCH_LESMIS_VERTICES];
    unsigned degree[MM_BENCH_LESMIS_VERTICES] = {0};
    struct edge all[MM_BENCH_LESMIS_EDGES];
    workload_lesmis(all);
    for (unsigned i = 0; i < MM_BENCH_LESMIS_EDGES; i++) {
        ck_assert(all[i].from < MM_BENCH_LESMIS_VERTICES && all[i].to < MM_BENCH_LESMIS_VERTICES);
        ck_assert(all[i].from != all[i].to && !met[all[i].from][all[i].to]);
        met[all[i].from][all[i].to] = 1;
        degree[all[i].from]++;
    }
    for (unsigned v = 0; v < MM_BENCH_LESMIS_VERTICES; v++) ck_assert(degree[v] > 0 && degree[v] <= 36 && (degree[v] == 36) == (v == 10));
}
END_TEST

/* Every edge is in its group, and in the delete batch the groups are in ascending order. */
START_TEST(batches) {
    struct fixture f;
    open_rmat(&f);
    for (int p = 0; p < GRAPH_BATCHES; p++) {
        const struct batch *b = &f.w.batches[p];
        ck_assert_uint_eq(b->offsets[0], 0);
        ck_assert_uint_eq(b->offsets[b->vertices], b->edges);
        for (unsigned v = 0; v < b->vertices; v++) {
            ck_assert(b->offsets[v] <= b->offsets[v + 1]);
            for (unsigned i = b->offsets[v] + 1; p == GRAPH_DELETE && i < b->offsets[v + 1]; i++) ck_assert(b->targets[i - 1] <= b->targets[i]);
        }
    }
    ck_assert_uint_eq(f.w.batches[GRAPH_RANGE].vertices, f.w.vertices / 16);
    close_graph(&f);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("graph");
    TCase *edges = tcase_create("edges"), *kernels = tcase_create("kernels");
    tcase_add_test(edges, rmat_numbers_are_one_to_one);
    tcase_add_test(edges, rmat_shares);
    tcase_add_test(edges, rmat_stays);
    tcase_add_test(edges, lesmis_is_the_novel);
    tcase_add_test(edges, batches);
    tcase_add_test(edges, capacities);
    tcase_add_test(kernels, lesmis_phases);
    tcase_add_test(kernels, rmat_phases);
    tcase_add_test(kernels, nulls);
    tcase_add_test(kernels, deletes_what_is_there);
    tcase_add_test(kernels, faults_are_found);
    tcase_set_timeout(edges, 60);
    tcase_set_timeout(kernels, 60);
    suite_add_tcase(suite, edges);
    suite_add_tcase(suite, kernels);
    return suite_run(suite);
}
