/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The driver API with libmm.so on a GPU: gpu_driver IMAGE CASE. Exits with 0 if the case passes. */
#define _GNU_SOURCE
#include "gpu_driver.h"

#include <dlfcn.h>
#include <time.h>

#include "mmconfig.h"

static const char *image;

static CUcontext primary(void) {
    CUcontext c;
    CUdevice d;
    OK(cuInit(0));
    OK(cuDeviceGet(&d, 0));
    OK(cuDevicePrimaryCtxRetain(&c, d));
    OK(cuCtxSetCurrent(c));
    return c;
}

static CUfunction function(CUmodule *module) {
    CUfunction f;
    OK(cuModuleLoadData(module, image));
    OK(cuModuleGetFunction(&f, *module, "mm_test_look"));
    return f;
}

static CUfunction kernel(CUlibrary *library) {
    CUkernel k;
    OK(cuLibraryLoadData(library, image, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&k, *library, "mm_test_look"));
    return (CUfunction)k;
}

enum how { LAUNCH, EX, COOPERATIVE, GRAPH };

static struct gpu_look look(CUfunction f, CUstream stream, enum how how) {
    struct gpu_look l;
    CUdeviceptr d;
    OK(cuMemAlloc(&d, sizeof l));
    OK(cuMemsetD8(d, 0, sizeof l));
    void *params[] = {&d};
    if (how == LAUNCH) OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    if (how == EX) {
        CUlaunchConfig c;
        memset(&c, 0, sizeof c);
        c.gridDimX = c.gridDimY = c.gridDimZ = c.blockDimX = c.blockDimY = c.blockDimZ = 1;
        c.hStream = stream;
        OK(cuLaunchKernelEx(&c, f, params, NULL));
    }
    if (how == COOPERATIVE) OK(cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params));
    if (how == GRAPH) {
        CUgraph graph;
        CUgraphNode node;
        CUgraphExec exec;
        CUDA_KERNEL_NODE_PARAMS p;
        memset(&p, 0, sizeof p);
        p.func = f;
        p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
        p.kernelParams = params;
        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &p));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, stream));
    }
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH(&l, d, sizeof l));
    OK(cuMemFree(d));
    CHECK(l.heap);
    CHECK(l.abi == MM_ABI_VERSION);
    CHECK(l.segments > 0);
    CHECK(l.wrong == 0);
    return l;
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

typedef __typeof__(&cuLaunchKernel) launcher;

/* A batch of launches, few enough that the queue never fills, each lengthened to at least `idle_ns`. Returns nanoseconds per launch. */
static double batch(launcher launch, CUfunction f, double idle_ns) {
    enum { LAUNCHES = 500 };
    OK(cuCtxSynchronize());
    const double start = now_ns();
    for (int i = 0; i < LAUNCHES; i++) {
        const double begin = idle_ns > 0 ? now_ns() : 0;
        OK(launch(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        while (idle_ns > 0 && now_ns() - begin < idle_ns) continue;
    }
    return (now_ns() - start) / LAUNCHES;
}

/* A launch through the hooks takes at most a tenth longer than one past them, by the fastest of many alternating batches: a busy machine
 * slows down some. A launch that takes a quarter longer is detected. */
static void speed(void) {
    enum { PAST, THROUGH, SLOWER, KINDS, ROUNDS = 1000 };
    CUmodule module;
    CUfunction f;
    void *(*find)(void *, const char *) = NULL;
    launcher past;
    double best[KINDS] = {1e30, 1e30, 1e30};
    primary();
    look(function(&module), NULL, LAUNCH);
    OK(cuModuleGetFunction(&f, module, "mm_test_empty"));
    *(void **)&find = dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.34"); /* past the hooks' own dlsym */
    if (!find) *(void **)&find = dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5");
    CHECK(find);
    *(void **)&past = find(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "cuLaunchKernel");
    CHECK(past && past != &cuLaunchKernel);
    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++) {
            const double took = batch(kind == PAST ? past : &cuLaunchKernel, f, kind == SLOWER ? best[PAST] * 1.25 : 0);
            if (took < best[kind]) best[kind] = took;
        }
    printf("%.1f ns more than %.1f; slower ones: %.1f", best[THROUGH] - best[PAST], best[PAST], best[SLOWER] - best[PAST]);
    CHECK(best[THROUGH] <= best[PAST] * 1.1);
    CHECK(best[SLOWER] > best[PAST] * 1.1);
}

int main(int argc, char **argv) {
    CUmodule module;
    CUlibrary library;
    CUstream stream;
    if (argc < 3) return 2;
    image = gpu_image(argv[1]);
    const char *what = argv[2];
    CUcontext first = primary();
    if (strcmp(what, "speed") == 0) {
        speed();
        return 0;
    }
    if (strcmp(what, "function") == 0) {
        look(function(&module), NULL, LAUNCH);
    } else if (strcmp(what, "kernel") == 0) {
        CUfunction k = kernel(&library), f;
        look(k, NULL, LAUNCH);
        OK(cuKernelGetFunction(&f, (CUkernel)k));
        look(f, NULL, LAUNCH);
    } else if (strcmp(what, "ways") == 0) { /* each is the first launch of its module */
        look(function(&module), NULL, EX);
        look(function(&module), NULL, COOPERATIVE);
        look(function(&module), NULL, GRAPH);
        look(kernel(&library), NULL, EX);
        look(kernel(&library), NULL, COOPERATIVE);
    } else if (strcmp(what, "contexts") == 0) {
        CUcontext second;
        CUdevice d;
        CUfunction k = kernel(&library);
        struct gpu_look one = look(k, NULL, LAUNCH), two;
        OK(cuDeviceGet(&d, 0));
        OK(cuCtxCreate(&second, NULL, 0, d));
        two = look(k, NULL, LAUNCH);
        CHECK(one.heap != two.heap && one.user_base != two.user_base);
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuStreamSynchronize(stream));
        OK(cuCtxDestroy(second));
        OK(cuCtxSetCurrent(first));
        CHECK(look(k, NULL, LAUNCH).heap == one.heap);
    } else if (strcmp(what, "foreign-stream") == 0) { /* the very first launch, into another context's stream */
        CUcontext second;
        CUdevice d;
        OK(cuDeviceGet(&d, 0));
        OK(cuCtxCreate(&second, NULL, 0, d));
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        CUfunction k = kernel(&library);
        OK(cuCtxSetCurrent(first));
        struct gpu_look l;
        CUdeviceptr p;
        OK(cuCtxSetCurrent(second));
        OK(cuMemAlloc(&p, sizeof l));
        OK(cuCtxSetCurrent(first));
        void *params[] = {&p};
        CUresult r = cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
        printf("kernel into a stream of a context that is not current: %s\n", gpu_name(r));
        OK(cuCtxSetCurrent(second));
        OK(cuStreamSynchronize(stream));
        OK(cuMemcpyDtoH(&l, p, sizeof l));
        if (r == CUDA_SUCCESS) CHECK(l.heap && l.wrong == 0);
    } else if (strcmp(what, "reset") == 0) {
        size_t before = 0, after = 0, total;
        for (int i = 0; i < 5; i++) {
            OK(cuMemGetInfo(i ? &after : &before, &total));
            if (i) CHECK(after > before || before - after < (256u << 20));
            look(function(&module), NULL, LAUNCH);
            look(kernel(&library), NULL, LAUNCH);
            OK(cuLibraryUnload(library));
            OK(cuDevicePrimaryCtxReset(0));
            OK(cuDevicePrimaryCtxRelease(0));
            primary();
        }
    } else if (strcmp(what, "unload") == 0) {
        for (int i = 0; i < 50; i++) {
            look(function(&module), NULL, LAUNCH);
            OK(cuModuleUnload(module));
            look(kernel(&library), NULL, LAUNCH);
            OK(cuLibraryUnload(library));
        }
    } else if (strcmp(what, "capture") == 0) {
        CUgraph graph;
        CUgraphExec exec;
        struct gpu_look l;
        CUdeviceptr d;
        CUfunction f = function(&module), k = kernel(&library);
        OK(cuMemAlloc(&d, sizeof l));
        void *params[] = {&d};
        OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
        OK(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        OK(cuMemcpyDtoH(&l, d, sizeof l));
        CHECK(l.heap && l.wrong == 0);
    } else {
        printf("no case %s\n", what);
        return 2;
    }
    return 0;
}
