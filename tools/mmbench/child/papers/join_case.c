/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases join (join.h). */
#include <string.h>

#include "tools/mmbench/child/papers/join.h"

struct join {
    struct join_input host, in; /* in: the copy on the device */
    struct join_sum expected;
    struct join_page **chains; /* on the device, as all below */
    struct join_array array;
    struct join_sum *found;
    struct tally *tally;
    int is_scan;
};

static unsigned threads(const struct join *x) { return x->host.partitions * CTA_THREADS; }

/* ---- device memory ------------------------------------------------------------------------------ */

static void open_input(struct join *x) {
    const size_t tuples_bytes = x->host.tuples * sizeof *x->host.r, offsets_bytes = (x->host.partitions + 1) * sizeof *x->host.r_offsets;
    x->in = x->host;
    x->in.r = (struct join_tuple *)child_copied(x->host.r, tuples_bytes);
    x->in.s = (struct join_tuple *)child_copied(x->host.s, tuples_bytes);
    x->in.r_offsets = (unsigned *)child_copied(x->host.r_offsets, offsets_bytes);
    x->in.s_offsets = (unsigned *)child_copied(x->host.s_offsets, offsets_bytes);
    x->found = (struct join_sum *)child_device_alloc(sizeof *x->found);
    x->tally = (struct tally *)child_device_alloc(sizeof *x->tally);
}

static void close_input(struct join *x) {
    child_must(cudaFree(x->in.r));
    child_must(cudaFree(x->in.s));
    child_must(cudaFree(x->in.r_offsets));
    child_must(cudaFree(x->in.s_offsets));
    child_must(cudaFree(x->found));
    child_must(cudaFree(x->tally));
}

/* Loads the kernels before anything is timed. */
static void load_kernels(const struct join *x, const struct join_kernels *k) {
    struct join_input no_input;
    struct join_array no_output;
    memset(&no_input, 0, sizeof no_input);
    memset(&no_output, 0, sizeof no_output);
    k->thread(no_input, NULL, NULL, NULL);
    k->warp(no_input, NULL, NULL, NULL);
    k->give(NULL, 0);
    k->check(NULL, 0, 0, x->found);
    k->counter(no_input, no_output);
    k->scan(no_input, no_output);
    k->check_array(no_output, x->found);
    child_must(cudaGetLastError());
    child_must(cudaDeviceSynchronize());
}

static void open_pages(void *of) {
    struct join *x = (struct join *)of;
    open_input(x);
    x->chains = (struct join_page **)child_device_alloc(threads(x) * sizeof(struct join_page *));
    load_kernels(x, &alloc_join);
    load_kernels(x, &floor_join);
}

static void close_pages(void *of) {
    struct join *x = (struct join *)of;
    close_input(x);
    child_must(cudaFree(x->chains));
}

static void open_array(void *of) {
    struct join *x = (struct join *)of;
    open_input(x);
    x->array.most = x->host.tuples;
    x->array.pairs = (struct join_pair *)child_device_alloc(x->array.most * sizeof *x->array.pairs);
    x->array.count = (unsigned *)child_device_alloc(sizeof *x->array.count);
    x->array.thread_starts = (unsigned *)child_device_alloc(threads(x) * sizeof *x->array.thread_starts);
    x->array.partition_starts = (unsigned *)child_device_alloc(x->host.partitions * sizeof *x->array.partition_starts);
    load_kernels(x, &alloc_join);
}

static void close_array(void *of) {
    struct join *x = (struct join *)of;
    close_input(x);
    child_must(cudaFree(x->array.pairs));
    child_must(cudaFree(x->array.count));
    child_must(cudaFree(x->array.thread_starts));
    child_must(cudaFree(x->array.partition_starts));
}

/* ---- a run -------------------------------------------------------------------------------------- */

static void begin(const struct join *x) {
    child_must(cudaMemset(x->found, 0, sizeof *x->found));
    child_must(cudaMemset(x->tally, 0, sizeof *x->tally));
    child_must(cudaDeviceSynchronize());
}

/* After a NULL the pairs need not be as expected. */
static void compare(const struct join *x, struct tally *t) {
    struct join_sum found;
    struct tally wrong;
    child_read(&found, x->found, sizeof found);
    child_read(&wrong, x->tally, sizeof wrong);
    t->nulls += wrong.nulls;
    if (!wrong.nulls && (found.pairs != x->expected.pairs || found.sum != x->expected.sum)) t->corrupt++;
}

/* Joins, checks, and gives all pages back. Wrong chains are not walked again; they end with the process. */
static void run_variant(const struct join *x, struct bump *bump, int is_warp, double *us, struct tally *t) {
    const struct join_kernels *k = bump ? &floor_join : &alloc_join;
    const unsigned chains = is_warp ? threads(x) / WARP_THREADS : threads(x);
    if (bump) child_must(cudaMemset(&bump->used, 0, sizeof bump->used)); /* the other variant's pages are free */
    begin(x);
    child_time_begin();
    if (is_warp) k->warp(x->in, x->chains, bump, x->tally);
    else k->thread(x->in, x->chains, bump, x->tally);
    us[0] = child_time_end_ms() * 1e3;
    k->check(x->chains, chains, join_pages_most(&x->host), x->found);
    compare(x, t);
    if (t->corrupt) return;
    child_time_begin();
    k->give(x->chains, chains);
    us[1] = child_time_end_ms() * 1e3;
}

static void run_pages(void *of, struct bump *bump, double *us, struct tally *t) {
    const struct join *x = (const struct join *)of;
    for (unsigned step = 0; step < 4; step++) us[step] = 0; /* for the steps after a fault */
    for (int is_warp = 0; is_warp <= 1 && !t->nulls && !t->corrupt; is_warp++) run_variant(x, bump, is_warp, us + 2 * is_warp, t);
}

static void run_array(void *of, struct bump *bump, double *us, struct tally *t) {
    const struct join *x = (const struct join *)of;
    (void)bump;
    child_must(cudaMemset(x->array.count, 0, sizeof *x->array.count));
    begin(x);
    child_time_begin();
    if (x->is_scan) alloc_join.scan(x->in, x->array);
    else alloc_join.counter(x->in, x->array);
    us[0] = child_time_end_ms() * 1e3;
    alloc_join.check_array(x->array, x->found);
    compare(x, t);
}

/* ---- the cases ---------------------------------------------------------------------------------- */

/* The variants run one after the other, and each begins with an empty bump pointer. */
static unsigned long long bump_bytes(const struct join_input *in) {
    const unsigned long long thread = join_pages(in, 1), warp = join_pages(in, WARP_THREADS);
    return (thread > warp ? thread : warp) * ((sizeof(struct join_page) + BUMP_ALIGNMENT - 1) / BUMP_ALIGNMENT * BUMP_ALIGNMENT);
}

static void pages_program(struct paper_program *p, const struct join_input *in) {
    p->steps[0] = "thread";
    p->steps[1] = "thread_free";
    p->steps[2] = "warp";
    p->steps[3] = "warp_free";
    p->checked = "nonnull pairs sum";
    p->bump_bytes = bump_bytes(in);
    p->open = open_pages;
    p->close = close_pages;
    p->run = run_pages;
}

static void array_program(struct paper_program *p) {
    p->steps[0] = "join";
    p->checked = "pairs sum";
    p->open = open_array;
    p->close = close_array;
    p->run = run_array;
}

void run_join(const struct request *q) {
    struct join x;
    struct paper_program p;
    const unsigned tuples = (unsigned)q->size;
    memset(&x, 0, sizeof x);
    memset(&p, 0, sizeof p);
    x.is_scan = !strcmp(q->name, "join_scan");
    if (!join_make(&x.host, &x.expected, tuples, !strcmp(q->name, "join_zipf"), join_partitions(tuples))) child_must(cudaErrorMemoryAllocation);
    p.of = &x;
    if (x.is_scan || !strcmp(q->name, "join_counter")) array_program(&p);
    else pages_program(&p, &x.host);
    paper_run(q, &p);
    join_drop(&x.host);
}
