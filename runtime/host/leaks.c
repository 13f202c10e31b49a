/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "runtime/host/leaks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/core/guard.h"
#include "runtime/core/heap.h"
#include "runtime/core/usage.h"
#include "runtime/host/copy.h"
#include "runtime/host/kernels.h"

struct search {
    const struct mm_driver *d;
    const struct mm_host_heap *h;
    const struct mm_snapshot *s;
    struct mm_leaks *leaks;
    size_t room; /* in leaks->leak */
    uint64_t *eras;
    char *copy; /* of what is looked at: as many addresses as the heap has, most of them without memory */
};

static void note_leak(struct search *x, uint64_t grid, uint32_t class_, uint64_t bytes) {
    struct mm_leaks *l = x->leaks;
    const char *kernel = mm_kernels_name(x->h->kernels, grid);
    size_t i = 0;
    l->count++, l->bytes += bytes;
    while (i < l->leak_count && (l->leak[i].kernel != kernel || l->leak[i].class_ != class_)) i++;
    if (i == l->leak_count) {
        if (i == x->room) {
            struct mm_leak *more = (struct mm_leak *)realloc(l->leak, (2 * x->room + 16) * sizeof *more);
            if (!more) return; /* counted above */
            l->leak = more, x->room = 2 * x->room + 16;
        }
        l->leak[l->leak_count++] = (struct mm_leak){kernel, class_, 0, 0};
    }
    l->leak[i].count++, l->leak[i].bytes += bytes;
}

static void note_found(struct search *x, enum mm_misuse kind, struct mm_guarded g, struct mm_guard_said said) {
    struct mm_leaks *l = x->leaks;
    const uint64_t n = l->overrun_count + l->after_free_count;
    const bool is_lost = said.state == MM_GUARD_LOST;
    if (kind == MM_MISUSE_OVERRUN) l->overrun_count++;
    else l->after_free_count++;
    if (n >= MM_REPORTS) return;
    struct mm_report *r = &l->found[n];
    memset(r, 0, sizeof *r);
    r->number = n + 1, r->kind = (uint32_t)kind, r->address = g.p;
    r->bytes = is_lost ? mm_guard_room(g) : mm_guard_asked(said.made);
    r->made_by = is_lost ? 0 : mm_guard_grid(said.made) + 1u;
    r->freed_by = said.state == MM_GUARD_FREED ? mm_guard_freed_by(said.seal) + 1u : 0;
}

/* An allocation that is live for the allocator, of a class, or MM_CLASS_COUNT, whose memory is at hand. */
static void look(struct search *x, struct mm_guarded g, uint32_t class_) {
    const uint32_t era = mm_guard_is_small(g.granted) ? 0 : mm_era_number(x->eras[(g.p - x->s->ref.user_base) >> MM_SEGMENT_SHIFT]);
    const struct mm_guard_said said = mm_guard_ask(g, era);
    const uint64_t asked = mm_guard_asked(said.made);
    const uint32_t of_class = mm_heap_is_slice(asked) ? mm_class_of((uint32_t)asked) : MM_CLASS_COUNT;
    switch (said.state) {
    case MM_GUARD_LIVE:
        note_leak(x, mm_guard_grid(said.made) + 1u, of_class, asked);
        if (mm_guard_is_overrun(g, asked)) note_found(x, MM_MISUSE_OVERRUN, g, said);
        break;
    case MM_GUARD_FREED:
        x->leaks->kept[class_]++;
        if (mm_guard_is_unpoisoned(g)) note_found(x, MM_MISUSE_AFTER_FREE, g, said);
        break;
    case MM_GUARD_LOST:
        note_leak(x, 0, MM_LEAK_LOST, mm_guard_room(g));
        note_found(x, MM_MISUSE_OVERRUN, g, said);
    }
}

static bool try_segment(struct search *x, uint32_t s, uint32_t c, struct mm_driver_error *error) {
    const struct mm_heap_ref *ref = &x->s->ref;
    const struct mm_class class_ = ref->classes[c];
    const uint64_t segment = ref->user_base + (uint64_t)s * MM_SEGMENT_BYTES, whole = mm_segment_at(ref, s)->whole;
    struct mm_usage usage;
    memset(&usage, 0, sizeof usage);
    mm_usage_walk(ref, s, s + 1, &usage);
    if (usage.classes[c].live == 0) return true;
    if (!mm_copy_try_from_device(x->d, x->copy, segment, MM_SEGMENT_BYTES, error)) return false;
    for (uint32_t j = 0; j < class_.blocks; j++) {
        if (whole >> j & 1) continue;
        const uint32_t issued = mm_usage_issued(ref, s, c, j), first = j << class_.block_shift;
        for (uint32_t i = first; i < first + mm_class_block_slices(class_, j); i++) {
            const struct mm_guarded g = mm_guard_slice(segment, x->copy, i, class_.bytes);
            if (mm_usage_is_live(ref, s, c, j, issued, i)) look(x, g, c);
        }
    }
    return true;
}

/* Of a run only what is looked at: poison, tag, and zone. */
static bool try_run(struct search *x, uint32_t s, uint64_t segments, struct mm_driver_error *error) {
    const uint64_t run = x->s->ref.user_base + (uint64_t)s * MM_SEGMENT_BYTES;
    const struct mm_guarded g = mm_guard_run(run, x->copy, segments * MM_SEGMENT_BYTES);
    const uint64_t tag = g.granted - sizeof *g.tag;
    if (!mm_copy_try_from_device(x->d, g.tag, run + tag, sizeof *g.tag, error) ||
        !mm_copy_try_from_device(x->d, x->copy, run, MM_GUARD_BYTES, error))
        return false;
    const uint64_t asked = mm_guard_asked(g.tag->made), zone = asked / 16 * 16;
    if (asked <= mm_guard_room(g) && !mm_copy_try_from_device(x->d, x->copy + zone, run + zone, MM_GUARD_BYTES, error)) return false;
    look(x, g, MM_CLASS_COUNT);
    return true;
}

static int by_bytes(const void *a, const void *b) {
    const struct mm_leak *x = (const struct mm_leak *)a, *y = (const struct mm_leak *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->class_ != y->class_ ? (x->class_ < y->class_ ? 1 : -1) : strcmp(x->kernel, y->kernel);
}

bool mm_leaks_try_find(const struct mm_driver *d, const struct mm_host_heap *h, const struct mm_snapshot *s, struct mm_leaks *leaks,
                       struct mm_driver_error *error) {
    struct search x = {d, h, s, leaks, 0, NULL, NULL};
    const size_t eras_bytes = (s->segment_count ? s->segment_count : 1) * sizeof *x.eras;
    memset(leaks, 0, sizeof *leaks);
    error->call = "malloc";
    error->code = CUDA_ERROR_OUT_OF_MEMORY;
    x.eras = (uint64_t *)malloc(eras_bytes);
    x.copy = (char *)mmap(NULL, s->ref.user_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool done = x.eras && x.copy != MAP_FAILED &&
                mm_copy_try_from_device(d, x.eras, h->guard + offsetof(struct mm_guard, eras), eras_bytes, error);
    for (uint32_t i = 0; done && i < s->segment_count; i++) {
        const uint64_t owner = mm_segment_at(&s->ref, i)->owner;
        const uint32_t kind = MM_OWNER_KIND(owner);
        if (kind - 1 < MM_CLASS_COUNT) done = try_segment(&x, i, kind - 1, error);
        else if (kind == MM_OWNER_RUN) done = try_run(&x, i, owner >> MM_OWNER_LENGTH_SHIFT, error);
    }
    if (x.copy != MAP_FAILED) munmap(x.copy, s->ref.user_bytes);
    free(x.eras);
    if (done) error->call = NULL;
    if (done && leaks->leak_count) qsort(leaks->leak, leaks->leak_count, sizeof *leaks->leak, by_bytes);
    if (!done) mm_leaks_drop(leaks);
    return done;
}

void mm_leaks_drop(struct mm_leaks *leaks) {
    free(leaks->leak);
    leaks->leak = NULL;
}
