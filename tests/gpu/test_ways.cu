/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* All ways to launch a kernel, and what processes do: the heap exists and grows. Compiled by mmnvcc like any program. `ways CASE` runs
 * a case that needs a separate process.
 */
#define MM_TEST_OUTSIDE
#include "tests/gpu/support.h"

#include <cooperative_groups.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* Each of 64 threads mallocs `bytes`, and adds 1 to *good if it could be written. */
static __device__ void work(unsigned *good, unsigned long long bytes) {
    unsigned *p = (unsigned *)malloc(bytes);
    if (!p) return;
    p[0] = threadIdx.x, p[bytes / 4 - 1] = threadIdx.x;
    if (p[0] == threadIdx.x && p[bytes / 4 - 1] == threadIdx.x) atomicAdd(good, 1);
    free(p);
}
static __global__ void kernel(unsigned *good, unsigned long long bytes) { work(good, bytes); }
static __global__ void together(unsigned *good, unsigned long long bytes) {
    cooperative_groups::this_grid().sync();
    work(good, bytes);
}

static unsigned *counter(void) {
    unsigned *good;
    CUDA_OK(cudaMalloc(&good, 4));
    CUDA_OK(cudaMemset(good, 0, 4));
    CUDA_OK(cudaDeviceSynchronize());
    return good;
}
static void good_are(unsigned *good, unsigned n) {
    unsigned is;
    KERNEL_OK();
    CUDA_OK(cudaMemcpy(&is, good, 4, cudaMemcpyDeviceToHost));
    ck_assert_uint_eq(is, n);
}

/* ---- graphs ---- */

START_TEST(captured) { /* the heap is created during stream capture; replaying the graph makes it grow */
    const cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed};
    for (int i = 0; i < 3; i++) {
        cudaStream_t stream;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CUDA_OK(cudaDeviceReset());
        unsigned *good = counter();
        CUDA_OK(cudaStreamCreate(&stream));
        CUDA_OK(cudaStreamBeginCapture(stream, modes[i]));
        kernel<<<1, 64, 0, stream>>>(good, 64);
        kernel<<<1, 64, 0, stream>>>(good, 4 * MIB);
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaStreamEndCapture(stream, &graph));
        CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
        for (int k = 0; k < 1000; k++) CUDA_OK(cudaGraphLaunch(exec, stream));
        good_are(good, 1000 * 128);
        CUDA_OK(cudaGraphExecDestroy(exec));
        CUDA_OK(cudaGraphDestroy(graph));
    }
}
END_TEST

START_TEST(explicit_nodes) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t node;
    CUDA_OK(cudaDeviceReset());
    unsigned *good = counter();
    unsigned long long bytes = 3 * MIB;
    void *parameters[] = {&good, &bytes};
    struct cudaKernelNodeParams p = {};
    p.func = (void *)kernel;
    p.gridDim = dim3(1), p.blockDim = dim3(64);
    p.kernelParams = parameters;
    CUDA_OK(cudaGraphCreate(&graph, 0));
    CUDA_OK(cudaGraphAddKernelNode(&node, graph, NULL, 0, &p));
    CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int k = 0; k < 100; k++) CUDA_OK(cudaGraphLaunch(exec, 0));
    good_are(good, 6400);
    CUDA_OK(cudaGraphExecDestroy(exec));
    CUDA_OK(cudaGraphDestroy(graph));
}
END_TEST

static __global__ void launcher(cudaGraphExec_t graph) { cudaGraphLaunch(graph, cudaStreamGraphFireAndForget); }
START_TEST(from_the_device) {
    cudaGraph_t inner, outer;
    cudaGraphExec_t inner_exec, outer_exec;
    cudaStream_t stream;
    CUDA_OK(cudaDeviceReset());
    unsigned *good = counter();
    CUDA_OK(cudaStreamCreate(&stream));
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    kernel<<<1, 64, 0, stream>>>(good, 2 * MIB);
    CUDA_OK(cudaStreamEndCapture(stream, &inner));
    CUDA_OK(cudaGraphInstantiate(&inner_exec, inner, cudaGraphInstantiateFlagDeviceLaunch));
    CUDA_OK(cudaGraphUpload(inner_exec, stream));
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    launcher<<<1, 1, 0, stream>>>(inner_exec);
    CUDA_OK(cudaStreamEndCapture(stream, &outer));
    CUDA_OK(cudaGraphInstantiate(&outer_exec, outer, 0));
    for (int k = 0; k < 50; k++) CUDA_OK(cudaGraphLaunch(outer_exec, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    good_are(good, 3200);
}
END_TEST

/* ---- launches ---- */

START_TEST(launches) {
    CUDA_OK(cudaDeviceReset());
    unsigned *good = counter();
    unsigned long long bytes = MIB;
    void *parameters[] = {&good, &bytes};
    CUDA_OK(cudaLaunchCooperativeKernel((void *)together, dim3(4), dim3(64), parameters, 0, 0));
    good_are(good, 256);
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute;
    config.gridDim = dim3(2), config.blockDim = dim3(64);
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2, attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.attrs = &attribute, config.numAttrs = 1;
    CUDA_OK(cudaLaunchKernelEx(&config, kernel, good, bytes));
    good_are(good, 384);
}
END_TEST

static void *thread_main(void *argument) {
    unsigned *good = (unsigned *)argument;
    for (int i = 0; i < 20; i++) kernel<<<1, 64>>>(good, (1 + i % 4) * MIB);
    return cudaStreamSynchronize(0) == cudaSuccess ? argument : NULL;
}
START_TEST(threads) {
    pthread_t all[16];
    CUDA_OK(cudaDeviceReset());
    unsigned *good = counter();
    for (int i = 0; i < 16; i++) ck_assert_int_eq(pthread_create(&all[i], NULL, thread_main, good), 0);
    for (int i = 0; i < 16; i++) {
        void *result;
        pthread_join(all[i], &result);
        ck_assert_ptr_nonnull(result);
    }
    good_are(good, 16 * 20 * 64);
}
END_TEST

/* ---- a library that is loaded when the heap already exists ---- */

START_TEST(plugin) {
    CUDA_OK(cudaDeviceReset());
    unsigned *good = counter();
    kernel<<<1, 64>>>(good, 100);
    good_are(good, 64);
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 20);
    ck_assert(n > 0);
    path[n] = 0;
    strcpy(strrchr(path, '/') + 1, "libplugin.so");
    void *library = dlopen(path, RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    int (*launch)(unsigned *) = (int (*)(unsigned *))dlsym(library, "plugin_launch");
    ck_assert_int_eq(launch(good), 0);
    good_are(good, 128);
    ck_assert_int_eq(dlclose(library), 0);
    kernel<<<1, 64>>>(good, 100);
    good_are(good, 192);
}
END_TEST

/* ---- resets: the heap is destroyed with its context, even if a kernel waits for memory ---- */

START_TEST(resets) {
    for (int i = 0; i < 20; i++) {
        CUDA_OK(cudaDeviceReset());
        unsigned *good = counter();
        kernel<<<1, 64>>>(good, (4ull << i % 3) * MIB);
        if (i % 2) good_are(good, 64);
    }
}
END_TEST

/* ---- several GPUs ---- */

static __global__ void grows(unsigned *good, char **keep) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    keep[i] = (char *)malloc(MIB);
    if (keep[i]) keep[i][MIB - 1] = 1, atomicAdd(good, 1);
}
static __global__ void reads(char **theirs, unsigned *good) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (theirs[i][MIB - 1] == 1) atomicAdd(good, 1);
    theirs[i][MIB - 2] = 2;
}
START_TEST(devices) {
    const unsigned n = 16384;
    unsigned *good[2], is[2];
    char **keep[2];
    double took[2];
    for (int d = 0; d < 2; d++) {
        CUDA_OK(cudaSetDevice(d));
        CUDA_OK(cudaDeviceReset());
        good[d] = counter();
        CUDA_OK(cudaMalloc(&keep[d], n * sizeof(char *)));
        kernel<<<1, 64>>>(good[d], 64);
        good_are(good[d], 64);
    }
    for (int both = 0; both < 2; both++) { /* one device alone, then both at the same time */
        const double start = host_ms();
        for (int d = 0; d <= both; d++) {
            CUDA_OK(cudaSetDevice(d));
            if (both) CUDA_OK(cudaMemset(good[d], 0, 4));
        }
        for (int d = 1 - both; d < 2; d++) {
            CUDA_OK(cudaSetDevice(d));
            grows<<<n / 256, 256>>>(good[d], keep[d]);
        }
        for (int d = 1 - both; d < 2; d++) {
            CUDA_OK(cudaSetDevice(d));
            KERNEL_OK();
        }
        took[both] = host_ms() - start;
    }
    for (int d = 0; d < 2; d++) {
        CUDA_OK(cudaSetDevice(d));
        CUDA_OK(cudaMemcpy(&is[d], good[d], 4, cudaMemcpyDeviceToHost));
        ck_assert_uint_eq(is[d], n);
    }
    printf("16 GiB on one device in %.1f ms, 16 GiB on each of two at once in %.1f ms\n", took[0], took[1]);
    /* Access to another device's objects after the program enabled it: to existing objects and to later ones. */
    int can = 0;
    CUDA_OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    printf("peer access: %s\n", can ? "yes" : "none on this machine");
    if (!can) return;
    CUDA_OK(cudaSetDevice(0));
    CUDA_OK(cudaDeviceEnablePeerAccess(1, 0));
    for (int later = 0; later < 2; later++) {
        if (later) {
            CUDA_OK(cudaSetDevice(1));
            grows<<<n / 256, 256>>>(good[1], keep[1]);
            KERNEL_OK();
            CUDA_OK(cudaSetDevice(0));
        }
        CUDA_OK(cudaMemset(good[0], 0, 4));
        reads<<<n / 256, 256>>>(keep[1], good[0]);
        good_are(good[0], n);
    }
    CUDA_OK(cudaDeviceDisablePeerAccess(1));
    CUDA_OK(cudaSetDevice(0));
}
END_TEST

/* ---- separate processes ---- */

static void die(const char *what) {
    printf("%s\n", what);
    exit(1);
}
static void works(void) {
    unsigned *good, is = 0;
    if (cudaMalloc(&good, 4) != cudaSuccess || cudaMemset(good, 0, 4) != cudaSuccess) die("no memory");
    kernel<<<1, 64>>>(good, 20 * MIB);
    if (cudaMemcpy(&is, good, 4, cudaMemcpyDeviceToHost) != cudaSuccess || is != 64) die("not served");
    cudaFree(good);
}

static void *race_main(void *argument) {
    pthread_barrier_wait((pthread_barrier_t *)argument);
    unsigned *good, is = 0;
    cudaStream_t stream;
    if (cudaStreamCreate(&stream) != cudaSuccess || cudaMallocHost(&good, 4) != cudaSuccess) die("no stream");
    *good = 0;
    kernel<<<1, 64, 0, stream>>>(good, 1000);
    if (cudaStreamSynchronize(stream) != cudaSuccess) die("the kernel failed");
    is = *(volatile unsigned *)good;
    if (is != 64) die("not served");
    return NULL;
}
static int race(void) { /* the first launches, by 16 threads at the same time */
    pthread_barrier_t start;
    pthread_t all[16];
    cudaFree(0);
    pthread_barrier_init(&start, NULL, 16);
    for (int i = 0; i < 16; i++) pthread_create(&all[i], NULL, race_main, &start);
    for (int i = 0; i < 16; i++) pthread_join(all[i], NULL);
    return 0;
}

/* The processor time of the thread "mm grower", in ns. */
static unsigned long long grower_ns(void) {
    char path[64], name[32] = "";
    unsigned long long ns = 0, found = 0;
    for (int tid = getpid(); tid < getpid() + 200; tid++) {
        snprintf(path, sizeof path, "/proc/self/task/%d/comm", tid);
        FILE *f = fopen(path, "r");
        if (!f) continue;
        if (fgets(name, sizeof name, f) && strncmp(name, "mm grower", 9) == 0) {
            snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
            FILE *s = fopen(path, "r");
            if (s && fscanf(s, "%llu", &ns) == 1) found++;
            if (s) fclose(s);
        }
        fclose(f);
    }
    if (found != 1) die("there is not one thread of that name");
    return ns;
}
static __global__ void spin(unsigned long long ns) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - start < ns);
}
static int processor_time(int seconds) {
    works();
    unsigned long long before = grower_ns();
    double start = host_ms();
    spin<<<1, 1>>>(3000000000ull);
    cudaDeviceSynchronize();
    const double running = (double)(grower_ns() - before) / ((host_ms() - start) * 1e6);
    before = grower_ns();
    start = host_ms();
    while (host_ms() - start < 3000) {
        spin<<<1, 1>>>(10000);
        cudaDeviceSynchronize();
    }
    const double launching = (double)(grower_ns() - before) / ((host_ms() - start) * 1e6);
    before = grower_ns();
    sleep((unsigned)seconds);
    const double idle_ms = (double)(grower_ns() - before) * 1e-6 * 60 / seconds;
    printf("processor time of the grower: %.2f %% of a core under a kernel of 3 s, %.2f %% while kernels are launched all the time, %.2f ms in an "
           "idle minute (of %d s)\n",
           running * 100, launching * 100, idle_ms, seconds);
    return running <= 0.02 && launching <= 0.02 && idle_ms < 20 ? 0 : 1;
}

static int forks(char **argv) { /* a forked child gets an error and does no harm; a child that execs works */
    works();
    pid_t child = fork();
    if (child == 0) {
        kernel<<<1, 64>>>(NULL, 64);
        _exit(cudaDeviceSynchronize() == cudaSuccess);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) die("the child of a fork");
    works();
    child = fork();
    if (child == 0) {
        execl(argv[0], argv[0], "works", (char *)NULL);
        _exit(99);
    }
    waitpid(child, &status, 0);
    if (status != 0) die("after exec");
    works();
    return 0;
}

/* MM_TRIM=idle: unused memory is given back automatically, and is mapped again when needed. */
static int trims(void) {
    size_t before, used, after, total;
    setenv("MM_TRIM", "idle", 1);
    works();
    works();
    cudaMemGetInfo(&used, &total);
    usleep(900000);
    cudaMemGetInfo(&after, &total);
    works();
    cudaMemGetInfo(&before, &total);
    printf("MM_TRIM=idle: %.1f GB more are free after 0.9 s without a launch\n", ((double)after - (double)used) / 1e9);
    return after > used + 500000000 && before < after ? 0 : 1;
}

/* A kernel waits for memory that will not come while the process exits. */
static __global__ void forever(char **keep) {
    for (unsigned i = 0;; i++) keep[threadIdx.x] = (char *)malloc((1ull << 33) + i);
}
static int leave(void) {
    char **keep;
    works();
    cudaMalloc(&keep, 64 * sizeof *keep);
    forever<<<1, 32>>>(keep);
    usleep(10000);
    return 0; /* exit() ends the kernel */
}

int main(int argc, char **argv) {
    if (argc > 1) {
        if (strcmp(argv[1], "race") == 0) return race();
        if (strcmp(argv[1], "time") == 0) return processor_time(argc > 2 ? atoi(argv[2]) : 60);
        if (strcmp(argv[1], "forks") == 0) return forks(argv);
        if (strcmp(argv[1], "leave") == 0) return leave();
        if (strcmp(argv[1], "trims") == 0) return trims();
        if (strcmp(argv[1], "works") == 0) return works(), 0;
        return 2;
    }
    Suite *suite = suite_create("ways");
    add_test(suite, "captured", captured);
    add_test(suite, "explicit nodes", explicit_nodes);
    add_test(suite, "from the device", from_the_device);
    add_test(suite, "launches", launches);
    add_test(suite, "threads", threads);
    add_test(suite, "plugin", plugin);
    add_test(suite, "resets", resets);
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess && count > 1) add_test(suite, "devices", devices);
    else printf("devices: not run, there is one device only\n");
    return run_suite(suite);
}
