/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases "footprint" and "pinned": the device memory that the heap takes, compared with the live bytes. Live bytes are those that were requested. */
#define _GNU_SOURCE /* nanosleep */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/mmbench/child/account.h"
#include "tools/mmbench/child/child.h"
#include "tools/mmbench/protocol.h"

#define FOOTPRINT_ROUNDS 40u
#define SOON_SECONDS 1u /* after everything was freed */
#define CHECKED "nonnull aligned filled account"

/* The results of a workload, in bytes. */
struct life {
    struct account account;
    unsigned long long live; /* the maximum */
    unsigned long long end;  /* taken before everything is freed */
    unsigned long long soon; /* taken SOON_SECONDS after that */
    struct tally t;
};

static void tell(const char *op, double bytes, const struct life *l, const char *checked) {
    double mib = bytes / (1 << 20);
    child_row(op, "MiB", &mib, 1, "-", &l->t, checked);
}

static void tell_all(struct life *l) {
    account_peak(&l->account);
    double over = (double)l->account.most / (double)l->live;
    tell("live", (double)l->live, l, CHECKED);
    tell("taken", (double)l->account.most, l, CHECKED);
    child_row("taken_over", "ratio", &over, l->live != 0, "-", &l->t, CHECKED);
    tell("beyond", (double)l->account.beyond, l, CHECKED);
    tell("taken_end", (double)l->end, l, CHECKED);
    tell("freed_1s", (double)l->soon, l, CHECKED);
}

static void pass_seconds(unsigned seconds) {
    struct timespec t = {(time_t)seconds, 0};
    while (nanosleep(&t, &t) != 0) continue;
}

static unsigned long long look(struct life *l) {
    account_look(&l->account);
    return l->account.now;
}

/* ---- footprint ------------------------------------------------------------------------------------ */

static struct asks workload_of(const struct request *q) {
#define WORKLOAD(size, objects, sizing) {size, objects, SIZING_##sizing},
    static const struct {
        unsigned size, objects;
        enum sizing sizing;
    } workloads[] = {MM_BENCH_FOOTPRINT(WORKLOAD)};
    struct asks a;
    memset(&a, 0, sizeof a);
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (workloads[i].size == q->size && workloads[i].objects == q->threads) {
            a.size = q->size;
            a.count = q->threads;
            a.sizing = workloads[i].sizing;
            a.powers = ask_doublings(q->size);
        }
    if (a.count == 0) child_fatal("footprint", "not a workload of its table");
    return a;
}

/* All pointers are to device memory. */
struct slots {
    void **pointers;
    unsigned *rounds;
    struct tally *nulls, *live, *filled;
};

static struct tally live_in(const struct slots *s, const struct asks *a) {
    struct tally t = child_nothing_found();
    child_must(cudaMemcpy(s->live, &t, sizeof t, cudaMemcpyHostToDevice));
    plain_bounds(s->pointers, a, s->rounds, s->live);
    child_read(&t, s->live, sizeof t);
    return t;
}

/* Runs every kernel that does not allocate once, including assertions in as many threads. CUDA then takes their memory before account_begin. */
static void before_all(const struct slots *s, const struct asks *a, struct life *l) {
    memset(l, 0, sizeof *l);
    plain_assert(s->rounds, a, 0);
    plain_fill(s->pointers, a, s->rounds, 0, 0);
    plain_check(s->pointers, a, s->rounds, 0, s->filled);
    live_in(s, a);
    child_must(cudaMemset(s->filled, 0, sizeof *s->filled));
    account_begin(&l->account);
    alloc_free_half(s->pointers, s->rounds, a->count, 0);      /* NULLs */
    alloc_malloc_half(s->pointers, s->rounds, a, 1, s->nulls); /* no slot is in round 1 */
    alloc_free(s->pointers, a);
    account_warmed();
}

void run_footprint(const struct request *q) {
    const struct asks a = workload_of(q);
    struct life l;
    char checked[64];
    struct slots s = {(void **)child_device_alloc(a.count * sizeof(void *)), (unsigned *)child_device_alloc(a.count * sizeof(unsigned)),
                      (struct tally *)child_device_alloc(sizeof(struct tally)), (struct tally *)child_device_alloc(sizeof(struct tally)),
                      (struct tally *)child_device_alloc(sizeof(struct tally))};
    before_all(&s, &a, &l);
    for (unsigned round = 0; round <= FOOTPRINT_ROUNDS && l.t.nulls == 0; round++) { /* round 0: every slot gets its first allocation */
        alloc_free_half(s.pointers, s.rounds, a.count, round);
        alloc_malloc_half(s.pointers, s.rounds, &a, round, s.nulls);
        plain_fill(s.pointers, &a, s.rounds, (int)round, 0);
        l.end = look(&l);
        l.t = live_in(&s, &a);
        if (l.t.bytes > l.live) l.live = l.t.bytes;
    }
    plain_check(s.pointers, &a, s.rounds, 0, s.filled);
    struct tally filled;
    child_read(&filled, s.filled, sizeof filled);
    l.t.corrupt = filled.corrupt;
    alloc_free(s.pointers, &a);
    child_must(cudaDeviceSynchronize());
    pass_seconds(SOON_SECONDS);
    l.soon = look(&l);
    pass_seconds(q->runs > SOON_SECONDS ? q->runs - SOON_SECONDS : 0);
    const unsigned long long late = look(&l);
    tell_all(&l);
    snprintf(checked, sizeof checked, CHECKED " after %u s", q->runs);
    tell("freed_late", (double)late, &l, checked);
}

/* ---- pinned --------------------------------------------------------------------------------------- */

#define PINNED_SIZES 9u /* 32, 64, ..., 8,192; all are at least MM_SPACING */

/* One phase for each size. Each has its own pointers, since some of its allocations stay until the end. */
struct phase {
    struct asks a;
    void **pointers;
};

static void set_sizes(struct phase *phases, unsigned long long first, unsigned long long bytes) {
    unsigned n = 0;
    memset(phases, 0, PINNED_SIZES * sizeof *phases);
    phases[n++].a.size = first;
    for (unsigned i = 0; i < PINNED_SIZES; i++)
        if (32ull << i != first && n < PINNED_SIZES) phases[n++].a.size = 32ull << i;
    for (unsigned i = 0; i < PINNED_SIZES; i++) {
        phases[i].a.count = (unsigned)(bytes / phases[i].a.size);
        phases[i].pointers = (void **)child_device_alloc(phases[i].a.count * sizeof(void *));
    }
}

static unsigned long long staying_bytes(const struct asks *a) {
    unsigned long long bytes = 0;
    for (unsigned i = 0; i < a->count; i++) bytes += pinned_stays(i) ? a->size : 0;
    return bytes;
}

/* Counts NULLs and corruption of a phase whose allocations are all live (is_all), or only corruption if most of them have been freed (is_all 0). */
static void check(const struct phase *p, struct tally *on_device, struct life *l, int is_all) {
    struct tally t = child_nothing_found();
    child_must(cudaMemset(on_device, 0, sizeof *on_device));
    plain_check(p->pointers, &p->a, NULL, 0, on_device);
    child_read(&t, on_device, sizeof t);
    l->t.nulls += is_all ? t.nulls : 0;
    l->t.corrupt += t.corrupt;
}

void run_pinned(const struct request *q) {
    struct phase phases[PINNED_SIZES];
    struct life l;
    struct tally *on_device = (struct tally *)child_device_alloc(sizeof *on_device);
    const unsigned long long bytes = q->size * q->threads;
    unsigned long long stayed = 0;
    unsigned n = 0;
    memset(&l, 0, sizeof l);
    set_sizes(phases, q->size, bytes);
    const struct asks *widest = &phases[0].a;
    for (unsigned i = 0; i < PINNED_SIZES; i++)
        if (phases[i].a.count > widest->count) widest = &phases[i].a;
    unsigned *rounds = (unsigned *)child_device_alloc(widest->count * sizeof *rounds);
    plain_assert(rounds, widest, 0);
    plain_fill(phases[0].pointers, &phases[0].a, NULL, -1, 0);
    check(&phases[0], on_device, &l, 0);
    account_begin(&l.account);
    const struct asks none = {.size = q->size};
    alloc_malloc(phases[0].pointers, &none);
    alloc_free_most(phases[0].pointers, phases[0].a.count); /* NULLs */
    alloc_free(phases[0].pointers, &phases[0].a);
    account_warmed();
    for (; n < PINNED_SIZES && l.t.nulls == 0; n++) {
        struct phase *p = &phases[n];
        alloc_malloc(p->pointers, &p->a);
        look(&l);
        plain_fill(p->pointers, &p->a, NULL, -1, 0);
        check(p, on_device, &l, 1);
        l.live = stayed + bytes; /* never less than in the phase before */
        alloc_free_most(p->pointers, p->a.count);
        l.end = look(&l);
        stayed += staying_bytes(&p->a);
    }
    for (unsigned i = 0; i < n; i++) {
        check(&phases[i], on_device, &l, 0);
        alloc_free(phases[i].pointers, &phases[i].a);
    }
    child_must(cudaDeviceSynchronize());
    pass_seconds(SOON_SECONDS);
    l.soon = look(&l);
    tell_all(&l);
}
