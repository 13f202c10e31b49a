/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the GPU suites: CUDA errors are test failures, and so is a heap that is not sound. */
#ifndef MM_TESTS_GPU_SUPPORT_H
#define MM_TESTS_GPU_SUPPORT_H

#include <check.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CUDA_OK(call)                                                                      \
    do {                                                                                   \
        const cudaError_t error_ = (call);                                                 \
        ck_assert_msg(error_ == cudaSuccess, "%s: %s", #call, cudaGetErrorString(error_)); \
    } while (0)

/* After a launch: the kernel was launched and ended without an error. */
#define KERNEL_OK()                       \
    do {                                  \
        CUDA_OK(cudaGetLastError());      \
        CUDA_OK(cudaDeviceSynchronize()); \
    } while (0)

/* The host's clock. */
static inline double host_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Whether another process also allocates and launches on this device (crowded.sh). Then times and the amount of free memory depend on that
 * process, too. */
static inline bool gpu_is_shared(void) { return getenv("MM_TEST_SHARED") != NULL; }
/* The opposite, for a test that is meaningless on a shared device: prints its name if it is skipped. */
static inline bool gpu_is_alone(void) {
    if (gpu_is_shared()) printf("skipped: %s: counts what is free, and the device is another process's, too\n", tcase_name());
    return !gpu_is_shared();
}

/* For a test that needs `bytes` of device memory. If less is free, because of other users, the test is skipped, and its name is printed. */
#define NEEDS(bytes)                 \
    do {                             \
        if (!gpu_has(bytes)) return; \
    } while (0)
static inline bool gpu_has(size_t bytes) {
    size_t free_bytes, total_bytes;
    CUDA_OK(cudaMemGetInfo(&free_bytes, &total_bytes));
    if (free_bytes < bytes)
        printf("skipped: %s: needs %.1f GiB of the device, %.1f are free\n", tcase_name(), (double)bytes / (1 << 30), (double)free_bytes / (1 << 30));
    return free_bytes >= bytes;
}

#ifndef MM_TEST_OUTSIDE /* if defined: no access to internals */
#include "tests/gpu/gpuheap.h"

/* The heap of `ref` is sound; returns the bytes handed out. */
static inline uint64_t check_heap(struct mm_heap_ref ref) {
    char why[300];
    uint64_t live = 0;
    const char *wrong = gpu_heap_wrong(ref, why, sizeof why, &live);
    ck_assert_msg(wrong == NULL, "%s", wrong);
    return live;
}

/* The heap is sound, nothing is live in it, and after a drain all of its `mapped` segments are free. */
static inline void check_drained(struct mm_heap_ref ref, uint64_t mapped) {
    char why[300];
    ck_assert_uint_eq(check_heap(ref), 0);
    const char *wrong = gpu_heap_drain_wrong(ref, mapped, why, sizeof why);
    ck_assert_msg(wrong == NULL, "drained: %s", wrong);
}

/* No free was counted as misuse. */
static inline void no_misuse(struct mm_heap_ref ref) {
    const struct mm_heap head = gpu_heap_header(ref);
    for (int kind = 0; kind < MM_MISUSE_KINDS; kind++)
        ck_assert_msg(head.misuse[kind] == 0, "%llu misuses of kind %d", (unsigned long long)head.misuse[kind], kind);
}
#endif

/* Runs the suite in this process (a CUDA context does not survive a fork). */
static inline int run_suite(Suite *suite) {
    SRunner *runner = srunner_create(suite);
    setvbuf(stdout, NULL, _IOLBF, 0);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_VERBOSE);
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
