/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A table of driver functions that tracks mappings, and a heap on it. Shared by the suites of chunks, the grower and trimming: they test cases that the
 * stand-in's scenarios reach only in races. */
#ifndef MM_CHECK_MEMORY_H
#define MM_CHECK_MEMORY_H

#define _GNU_SOURCE
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/host/grower.h"
#include "runtime/host/heap.h"
#include "runtime/host/state.h"
#include "runtime/host/trim.h"
#include "tests/runner.h"

#define SEGMENTS 64u
#define MANY (4u * MM_HOST_CHUNK_SEGMENTS_MAX)
#define USER ((CUdeviceptr)1 << 40)
#define METADATA ((CUdeviceptr)1 << 43)      /* distance from one stretch of it to the next */
#define FIXED 300                            /* bytes of each stretch that belong to no segment */
#define EACH(stretch) (40000ull + (stretch)) /* bytes for each segment */
#define DOWN(stretch) ((stretch) % 2)        /* those grow towards smaller addresses; so many bytes of the first segments' are elsewhere */
#define PAGE (1ull << 21)

static bool there[MANY], is_open[MANY];       /* segments */
static uint64_t metadata_there[MM_STRETCHES]; /* mapped bytes of each stretch, from its start */
static uint64_t create_most, creates;         /* cuMemCreate refuses more bytes; calls that may still succeed */
static uint64_t create_least;                 /* but accepts this many or more */
static uint64_t free_now;                     /* cuMemGetInfo's */
static bool device_claims, stream_hangs, open_fails;
static struct mm_host_heap *heap;
#define RETIRE ((CUfunction)16)
#define CLAIM ((CUfunction)32)

static inline CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags) {
    (void)prop, (void)flags;
    if ((bytes > create_most && bytes < create_least) || creates == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    creates--;
    *handle = bytes;
    return CUDA_SUCCESS;
}
static inline CUresult release(CUmemGenericAllocationHandle handle) { return (void)handle, CUDA_SUCCESS; }
static inline CUresult map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)offset, (void)flags;
    ck_assert_uint_eq(handle, bytes);
    if (at >= METADATA / 2) {
        const uint64_t stretch = (at + METADATA / 2) / METADATA - 1, base = (stretch + 1) * METADATA;
        ck_assert_uint_eq(at, DOWN(stretch) ? base - metadata_there[stretch] - bytes : base + metadata_there[stretch]);
        metadata_there[stretch] += bytes;
        return CUDA_SUCCESS;
    }
    for (uint64_t i = (at - USER) / MM_SEGMENT_BYTES, end = i + bytes / MM_SEGMENT_BYTES; i < end; i++) {
        ck_assert(i < heap->chunks.segment_count && !there[i]);
        for (int k = 0; k < MM_STRETCHES; k++) ck_assert_uint_ge(metadata_there[k] + FIXED * DOWN(k), FIXED * !DOWN(k) + (i + 1) * EACH((uint64_t)k));
        there[i] = true;
    }
    return CUDA_SUCCESS;
}
static inline CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *who, size_t count) {
    (void)who, (void)count;
    if (at >= METADATA / 2) return CUDA_SUCCESS;
    if (open_fails) return CUDA_ERROR_UNKNOWN;
    for (uint64_t i = (at - USER) / MM_SEGMENT_BYTES, end = i + bytes / MM_SEGMENT_BYTES; i < end; i++) {
        ck_assert(there[i]);
        is_open[i] = true;
    }
    return CUDA_SUCCESS;
}
static inline CUresult unmap(CUdeviceptr at, size_t bytes) {
    for (uint64_t i = (at - USER) / MM_SEGMENT_BYTES, end = i + bytes / MM_SEGMENT_BYTES; at < METADATA / 2 && i < end; i++) {
        ck_assert(there[i]);
        there[i] = is_open[i] = false;
    }
    return CUDA_SUCCESS;
}
static inline CUresult info(size_t *free_bytes, size_t *total) { return *free_bytes = free_now, *total = 1ull << 40, CUDA_SUCCESS; }
static inline CUresult push(CUcontext context) { return (void)context, CUDA_SUCCESS; }
static inline CUresult exchange(CUstreamCaptureMode *mode) { return (void)mode, CUDA_SUCCESS; }
static inline CUresult query(CUstream stream) { return (void)stream, stream_hangs ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; }
static inline void claim_all(void) {
    for (int i = 0; i < MM_HOST_CHUNKS_MAX; i++) heap->shared->wanted[i].is_claimed = 1;
}
static inline CUresult launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
                              void **params, void **extra) {
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)params, (void)extra;
    if (f == CLAIM && device_claims) claim_all();
    return CUDA_SUCCESS;
}
static unsigned char in_metadata; /* the value of each byte */
static unsigned looks;
static inline CUresult copy_back(void *to, CUdeviceptr from, size_t bytes, CUstream stream) { /* all segments look free */
    (void)stream;
    const bool is_metadata = from >= METADATA / 2;
    looks += is_metadata;
    memset(to, is_metadata ? in_metadata : 0xff, bytes);
    return CUDA_SUCCESS;
}
static inline CUresult name_of(CUresult code, const char **name) { return (void)code, *name = "an error", CUDA_SUCCESS; }

static struct mm_driver d;
static struct mm_driver_error error;

static inline void setup(void) {
    d.cuMemCreate = create, d.cuMemRelease = release, d.cuMemMap = map, d.cuMemSetAccess = set_access, d.cuMemUnmap = unmap;
    d.cuMemGetInfo = info, d.cuCtxPushCurrent = push, d.cuThreadExchangeStreamCaptureMode = exchange, d.cuStreamQuery = query;
    d.cuLaunchKernel = launch, d.cuMemcpyDtoHAsync = copy_back, d.cuGetErrorName = name_of;
    memset(there, 0, sizeof there), memset(is_open, 0, sizeof is_open);
    memset(metadata_there, 0, sizeof metadata_there), create_most = create_least = UINT64_MAX, creates = UINT64_MAX, free_now = 1ull << 40;
    device_claims = true, stream_hangs = open_fails = false;
    error = (struct mm_driver_error){NULL, CUDA_SUCCESS};
    heap = (struct mm_host_heap *)calloc(1, sizeof *heap);
    heap->shared = (struct mm_host_shared *)calloc(1, sizeof *heap->shared);
    heap->kind = MM_HOST_HEAP_MAPPED, heap->ceiling_segments = SEGMENTS;
    heap->layout.tree_leaves = SEGMENTS / 64;
    heap->ref.mailbox = 1ull << 42;
    heap->trim.retire = RETIRE, heap->trim.claim = CLAIM;
    pthread_mutex_init(&heap->lock, NULL);
    heap->chunks.access.count = 1;
    heap->chunks.user = USER, heap->chunks.segment_count = SEGMENTS, heap->chunks.page_bytes = PAGE, heap->chunks.unit = 1;
    for (uint64_t k = 0; k < MM_STRETCHES; k++)
        heap->chunks.metadata[k] = (struct mm_host_stretch){
            .base = (k + 1) * METADATA, .is_down = DOWN(k), .bytes = 2 * PAGE, .fixed_bytes = DOWN(k) ? -FIXED : FIXED, .segment_bytes = EACH(k)};
}
static inline void teardown(void) {
    free(heap->shared);
    free(heap);
}

static inline void grows(uint64_t least, uint64_t most, uint64_t first, uint64_t count) {
    const struct mm_host_segments got = mm_chunks_grow(&d, &heap->chunks, least, most, 1, &error);
    ck_assert_msg(got.first == first && got.count == count, "%llu + %llu instead of %llu + %llu", (unsigned long long)got.first, (unsigned long long)got.count,
                  (unsigned long long)first, (unsigned long long)count);
    for (uint64_t i = first; i < first + count; i++) ck_assert(there[i] && is_open[i]);
}
static inline uint64_t mapped(void) {
    uint64_t n = 0;
    for (unsigned i = 0; i < MANY; i++) n += there[i];
    ck_assert_uint_eq(n, heap->chunks.mapped_count);
    return n;
}

/* ---- requests of the device ---- */

static inline void sleep_ms(unsigned ms) { usleep(ms * 1000); }
static inline void ask(uint64_t number, uint64_t segments) {
    __atomic_store_n(&heap->shared->mailbox.wanted, number << 32 | segments, __ATOMIC_RELEASE);
    mm_grower_launched();
}
static inline uint64_t answer(void) { return __atomic_load_n(&heap->shared->mailbox.answer, __ATOMIC_ACQUIRE); }
static inline uint64_t answer_soon(uint64_t before) {
    for (int ms = 0; ms < 60000 && answer() == before; ms++) sleep_ms(1);
    return answer();
}

#endif
