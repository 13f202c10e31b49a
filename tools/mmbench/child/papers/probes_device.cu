/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of the case probes, of one face of random walk: PROBES_NAME (probes.h). */
#include <cuda_runtime_api.h>

#include "tools/mmbench/child/papers/probes_kernels.h"

static __global__ void list_kernel(uint32_t segments) {
    MM_ROLLED
    for (uint32_t i = 0; i < segments; i++)
        if (mm_list_add(&probes_heap, MM_WARP_ALL, MM_LISTED_ANY) != MM_LISTED_MORE) return;
}

static __global__ void place_kernel(const uint32_t *taken, uint32_t words) {
    const uint32_t w = thread_idx();
    if (w < words) mm_store_relaxed_u64(mm_units_word(&probes_heap, w), mm_units_make(taken[w], 0));
}

static __global__ void take_kernel(uint32_t *units, struct probes_note *notes) {
    const uint32_t i = thread_idx();
#ifdef PROBES_COUNTED
    notes[i] = probes_take_counted(&probes_heap, &units[i]);
#else
    (void)notes;
    units[i] = probes_take_one(&probes_heap);
#endif
}

static void heap(const struct mm_heap_ref *ref) { cudaMemcpyToSymbol(probes_heap, ref, sizeof *ref); }
static void list(uint32_t segments) { list_kernel<<<1, WARP_THREADS>>>(segments); }
static void place(const uint32_t *taken, uint32_t words) { place_kernel<<<(words + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS>>>(taken, words); }
static void take(uint32_t threads, uint32_t *units, struct probes_note *notes) { take_kernel<<<threads / CTA_THREADS, CTA_THREADS>>>(units, notes); }

extern "C" const struct probes_kernels PROBES_NAME = {heap, list, place, take};
