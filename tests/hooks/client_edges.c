/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of failures and single edge cases. */
#include "client.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Heap size under MM_HEAP_SIZE, in segments; -1: no heap. argv: free bytes, virtual memory management (0
 * or 1), largest reservation, largest piece of memory, a driver function that fails. */
static void size(int argc, char **argv) {
    if (argc > 0) standin->free_bytes = strtoull(argv[0], NULL, 0);
    if (argc > 1) standin->vmm = argv[1][0] == '1';
    if (argc > 2) {
        standin->reserve_limit = true;
        standin->limit_bytes = strtoull(argv[2], NULL, 0);
    }
    if (argc > 3) standin->piece_bytes = strtoull(argv[3], NULL, 0);
    if (argc > 4) standin->fail_name = argv[4], standin->fail_code = CUDA_ERROR_OUT_OF_MEMORY, standin->armed = true;
    client_start();
    OK(client_launch(client_function("mm"), NULL));
    printf("%lld\n", standin->last_ref.heap ? (long long)client_heap_segments(&standin->last_ref) : -1ll);
}

static void answers(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    CUfunction f = client_function("mm");
    standin->launch_code = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    CHECK(client_launch(f, NULL) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CHECK(client_launch(f, NULL) == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    standin->launch_code = 0;
    CHECK(client_launch(NULL, NULL) == CUDA_ERROR_INVALID_HANDLE);
    OK(cu.cuCtxSetCurrent(NULL));
    CHECK(client_launch(f, NULL) == CUDA_ERROR_INVALID_CONTEXT);
    standin->deinitialized = true;
    CHECK(cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_DEINITIALIZED);
    CHECK(cu.cuDevicePrimaryCtxReset(0) == CUDA_ERROR_DEINITIALIZED);
}

/* Handles that the program got past the hooks. */
static void unknown(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    __typeof__(&cuModuleGetFunction) get_function;
    __typeof__(&cuLibraryGetKernel) get_kernel;
    *(void **)&get_function = client_past_hooks("cuModuleGetFunction");
    *(void **)&get_kernel = client_past_hooks("cuLibraryGetKernel");
    CHECK((void *)get_function != (void *)cu.cuModuleGetFunction);
    CUmodule module;
    CUlibrary library;
    CUfunction f;
    CUkernel k;
    /* frees handles that are reused for objects of another kind */
    client_kernel("plain", &library);
    OK(cu.cuLibraryUnload(library));
    for (int round = 1; round <= 2; round++) {
        OK(cu.cuModuleLoadData(&module, "mm"));
        OK(get_function(&f, module, "kernel"));
        OK(client_launch(f, NULL));
        OK(cu.cuLibraryLoadData(&library, "mm", NULL, NULL, 0, NULL, NULL, 0));
        OK(get_kernel(&k, library, "kernel"));
        OK(client_launch((CUfunction)k, NULL));
        OK(cu.cuModuleUnload(module));
        OK(cu.cuLibraryUnload(library));
        CHECK(standin->launches_with_variable == 2 * round && standin->launches_without_heap == 0);
    }
}

static void fork_child(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    CUfunction f = client_function("mm");
    OK(client_launch(f, NULL));
    long creates = standin->creates, queries = standin->global_queries;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        client_launch(f, NULL);
        client_launch(client_function("mm"), NULL);
        CHECK(standin->creates == creates && standin->global_queries == queries);
        OK(cu.cuDevicePrimaryCtxReset(0));
        CHECK(standin->reservations == 2); /* the child must not unmap the parent's heap */
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(client_launch(f, NULL));
    client_heap_segments(&standin->last_ref);
}

/* Fork before the first use of the driver: the child works like any process. */
static void fork_first(int argc, char **argv) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) size(argc, argv);
    int status = 0;
    if (child) CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void lookups(int argc, char **argv) {
    (void)argc, (void)argv;
    typedef CUresult get_v2(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    get_v2 *get, *real;
    *(void **)&get = dlsym(libcuda, "cuGetProcAddress_v2");
    *(void **)&real = client_past_hooks("cuGetProcAddress_v2");
    CHECK(get != real);
    void *p = (void *)1, *q = (void *)1;
    CHECK(get(NULL, &p, 13000, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(get("cuLaunchKernel", NULL, 13000, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
    OK(get("cuNoSuchThing", &p, 13000, 0, NULL));
    CHECK(p == NULL);
    OK(get("cuLaunchCooperativeKernelMultiDevice", &p, 13000, 0, NULL)); /* hooked, but not in this driver */
    CHECK(p == NULL);
    CHECK(get("cuLaunchKernel", &p, 99000, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
    OK(get("cuMemGetInfo", &p, 13000, 0, NULL));
    /* variants are distinguished: legacy, per thread; old and new; newer than the hooks know */
    void *legacy, *per_thread, *v1, *v2, *later, *later_real;
    OK(get("cuLaunchKernel", &legacy, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));
    OK(get("cuLaunchKernel", &per_thread, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    CHECK(legacy != per_thread);
    CHECK(legacy == dlsym(libcuda, "cuLaunchKernel") && per_thread == dlsym(libcuda, "cuLaunchKernel_ptsz"));
    OK(get("cuLaunchKernel", &p, 6000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    CHECK(p == legacy);
    OK(get("cuGraphAddKernelNode", &v1, 11040, 0, NULL));
    OK(get("cuGraphAddKernelNode", &v2, 13000, 0, NULL));
    CHECK(v1 == dlsym(libcuda, "cuGraphAddKernelNode") && v2 == dlsym(libcuda, "cuGraphAddKernelNode_v2"));
    CHECK(v1 != v2);
    static const char *const links[] = {"cuLinkAddData", "cuLinkAddFile"};
    for (int i = 0; i < 2; i++) {
        char second[32];
        snprintf(second, sizeof second, "%s_v2", links[i]);
        OK(get(links[i], &v1, 6000, 0, NULL));
        OK(get(links[i], &v2, 13000, 0, NULL));
        CHECK(v1 != v2 && v1 == dlsym(libcuda, links[i]) && v2 == dlsym(libcuda, second) && v1 != client_past_hooks(links[i]));
    }
    OK(get("cuGraphInstantiate", &v1, 10000, 0, NULL));
    OK(get("cuGraphInstantiate", &v2, 11080, 0, NULL));
    OK(get("cuGraphInstantiate", &later, 13000, 0, NULL)); /* not known to have either's parameters */
    OK(real("cuGraphInstantiate", &later_real, 13000, 0, NULL));
    CHECK(v1 == dlsym(libcuda, "cuGraphInstantiate") && v1 != client_past_hooks("cuGraphInstantiate"));
    CHECK(v2 == dlsym(libcuda, "cuGraphInstantiate_v2") && v2 != client_past_hooks("cuGraphInstantiate_v2"));
    CHECK(v1 != v2 && later == later_real && later != v2);
    OK(get("cuGraphAddNode", &p, 13000, 0, NULL));
    OK(get("cuGraphAddNode", &later, 13010, 0, NULL));
    OK(real("cuGraphAddNode", &later_real, 13010, 0, NULL));
    CHECK(later == later_real && later != p);
    OK(get("cuLaunchKernel", &p, 13010, 0, NULL)); /* newer program, same function: ours */
    CHECK(p == legacy);
    OK(get("cuLaunchKernel", &p, 3000, 0, NULL)); /* before it existed */
    CHECK(p == NULL);
    OK(get("cuGetProcAddress", &p, 12000, 0, NULL));
    CHECK(p == (void *)get);
    OK(get("cuGetProcAddress", &p, 11040, 0, NULL));
    CHECK(p == dlsym(libcuda, "cuGetProcAddress"));
    /* dlsym: other names, other handles, errors */
    (void)q;
    CHECK(dlsym(libcuda, "cuNoSuchThing") == NULL);
    CHECK(dlerror() != NULL && dlerror() == NULL);
    CHECK(dlsym(libcuda, "cuLaunchKernel") && dlerror() == NULL);
    CHECK(dlsym(libcuda, "cuda") == NULL && dlsym(libcuda, "c") == NULL && dlsym(libcuda, "") == NULL);
    CHECK(dlsym(libcuda, "standin_get") != NULL);
    void *self = dlopen(NULL, RTLD_NOW);
    CHECK(dlsym(self, "malloc") == (void *)malloc);
    void *mock = dlopen("libmock.so", RTLD_NOW); /* has a cuLaunchKernel of its own */
    CHECK(mock);
    int (*mocked)(void) = NULL;
    *(void **)&mocked = dlsym(mock, "cuLaunchKernel");
    CHECK(mocked && mocked() == 4711);
    *(void **)&mocked = dlsym(mock, "cuLaunchGridAsync");
    CHECK(mocked && mocked() == 4712 && dlerror() == NULL);
    void *next = dlsym(RTLD_NEXT, "malloc");
    CHECK(next == (void *)malloc);
}

/* mmhook.o whose libmm.so is missing. */
static void orphan(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    OK(client_launch(client_function("mm"), NULL));
    CHECK(standin->launches_without_heap == 1 && standin->reservations == 0);
    CHECK((void *)cu.cuLaunchKernel == client_past_hooks("cuLaunchKernel"));
    CHECK(dlerror() == NULL);
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* without the processor time of others */
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Additional cost of launching a known kernel through the hook, among a thousand kernels. */
static void cost(int argc, char **argv) {
    (void)argc, (void)argv;
    enum { KERNELS = 1000, LAUNCHES = 50000 };
    static CUfunction kernels[KERNELS];
    __typeof__(&cuLaunchKernel) direct;
    *(void **)&direct = client_past_hooks("cuLaunchKernel");
    client_start();
    for (int i = 0; i < KERNELS; i++) OK(client_launch(kernels[i] = client_kernel("plain", NULL), NULL));
    standin->launches_do_nothing = true;
    double best[2] = {1e30, 1e30};
    for (int round = 0; round < 100; round++) {
        __typeof__(&cuLaunchKernel) launch = round % 2 ? cu.cuLaunchKernel : direct;
        double start = now_ns();
        for (int i = 0; i < LAUNCHES; i++) launch(kernels[i % KERNELS], 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        double took = (now_ns() - start) / LAUNCHES;
        if (took < best[round % 2]) best[round % 2] = took;
    }
    printf("launch of a known kernel through the hook: %.0f ns more than without\n", best[1] - best[0]);
    CHECK(best[1] - best[0] < 100);
}

/* Modules and libraries of another version of mm are launched unchanged. */
static void other_version(int argc, char **argv) {
    CHECK(argc == 1);
    client_start();
    for (int i = 0; i < 3; i++) OK(client_launch(client_kernel(argv[0], NULL), NULL));
    for (int i = 0; i < 3; i++) OK(client_launch(client_function(argv[0]), NULL));
    CHECK(standin->launches == 6 && standin->reservations == 0);
    OK(client_launch(client_kernel("mm", NULL), NULL)); /* ours still gets a heap */
    CHECK(standin->launches_with_variable == 1 && standin->launches_without_heap == 0);
}

/* A module without a heap variable is queried for other versions' variables once, whichever kernels are launched, in any order. */
static void other_version_once(int argc, char **argv) {
    (void)argc, (void)argv;
    CUlibrary libraries[2];
    CUmodule modules[2];
    CUkernel kernel;
    CUfunction function;
    client_start();
    for (int i = 0; i < 2; i++) {
        client_kernel("plain", &libraries[i]);
        OK(cu.cuModuleLoadData(&modules[i], "plain"));
    }
    long once = 0;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 2; i++) {
            OK(cu.cuLibraryGetKernel(&kernel, libraries[i], "kernel"));
            OK(client_launch((CUfunction)kernel, NULL));
            if (!once) once = standin->other_queries;
            OK(cu.cuModuleGetFunction(&function, modules[i], "kernel"));
            OK(client_launch(function, NULL));
        }
    CHECK(once > 0 && standin->other_queries == 4 * once);
    OK(cu.cuModuleUnload(modules[0])); /* another module takes its handle */
    OK(client_launch(client_function("plain"), NULL));
    CHECK(standin->other_queries == 5 * once);
}

const struct scenario client_edge_scenarios[] = {
    {"other-version", other_version},
    {"other-version-once", other_version_once},
    {"size", size},
    {"answers", answers},
    {"unknown", unknown},
    {"fork", fork_child},
    {"fork-first", fork_first},
    {"lookups", lookups},
    {"orphan", orphan},
    {"cost", cost},
    {NULL, NULL},
};
