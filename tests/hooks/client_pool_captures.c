/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of the pool (MM_POOL) while streams capture. */
#include "client_pool.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/host/clock.h"

/* While a stream captures, calls do what the driver's do: an allocation breaks the capture, a free does not. */
static void captured(int argc, char **argv) {
    CUstream stream, second;
    CUgraph graph;
    CUdeviceptr p;
    (void)argc, (void)argv;
    client_start();
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    const CUdeviceptr small = allocate(KIB), large = allocate(4 * MIB), third = allocate(KIB);
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) != CUDA_SUCCESS);
    standin->submitted++;
    const long records = standin->records, frees = standin->frees;
    OK(cu.cuMemFree(small));
    CHECK(standin->finished == standin->submitted && standin->frees == frees + 1); /* as the driver's free, it waited */
    OK(cu.cuMemFree(large));
    CHECK(!standin->capture_broken && standin->records == records && standin->frees == frees + 2);
    CHECK(cu.cuMemFreeAsync(third, stream) == CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuStreamBeginCaptureToGraph(second, NULL, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuStreamEndCapture(stream, &graph));
    CHECK(cu.cuMemAlloc(&p, KIB) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && standin->capture_broken); /* the second one still captures */
    CHECK(cu.cuStreamEndCapture(second, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    standin->capture_broken = false;
    CHECK(allocate(KIB) == small); /* the pool is back */
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuStreamDestroy(stream)); /* ends the capture, too */
    OK(cu.cuMemFreeAsync(third, second));
    close_epoch();
    CHECK(allocate(KIB) == third && !standin->capture_broken);
    /* Of several frees in a capture the first one waits. Afterwards frees do again what the mode says. */
    CUdeviceptr a[6];
    for (int i = 0; i < 6; i++) a[i] = allocate(KIB);
    OK(cu.cuStreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < 3; i++) OK(cu.cuMemFree(a[i]));
    OK(cu.cuStreamEndCapture(second, &graph));
    for (int i = 3; i < 6; i++) {
        standin->submitted++;
        OK(cu.cuMemFree(a[i]));
        CHECK((standin->finished == standin->submitted) == is_mode("keep"));
    }
}

/* ---- a capture that begins meanwhile ------------------------------------------------------------ */

static CUstream captured_stream;
static int captures;
static void begin_capture(void) { OK(cu.cuStreamBeginCapture(captured_stream, CU_STREAM_CAPTURE_MODE_GLOBAL)); }
static void end_capture(void) {
    CUgraph graph;
    OK(cu.cuStreamEndCapture(captured_stream, &graph)); /* it was not broken */
    captures++;
}

/* While the pool waits for pending frees, since memory lacks. */
static void settling(int argc, char **argv) {
    CUdeviceptr p;
    (void)argc, (void)argv;
    client_start();
    OK(cu.cuStreamCreate(&captured_stream, CU_STREAM_NON_BLOCKING));
    p = allocate(4 * MIB);
    standin->submitted++;
    OK(cu.cuMemFree(p));
    standin->before_synchronize = begin_capture;
    standin->at_synchronize = end_capture;
    CHECK(cu.cuMemAlloc(&p, standin->total_bytes + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(captures == 1 && standin->finished == standin->submitted);
    CHECK(driver_has() == 0);
}

/* While the thread that gives memory back waits for its event: MM_TRIM=1. */
static void decaying(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    OK(cu.cuStreamCreate(&captured_stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemFree(allocate(100 * MIB)));
    const long records = standin->records;
    while (__atomic_load_n(&standin->records, __ATOMIC_RELAXED) == records) continue; /* no sleep: it waits for 10 ms */
    begin_capture();
    usleep(100000);
    end_capture();
    for (int i = 0; i < 500 && driver_has() != 0; i++) usleep(20000);
    CHECK(driver_has() == 0);
}

/* freeing [large]: in keep, another thread's free is about to wait for the context. Several tries, since that thread may be suspended for longer than
 * the capture waits for it; then the capture breaks, and the free fails. */
static bool is_about_to_wait, is_large;
static __thread bool is_slow;
static CUresult freed;
static CUdeviceptr to_free;
static uint64_t waits_us, freed_us; /* when that free was about to wait; when it returned */
static void be_slow(void) {
    if (!is_slow) return;
    if (!__atomic_load_n(&is_about_to_wait, __ATOMIC_RELAXED)) waits_us = mm_host_now_us();
    __atomic_store_n(&is_about_to_wait, true, __ATOMIC_RELEASE);
    usleep(1000);
}
static void *frees_a_block(void *context) {
    OK(cu.cuCtxSetCurrent((CUcontext)context));
    OK(cu.cuMemFree(allocate(KIB))); /* from now on this thread's magazine takes such blocks */
    to_free = allocate(is_large ? 4 * MIB : KIB);
    is_slow = true;
    freed = cu.cuMemFree(to_free);
    freed_us = mm_host_now_us();
    return NULL;
}
static void freeing(int argc, char **argv) {
    CUgraph graph;
    pthread_t other;
    (void)argv;
    CUcontext context = client_start();
    is_large = argc > 0;
    OK(cu.cuStreamCreate(&captured_stream, CU_STREAM_NON_BLOCKING));
    for (int tries = 0; tries < 5; tries++) {
        __atomic_store_n(&is_about_to_wait, false, __ATOMIC_RELEASE);
        standin->before_synchronize = be_slow;
        CHECK(pthread_create(&other, NULL, frees_a_block, context) == 0);
        while (!__atomic_load_n(&is_about_to_wait, __ATOMIC_ACQUIRE)) continue;
        begin_capture();
        pthread_join(other, NULL);
        standin->before_synchronize = NULL;
        if (cu.cuStreamEndCapture(captured_stream, &graph) == CUDA_SUCCESS) {
            OK(freed);
            return;
        }
        CHECK(freed_us - waits_us >= 1000 * MM_POOL_CAPTURE_MS);
        standin->capture_broken = false;
        if (freed != CUDA_SUCCESS) OK(cu.cuMemFree(to_free));
    }
    CHECK(false);
}

/* While a stream captures, the process forks, and another thread may have the pools' lock then. The driver does not work in the child, but nothing hangs. */
static bool must_stop;
static void *asks(void *context) {
    size_t now, total;
    OK(cu.cuCtxSetCurrent((CUcontext)context));
    while (!__atomic_load_n(&must_stop, __ATOMIC_ACQUIRE)) OK(cu.cuMemGetInfo(&now, &total));
    return NULL;
}
static void forking(int argc, char **argv) {
    unsigned long long (*taken)(void) = NULL;
    CUcontext context = client_start();
    CUgraph graph;
    pthread_t other;
    (void)argc, (void)argv;
    *(void **)&taken = dlsym(RTLD_DEFAULT, "mm_pool_taken_v1");
    CUdeviceptr p[1000]; /* of a length that the stand-in does not touch; to count them takes time */
    for (int i = 0; i < 1000; i++) p[i] = allocate(5 * MIB);
    for (int i = 0; i < 1000; i++) OK(cu.cuMemFree(p[i]));
    CHECK(taken && taken() >= 5000 * MIB);
    OK(cu.cuStreamCreate(&captured_stream, CU_STREAM_NON_BLOCKING));
    begin_capture();
    CHECK(pthread_create(&other, NULL, asks, context) == 0);
    for (int i = 0; i < 100; i++) {
        int status;
        const pid_t child = fork();
        if (child == 0) {
            alarm(10);
            cu.cuStreamEndCapture(captured_stream, &graph);
            cu.cuStreamDestroy(captured_stream);
            _exit(taken() != 0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    __atomic_store_n(&must_stop, true, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
    OK(cu.cuStreamEndCapture(captured_stream, &graph));
}

const struct scenario client_pool_captures_scenarios[] = {
    {"pool-captured", captured},        {"pool-captured-settling", settling}, {"pool-captured-decaying", decaying},
    {"pool-captured-freeing", freeing}, {"pool-captured-forking", forking},   {NULL, NULL},
};
