/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of the pool (MM_POOL) with several contexts and threads, and of all of it at random. */
#include "client_pool.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

static CUcontext shared; /* by threads */

/* Each context has its memory, which ends with it. */
static void contexts(int argc, char **argv) {
    CUcontext first = client_start(), second, current;
    CUdeviceptr a, b;
    (void)argc, (void)argv;
    a = allocate(KIB);
    OK(cu.create(&second, 0, 0));
    b = allocate(KIB);
    CHECK(a != b);
    OK(cu.cuMemFree(a)); /* of a context that is not current */
    finish();
    CHECK(allocate(KIB) != a);
    OK(cu.cuCtxGetCurrent(&current));
    CHECK(current == second);
    OK(cu.cuCtxSetCurrent(first));
    close_epoch();
    CHECK(allocate(KIB) == a);
    OK(cu.cuMemFree(b));
    OK(cu.cuCtxDestroy(second));
    for (int i = 0; i < 3; i++) { /* with the same handle: nothing of the old one is handed out */
        OK(cu.create(&second, 0, 0));
        const CUdeviceptr c = allocate(KIB);
        CHECK(c != b);
        OK(cu.cuMemFree(c));
        b = c;
        OK(cu.cuCtxDestroy(second));
    }
    OK(cu.create(&second, 0, 0));
    const CUdeviceptr left = allocate(4 * MIB);
    OK(cu.cuCtxDestroy(second));
    const long frees = standin->frees;
    OK(cu.cuMemFree(left)); /* the pool knows it no longer: the driver is asked */
    CHECK(standin->frees == frees + 1);
    OK(cu.cuCtxSetCurrent(first));
    OK(cu.cuMemFree(a));
    OK(cu.cuDevicePrimaryCtxReset(0));
    OK(cu.cuDevicePrimaryCtxRetain(&first, 0));
    OK(cu.cuCtxSetCurrent(first));
    CHECK(allocate(KIB) != a);
}

/* keep: while a free waits, its context does not end. */
static bool is_freeing, has_waited;
static void wait_long(void) {
    __atomic_store_n(&is_freeing, true, __ATOMIC_RELEASE);
    usleep(50000);
    __atomic_store_n(&has_waited, true, __ATOMIC_RELEASE);
}
static void *frees_slowly(void *context) {
    OK(cu.cuCtxSetCurrent((CUcontext)context));
    OK(cu.cuMemFree(allocate(KIB)));
    const CUdeviceptr p = allocate(KIB);
    standin->before_synchronize = wait_long;
    OK(cu.cuMemFree(p));
    return NULL;
}
static void ending(int argc, char **argv) {
    pthread_t other;
    CUcontext first = client_start(), second;
    (void)argc, (void)argv;
    OK(cu.create(&second, 0, 0));
    OK(cu.cuCtxSetCurrent(first));
    CHECK(pthread_create(&other, NULL, frees_slowly, second) == 0);
    while (!__atomic_load_n(&is_freeing, __ATOMIC_ACQUIRE)) usleep(100);
    OK(cu.cuCtxDestroy(second));
    CHECK(__atomic_load_n(&has_waited, __ATOMIC_ACQUIRE));
    standin->before_synchronize = NULL;
    pthread_join(other, NULL);
    OK(cu.create(&second, 0, 0));
    OK(cu.cuMemFree(allocate(KIB)));
    OK(cu.cuCtxDestroy(second));
}

/* keep: a free begins when its context is about to end, and is over when the pool serves another context. It leaves that one's pending frees alone. */
static bool is_waiting, may_go_on;
static CUdeviceptr block_of_ended;
static void wait_for_next_context(void) {
    __atomic_store_n(&is_waiting, true, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&may_go_on, __ATOMIC_ACQUIRE)) usleep(100);
}
static void *frees_late(void *context) {
    OK(cu.cuCtxSetCurrent((CUcontext)context));
    cu.cuMemFree(block_of_ended);
    return NULL;
}
static pthread_t late;
static void begin_late_free(void) {
    standin->at_synchronize = wait_for_next_context;
    CHECK(pthread_create(&late, NULL, frees_late, shared) == 0);
    while (!__atomic_load_n(&is_waiting, __ATOMIC_ACQUIRE)) usleep(100);
    standin->at_synchronize = NULL;
}
/* Of two frees in a capture, the second one is pending. Returns its block, which lies between live ones. */
static CUdeviceptr a_pending_block(CUstream stream) {
    CUgraph graph;
    const CUdeviceptr first = allocate(KIB);
    allocate(KIB);
    const CUdeviceptr second = allocate(100 * KIB);
    allocate(KIB);
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuMemFree(first));
    OK(cu.cuMemFree(second));
    OK(cu.cuStreamEndCapture(stream, &graph));
    return second;
}
static void late_free(int argc, char **argv) {
    CUstream stream;
    (void)argc, (void)argv;
    shared = client_start();
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    block_of_ended = allocate(4 * MIB);
    a_pending_block(stream);
    standin->before_end = begin_late_free;
    OK(cu.cuDevicePrimaryCtxReset(0));
    standin->before_end = NULL;
    OK(cu.cuDevicePrimaryCtxRetain(&shared, 0));
    OK(cu.cuCtxSetCurrent(shared));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const CUdeviceptr pending = a_pending_block(stream);
    __atomic_store_n(&may_go_on, true, __ATOMIC_RELEASE);
    pthread_join(late, NULL);
    CHECK(allocate(100 * KIB) != pending);
    OK(cu.cuMemFree(allocate(KIB)));
    CHECK(allocate(100 * KIB) == pending);
}

/* ---- fuzzing ---------------------------------------------------------------------------------- */

/* A kernel stamps its block when it begins, at once here, and checks the stamp when it ends: nobody else may have got the block in between. */
#define KERNELS 4096
static struct kernel {
    CUdeviceptr address;
    size_t bytes;
    unsigned long long stamp;
} kernels[KERNELS];
static long checked;

static unsigned long long *end_of(const struct kernel *k) { return (unsigned long long *)(k->address + k->bytes) - 1; }
static void check_up_to(long end) {
    for (; checked < end; checked++) {
        const struct kernel *k = &kernels[checked % KERNELS];
        CHECK(*(unsigned long long *)k->address == k->stamp && *end_of(k) == k->stamp);
    }
}
static void check_all(void) { check_up_to(standin->submitted); }
static void launch(CUdeviceptr address, size_t bytes) {
    if (standin->submitted - checked == KERNELS) check_up_to(++standin->finished);
    struct kernel *k = &kernels[standin->submitted % KERNELS];
    static unsigned long long stamps;
    for (long i = checked; i < standin->submitted; i++) /* a later kernel of the same block stamps it again */
        if (kernels[i % KERNELS].address == address) kernels[i % KERNELS].stamp = stamps + 1;
    *k = (struct kernel){address, bytes, ++stamps};
    *(unsigned long long *)address = *end_of(k) = k->stamp;
    standin->submitted++;
}

/* fuzz OPERATIONS SEED */
static void fuzz(int argc, char **argv) {
    static struct {
        CUdeviceptr address;
        size_t bytes;
    } live[200];
    const long operations = argc > 0 ? atol(argv[0]) : 20000;
    unsigned long long seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    CUstream stream;
    CUgraph graph;
    bool captures = false;
    client_start();
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    standin->at_finish = check_all;
    for (long n = 0; n < operations; n++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        const unsigned r = (unsigned)(seed >> 33), k = r % 200, what = r / 200 % 100;
        if (what < 45 && !captures && !live[k].address) {
            live[k].bytes = 16 + (what < 3    ? (r >> 8) % (40 * MIB)
                                  : what < 30 ? (r >> 8) % 8 * KIB /* lengths that come again */
                                              : (r >> 8) % (1u << (4 + r % 16)));
            if (cu.cuMemAlloc(&live[k].address, live[k].bytes) != CUDA_SUCCESS) live[k].address = 0;
            else launch(live[k].address, live[k].bytes & ~7ull);
        } else if (what < 70 && live[k].address) {
            OK(cu.cuMemFree(live[k].address));
            live[k].address = 0;
        } else if (what < 85 && live[k].address) {
            launch(live[k].address, live[k].bytes & ~7ull);
        } else if (what < 97) {
            if (standin->finished < standin->submitted) check_up_to(standin->finished + 1), standin->finished++;
        } else if (what < 99) {
            if (captures) OK(cu.cuStreamEndCapture(stream, &graph));
            else OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
            captures = !captures;
        } else if (!captures && n % 7 == 0) {
            settle();
        }
    }
    if (captures) OK(cu.cuStreamEndCapture(stream, &graph));
    CHECK(!standin->capture_broken);
    for (int k = 0; k < 200; k++)
        if (live[k].address) OK(cu.cuMemFree(live[k].address));
    check_all();
    standin->at_finish = NULL;
    settle();
    CHECK(driver_has() == 0);
}

/* While the driver makes a pool's anchor, a call that is slow at times, other threads use the pool. */
static bool was_used;
static void *uses_the_pool(void *unused) {
    OK(cu.cuCtxSetCurrent(shared));
    for (int i = 0; i < 3; i++) OK(cu.cuMemFree(allocate(KIB)));
    return unused;
}
static void at_anchor(unsigned long long bytes) {
    pthread_t other;
    struct timespec until;
    if (bytes != 1) return;
    CHECK(!was_used && pthread_create(&other, NULL, uses_the_pool, NULL) == 0); /* and they make no second one */
    was_used = true;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    CHECK(pthread_timedjoin_np(other, NULL, &until) == 0);
}
static void anchoring(int argc, char **argv) {
    (void)argc, (void)argv;
    shared = client_start();
    standin->at_allocate = at_anchor;
    OK(cu.cuMemFree(allocate(KIB)));
    CHECK(was_used);
    standin->at_allocate = NULL;
    settle();
    CHECK(driver_has() == 0);
}

/* Threads that allocate and free blocks of their own. */
static void *worker(void *argument) {
    CUcontext context = (CUcontext)argument;
    OK(cu.cuCtxSetCurrent(context));
    unsigned seed = (unsigned)(size_t)&seed;
    for (int i = 0; i < 3000; i++) {
        CUdeviceptr p[8];
        for (int k = 0; k < 8; k++) {
            seed = seed * 1664525u + 1013904223u;
            OK(cu.cuMemAlloc(&p[k], 64 + (seed >> 8) % (seed % 50 == 0 ? 3 * MIB : seed % 2 ? 2000 : 20000)));
            *(volatile CUdeviceptr *)p[k] = p[k];
        }
        for (int k = 0; k < 8; k++) {
            CHECK(*(volatile CUdeviceptr *)p[k] == p[k]);
            OK(cu.cuMemFree(p[k]));
        }
    }
    return NULL;
}
static void threads(int argc, char **argv) {
    pthread_t t[8];
    CUcontext context = client_start();
    (void)argc, (void)argv;
    for (int i = 0; i < 8; i++) CHECK(pthread_create(&t[i], NULL, worker, context) == 0);
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        settle();
    }
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    settle();
    CHECK(driver_has() == 0);
}

const struct scenario client_pool_contexts_scenarios[] = {
    {"pool-anchoring", anchoring},
    {"pool-ending", ending},
    {"pool-late-free", late_free},
    {"pool-contexts", contexts},
    {"pool-fuzz", fuzz},
    {"pool-threads", threads},
    {NULL, NULL},
};
