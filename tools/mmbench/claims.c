/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmbench --claims: what the papers of published allocators claim, and what the rows of a measurement say of it. A claim is about the allocator of
 * that name behind mm's malloc, or about mm's default allocator.
 */
#include <string.h>

#include "tools/mmbench/mmbench.h"

#define NAMES_MAX 6
#define KIB 1024u

#define P_NAMES \
    { "ouroboros-s-p", "ouroboros-va-p", "ouroboros-vl-p" }
#define C_NAMES \
    { "ouroboros-s-c", "ouroboros-va-c", "ouroboros-vl-c" }
#define ALL_NAMES \
    { "ouroboros-s-p", "ouroboros-va-p", "ouroboros-vl-p", "ouroboros-s-c", "ouroboros-va-c", "ouroboros-vl-c" }
#define AUTHORS \
    { "ouro_ps", "ouro_pva", "ouro_pvl", "ouro_cs", "ouro_cva", "ouro_cvl" }
#define FEW ((1u << 25) / 200) /* units, .5 % */
#define WALKS \
    { "random-walk", "random-walk-bitmap", "random-walk-coop", "random-walk-runs" }

/* The figure is the row's number, or, if there is an allocator to compare with, how many times faster (AT_LEAST) or slower (else) it is. */
enum bound {
    AT_LEAST,
    AT_MOST,
    NEAR_1, /* differs from 1 by the value at most */
    FLAT    /* the largest figure is at most so many times the least */
};

struct claim {
    unsigned number; /* several lines may have the same: one claim, checked in several ways */
    const char *text, *paper;
    const char *names[NAMES_MAX];
    const char *of, *op;
    uint64_t size_least, size_most;
    uint32_t threads[2];            /* none: any */
    const char *against[NAMES_MAX]; /* allocators; one: for all names; none: the number itself */
    enum bound bound;
    double value;
};

/* clang-format off */
static const struct claim claims[] = {
    {1, "Ouroboros, pages: faster than CUDA's malloc, to 1 KiB", "163 to 274", P_NAMES, "scaling", "malloc", 16, KIB, {16384, 65536}, {"builtin"}, AT_LEAST, 100},
    {1, "Ouroboros, chunks: faster than CUDA's malloc", "15 to 18", C_NAMES, "scaling", "malloc", 16, 8 * KIB, {16384, 65536}, {"builtin"}, AT_LEAST, 15},
    {1, "Ouroboros: over the authors' code", "", ALL_NAMES, "single", "malloc", 16, 8 * KIB, {0}, AUTHORS, AT_MOST, 1.2},
    {1, "Ouroboros: over the authors' code, new heap", "", ALL_NAMES, "single_cold", "malloc", 16, 8 * KIB, {0}, AUTHORS, AT_MOST, 1.2},
    {2, "Ouroboros: virtualised arrays over arrays, pages", "little", {"ouroboros-va-p"}, "single", "malloc", 16, 8 * KIB, {0}, {"ouroboros-s-p"}, AT_MOST, 1.3},
    {2, "Ouroboros: virtualised arrays over arrays, chunks", "little", {"ouroboros-va-c"}, "single", "malloc", 16, 8 * KIB, {0}, {"ouroboros-s-c"}, AT_MOST, 1.3},
    {2, "Ouroboros: virtualised lists over the authors' code", "little", {"ouroboros-vl-p", "ouroboros-vl-c"}, "single", "malloc", 16, 8 * KIB, {0},
     {"ouro_pvl", "ouro_cvl"}, AT_MOST, 1},
    {3, "Ouroboros: share of the heap that can be used, 16 B", ".98", ALL_NAMES, "util", "share", 16, 16, {0}, {NULL}, AT_LEAST, .98},
    {4, "Ouroboros, chunks: share had again with another size", "all", C_NAMES, "reuse", "share", 4 * KIB, 4 * KIB, {0}, {NULL}, AT_LEAST, .95},
    {5, "graph: memory taken over what the lists need", "", {"mm"}, "graph", "taken_over", 0, UINT64_MAX, {0}, {NULL}, AT_MOST, 1.5},
    {5, "graph, initialisation: faster than CUDA's malloc", "", {"mm"}, "graph", "init", 0, UINT64_MAX, {0}, {"builtin"}, AT_LEAST, 100},
    {5, "graph, insertion: faster than CUDA's malloc", "", {"mm"}, "graph", "insert", 0, UINT64_MAX, {0}, {"builtin"}, AT_LEAST, 100},
    {5, "graph, deletion: faster than CUDA's malloc", "", {"mm"}, "graph", "delete", 0, UINT64_MAX, {0}, {"builtin"}, AT_LEAST, 100},
    {6, "random walk, 2^20 units: test-and-sets over the formula", "1", {"random-walk"}, "probes", "over", 0, UINT64_MAX, {0}, {NULL}, NEAR_1, .05},
    {6, "random walk, 2^25 units: test-and-sets over the formula", "1", {"random-walk"}, "probes_large", "over", 0, UINT64_MAX, {0}, {NULL}, NEAR_1, .05},
    {7, "random walk, 2^20 units: steps of a warp over the formula", "<= 1", {"random-walk"}, "probes", "warp_over", 0, UINT64_MAX, {0}, {NULL}, AT_MOST, 1.03},
    {7, "random walk, 2^25 units: steps of a warp over the formula", "<= 1", {"random-walk"}, "probes_large", "warp_over", 0, UINT64_MAX, {0}, {NULL}, AT_MOST, 1.03},
    {8, "random walk, bitmap, 2^20 units: words read over the formula", "1", {"random-walk-bitmap"}, "probes", "over", 0, UINT64_MAX, {0}, {NULL}, NEAR_1, .15},
    {8, "random walk, bitmap, 2^25 units: words read over the formula", "1", {"random-walk-bitmap"}, "probes_large", "over", 0, UINT64_MAX, {0}, {NULL}, NEAR_1, .15},
    {9, "random walk, cooperative: faster than bitmap, .5 % free", "10", {"random-walk-coop"}, "probes_large", "time", FEW, FEW, {1 << 17}, {"random-walk-bitmap"},
     AT_LEAST, 2},
    {9, "random walk, cooperative: longest over least time", "1", {"random-walk-coop"}, "probes_large", "time", FEW, FEW, {0}, {NULL}, FLAT, 1.2},
    {10, "random walk, runs: share of the heap that can be used", "1", {"random-walk-runs"}, "util", "share", 16, 8 * KIB, {0}, {NULL}, AT_LEAST, .97},
    {11, "hash join: Ouroboros over cooperative random walk", "slowest", {"random-walk-coop"}, "join", "warp", 0, UINT64_MAX, {0}, {"ouroboros-s-p"}, AT_LEAST, 1},
    {12, "fused multiple circular, ad: over mm", "", {"circular-multi-fused"}, "ad", "time", 4, 128 * KIB, {0}, {"mm"}, AT_MOST, 2},
    {12, "fused multiple circular, acd: over mm", "", {"circular-multi-fused"}, "acd", "time", 4, 128 * KIB, {0}, {"mm"}, AT_MOST, 2},
    {12, "fused multiple circular, p: over mm", "", {"circular-multi-fused"}, "p", "time", 4, 128 * KIB, {0}, {"mm"}, AT_MOST, 2},
    {13, "circular: registers of a kernel with malloc and free", "14 to 18", {"circular", "circular-fused", "circular-multi", "circular-multi-fused"}, "registers",
     "pair", 0, UINT64_MAX, {0}, {NULL}, AT_MOST, 24},
    {13, "mm: registers of a kernel with malloc and free", "", {"mm"}, "registers", "pair", 0, UINT64_MAX, {0}, {NULL}, AT_MOST, 32},
    {14, "k-d tree: circular over atomic", ".99 to 1.48", {"circular"}, "kdtree", "kdtree", 0, UINT64_MAX, {0}, {"atomic"}, AT_MOST, 1.5},
    {15, "segregated fit: faster than cudaMalloc and cudaFree", "100", {"pool-segregated"}, "malloc_large", "all", 0, UINT64_MAX, {0}, {"builtin"}, AT_LEAST, 100},
    {15, "segregated fit: memory taken over what is live", "1.5", {"pool-segregated"}, "malloc_large", "taken_over", 0, UINT64_MAX, {0}, {NULL}, AT_MOST, 2},
    {15, "TLSF: memory taken over what is live", "", {"pool-tlsf"}, "malloc_large", "taken_over", 0, UINT64_MAX, {0}, {NULL}, AT_MOST, 1.2},
    {16, "segregated fit and TLSF: slope over live blocks, log-log", "0", {"pool-segregated", "pool-tlsf"}, "fit_slope", "slope", 0, UINT64_MAX, {0}, {NULL}, AT_MOST,
     .1},
    {17, "Gallatin, malloc: over the authors' code", "", {"mm"}, "single", "malloc", 16, 8 * KIB, {0}, {"gallatin_paper"}, AT_MOST, 1},
    {17, "Gallatin, free: over the authors' code", "", {"mm"}, "single", "free", 16, 8 * KIB, {0}, {"gallatin_paper"}, AT_MOST, 1},
    {17, "Gallatin, malloc, new heap: over the authors' code", "", {"mm"}, "single_cold", "malloc", 16, 8 * KIB, {0}, {"gallatin_paper"}, AT_MOST, 1},
    {17, "Gallatin, free, new heap: over the authors' code", "", {"mm"}, "single_cold", "free", 16, 8 * KIB, {0}, {"gallatin_paper"}, AT_MOST, 1},
};
/* clang-format on */

/* What the rows say of a claim. */
struct finding {
    unsigned rows;
    double least, most;
};

/* The figure of one row; false: there is no row to compare it with. */
static bool figure(const struct mm_bench_results *rows, const struct claim *c, const char *against, const struct mm_bench_result *ours, double *value) {
    const struct mm_bench_key key = {against, c->of, c->op, ours->size, ours->size, ours->threads};
    const struct mm_bench_result *theirs = against ? mm_bench_result_next(rows, NULL, &key) : NULL;
    *value = ours->row.median;
    if (!against) return true;
    if (!theirs || !mm_bench_result_is_fine(theirs) || theirs->row.median <= 0 || ours->row.median <= 0) return false;
    *value = c->bound == AT_LEAST ? theirs->row.median / ours->row.median : ours->row.median / theirs->row.median;
    return true;
}

static void add(struct finding *f, double value) {
    f->least = f->rows == 0 || value < f->least ? value : f->least;
    f->most = f->rows == 0 || value > f->most ? value : f->most;
    f->rows++;
}

static struct finding find(const struct mm_bench_results *rows, const struct claim *c) {
    struct finding f = {0, 0, 0};
    for (int n = 0; n < NAMES_MAX && c->names[n]; n++) {
        const char *against = c->against[1] ? c->against[n] : c->against[0];
        const struct mm_bench_key key = {c->names[n], c->of, c->op, c->size_least, c->size_most, 0};
        for (const struct mm_bench_result *r = NULL; (r = mm_bench_result_next(rows, r, &key)) != NULL;) {
            double value;
            if (c->threads[0] && r->threads != c->threads[0] && r->threads != c->threads[1]) continue;
            if (mm_bench_result_is_fine(r) && figure(rows, c, against, r, &value)) add(&f, value);
        }
    }
    return f;
}

static const char *verdict(const struct claim *c, const struct finding *f) {
    if (f->rows == 0) return "not measured";
    const bool holds = c->bound == AT_LEAST  ? f->least >= c->value
                       : c->bound == AT_MOST ? f->most <= c->value
                       : c->bound == NEAR_1  ? f->least >= 1 - c->value && f->most <= 1 + c->value
                                             : f->most <= f->least * c->value;
    return holds ? "pass" : "missed";
}

static const char *const bounds[] = {">=", "<=", "1 +-", "flat"};

void mm_bench_claims(FILE *to, const struct mm_bench_results *rows) {
    fprintf(to, "%2s  %-58s %-12s %-9s %-16s %5s  %s\n", "", "claim", "paper", "bound", "ours", "rows", "");
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        const struct claim *c = &claims[i];
        const struct finding f = find(rows, c);
        char bound[32], ours[64] = "-";
        snprintf(bound, sizeof bound, "%s %.4g", bounds[c->bound], c->value);
        if (f.rows > 0) snprintf(ours, sizeof ours, f.least < f.most ? "%.3g to %.3g" : "%.3g", f.least, f.most);
        fprintf(to, "%2u  %-58s %-12s %-9s %-16s %5u  %s\n", c->number, c->text, c->paper[0] ? c->paper : "-", bound, ours, f.rows, verdict(c, &f));
    }
}
