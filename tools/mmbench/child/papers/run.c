/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The runs of a paper's case: allocator and floor take turns. A run that got NULL, or a wrong result, ends its request, and all of its rows are
 * marked. */
#include <stdio.h>

#include "tools/mmbench/child/papers/papers.h"

struct runs {
    double us[PAPER_STEPS_MAX][CHILD_RUNS_MAX], floor_us[PAPER_STEPS_MAX][CHILD_RUNS_MAX];
};

static unsigned step_count(const struct paper_program *p) {
    unsigned n = 0;
    while (n < PAPER_STEPS_MAX && p->steps[n]) n++;
    return n;
}

static struct bump *bump_open(unsigned long long bytes, struct bump *empty) {
    struct bump *on_device = (struct bump *)child_device_alloc(sizeof *on_device);
    void *base;
    child_must(cudaMalloc(&base, bytes));
    empty->base = (char *)base;
    empty->bytes = bytes;
    empty->used = 0;
    return on_device;
}

static void run_floor(const struct paper_program *p, double *us) {
    struct tally t = child_nothing_found();
    struct bump empty, *bump = bump_open(p->bump_bytes, &empty);
    char why[96];
    child_must(cudaMemcpy(bump, &empty, sizeof empty, cudaMemcpyHostToDevice));
    p->run(p->of, bump, us, &t);
    child_must(cudaFree(empty.base));
    child_must(cudaFree(bump));
    snprintf(why, sizeof why, "%llu NULLs, %llu wrong results; expected none", t.nulls, t.corrupt);
    if (t.nulls || t.corrupt) child_fatal("the floor of this case", why);
}

static void keep(double (*kept)[CHILD_RUNS_MAX], unsigned run, const double *us, unsigned steps) {
    for (unsigned s = 0; s < steps; s++) kept[s][run] = us[s];
}

static void tell(const struct paper_program *p, struct runs *r, unsigned runs, unsigned floor_runs, const struct tally *t) {
    for (unsigned s = 0; s < step_count(p); s++) {
        char floor[32] = "-";
        if (floor_runs) snprintf(floor, sizeof floor, "%.6g", child_median(r->floor_us[s], floor_runs));
        child_row(p->steps[s], "us", r->us[s], runs, floor, t, p->checked);
    }
}

struct tally paper_run(const struct request *q, const struct paper_program *p) {
    static struct runs r;
    const unsigned steps = step_count(p);
    unsigned runs = q->runs < CHILD_RUNS_MAX ? q->runs : CHILD_RUNS_MAX, floor_runs = 0;
    struct tally t = child_nothing_found();
    for (unsigned run = 0; run <= runs && !t.nulls && !t.corrupt; run++) { /* run 0 is the warm-up */
        double us[PAPER_STEPS_MAX], floor_us[PAPER_STEPS_MAX], ms = 0;
        if (q->cold) child_restart_device();
        if (q->cold || run == 0) p->open(p->of);
        p->run(p->of, NULL, us, &t);
        for (unsigned s = 0; s < steps; s++) ms += us[s] / 1e3;
        if (p->bump_bytes) run_floor(p, floor_us);
        if (run > 0) keep(r.us, run - 1, us, steps);
        if (run > 0 && p->bump_bytes) keep(r.floor_us, floor_runs++, floor_us, steps);
        if (run > 0) runs = child_runs_for(ms, runs);
        if (q->cold) p->close(p->of);
    }
    if (!q->cold) p->close(p->of);
    tell(p, &r, t.nulls || t.corrupt ? 0 : runs, floor_runs, &t);
    return t;
}
