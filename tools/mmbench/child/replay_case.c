/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The request "replay": a first run that is not timed, whose memory is counted, and timed runs after it. Each run begins without live memory. */
#include <stdio.h>
#include <string.h>

#include "tools/mmbench/child/account.h"
#include "tools/mmbench/child/child.h"
#include "tools/mmbench/child/replay.h"

/* A plan on the device. */
struct replay {
    struct trace trace;
    struct replay_plan plan;
    struct replay_op *ops;
    unsigned *begins;
    void **pointers;
    struct replay_tally *tally;
};

static void open(struct replay *r, const char *path) {
    char why[TRACE_WHY_BYTES];
    memset(r, 0, sizeof *r);
    if (trace_read_file(&r->trace, path, why)) child_fatal(path, why);
    const char *wrong = replay_plan_make(&r->plan, &r->trace);
    if (wrong) child_fatal(path, wrong);
    r->ops = (struct replay_op *)child_copied(r->plan.ops, r->plan.op_count * sizeof *r->ops);
    r->begins = (unsigned *)child_copied(r->plan.begins, (r->plan.warp_count + 1) * sizeof *r->begins);
    r->pointers = (void **)child_device_alloc((r->trace.mallocs + 1) * sizeof *r->pointers);
    r->tally = (struct replay_tally *)child_device_alloc(sizeof *r->tally);
}

static void close_all(struct replay *r) {
    child_must(cudaFree(r->ops));
    child_must(cudaFree(r->begins));
    child_must(cudaFree(r->pointers));
    child_must(cudaFree(r->tally));
    replay_plan_end(&r->plan);
    trace_end(&r->trace);
}

/* Milliseconds of all steps. What the trace leaves live stays so. */
static double run(const struct replay *r) {
    child_time_begin();
    for (size_t i = 0; i < r->plan.step_count; i++) replay_step_run(r->ops, r->begins, r->plan.steps[i], r->pointers, r->tally);
    return child_time_end_ms();
}

static void free_rest(const struct replay *r) { replay_free_rest(r->pointers, (unsigned)r->trace.mallocs); }

/* Runs the kernels without a request, so that the driver takes their local memory: as many warps as the widest step has, of which none has a call; and frees
 * of NULL. */
static void warm(const struct replay *r) {
    struct replay_step widest = {0, 1};
    for (size_t i = 0; i < r->plan.step_count; i++)
        if (r->plan.steps[i].warps > widest.warps) widest.warps = r->plan.steps[i].warps;
    unsigned *none = (unsigned *)child_device_alloc((widest.warps + 1) * sizeof *none);
    replay_step_run(r->ops, none, widest, r->pointers, r->tally);
    free_rest(r);
    child_must(cudaDeviceSynchronize());
    child_must(cudaFree(none));
}

void run_replay(const char *path, unsigned runs) {
    double ms[CHILD_RUNS_MAX];
    struct account account;
    struct replay_tally found;
    struct replay r;
    open(&r, path);
    memset(&account, 0, sizeof account);
    account_begin(&account); /* no kernel that allocates has run, so there is no heap */
    warm(&r);
    account_warmed();
    const double first_ms = run(&r);
    account_look(&account);
    account_peak(&account);
    free_rest(&r);
    runs = child_runs_for(first_ms, runs < CHILD_RUNS_MAX ? runs : CHILD_RUNS_MAX);
    for (unsigned i = 0; i < runs; i++) {
        ms[i] = run(&r);
        free_rest(&r);
    }
    child_read(&found, r.tally, sizeof found);
    const double median = child_median(ms, runs);
    printf("@replay %.6g %.6g %.6g %u %llu %llu %llu\n", median, ms[0], ms[runs - 1], runs, account.most, (found.nulls + runs) / (runs + 1), found.corrupt);
    fflush(stdout);
    close_all(&r);
}
