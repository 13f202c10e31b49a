/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Prints facts about a driver that its documentation leaves open; checks nothing. Run without libmm.so:
 * gpu_probe IMAGE. Probes that might crash run in a child process each. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu_driver.h"
#include "mmconfig.h"

static const char *image;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static CUcontext start(void) {
    CUcontext c;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&c, 0));
    OK(cuCtxSetCurrent(c));
    return c;
}

static CUfunction function(CUmodule *m) {
    CUfunction f;
    OK(cuModuleLoadData(m, image));
    OK(cuModuleGetFunction(&f, *m, "mm_test_empty"));
    return f;
}

static CUkernel kernel(CUlibrary *l) {
    CUkernel k;
    OK(cuLibraryLoadData(l, image, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&k, *l, "mm_test_empty"));
    return k;
}

static CUresult launch(void *f, CUstream s) { return cuLaunchKernel((CUfunction)f, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL); }

static void wrong_handles(int n) {
    CUmodule m = NULL, m2 = NULL;
    CUlibrary l = NULL;
    CUfunction f2 = NULL;
    start();
    CUresult r;
    switch (n) {
    case 0:
        r = cuFuncGetModule(&m2, function(&m));
        printf("cuFuncGetModule(CUfunction): %s, %s module", gpu_name(r), m == m2 ? "its" : "another");
        break;
    case 1:
        r = cuFuncGetModule(&m, (CUfunction)kernel(&l));
        printf("cuFuncGetModule(CUkernel), not launched: %s, module %p", gpu_name(r), (void *)m);
        break;
    case 2: {
        CUkernel k = kernel(&l);
        OK(launch(k, NULL));
        r = cuFuncGetModule(&m, (CUfunction)k);
        OK(cuLibraryGetModule(&m2, l));
        printf("cuFuncGetModule(CUkernel), launched: %s, module %p, the library's %p", gpu_name(r), (void *)m, (void *)m2);
        break;
    }
    case 3:
        r = cuKernelGetLibrary(&l, (CUkernel)function(&m));
        printf("cuKernelGetLibrary(CUfunction): %s, library %p", gpu_name(r), (void *)l);
        break;
    case 4:
        r = cuKernelGetFunction(&f2, (CUkernel)function(&m));
        printf("cuKernelGetFunction(CUfunction): %s", gpu_name(r));
        break;
    case 5: {
        CUkernel k = kernel(&l);
        OK(cuKernelGetFunction(&f2, k));
        r = cuFuncGetModule(&m, f2);
        OK(cuLibraryGetModule(&m2, l));
        printf("cuFuncGetModule(cuKernelGetFunction(k)): %s, %s; handles %s", gpu_name(r), m == m2 ? "the library's module" : "another module",
               (void *)k == (void *)f2 ? "equal" : "differ");
        break;
    }
    default: break;
    }
    printf("\n");
}

static void globals(void) {
    CUlibrary l;
    CUmodule m;
    CUdeviceptr a = 0, b = 0, c = 0, d = 0;
    size_t n = 0;
    CUcontext first = start(), second;
    CUkernel k = kernel(&l);
    printf("cuLibraryGetGlobal before the first launch: %s", gpu_name(cuLibraryGetGlobal(&a, &n, l, MM_HEAP_REF_NAME)));
    OK(launch(k, NULL));
    printf(", after: %s, %s address, %zu bytes", gpu_name(cuLibraryGetGlobal(&b, &n, l, MM_HEAP_REF_NAME)), a == b ? "same" : "other", n);
    OK(cuLibraryGetModule(&m, l));
    printf("; of its module: %s, %s address\n", gpu_name(cuModuleGetGlobal(&c, &n, m, MM_HEAP_REF_NAME)), a == c ? "same" : "other");
    printf("unknown name: library %s, module %s\n", gpu_name(cuLibraryGetGlobal(&d, &n, l, "nosuch")), gpu_name(cuModuleGetGlobal(&d, &n, m, "nosuch")));
    OK(cuCtxCreate(&second, NULL, 0, 0));
    OK(cuLibraryGetGlobal(&d, &n, l, MM_HEAP_REF_NAME));
    printf("in a second context of the device: %s address\n", a == d ? "SAME" : "another");
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuCtxSetCurrent(first));
    printf("CUkernel into a stream of a context that is not current: %s\n", gpu_name(launch(k, s)));
    OK(cuCtxDestroy(second));
}

static void limits(void) {
    CUmodule m;
    size_t v = 0;
    start();
    OK(cuCtxGetLimit(&v, CU_LIMIT_MALLOC_HEAP_SIZE));
    printf("malloc heap limit at first %zu", v);
    printf(", set 1 GiB: %s", gpu_name(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1ull << 30)));
    OK(launch(function(&m), NULL));
    OK(cuCtxSynchronize());
    printf(", after a launch set 2 GiB: %s", gpu_name(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2ull << 30)));
    printf(", set 1 TiB: %s", gpu_name(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1ull << 40)));
    OK(cuCtxGetLimit(&v, CU_LIMIT_MALLOC_HEAP_SIZE));
    printf(", limit %zu\n", v);
}

static void pointers(void) {
    static const char *const names[] = {"cuLaunchKernel", "cuLaunchKernelEx", "cuCtxSetLimit", "cuLibraryGetKernel", "cuGetProcAddress"};
    void *h = dlopen("libcuda.so.1", RTLD_NOW);
    OK(cuInit(0));
    for (int i = 0; i < 5; i++) {
        void *p = NULL, *q = NULL;
        OK(cuGetProcAddress(names[i], &p, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));
        OK(cuGetProcAddress(names[i], &q, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
        printf("%s: cuGetProcAddress %s dlsym; per thread %s\n", names[i], p == dlsym(h, names[i]) ? "==" : "!=", p == q ? "the same" : "another");
    }
    void *p = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    CUresult r = cuGetProcAddress("cuLaunchKernel_ptsz", &p, 13000, 0, &status);
    printf("cuGetProcAddress(\"cuLaunchKernel_ptsz\"): %s, %s, status %d\n", gpu_name(r), p ? "found" : "NULL", (int)status);
}

#define COST(name, n, call)                                   \
    do {                                                      \
        double t_ = now_ns();                                 \
        for (int i_ = 0; i_ < (n); i_++) OK(call);            \
        printf("%s: %.0f ns\n", name, (now_ns() - t_) / (n)); \
    } while (0)

static CUresult make_stream(void) {
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return cuStreamDestroy(s);
}

static CUresult copy_variable(CUdeviceptr from, CUstream s) {
    char buffer[MM_HEAP_REF_BYTES];
    OK(cuMemcpyDtoHAsync(buffer, from, sizeof buffer, s));
    return cuStreamSynchronize(s);
}

static void costs(void) {
    CUcontext got;
    CUstream s;
    CUlibrary l;
    CUdeviceptr v;
    size_t n;
    start();
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CUkernel k = kernel(&l);
    OK(launch(k, NULL));
    COST("cuCtxGetCurrent", 1000000, cuCtxGetCurrent(&got));
    COST("cuStreamGetCtx of a stream", 1000000, cuStreamGetCtx(s, &got));
    COST("cuStreamGetCtx of NULL", 1000000, cuStreamGetCtx(NULL, &got));
    COST("cuLibraryGetGlobal", 10000, cuLibraryGetGlobal(&v, &n, l, MM_HEAP_REF_NAME));
    COST("cuStreamCreate + cuStreamDestroy", 1000, make_stream());
    COST("cuMemcpyDtoHAsync of the variable + synchronize", 1000, copy_variable(v, s));
    COST("cuMemGetInfo", 1000, cuMemGetInfo(&n, &n));
}

static void capture(void) {
    CUstream s, side;
    CUgraph g;
    CUcontext got;
    CUdeviceptr p;
    CUlibrary l;
    size_t n;
    start();
    CUkernel k = kernel(&l);
    OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    printf("while capturing (global): cuStreamGetCtx %s", gpu_name(cuStreamGetCtx(s, &got)));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    printf(", relaxed: cuMemAlloc %s", gpu_name(cuMemAlloc(&p, 64)));
    printf(", cuLibraryGetGlobal %s", gpu_name(cuLibraryGetGlobal(&p, &n, l, MM_HEAP_REF_NAME)));
    printf(", cuStreamCreate %s", gpu_name(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING)));
    printf(", cuMemsetD8Async %s", gpu_name(cuMemsetD8Async(p, 0, 64, side)));
    printf(", cuStreamSynchronize %s", gpu_name(cuStreamSynchronize(side)));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    printf(", launch %s", gpu_name(launch(k, s)));
    printf(", cuStreamEndCapture %s\n", gpu_name(cuStreamEndCapture(s, &g)));
}

static void memory(int drop_first) {
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    CUmemGenericAllocationHandle h;
    CUdeviceptr base = 0;
    size_t page = 0, total, free0, free1, free2;
    const size_t bytes = 4ull << 30;
    start();
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memset(&access, 0, sizeof access);
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    OK(cuMemGetAllocationGranularity(&page, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuDeviceTotalMem(&total, 0));
    OK(cuMemGetInfo(&free0, &total));
    double t = now_ns();
    CUresult r = cuMemAddressReserve(&base, total >> 22 << 22, 1ull << 30, 0, 0);
    printf("granularity %zu; reserve the whole device, 1 GiB aligned: %s, %#llx, %.0f us", page, gpu_name(r), base, (now_ns() - t) / 1e3);
    CUdeviceptr probe = 0;
    r = cuMemAddressReserve(&probe, 1ull << 22, 1ull << 36, 0, 0);
    printf("; 64 GiB aligned: %s, %#llx\n", gpu_name(r), probe);
    t = now_ns();
    OK(cuMemCreate(&h, bytes, &prop, 0));
    OK(cuMemMap(base, bytes, 0, h, 0));
    OK(cuMemRelease(h)); /* before cuMemSetAccess */
    OK(cuMemSetAccess(base, bytes, &access, 1));
    printf("4 GiB created, mapped, released, made accessible: %.0f us\n", (now_ns() - t) / 1e3);
    unsigned char *seen = malloc(64u << 20);
    size_t nonzero = 0;
    OK(cuMemcpyDtoH(seen, base, 64u << 20));
    for (size_t i = 0; i < 64u << 20; i++) nonzero += seen[i] != 0;
    printf("non-zero bytes in 64 MiB of fresh memory: %zu\n", nonzero);
    OK(cuMemGetInfo(&free1, &total));
    if (drop_first) printf("unmap before the reset: %s\n", gpu_name(cuMemUnmap(base, bytes)));
    OK(cuDevicePrimaryCtxReset(0));
    if (!drop_first) printf("after cuDevicePrimaryCtxReset: cuMemUnmap %s", gpu_name(cuMemUnmap(base, bytes)));
    printf("; cuMemAddressFree %s", gpu_name(cuMemAddressFree(base, total >> 22 << 22)));
    CUcontext c;
    OK(cuDevicePrimaryCtxRetain(&c, 0));
    OK(cuCtxSetCurrent(c));
    OK(cuMemGetInfo(&free2, &total));
    printf("; free MiB before %zu, mapped %zu, after %zu\n", free0 >> 20, free1 >> 20, free2 >> 20);
}

static void reset_without_unmap(void) {
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle h;
    CUdeviceptr base = 0;
    size_t total, free0, free1;
    start();
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuMemGetInfo(&free0, &total));
    OK(cuMemAddressReserve(&base, 4ull << 30, 0, 0, 0));
    OK(cuMemCreate(&h, 4ull << 30, &prop, 0));
    OK(cuMemMap(base, 4ull << 30, 0, h, 0));
    OK(cuMemRelease(h));
    OK(cuDevicePrimaryCtxReset(0));
    start();
    OK(cuMemGetInfo(&free1, &total));
    printf("a 4 GiB mapping across a reset, not unmapped: %zu MiB less free\n", (free0 - free1) >> 20);
}

static void in_child(void (*run)(int), int n) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run(n);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) printf("case %d died of signal %d\n", n, WTERMSIG(status));
}

static void part(int n) {
    switch (n) {
    case 0: globals(); break;
    case 1: limits(); break;
    case 2: pointers(); break;
    case 3: costs(); break;
    case 4: capture(); break;
    case 5: memory(0); break;
    case 6: memory(1); break;
    case 7: reset_without_unmap(); break;
    default: break;
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    image = gpu_image(argv[1]);
    for (int i = 0; i < 6; i++) in_child(wrong_handles, i);
    for (int i = 0; i < 8; i++) in_child(part, i);
    return 0;
}
