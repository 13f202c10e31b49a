/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of trimming: for a program that needs memory, or when nothing runs. */
#include "client_work.h"

#include <pthread.h>
#include <unistd.h>

#include "runtime/heap.h"

/* Nothing is unmapped while the device is full, and nothing is lost. */
static void full(int argc, char **argv) {
    (void)argc, (void)argv;
    CUdeviceptr large;
    work_begin();
    work_start(MIB, 4 * GIB / WORK_THREADS);
    work_join();
    CHECK(work_nulls() == 0);
    work_release();
    standin->full = true;
    const double start = work_now_ms();
    CHECK(cu.cuMemAlloc(&large, 7 * GIB) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(work_now_ms() - start < 2000);
    standin->full = false;
    OK(cu.cuMemAlloc(&large, 7 * GIB));
    OK(cu.cuMemFree(large));
    work_leaves_nothing();
}

/* Memory is unmapped and mapped while a "kernel" allocates, frees and asks for growth. */
static int stop;
static unsigned long long churn_nulls;
static void *churn(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        void **p[8];
        for (int i = 0; i < 8; i++) {
            seed = seed * 1664525u + 1013904223u;
            p[i] = (void **)mm_heap_malloc(&work_ref, 16u << (seed >> 24) % 16);
            if (p[i]) p[i][0] = p[i];
        }
        for (int i = 0; i < 8; i++) {
            if (!p[i]) __atomic_add_fetch(&churn_nulls, 1, __ATOMIC_RELAXED);
            CHECK(!p[i] || p[i][0] == p[i]);
            mm_heap_free(&work_ref, p[i]);
        }
    }
    return NULL;
}
static void pressure(int argc, char **argv) {
    (void)argc, (void)argv;
    CUdeviceptr large;
    pthread_t threads[WORK_THREADS];
    work_begin();
    work_start(0, 4 * GIB / WORK_THREADS);
    work_join();
    work_release();
    standin->slow_allocations = true; /* enough time for libmm.so's thread to map again what was unmapped */
    for (int i = 0; i < WORK_THREADS; i++) CHECK(pthread_create(&threads[i], NULL, churn, (void *)(size_t)(i + 1)) == 0);
    for (int i = 0; i < 30; i++) {
        OK(cu.cuMemAlloc(&large, 5 * GIB));
        usleep(5000);
        OK(cu.cuMemFree(large));
    }
    stop = 1;
    for (int i = 0; i < WORK_THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(work_nulls() == 0 && churn_nulls == 0);
    work_leaves_nothing();
}

/* As programs for CUDA 11 do. */
static void instantiate_by(const char *symbol) {
    CUresult (*instantiate)(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
    CUgraphExec exec;
    CUgraphNode failed;
    char log[7];
    *(void **)&instantiate = dlsym(libcuda, symbol);
    OK(instantiate(&exec, NULL, &failed, log, sizeof log));
}

/* Calls that need device memory get the heap's unused memory. */
static void others(int argc, char **argv) {
    (void)argc, (void)argv;
    CUmodule module;
    CUlibrary library, second;
    CUgraphExec exec;
    work_begin();
    CUfunction f = client_kernel("mm", &library);
    const CUfunction k = client_kernel("mm", &second);
    for (int i = 0; i < 9; i++) {
        standin->code_bytes = 0;
        work_start(MIB, 4 * GIB / WORK_THREADS);
        work_join();
        CHECK(work_nulls() == 0);
        work_release();
        CHECK(standin->free_bytes < 4 * GIB);
        standin->code_bytes = 7 * GIB;
        if (i == 0) OK(cu.cuModuleLoadData(&module, "plain"));
        if (i == 1) OK(cu.cuLibraryGetModule(&module, library));
        if (i == 2) OK(cu.cuGraphInstantiateWithFlags(&exec, NULL, 0));
        if (i == 3) OK(cu.cuGraphUpload(NULL, NULL));
        if (i == 4) OK(cu.cuGraphLaunch(NULL, NULL));
        if (i == 5) OK(cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
        if (i == 6) OK(client_launch(k, NULL)); /* its module is loaded when libmm.so queries it */
        if (i == 7) instantiate_by("cuGraphInstantiate");
        if (i == 8) instantiate_by("cuGraphInstantiate_v2");
        CHECK(standin->free_bytes >= 7 * GIB);
    }
    CHECK(standin->launches_without_heap == 0 && standin->launches_with_variable == 2);
    standin->code_bytes = 9 * GIB; /* more than the device has */
    CHECK(cu.cuModuleLoadData(&module, "plain") == CUDA_ERROR_OUT_OF_MEMORY);
    (void)f;
    standin->code_bytes = 0;
    work_leaves_nothing();
}

/* MM_TRIM=idle: a launch of a graph counts as a launch, after which the heap is trimmed once more. */
static void graph(int argc, char **argv) {
    (void)argc, (void)argv;
    work_begin();
    for (long round = 0; round < 3; round++) {
        if (round) OK(cu.cuGraphLaunch(NULL, NULL));
        for (int i = 0; i < 500 && __atomic_load_n(&standin->retires, __ATOMIC_RELAXED) == round; i++) usleep(20000);
        CHECK(__atomic_load_n(&standin->retires, __ATOMIC_RELAXED) == round + 1);
    }
    work_leaves_nothing();
}

/* MM_TRIM=idle: memory is unmapped automatically. */
static void idle(int argc, char **argv) {
    (void)argc, (void)argv;
    work_begin();
    work_start(0, 4 * GIB / WORK_THREADS);
    work_join();
    work_release();
    for (int i = 0; i < 3000 && work_heap_mapped() != 0; i++) usleep(20000);
    CHECK(work_heap_mapped() == 0);
    work_start(0, GIB / WORK_THREADS);
    work_join();
    CHECK(work_nulls() == 0);
    work_release();
    work_leaves_nothing();
}

/* MM_TRIM=1: memory is unmapped after a second, except the heap's initial size. */
static void decay(int argc, char **argv) {
    (void)argc, (void)argv;
    CUresult (*synchronize)(CUcontext) = NULL; /* CUDA 13's variant, which some ways of reaching the driver find */
    *(void **)&synchronize = (void *)cu.cuCtxSynchronize;
    work_begin();
    const unsigned long long began = work_heap_mapped();
    OK(synchronize(NULL)); /* loads the module for trimming */
    for (int round = 0; round < 2; round++) {
        work_start(0, 4 * GIB / WORK_THREADS);
        work_join();
        CHECK(work_nulls() == 0 && work_heap_mapped() > began);
        work_release();
        for (int i = 0; i < 3000 && work_heap_mapped() > began; i++) usleep(20000);
        CHECK(work_heap_mapped() == began);
    }
    work_leaves_nothing();
}

/* MM_TRIM=off: nothing is ever unmapped. */
static void kept(int argc, char **argv) {
    (void)argc, (void)argv;
    CUdeviceptr large;
    work_begin();
    work_start(0, 4 * GIB / WORK_THREADS);
    work_join();
    work_release();
    const unsigned long long most = work_heap_mapped();
    CHECK(cu.cuMemAlloc(&large, 7 * GIB) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(work_heap_mapped() == most && standin->retires == 0);
    work_leaves_nothing();
}

const struct scenario client_back_scenarios[] = {
    {"full", full}, {"pressure", pressure}, {"others", others}, {"graph", graph}, {"idle", idle}, {"decay", decay}, {"kept", kept}, {NULL, NULL},
};
