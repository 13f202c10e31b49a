/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tools/mmbench/child/converged.h"

#include <stdlib.h>

/* The result of one launch. */
struct launch {
    double cycles; /* of the arithmetic, mean over the warps */
    struct converged_parts parts;
};

static void launch_plain(struct lane_note *notes, unsigned threads, unsigned long long bytes) {
    (void)bytes;
    plain_converged(notes, threads);
}

/* A wrong sum counts as corruption. */
static struct launch look(const struct lane_note *notes, unsigned threads, struct tally *t) {
    unsigned sums[WARP_THREADS];
    struct launch l = {0, {0, 0}};
    for (unsigned i = 0; i < WARP_THREADS; i++) sums[i] = converged_sum(i, 0);
    for (unsigned i = 0; i < threads; i++) {
        t->nulls += notes[i].nulls;
        t->corrupt += notes[i].sum != sums[i % WARP_THREADS];
    }
    for (unsigned i = 0; i < threads; i += WARP_THREADS) {
        l.cycles += (double)converged_busy(notes + i) / (threads / WARP_THREADS);
        converged_count(notes + i, &l.parts);
    }
    return l;
}

void run_converged(const struct request *q) {
    enum { PLAIN, LANE, ALL, KERNELS };
    static const struct {
        const char *cycles, *over, *full;
        void (*launch)(struct lane_note *, unsigned, unsigned long long);
    } kernels[KERNELS] = {
        {"plain", NULL, NULL, launch_plain}, {"lane", "lane_over", "lane_full", alloc_converged_lane}, {"all", "all_over", "all_full", alloc_converged_all}};
    static double cycles[KERNELS][CHILD_RUNS_MAX], over[KERNELS][CHILD_RUNS_MAX], full[KERNELS][CHILD_RUNS_MAX];
    const unsigned threads = q->threads / CONVERGED_CTA_THREADS * CONVERGED_CTA_THREADS, runs = q->runs < CHILD_RUNS_MAX ? q->runs : CHILD_RUNS_MAX;
    const size_t bytes = threads * sizeof(struct lane_note);
    struct lane_note *on_device = (struct lane_note *)child_device_alloc(bytes), *notes = (struct lane_note *)malloc(bytes);
    struct tally t[KERNELS];
    if (notes == NULL) child_must(cudaErrorMemoryAllocation);
    for (int k = 0; k < KERNELS; k++) t[k] = child_nothing_found();
    for (unsigned run = 0; run <= runs; run++) /* run 0 is the warm-up */
        for (int k = 0; k < KERNELS; k++) {
            kernels[k].launch(on_device, threads, q->size);
            child_read(notes, on_device, bytes);
            const struct launch l = look(notes, threads, &t[k]);
            if (run == 0) continue;
            cycles[k][run - 1] = l.cycles;
            over[k][run - 1] = l.cycles / cycles[PLAIN][run - 1];
            full[k][run - 1] = l.parts.all ? (double)l.parts.whole / (double)l.parts.all : 0;
        }
    free(notes);
    child_must(cudaFree(on_device));
    for (int k = 0; k < KERNELS; k++) {
        const char *checked = k == PLAIN ? "sums" : "nonnull sums";
        const int is_fine = t[k].nulls == 0 && t[k].corrupt == 0;
        child_row(kernels[k].cycles, "cycles", cycles[k], runs, "-", &t[k], checked);
        if (kernels[k].over) child_row(kernels[k].over, "ratio", over[k], is_fine ? runs : 0, "-", &t[k], checked);
        if (kernels[k].full) child_row(kernels[k].full, "share", full[k], is_fine ? runs : 0, "-", &t[k], checked);
    }
}
