/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap that gives memory back when the program needs it. Compiled by mmnvcc like any program, no variable set.
 */
#include "tests/gpu/grow.h"

/* ---- the program's own memory, and the heap's ---- */

/* Each thread allocates objects of 64 B to 1 MB (log-uniform) in its list, until they are at least `share` bytes. */
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
    NEEDS_ALL();
    const unsigned n = 8192; /* each exceeds its share by less than 1 MB */
    /* On an H200 with 150 GB: 20, 80, 10, 90 GB; proportional on other devices. */
    const double unit = total_memory() >= 149 * GB ? 1e9 : (double)total_memory() / 150.2;
    struct report *r = report_make();
    void **lists, *a, *b, *c;
    CUDA_OK(cudaMalloc(&lists, n * sizeof *lists));
    CUDA_OK(cudaMalloc(&a, (size_t)(20 * unit)));
    double start = host_ms();
    fill<<<ctas(n), 256>>>(lists, (unsigned long long)(80 * unit / n), r);
    KERNEL_OK();
    printf("80 units of objects of 64 B to 1 MB: %.1f GB in %.1f ms, %.1f GB are free", (double)r->bytes / 1e9, host_ms() - start, (double)free_memory() / 1e9);
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
    /* And again: the heap gets the memory back. */
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

/* ---- giving back: for other calls, next to kernels ---- */

/* A power of two for which n objects are about half of the device's memory. */
static unsigned long long half_bytes(unsigned n) {
    unsigned long long bytes = 64;
    while (2 * n * bytes <= total_memory() / 2) bytes *= 2;
    return bytes;
}
static void take_half(unsigned long long **p, unsigned n, struct report *r) { /* allocates and frees it; the heap then holds half of the device */
    make<<<ctas(n), 256>>>(p, n, half_bytes(n), 0, r);
    unmake<<<ctas(n), 256>>>(p, n, half_bytes(n), r);
    KERNEL_OK();
    report_good(r, "half of the device");
}
/* Makes room for n pointers. */
static struct report *begin(unsigned n, unsigned long long ***p) {
    struct report *r = report_make();
    CUDA_OK(cudaMalloc(p, n * sizeof **p));
    return r;
}
START_TEST(other_calls) {
    fresh();
    NEEDS_ALL();
    const unsigned n = 65536;
    unsigned long long **p;
    struct report *r = begin(n, &p);
    void *more;
    size_t pitch;
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
    ck_assert_int_eq(cudaMalloc(&more, total_memory() * 2), cudaErrorMemoryAllocation); /* an error, and the heap works as before */
    cudaGetLastError();
    take_half(p, n, r);
}
END_TEST

/* Each thread allocates, writes, checks and frees until r->go is set. */
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
START_TEST(beside_kernels) { /* memory moves between program and heap while a kernel allocates and frees */
    fresh();
    NEEDS_ALL();
    const unsigned n = 65536;
    unsigned long long **p;
    struct report *r = begin(n, &p);
    cudaStream_t stream;
    const struct driver_memory d = driver_memory_find();
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
        const CUresult answer = d.create(&more, much, &d.prop, 0);
        if (host_ms() - start > longest) longest = host_ms() - start;
        served += answer == CUDA_SUCCESS;
        if (answer == CUDA_SUCCESS) ck_assert_int_eq(d.release(more), CUDA_SUCCESS);
        make<<<ctas(n), 256, 0, cudaStreamPerThread>>>(p, n, half_bytes(n), 0, r);
        unmake<<<ctas(n), 256, 0, cudaStreamPerThread>>>(p, n, half_bytes(n), r);
        CUDA_OK(cudaStreamSynchronize(cudaStreamPerThread));
    }
    r->go = 1;
    KERNEL_OK();
    /* Live objects keep their chunks mapped, so the number of successes depends on where they are. */
    printf("60 %% of the device wanted 4 times, had %d times, beside a kernel with %.1f M rounds of malloc and free: longest cuMemCreate %.1f ms\n", served,
           (double)r->bytes * 1e-6, longest);
    ck_assert_int_ge(served, 1);
    report_good(r, "to and fro");
    ck_assert_uint_gt(r->bytes, 1000);
}
END_TEST

/* All multiprocessors are full of waiting threads: only spare memory can be given back. cudaMalloc must fail soon, and succeed afterwards. The
 * test first takes the driver's free memory, which the driver would clear; next to such a kernel that takes half a minute
 * (docs/explanation/growing.md). */
START_TEST(full_device) {
    fresh();
    NEEDS_ALL();
    const unsigned n = 65536;
    unsigned long long **p;
    struct report *r = begin(n, &p);
    void *others, *more;
    int sms, threads, device;
    const size_t much = n * half_bytes(n) / 2;
    cudaStream_t stream;
    CUDA_OK(cudaGetDevice(&device));
    CUDA_OK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    CUDA_OK(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device));
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    take_half(p, n, r);
    CUDA_OK(cudaMalloc(&others, free_memory() - 2 * GIB));
    r->began = 0;
    occupy<<<sms * threads / 1024, 1024, 0, stream>>>(r);
    CUDA_OK(cudaGetLastError());
    while (!r->began) {
    }
    const double start = host_ms();
    const cudaError_t answer = cudaMalloc(&more, much);
    const double took = host_ms() - start;
    cudaGetLastError(); /* clears cudaMalloc's error */
    r->go = 1;
    KERNEL_OK();
    printf("cudaMalloc of memory that the heap would give back, all multiprocessors full: %s after %.1f ms\n", cudaGetErrorString(answer), took);
    ck_assert_int_eq(answer, cudaErrorMemoryAllocation);
    ck_assert_msg(took < MM_HOST_TRIM_MS + 300, "%.1f ms", took);
    CUDA_OK(cudaMalloc(&more, much));
    CUDA_OK(cudaFree(more));
    CUDA_OK(cudaFree(others));
    take_half(p, n, r);
}
END_TEST

int main(int argc, char **argv) { /* argv: names of the tests to run; default: all */
    static const struct named_test tests[] = {
        {"budget", &budget},
        {"other calls", &other_calls},
        {"beside kernels", &beside_kernels},
        {"full device", &full_device},
    };
    return run_named(argc, argv, "back", tests, sizeof tests / sizeof *tests);
}
