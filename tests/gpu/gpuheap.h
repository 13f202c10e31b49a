/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap on the GPU, seen from outside: made in cudaMalloc memory, checked and drained by the core's own code in
 * kernels, and checked once more on the CPU, in a copy of its metadata. Nobody else may be at work in it.
 * CUDA_OK(call), which does not return after an error, must be defined before.
 */
#ifndef MM_TESTS_GPU_GPUHEAP_H
#define MM_TESTS_GPU_GPUHEAP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/expect.h"
#include "runtime/core/check.h"
#include "runtime/cpu/cpuheap.h"

#define GPU_CHECK_THREADS 64u       /* of a CTA */
#define GPU_CPU_CHECK_SEGMENTS 1024u /* in use; with more, the CPU would take too long */

struct gpu_heap {
    struct mm_heap_ref ref;
    uint64_t segments;
    char *user, *metadata;
};

/* What such a heap takes of the device. */
static inline size_t gpu_heap_bytes(uint64_t segments) {
    struct mm_layout l;
    if (mm_layout_make(&l, segments, MM_SEGMENT_BYTES) != 0) abort();
    return (segments + 1) * MM_SEGMENT_BYTES + l.total_bytes;
}
/* A fresh heap of `segments`, all of them usable. Slice bits need no clearing: they are rubbish. */
static inline struct gpu_heap gpu_heap_create(uint64_t segments) {
    struct gpu_heap f;
    struct mm_layout l;
    if (mm_layout_make(&l, segments, MM_SEGMENT_BYTES) != 0) abort();
    f.segments = segments;
    CUDA_OK(cudaMalloc(&f.user, (segments + 1) * MM_SEGMENT_BYTES));
    CUDA_OK(cudaMalloc(&f.metadata, l.total_bytes));
    CUDA_OK(cudaMemset(f.metadata, 0, l.bits_offset));
    CUDA_OK(cudaMemset(f.metadata + l.bits_offset, 0x5a, l.total_bytes - l.bits_offset));
    void *image = malloc(l.image_bytes);
    expect_image(image, &l, (uint64_t)f.metadata, mm_round_up((uint64_t)f.user, MM_SEGMENT_BYTES), segments);
    f.ref = ((struct mm_heap *)image)->ref;
    CUDA_OK(cudaMemcpy(f.metadata, image, l.image_bytes, cudaMemcpyHostToDevice));
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

/* The metadata but for slice bits, and zeros for what is not there; free() it. */
static inline char *gpu_heap_fixed(struct mm_heap_ref ref, size_t more_bytes) {
    const size_t bytes = ref.blocks - ref.heap + gpu_heap_header(ref).grow.reached * sizeof(struct mm_blocks);
    char *fixed = (char *)calloc(1, ref.bits - ref.heap + more_bytes);
    CUDA_OK(cudaMemcpy(fixed, (void *)ref.heap, bytes, cudaMemcpyDeviceToHost));
    return fixed;
}

static inline const struct mm_segment *gpu_fixed_segments(const char *fixed) {
    const struct mm_heap *h = (const struct mm_heap *)fixed;
    return (const struct mm_segment *)(fixed + (h->ref.segments - h->ref.heap));
}
/* Segments in the free tree. */
static inline uint64_t gpu_fixed_free_segments(const char *fixed) {
    const struct mm_heap *h = (const struct mm_heap *)fixed;
    const uint64_t *leaves = (const uint64_t *)(fixed + (h->ref.free_tree - h->ref.heap)) + 1 + h->ref.tree_mids;
    uint64_t n = 0;
    for (uint64_t i = 0; i < h->tree_leaves; i++) n += (uint64_t)__builtin_popcountll(leaves[i]);
    return n;
}
static inline uint64_t gpu_heap_free_segments(struct mm_heap_ref ref) {
    char *fixed = gpu_heap_fixed(ref, 0);
    const uint64_t n = gpu_fixed_free_segments(fixed);
    free(fixed);
    return n;
}

/* ---- checker and drain, on the GPU ---- */

static __global__ void gpu_check_part(struct mm_heap_ref ref, struct mm_check *k) {
    mm_heap_check_quiescent(&ref, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x, k);
}
static __global__ void gpu_drain_part(struct mm_heap_ref ref, uint32_t pass) {
    mm_heap_drain_quiescent(&ref, pass, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
}
static inline unsigned gpu_parts(struct mm_heap_ref ref) {
    return (unsigned)(ref.user_bytes / MM_SEGMENT_BYTES / GPU_CHECK_THREADS + 1);
}

static inline void gpu_heap_drain(struct mm_heap_ref ref) {
    for (uint32_t pass = 0; pass < 2; pass++) {
        gpu_drain_part<<<gpu_parts(ref), GPU_CHECK_THREADS>>>(ref, pass);
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaDeviceSynchronize());
    }
}

/* The CPU's opinion of a copy. Slice bits of segments that are not mapped cannot be copied; those of free ones need
 * not be. Returns NULL or what is wrong; *asked: whether it was looked at. */
static inline const char *gpu_heap_wrong_on_cpu(struct mm_heap_ref ref, char *why, size_t why_bytes, uint64_t *live,
                                                int *asked) {
    const uint64_t fixed_bytes = ref.bits - ref.heap, segments = ref.user_bytes / MM_SEGMENT_BYTES;
    char *metadata = gpu_heap_fixed(ref, 0);
    const struct mm_segment *at = gpu_fixed_segments(metadata);
    uint64_t used = 0;
    for (uint64_t s = 0; s < segments; s++) used += at[s].owner != 0;
    *asked = used <= GPU_CPU_CHECK_SEGMENTS;
    const char *wrong = NULL;
    if (*asked) {
        struct mm_cpu_heap copy;
        metadata = (char *)realloc(metadata, fixed_bytes + segments * MM_SEGMENT_BITMAP_BYTES);
        at = gpu_fixed_segments(metadata);
        for (uint64_t s = 0; s < segments; s++)
            if (at[s].owner != 0)
                CUDA_OK(cudaMemcpy(metadata + fixed_bytes + s * MM_SEGMENT_BITMAP_BYTES,
                                   (void *)(ref.bits + s * MM_SEGMENT_BITMAP_BYTES), MM_SEGMENT_BITMAP_BYTES,
                                   cudaMemcpyDeviceToHost));
        if (mm_cpu_heap_adopt(&copy, metadata) != 0) wrong = "no metadata of this version";
        else wrong = mm_cpu_heap_check_quiescent(&copy, why, why_bytes, live);
    }
    free(metadata);
    return wrong;
}

/* Returns NULL if the heap is sound, for the GPU and for the CPU, else what is wrong, in `why`. *live: bytes in use. */
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
    else
        snprintf(why, why_bytes, "%llu B are live for the GPU, %llu for the CPU", (unsigned long long)*live,
                 (unsigned long long)cpu_live);
    return why;
}

/* Whether a drained heap without live memory is as a fresh one of `mapped` segments: all fixed metadata but the counts
 * of misuse and of NULL. (Slice bits have no meaning in free segments.) Returns NULL, or the first difference. */
static inline const char *gpu_heap_not_fresh(struct mm_heap_ref ref, uint64_t mapped, char *why, size_t why_bytes) {
    struct mm_layout l;
    char *fixed = gpu_heap_fixed(ref, 0);
    struct mm_heap *is = (struct mm_heap *)fixed, *fresh;
    const uint64_t fixed_bytes = ref.bits - ref.heap, free_segments = gpu_fixed_free_segments(fixed);
    const char *wrong = NULL;
    if (mm_layout_make(&l, ref.user_bytes / MM_SEGMENT_BYTES, 128) != 0) abort();
    char *image = (char *)calloc(1, fixed_bytes);
    expect_image(image, &l, ref.heap, ref.user_base, mapped);
    fresh = (struct mm_heap *)image;
    fresh->ref = ref;
    fresh->null_count = is->null_count;
    fresh->null_first_bytes = is->null_first_bytes, fresh->null_first_grid = is->null_first_grid;
    memcpy(fresh->misuse, is->misuse, sizeof is->misuse);
    if (ref.mailbox != 0) fresh->grow = is->grow, fresh->grow.lock = 0;
    for (uint64_t i = 0; i < fixed_bytes / 8 && wrong == NULL; i++) {
        const uint64_t a = ((uint64_t *)fixed)[i], b = ((uint64_t *)image)[i], at = 8 * i;
        if (a == b) continue;
        const uint64_t begin = at < l.free_tree     ? 0
                               : at < l.class_trees ? l.free_tree
                               : at < l.rings       ? l.class_trees
                               : at < l.segments    ? l.rings
                               : at < l.fixed_bytes ? l.segments
                                                    : l.fixed_bytes;
        const uint64_t unit = begin == l.fixed_bytes   ? sizeof(struct mm_blocks)
                              : begin == l.segments    ? sizeof(struct mm_segment)
                              : begin == l.class_trees ? l.tree_bytes
                              : begin == l.rings       ? MM_RINGS_BYTES
                                                       : 0;
        snprintf(why, why_bytes, "%s %llu, byte %llu: %#llx, in a fresh heap %#llx (%llu segments are free, of %llu)",
                 begin == 0             ? "header"
                 : begin == l.free_tree ? "free tree"
                 : begin == l.segments  ? "segment"
                 : begin == l.rings     ? "rings of class"
                 : begin == l.class_trees ? "class tree"
                                          : "blocks of segment",
                 (unsigned long long)(unit ? (at - begin) / unit : 0),
                 (unsigned long long)(unit ? (at - begin) % unit : at - begin), (unsigned long long)a,
                 (unsigned long long)b, (unsigned long long)free_segments, (unsigned long long)mapped);
        wrong = why;
    }
    free(fixed);
    free(image);
    return wrong;
}

/* Nothing is live: drains; the heap must then be sound, empty, and as fresh. Returns NULL or what is wrong. */
static inline const char *gpu_heap_drain_wrong(struct mm_heap_ref ref, uint64_t mapped, char *why, size_t why_bytes) {
    uint64_t live = 0;
    gpu_heap_drain(ref);
    const char *wrong = gpu_heap_wrong(ref, why, why_bytes, &live);
    if (wrong == NULL && live != 0) {
        snprintf(why, why_bytes, "%llu B are live", (unsigned long long)live);
        wrong = why;
    }
    return wrong ? wrong : gpu_heap_not_fresh(ref, mapped, why, why_bytes);
}

#endif
