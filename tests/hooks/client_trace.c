/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of traces, profiles and series of maps. The files that mm writes of them are compared in check_files.c. */
#include "client_checked.h"

#include <pthread.h>

/* Requests of two kernels: argv: how the heap ends (end, reset: it is not the last; mm_reset: it was reset; fault: what is on the device cannot be read; many: there are more events than places). */
static void trace(int argc, char **argv) {
    CHECK(argc == 1);
    client_start();
    launch("make");
    CHECK(ref.open_bytes == 0 && ref.trace != 0);
    void *p = mm_closed_malloc(&ref, 100), *q = mm_closed_aligned_malloc(&ref, 4000, 128), *r = mm_closed_malloc(&ref, 3 << 20);
    CHECK(p && q && r && !mm_closed_malloc(&ref, 1ull << 50));
    launch("other");
    mm_closed_free(&ref, q), mm_closed_free(&ref, p), mm_closed_free(&ref, p);
    CHECK(mm_closed_malloc(&ref, 60));
    if (strcmp(argv[0], "many") == 0) {
        uint64_t *const count = &((struct mm_trace *)(uintptr_t)ref.trace)->count;
        CHECK(*count == 8 && ((struct mm_trace *)(uintptr_t)ref.trace)->room == MM_TRACE_EVENTS);
        for (unsigned i = 0; i < MM_TRACE_EVENTS / 2; i++) mm_closed_free(&ref, mm_closed_malloc(&ref, 8));
        CHECK(*count == 8ull + MM_TRACE_EVENTS);
    }
    if (strcmp(argv[0], "fault") == 0)
        standin->calls = 0, standin->fail_name = "cuMemcpyDtoHAsync_v2", standin->fail_code = CUDA_ERROR_LAUNCH_FAILED, standin->armed = true;
    if (strncmp(argv[0], "mm_reset", 8) == 0) {
        int (*reset)(void) = NULL;
        *(void **)&reset = dlsym(RTLD_DEFAULT, "mm_reset");
        if (strcmp(argv[0], "mm_reset-fails") == 0)
            standin->calls = 0, standin->fail_name = "cuMemcpyDtoHAsync_v2", standin->fail_code = CUDA_ERROR_UNKNOWN, standin->armed = true;
        CHECK(reset && reset() == MM_OK && mm_closed_malloc(&ref, 50));
        mm_closed_free(&ref, r); /* it is not live any more */
    }
    if (strcmp(argv[0], "reset") != 0) return;
    OK(cu.cuDevicePrimaryCtxReset(0));
    client_start();
    module = NULL;
    launch("make");
    CHECK(mm_closed_malloc(&ref, 7));
}

static int looks; /* launches that were waited for */
static void at_look(void) { looks++; }

/* argv: so many launches, each of which allocates a page or more. Prints how many of them were waited for. */
static void launches(int argc, char **argv) {
    CHECK(argc == 1);
    client_start();
    standin->at_synchronize = at_look;
    for (int i = 0; i < atoi(argv[0]); i++) {
        launch("make");
        CHECK(mm_heap_malloc(&ref, 100000));
    }
    standin->at_synchronize = NULL;
    printf("%d\n", looks);
}

static CUcontext with_threads;
static CUfunction function_of_threads;
static __thread bool is_second;
static void *launch_second(void *function) {
    is_second = true;
    OK(cu.cuCtxSetCurrent(with_threads));
    OK(client_launch((CUfunction)function, NULL));
    return NULL;
}
/* While one thread waits for its launch, a second one launches, and looks at the heap first. */
static void between_launch_and_look(void) {
    pthread_t second;
    if (is_second) return;
    CHECK(pthread_create(&second, NULL, launch_second, function_of_threads) == 0);
    pthread_join(second, NULL);
}

/* argv: so many launches, of two threads in turn. */
static void launches_of_threads(int argc, char **argv) {
    CHECK(argc == 1);
    with_threads = client_start();
    launch("make");
    function_of_threads = client_function("mm");
    standin->at_synchronize = between_launch_and_look;
    for (int i = 1; i < atoi(argv[0]); i += 2) OK(client_launch(function_of_threads, NULL));
    standin->at_synchronize = NULL;
}

/* The memory of the trace is refused: the heap has none, and is open. */
static void trace_refused(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    standin->calls = 0, standin->fail_name = "cuMemAlloc_v2", standin->fail_code = CUDA_ERROR_OUT_OF_MEMORY, standin->armed = true;
    launch("make");
    CHECK(ref.open_bytes != 0 && ref.trace == 0 && mm_heap_malloc(&ref, 100));
}

const struct scenario client_trace_scenarios[] = {
    {"trace", trace}, {"trace-refused", trace_refused}, {"launches", launches}, {"launches-threads", launches_of_threads}, {NULL, NULL},
};
