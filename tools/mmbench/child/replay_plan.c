/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/replay.h"

/* An event, and where it goes: sorted by these, in this order. */
struct placed {
    uint64_t step, cta;
    uint32_t thread, event;
};

/* The step of a recorded launch, and that of the frees after it. */
static uint64_t step_of(uint32_t launch) { return 2ull * launch; }
static uint64_t step_after(uint32_t launch) { return 2ull * launch + 1; }

static uint64_t step_of_free(const struct trace_event *e, const struct trace_event *of) {
    if (of->launch < e->launch || (of->launch == e->launch && of->cta == e->cta && of->thread == e->thread)) return step_of(e->launch);
    return step_after(of->launch);
}

static int ascending(const void *a, const void *b) {
    const struct placed *x = (const struct placed *)a, *y = (const struct placed *)b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->cta != y->cta) return x->cta < y->cta ? -1 : 1;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

/* Sets the places, and number[event] of each malloc; malloc_of[number]: its event. */
static void place(const struct trace *t, struct placed *placed, uint32_t *number, uint32_t *malloc_of) {
    uint32_t mallocs = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct trace_event *e = &t->events[i];
        if (e->kind == TRACE_MALLOC) malloc_of[mallocs] = i, number[i] = mallocs++;
        const uint64_t step = e->kind == TRACE_FREE ? step_of_free(e, &t->events[malloc_of[e->bytes]]) : step_of(e->launch);
        placed[i] = (struct placed){step, e->cta, e->thread, i};
    }
    qsort(placed, t->count, sizeof *placed, ascending);
}

static int is_same_warp(const struct placed *a, const struct placed *b) {
    return a->step == b->step && a->cta == b->cta && a->thread / WARP_THREADS == b->thread / WARP_THREADS;
}

/* An aligned request takes the next multiple of its alignment: kernels have no standard call for it. */
static unsigned long long bytes_of(const struct trace_event *e) {
    const unsigned long long align = 1ull << e->align_shift;
    return e->bytes > ~0ull - align ? e->bytes : (e->bytes + align - 1) / align * align;
}

static void fill(struct replay_plan *p, const struct trace *t, const struct placed *placed, const uint32_t *number) {
    for (size_t i = 0; i < t->count; i++) {
        const struct trace_event *e = &t->events[placed[i].event];
        if (i == 0 || placed[i].step != placed[i - 1].step) p->steps[p->step_count++] = (struct replay_step){p->warp_count, 0};
        if (i == 0 || !is_same_warp(&placed[i], &placed[i - 1])) p->begins[p->warp_count++] = (unsigned)i, p->steps[p->step_count - 1].warps++;
        const unsigned which = e->kind == TRACE_FREE ? (unsigned)e->bytes : e->kind == TRACE_MALLOC ? number[placed[i].event] : 0;
        p->ops[p->op_count++] = (struct replay_op){bytes_of(e), which, e->kind, (unsigned short)(e->thread % WARP_THREADS)};
    }
    p->begins[p->warp_count] = (unsigned)t->count;
}

const char *replay_plan_make(struct replay_plan *p, const struct trace *t) {
    struct placed *placed = (struct placed *)malloc(t->count * sizeof *placed);
    uint32_t *number = (uint32_t *)malloc(t->count * sizeof *number), *malloc_of = (uint32_t *)malloc(t->count * sizeof *malloc_of);
    memset(p, 0, sizeof *p);
    p->ops = (struct replay_op *)malloc(t->count * sizeof *p->ops);
    p->begins = (unsigned *)malloc((t->count + 1) * sizeof *p->begins);
    p->steps = (struct replay_step *)malloc(t->count * sizeof *p->steps);
    const int done = placed && number && malloc_of && p->ops && p->begins && p->steps;
    if (done) place(t, placed, number, malloc_of), fill(p, t, placed, number);
    free(placed), free(number), free(malloc_of);
    if (!done) replay_plan_end(p);
    return done ? NULL : "the host has no memory";
}

void replay_plan_end(struct replay_plan *p) {
    free(p->ops), free(p->begins), free(p->steps);
    memset(p, 0, sizeof *p);
}
