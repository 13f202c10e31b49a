/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The allocator in a program: this source does not refer to mm except in the check at the end of each test,
 * and is compiled by mmnvcc in several ways (build.mk). The kernels use malloc, free, new and delete.
 */
#include <cuda.h>

#include <new>

#ifndef MM_TEST_PTX
#define MM_TEST_OUTSIDE
#endif
#include "tests/gpu/support.h"

#define MILLION 1000000u

static __device__ unsigned thread_index(void) { return blockIdx.x * blockDim.x + threadIdx.x; }

/* The heap variable of this image: looked up by name through the driver, because no C declaration would bind to it. */
#ifdef MM_TEST_PTX
__global__ void allocates(void) { free(malloc(1)); }
template <typename function> static void find_driver_function(const char *name, function *found) {
    cudaDriverEntryPointQueryResult result;
    CUDA_OK(cudaGetDriverEntryPointByVersion(name, (void **)found, CUDART_VERSION, cudaEnableDefault, &result));
    ck_assert_ptr_nonnull((void *)*found);
}
static struct mm_heap_ref heap_ref(void) {
    struct mm_heap_ref ref;
    cudaKernel_t kernel;
    CUlibrary library;
    CUdeviceptr address;
    size_t bytes;
    decltype(&cuKernelGetLibrary) library_of;
    decltype(&cuLibraryGetGlobal) find_global;
    find_driver_function("cuKernelGetLibrary", &library_of);
    find_driver_function("cuLibraryGetGlobal", &find_global);
    allocates<<<1, 1>>>();
    KERNEL_OK();
    CUDA_OK(cudaGetKernel(&kernel, (const void *)allocates));
    ck_assert_int_eq(library_of(&library, (CUkernel)kernel), CUDA_SUCCESS);
    ck_assert_int_eq(find_global(&address, &bytes, library, MM_HEAP_REF_NAME), CUDA_SUCCESS);
    CUDA_OK(cudaMemcpy(&ref, (void *)address, sizeof ref, cudaMemcpyDeviceToHost));
    ck_assert_uint_ne(ref.heap, 0);
    return ref;
}
/* Everything was freed: the heap is sound, nothing is live, and after a drain it is in its initial state. */
static void nothing_live(void) {
    static uint64_t mapped;
    const struct mm_heap_ref ref = heap_ref();
    no_misuse(ref);
    ck_assert_uint_eq(check_heap(ref), 0);
    if (mapped == 0) gpu_heap_drain(ref), mapped = gpu_heap_free_segments(ref);
    check_drained(ref, mapped);
}
#else
static void nothing_live(void) {}
#endif

static unsigned *counter(void) {
    unsigned *c;
    CUDA_OK(cudaMalloc(&c, 4 * sizeof *c));
    CUDA_OK(cudaMemset(c, 0, 4 * sizeof *c));
    return c;
}
static void count_is(unsigned *c, int i, unsigned expected) {
    unsigned host[4];
    CUDA_OK(cudaMemcpy(host, c, sizeof host, cudaMemcpyDeviceToHost));
    ck_assert_uint_eq(host[i], expected);
}

/* ---- a million objects with virtual functions: made in one kernel, used and deleted in others ---- */

struct shape {
    __device__ virtual ~shape() {}
    __device__ virtual unsigned area() const = 0;
};
struct square : shape {
    unsigned side;
    __device__ square(unsigned s) : side(s) {}
    __device__ unsigned area() const { return side * side; }
};
struct rectangle : shape {
    unsigned a, b, padding[9];
    __device__ rectangle(unsigned x, unsigned y) : a(x), b(y) {}
    __device__ unsigned area() const { return a * b; }
};
__global__ void make(shape **shapes, unsigned n) {
    const unsigned i = thread_index();
    if (i >= n) return;
    if (i % 3) shapes[i] = new square(i);
    else shapes[i] = new rectangle(i, i + 1);
}
__global__ void measure(shape **shapes, unsigned n, unsigned *wrong) {
    const unsigned i = thread_index();
    if (i < n && (shapes[i] == NULL || shapes[i]->area() != (i % 3 ? i * i : i * (i + 1)))) atomicAdd(wrong, 1);
}
__global__ void destroy(shape **shapes, unsigned n) {
    const unsigned i = thread_index();
    if (i < n) delete shapes[(i * 7919ull) % n]; /* by another thread than the one that made it */
}
START_TEST(test_million_objects) {
    shape **shapes;
    unsigned *wrong = counter();
    CUDA_OK(cudaMalloc(&shapes, MILLION * sizeof *shapes));
    for (int round = 0; round < 3; round++) {
        make<<<MILLION / 256 + 1, 256>>>(shapes, MILLION);
        KERNEL_OK();
        measure<<<MILLION / 256 + 1, 256>>>(shapes, MILLION, wrong);
        KERNEL_OK();
        destroy<<<MILLION / 256 + 1, 256>>>(shapes, MILLION);
        KERNEL_OK();
    }
    count_is(wrong, 0, 0);
    nothing_live();
    CUDA_OK(cudaFree(shapes));
    CUDA_OK(cudaFree(wrong));
}
END_TEST

/* ---- mixed sizes, every byte written and read back (of large objects, one in about 4 KiB) ---- */

static __device__ unsigned stride(unsigned max_bytes) { return max_bytes > 65536 ? 4097 : 1; }
static __device__ unsigned size_of(unsigned i, unsigned max_bytes) { return (i * 2654435761u >> 7) % (max_bytes + 1); }
__global__ void fill_sizes(unsigned char **p, unsigned n, unsigned max_bytes, unsigned *nulls) {
    const unsigned i = thread_index();
    if (i >= n) return;
    p[i] = (unsigned char *)malloc(size_of(i, max_bytes));
    if (p[i] == NULL) atomicAdd(nulls, 1);
    else
        for (unsigned k = 0; k < size_of(i, max_bytes); k += stride(max_bytes)) p[i][k] = (unsigned char)(i + k);
}
__global__ void check_sizes(unsigned char **p, unsigned n, unsigned max_bytes, unsigned *wrong) {
    const unsigned i = thread_index();
    if (i >= n || p[i] == NULL) return;
    unsigned bad = ((size_t)p[i] & 15) != 0;
    for (unsigned k = 0; k < size_of(i, max_bytes); k += stride(max_bytes)) bad |= p[i][k] != (unsigned char)(i + k);
    if (bad) atomicAdd(wrong, 1);
    free(p[i]);
}
static void sizes_case(unsigned n, unsigned max_bytes) {
    unsigned char **p;
    unsigned *counts = counter();
    CUDA_OK(cudaMalloc(&p, n * sizeof *p));
    fill_sizes<<<n / 256 + 1, 256>>>(p, n, max_bytes, counts);
    KERNEL_OK();
    check_sizes<<<n / 256 + 1, 256>>>(p, n, max_bytes, counts + 1);
    KERNEL_OK();
    count_is(counts, 0, 0);
    count_is(counts, 1, 0);
    nothing_live();
    CUDA_OK(cudaFree(p));
    CUDA_OK(cudaFree(counts));
}
START_TEST(test_mixed_sizes) {
    sizes_case(MILLION, 256);
    sizes_case(200000, 8192);
    sizes_case(2000, 1 << 20);
}
END_TEST
START_TEST(test_over_a_segment) { sizes_case(100, 40 << 20); }
END_TEST

/* ---- aligned, zero, NULL, whole heap ---- */

struct alignas(256) wide {
    unsigned x[64];
};
__global__ void corners(unsigned *wrong, size_t heap_bytes) {
    for (size_t align = 1; align <= 64u << 20; align *= 2)
        for (size_t bytes = 1; bytes <= 8u << 20; bytes = bytes * 3 + 1) {
            char *p = (char *)__nv_aligned_device_malloc(bytes, align);
            if (p == NULL || (size_t)p % align != 0 || (size_t)p % 16 != 0) {
                atomicAdd(wrong, 1);
            } else {
                p[0] = p[bytes - 1] = 1;
                free(p);
            }
        }
    if (__nv_aligned_device_malloc(10, 48) != NULL) atomicAdd(wrong, 1);
    wide *w = new wide;
    if ((size_t)w % 256) atomicAdd(wrong, 1);
    delete w;
    void *a = malloc(0), *b = malloc(0);
    if (a == NULL || b == NULL || a == b) atomicAdd(wrong, 1);
    free(a), free(b), free(NULL);
    if (malloc(heap_bytes * 2) != NULL || malloc(~(size_t)0) != NULL || malloc((size_t)1 << 63) != NULL) atomicAdd(wrong, 1);
    int *array = new int[1000];
    for (int i = 0; i < 1000; i++) array[i] = i;
    delete[] array;
}
START_TEST(test_corners) {
    unsigned *wrong = counter();
    size_t unused, device_bytes;
    CUDA_OK(cudaMemGetInfo(&unused, &device_bytes));
    corners<<<1, 1>>>(wrong, device_bytes);
    KERNEL_OK();
    count_is(wrong, 0, 0);
    nothing_live();
    CUDA_OK(cudaFree(wrong));
}
END_TEST

/* ---- exhaustion: malloc returns NULL, other threads go on, all memory is freed again ---- */

__global__ void exhaust(unsigned long long *list, size_t bytes, unsigned *counts) {
    for (;;) {
        unsigned long long *p = (unsigned long long *)malloc(bytes);
        if (p == NULL) break;
        *p = atomicExch(&list[thread_index()], (unsigned long long)p);
        atomicAdd(&counts[0], 1);
    }
    atomicAdd(&counts[1], 1);
}
__global__ void release(unsigned long long *list) {
    unsigned long long *p = (unsigned long long *)list[thread_index()];
    list[thread_index()] = 0;
    while (p != NULL) {
        unsigned long long *next = (unsigned long long *)*p;
        free(p);
        p = next;
    }
}
START_TEST(test_exhaustion) {
    const size_t sizes[] = {1 << 20, 3 << 20, 64 << 10};
    const unsigned threads = 64 * 128;
    unsigned long long *list;
    unsigned before = 0;
    CUDA_OK(cudaMalloc(&list, threads * sizeof *list));
    CUDA_OK(cudaMemset(list, 0, threads * sizeof *list));
    for (int i = 0; i < 9; i++) {
        unsigned *counts = counter(), host[4];
        exhaust<<<64, 128>>>(list, sizes[i / 3], counts);
        KERNEL_OK();
        count_is(counts, 1, threads); /* every thread ended with NULL */
        CUDA_OK(cudaMemcpy(host, counts, sizeof host, cudaMemcpyDeviceToHost));
        ck_assert_uint_gt(host[0], 0);
        if (i % 3 != 0 && sizes[i / 3] <= 1 << 20) ck_assert_uint_eq(host[0], before); /* as many as before */
        if (i % 3 != 0) ck_assert_uint_ge(host[0], before / 100 * 93);                 /* runs of several segments: see test_fill.cu */
        before = host[0];
        release<<<64, 128>>>(list);
        KERNEL_OK();
        nothing_live();
        CUDA_OK(cudaFree(counts));
    }
    CUDA_OK(cudaFree(list));
}
END_TEST

/* ---- not possible with CUDA's own heap: the host copies ---- */

__global__ void make_text(char **out) {
    *out = (char *)malloc(6);
    for (int i = 0; i < 6; i++) (*out)[i] = "hello"[i];
}
__global__ void drop_text(char **out) { free(*out); }
START_TEST(test_host_copies) {
    char **out, *text, host[6];
    CUDA_OK(cudaMalloc(&out, sizeof *out));
    make_text<<<1, 1>>>(out);
    KERNEL_OK();
    CUDA_OK(cudaMemcpy(&text, out, sizeof text, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaMemcpy(host, text, sizeof host, cudaMemcpyDeviceToHost));
    ck_assert_str_eq(host, "hello");
    drop_text<<<1, 1>>>(out);
    KERNEL_OK();
    nothing_live();
    CUDA_OK(cudaFree(out));
}
END_TEST

/* ---- the program's own constant memory, next to the heap variable ---- */

static __constant__ unsigned own_constants[4096] = {7};

__global__ void constant_kernel(unsigned *count) {
    unsigned *p = (unsigned *)malloc(64);
    if (p == NULL) return;
    *p = own_constants[thread_index() % 4096];
    if (*p == thread_index() % 4096 + 7) atomicAdd(count, 1);
    free(p);
}

START_TEST(test_own_constants) {
    unsigned *count = counter(), host[4096];
    CUDA_OK(cudaMemcpyFromSymbol(host, own_constants, sizeof host));
    ck_assert_uint_eq(host[0], 7);
    ck_assert_uint_eq(host[4095], 0);
    constant_kernel<<<16, 256>>>(count);
    KERNEL_OK();
    count_is(count, 0, 1);
    for (unsigned i = 0; i < 4096; i++) host[i] = i + 7;
    CUDA_OK(cudaMemcpyToSymbol(own_constants, host, sizeof host));
    constant_kernel<<<16, 256>>>(count);
    KERNEL_OK();
    count_is(count, 0, 1 + 4096);
    nothing_live();
    CUDA_OK(cudaFree(count));
}
END_TEST

int main(void) {
    setenv("MM_HEAP_SIZE", "8G", 0); /* a heap of fixed size, so that it is exhausted soon */
    setenv("MM_HEAP_MAX", "8G", 0);
    Suite *s = suite_create("a program compiled by mmnvcc");
    add_test(s, "a million objects", test_million_objects);
    add_test(s, "mixed sizes", test_mixed_sizes);
    add_test(s, "over a segment", test_over_a_segment);
    add_test(s, "corners", test_corners);
    add_test(s, "exhaustion", test_exhaustion);
    add_test(s, "host copies", test_host_copies);
    add_test(s, "own constants", test_own_constants);
    return run_suite(s);
}
