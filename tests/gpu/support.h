/* What the GPU suites share: CUDA errors are test failures, and a heap on the GPU is checked by copying its
 * metadata to the host and running the heap checker of the CPU build on the copy.
 */
#ifndef MM_TESTS_GPU_SUPPORT_H
#define MM_TESTS_GPU_SUPPORT_H

#include <check.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/cpu/cpuheap.h"

#define CUDA_OK(call)                                                                                       \
    do {                                                                                                    \
        const cudaError_t error_ = (call);                                                                  \
        ck_assert_msg(error_ == cudaSuccess, "%s: %s", #call, cudaGetErrorString(error_));                  \
    } while (0)

/* After a kernel: it was launched and has ended without an error. */
#define KERNEL_OK()                                                                                         \
    do {                                                                                                    \
        CUDA_OK(cudaGetLastError());                                                                        \
        CUDA_OK(cudaDeviceSynchronize());                                                                   \
    } while (0)

/* A copy of the metadata of the heap that `ref` names, ready for mm_cpu_heap_check_quiescent; free(copy->metadata). */
static inline void copy_heap(struct mm_cpu_heap *copy, struct mm_heap_ref ref) {
    const uint64_t header = sizeof(struct mm_heap);
    struct mm_heap *head = (struct mm_heap *)malloc(header);
    CUDA_OK(cudaMemcpy(head, (void *)ref.heap, header, cudaMemcpyDeviceToHost));
    ck_assert_uint_eq(head->abi, MM_ABI_VERSION);
    /* Slice bits of segments that are not mapped cannot be copied; those of free ones need not be. */
    const uint64_t fixed = ref.bits - ref.heap, total = fixed + head->segment_count * MM_SEGMENT_BITMAP_BYTES;
    char *metadata = (char *)calloc(1, total);
    ck_assert_ptr_nonnull(metadata);
    CUDA_OK(cudaMemcpy(metadata, (void *)ref.heap, fixed, cudaMemcpyDeviceToHost));
    const uint64_t *owners = (const uint64_t *)(metadata + (head->segment_owners - ref.heap));
    for (uint64_t s = 0; s < head->segment_count; s++)
        if (owners[s] != 0)
            CUDA_OK(cudaMemcpy(metadata + fixed + s * MM_SEGMENT_BITMAP_BYTES,
                               (void *)(ref.bits + s * MM_SEGMENT_BITMAP_BYTES), MM_SEGMENT_BITMAP_BYTES,
                               cudaMemcpyDeviceToHost));
    free(head);
    ck_assert_int_eq(mm_cpu_heap_adopt(copy, metadata), 0);
}

/* The heap of `ref` is sound; returns the bytes handed out. If nothing is live, draining it leaves only free
 * segments, as many as `free_segments` (0: not asked). */
static inline uint64_t check_heap(struct mm_heap_ref ref, uint64_t free_segments) {
    struct mm_cpu_heap copy;
    char why[200];
    uint64_t live = 0;
    copy_heap(&copy, ref);
    const char *wrong = mm_cpu_heap_check_quiescent(&copy, why, sizeof why, &live);
    ck_assert_msg(wrong == NULL, "%s", wrong);
    if (free_segments) {
        ck_assert_uint_eq(live, 0);
        mm_cpu_heap_drain_quiescent(&copy);
        wrong = mm_cpu_heap_check_quiescent(&copy, why, sizeof why, &live);
        ck_assert_msg(wrong == NULL, "drained: %s", wrong);
        ck_assert_uint_eq(mm_cpu_heap_free_segments(&copy), free_segments);
    }
    free(copy.metadata);
    return live;
}

static inline struct mm_heap heap_header(struct mm_heap_ref ref) {
    struct mm_heap head;
    CUDA_OK(cudaMemcpy(&head, (void *)ref.heap, sizeof head, cudaMemcpyDeviceToHost));
    return head;
}

/* Runs the suite in this process (a CUDA context does not survive a fork). */
static inline int run_suite(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static inline void add_test(Suite *suite, const char *name, const TTest *test) {
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test);
    suite_add_tcase(suite, tcase);
}

#endif
