/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "runtime/host/leaks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/checked/guard.h"
#include "runtime/host/copy.h"
#include "runtime/host/kernels.h"
#include "runtime/host/state.h"
#include "runtime/usage.h"

struct search {
    const struct mm_driver *d;
    const struct mm_host_heap *h;
    const struct mm_snapshot *s;
    struct mm_leaks *leaks;
    size_t room; /* capacity of leaks->leak */
    struct mm_eras *eras;
    char *copy; /* buffer for copies of the heap's memory. As large as the heap, but memory is used only where it is written */
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

/* Examines an allocation that is live for the allocator, and that was copied. class_: its size class, or MM_CLASS_COUNT. */
static void look(struct search *x, struct mm_guarded g, uint32_t class_) {
    const uint64_t page = (g.p - x->s->ref.user_base) >> MM_PAGE_SHIFT;
    const uint32_t era = mm_guard_is_small(g.granted) ? 0 : mm_guard_era_of(&x->eras[page / MM_SEGMENT_PAGES], page % MM_SEGMENT_PAGES);
    const struct mm_guard_said said = mm_guard_ask(g, era);
    const uint64_t asked = mm_guard_asked(said.made);
    const uint32_t of_class = asked <= MM_SMALL_BYTES_MAX ? mm_class_of((uint32_t)asked) : MM_CLASS_COUNT;
    switch (said.state) {
    case MM_GUARD_LIVE:
        note_leak(x, mm_guard_grid(said.made) + 1u, of_class, asked);
        if (mm_guard_is_overrun(g, asked)) note_found(x, MM_MISUSE_OVERRUN, g, said);
        break;
    case MM_GUARD_FREED:
        x->leaks->kept[class_]++;
        if (mm_guard_is_unpoisoned(g)) note_found(x, MM_MISUSE_AFTER_FREE, g, said);
        break;
    case MM_GUARD_LOST: note_leak(x, 0, MM_LEAK_LOST, mm_guard_room(g)); note_found(x, MM_MISUSE_OVERRUN, g, said);
    }
}

/* Examines a block whose segment was copied. */
static void look_block(struct search *x, uint32_t page, uint32_t c) {
    const struct mm_heap_ref *ref = &x->s->ref;
    const struct mm_class class_ = ref->classes[c];
    char *at = x->copy + page % MM_SEGMENT_PAGES * MM_PAGE_BYTES;
    for (uint32_t i = 0; i < class_.slices; i++)
        if (mm_usage_is_live(ref, page, i)) look(x, mm_guard_slice(class_, mm_page_address(ref, page), at, i), c);
}

/* Examines a span or run. Copies only its tag, the bytes that poison would be in, and the redzone. */
static bool try_large(struct search *x, uint64_t p, uint64_t granted, struct mm_driver_error *error) {
    const struct mm_guarded g = mm_guard_run(p, x->copy, granted);
    const uint64_t tag = g.granted - sizeof *g.tag;
    if (!mm_copy_try_from_device(x->d, g.tag, p + tag, sizeof *g.tag, error) || !mm_copy_try_from_device(x->d, x->copy, p, MM_GUARD_BYTES, error)) return false;
    const uint64_t asked = mm_guard_asked(g.tag->made), zone = asked / 16 * 16;
    if (asked <= mm_guard_room(g) && !mm_copy_try_from_device(x->d, x->copy + zone, p + zone, MM_GUARD_BYTES, error)) return false;
    look(x, g, MM_CLASS_COUNT);
    return true;
}

static bool try_segment(struct search *x, uint32_t s, struct mm_driver_error *error) {
    const struct mm_heap_ref *ref = &x->s->ref;
    const uint64_t run = mm_run_segments(mm_segment_at(ref, s)->run), address = ref->user_base + s * MM_SEGMENT_BYTES;
    struct mm_usage usage;
    uint64_t live = 0;
    if (run != 0) return s + run > x->s->segment_count || try_large(x, address, run * MM_SEGMENT_BYTES, error);
    memset(&usage, 0, sizeof usage);
    mm_usage_walk(ref, s, s + 1, &usage);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) live += usage.classes[c].live;
    if (live != 0 && !mm_copy_try_from_device(x->d, x->copy, address, MM_SEGMENT_BYTES, error)) return false;
    for (uint32_t page = s * MM_SEGMENT_PAGES, end = page + MM_SEGMENT_PAGES; live != 0 && page < end; page++) {
        const uint32_t c = *mm_page_owner(ref, page) - 1u; /* a checked run has no narrow blocks */
        if (mm_usage_is_block(ref, page, c)) look_block(x, page, c);
    }
    for (uint32_t page = s * MM_SEGMENT_PAGES, end = page + MM_SEGMENT_PAGES; usage.spans != 0 && page < end; page++) {
        const uint32_t span = mm_usage_span(ref, page);
        if (span != 0 && !try_large(x, mm_page_address(ref, page), span * MM_PAGE_BYTES, error)) return false;
    }
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
    mm_driver_lacks_memory(error); /* unless the driver has another reason */
    x.eras = (struct mm_eras *)malloc(eras_bytes);
    x.copy = (char *)mmap(NULL, s->ref.user_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool done = x.eras && x.copy != MAP_FAILED && mm_copy_try_from_device(d, x.eras, h->guard + offsetof(struct mm_guard, eras), eras_bytes, error);
    for (uint32_t i = 0; done && i < s->segment_count; i++) done = try_segment(&x, i, error);
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
