/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases "latency", after a warm-up, and "latency_cold", from the first call of the heap on: single calls, in kernels of 2^16 to 2^21
 * calls. The number of heap growths is read before and after each kernel. Calls of a kernel during which the heap grew are counted
 * separately. mm starts with its default heap; CUDA's allocator has a heap that does not grow.
 */
#include "tools/mmbench/child/latency.h"

#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/account.h"
#include "tools/mmbench/child/child.h"

#define KERNEL_PAIRS (1u << 15) /* half a second for one thread with CUDA's allocator */
#define KERNEL_PAIRS_EACH 4u    /* per thread, at least: not all calls come at the kernel's start */
#define KERNELS_MORE 8u         /* if the heap grew in every kernel so far: a short run in a fresh heap */
#define TIME_SHARE 0.75         /* of a request's time limit; then the case stops and reports the calls so far */

enum { MALLOC, FREE, KINDS };

/* Calls of kernels during which the heap did not grow, and of those during which it grew. */
struct kind {
    struct latencies calls, grown;
};

/* Written by kernels, in device memory: for each kind the cycles of `pairs` calls. cycles: room for a copy on the host. */
struct notes {
    unsigned pairs;
    unsigned *on_device[KINDS], *cycles;
    struct tally *tally;
};

static struct notes notes_open(unsigned pairs) {
    struct notes n;
    n.pairs = pairs;
    n.cycles = (unsigned *)malloc(pairs * sizeof *n.cycles);
    if (n.cycles == NULL) child_fatal("latency", "the host has no memory");
    for (int k = 0; k < KINDS; k++) n.on_device[k] = (unsigned *)child_device_alloc(pairs * sizeof(unsigned));
    n.tally = (struct tally *)child_device_alloc(sizeof *n.tally);
    return n;
}

static void notes_close(struct notes *n) {
    free(n->cycles);
    for (int k = 0; k < KINDS; k++) child_must(cudaFree(n->on_device[k]));
    child_must(cudaFree(n->tally));
}

static void count(struct kind *kinds, const struct notes *n, int has_grown) {
    for (int k = 0; k < KINDS; k++) {
        child_read(n->cycles, n->on_device[k], n->pairs * sizeof *n->cycles);
        latency_add(has_grown ? &kinds[k].grown : &kinds[k].calls, n->cycles, n->pairs);
    }
}

/* Runs kernels until there are `calls` calls of each kind, some of them while the heap did not grow, the time is over, or a malloc returned NULL. Unless
 * is_cold, one more comes before, whose calls do not count; its NULLs do. */
static struct tally measure(const struct asks *a, unsigned each, uint64_t calls, int is_cold, struct notes *n, struct kind *kinds) {
    const double stop = child_now_ms() + child_seconds * 1e3 * TIME_SHARE;
    struct asks none = *a;
    struct tally t = child_nothing_found();
    uint64_t done = 0;
    none.count = 0;
    alloc_latency(&none, 0, 0, n->on_device[MALLOC], n->on_device[FREE], n->tally); /* loads the kernel and creates the heap */
    if (!is_cold) alloc_latency(a, 0, each, n->on_device[MALLOC], n->on_device[FREE], n->tally);
    child_must(cudaDeviceSynchronize());
    unsigned long long growths = account_growths();
    for (unsigned first = is_cold ? 0 : each; t.nulls == 0 && (done == 0 || child_now_ms() < stop); first += each) {
        if (done >= (kinds[MALLOC].calls.count ? calls : calls + (uint64_t)KERNELS_MORE * n->pairs)) break;
        const unsigned long long before = growths;
        alloc_latency(a, first, each, n->on_device[MALLOC], n->on_device[FREE], n->tally);
        child_read(&t, n->tally, sizeof t);
        growths = account_growths();
        count(kinds, n, growths != before);
        done += n->pairs;
    }
    return t;
}

static void tell_one(const char *op, const char *unit, double value, unsigned runs, const struct tally *t, const char *checked) {
    child_row(op, unit, &value, runs, "-", t, checked);
}

static void tell(const char *const *ops, const struct latencies *l, const struct tally *t) {
    const char *checked = "nonnull written";
    const unsigned median = latency_quantile(l, 50);
    const double numbers[] = {median, l->least, l->longest};
    child_row_of(ops[0], "cycles", numbers, (unsigned)l->count, "latency", t, checked);
    tell_one(ops[1], "cycles", latency_quantile(l, 99), 1, t, checked);
    tell_one(ops[2], "ratio", median ? (double)l->longest / median : 0, t->nulls == 0, t, checked);
}

void run_latency(const struct request *q) {
    static const char *const ops[KINDS][3] = {{"malloc", "malloc_p99", "malloc_over"}, {"free", "free_p99", "free_over"}};
    static struct kind kinds[KINDS];
    const unsigned each = KERNEL_PAIRS / q->threads > KERNEL_PAIRS_EACH ? KERNEL_PAIRS / q->threads : KERNEL_PAIRS_EACH;
    struct notes n = notes_open(each * q->threads);
    struct asks a;
    memset(&a, 0, sizeof a);
    a.count = q->threads;
    a.size = q->size;
    a.sizing = q->size > 16 ? SIZING_UNIFORM : SIZING_ONE;
    memset(kinds, 0, sizeof kinds);
    const struct tally t = measure(&a, each, q->runs, q->cold, &n, kinds);
    notes_close(&n);
    if (kinds[MALLOC].calls.count == 0 && t.nulls == 0) child_fatal("latency", "the heap grew during every kernel");
    for (int k = 0; k < KINDS; k++) tell(ops[k], &kinds[k].calls, &t);
    const struct latencies *m = &kinds[MALLOC].grown, *f = &kinds[FREE].grown;
    tell_one("grown", "calls", (double)(m->count + f->count), 1, &t, "growth_count");
    tell_one("grown_longest", "cycles", m->longest > f->longest ? m->longest : f->longest, 1, &t, "growth_count");
}
