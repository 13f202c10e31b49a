/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios that must pass with every way of reaching the driver. */
#include "client.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void launched_with_heap(long count) {
    CHECK(standin->launches_with_variable == count);
    CHECK(standin->launches_without_heap == 0);
}

static void function(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    CUfunction f = client_function("mm");
    for (int i = 0; i < 3; i++) OK(client_launch(f, NULL));
    launched_with_heap(3);
    CHECK(standin->launches == 3);
    if (strstr(way, "ptsz")) CHECK(standin->launches_ptsz == 3);
    CHECK(client_heap_segments(&standin->last_ref) == MM_HOST_FIRST_SEGMENTS);
    CHECK(standin->handles == 0);        /* released; the mappings keep the memory */
    CHECK(standin->global_queries == 1); /* queried once, not at every launch */
}

static void kernel(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    CUlibrary library, other;
    CUfunction k = client_kernel("mm", &library);
    CUfunction idle = client_kernel("mm", &other), plain = client_kernel("plain", NULL);
    OK(client_launch(k, NULL));
    launched_with_heap(1);
    OK(client_launch(plain, NULL));
    OK(client_launch(plain, NULL));
    CHECK(standin->instances == 2); /* a library that launches nothing is not loaded */
    CHECK(standin->global_queries == 2);
    (void)idle;
    /* the same library, through its other handles */
    CUfunction f;
    CUmodule module;
    CUkernel again;
    OK(cu.cuKernelGetFunction(&f, (CUkernel)k));
    OK(client_launch(f, NULL));
    OK(cu.cuLibraryGetModule(&module, library));
    OK(cu.cuModuleGetFunction(&f, module, "kernel"));
    OK(client_launch(f, NULL));
    OK(cu.cuLibraryEnumerateKernels(&again, 1, library));
    OK(client_launch((CUfunction)again, NULL));
    launched_with_heap(4);
    OK(cu.cuModuleEnumerateFunctions(&f, 1, module));
    OK(client_launch(f, NULL));
    launched_with_heap(5);
}

/* Each way of launching is used for the first launch of a module. */
static void every_launch(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    CUlaunchConfig config;
    memset(&config, 0, sizeof config);
    OK(cu.cuLaunchKernelEx(&config, client_function("mm"), NULL, NULL));
    launched_with_heap(1);
    OK(cu.cuLaunchCooperativeKernel(client_function("mm"), 1, 2, 3, 4, 5, 6, 7, NULL, NULL));
    CHECK(standin->last_dims_sum == 141);
    launched_with_heap(2);
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS p;
    memset(&p, 0, sizeof p);
    p.func = client_function("mm");
    OK(cu.cuGraphAddKernelNode(&node, NULL, NULL, 0, &p));
    launched_with_heap(3);
    p.func = NULL;
    p.kern = (CUkernel)client_kernel("mm", NULL);
    OK(cu.cuGraphAddKernelNode(&node, NULL, NULL, 0, &p));
    launched_with_heap(4);
    CUgraphNodeParams any;
    memset(&any, 0, sizeof any);
    any.type = CU_GRAPH_NODE_TYPE_KERNEL;
    any.kernel.kern = (CUkernel)client_kernel("mm", NULL);
    OK(cu.cuGraphAddNode(&node, NULL, NULL, NULL, 0, &any));
    launched_with_heap(5);
}

static CUfunction race_function;
static CUcontext race_context;
static pthread_barrier_t race_start;

static void *racer(void *unused) {
    OK(cu.cuCtxSetCurrent(race_context));
    pthread_barrier_wait(&race_start);
    OK(client_launch(race_function, NULL));
    return unused;
}

static void race(int argc, char **argv) {
    (void)argc, (void)argv;
    enum { THREADS = 16 };
    pthread_t threads[THREADS];
    race_context = client_start();
    race_function = client_kernel("mm", NULL);
    pthread_barrier_init(&race_start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, racer, NULL) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    launched_with_heap(THREADS);
    CHECK(standin->reservations == 2); /* one heap */
    CHECK(standin->streams == 0);
}

/* race() in argv processes, one after the other. */
static void races(int argc, char **argv) {
    CHECK(argc == 1);
    for (int round = atoi(argv[0]); round > 0; round--) {
        const pid_t child = fork();
        int status = 0;
        CHECK(child >= 0);
        if (child == 0) race(0, NULL), exit(0);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

static void contexts(int argc, char **argv) {
    (void)argc, (void)argv;
    CUcontext first = client_start(), second;
    CUfunction k = client_kernel("mm", NULL);
    OK(client_launch(k, NULL));
    struct mm_heap_ref one = standin->last_ref;
    OK(cu.create(&second, 0, 1));
    OK(client_launch(k, NULL));
    CHECK(standin->last_ref.heap && standin->last_ref.heap != one.heap);
    CHECK(standin->reservations == 4);
    client_heap_segments(&standin->last_ref);
    /* a module that has a heap keeps it, whichever context is current at the launch */
    CUfunction f;
    OK(cu.cuCtxSetCurrent(first));
    f = client_function("mm");
    OK(client_launch(f, NULL));
    OK(cu.cuCtxSetCurrent(second));
    OK(client_launch(f, NULL));
    CHECK(standin->last_ref.heap == one.heap);
    /* a stream decides the context, whichever is current */
    CUstream stream;
    CUfunction other = client_kernel("mm", NULL);
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuCtxSetCurrent(first));
    OK(client_launch(other, stream));
    CHECK(standin->last_ref.heap != one.heap);
    OK(client_launch(other, NULL));
    CHECK(standin->last_ref.heap == one.heap);
    launched_with_heap(6);
    OK(cu.cuCtxDestroy(second));
    CHECK(standin->reservations == 2);
    OK(cu.cuCtxSetCurrent(first));
    OK(client_launch(k, NULL));
    launched_with_heap(7);
}

static void reset(int argc, char **argv) {
    (void)argc, (void)argv;
    for (int round = 1; round <= 4; round++) {
        client_start();
        OK(client_launch(client_function("mm"), NULL));
        OK(client_launch(client_kernel("mm", NULL), NULL));
        launched_with_heap(2 * round);
        CHECK(standin->reservations == 2);
        if (round % 2) OK(cu.cuDevicePrimaryCtxReset(0));
        else OK(cu.cuDevicePrimaryCtxRelease(0));
        CHECK(standin->reservations == 0 && standin->mappings == 0);
        CHECK(standin->free_bytes == standin->total_bytes);
    }
}

/* Another thread launches when the driver has ended a context, before the ending call returns. */
static CUfunction end_kernel;
static CUcontext end_context; /* NULL: the thread creates a new one */
static CUcontext end_seen;
static int end_calls, end_done;
static pthread_t end_thread;

static void *launcher(void *unused) {
    if (end_context) OK(cu.cuCtxSetCurrent(end_context));
    else OK(cu.create(&end_seen, 0, 1));
    OK(client_launch(end_kernel, NULL));
    __atomic_store_n(&end_done, 1, __ATOMIC_RELEASE);
    return unused;
}

static void at_end(void) {
    if (--end_calls) return;
    CHECK(pthread_create(&end_thread, NULL, launcher, NULL) == 0);
    for (int ms = 0; ms < 50 && !__atomic_load_n(&end_done, __ATOMIC_ACQUIRE); ms++) usleep(1000);
}

static void ends(int argc, char **argv) {
    (void)argc, (void)argv;
    CUcontext first = client_start(), second;
    end_kernel = client_kernel("mm", NULL);
    OK(cu.create(&second, 0, 1));
    OK(client_launch(end_kernel, NULL));
    /* a call that fails to end the context changes nothing */
    const unsigned long long heap = standin->last_ref.heap;
    OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1u << 30));
    standin->only_here = gettid(); /* the heap's thread makes a call when it starts, at any time */
    standin->calls = 0, standin->fail_at = 1, standin->fail_code = CUDA_ERROR_UNKNOWN, standin->armed = true;
    CHECK(cu.cuCtxDestroy(second) == CUDA_ERROR_UNKNOWN);
    standin->armed = false;
    OK(client_launch(end_kernel, NULL));
    OK(client_launch(client_function("mm"), NULL));
    size_t value = 0;
    OK(cu.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    CHECK(value == 1u << 30 && standin->last_ref.heap == heap && standin->reservations == 2);
    launched_with_heap(3);
    /* the handle is reused in another thread before the call that ended it returns */
    end_calls = 1;
    standin->at_end = at_end;
    OK(cu.cuCtxDestroy(second));
    CHECK(pthread_join(end_thread, NULL) == 0);
    CHECK(end_seen == second);
    launched_with_heap(4);
    client_heap_segments(&standin->last_ref);
    CHECK(standin->reservations == 2);
    standin->at_end = NULL;
    OK(cu.cuCtxDestroy(second));
    CHECK(standin->reservations == 0);
    /* a release that is not the last does not end the heap */
    OK(cu.cuCtxSetCurrent(first));
    OK(client_launch(end_kernel, NULL));
    OK(cu.cuDevicePrimaryCtxRetain(&first, 0));
    end_kernel = client_function("mm");
    end_context = first;
    end_done = 0;
    end_calls = 2; /* the first call is libmm.so's own, to get the handle */
    standin->at_end = at_end;
    OK(cu.cuDevicePrimaryCtxRelease(0));
    CHECK(pthread_join(end_thread, NULL) == 0);
    launched_with_heap(6);
    CHECK(standin->reservations == 2);
    standin->at_end = NULL;
    OK(cu.cuDevicePrimaryCtxRelease(0));
    CHECK(standin->reservations == 0 && standin->mappings == 0);
}

/* Handles of a context's modules are reused in the next context for other objects. */
static void recycled(int argc, char **argv) {
    (void)argc, (void)argv;
    CUcontext context, again;
    CUlibrary library;
    CUmodule of_library, module;
    CUfunction f;
    client_start();
    client_kernel("mm", &library);
    OK(cu.create(&context, 0, 0));
    OK(cu.cuLibraryGetModule(&of_library, library));
    OK(cu.cuCtxDestroy(context));
    OK(cu.create(&again, 0, 0));
    OK(cu.cuModuleLoadData(&module, "mm"));
    CHECK(again == context && module == of_library);
    OK(cu.cuModuleGetFunction(&f, module, "kernel"));
    OK(client_launch(f, NULL));
    launched_with_heap(1);
}

static void unload(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    for (int round = 1; round <= 600; round++) {
        /* the stand-in reuses handles, alternating between the two kinds of objects */
        CUlibrary library;
        CUmodule module;
        CUfunction f;
        if (round % 2) {
            OK(client_launch(client_kernel("mm", &library), NULL));
            OK(cu.cuLibraryUnload(library));
        } else {
            OK(cu.cuModuleLoadData(&module, "mm"));
            OK(cu.cuModuleGetFunction(&f, module, "kernel"));
            OK(client_launch(f, NULL));
            OK(cu.cuModuleUnload(module));
        }
        launched_with_heap(round);
    }
    CHECK(standin->instances == 0);
    CHECK(standin->reservations == 2);
}

static void capture(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    CUstream stream;
    CUgraph graph;
    CUfunction k = client_kernel("mm", NULL), f = client_function("mm");
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(client_launch(k, stream));
    OK(client_launch(f, stream));
    OK(cu.cuStreamEndCapture(stream, &graph));
    CHECK(!standin->capture_broken);
    launched_with_heap(2);
    /* the thread's mode is restored: an unsafe call breaks the next capture */
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUstream another;
    CHECK(cu.cuStreamCreate(&another, CU_STREAM_NON_BLOCKING) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

static void limit(int argc, char **argv) {
    (void)argc, (void)argv;
    size_t value = 0;
    client_start();
    OK(cu.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    CHECK(value == 8u << 20);
    OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 100000000)); /* the driver's own result, as without libmm.so */
    OK(cu.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    CHECK(value == 100007936);
    OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 3ull << 30)); /* more than the default */
    OK(cu.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    CHECK(value == 3ull << 30);
    OK(client_launch(client_function("mm"), NULL));
    CHECK(client_heap_segments(&standin->last_ref) == 3072);
    for (int refuses = 0; refuses <= 1; refuses++) { /* our heap decides, even if a driver refuses late */
        standin->late_limit = refuses;
        unsigned long long mapped = standin->free_bytes;
        OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1ull << 30));
        CHECK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 9ull << 30) == CUDA_ERROR_OUT_OF_MEMORY);
        OK(cu.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
        CHECK(value == 1ull << 30);
        OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, (1ull << 30) + 1));
        OK(cu.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
        CHECK(value == (1ull << 30) + (refuses ? 1 : 131072));
        OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, (6ull + (unsigned)refuses) << 30)); /* late, and applied */
        OK(cu.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
        CHECK(value == (6ull + (unsigned)refuses) << 30);
        CHECK(standin->free_bytes <= standin->total_bytes - ((6ull + (unsigned)refuses) << 30));
        CHECK(refuses || standin->free_bytes < mapped);
    }
    standin->late_limit = false;
    OK(cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
    OK(cu.cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    CHECK(value == 1024);
    CHECK(cu.cuCtxGetLimit(NULL, CU_LIMIT_MALLOC_HEAP_SIZE) == CUDA_ERROR_INVALID_VALUE);
    /* a new context has the default */
    OK(cu.cuDevicePrimaryCtxReset(0));
    client_start();
    OK(cu.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    CHECK(value == 8u << 20);
    /* a refused limit leaves no trace where none was set before */
    OK(client_launch(client_function("mm"), NULL));
    CHECK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 9ull << 30) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cu.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
    CHECK(value == 8u << 20);
}

const struct scenario client_scenarios[] = {
    {"function", function}, {"kernel", kernel}, {"every-launch", every_launch}, {"race", race},   {"races", races}, {"contexts", contexts},
    {"reset", reset},       {"unload", unload}, {"capture", capture},           {"limit", limit}, {"ends", ends},   {"recycled", recycled},
    {NULL, NULL},
};
