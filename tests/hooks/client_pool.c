/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of the pool (MM_POOL): what a program sees of cudaMalloc, cudaFree and what asks about memory. */
#include "client_pool.h"

#include <unistd.h>

/* Sizes of all kinds: after the first round, the driver is not asked any more. */
static void pairs(int argc, char **argv) {
    static const size_t sizes[] = {1, 512, 513, KIB, 100000, MIB, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 32 * MIB, 33 * MIB, 500 * MIB};
    CUdeviceptr p[sizeof sizes / sizeof *sizes];
    int at_first = 0;
    (void)argc, (void)argv;
    client_start();
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            p[i] = allocate(sizes[i]);
            ((volatile char *)p[i])[0] = ((volatile char *)p[i])[sizes[i] - 1] = 1;
            for (size_t k = 0; k < i; k++) CHECK(p[i] + sizes[i] <= p[k] || p[k] + sizes[k] <= p[i]);
        }
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) OK(cu.cuMemFree(p[i]));
        if (round == 0) at_first = standin->allocations;
        CHECK(standin->allocations == at_first);
    }
    CHECK(standin->frees == 0 && driver_has() > 5);
    settle();
    CHECK(driver_has() == 0);
    p[0] = allocate(18 * MIB);
    OK(cu.cuMemFree(p[0]));
    CHECK(allocate(14 * MIB) != p[0] && allocate(16 * MIB) == p[0]); /* an eighth of a request may stay unused */
}

/* Wrong frees get the driver's error, and change nothing. */
static void wrong(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    const CUdeviceptr small = allocate(100 * KIB), other = allocate(100 * KIB), large = allocate(8 * MIB);
    *(volatile int *)other = 7;
    OK(cu.cuMemFree(0));
    CHECK(cu.cuMemFree(small + 512) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cu.cuMemFree(large + 2 * MIB) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cu.cuMemFree(77) == CUDA_ERROR_INVALID_VALUE);
    CUresult (*past_us)(CUdeviceptr) = NULL;
    *(void **)&past_us = client_past_hooks("cuMemFree_v2");
    CHECK(past_us(small) == CUDA_ERROR_INVALID_VALUE); /* the slab does not go */
    for (int i = 0; i < 2; i++) {
        standin->submitted++;
        CHECK(cu.cuMemFree(small) == (i == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
        CHECK(cu.cuMemFree(large) == (i == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
        finish();
    }
    allocate(100 * KIB), allocate(8 * MIB);
    CHECK(*(volatile int *)other == 7);
    OK(cu.cuMemFree(other));
    CUdeviceptr p = 5;
    CHECK(cu.cuMemAlloc(&p, 0) == CUDA_ERROR_INVALID_VALUE && p == 5);
    CHECK(cu.cuMemAlloc(&p, ~0ull) == CUDA_ERROR_OUT_OF_MEMORY && cu.cuMemAlloc(&p, standin->total_bytes) == CUDA_ERROR_OUT_OF_MEMORY);
}

/* Memory that the pool keeps is there for everybody. */
static void pressure(int argc, char **argv) {
    CUdeviceptr p[64], large;
    size_t before, total, now;
    (void)argc, (void)argv;
    client_start();
    OK(cu.cuMemFree(allocate(1)));
    finish();
    OK(cu.cuMemGetInfo(&before, &total));
    for (int i = 0; i < 64; i++) p[i] = allocate(i % 2 ? 100 * MIB : MIB);
    OK(cu.cuMemGetInfo(&now, &total));
    CHECK(now <= before - 32 * 101 * MIB && now > before - 32 * 101 * MIB - 64 * MIB);
    standin->submitted++;
    for (int i = 0; i < 64; i++) OK(cu.cuMemFree(p[i]));
    OK(cu.cuMemGetInfo(&now, &total));
    CHECK(now == before && standin->free_bytes < before - 3 * GIB); /* pending frees count as free, too */
    OK(cu.cuMemAlloc(&large, 7 * GIB));
    CHECK(standin->finished == standin->submitted);
    OK(cu.cuMemFree(large));
    CHECK(cu.cuMemAlloc(&large, 9 * GIB) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(driver_has() == 0);
}

/* A device without room for a slab. */
static void scarce(int argc, char **argv) {
    CUdeviceptr p;
    (void)argc, (void)argv;
    client_start();
    allocate(512 * KIB);
    for (int i = 0; i < 200; i++) allocate(MIB);
    const unsigned long long taken = standin->free_bytes - 3 * MIB;
    standin->free_bytes = 3 * MIB; /* the next slab would have more */
    for (int i = 0; i < 40; i++)
        if (cu.cuMemAlloc(&p, MIB) != CUDA_SUCCESS) break;
    CHECK(standin->free_bytes < 2 * MIB);
    CHECK(cu.cuMemAlloc(&p, 3 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    standin->free_bytes += taken;
    allocate(3 * MIB);
}

/* Questions about memory are answered for the program's allocation, not for the slab. */
static void questions(int argc, char **argv) {
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    unsigned type = 0;
    CUdeviceptr base = 0;
    size_t bytes = 0;
    void *data[] = {&type, &base, &bytes};
    (void)argc, (void)argv;
    client_start();
    for (int i = 0; i < 2; i++) {
        const size_t size = i == 0 ? 5000 : 5 * MIB + 7;
        allocate(size);
        const CUdeviceptr p = allocate(size);
        allocate(size);
        OK(cu.cuMemGetAddressRange(&base, &bytes, p + size - 1));
        CHECK(base == p && bytes == size);
        CHECK(i == 1 || cu.cuMemGetAddressRange(&base, &bytes, p + size) == CUDA_ERROR_NOT_FOUND); /* what is left of its last grain */
        base = 0, bytes = 0;
        OK(cu.cuMemGetAddressRange(NULL, &bytes, p));
        OK(cu.cuMemGetAddressRange(&base, NULL, p));
        CHECK(base == p && bytes == size);
        base = 0, bytes = 0;
        OK(cu.cuPointerGetAttributes(3, attributes, data, p + 9));
        CHECK(type == CU_MEMORYTYPE_DEVICE && base == p && bytes == size);
        base = 0, bytes = 0;
        OK(cu.cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 100));
        OK(cu.cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p));
        CHECK(base == p && bytes == size);
        OK(cu.cuMemFree(p));
        CHECK(cu.cuMemGetAddressRange(&base, &bytes, p) == CUDA_ERROR_NOT_FOUND);
        CHECK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) == CUDA_ERROR_INVALID_VALUE);
        OK(cu.cuPointerGetAttributes(3, attributes, data, p));
        CHECK(type == 0);
    }
}

/* Memory of which another process may have a handle, or whose attributes changed, is not handed out again. */
static void shared(int argc, char **argv) {
    CUipcMemHandle handle;
    const int one = 1;
    (void)argc, (void)argv;
    client_start();
    const CUdeviceptr small = allocate(KIB), large = allocate(4 * MIB), set = allocate(4 * MIB);
    CHECK(cu.cuIpcGetMemHandle(&handle, small) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(cu.cuIpcGetMemHandle(&handle, small) == CUDA_ERROR_NOT_SUPPORTED);
    OK(cu.cuIpcGetMemHandle(&handle, large));
    OK(cu.cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, set));
    OK(cu.cuMemFree(large));
    CHECK(standin->frees == 1);
    OK(cu.cuMemFree(set));
    CHECK(standin->frees == 2);
    CHECK(cu.cuMemFree(set) == CUDA_ERROR_INVALID_VALUE && cu.cuIpcGetMemHandle(&handle, set) == CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuMemFree(small));
    CHECK(cu.cuIpcGetMemHandle(&handle, small) == CUDA_ERROR_INVALID_VALUE);
}

/* MM_TRIM=1: memory that nobody used for a second goes back, unless the device works. */
static void decays(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    const CUdeviceptr small = allocate(KIB);
    OK(cu.cuMemFree(allocate(100 * MIB)));
    standin->submitted++;
    usleep(2500000);
    CHECK(standin->frees == 0);
    finish();
    for (int i = 0; i < 500 && driver_has() != 1; i++) usleep(20000);
    CHECK(driver_has() == 1); /* the slab of the small one */
    OK(cu.cuMemFree(small));
}

/* A heap that lacks memory gets what the pool keeps: not at once, since the driver may wait for the kernel. */
static void heap(int argc, char **argv) {
    CUdeviceptr p[7];
    (void)argc, (void)argv;
    work_begin();
    for (int i = 0; i < 7; i++) p[i] = allocate(GIB);
    for (int i = 0; i < 7; i++) OK(cu.cuMemFree(p[i]));
    CHECK(driver_has() >= 7);
    work_start(0, 3 * GIB / WORK_THREADS);
    work_join();
    for (int i = 0; i < 500 && standin->frees < 7; i++) usleep(20000);
    CHECK(standin->frees == 7);
    usleep(2 * MM_GROW_REFUSAL_NS / 1000); /* the device remembers the refusal so long */
    work_release();
    work_start(0, 3 * GIB / WORK_THREADS);
    work_join();
    CHECK(work_nulls() == 0);
    work_release();
}

/* map [COUNT]: memory of each kind, for a picture; prints where the slab and the other ranges begin. COUNT: so many other ranges, no slab, and the context
 * ends. */
static void map(int argc, char **argv) {
    client_start();
    if (argc > 0) {
        for (int i = atoi(argv[0]); i > 0; i--) allocate(5 * MIB);
        OK(cu.cuDevicePrimaryCtxReset(0));
        return;
    }
    const CUdeviceptr live = allocate(256 * KIB), freed = allocate(128 * KIB), first = allocate(64 * KIB), second = allocate(64 * KIB),
                      ends = allocate(300 * KIB);
    const CUdeviceptr large = allocate(4 * MIB), larger = allocate(6 * MIB), kept = allocate(8 * MIB);
    OK(cu.cuMemFree(first));
    OK(cu.cuMemFree(second)); /* a magazine has it */
    OK(cu.cuMemFree(ends));
    OK(cu.cuMemFree(kept));
    close_epoch();
    finish();
    allocate(512); /* now they are free in the books */
    standin->submitted++;
    OK(cu.cuMemFree(freed));
    OK(cu.cuMemFree(larger));
    printf("%llx %llx %llx %llx\n", live - 512, large, larger, kept);
}

/* MM_POOL=small: one allocation is kept, no more. */
static void small_only(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    OK(cu.cuMemFree(allocate(KIB)));
    OK(cu.cuMemFree(allocate(KIB)));
    CHECK(standin->allocations == 1 && standin->frees == 2);
}

/* faults N: the Nth call of the driver fails; the program goes on. Prints whether there was one. */
static void faults(int argc, char **argv) {
    CUdeviceptr p[9] = {0};
    CHECK(argc == 1);
    client_start();
    standin->fail_at = atol(argv[0]), standin->fail_code = CUDA_ERROR_UNKNOWN;
    standin->armed = true;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 9; i++) {
            const size_t bytes = i % 3 ? 5000 : 3 * MIB;
            if (cu.cuMemAlloc(&p[i], bytes) != CUDA_SUCCESS) p[i] = 0;
            else memset((void *)p[i], i, 4096);
        }
        for (int i = 0; i < 9; i++)
            if (p[i]) {
                CHECK(((volatile char *)p[i])[4095] == i);
                standin->submitted++;
                if (cu.cuMemFree(p[i]) != CUDA_SUCCESS) OK(cu.cuMemFree(p[i])); /* the call failed: the memory is still the program's */
            }
        finish();
    }
    cu.cuMemAlloc(&p[0], standin->total_bytes + 1);
    standin->armed = false;
    settle();
    CHECK(driver_has() <= (standin->failed && strcmp(standin->failed, "cuMemFree_v2") == 0)); /* what the driver fails to free is lost; or it is the anchor */
    puts(standin->failed ? standin->failed : "none");
}

const struct scenario client_pool_scenarios[] = {
    {"pool-pairs", pairs},         {"pool-wrong", wrong},   {"pool-pressure", pressure}, {"pool-scarce", scarce},
    {"pool-questions", questions}, {"pool-shared", shared}, {"pool-decays", decays},     {"pool-map", map},
    {"pool-small", small_only},    {"pool-faults", faults}, {"pool-heap", heap},         {NULL, NULL},
};
