/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mm.h in a program: usable size, calloc and realloc in kernels; statistics and reset on the host. */
#include <mm.h>

#define MM_TEST_OUTSIDE
#include "tests/gpu/support.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define PAGE (16 * KIB)
#define SEGMENT MIB

static __device__ unsigned thread_index(void) { return blockIdx.x * blockDim.x + threadIdx.x; }

/* Failures counted by kernels; the host reads and clears it. */
static __device__ unsigned wrong;
static __device__ void holds(bool condition) {
    if (!condition) atomicAdd(&wrong, 1);
}
static void nothing_wrong(void) {
    unsigned n, none = 0;
    KERNEL_OK();
    CUDA_OK(cudaMemcpyFromSymbol(&n, wrong, sizeof n));
    CUDA_OK(cudaMemcpyToSymbol(wrong, &none, sizeof none));
    ck_assert_uint_eq(n, 0);
}

static struct mm_statistics statistics(void) {
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    ck_assert_int_eq(mm_get_statistics(&s), MM_OK);
    return s;
}
static unsigned long long misuses(const struct mm_statistics *s) {
    return s->misuse_foreign + s->misuse_not_allocated + s->misuse_interior + s->misuse_never + s->misuse_double_free;
}
static void no_misuse(void) {
    const struct mm_statistics s = statistics();
    ck_assert_uint_eq(misuses(&s), 0);
}

/* ---- before the first launch; the first of all tests ---- */

START_TEST(test_no_heap_yet) {
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    ck_assert_int_eq(mm_get_statistics(&s), MM_ERROR_NO_HEAP);
    ck_assert_int_eq(mm_reset(), MM_ERROR_NO_HEAP);
    CUDA_OK(cudaFree(0)); /* a context */
    ck_assert_int_eq(mm_get_statistics(&s), MM_ERROR_NO_HEAP);
    ck_assert_int_eq(mm_reset(), MM_ERROR_NO_HEAP);
    s.struct_bytes = 8;
    ck_assert_int_eq(mm_get_statistics(&s), MM_ERROR_ARGUMENT);
    ck_assert_int_eq(mm_get_statistics(NULL), MM_ERROR_ARGUMENT);
}
END_TEST

/* ---- usable size ---- */

/* Thread i: i + 1 bytes, live at the same time in all threads. */
__global__ void take_sizes(unsigned char **all) {
    const size_t i = thread_index(), bytes = i + 1;
    unsigned char *p = (unsigned char *)malloc(bytes);
    const size_t usable = mm_usable_size(p);
    all[i] = p;
    holds(p != NULL && usable >= bytes && usable % 16 == 0 && usable <= (bytes < 64 ? bytes + 64 : 2 * bytes));
    for (size_t k = 0; k < usable; k++) p[k] = (unsigned char)(i * 7 + k);
    holds(mm_usable_size(p + 1) == 0 && mm_usable_size(p + usable - 1) == 0);
    holds(usable == 16 || mm_usable_size(p + 16) == 0);
}
__global__ void check_sizes(unsigned char **all) {
    const size_t i = thread_index(), usable = mm_usable_size(all[i]);
    holds(usable > i);
    for (size_t k = 0; k < usable; k++)
        if (all[i][k] != (unsigned char)(i * 7 + k)) {
            holds(false);
            break;
        }
    free(all[i]);
}
/* The size of an allocation above 64 KiB (docs/how-to/tuning.md, sizes): 5, 6, 7, 8 pages, then four lengths per doubling up to 56, then segments. */
static __device__ size_t rounded(size_t bytes) {
    size_t step = PAGE;
    while (8 * step < bytes) step *= 2;
    return bytes <= 56 * PAGE ? (bytes + step - 1) / step * step : (bytes + SEGMENT - 1) / SEGMENT * SEGMENT;
}
__global__ void other_sizes(char *foreign) {
    char here[32];
    for (size_t bytes = 64 * KIB; bytes <= 300 * MIB; bytes = bytes * 2 + 5) {
        char *p = (char *)malloc(bytes);
        const size_t usable = mm_usable_size(p);
        holds(p != NULL && usable >= bytes && (bytes <= 64 * KIB || usable == rounded(bytes)));
        p[usable - 1] = 1;
        holds(mm_usable_size(p + 16) == 0 && (bytes <= SEGMENT || mm_usable_size(p + SEGMENT) == 0));
        free(p);
        holds(mm_usable_size(p) == 0); /* no other thread allocates */
    }
    for (size_t align = 16; align <= 16 * MIB; align *= 2) {
        void *p = __nv_aligned_device_malloc(100, align);
        holds(p != NULL && (size_t)p % align == 0 && mm_usable_size(p) >= 100);
        free(p);
    }
    int *q = new int;
    holds(mm_usable_size(q) >= sizeof *q);
    delete q;
    holds(mm_usable_size(NULL) == 0 && mm_usable_size(foreign) == 0 && mm_usable_size(here) == 0 && mm_usable_size((void *)~(size_t)0) == 0);
}
START_TEST(test_usable_size) {
    const unsigned threads = 64 * KIB;
    unsigned char **all;
    CUDA_OK(cudaMalloc(&all, threads * sizeof *all));
    for (int round = 0; round < 2; round++) {
        take_sizes<<<threads / 256, 256>>>(all);
        nothing_wrong();
        check_sizes<<<threads / 256, 256>>>(all);
        nothing_wrong();
        other_sizes<<<1, 1>>>((char *)all);
        nothing_wrong();
    }
    no_misuse();
    CUDA_OK(cudaFree(all));
}
END_TEST

/* ---- calloc ---- */

__global__ void make_dirty(unsigned char **all) {
    const unsigned i = thread_index();
    const size_t bytes = 1 + i * 37 % 3000;
    all[i] = (unsigned char *)malloc(bytes);
    holds(all[i] != NULL);
    for (size_t k = 0; k < bytes; k++) all[i][k] = 0xff;
}
__global__ void drop(unsigned char **all) { free(all[thread_index()]); }
__global__ void take_zeroed(unsigned char **all) {
    const unsigned i = thread_index();
    const size_t count = 1 + i % 13, bytes = 1 + i * 37 % 3000 / 13;
    unsigned char *p = (unsigned char *)mm_calloc(count, bytes);
    holds(p != NULL && mm_usable_size(p) >= count * bytes);
    for (size_t k = 0; k < count * bytes; k++)
        if (p[k] != 0) {
            holds(false);
            break;
        }
    for (size_t k = 0; k < count * bytes; k++) p[k] = 0xff;
    all[i] = p;
}
__global__ void odd_callocs(void) {
    holds(mm_calloc((size_t)1 << 32, (size_t)1 << 32) == NULL && mm_calloc(~(size_t)0, 2) == NULL && mm_calloc(3, ~(size_t)0 / 2) == NULL);
    void *p = mm_calloc(0, 8), *q = mm_calloc(8, 0);
    holds(p != NULL && q != NULL && p != q);
    free(p), free(q);
    unsigned char *run = (unsigned char *)mm_calloc(3, 3 * MIB + 1);
    holds(run != NULL);
    for (size_t k = 0; k < 9 * MIB + 3; k += 4093) holds(run[k] == 0);
    holds(run[9 * MIB + 2] == 0);
    free(run);
}
START_TEST(test_calloc) {
    const unsigned threads = 128 * KIB;
    unsigned char **all;
    CUDA_OK(cudaMalloc(&all, threads * sizeof *all));
    for (int round = 0; round < 3; round++) {
        make_dirty<<<threads / 256, 256>>>(all);
        nothing_wrong();
        drop<<<threads / 256, 256>>>(all);
        take_zeroed<<<threads / 256, 256>>>(all);
        nothing_wrong();
        drop<<<threads / 256, 256>>>(all);
    }
    nothing_wrong();
    no_misuse();
    const unsigned long long nulls = statistics().null_count;
    odd_callocs<<<1, 1>>>();
    nothing_wrong();
    ck_assert_uint_eq(statistics().null_count, nulls); /* an overflow does not count as a request */
    CUDA_OK(cudaFree(all));
}
END_TEST

/* ---- realloc ---- */

static __device__ unsigned char payload(size_t seed, size_t k) { return (unsigned char)(seed * 131 + k * 7 + (k >> 8)); }

/* Up and down through sizes of all kinds; contents are kept up to the smaller size. */
__global__ void resize(size_t most, unsigned rounds) {
    const unsigned i = thread_index();
    unsigned long long seed = i * 2654435761ull + 12345;
    size_t bytes = 0;
    unsigned char *p = NULL;
    for (unsigned round = 0; round < rounds; round++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        const size_t next = 1 + (size_t)(seed >> 33) % (most >> (seed >> 61)), both = next < bytes ? next : bytes;
        const size_t had = mm_usable_size(p);
        unsigned char *q = (unsigned char *)mm_realloc(p, next);
        if (q == NULL) {
            holds(false);
            break;
        }
        const size_t has = mm_usable_size(q);
        holds(has >= next && (size_t)q % 16 == 0);
        if (next <= had && next * 2 >= had) holds(q == p); /* the rule */
        for (size_t k = 0; k < both; k++)
            if (q[k] != payload(i, k)) {
                holds(false);
                break;
            }
        for (size_t k = both; k < next; k++) q[k] = payload(i, k);
        p = q, bytes = next;
    }
    holds(mm_realloc(p, 0) == NULL);
}
__global__ void odd_reallocs(void) {
    char *p = (char *)mm_realloc(NULL, 10);
    holds(p != NULL && mm_usable_size(p) == 32);
    for (int i = 0; i < 10; i++) p[i] = (char)i;
    holds(mm_realloc(p, 1) == p && mm_realloc(p, 16) == p);
    holds(mm_realloc(p, (size_t)1 << 50) == NULL && mm_usable_size(p) == 32); /* p stays */
    for (int i = 0; i < 10; i++) holds(p[i] == (char)i);
    char *run = (char *)mm_realloc(p, 9 * MIB);
    holds(run != NULL && run != p && mm_usable_size(run) == 9 * MIB);
    for (int i = 0; i < 10; i++) holds(run[i] == (char)i);
    holds(mm_realloc(run, 9 * MIB) == run && mm_realloc(run, 5 * MIB) == run);
    p = (char *)mm_realloc(run, 10);
    holds(p != NULL && mm_usable_size(p) == 32 && mm_usable_size(run) == 0);
    for (int i = 0; i < 10; i++) holds(p[i] == (char)i);
    holds(mm_realloc(p, 0) == NULL && mm_usable_size(p) == 0);
}
__global__ void bad_realloc(char *foreign) { holds(mm_realloc(foreign, 10) == NULL); }
START_TEST(test_realloc) {
    char *foreign;
    resize<<<1024, 128>>>(2000, 20);
    nothing_wrong();
    resize<<<64, 64>>>(300 * KIB, 20);
    nothing_wrong();
    resize<<<1, 32>>>(20 * MIB, 8);
    nothing_wrong();
    no_misuse();
    odd_reallocs<<<1, 1>>>();
    nothing_wrong();
    no_misuse();
    CUDA_OK(cudaMalloc(&foreign, 64));
    bad_realloc<<<1, 1>>>(foreign);
    nothing_wrong();
    ck_assert_uint_eq(statistics().misuse_foreign, 1);
    CUDA_OK(cudaFree(foreign));
    ck_assert_int_eq(mm_reset(), MM_OK);
    no_misuse();
}
END_TEST

/* ---- statistics ---- */

__global__ void misuse(char *foreign) {
    char *p = (char *)malloc(100), *run = (char *)malloc(5 * MIB), *kept = (char *)malloc(100);
    free(foreign);
    for (int i = 0; i < 2; i++) free(run + 16);
    free(p);
    for (int i = 0; i < 3; i++) free(p);
    free(run);
    for (int i = 0; i < 4; i++) free(run);
    free(kept);
    holds(malloc((size_t)1 << 50) == NULL && malloc((size_t)1 << 51) == NULL);
}
/* Runs until the host sets *stop, 20 s at most. */
__global__ void go_on(volatile int *stop, int *was_stopped) {
    const long long begin = clock64();
    free(malloc(16));
    while (!*stop && clock64() - begin < 40000000000ll) __nanosleep(1000);
    *was_stopped = *stop;
}
START_TEST(test_statistics) {
    char *foreign;
    int *stop, *was_stopped;
    size_t free_bytes, total_bytes;
    CUDA_OK(cudaMalloc(&foreign, 64));
    misuse<<<1, 1>>>(foreign);
    nothing_wrong();
    struct mm_statistics s = statistics();
    ck_assert_uint_eq(s.misuse_foreign, 1);
    ck_assert_uint_eq(s.misuse_interior, 2);
    ck_assert_uint_eq(s.misuse_double_free + s.misuse_not_allocated, 3 + 4);
    ck_assert_uint_eq(s.misuse_never, 0);
    ck_assert_uint_eq(s.null_count, 2);
    ck_assert_uint_eq(s.null_first_bytes, 1ull << 50);
    CUDA_OK(cudaMemGetInfo(&free_bytes, &total_bytes));
    ck_assert_uint_ge(s.heap_bytes, 16 * MIB);
    ck_assert_uint_ge(s.reserved_bytes, s.heap_bytes + s.metadata_bytes);
    ck_assert_uint_le(s.heap_bytes + s.metadata_bytes, total_bytes - free_bytes);
    ck_assert_uint_ge(s.metadata_bytes, MIB);

    /* Statistics next to a kernel do not wait for it. */
    CUDA_OK(cudaHostAlloc(&stop, 2 * sizeof *stop, cudaHostAllocMapped));
    was_stopped = stop + 1;
    *stop = *was_stopped = 0;
    go_on<<<1, 1>>>(stop, was_stopped);
    CUDA_OK(cudaGetLastError());
    for (int i = 0; i < 100; i++) s = statistics();
    ck_assert_uint_eq(s.null_count, 2);
    ck_assert_int_eq(cudaStreamQuery(0), cudaErrorNotReady);
    *(volatile int *)stop = 1;
    KERNEL_OK();
    ck_assert_int_eq(*was_stopped, 1);

    /* a capture stays valid */
    cudaStream_t stream;
    cudaGraph_t graph;
    CUDA_OK(cudaStreamCreate(&stream));
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    s = statistics();
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphDestroy(graph));
    CUDA_OK(cudaStreamDestroy(stream));
    CUDA_OK(cudaFreeHost(stop));
    CUDA_OK(cudaFree(foreign));
    ck_assert_int_eq(mm_reset(), MM_OK);
    s = statistics();
    ck_assert_uint_eq(misuses(&s) + s.null_count + s.null_first_bytes, 0);
}
END_TEST

/* ---- reset ---- */

/* Objects of `bytes`, each of which holds its index. */
__global__ void take_many(size_t **all, size_t n, size_t bytes) {
    for (size_t i = thread_index(); i < n; i += (size_t)gridDim.x * blockDim.x) {
        all[i] = (size_t *)malloc(bytes);
        holds(all[i] != NULL);
        if (all[i]) all[i][0] = i, all[i][bytes / sizeof(size_t) - 1] = ~i;
    }
}
__global__ void check_many(size_t **all, size_t n, size_t bytes) {
    for (size_t i = thread_index(); i < n; i += (size_t)gridDim.x * blockDim.x)
        holds(all[i] && (all[i][0] == i || bytes == sizeof(size_t)) && all[i][bytes / sizeof(size_t) - 1] == ~i && mm_usable_size(all[i]) >= bytes);
}
START_TEST(test_reset) {
    const size_t most = GIB / 64;
    size_t **all;
    unsigned long long heap_bytes = 0;
    CUDA_OK(cudaMalloc(&all, most * sizeof *all));
    for (int round = 0; round < 20; round++) {
        const size_t sizes[] = {64, 64, 4000, 256, 3 * MIB}, bytes = sizes[round % 5], n = GIB / bytes;
        take_many<<<2048, 256>>>(all, n, bytes);
        check_many<<<2048, 256>>>(all, n, bytes);
        nothing_wrong();
        struct mm_statistics s = statistics();
        ck_assert_uint_eq(s.null_count, 0);
        ck_assert_uint_ge(s.heap_bytes, GIB);
        /* A reset keeps memory mapped: 20 rounds of 1 GiB use the memory that the first few mapped. */
        if (round == 4) heap_bytes = s.heap_bytes;
        if (round > 4) ck_assert_uint_le(s.heap_bytes, heap_bytes + heap_bytes / 4);
        ck_assert_int_eq(mm_reset(), MM_OK);
        s = statistics();
        ck_assert_uint_eq(misuses(&s), 0);
        check_sizes<<<1, 1>>>((unsigned char **)all); /* a pointer that is no longer valid */
        CUDA_OK(cudaDeviceSynchronize());
        unsigned n_wrong, none = 0;
        CUDA_OK(cudaMemcpyFromSymbol(&n_wrong, wrong, sizeof n_wrong));
        CUDA_OK(cudaMemcpyToSymbol(wrong, &none, sizeof none));
        ck_assert_uint_eq(n_wrong, 1);
        s = statistics();
        ck_assert_uint_eq(misuses(&s), 1);
        ck_assert_int_eq(mm_reset(), MM_OK);
    }
    /* Without a single free, all memory goes back to the driver when it needs memory. */
    size_t free_bytes, total_bytes;
    void *large;
    CUDA_OK(cudaMemGetInfo(&free_bytes, &total_bytes));
    CUDA_OK(cudaMalloc(&large, free_bytes + 512 * MIB));
    ck_assert_uint_lt(statistics().heap_bytes, heap_bytes);
    ck_assert_int_eq(mm_reset(), MM_OK);
    CUDA_OK(cudaFree(large));
    take_many<<<2048, 256>>>(all, most, 64);
    check_many<<<2048, 256>>>(all, most, 64);
    nothing_wrong();
    ck_assert_int_eq(mm_reset(), MM_OK);
    CUDA_OK(cudaFree(all));
}
END_TEST

/* A graph that was instantiated before a reset runs after it; and a reset waits for earlier launches. */
START_TEST(test_reset_and_graphs) {
    const size_t n = 100000;
    size_t **all;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t instance;
    CUDA_OK(cudaMalloc(&all, n * sizeof *all));
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    take_many<<<64, 256, 0, stream>>>(all, n, 256);
    check_many<<<64, 256, 0, stream>>>(all, n, 256);
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&instance, graph, NULL, NULL, 0));
    for (int round = 0; round < 50; round++) {
        CUDA_OK(cudaGraphLaunch(instance, stream));
        ck_assert_int_eq(mm_reset(), MM_OK);
        CUDA_OK(cudaStreamQuery(stream));
    }
    nothing_wrong();
    no_misuse();
    CUDA_OK(cudaGraphExecDestroy(instance));
    CUDA_OK(cudaGraphDestroy(graph));
    CUDA_OK(cudaStreamDestroy(stream));
    CUDA_OK(cudaFree(all));
}
END_TEST

int main(void) {
    Suite *s = suite_create("a program with mm.h");
    add_test(s, "no heap yet", test_no_heap_yet);
    add_test(s, "usable size", test_usable_size);
    add_test(s, "calloc", test_calloc);
    add_test(s, "realloc", test_realloc);
    add_test(s, "statistics", test_statistics);
    add_test(s, "reset", test_reset);
    add_test(s, "reset and graphs", test_reset_and_graphs);
    return run_suite(s);
}
