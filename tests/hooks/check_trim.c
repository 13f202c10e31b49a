/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Trimming (runtime/host/trim.c), and resets of a heap, against a table of driver functions. */
#include "check_memory.h"
#include "runtime/core/image.h"

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
static uint64_t zeroed_bytes; /* since the last image */
static unsigned images;
static bool copy_fails;
static CUresult stream_create(CUstream *stream, unsigned flags) { return (void)flags, *stream = OUR_STREAM, CUDA_SUCCESS; }
static CUresult stream_destroy(CUstream stream) { return (void)stream, CUDA_SUCCESS; }
static CUresult synchronize(CUstream stream) { /* completes late claims */
    if (stream == TRIM_STREAM) claim_all();
    if (stream == TRIM_STREAM) stream_hangs = false;
    return CUDA_SUCCESS;
}
static CUresult copy_to(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) { /* zeros, then the image among them */
    (void)stream;
    if (copy_fails) return CUDA_ERROR_UNKNOWN;
    ck_assert(!heap->grower.is_running);
    if (bytes != heap->layout.image_bytes) {
        ck_assert_uint_eq(to, METADATA + zeroed_bytes);
        for (size_t i = 0; i < bytes; i++) ck_assert(((const char *)from)[i] == 0);
        zeroed_bytes += bytes;
        return CUDA_SUCCESS;
    }
    ck_assert(to == heap->ref.heap && zeroed_bytes == heap->layout.zero_bytes);
    image = (struct mm_heap *)realloc(image, bytes);
    memcpy(image, from, bytes);
    zeroed_bytes = 0, images++;
    return CUDA_SUCCESS;
}
/* All mapped segments, and no others, are free and unowned; the thread serves requests. */
static void is_fresh(void) {
    const uint64_t *tree = (const uint64_t *)(const void *)((const char *)image + heap->layout.free_tree - heap->layout.heap),
                   *leaves = tree + 1 + heap->layout.tree_mids;
    uint64_t middle = 0;
    for (unsigned i = 0; i < SEGMENTS; i++) ck_assert_msg((leaves[i / 64] >> i % 64 & 1) == there[i], "segment %u", i);
    for (unsigned i = 0; i < heap->layout.tree_leaves; i++) middle |= (uint64_t)(leaves[i] != 0) << i;
    ck_assert(tree[1] == middle && tree[0] == 1);
    ck_assert(image->free_count == mapped() && image->grow.mapped == mapped() && image->grow.asked == 0);
    ck_assert(memcmp(&image->ref, &heap->ref, sizeof image->ref) == 0 && image->abi == MM_ABI_VERSION);
    ck_assert_uint_eq(image->grow.reached, mm_chunks_end(&heap->chunks));
    ck_assert_uint_eq(images, 1);
    images = 0;
    ck_assert(heap->trim.pending == 0 && heap->grower.is_running && answer() == 0 && heap->shared->mailbox.wanted == 0);
    for (unsigned i = 0; i < heap->chunks.count; i++) ck_assert(!heap->chunks.chunk[i].is_spare);
}

START_TEST(begins_anew) {
    d.cuStreamCreate = stream_create, d.cuStreamDestroy = stream_destroy, d.cuStreamSynchronize = synchronize;
    d.cuMemcpyHtoDAsync = copy_to;
    ck_assert_int_eq(mm_layout_make(&heap->layout, SEGMENTS, PAGE, 32), 0);
    heap->ref.heap = METADATA + heap->layout.heap, heap->chunks.zeros = (struct mm_copy_zeros){heap->shared->zeros, sizeof heap->shared->zeros};
    heap->ref.user_base = USER, heap->ref.spacing_mask = 31, heap->ref.classes[3].slices = 5;
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
    heap->ref.heap = METADATA, heap->layout.directory = 256, heap->promised_segments = 5, looks = 0;
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
    heap->ref.heap = METADATA, heap->layout.directory = 256, looks = 0;
    heap->trim.retire = NULL;
    for (int i = 0; i < 3; i++) ck_assert_int_eq(mm_trim_unused(&d, heap), MM_TRIM_UNUSED_AGAIN);
    heap->trim.retire = RETIRE, stream_hangs = true;
    for (int i = 0; i < 3; i++) ck_assert_int_eq(mm_trim_unused(&d, heap), MM_TRIM_UNUSED_AGAIN);
    ck_assert(looks == 0 && mapped() == 16);
}
END_TEST

int main(void) {
    Suite *s = suite_create("trim");
    TCase *c = tcase_create("trim");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
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
