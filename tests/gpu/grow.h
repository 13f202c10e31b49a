/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by test_grow.cu and test_back.cu, which mmnvcc compiles and whose tests begin with a fresh heap. */
#ifndef MM_TESTS_GPU_GROW_H
#define MM_TESTS_GPU_GROW_H

#define MM_TEST_OUTSIDE
#include "tests/gpu/support.h"

#include <cuda.h>
#include <string.h>
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

/* The driver's calls for memory of the device, and their argument. Unlike cudaMalloc and cudaFree, they do not wait for kernels. */
struct driver_memory {
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
    CUresult (*release)(CUmemGenericAllocationHandle);
    CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
    CUresult (*leave)(CUdeviceptr, size_t);
    CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
    CUresult (*unmap)(CUdeviceptr, size_t);
    CUresult (*open)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
    CUmemAllocationProp prop;
};
static inline struct driver_memory driver_memory_find(void) {
    struct driver_memory d = {};
    const struct {
        const char *name;
        void **at;
    } calls[] = {{"cuMemCreate", (void **)&d.create},     {"cuMemRelease", (void **)&d.release}, {"cuMemAddressReserve", (void **)&d.reserve},
                 {"cuMemAddressFree", (void **)&d.leave}, {"cuMemMap", (void **)&d.map},         {"cuMemUnmap", (void **)&d.unmap},
                 {"cuMemSetAccess", (void **)&d.open}};
    cudaDriverEntryPointQueryResult found;
    for (const auto &call : calls) CUDA_OK(cudaGetDriverEntryPointByVersion(call.name, call.at, 12000, cudaEnableDefault, &found));
    d.prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    d.prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return d;
}

/* Results reported by kernels, in host memory. */
struct report {
    unsigned long long nulls, wrong, longest_ns, bytes;
    volatile unsigned go, began;
};
static inline struct report *report_make(void) {
    struct report *r;
    CUDA_OK(cudaHostAlloc(&r, sizeof *r, cudaHostAllocMapped));
    memset((void *)r, 0, sizeof *r);
    return r;
}
static inline void report_good(struct report *r, const char *what) {
    ck_assert_msg(r->nulls == 0 && r->wrong == 0, "%s: %llu NULLs, %llu wrong", what, r->nulls, r->wrong);
}

/* Marks thread i's object in its first and last word; ends_are checks the marks. */
static __device__ void write_ends(unsigned long long *p, unsigned long long bytes, unsigned long long key) {
    p[0] = bytes ^ key << 40;
    p[bytes / 8 - 1] = bytes ^ key << 40;
}
static __device__ int ends_are(const unsigned long long *p, unsigned long long bytes, unsigned long long key) {
    return p[0] == (bytes ^ key << 40) && p[bytes / 8 - 1] == (bytes ^ key << 40);
}

/* Each of n threads mallocs `bytes` after `wait_ns`. */
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
/* Stays until r->go is set. */
static __global__ void occupy(struct report *r) {
    r->began = 1;
    while (!r->go) __nanosleep(1000);
}
static inline unsigned ctas(unsigned n) { return (n + 255) / 256; }
static inline size_t free_memory(void) {
    size_t free_bytes, total;
    CUDA_OK(cudaMemGetInfo(&free_bytes, &total));
    return free_bytes;
}
static inline size_t total_memory(void) {
    size_t free_bytes, total;
    CUDA_OK(cudaMemGetInfo(&free_bytes, &total));
    return total;
}
static inline void fresh(void) { CUDA_OK(cudaDeviceReset()); }

/* Needs `bytes` of device memory, and no other process that uses the device. */
#define NEEDS_ALONE(bytes)           \
    do {                             \
        if (!gpu_is_alone()) return; \
        NEEDS(bytes);                \
    } while (0)
#define NEEDS_ALL() NEEDS_ALONE(total_memory() / 20 * 19) /* nearly all */

struct named_test {
    const char *name;
    const TTest *const *test;
};
/* Runs the tests named in argv, or all. */
static inline int run_named(int argc, char **argv, const char *suite_name, const struct named_test *tests, size_t n) {
    Suite *suite = suite_create(suite_name);
    for (size_t i = 0; i < n; i++) {
        bool is_wanted = argc == 1;
        for (int k = 1; k < argc; k++) is_wanted |= strcmp(argv[k], tests[i].name) == 0;
        if (is_wanted) add_test(suite, tests[i].name, *tests[i].test);
    }
    return run_suite(suite);
}

#endif
