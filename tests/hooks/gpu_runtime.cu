/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The runtime API, static or shared, against libmm.so on a GPU: gpu_runtime CASE. Exit 0 if it is as it should be.
 * Compiled by plain nvcc together with gpu_module.cu's device code. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "program_check.h"
#include "gpu_module.cu"

#define OK(call)                                                                        \
    do {                                                                                \
        cudaError_t e_ = (call);                                                        \
        if (e_ != cudaSuccess) {                                                        \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(e_)); \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

static void check(const gpu_look &l) {
    CHECK(l.heap);
    CHECK(l.abi == MM_ABI_VERSION);
    CHECK(l.segments > 0);
    CHECK(l.wrong == 0);
}

static gpu_look look(cudaStream_t stream = 0) {
    gpu_look *d, l;
    OK(cudaMalloc(&d, sizeof l));
    mm_test_look<<<1, 1, 0, stream>>>(d);
    OK(cudaGetLastError());
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(&l, d, sizeof l, cudaMemcpyDeviceToHost));
    OK(cudaFree(d));
    return l;
}

static void capture(cudaStreamCaptureMode mode) {
    gpu_look *d, l;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaMalloc(&d, sizeof l));
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamBeginCapture(stream, mode));
    mm_test_look<<<1, 1, 0, stream>>>(d);
    OK(cudaGetLastError());
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 1000; i++) OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaMemcpy(&l, d, sizeof l, cudaMemcpyDeviceToHost));
    check(l);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "first";
    if (!strcmp(what, "first")) {
        gpu_look l = look();
        check(l);
        printf("heap of %.1f GiB, base %#llx\n", l.segments * (double)MM_SEGMENT_BYTES / (1 << 30), (unsigned long long)l.user_base);
    } else if (!strcmp(what, "reset")) {
        size_t before = 0, after = 0, total;
        for (int i = 0; i < 5; i++) {
            OK(cudaMemGetInfo(i ? &after : &before, &total));
            if (i) CHECK(before - after < (256u << 20) || after > before); /* nothing is left behind */
            check(look());
            OK(cudaDeviceReset());
        }
    } else if (!strcmp(what, "capture-global")) {
        capture(cudaStreamCaptureModeGlobal);
    } else if (!strcmp(what, "capture-thread")) {
        capture(cudaStreamCaptureModeThreadLocal);
    } else if (!strcmp(what, "capture-relaxed")) {
        capture(cudaStreamCaptureModeRelaxed);
    } else if (!strcmp(what, "race")) {
        std::vector<std::thread> threads;
        std::vector<gpu_look> seen(16);
        for (int i = 0; i < 16; i++) threads.emplace_back([&seen, i] { seen[i] = look(); });
        for (auto &t : threads) t.join();
        for (auto &l : seen) CHECK(l.heap == seen[0].heap && l.abi == MM_ABI_VERSION);
    } else if (!strcmp(what, "limit")) {
        size_t n = 0;
        OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1ull << 30));
        OK(cudaDeviceGetLimit(&n, cudaLimitMallocHeapSize));
        CHECK(n == 1ull << 30);
        check(look());
        printf("late SetLimit of 2 GiB: %s", cudaGetErrorName(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 2ull << 30)));
        OK(cudaDeviceGetLimit(&n, cudaLimitMallocHeapSize));
        printf(", GetLimit %zu\n", n);
        CHECK(n == 2ull << 30);
        CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1ull << 50) == cudaErrorMemoryAllocation);
        (void)cudaGetLastError();
        OK(cudaDeviceGetLimit(&n, cudaLimitMallocHeapSize));
        CHECK(n == 2ull << 30);
    } else if (!strcmp(what, "devices")) {
        int count = 0;
        OK(cudaGetDeviceCount(&count));
        std::vector<gpu_look> seen;
        for (int i = 0; i < count; i++) {
            OK(cudaSetDevice(i));
            seen.push_back(look());
            check(seen.back());
            for (int k = 0; k < i; k++) CHECK(seen[k].heap != seen[i].heap);
        }
        printf("%d devices\n", count);
    } else {
        printf("no case %s\n", what);
        return 2;
    }
    return 0;
}
