/* A heap that grows while kernels run, gives memory back, and goes with its context, as a program gets it: compiled by mmnvcc, no
 * variable set. Each test begins with a fresh heap (cudaDeviceReset).
 */
#define MM_TEST_OUTSIDE
#include "tests/gpu/support.h"

#include <cuda.h>
#include <time.h>

#include "mmconfig.h"

#define GB 1000000000ull
#define MIB (1ull << 20)
#define GIB (1ull << 30)

static __device__ unsigned thread_index(void) { return blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ unsigned long long now_ns(void) {
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}
static double host_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* What kernels report; in memory of the host. */
struct report {
    unsigned long long nulls, wrong, longest_ns, bytes;
    volatile unsigned go, began;
};
static struct report *report_make(void) {
    struct report *r;
    CUDA_OK(cudaHostAlloc(&r, sizeof *r, cudaHostAllocMapped));
    memset((void *)r, 0, sizeof *r);
    return r;
}
static void report_good(struct report *r, const char *what) {
    ck_assert_msg(r->nulls == 0 && r->wrong == 0, "%s: %llu NULLs, %llu wrong", what, r->nulls, r->wrong);
}

/* Thread i's object; its first and last word are kept in the object. */
static __device__ void write_ends(unsigned long long *p, unsigned long long bytes, unsigned long long key) {
    p[0] = bytes ^ key << 40;
    p[bytes / 8 - 1] ^= p[bytes / 8 - 1] ^ (bytes ^ key << 40);
}
static __device__ int ends_are(const unsigned long long *p, unsigned long long bytes, unsigned long long key) {
    return p[0] == (bytes ^ key << 40) && p[bytes / 8 - 1] == (bytes ^ key << 40);
}

/* After `wait_ns`, each of n threads mallocs `bytes`. */
static __global__ void make(unsigned long long **p, unsigned n, unsigned long long bytes, unsigned long long wait_ns, struct report *r) {
    const unsigned i = thread_index();
    if (i >= n) return;
    r->began = 1;
    const unsigned long long start = now_ns();
    while (now_ns() - start < wait_ns) __nanosleep(1000);
    const unsigned long long before = now_ns();
    p[i] = (unsigned long long *)malloc(bytes);
    const unsigned long long took = now_ns() - before;
    atomicMax(&r->longest_ns, took);
    if (p[i]) write_ends(p[i], bytes, i);
    else atomicAdd_system(&r->nulls, 1ull);
}
static __global__ void unmake(unsigned long long **p, unsigned n, unsigned long long bytes, struct report *r) {
    const unsigned i = thread_index();
    if (i >= n) return;
    if (p[i] && !ends_are(p[i], bytes, i)) atomicAdd_system(&r->wrong, 1ull);
    free(p[i]);
}
static __global__ void nothing(void) {}

static unsigned ctas(unsigned n) { return (n + 255) / 256; }
static size_t free_memory(void) {
    size_t free_bytes, total;
    CUDA_OK(cudaMemGetInfo(&free_bytes, &total));
    return free_bytes;
}
static size_t total_memory(void) {
    size_t free_bytes, total;
    CUDA_OK(cudaMemGetInfo(&free_bytes, &total));
    return total;
}
static void fresh(void) { CUDA_OK(cudaDeviceReset()); }

/* ---- what it costs to have a heap ---- */

/* In an image of its own, by nvcc: a kernel with an assertion, for which CUDA takes some 97 MB of local memory, once. */
void plain_launch(void);

START_TEST(idle) {
    fresh();
    struct report *r = report_make();
    unsigned long long **p;
    CUDA_OK(cudaMalloc(&p, 1024 * sizeof *p));
    size_t before = free_memory();
    plain_launch();
    KERNEL_OK();
    printf("idle: an assertion takes %.1f MB, with or without mm;", (double)(before - free_memory()) / 1e6);
    before = free_memory();
    double start = host_ms();
    make<<<1, 1>>>(p, 1, 64, 0, r);
    const double first = host_ms() - start;
    KERNEL_OK();
    const size_t after = free_memory();
    printf(" a heap %.1f MB, the program's own image included; the first launch took %.2f ms\n",
           (double)(before - after) / 1e6, first);
    report_good(r, "idle");
    ck_assert_uint_le(before - after, 64000000);
    /* a later launch that needs memory which is not there yet */
    unsigned long long longest = 0;
    for (int i = 0; i < 5; i++) {
        r->longest_ns = 0;
        make<<<1, 32>>>(p, 32, (4 << i) * MIB, 0, r);
        KERNEL_OK();
        printf("32 lanes grow the heap by %d MiB: longest malloc %.3f ms\n", 128 << i, (double)r->longest_ns * 1e-6);
        if (r->longest_ns > longest) longest = r->longest_ns;
        unmake<<<1, 32>>>(p, 32, (4 << i) * MIB, r);
        KERNEL_OK();
    }
    report_good(r, "growing");
    ck_assert_uint_le(longest, 20000000);
}
END_TEST

/* ---- the time to the first allocation that needs memory ---- */

static __global__ void first_malloc(volatile unsigned *done, unsigned long long bytes) {
    void *p = malloc(bytes);
    *done = p ? 1 : 2;
    __threadfence_system();
    free(p);
}
START_TEST(first_allocation) {
    double worst = 0, sum = 0;
    struct report *r;
    for (int i = 0; i < 20; i++) {
        fresh();
        r = report_make();
        first_malloc<<<1, 1>>>(&r->go, 64); /* the heap is there, and CUDA has loaded the kernel */
        KERNEL_OK();
        r->go = 0;
        const struct timespec pause = {0, i % 2 ? 300000000 : 0};
        nanosleep(&pause, NULL);
        const double start = host_ms();
        first_malloc<<<1, 1>>>(&r->go, (64 + 4 * (unsigned)i) * MIB);
        while (r->go == 0) {}
        const double took = host_ms() - start;
        KERNEL_OK();
        ck_assert_uint_eq(r->go, 1);
        if (took > worst) worst = took;
        sum += took;
    }
    printf("first malloc that the heap must grow for, from the launch on: mean %.3f ms, longest %.3f ms\n", sum / 20, worst);
    ck_assert_msg(worst <= 1.0, "%.3f ms", worst);
}
END_TEST

/* ---- 64 MB to 64 GB in one kernel ---- */

START_TEST(one_kernel) {
    const unsigned n = 65536;
    unsigned long long bytes = MIB;
    while (n * bytes > total_memory() / 2) bytes /= 2;
    double took[2], best_cold = 1e9, best_warm = 1e9, worst_cold = 0;
    for (int round = 0; round < 3; round++) {
        fresh();
        struct report *r = report_make();
        unsigned long long **p;
        CUDA_OK(cudaMalloc(&p, n * sizeof *p));
        make<<<1, 1>>>(p, 1, 64, 0, r);
        KERNEL_OK();
        for (int warm = 0; warm < 2; warm++) {
            const double start = host_ms();
            make<<<ctas(n), 256>>>(p, n, bytes, 0, r);
            KERNEL_OK();
            took[warm] = host_ms() - start;
            unmake<<<ctas(n), 256>>>(p, n, bytes, r);
            KERNEL_OK();
        }
        report_good(r, "64 GB in one kernel");
        if (took[0] < best_cold) best_cold = took[0];
        if (took[0] > worst_cold) worst_cold = took[0];
        if (took[1] < best_warm) best_warm = took[1];
    }
    printf("%u objects of %.2f MiB in one kernel: %.2f to %.2f ms growing, %.2f ms when it had grown\n", n, (double)bytes / MIB, best_cold,
           worst_cold, best_warm);
    ck_assert_msg(worst_cold - best_warm <= 30.0, "%.2f ms more", worst_cold - best_warm);
}
END_TEST

/* ---- the program's own memory, and the heap's ---- */

/* Objects of 64 B to 1 MB (log-uniform) by thread i, in a list, until the CTA's share of `budget` bytes is used. */
static __global__ void fill(void **lists, unsigned long long share, struct report *r) {
    const unsigned i = thread_index();
    unsigned random = i * 2654435761u + 1;
    unsigned long long used = 0;
    void *list = NULL;
    while (used < share) {
        random = random * 1664525u + 1013904223u;
        const unsigned least = 64u << (random >> 27) % 14;
        const unsigned long long bytes = (least + (random & 0xfffffff) % least) & ~7u;
        unsigned long long *p = (unsigned long long *)malloc(bytes);
        if (!p) {
            atomicAdd_system(&r->nulls, 1ull);
            break;
        }
        p[0] = (unsigned long long)list;
        p[1] = bytes;
        p[bytes / 8 - 1] = bytes / 8 - 1 > 1 ? bytes ^ (unsigned long long)p : bytes;
        list = p;
        used += bytes;
    }
    lists[i] = list;
    atomicAdd_system(&r->bytes, used);
}
static __global__ void empty(void **lists, struct report *r) {
    unsigned long long *p = (unsigned long long *)lists[thread_index()];
    while (p) {
        unsigned long long *next = (unsigned long long *)p[0];
        const unsigned long long bytes = p[1];
        if (p[bytes / 8 - 1] != (bytes / 8 - 1 > 1 ? bytes ^ (unsigned long long)p : bytes)) atomicAdd_system(&r->wrong, 1ull);
        free(p);
        p = next;
    }
}
START_TEST(budget) {
    fresh();
    const unsigned n = 8192; /* each goes beyond its share by less than 1 MB */
    /* of an H200's 150 GB: 20, 80, 10, 90; in proportion elsewhere */
    const double unit = total_memory() >= 149 * GB ? 1e9 : (double)total_memory() / 150.2;
    struct report *r = report_make();
    void **lists, *a, *b, *c;
    CUDA_OK(cudaMalloc(&lists, n * sizeof *lists));
    CUDA_OK(cudaMalloc(&a, (size_t)(20 * unit)));
    double start = host_ms();
    fill<<<ctas(n), 256>>>(lists, (unsigned long long)(80 * unit / n), r);
    KERNEL_OK();
    printf("80 units of objects of 64 B to 1 MB: %.1f GB in %.1f ms, %.1f GB are free", (double)r->bytes / 1e9, host_ms() - start,
           (double)free_memory() / 1e9);
    report_good(r, "80 units of objects");
    CUDA_OK(cudaMalloc(&b, (size_t)(10 * unit)));
    start = host_ms();
    empty<<<ctas(n), 256>>>(lists, r);
    KERNEL_OK();
    printf(", freed in %.1f ms", host_ms() - start);
    report_good(r, "freed");
    const size_t had = free_memory();
    start = host_ms();
    CUDA_OK(cudaMalloc(&c, (size_t)(90 * unit)));
    printf("; %.1f GB were free, cudaMalloc of 90 units took %.1f ms\n", (double)had / 1e9, host_ms() - start);
    ck_assert_uint_lt(had, (size_t)(90 * unit));
    CUDA_OK(cudaMemset(c, 0x5a, (size_t)(90 * unit)));
    CUDA_OK(cudaFree(c));
    /* and again: what was given back comes back */
    fill<<<ctas(n), 256>>>(lists, (unsigned long long)(80 * unit / n), r);
    KERNEL_OK();
    report_good(r, "80 units once more");
    empty<<<ctas(n), 256>>>(lists, r);
    KERNEL_OK();
    CUDA_OK(cudaMalloc(&c, (size_t)(90 * unit)));
    report_good(r, "and freed");
    CUDA_OK(cudaFree(c));
}
END_TEST

/* ---- giving back, by other calls, beside kernels ---- */

/* So many objects of a power of two that they are about half of the device's memory. */
static unsigned long long half_bytes(unsigned n) {
    unsigned long long bytes = 64;
    while (2 * n * bytes <= total_memory() / 2) bytes *= 2;
    return bytes;
}
static void take_half(unsigned long long **p, unsigned n, struct report *r) { /* and give it up: the heap has half of the device */
    make<<<ctas(n), 256>>>(p, n, half_bytes(n), 0, r);
    unmake<<<ctas(n), 256>>>(p, n, half_bytes(n), r);
    KERNEL_OK();
    report_good(r, "half of the device");
}
START_TEST(other_calls) {
    const unsigned n = 65536;
    fresh();
    struct report *r = report_make();
    unsigned long long **p;
    void *more;
    size_t pitch;
    CUDA_OK(cudaMalloc(&p, n * sizeof *p));
    const size_t much = total_memory() / 10 * 8;
    take_half(p, n, r);
    ck_assert_uint_lt(free_memory(), much);
    CUDA_OK(cudaMallocAsync(&more, much, 0));
    CUDA_OK(cudaFreeAsync(more, 0));
    CUDA_OK(cudaDeviceSynchronize());
    cudaMemPool_t pool;
    CUDA_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CUDA_OK(cudaMemPoolTrimTo(pool, 0));
    take_half(p, n, r);
    ck_assert_uint_lt(free_memory(), much);
    CUDA_OK(cudaMallocPitch(&more, &pitch, 1 << 20, much >> 20));
    CUDA_OK(cudaFree(more));
    ck_assert_int_eq(cudaMalloc(&more, total_memory() * 2), cudaErrorMemoryAllocation); /* and goes on as ever */
    cudaGetLastError();
    take_half(p, n, r);
}
END_TEST

/* Threads that allocate, write, look and free all the time, until they are told to stop. */
static __global__ void churn(struct report *r) {
    unsigned random = thread_index() * 2654435761u + 1;
    while (!r->go) {
        unsigned long long *p[4], bytes[4];
        for (int i = 0; i < 4; i++) {
            random = random * 1664525u + 1013904223u;
            bytes[i] = (16u << (random >> 28)) & ~7u;
            p[i] = (unsigned long long *)malloc(bytes[i]);
            if (p[i]) write_ends(p[i], bytes[i], random & 0xffff);
            else atomicAdd_system(&r->nulls, 1ull);
            bytes[i] |= (unsigned long long)(random & 0xffff) << 40;
        }
        for (int i = 0; i < 4; i++) {
            if (p[i] && !ends_are(p[i], bytes[i] & 0xffffffffff, bytes[i] >> 40)) atomicAdd_system(&r->wrong, 1ull);
            free(p[i]);
        }
        atomicAdd(&r->bytes, 1ull);
    }
}
START_TEST(beside_kernels) { /* memory goes to and fro while a kernel allocates and frees */
    const unsigned n = 65536;
    fresh();
    struct report *r = report_make();
    unsigned long long **p;
    cudaStream_t stream;
    /* cudaFree would wait for the kernel; these do not */
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
    CUresult (*release)(CUmemGenericAllocationHandle);
    cudaDriverEntryPointQueryResult found;
    CUDA_OK(cudaGetDriverEntryPointByVersion("cuMemCreate", (void **)&create, 12000, cudaEnableDefault, &found));
    CUDA_OK(cudaGetDriverEntryPointByVersion("cuMemRelease", (void **)&release, 12000, cudaEnableDefault, &found));
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUDA_OK(cudaMalloc(&p, n * sizeof *p));
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    take_half(p, n, r);
    churn<<<64, 256, 0, stream>>>(r);
    CUDA_OK(cudaGetLastError());
    const size_t much = total_memory() / 10 * 6 & ~(2 * MIB - 1);
    double longest = 0;
    int served = 0;
    for (int i = 0; i < 4; i++) {
        const double start = host_ms();
        CUmemGenericAllocationHandle more;
        ck_assert_uint_lt(free_memory(), much);
        const CUresult answer = create(&more, much, &prop, 0);
        if (host_ms() - start > longest) longest = host_ms() - start;
        served += answer == CUDA_SUCCESS;
        if (answer == CUDA_SUCCESS) ck_assert_int_eq(release(more), CUDA_SUCCESS);
        make<<<ctas(n), 256, 0, cudaStreamPerThread>>>(p, n, half_bytes(n), 0, r);
        unmake<<<ctas(n), 256, 0, cudaStreamPerThread>>>(p, n, half_bytes(n), r);
        CUDA_OK(cudaStreamSynchronize(cudaStreamPerThread));
    }
    r->go = 1;
    KERNEL_OK();
    /* Live objects keep chunks: how often depends on where they happen to be. */
    printf("60 %% of the device wanted 4 times, had %d times, beside a kernel with %.1f M rounds of malloc and free: longest cuMemCreate %.1f ms\n",
           served, (double)r->bytes * 1e-6, longest);
    ck_assert_int_ge(served, 1);
    report_good(r, "to and fro");
    ck_assert_uint_gt(r->bytes, 1000);
}
END_TEST

/* All multiprocessors are full of threads that wait: nothing can be given back but what is spare. An error, soon; then it works. */
static __global__ void occupy(struct report *r) {
    r->began = 1;
    while (!r->go) __nanosleep(1000);
}
START_TEST(full_device) {
    const unsigned n = 65536;
    fresh();
    struct report *r = report_make();
    unsigned long long **p;
    void *more;
    int sms, threads, device;
    cudaStream_t stream;
    CUDA_OK(cudaGetDevice(&device));
    CUDA_OK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    CUDA_OK(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device));
    CUDA_OK(cudaMalloc(&p, n * sizeof *p));
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    take_half(p, n, r);
    r->began = 0;
    occupy<<<sms * threads / 1024, 1024, 0, stream>>>(r);
    CUDA_OK(cudaGetLastError());
    while (!r->began) {}
    const double start = host_ms();
    const cudaError_t answer = cudaMalloc(&more, total_memory() / 10 * 8);
    const double took = host_ms() - start;
    cudaGetLastError(); /* the answer's */
    r->go = 1;
    KERNEL_OK();
    printf("cudaMalloc of memory that the heap would give back, all multiprocessors full: %s after %.1f ms\n", cudaGetErrorString(answer), took);
    ck_assert_msg(took < 60000, "%.1f ms", took); /* most of it the driver's, if it has memory to clear (docs/notes/growing.md) */
    if (answer != cudaSuccess) CUDA_OK(cudaMalloc(&more, total_memory() / 10 * 8));
    CUDA_OK(cudaFree(more));
    take_half(p, n, r);
}
END_TEST

/* ---- the application's thread is blocked while the heap grows (docs/design.md) ---- */

enum { DEVICE_SYNC, STREAM_SYNC, EVENT_SYNC, COPY_OUT, MALLOC_FREE, LAUNCHES, FREE_MEMORY, MEMSET, COPY_IN, SITUATIONS };
static const char *const situation_names[] = {"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
                                              "cudaMemcpy of 64 MB to the host", "cudaMalloc and cudaFree in a loop",
                                              "5000 launches behind it", "cudaFree of 64 MB", "cudaMemset",
                                              "cudaMemcpyAsync of pageable memory"};
START_TEST(blocked) {
    const unsigned n = 4096;
    static char host[64000000];
    for (int i = 0; i < 2 * SITUATIONS; i++) {
        const int situation = i % SITUATIONS, sleeps = i / SITUATIONS;
        fresh();
        CUDA_OK(cudaSetDeviceFlags(sleeps ? cudaDeviceScheduleBlockingSync : cudaDeviceScheduleSpin));
        struct report *r = report_make();
        unsigned long long **p;
        char *memory;
        void *other;
        cudaEvent_t event;
        CUDA_OK(cudaMalloc(&p, n * sizeof *p));
        CUDA_OK(cudaMalloc(&memory, sizeof host));
        CUDA_OK(cudaEventCreate(&event));
        make<<<1, 1>>>(p, 1, 64, 0, r);
        KERNEL_OK();
        r->longest_ns = 0;
        const double start = host_ms();
        make<<<ctas(n), 256>>>(p, n, MIB, 30000000, r); /* 4 GiB, from 30 ms on */
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaEventRecord(event));
        const double launched = host_ms();
        switch (situation) {
        case DEVICE_SYNC: CUDA_OK(cudaDeviceSynchronize()); break;
        case STREAM_SYNC: CUDA_OK(cudaStreamSynchronize(0)); break;
        case EVENT_SYNC: CUDA_OK(cudaEventSynchronize(event)); break;
        case COPY_OUT: CUDA_OK(cudaMemcpy(host, memory, sizeof host, cudaMemcpyDeviceToHost)); break;
        case MALLOC_FREE:
            while (host_ms() - launched < 60) {
                CUDA_OK(cudaMalloc(&other, 1000000));
                CUDA_OK(cudaFree(other));
            }
            break;
        case LAUNCHES:
            for (int k = 0; k < 5000; k++) nothing<<<1, 1>>>();
            break;
        case FREE_MEMORY: CUDA_OK(cudaFree(memory)); break;
        case MEMSET: CUDA_OK(cudaMemset(memory, 1, sizeof host)); break;
        case COPY_IN: CUDA_OK(cudaMemcpyAsync(memory, host, sizeof host, cudaMemcpyHostToDevice, 0)); break;
        }
        const double blocked = host_ms() - launched;
        KERNEL_OK();
        printf("in %s (%s) for %.1f ms: kernel %.1f ms, longest malloc %.2f ms\n", situation_names[situation], sleeps ? "sleeping" : "spinning", blocked,
               host_ms() - start, (double)r->longest_ns * 1e-6);
        report_good(r, situation_names[situation]);
        unmake<<<ctas(n), 256>>>(p, n, MIB, r);
        KERNEL_OK();
        report_good(r, situation_names[situation]);
        ck_assert_uint_le(r->longest_ns, 1000000000);
    }
}
END_TEST

/* ---- out of memory: NULL soon, for all ---- */

START_TEST(exhausted) {
    fresh();
    struct report *r = report_make();
    const unsigned n = 262144;
    unsigned long long **p;
    void *most;
    CUDA_OK(cudaMalloc(&p, n * sizeof *p));
    CUDA_OK(cudaMalloc(&most, free_memory() - 4 * GIB));
    make<<<ctas(n), 256>>>(p, n, 64 << 10, 0, r); /* 16 GiB of less than 4 */
    const double start = host_ms();
    KERNEL_OK();
    printf("16 GiB of less than 4: %llu NULLs of %u, %.1f ms, longest malloc %.2f ms\n", r->nulls, n, host_ms() - start,
           (double)r->longest_ns * 1e-6);
    ck_assert_uint_lt(r->nulls, n * 15 / 16);
    ck_assert_uint_gt(r->nulls, n / 2);
    ck_assert_uint_le(r->longest_ns, 3000000000);
    /* the program gives memory up: there is more, before long */
    CUDA_OK(cudaFree(most));
    const struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    unmake<<<ctas(n), 256>>>(p, n, 64 << 10, r);
    KERNEL_OK();
    r->nulls = 0;
    make<<<ctas(n), 256>>>(p, n, 64 << 10, 0, r);
    KERNEL_OK();
    report_good(r, "after cudaFree");
}
END_TEST

/* ---- copies over the borders of chunks ---- */

static __global__ void one_large(char **p, unsigned long long bytes) { *p = (char *)malloc(bytes); }
static __global__ void free_large(char **p) { free(*p); }
START_TEST(copies) {
    fresh();
    const size_t bytes = 3 * GIB + 12345;
    char **p, *at, *host = (char *)malloc(bytes), *back = (char *)malloc(bytes);
    CUDA_OK(cudaMalloc(&p, sizeof *p));
    one_large<<<1, 1>>>(p, bytes);
    KERNEL_OK();
    CUDA_OK(cudaMemcpy(&at, p, sizeof at, cudaMemcpyDeviceToHost));
    ck_assert_ptr_nonnull(at);
    for (size_t i = 0; i < bytes; i++) host[i] = (char)(i * 2654435761u >> 13);
    CUDA_OK(cudaMemcpy(at, host, bytes, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(back, at, bytes, cudaMemcpyDeviceToHost));
    ck_assert_int_eq(memcmp(host, back, bytes), 0);
    CUDA_OK(cudaMemset(at + GIB - 100, 7, 200));
    CUDA_OK(cudaMemcpy(back, at + GIB - 100, 200, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 200; i++) ck_assert_int_eq(back[i], 7);
    free_large<<<1, 1>>>(p);
    KERNEL_OK();
    free(host), free(back);
}
END_TEST

/* ---- the limit, late ---- */

START_TEST(limits) {
    fresh();
    size_t value;
    struct report *r = report_make();
    unsigned long long **p;
    CUDA_OK(cudaMalloc(&p, 1024 * sizeof *p));
    CUDA_OK(cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize));
    ck_assert_uint_eq(value, 8 * MIB);
    make<<<1, 1>>>(p, 1, 64, 0, r);
    KERNEL_OK();
    const size_t before = free_memory();
    CUDA_OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 5 * GIB));
    CUDA_OK(cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize));
    ck_assert_uint_eq(value, 5 * GIB);
    ck_assert_uint_ge(before - free_memory(), 4 * GIB);
    r->longest_ns = 0;
    make<<<4, 256>>>(p, 1024, 4 * MIB, 0, r);
    KERNEL_OK();
    printf("4 GiB that a late limit had mapped: longest malloc %.2f ms\n", (double)r->longest_ns * 1e-6);
    report_good(r, "late limit");
    ck_assert_int_eq(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1ull << 50), cudaErrorMemoryAllocation);
    CUDA_OK(cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize));
    ck_assert_uint_eq(value, 5 * GIB);
}
END_TEST

int main(int argc, char **argv) { /* argv: only these tests; none: all */
    static const struct {
        const char *name;
        const TTest *const *test;
    } tests[] = {
        {"idle", &idle},
        {"first allocation", &first_allocation},
        {"one kernel", &one_kernel},
        {"budget", &budget},
        {"other calls", &other_calls},
        {"beside kernels", &beside_kernels},
        {"full device", &full_device},
        {"blocked", &blocked},
        {"exhausted", &exhausted},
        {"copies", &copies},
        {"limits", &limits},
    };
    Suite *suite = suite_create("grow");
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        bool is_wanted = argc == 1;
        for (int k = 1; k < argc; k++) is_wanted |= strcmp(argv[k], tests[i].name) == 0;
        if (is_wanted) add_test(suite, tests[i].name, *tests[i].test);
    }
    return run_suite(suite);
}
