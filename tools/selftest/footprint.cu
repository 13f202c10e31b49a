/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The device memory that the heap takes, compared with the live bytes. There are eight workloads, each in its own process. After the
 * first objects come forty rounds, in each of which half of the objects are freed and allocated anew. Live bytes are those that were requested.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tools/selftest/parts.h"

#define OBJECTS_MAX 1000000u
#define FOOTPRINT_ROUNDS 40u

struct workload {
    const char *name;
    unsigned objects;
    int logarithmic;
    unsigned least, most;     /* bytes */
    unsigned long long about; /* expected live bytes: the workload is skipped if less than four times that is free */
};

static const struct workload workloads[] = {{"1 of 16 B", 1, 0, 16, 16, 16},
                                            {"1,000 of 16..4,096 B", 1000, 0, 16, 4096, 2056000},
                                            {"10,000 of 16..65,536 B, log", 10000, 1, 16, 65536, 79000000},
                                            {"100,000 of 64 B", 100000, 0, 64, 64, 6400000},
                                            {"100,000 of 16..1,024 B", 100000, 0, 16, 1024, 52000000},
                                            {"1,000,000 of 16..512 B", 1000000, 0, 16, 512, 264000000},
                                            {"1,000,000 of 16..8,192 B, log", 1000000, 1, 16, 8192, 1311000000},
                                            {"10,000 of 16..1,000,000 B, log", 10000, 1, 16, 1000000, 906000000}};

const unsigned footprint_count = sizeof workloads / sizeof *workloads;

struct footprint {
    unsigned long long live_bytes, nulls;
};

/* Allocates for every empty slot. The first word of an object is its size. */
static __global__ void renew(unsigned **objects, struct workload w, unsigned salt, struct footprint *t) {
    const unsigned i = thread_idx();
    if (i >= w.objects || objects[i] != NULL) return;
    const unsigned bytes = draw_bytes(mix(i * 0x9e3779b9u + salt), w.logarithmic, w.least, w.most);
    objects[i] = (unsigned *)malloc(bytes);
    if (objects[i] == NULL) {
        atomicAdd(&t->nulls, 1ull);
        return;
    }
    *objects[i] = bytes;
    atomicAdd(&t->live_bytes, (unsigned long long)bytes);
}

/* Frees `percent` of the objects, at random. */
static __global__ void drop(unsigned **objects, struct workload w, unsigned percent, unsigned salt, struct footprint *t) {
    const unsigned i = thread_idx();
    if (i >= w.objects || objects[i] == NULL || mix(i + salt * 0x7f4a7c15u) % 100 >= percent) return;
    atomicAdd(&t->live_bytes, 0ull - (unsigned long long)*objects[i]);
    free(objects[i]);
    objects[i] = NULL;
}

void footprint_head(void) { figure("MB of the device", "%12s %14s %14s %10s", "live at most", "taken at most", "taken at end", "took"); }

void footprint_run(unsigned workload) {
    const struct workload w = workloads[workload];
    const double begin = now_s();
    unsigned **objects;
    struct footprint *on_device, t;
    double live_most = 0, taken_most = 0, taken = 0;
    MUST(cudaMalloc((void **)&objects, OBJECTS_MAX * sizeof *objects));
    MUST(cudaMemset(objects, 0, OBJECTS_MAX * sizeof *objects));
    MUST(cudaMalloc((void **)&on_device, sizeof *on_device));
    MUST(cudaMemset(on_device, 0, sizeof *on_device));
    /* Memory that CUDA takes at the first launch of such kernels is not counted; the heap, which that launch creates, is. */
    struct workload none = w;
    none.objects = 0;
    renew<<<1, 1>>>(objects, none, 0, on_device);
    drop<<<1, 1>>>(objects, none, 0, 0, on_device);
    must_end(w.name);
    struct mm_statistics s = statistics();
    const double before = (double)device_free_bytes() + (double)(s.heap_bytes + s.metadata_bytes);
    if (before < 4.0 * (double)w.about) {
        figure(w.name, "not run: %.0f MB are free", before / MB);
        return;
    }
    for (unsigned round = 0; round <= FOOTPRINT_ROUNDS + 1; round++) {
        if (round > 0) drop<<<ctas(w.objects), CTA_THREADS>>>(objects, w, round <= FOOTPRINT_ROUNDS ? 50 : 100, round, on_device);
        if (round <= FOOTPRINT_ROUNDS) renew<<<ctas(w.objects), CTA_THREADS>>>(objects, w, mix(round + 1), on_device);
        must_end(w.name);
        MUST(cudaMemcpy(&t, on_device, sizeof t, cudaMemcpyDeviceToHost));
        taken = before - (double)device_free_bytes();
        if (taken > taken_most) taken_most = taken;
        if ((double)t.live_bytes > live_most) live_most = (double)t.live_bytes;
    }
    s = statistics();
    struct mm_usage_statistics usage;
    usage.struct_bytes = sizeof usage;
    const int counted = mm_get_usage(&usage) == MM_OK && usage.live_objects == 0 && t.live_bytes == 0;
    check(t.nulls == 0 && misuses(&s) == 0 && counted, w.name, "%12.1f %14.1f %14.1f %8.1f s%s", live_most / MB, taken_most / MB, taken / MB, now_s() - begin,
          t.nulls       ? "; NULLs"
          : !counted    ? "; objects are left"
          : misuses(&s) ? "; misuse"
                        : "");
}
