/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of the pool (MM_POOL): when a free waits, when its memory is handed out again, and how many events that takes. */
#include "client_pool.h"

#include <pthread.h>

/* keep: a free waits for the device; async: it does not, and the memory is not handed out before the work is done that was submitted before. */
static void order(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    for (int i = 0; i < 2; i++) {
        const size_t bytes = i == 0 ? KIB : 4 * MIB;
        finish();
        const CUdeviceptr p = allocate(bytes);
        standin->submitted += 10;
        OK(cu.cuMemFree(p));
        CHECK((standin->finished == standin->submitted) == is_mode("keep"));
        if (bytes < MIB) close_epoch(); /* for more, there is one when the pool lacks memory */
        const CUdeviceptr q = allocate(bytes);
        CHECK((p == q) == is_mode("keep"));
        if (is_mode("async")) {
            standin->finished += 9;
            CHECK(allocate(bytes) != p);
            standin->submitted += 5; /* later work does not count */
            standin->finished += 1;
            CHECK(allocate(bytes) == p);
        }
        OK(cu.cuMemFree(q));
    }
}

/* More frees while the device works than there are events, and than a table has room for at first. */
#define MANY 1500
static void many(int argc, char **argv) {
    CUdeviceptr p[MANY];
    (void)argc, (void)argv;
    client_start();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) p[i] = allocate(4096);
        for (int i = 0; i < MANY; i++) {
            standin->submitted++;
            OK(cu.cuMemFree(p[i]));
        }
        CHECK(standin->records < MANY * (round + 1));
        for (int i = 0; i < 4; i++) {
            finish();
            OK(cu.cuMemFree(allocate(4096))); /* the rest of the epochs is closed now */
        }
    }
    settle();
    CHECK(driver_has() == 0);
}

static int queries;
static void finish_at_third_query(void) {
    if (++queries == 3) finish();
}
static void count_query(void) { queries++; }

/* A request of a new length waits for the only free that can serve it. Not if this thread is suspended for longer than it waits. */
static bool waits_for_third_query(size_t bytes) {
    const CUdeviceptr p = allocate(bytes);
    const int has = standin->allocations;
    standin->submitted++;
    OK(cu.cuMemFree(p));
    queries = 0;
    standin->at_query = finish_at_third_query;
    return allocate(bytes) == p && queries >= 3 && standin->allocations == has;
}

/* async: an event for several frees. A request that lacks memory gets one at once, and waits for it a little; none that the pending frees could not serve. */
static void batches(int argc, char **argv) {
    CUdeviceptr p[MM_POOL_BATCH];
    (void)argc, (void)argv;
    client_start();
    for (int round = 0; round < 3; round++) {
        finish();
        for (int i = 0; i < MM_POOL_BATCH; i++) p[i] = allocate(100 * KIB);
        const long records = standin->records;
        for (int i = 0; i < MM_POOL_BATCH; i++) {
            CHECK(standin->records == records);
            standin->submitted++;
            OK(cu.cuMemFree(p[i]));
        }
        CHECK(standin->records == records + 1);
        standin->finished = standin->submitted - 1; /* the event covers all of it */
        const CUdeviceptr other = allocate(100 * KIB);
        for (int i = 0; i < MM_POOL_BATCH; i++) CHECK(other != p[i]);
        OK(cu.cuMemFree(other));
        CHECK(standin->records == records + 1);
        close_epoch();
    }
    finish();
    allocate(200 * MM_POOL_WAITS_BYTES); /* a large pool is patient */
    const CUdeviceptr large = allocate(4 * MIB);
    const int has = standin->allocations;
    const long records = standin->records;
    for (int i = 1; i <= 10; i++) { /* the device is idle: the pool gets no larger */
        OK(cu.cuMemFree(large));
        CHECK(allocate(4 * MIB) == large && standin->records == records + i);
    }
    standin->submitted++;
    OK(cu.cuMemFree(large));
    standin->at_query = count_query;
    OK(cu.cuMemFree(allocate(32 * MIB)));
    CHECK(queries == 0 && standin->records == records + 10 && standin->allocations == has + 1);
    const CUdeviceptr second = allocate(4 * MIB); /* it gives up */
    CHECK(second != large && queries > 0 && standin->finished < standin->submitted && standin->allocations == has + 2);
    OK(cu.cuMemFree(second));
    CHECK(waits_for_third_query(6 * MIB) || waits_for_third_query(8 * MIB) || waits_for_third_query(10 * MIB) || waits_for_third_query(12 * MIB));
    /* Large blocks are not held back. */
    standin->at_query = NULL;
    close_epoch();
    finish();
    const CUdeviceptr huge = allocate(MM_POOL_BATCH_BYTES);
    const long before = standin->records;
    OK(cu.cuMemFree(huge));
    CHECK(standin->records == before + 1);
    OK(cu.cuMemFree(allocate(96 * KIB)));
    CHECK(standin->records == before + 1);
    /* Free memory of just the length is handed out without a look at the event of other frees; longer memory is not. */
    const CUdeviceptr just = allocate(16 * MIB), other = allocate(16 * MIB), longer = allocate(18 * MIB);
    OK(cu.cuMemFree(just));
    OK(cu.cuMemFree(longer));
    close_epoch();
    finish();
    allocate(24 * MIB); /* now both are free in the books */
    standin->submitted++;
    OK(cu.cuMemFree(other));
    close_epoch();
    finish();
    queries = 0;
    standin->at_query = count_query;
    CHECK(allocate(16 * MIB) == just && queries == 0);
    CHECK(allocate(16 * MIB) == other && queries == 1);
}

/* Each look at an event takes 1 us, and the second one finds it done; or each takes 2 us, and the first one does. */
static void look_for(double us) {
    const double begin = work_now_ms();
    while (work_now_ms() < begin + us / 1e3) continue;
}
static void finish_at_second_query(void) {
    look_for(1);
    if (++queries % 2 == 0) finish();
}
static void finish_at_query(void) {
    look_for(2);
    queries++, finish();
}

/* async: a pool that waits again and again gets larger, once that has taken as long as the driver would. Several times, since a thread that is suspended at a bad
 * moment does not wait long enough. */
static void impatient(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    CUdeviceptr p = allocate(9 * MIB);
    for (int round = 0; round < 8; round++) {
        const int has = standin->allocations;
        queries = 0;
        standin->at_query = round % 2 ? finish_at_query : finish_at_second_query;
        for (int i = 0; i < 100 && standin->allocations == has; i++) {
            standin->submitted++;
            OK(cu.cuMemFree(p));
            p = allocate(9 * MIB);
        }
        CHECK(standin->allocations == has + 1);
        standin->at_query = NULL;
        finish();
        allocate(9 * MIB); /* the one that was not waited for */
        CHECK(standin->allocations == has + 1);
    }
    /* A large pool waits for longer. */
    allocate(200 * MM_POOL_WAITS_BYTES);
    const int has = standin->allocations;
    standin->at_query = finish_at_query;
    for (int i = 0; i < 60; i++) {
        standin->submitted++;
        OK(cu.cuMemFree(p));
        p = allocate(9 * MIB);
    }
    CHECK(standin->allocations <= has + 1); /* by a request whose thread was suspended */
}

/* keep: a free waits, too, if this thread's magazine takes the block; an error of the wait is returned, and the block stays the program's. */
static void keeps(int argc, char **argv) {
    size_t before, now, total;
    (void)argc, (void)argv;
    client_start();
    const CUdeviceptr other = allocate(KIB);
    OK(cu.cuMemFree(allocate(KIB)));
    for (int i = 0; i < 50; i++) {
        CUdeviceptr p = allocate(KIB);
        OK(cu.cuMemGetInfo(&before, &total));
        standin->submitted++;
        OK(cu.cuMemFree(p));
        CHECK(standin->finished == standin->submitted);
        OK(cu.cuMemGetInfo(&now, &total));
        CHECK(now == before + KIB);
        CHECK(cu.cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
        p = allocate(KIB);
        *(volatile int *)p = i;
        standin->fail_name = "cuCtxSynchronize", standin->fail_code = CUDA_ERROR_LAUNCH_FAILED, standin->armed = true;
        CHECK(cu.cuMemFree(p) == CUDA_ERROR_LAUNCH_FAILED);
        standin->armed = false, standin->fail_name = NULL;
        const CUdeviceptr q = allocate(KIB);
        CHECK(q != p && *(volatile int *)p == i);
        OK(cu.cuMemFree(p));
        OK(cu.cuMemFree(q));
    }
    const CUdeviceptr next = allocate(2 * KIB), last = allocate(2 * KIB), third = allocate(2 * KIB);
    OK(cu.cuMemFree(third));
    OK(cu.cuMemFree(last));
    OK(cu.cuMemFree(next));
    CHECK(allocate(2 * KIB) == last); /* the first one in the magazine; a slab would give the lowest */
    OK(cu.cuMemFree(last));
    OK(cu.cuMemFree(other));
    settle();
    CHECK(driver_has() == 0);
}

static void *leaves_a_block(void *context) {
    OK(cu.cuCtxSetCurrent((CUcontext)context));
    for (int i = 0; i < 3; i++) OK(cu.cuMemFree(allocate(9 * KIB)));
    return NULL;
}

/* Pairs of one length in one thread: most need no event. No order of frees, work and other lengths makes a block come back too early, or twice, or never. */
static void magazines(int argc, char **argv) {
    enum { ROUND = 3 * MM_POOL_SET_PLACES };
    CUdeviceptr q[ROUND], base;
    size_t bytes, before, now, total;
    pthread_t other;
    CUstream stream;
    CUgraph graph;
    (void)argc, (void)argv;
    CUcontext first = client_start();
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemFree(allocate(KIB)));
    const long records = standin->records;
    for (int i = 0; i < 1000; i++) OK(cu.cuMemFree(allocate(KIB)));
    CHECK(standin->records - records <= 1000 / (MM_POOL_SET_PLACES / 2) + 2);
    for (int round = 0; round < 50; round++) {
        const CUdeviceptr p = allocate(KIB - round);
        OK(cu.cuMemGetAddressRange(&base, &bytes, p));
        CHECK(base == p && bytes == KIB - round);
        standin->submitted += 2;
        OK(cu.cuMemGetInfo(&before, &total));
        OK(cu.cuMemFree(p));
        OK(cu.cuMemGetInfo(&now, &total));
        CHECK(now == before + KIB);
        CHECK(cu.cuMemFree(p) == CUDA_ERROR_INVALID_VALUE && cu.cuMemGetAddressRange(&base, &bytes, p) == CUDA_ERROR_NOT_FOUND);
        bool is_back = false;
        standin->finished = standin->submitted - 1;
        for (int i = 0; i < ROUND; i++) {
            q[i] = allocate(KIB);
            CHECK(q[i] != p);
            for (int k = 0; k < i; k++) CHECK(q[i] != q[k]);
        }
        finish();
        for (int i = 0; i < ROUND; i++) OK(cu.cuMemFree(q[i]));
        for (int i = 0; i < ROUND; i++) is_back |= (q[i] = allocate(KIB)) == p;
        CHECK(is_back);
        for (int i = 0; i < ROUND; i++) OK(cu.cuMemFree(q[i]));
        OK(cu.cuMemFree(allocate((1 + round) * 512))); /* takes its set from another length, some time */
    }
    /* While the device is behind, mallocs alone close no epochs. */
    standin->submitted++;
    for (int i = 0; i < (int)MM_POOL_SET_PLACES; i++) q[i] = allocate(KIB);
    for (int i = 0; i < (int)MM_POOL_SET_PLACES; i++) OK(cu.cuMemFree(q[i]));
    const long behind = standin->records;
    for (int i = 0; i < ROUND; i++) q[i] = allocate(KIB);
    CHECK(standin->records <= behind + 1);
    finish();
    for (int i = 0; i < ROUND; i++) OK(cu.cuMemFree(q[i]));
    /* An event that could not be recorded: the next free tries again. */
    close_epoch();
    for (int i = 0; i < MM_POOL_BATCH + 1; i++) q[i] = allocate(96 * KIB);
    standin->fail_name = "cuCtxRecordEvent", standin->fail_code = CUDA_ERROR_UNKNOWN, standin->armed = true;
    for (int i = 0; i < MM_POOL_BATCH; i++) OK(cu.cuMemFree(q[i]));
    CHECK(standin->failed && strcmp(standin->failed, "cuCtxRecordEvent") == 0);
    standin->armed = false, standin->fail_name = NULL;
    const long failed = standin->records;
    OK(cu.cuMemFree(q[MM_POOL_BATCH]));
    CHECK(standin->records == failed + 1);
    /* In a capture nothing comes from a magazine, and nothing goes there: the free waits. */
    const CUdeviceptr p = allocate(KIB);
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    standin->submitted++;
    OK(cu.cuMemFree(p));
    CHECK(standin->finished == standin->submitted);
    CHECK(cu.cuMemAlloc(&q[0], KIB) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    cu.cuStreamEndCapture(stream, &graph);
    standin->capture_broken = false;
    /* What other threads leave goes back, and so does what a context has. */
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&other, NULL, leaves_a_block, first) == 0);
        pthread_join(other, NULL);
    }
    settle();
    CHECK(driver_has() == 0);
    CUcontext second;
    OK(cu.create(&second, 0, 0));
    for (int i = 0; i < 3; i++) OK(cu.cuMemFree(q[0] = allocate(KIB)));
    OK(cu.cuCtxDestroy(second));
    OK(cu.create(&second, 0, 0)); /* has the handle, and nothing of the memory */
    CHECK(allocate(KIB) != q[0]);
    OK(cu.cuCtxDestroy(second));
}

const struct scenario client_pool_frees_scenarios[] = {
    {"pool-order", order},         {"pool-many", many}, {"pool-batches", batches}, {"pool-impatient", impatient}, {"pool-keeps", keeps},
    {"pool-magazines", magazines}, {NULL, NULL},
};
