/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Chunks, the grower and trimming (runtime/host/{chunks,grower,trim}.c) against a table of driver functions that tracks
 * mappings: cases that the stand-in's scenarios reach only in races.
 */
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

/* ---- the driver ---- */

#define SEGMENTS 64u
#define MANY (4u * MM_HOST_CHUNK_SEGMENTS_MAX)
#define USER ((CUdeviceptr)1 << 40)
#define METADATA ((CUdeviceptr)1 << 43)      /* distance from one stretch of it to the next */
#define FIXED 300ull                         /* bytes of each stretch that belong to no segment */
#define EACH(stretch) (40000ull + (stretch)) /* bytes for each segment */
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

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, unsigned long long flags) {
    (void)prop, (void)flags;
    if ((bytes > create_most && bytes < create_least) || creates == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    creates--;
    *handle = bytes;
    return CUDA_SUCCESS;
}
static CUresult release(CUmemGenericAllocationHandle handle) { return (void)handle, CUDA_SUCCESS; }
static CUresult map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)offset, (void)flags;
    ck_assert_uint_eq(handle, bytes);
    if (at >= METADATA) {
        const uint64_t stretch = at / METADATA - 1;
        ck_assert_uint_eq(at, (stretch + 1) * METADATA + metadata_there[stretch]);
        metadata_there[stretch] += bytes;
        return CUDA_SUCCESS;
    }
    for (uint64_t i = (at - USER) / MM_SEGMENT_BYTES, end = i + bytes / MM_SEGMENT_BYTES; i < end; i++) {
        ck_assert(i < heap->chunks.segment_count && !there[i]);
        for (int k = 0; k < MM_STRETCHES; k++) ck_assert_uint_ge(metadata_there[k], FIXED + (i + 1) * EACH((uint64_t)k));
        there[i] = true;
    }
    return CUDA_SUCCESS;
}
static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *who, size_t count) {
    (void)who, (void)count;
    if (at >= METADATA) return CUDA_SUCCESS;
    if (open_fails) return CUDA_ERROR_UNKNOWN;
    for (uint64_t i = (at - USER) / MM_SEGMENT_BYTES, end = i + bytes / MM_SEGMENT_BYTES; i < end; i++) {
        ck_assert(there[i]);
        is_open[i] = true;
    }
    return CUDA_SUCCESS;
}
static CUresult unmap(CUdeviceptr at, size_t bytes) {
    for (uint64_t i = (at - USER) / MM_SEGMENT_BYTES, end = i + bytes / MM_SEGMENT_BYTES; at < METADATA && i < end; i++) {
        ck_assert(there[i]);
        there[i] = is_open[i] = false;
    }
    return CUDA_SUCCESS;
}
static CUresult info(size_t *free_bytes, size_t *total) { return *free_bytes = free_now, *total = 1ull << 40, CUDA_SUCCESS; }
static CUresult push(CUcontext context) { return (void)context, CUDA_SUCCESS; }
static CUresult exchange(CUstreamCaptureMode *mode) { return (void)mode, CUDA_SUCCESS; }
static CUresult query(CUstream stream) { return (void)stream, stream_hangs ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS; }
static void claim_all(void) {
    for (int i = 0; i < MM_HOST_CHUNKS_MAX; i++) heap->shared->wanted[i].is_claimed = 1;
}
static CUresult launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
                       void **params, void **extra) {
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)params, (void)extra;
    if (f == CLAIM && device_claims) claim_all();
    return CUDA_SUCCESS;
}
static unsigned char in_metadata; /* the value of each byte */
static unsigned looks;
static CUresult copy_back(void *to, CUdeviceptr from, size_t bytes, CUstream stream) { /* all segments look free */
    (void)stream;
    looks += from == METADATA;
    memset(to, from == METADATA ? in_metadata : 0xff, bytes);
    return CUDA_SUCCESS;
}
static CUresult name_of(CUresult code, const char **name) { return (void)code, *name = "an error", CUDA_SUCCESS; }

static struct mm_driver d;
static struct mm_driver_error error;

static void setup(void) {
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
        heap->chunks.metadata[k] = (struct mm_host_stretch){.base = (k + 1) * METADATA, .bytes = 2 * PAGE, .fixed_bytes = FIXED, .segment_bytes = EACH(k)};
}
static void teardown(void) {
    free(heap->shared);
    free(heap);
}

static void grows(uint64_t least, uint64_t most, uint64_t first, uint64_t count) {
    const struct mm_host_segments got = mm_chunks_grow(&d, &heap->chunks, least, most, 1, &error);
    ck_assert_msg(got.first == first && got.count == count, "%llu + %llu instead of %llu + %llu", (unsigned long long)got.first, (unsigned long long)got.count,
                  (unsigned long long)first, (unsigned long long)count);
    for (uint64_t i = first; i < first + count; i++) ck_assert(there[i] && is_open[i]);
}
static uint64_t mapped(void) {
    uint64_t n = 0;
    for (unsigned i = 0; i < MANY; i++) n += there[i];
    ck_assert_uint_eq(n, heap->chunks.mapped_count);
    return n;
}

/* ---- chunks ---- */

START_TEST(rows) {
    grows(1, 2, 0, 2);
    grows(1, 1, 2, 1);
    grows(3, 3, 3, 3);
    ck_assert_uint_eq(mm_chunks_unmap(&d, &heap->chunks, 1, &error), MM_SEGMENT_BYTES);
    grows(2, 2, 6, 2); /* the gap is too small */
    grows(1, 5, 2, 1); /* one segment fits the gap, which has no more */
    ck_assert_uint_eq(mapped(), 8);
    grows(57, 57, 0, 0); /* not so many consecutive addresses */
    ck_assert_uint_eq(mapped(), 8);
    grows(56, 99, 8, 56);
    mm_chunks_drop(&d, &heap->chunks);
    for (unsigned i = 0; i < SEGMENTS; i++) ck_assert(!there[i]);
}
END_TEST

START_TEST(pieces) { /* pieces are halved until the driver accepts them */
    create_most = 4 * MM_SEGMENT_BYTES;
    grows(9, 16, 0, 16);
    ck_assert_uint_eq(heap->chunks.count, 4);
    creates = 2;
    grows(12, 12, 0, 0); /* the third piece of three segments is refused: the other two are unmapped again */
    ck_assert_uint_eq(mapped(), 16);
    ck_assert_uint_eq(heap->chunks.count, 4);
    creates = 2;
    grows(5, 12, 16, 6); /* two pieces are enough */
    open_fails = true, creates = UINT64_MAX;
    grows(1, 4, 0, 0);
    ck_assert_uint_eq(mapped(), 22);
}
END_TEST

START_TEST(metadata_in_pieces) { /* fixed metadata may be mapped in pieces; of segments fewer may do, so the caller decides */
    struct mm_host_stretch *s = heap->chunks.metadata;
    s->fixed_bytes = 5 * PAGE, s->bytes = 9 * PAGE;
    create_most = 2 * PAGE;
    ck_assert(mm_chunks_try_describe(&d, &heap->chunks, 0, &error));
    ck_assert_uint_eq(metadata_there[0], 5 * PAGE);
    ck_assert(s->count == 3 && s->end[0] == 2 * PAGE && s->end[1] == 4 * PAGE && s->end[2] == 5 * PAGE);
    create_most = PAGE;
    ck_assert(!mm_chunks_try_describe(&d, &heap->chunks, 2 * PAGE / EACH(0), &error));
    ck_assert_uint_eq(metadata_there[0], 5 * PAGE);
    ck_assert(mm_chunks_try_describe(&d, &heap->chunks, PAGE / EACH(0), &error));
    ck_assert_uint_eq(metadata_there[0], 6 * PAGE);
    create_most = PAGE / 2;
    ck_assert(!mm_chunks_try_describe(&d, &heap->chunks, 2 * PAGE / EACH(0), &error));
}
END_TEST

START_TEST(spare) {
    struct mm_host_chunks *c = &heap->chunks;
    create_most = 2 * MM_SEGMENT_BYTES;
    grows(16, 16, 0, 16); /* eight chunks of two */
    mm_chunks_set_spare(c, (struct mm_host_segments){0, 16}, false);
    ck_assert_uint_eq(mm_chunks_find_spare(c, 1, 1).count, 0);
    mm_chunks_set_spare(c, (struct mm_host_segments){2, 2}, true);
    mm_chunks_set_spare(c, (struct mm_host_segments){6, 4}, true);
    struct mm_host_segments got = mm_chunks_find_spare(c, 1, 1);
    ck_assert(got.first == 2 && got.count == 2);
    got = mm_chunks_find_spare(c, 3, 1);
    ck_assert(got.first == 6 && got.count == 4);
    ck_assert_uint_eq(mm_chunks_find_spare(c, 5, 1).count, 0);
    ck_assert_uint_eq(mm_chunks_unmap(&d, c, 2, &error), 2 * MM_SEGMENT_BYTES); /* 4 and 5 */
    mm_chunks_set_spare(c, (struct mm_host_segments){0, 16}, true);
    got = mm_chunks_find_spare(c, 5, 1);
    ck_assert_msg(got.first == 6 && got.count == 10, "a row goes on across what is not there");
}
END_TEST

START_TEST(alignments) { /* USER is a multiple of all of them */
    struct mm_host_chunks *c = &heap->chunks;
    grows(3, 3, 0, 3);
    struct mm_host_segments got = mm_chunks_grow(&d, c, 2, 5, 8, &error);
    ck_assert(got.first == 8 && got.count == 5);
    got = mm_chunks_grow(&d, c, 1, 1, 4, &error); /* in the gap, at an aligned place; the segment before it is not mapped */
    ck_assert(got.first == 4 && got.count == 1);
    ck_assert_uint_eq(mapped(), 9);
    ck_assert_uint_eq(mm_chunks_grow(&d, c, 33, 40, 32, &error).count, 0); /* only 32 segments from 32 on */
    ck_assert_uint_eq(mm_chunks_grow(&d, c, 1, 1, 64, &error).count, 0);   /* the only aligned segment is taken */
    ck_assert_uint_eq(mapped(), 9);
    ck_assert_uint_eq(mm_chunks_find_spare(c, 1, 16).count, 3); /* segment 0 */
    mm_chunks_set_spare(c, (struct mm_host_segments){0, 3}, false);
    got = mm_chunks_find_spare(c, 1, 8);
    ck_assert(got.first == 8 && got.count == 5);
    ck_assert_uint_eq(mm_chunks_find_spare(c, 6, 8).count, 0);
    c->user += 3 * MM_SEGMENT_BYTES; /* the heap's base need not have that alignment */
    got = mm_chunks_find_spare(c, 1, 4);
    ck_assert(got.first == 8 && got.count == 5); /* at 9 */
    c->user -= 3 * MM_SEGMENT_BYTES;
}
END_TEST

START_TEST(pages_of_several_segments) { /* pages of four segments: chunks begin and end at page boundaries */
    struct mm_host_chunks *c = &heap->chunks;
    c->unit = 4, create_most = 8 * MM_SEGMENT_BYTES;
    grows(1, 1, 0, 4);
    grows(3, 9, 4, 12);
    ck_assert_uint_eq(c->count, 3);
    create_most = 4 * MM_SEGMENT_BYTES - 1; /* less than a page is not tried */
    grows(1, 4, 0, 0);
    create_most = UINT64_MAX;
    const struct mm_host_segments got = mm_chunks_grow(&d, c, 5, 5, 2, &error);
    ck_assert(got.first == 16 && got.count == 8);
    free_now = 6 * (MM_SEGMENT_BYTES + 1); /* room for one page, not two */
    ck_assert(mm_grower_more(&d, heap, 5, 0, 1).count == 0);
    const struct mm_host_segments more = mm_grower_more(&d, heap, 1, 0, 1);
    ck_assert(more.first == 24 && more.count == 4);
    ck_assert_uint_eq(mapped(), 28);
    for (unsigned i = 0; i < c->count; i++) ck_assert(c->chunk[i].first % 4 == 0 && c->chunk[i].count % 4 == 0);
}
END_TEST

/* A heap grows by a fraction of its mapped size, at least by the minimum step and by the hoped number. */
START_TEST(steps) {
    for (uint64_t had = 0; had < SEGMENTS / 4; had += MM_HOST_STEP_SEGMENTS_MIN)
        ck_assert_uint_eq(mm_grower_more(&d, heap, 1, 0, 1).count, MM_HOST_STEP_SEGMENTS_MIN);
    ck_assert_uint_eq(mm_grower_more(&d, heap, 1, 20, 1).count, 20);
    heap->chunks.mapped_count = MM_HOST_STEP_PART * 24, heap->ceiling_segments = 1000; /* as if that many were mapped */
    ck_assert_uint_eq(mm_grower_more(&d, heap, 1, 0, 1).count, 24);
}
END_TEST

/* The metadata of a step of several chunks are mapped together; if the driver refuses that, chunk by chunk. */
START_TEST(metadata_of_a_step) {
    struct mm_host_chunks *c = &heap->chunks;
    c->segment_count = MANY;
    for (int k = 0; k < MM_STRETCHES; k++) c->metadata[k].bytes = 64 * PAGE, c->metadata[k].fixed_bytes = 0;
    if (_i) create_most = MM_HOST_CHUNK_SEGMENTS_MAX * EACH(MM_STRETCHES) + PAGE, create_least = MM_HOST_CHUNK_SEGMENTS_MAX * MM_SEGMENT_BYTES;
    const struct mm_host_segments got = mm_chunks_grow(&d, c, 1, MANY, 1, &error);
    ck_assert(got.first == 0 && got.count == MANY);
    ck_assert_uint_eq(c->count, MANY / MM_HOST_CHUNK_SEGMENTS_MAX);
    for (int k = 0; k < MM_STRETCHES; k++) ck_assert_uint_eq(c->metadata[k].count, _i ? MANY / MM_HOST_CHUNK_SEGMENTS_MAX : 1);
}
END_TEST

START_TEST(devices) {
    grows(2, 2, 0, 2);
    ck_assert(mm_chunks_try_access(&d, &heap->chunks, 3, true, &error));
    ck_assert(mm_chunks_try_access(&d, &heap->chunks, 3, true, &error));
    ck_assert_uint_eq(heap->chunks.access.count, 2);
    ck_assert(mm_chunks_try_access(&d, &heap->chunks, 3, false, &error));
    ck_assert(mm_chunks_try_access(&d, &heap->chunks, 3, false, &error));
    ck_assert_uint_eq(heap->chunks.access.count, 1);
    for (int i = 1; i < MM_VM_DEVICES_MAX; i++) ck_assert(mm_chunks_try_access(&d, &heap->chunks, i, true, &error));
    ck_assert(!mm_chunks_try_access(&d, &heap->chunks, 99, true, &error));
}
END_TEST

/* ---- the grower ---- */

static void sleep_ms(unsigned ms) { usleep(ms * 1000); }
static void ask(uint64_t number, uint64_t segments) {
    __atomic_store_n(&heap->shared->mailbox.wanted, number << 32 | segments, __ATOMIC_RELEASE);
    mm_grower_launched();
}
static uint64_t answer(void) { return __atomic_load_n(&heap->shared->mailbox.answer, __ATOMIC_ACQUIRE); }
static uint64_t answer_soon(uint64_t before) {
    for (int ms = 0; ms < 60000 && answer() == before; ms++) sleep_ms(1);
    return answer();
}

START_TEST(answers) {
    ck_assert_int_eq(mm_grower_start(&d, heap), 0);
    ask(1, 3);
    const uint64_t first = answer_soon(0);
    ck_assert_uint_eq(first, mm_answer_make(1, 0, MM_HOST_STEP_SEGMENTS_MIN));
    ask(2, SEGMENTS);
    ck_assert_uint_eq(answer_soon(first), mm_answer_make(2, 0, 0)); /* not that many are left */
    ck_assert(mm_grower_try_stop(heap));
    ck_assert(heap->refusal[0]);
}
END_TEST

START_TEST(closed_stays_closed) { /* a request was pending; its answer must not follow the closing */
    heap->shared->mailbox.answer = MM_ANSWER_CLOSED;
    ck_assert_int_eq(mm_grower_start(&d, heap), 0);
    ask(1, 1);
    sleep_ms(100);
    ck_assert_uint_eq(answer(), MM_ANSWER_CLOSED);
    ck_assert(mm_grower_try_stop(heap));
    for (unsigned i = 0; i < heap->chunks.count; i++) ck_assert(heap->chunks.chunk[i].is_spare);
}
END_TEST

START_TEST(waits_for_the_program) {
    mm_grower_holds = 1;
    ck_assert_int_eq(mm_grower_start(&d, heap), 0);
    ask(1, 1);
    sleep_ms(100);
    ck_assert_uint_eq(answer(), 0);
    __atomic_store_n(&mm_grower_holds, 0, __ATOMIC_RELEASE);
    ck_assert_uint_ne(answer_soon(0), 0);
    __atomic_store_n(&mm_grower_holds, 1, __ATOMIC_RELEASE); /* and not forever */
    const uint64_t before = answer();
    ask(2, 1);
    ck_assert_uint_ne(answer_soon(before), before);
    mm_grower_holds = 0;
    ck_assert(mm_grower_try_stop(heap));
}
END_TEST

/* ---- trimming ---- */

static void have(uint64_t chunks) { /* of two segments each, in use by the heap (not spare) */
    create_most = 2 * MM_SEGMENT_BYTES;
    grows(2 * chunks, 2 * chunks, 0, 2 * chunks);
    mm_chunks_set_spare(&heap->chunks, (struct mm_host_segments){0, 2 * chunks}, false);
}

START_TEST(gives_back) {
    have(8);
    ck_assert_uint_eq(mm_trim(&d, heap, 3 * MM_SEGMENT_BYTES, 0), 4 * MM_SEGMENT_BYTES); /* whole chunks, from the end */
    ck_assert(there[11] && !there[12] && !there[15]);
    ck_assert_uint_eq(mapped(), 12);
    ck_assert_uint_eq(mm_trim(&d, heap, UINT64_MAX, 0), 12 * MM_SEGMENT_BYTES);
}
END_TEST

START_TEST(not_what_is_not_claimed) {
    have(8);
    device_claims = false; /* as if a segment of each chunk had been taken meanwhile */
    ck_assert_uint_eq(mm_trim(&d, heap, UINT64_MAX, 0), 0);
    ck_assert_uint_eq(mapped(), 16);
    ck_assert_uint_eq(mm_chunks_find_spare(&heap->chunks, 1, 1).count, 0);
}
END_TEST

static CUresult launch_and_hang(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                void **params, void **extra) {
    if (f == CLAIM) stream_hangs = true; /* the claim kernel waits for room on the device */
    return launch(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}
START_TEST(claimed_late) {
    have(8);
    d.cuLaunchKernel = launch_and_hang;
    device_claims = false;
    ck_assert_uint_eq(mm_trim(&d, heap, UINT64_MAX, 0), 0); /* does not wait for the claim, which would hang */
    ck_assert_uint_eq(mm_trim(&d, heap, UINT64_MAX, 0), 0); /* still not claimed */
    ck_assert_uint_eq(mapped(), 16);
    claim_all();
    stream_hangs = false, d.cuLaunchKernel = launch;
    ck_assert_uint_eq(mm_trim(&d, heap, UINT64_MAX, 0), 16 * MM_SEGMENT_BYTES);
}
END_TEST

/* ---- all at once ---- */

#define TRIM_STREAM ((CUstream)16)
#define OUR_STREAM ((CUstream)32)
static struct mm_heap *image; /* the heap's image on the device */
static uint64_t written_bytes;
static bool copy_fails;
static CUresult stream_create(CUstream *stream, unsigned flags) { return (void)flags, *stream = OUR_STREAM, CUDA_SUCCESS; }
static CUresult stream_destroy(CUstream stream) { return (void)stream, CUDA_SUCCESS; }
static CUresult synchronize(CUstream stream) { /* completes late claims */
    if (stream == TRIM_STREAM) claim_all();
    if (stream == TRIM_STREAM) stream_hangs = false;
    return CUDA_SUCCESS;
}
static CUresult copy_to(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) { /* the image, then zeros up to the end */
    (void)stream;
    if (copy_fails) return CUDA_ERROR_UNKNOWN;
    ck_assert(!heap->grower.is_running);
    if (to != METADATA) {
        ck_assert_uint_eq(to, METADATA + written_bytes);
        ck_assert(from == heap->shared->zeros && bytes <= sizeof heap->shared->zeros);
        written_bytes += bytes;
        return CUDA_SUCCESS;
    }
    ck_assert_uint_eq(bytes, heap->layout.image_bytes);
    image = (struct mm_heap *)realloc(image, bytes);
    memcpy(image, from, bytes);
    written_bytes = bytes;
    return CUDA_SUCCESS;
}
/* All mapped segments, and no others, are free and unowned; the thread serves requests. */
static void is_fresh(void) {
    const uint64_t *tree = (const uint64_t *)(const void *)((const char *)image + heap->layout.free_tree), *leaves = tree + 1 + heap->layout.tree_mids;
    uint64_t middle = 0;
    for (unsigned i = 0; i < SEGMENTS; i++) ck_assert_msg((leaves[i / 64] >> i % 64 & 1) == there[i], "segment %u", i);
    for (unsigned i = 0; i < heap->layout.tree_leaves; i++) middle |= (uint64_t)(leaves[i] != 0) << i;
    ck_assert(tree[1] == middle && tree[0] == 1);
    ck_assert(image->free_count == mapped() && image->grow.mapped == mapped() && image->grow.asked == 0);
    ck_assert(memcmp(&image->ref, &heap->ref, sizeof image->ref) == 0 && image->abi == MM_ABI_VERSION);
    ck_assert_uint_eq(image->grow.reached, mm_chunks_end(&heap->chunks));
    ck_assert_uint_eq(written_bytes, heap->layout.fixed_bytes);
    ck_assert(heap->trim.pending == 0 && heap->grower.is_running && answer() == 0 && heap->shared->mailbox.wanted == 0);
    for (unsigned i = 0; i < heap->chunks.count; i++) ck_assert(!heap->chunks.chunk[i].is_spare);
}

START_TEST(begins_anew) {
    d.cuStreamCreate = stream_create, d.cuStreamDestroy = stream_destroy, d.cuStreamSynchronize = synchronize;
    d.cuMemcpyHtoDAsync = copy_to;
    ck_assert_int_eq(mm_layout_make(&heap->layout, SEGMENTS, PAGE, 32), 0);
    heap->ref.heap = METADATA, heap->ref.user_base = USER, heap->ref.spacing_mask = 31, heap->ref.classes[3].slices = 5;
    heap->trim.stream = TRIM_STREAM;
    have(8);
    mm_chunks_unmap(&d, &heap->chunks, 3, &error);
    mm_chunks_set_spare(&heap->chunks, (struct mm_host_segments){2, 2}, true);
    /* an answer that was not read */
    ck_assert_int_eq(mm_grower_start(&d, heap), 0);
    ask(7, 3);
    ck_assert_uint_ne(answer_soon(0), 0);
    /* late claims */
    d.cuLaunchKernel = launch_and_hang, device_claims = false;
    ck_assert_uint_eq(mm_trim(&d, heap, UINT64_MAX, 0), 2 * MM_SEGMENT_BYTES); /* the spare segments */
    ck_assert_uint_gt(heap->trim.pending, 0);
    mm_chunks_set_spare(&heap->chunks, (struct mm_host_segments){0, 2}, true);
    ck_assert(mm_host_heap_try_reset(&d, heap, &error));
    is_fresh();
    /* the device numbers its requests from 1 again */
    const uint64_t before = mapped();
    ask(1, 3);
    const uint64_t got = answer_soon(0);
    ck_assert(got >> MM_ANSWER_NUMBER_SHIFT == 1 && mapped() >= before + 3);
    /* a reset that fails, and another */
    copy_fails = true;
    ck_assert(!mm_host_heap_try_reset(&d, heap, &error) && strcmp(error.call, "cuMemcpyHtoDAsync") == 0);
    ck_assert_uint_eq(answer(), MM_ANSWER_CLOSED);
    copy_fails = false;
    ck_assert(mm_host_heap_try_reset(&d, heap, &error));
    is_fresh();
    ck_assert(mm_grower_try_stop(heap));
    free(image);
}
END_TEST

/* MM_TRIM=10, the default: free memory is unmapped if the metadata did not change between two looks; promised memory stays mapped. */
START_TEST(unused_goes_back) {
    d.cuStreamSynchronize = synchronize;
    have(8);
    heap->ref.heap = METADATA, heap->layout.owners = 256, heap->promised_segments = 5, looks = 0;
    ck_assert_int_eq(mm_trim_unused(&d, heap), MM_TRIM_UNUSED_AGAIN);
    in_metadata++; /* a kernel allocates */
    ck_assert_int_eq(mm_trim_unused(&d, heap), MM_TRIM_UNUSED_IN_USE);
    ck_assert_int_eq(mm_trim_unused(&d, heap), MM_TRIM_UNUSED_AGAIN);
    ck_assert_uint_eq(mapped(), 16);
    ck_assert_int_eq(mm_trim_unused(&d, heap), MM_TRIM_UNUSED_DONE);
    ck_assert_uint_eq(mapped(), 6); /* chunks of two segments */
    ck_assert_uint_eq(looks, 4);
    heap->promised_segments = 6; /* nothing beyond the promise: does not look */
    ck_assert(mm_trim_unused(&d, heap) == MM_TRIM_UNUSED_DONE && looks == 4);
    ck_assert_uint_eq(mm_trim(&d, heap, UINT64_MAX, 0), 6 * MM_SEGMENT_BYTES); /* for a cudaMalloc it is unmapped */
}
END_TEST

/* Spare segments count as mapped: they are unmapped or kept like others. */
START_TEST(spare_is_kept) {
    have(8);
    mm_chunks_set_spare(&heap->chunks, (struct mm_host_segments){8, 8}, true);
    ck_assert_uint_eq(mm_trim(&d, heap, UINT64_MAX, 11), 4 * MM_SEGMENT_BYTES);
    ck_assert_uint_eq(mm_trim(&d, heap, UINT64_MAX, 7), 4 * MM_SEGMENT_BYTES);
    ck_assert_uint_eq(mapped(), 8);
}
END_TEST

/* Trimming unused memory loads no module and waits for nothing. */
START_TEST(unused_costs_nothing) {
    have(8);
    heap->ref.heap = METADATA, heap->layout.owners = 256, looks = 0;
    heap->trim.retire = NULL;
    for (int i = 0; i < 3; i++) ck_assert_int_eq(mm_trim_unused(&d, heap), MM_TRIM_UNUSED_AGAIN);
    heap->trim.retire = RETIRE, stream_hangs = true;
    for (int i = 0; i < 3; i++) ck_assert_int_eq(mm_trim_unused(&d, heap), MM_TRIM_UNUSED_AGAIN);
    ck_assert(looks == 0 && mapped() == 16);
}
END_TEST

int main(void) {
    Suite *s = suite_create("memory");
    TCase *c = tcase_create("memory");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, rows);
    tcase_add_test(c, pieces);
    tcase_add_test(c, metadata_in_pieces);
    tcase_add_test(c, spare);
    tcase_add_test(c, alignments);
    tcase_add_test(c, pages_of_several_segments);
    tcase_add_test(c, steps);
    tcase_add_loop_test(c, metadata_of_a_step, 0, 2);
    tcase_add_test(c, devices);
    tcase_add_test(c, answers);
    tcase_add_test(c, closed_stays_closed);
    tcase_add_test(c, waits_for_the_program);
    tcase_add_test(c, gives_back);
    tcase_add_test(c, not_what_is_not_claimed);
    tcase_add_test(c, claimed_late);
    tcase_add_test(c, begins_anew);
    tcase_add_test(c, unused_goes_back);
    tcase_add_test(c, spare_is_kept);
    tcase_add_test(c, unused_costs_nothing);
    suite_add_tcase(s, c);
    return suite_run(s);
}
