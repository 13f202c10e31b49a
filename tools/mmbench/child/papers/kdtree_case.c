/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The case "kdtree" (kdtree.h). The request's size is the number of triangles. The scene and its tree are computed on the CPU, once. */
#include <stdlib.h>

#include "tools/mmbench/child/papers/kdtree.h"
#include "tools/mmbench/child/papers/papers.h"

struct kdtree {
    unsigned count, slots;
    struct kdtree_box *boxes;
    struct kdtree_expected expected;
    unsigned *root;            /* in device memory, as are the pointers below */
    struct kdtree_build build; /* without the bump pointer */
};

static void open_kdtree(void *of) {
    struct kdtree *k = (struct kdtree *)of;
    unsigned *all = (unsigned *)malloc(k->count * sizeof *all);
    if (all == NULL) child_must(cudaErrorMemoryAllocation);
    for (unsigned i = 0; i < k->count; i++) all[i] = i;
    k->root = (unsigned *)child_copied(all, k->count * sizeof *all);
    free(all);
    k->build.boxes = (const struct kdtree_box *)child_copied(k->boxes, k->count * sizeof *k->boxes);
    k->build.count = k->count;
    k->build.slot_count = (unsigned)k->expected.arrays + 1; /* the tasks are the root and the nodes with an array */
    k->build.slots = (struct kdtree_task *)child_device_alloc(k->build.slot_count * sizeof *k->build.slots);
    k->build.pool = (struct kdtree_pool *)child_device_alloc(sizeof *k->build.pool);
    k->build.result = (struct kdtree_result *)child_device_alloc(sizeof *k->build.result);
    k->build.t = (struct tally *)child_device_alloc(sizeof *k->build.t);
    alloc_kdtree.build(&k->build, 1); /* the pool holds no task */
    floor_kdtree.build(&k->build, 1);
}

static void close_kdtree(void *of) {
    struct kdtree *k = (struct kdtree *)of;
    child_must(cudaFree(k->root));
    child_must(cudaFree((void *)(uintptr_t)k->build.boxes));
    child_must(cudaFree(k->build.slots));
    child_must(cudaFree(k->build.pool));
    child_must(cudaFree(k->build.result));
    child_must(cudaFree(k->build.t));
}

/* A pool that holds the root, and nothing found. */
static void clear(struct kdtree *k) {
    struct kdtree_task task;
    struct kdtree_pool pool;
    kdtree_start(&task, &pool, k->root, k->count);
    child_must(cudaMemset(k->build.slots, 0, k->build.slot_count * sizeof *k->build.slots));
    child_must(cudaMemcpy(k->build.slots, &task, sizeof task, cudaMemcpyHostToDevice));
    child_must(cudaMemcpy(k->build.pool, &pool, sizeof pool, cudaMemcpyHostToDevice));
    child_must(cudaMemset(k->build.result, 0, sizeof *k->build.result));
    child_must(cudaMemset(k->build.t, 0, sizeof *k->build.t));
}

static void run_once(void *of, struct bump *bump, double *us, struct tally *t) {
    struct kdtree *k = (struct kdtree *)of;
    const struct kdtree_kernels *kernels = bump ? &floor_kdtree : &alloc_kdtree;
    const unsigned ctas = kernels->ctas();
    struct kdtree_build build = k->build;
    struct kdtree_result result;
    struct tally found;
    build.bump = bump;
    clear(k);
    child_time_begin();
    kernels->build(&build, ctas);
    us[0] = child_time_end_ms() * 1e3;
    child_read(&result, build.result, sizeof result);
    child_read(&found, build.t, sizeof found);
    t->nulls += found.nulls;
    t->corrupt += found.corrupt + (kdtree_wrong(&result, &k->expected.result, found.nulls) ? 1 : 0);
}

void run_kdtree(const struct request *q) {
    struct kdtree k = {0};
    struct paper_program p = {{"kdtree"}, "nonnull nodes leaves returned", 0, NULL, open_kdtree, close_kdtree, run_once};
    if (q->size == 0 || q->size > KDTREE_COUNT_MAX) child_fatal("kdtree", "expected 1 to 2^23 triangles");
    k.count = (unsigned)q->size;
    k.boxes = (struct kdtree_box *)malloc(k.count * sizeof *k.boxes);
    if (k.boxes == NULL) child_must(cudaErrorMemoryAllocation);
    kdtree_scene(k.boxes, k.count);
    if (!kdtree_expect(&k.expected, k.boxes, k.count)) child_must(cudaErrorMemoryAllocation);
    p.bump_bytes = k.expected.bytes;
    p.of = &k;
    paper_run(q, &p);
    free(k.boxes);
}
