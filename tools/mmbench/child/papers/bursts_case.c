/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/papers/bursts.h"

struct burst_result burst_expected(const char *name, unsigned caller) {
    const int is_p = !strcmp(name, "p");
    struct burst_result r = {0, 0};
    unsigned length = !strcmp(name, "acd") ? burst_length(caller) : 1, is_held = 0;
    if (is_p) length = 0;
    for (unsigned launch = 0; is_p && launch < BURST_LAUNCHES; launch++) {
        if (!burst_acts(caller, launch)) continue;
        length += !is_held;
        is_held = !is_held;
    }
    r.allocations = length;
    for (unsigned k = 0; k < length; k++) r.sum += burst_word(caller, is_p ? 0 : k);
    return r;
}

struct bursts {
    const char *name;
    struct burst_input in;
    void **held;
    struct burst_result *results, *found; /* of each caller; on the device, and a copy */
    struct tally *tally;
};

static void load_kernels(const struct bursts *x, const struct burst_kernels *k) {
    struct burst_input none;
    memset(&none, 0, sizeof none);
    k->ad(none, NULL, x->results, x->tally);
    k->acd(none, x->held, NULL, x->results, x->tally);
    k->p(none, 0, x->held, NULL, x->results, x->tally);
    k->p_end(none, x->held, x->results, x->tally);
}

static void open_bursts(void *of) {
    struct bursts *x = (struct bursts *)of;
    x->held = (void **)child_device_alloc((size_t)x->in.callers * BURST_MOST * sizeof *x->held);
    x->results = (struct burst_result *)child_device_alloc(x->in.callers * sizeof *x->results);
    x->tally = (struct tally *)child_device_alloc(sizeof *x->tally);
    load_kernels(x, &alloc_burst);
    load_kernels(x, &floor_burst);
}

static void close_bursts(void *of) {
    const struct bursts *x = (const struct bursts *)of;
    child_must(cudaFree(x->held));
    child_must(cudaFree(x->results));
    child_must(cudaFree(x->tally));
}

static void run_once(void *of, struct bump *bump, double *us, struct tally *t) {
    const struct bursts *x = (const struct bursts *)of;
    const struct burst_kernels *k = bump ? &floor_burst : &alloc_burst;
    struct tally wrong;
    child_must(cudaMemset(x->results, 0, x->in.callers * sizeof *x->results));
    child_must(cudaMemset(x->tally, 0, sizeof *x->tally));
    child_must(cudaDeviceSynchronize());
    child_time_begin();
    if (!strcmp(x->name, "ad")) k->ad(x->in, bump, x->results, x->tally);
    else if (!strcmp(x->name, "acd")) k->acd(x->in, x->held, bump, x->results, x->tally);
    else
        for (unsigned launch = 0; launch < BURST_LAUNCHES; launch++) k->p(x->in, launch, x->held, bump, x->results, x->tally);
    us[0] = child_time_end_ms() * 1e3;
    if (!strcmp(x->name, "p")) k->p_end(x->in, x->held, x->results, x->tally);
    child_read(x->found, x->results, x->in.callers * sizeof *x->found);
    child_read(&wrong, x->tally, sizeof wrong);
    t->nulls += wrong.nulls;
    t->corrupt += wrong.corrupt;
    for (unsigned caller = 0; caller < x->in.callers && !wrong.nulls; caller++) {
        const struct burst_result expected = burst_expected(x->name, caller);
        t->corrupt += x->found[caller].allocations != expected.allocations || x->found[caller].sum != expected.sum;
    }
}

void run_bursts(const struct request *q) {
    struct bursts x;
    struct paper_program p;
    unsigned long long allocations = 0;
    memset(&x, 0, sizeof x);
    memset(&p, 0, sizeof p);
    x.name = q->name;
    x.in.callers = q->threads;
    x.in.bytes = q->size;
    x.found = (struct burst_result *)malloc(x.in.callers * sizeof *x.found);
    if (!x.found) child_must(cudaErrorMemoryAllocation);
    for (unsigned caller = 0; caller < x.in.callers; caller++) allocations += burst_expected(q->name, caller).allocations;
    p.steps[0] = "time";
    p.checked = "nonnull firstword allocations sum";
    p.bump_bytes = allocations * ((q->size + BUMP_ALIGNMENT - 1) / BUMP_ALIGNMENT * BUMP_ALIGNMENT);
    p.of = &x;
    p.open = open_bursts;
    p.close = close_bursts;
    p.run = run_once;
    paper_run(q, &p);
    free(x.found);
}
