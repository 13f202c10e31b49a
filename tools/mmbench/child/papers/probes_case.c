/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/image.h"
#include "tools/mmbench/child/papers/papers.h"
#include "tools/mmbench/child/papers/probes.h"

#define PAGE_BYTES (2ull << 20) /* unit of mapping of a heap's metadata */
#define USER_BASE (1ull << 40)  /* not mapped: nothing is written to a unit */

struct face {
    const char *allocator;
    const struct probes_kernels *plain, *counted;
    double (*expected)(struct probes_point p); /* draws of a thread, by the paper; NULL: the paper has no formula */
};
static const struct face faces[] = {{"random-walk", &probes_rw, &probes_rw_counted, probes_sets},
                                    {"random-walk-bitmap", &probes_bm, &probes_bm_counted, probes_reads},
                                    {"random-walk-coop", &probes_coop, &probes_coop_counted, NULL}};

static const struct face *face_of(const char *allocator) {
    for (size_t i = 0; i < sizeof faces / sizeof *faces; i++)
        if (!strcmp(allocator, faces[i].allocator)) return &faces[i];
    child_fatal("probes: this allocator draws no units", allocator);
    return NULL;
}

static void *host_alloc(size_t bytes) {
    void *p = malloc(bytes);
    if (p == NULL) abort();
    return p;
}

/* Metadata of a heap of so many units, in device memory; all segments are in the list. Returns it. */
static void *heap_open(const struct face *face, uint32_t units) {
    const uint32_t segments = units >> (MM_SEGMENT_SHIFT - MM_WALK_UNIT_SHIFT);
    struct mm_layout l;
    uint32_t listed;
    if (mm_layout_make(&l, segments, PAGE_BYTES, 1u << MM_ALIGN_SHIFT) != 0) child_fatal("probes", "no such heap");
    void *metadata = child_device_alloc(l.total_bytes), *image = host_alloc(l.image_bytes);
    mm_heap_image(image, &l, (uint64_t)(size_t)metadata, USER_BASE, segments);
    child_must(cudaMemcpy((char *)metadata + l.heap, image, l.image_bytes, cudaMemcpyHostToDevice));
    const struct mm_heap_ref ref = ((const struct mm_heap *)image)->ref;
    free(image);
    face->plain->heap(&ref);
    face->counted->heap(&ref);
    face->plain->list(segments);
    child_read(&listed, (const void *)(size_t)ref.classes_at, sizeof listed); /* count, in struct mm_class_state */
    if (listed != segments) child_fatal("probes", "not all segments are in the list");
    return metadata;
}

/* What the runs measured. */
struct samples {
    double probes[CHILD_RUNS_MAX], over[CHILD_RUNS_MAX], over_words[CHILD_RUNS_MAX], sets[CHILD_RUNS_MAX], steps[CHILD_RUNS_MAX], steps_over[CHILD_RUNS_MAX],
        beyond[CHILD_RUNS_MAX], us[CHILD_RUNS_MAX];
};

struct memory {
    uint32_t *taken, *got, *taken_device, *got_device;
    struct probes_note *notes, *notes_device;
};

/* Takes units with these kernels from a fresh placement. Returns the time; adds what is wrong to *t. */
static double take(const struct probes_kernels *kernels, struct probes_point p, const struct memory *m, struct tally *t) {
    kernels->place(m->taken_device, p.units / 32);
    child_must(cudaDeviceSynchronize());
    child_time_begin();
    kernels->take(p.threads, m->got_device, m->notes_device);
    const double ms = child_time_end_ms();
    child_read(m->got, m->got_device, p.threads * sizeof *m->got);
    for (uint32_t i = 0; i < p.threads; i++) t->nulls += m->got[i] == PROBES_NONE;
    t->corrupt += probes_wrong(m->taken, p.units, m->got, p.threads);
    return ms * 1e3;
}

static void measure(const struct face *face, struct probes_point p, const struct memory *m, struct samples *s, unsigned run, struct tally *t) {
    probes_place(m->taken, p.units, p.available, run);
    child_must(cudaMemcpy(m->taken_device, m->taken, p.units / 8, cudaMemcpyHostToDevice));
    s->us[run] = take(face->plain, p, m, t);
    if (t->nulls || t->corrupt) return;
    take(face->counted, p, m, t);
    child_read(m->notes, m->notes_device, p.threads * sizeof *m->notes);
    const struct probes_found f = probes_evaluate(m->notes, p.threads, PROBES_LANES);
    const int is_rw = face->expected == probes_sets;
    s->sets[run] = f.sets, s->beyond[run] = f.beyond, s->steps[run] = f.steps;
    s->probes[run] = is_rw ? f.sets : f.reads;
    s->over[run] = s->probes[run] / (face->expected ? face->expected(p) : 1);
    s->over_words[run] = f.reads / probes_reads_of_words(p);
    s->steps_over[run] = f.steps / probes_steps(p, PROBES_LANES);
}

static struct memory memory_open(struct probes_point p) {
    struct memory m;
    m.taken = (uint32_t *)host_alloc(p.units / 8);
    m.got = (uint32_t *)host_alloc(p.threads * sizeof *m.got);
    m.notes = (struct probes_note *)host_alloc(p.threads * sizeof *m.notes);
    m.taken_device = (uint32_t *)child_device_alloc(p.units / 8);
    m.got_device = (uint32_t *)child_device_alloc(p.threads * sizeof *m.got);
    m.notes_device = (struct probes_note *)child_device_alloc(p.threads * sizeof *m.notes);
    return m;
}

static void memory_close(const struct memory *m) {
    free(m->taken), free(m->got), free(m->notes);
    child_must(cudaFree(m->taken_device));
    child_must(cudaFree(m->got_device));
    child_must(cudaFree(m->notes_device));
}

void run_probes(const struct request *q) {
    static struct samples s;
    const struct face *face = face_of(alloc_name);
    const struct probes_point p = {1u << (!strcmp(q->name, "probes") ? PROBES_SHIFT : PROBES_SHIFT_LARGE), (uint32_t)q->size, q->threads};
    unsigned runs = q->runs < CHILD_RUNS_MAX ? q->runs : CHILD_RUNS_MAX - 1;
    const struct memory m = memory_open(p);
    void *metadata = heap_open(face, p.units);
    struct tally t = child_nothing_found();
    char checked[48];
    snprintf(checked, sizeof checked, "free before; once; T %u", p.units);
    for (unsigned run = 0; run <= runs && !t.nulls && !t.corrupt; run++) measure(face, p, &m, &s, run, &t); /* run 0 is the warm-up */
    if (t.nulls || t.corrupt) runs = 0;
    const int is_rw = face->expected == probes_sets;
    child_row("probes", "count", s.probes + 1, runs, "-", &t, checked);
    child_row("over", "ratio", s.over + 1, face->expected ? runs : 0, "-", &t, checked);
    child_row("over_words", "ratio", s.over_words + 1, face->expected && !is_rw ? runs : 0, "-", &t, checked);
    child_row("sets", "count", s.sets + 1, runs, "-", &t, checked);
    child_row("warp_steps", "count", s.steps + 1, runs, "-", &t, checked);
    child_row("warp_over", "ratio", s.steps_over + 1, is_rw ? runs : 0, "-", &t, checked);
    child_row("beyond", "share", s.beyond + 1, runs, "-", &t, checked);
    child_row("time", "us", s.us + 1, runs, "-", &t, checked);
    child_must(cudaFree(metadata));
    memory_close(&m);
}
