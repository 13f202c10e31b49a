/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap on the GPU, as the host sees it: created in cudaMalloc memory, checked and drained by the core's own code in
 * kernels, and checked again on the CPU, in a copy of its metadata. Nothing else may use it at the same time.
 * CUDA_OK(call), which does not return after an error, must be defined before.
 */
#ifndef MM_TESTS_GPU_GPUHEAP_H
#define MM_TESTS_GPU_GPUHEAP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/expect.h"
#include "runtime/check.h"
#include "runtime/cpu/cpuheap.h"

#define GPU_CHECK_THREADS 64u        /* per CTA */
#define GPU_CPU_CHECK_SEGMENTS 1024u /* segments in use; the CPU would take too long for more */

struct gpu_heap {
    struct mm_heap_ref ref;
    uint64_t segments;
    char *user, *metadata;
};

/* The device memory that such a heap takes. */
static inline size_t gpu_heap_bytes(uint64_t segments) {
    struct mm_layout l;
    expect_layout(&l, segments);
    return (segments + 1) * MM_SEGMENT_BYTES + l.total_bytes;
}
/* A fresh heap of `segments`, all of them usable. Metadata that needs no clearing is filled with junk. */
static inline struct gpu_heap gpu_heap_create(uint64_t segments) {
    struct gpu_heap f;
    struct mm_layout l;
    expect_layout(&l, segments);
    f.segments = segments;
    CUDA_OK(cudaMalloc(&f.user, (segments + 1) * MM_SEGMENT_BYTES));
    CUDA_OK(cudaMalloc(&f.metadata, l.total_bytes));
    CUDA_OK(cudaMemset(f.metadata, 0, l.zero_bytes));
    CUDA_OK(cudaMemset(f.metadata + l.zero_bytes, 0x5a, l.total_bytes - l.zero_bytes));
    void *image = malloc(l.image_bytes);
    expect_image(image, &l, (uint64_t)f.metadata, ((uint64_t)f.user + MM_SEGMENT_BYTES - 1) / MM_SEGMENT_BYTES * MM_SEGMENT_BYTES, segments);
    f.ref = ((struct mm_heap *)image)->ref;
    CUDA_OK(cudaMemcpy((void *)f.ref.heap, image, l.image_bytes, cudaMemcpyHostToDevice));
    free(image);
    return f;
}
static inline void gpu_heap_destroy(struct gpu_heap f) {
    CUDA_OK(cudaFree(f.user));
    CUDA_OK(cudaFree(f.metadata));
}

static inline struct mm_heap gpu_heap_header(struct mm_heap_ref ref) {
    struct mm_heap head;
    CUDA_OK(cudaMemcpy(&head, (void *)ref.heap, sizeof head, cudaMemcpyDeviceToHost));
    return head;
}

/* Segments in the free tree. */
static inline uint64_t gpu_heap_free_segments(struct mm_heap_ref ref) {
    const struct mm_heap head = gpu_heap_header(ref);
    uint64_t *leaves = (uint64_t *)malloc(8 * head.tree_leaves), n = 0;
    CUDA_OK(cudaMemcpy(leaves, (uint64_t *)ref.free_tree + ref.tree_roots + ref.tree_mids, 8 * head.tree_leaves, cudaMemcpyDeviceToHost));
    for (uint64_t i = 0; i < head.tree_leaves; i++) n += (uint64_t)__builtin_popcountll(leaves[i]);
    free(leaves);
    return n;
}

/* A copy of the metadata, with zeros for absent parts; the caller frees it. *header: the heap's header in it. */
static inline char *gpu_heap_copy(struct mm_heap_ref ref, struct mm_heap **header) {
    const struct mm_heap head = gpu_heap_header(ref);
    const uint64_t reached = head.grow.reached, begin = ref.heap - reached * sizeof(struct mm_segment), end = ref.owners + reached * MM_SEGMENT_PAGES;
    uint64_t table_entries = head.extents * MM_EXTENT;
#ifdef MM_LISTED_WORDS /* lists and queues lie there, in each segment's share */
    table_entries = reached * MM_TABLE_SHARE * MM_SEGMENT_PAGES;
#endif
    const uint64_t table = ref.words - table_entries * sizeof(uint64_t),
                   words_end = ref.words + (reached * MM_SEGMENT_PAGES * sizeof(uint64_t) << ref.word_shift);
    char *copy = (char *)calloc(1, words_end - begin);
    CUDA_OK(cudaMemcpy(copy, (void *)begin, end - begin, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaMemcpy(copy + (table - begin), (void *)table, words_end - table, cudaMemcpyDeviceToHost));
    *header = (struct mm_heap *)(copy + (ref.heap - begin));
    return copy;
}

/* ---- checker and drain, on the GPU ---- */

static __global__ void gpu_check_part(struct mm_heap_ref ref, struct mm_check *k) {
    mm_heap_check_quiescent(&ref, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x, k);
}
static __global__ void gpu_drain_part(struct mm_heap_ref ref) { /* one warp per CTA */
    const uint32_t here = mm_warp_group(ref.heap);
    for (uint32_t s = blockIdx.x, reached = (uint32_t)mm_heap_of(&ref)->grow.reached; s < reached; s += gridDim.x) mm_segment_retire(&ref, here, s);
}
static inline unsigned gpu_parts(struct mm_heap_ref ref) { return (unsigned)(ref.user_bytes / MM_SEGMENT_BYTES / GPU_CHECK_THREADS + 1); }

/* Retires free blocks, so that their pages are unowned. */
static inline void gpu_heap_drain(struct mm_heap_ref ref) {
    uint64_t before = 0;
    for (int pass = 0; pass < 8 && (pass < 2 || gpu_heap_free_segments(ref) != before); pass++) { /* a warp that does not get a lock leaves its block */
        before = gpu_heap_free_segments(ref);
        gpu_drain_part<<<MM_HOST_TRIM_WARPS, 32>>>(ref);
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaDeviceSynchronize());
    }
}

/* Checks a copy on the CPU. Returns NULL or what is wrong; *asked: whether it was checked. */
static inline const char *gpu_heap_wrong_on_cpu(struct mm_heap_ref ref, char *why, size_t why_bytes, uint64_t *live, int *asked) {
    const struct mm_heap head = gpu_heap_header(ref);
    *asked = head.grow.reached - head.free_count <= GPU_CPU_CHECK_SEGMENTS;
#ifdef MM_RING_UNIT_BYTES /* the headers of chunks are not in the copy */
    *asked = 0;
#endif
    const char *wrong = NULL;
    if (*asked) {
        struct mm_cpu_heap copy;
        struct mm_heap *header;
        char *metadata = gpu_heap_copy(ref, &header);
        if (mm_cpu_heap_adopt(&copy, header) != 0) wrong = "no metadata of this version";
        else wrong = mm_cpu_heap_check_quiescent(&copy, why, why_bytes, live);
        free(metadata);
    }
    return wrong;
}

/* Returns NULL if the heap is sound according to GPU and CPU, else what is wrong, in `why`. *live: bytes in use. */
static inline const char *gpu_heap_wrong(struct mm_heap_ref ref, char *why, size_t why_bytes, uint64_t *live) {
    struct mm_check *device, host;
    char text[200];
    uint64_t cpu_live = 0;
    int asked = 0;
    CUDA_OK(cudaMalloc(&device, sizeof *device));
    CUDA_OK(cudaMemset(device, 0, sizeof *device));
    gpu_check_part<<<gpu_parts(ref), GPU_CHECK_THREADS>>>(ref, device);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaFree(device));
    *live = host.live_bytes;
    const char *gpu = mm_cpu_check_text(&host, why, why_bytes);
    const char *cpu = gpu_heap_wrong_on_cpu(ref, text, sizeof text, &cpu_live, &asked);
    if (gpu != NULL) return gpu;
    if (cpu == NULL && (!asked || cpu_live == *live)) return NULL;
    if (cpu != NULL) snprintf(why, why_bytes, "on the CPU: %s", cpu);
    else snprintf(why, why_bytes, "%llu B are live for the GPU, %llu for the CPU", (unsigned long long)*live, (unsigned long long)cpu_live);
    return why;
}

/* Drains a heap with nothing live; it must then be sound and empty, and all of its `mapped` segments free. Returns NULL or what is wrong. */
static inline const char *gpu_heap_drain_wrong(struct mm_heap_ref ref, uint64_t mapped, char *why, size_t why_bytes) {
    uint64_t live = 0;
    gpu_heap_drain(ref);
    const char *wrong = gpu_heap_wrong(ref, why, why_bytes, &live);
    if (wrong == NULL && live != 0) {
        snprintf(why, why_bytes, "%llu B are live", (unsigned long long)live);
        wrong = why;
    }
    const uint64_t free_segments = gpu_heap_free_segments(ref);
    if (wrong == NULL && free_segments != mapped) {
        snprintf(why, why_bytes, "%llu segments are free, of %llu", (unsigned long long)free_segments, (unsigned long long)mapped);
        wrong = why;
    }
    return wrong;
}

#endif
