/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/profile.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/core/class.h"

struct counter {
    struct mm_profile *profile;
    size_t room;       /* of profile->kernels */
    uint32_t *kernels; /* by launch: its kernel, plus 1; 0: not asked yet */
    uint64_t launches; /* room of `kernels` */
    mm_profile_namer *namer;
    void *argument;
};

/* The mark of a malloc: its bytes, and its kernel, of which there are fewer than events. */
#define MARK_SHIFT 41
MM_STATIC_ASSERT(MM_TRACE_BYTES_MAX < 1ull << MARK_SHIFT && MM_TRACE_EVENTS <= 1ull << (63 - MARK_SHIFT), "both fit in a mark");

static uint32_t size_of(uint64_t bytes) {
    uint32_t power = 0;
    if (bytes <= MM_SLICE_BYTES_MAX) return mm_class_of((uint32_t)bytes);
    while (power + 1 < MM_PROFILE_POWERS && bytes > MM_SLICE_BYTES_MAX << (power + 1)) power++;
    return MM_CLASS_COUNT + power;
}

uint64_t mm_profile_size(uint32_t size) { return size < MM_CLASS_COUNT ? mm_class_bytes(size) : MM_SLICE_BYTES_MAX << (size - MM_CLASS_COUNT + 1); }

/* The row of a kernel. UINT32_MAX: no memory. */
static uint32_t row_of(struct counter *c, const char *name) {
    struct mm_profile *const p = c->profile;
    size_t i = 0;
    while (i < p->count && p->kernels[i].name != name) i++;
    if (i == c->room) {
        struct mm_profile_kernel *more = (struct mm_profile_kernel *)realloc(p->kernels, (2 * c->room + 8) * sizeof *more);
        if (!more) return UINT32_MAX;
        p->kernels = more, c->room = 2 * c->room + 8;
    }
    if (i == p->count) {
        memset(&p->kernels[i], 0, sizeof p->kernels[i]);
        p->kernels[p->count++].name = name;
    }
    return (uint32_t)i;
}

/* The row of the kernel of a launch. UINT32_MAX: no memory. */
static uint32_t row_of_launch(struct counter *c, uint64_t launch, uint32_t grid) {
    if (launch >= c->launches) {
        const uint64_t room = 2 * launch + 64;
        uint32_t *more = (uint32_t *)realloc(c->kernels, room * sizeof *more);
        if (!more) return UINT32_MAX;
        memset(more + c->launches, 0, (room - c->launches) * sizeof *more);
        c->kernels = more, c->launches = room;
    }
    if (c->kernels[launch] == 0) c->kernels[launch] = row_of(c, c->namer(c->argument, grid)) + 1;
    return c->kernels[launch] - 1;
}

static void add_malloc(struct mm_profile_counts *n, uint64_t bytes) { n->mallocs++, n->bytes += bytes, n->live++, n->live_bytes += bytes; }
static void add_free(struct mm_profile_counts *n, uint64_t bytes) { n->live--, n->live_bytes -= bytes; }
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Nothing is live any more. */
static void reset(struct mm_profile *p) {
    p->all.live = p->all.live_bytes = 0;
    for (size_t i = 0; i < p->count; i++) {
        p->kernels[i].all.live = p->kernels[i].all.live_bytes = 0;
        for (uint32_t s = 0; s < MM_PROFILE_SIZES; s++) p->kernels[i].sizes[s].live = p->kernels[i].sizes[s].live_bytes = 0;
    }
}

static bool visit(void *argument, const struct mm_trace_event *e, uint64_t launch, uint64_t *mark) {
    struct counter *const c = (struct counter *)argument;
    struct mm_profile *const p = c->profile;
    if (mm_event_is_reset(e)) return reset(p), true;
    const uint32_t row = row_of_launch(c, launch, mm_event_grid(e));
    if (row == UINT32_MAX) return false;
    if (mm_event_is_null(e)) {
        p->kernels[row].nulls++;
    } else if (mm_event_is_free(e)) {
        const uint64_t bytes = *mark & ((1ull << MARK_SHIFT) - 1);
        struct mm_profile_kernel *const maker = &p->kernels[*mark >> MARK_SHIFT];
        p->kernels[row].frees++;
        add_free(&maker->all, bytes), add_free(&maker->sizes[size_of(bytes)], bytes), add_free(&p->all, bytes);
    } else {
        struct mm_profile_kernel *const k = &p->kernels[row];
        *mark = (uint64_t)row << MARK_SHIFT | e->bytes;
        add_malloc(&k->all, e->bytes), add_malloc(&k->sizes[size_of(e->bytes)], e->bytes), add_malloc(&p->all, e->bytes);
        k->most_bytes = larger(k->most_bytes, k->all.live_bytes), p->most_bytes = larger(p->most_bytes, p->all.live_bytes);
    }
    return true;
}

static int by_bytes(const void *a, const void *b) {
    const struct mm_profile_kernel *x = (const struct mm_profile_kernel *)a, *y = (const struct mm_profile_kernel *)b;
    if (x->all.bytes != y->all.bytes) return x->all.bytes < y->all.bytes ? 1 : -1;
    return strcmp(x->name, y->name);
}

bool mm_profile_try_count(struct mm_profile *profile, const struct mm_trace_event *events, uint64_t count, uint64_t dropped, mm_profile_namer *namer,
                          void *argument) {
    struct counter c = {.profile = profile, .namer = namer, .argument = argument};
    memset(profile, 0, sizeof *profile);
    const bool done = mm_events_try_walk(events, count, dropped, &profile->sum, visit, &c);
    if (done && profile->count) qsort(profile->kernels, profile->count, sizeof *profile->kernels, by_bytes);
    free(c.kernels);
    return done;
}

void mm_profile_drop(struct mm_profile *profile) {
    free(profile->kernels);
    profile->kernels = NULL, profile->count = 0;
}
