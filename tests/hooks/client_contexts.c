/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of contexts that are not simply created and destroyed. */
#include "client.h"

#include "runtime/heap.h"

#define MIB (1ull << 20)

/* Allocates `count` objects of 1 MiB from the heap of the last launch, by the allocator's source; the heap grows. Returns their number. */
static int allocate(int count) {
    int n = 0;
    while (n < count && mm_heap_malloc(&standin->last_ref, MIB)) n++;
    return n;
}

static CUgreenCtx green_context(CUcontext *context) {
    CUgreenCtx green;
    OK(cu.cuGreenCtxCreate(&green, NULL, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cu.cuCtxFromGreenCtx(context, green));
    OK(cu.cuCtxSetCurrent(*context));
    return green;
}

/* A heap created in a green context belongs to the primary context, and still grows after the green one has ended. So do limits. */
static void green(int argc, char **argv) {
    (void)argc, (void)argv;
    CUcontext primary = client_start(), context;
    CUgreenCtx g = green_context(&context);
    size_t limit = 0;
    OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * MIB));
    CUfunction f = client_function("mm"), k = client_kernel("mm", NULL);
    OK(client_launch(f, NULL));
    OK(client_launch(k, NULL));
    CHECK(standin->launches_with_variable == 2 && standin->launches_without_heap == 0);
    const unsigned long long heap = standin->last_ref.heap;
    CHECK(client_heap_segments(&standin->last_ref) == 32);
    OK(cu.cuCtxSetCurrent(primary));
    OK(client_launch(f, NULL));
    CHECK(standin->last_ref.heap == heap);
    OK(cu.cuCtxGetLimit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
    CHECK(limit == 32 * MIB);
    OK(cu.cuGreenCtxDestroy(g));
    CHECK(standin->reservations == 2);
    CHECK(allocate(256) == 256);
    g = green_context(&context); /* perhaps with the same handle */
    OK(client_launch(f, NULL));
    OK(client_launch(client_function("mm"), NULL));
    CHECK(standin->launches_without_heap == 0 && standin->last_ref.heap == heap && standin->reservations == 2);
    /* the primary context ends first, and is created again with the same handles */
    OK(cu.cuDevicePrimaryCtxReset(0));
    CHECK(standin->reservations == 0);
    OK(cu.cuDevicePrimaryCtxRetain(&primary, 0));
    OK(client_launch(client_function("mm"), NULL));
    OK(client_launch(client_function("mm"), NULL));
    CHECK(standin->launches_without_heap == 0 && standin->reservations == 2);
    OK(cu.cuCtxSetCurrent(primary));
    OK(cu.cuDevicePrimaryCtxReset(0));
    CHECK(standin->reservations == 0 && standin->mappings == 0 && standin->free_bytes == standin->total_bytes);
}

/* The green context is the last to hold the primary one: both end, and the heap with them. New contexts with the same handles get new heaps. */
static void green_last(int argc, char **argv) {
    (void)argc, (void)argv;
    CUcontext primary = client_start(), context;
    for (int round = 0; round < 3; round++) {
        CUgreenCtx g = green_context(&context);
        if (round == 0) OK(cu.cuDevicePrimaryCtxRelease(0));
        CUfunction f = client_function("mm");
        OK(client_launch(f, NULL));
        OK(client_launch(f, NULL));
        CHECK(standin->launches_with_variable == 2 * (round + 1) && standin->launches_without_heap == 0);
        CHECK(allocate(64) == 64);
        OK(cu.cuGreenCtxDestroy(g));
        CHECK(standin->reservations == 0 && standin->mappings == 0 && standin->free_bytes == standin->total_bytes);
    }
    (void)primary;
}

/* cuCtxDetach ends a context, unless it was attached before. */
static void detach(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    for (int round = 0; round < 4; round++) {
        CUcontext context, same;
        OK(cu.create(&context, 0, 0));
        CUfunction f = client_function("mm");
        OK(client_launch(f, NULL));
        CHECK(standin->launches_without_heap == 0 && standin->reservations == 2);
        if (round == 2) {
            OK(cu.cuCtxAttach(&same, 0));
            CHECK(same == context);
            const long creates = standin->creates;
            OK(cu.cuCtxDetach(context));
            OK(client_launch(f, NULL));
            CHECK(standin->launches_without_heap == 0 && standin->creates == creates); /* no other heap */
        }
        OK(cu.cuCtxDetach(context));
        CHECK(standin->reservations == 0 && standin->mappings == 0 && standin->free_bytes == standin->total_bytes);
    }
}

const struct scenario client_contexts_scenarios[] = {{"green", green}, {"green-last", green_last}, {"detach", detach}, {NULL, NULL}};
