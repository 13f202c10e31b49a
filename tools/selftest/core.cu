/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tests each promise of malloc, free and mm.h once, as a program sees it: sizes, alignment, contents that persist, NULL, misuse, growing,
 * returning memory, reset. All counts are exact, because nothing else runs in this context.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/selftest/parts.h"

#define SIZES (16u * 1024) /* from 1 byte up to this many */
#define GROWN_OBJECTS (1u << 20)
#define GROWN_BYTES 1024u
#define LARGE_BYTES_FIRST (64ull << 10)
#define LARGE_BYTES_MOST (2ull << 30)

/* The number of errors that kernels found; the host reads it and sets it back to 0. */
static __device__ unsigned wrong;

static __device__ void expect(int holds) {
    if (!holds) atomicAdd(&wrong, 1u);
}

/* Call it after a kernel. */
static unsigned wrong_so_far(const char *what) {
    const unsigned none = 0;
    unsigned found;
    must_end(what);
    MUST(cudaMemcpyFromSymbol(&found, wrong, sizeof found));
    MUST(cudaMemcpyToSymbol(wrong, &none, sizeof none));
    return found;
}

static void check_kernel(const char *what) {
    const unsigned found = wrong_so_far(what);
    check(found == 0, what, "%u wrong", found);
}

/* ---- sizes ------------------------------------------------------------------------------------ */

/* Thread i takes i + 1 bytes and writes all of them; all allocations are live at the same time. */
static __global__ void take_sizes(unsigned char **all) {
    const unsigned i = thread_idx(), bytes = i + 1;
    unsigned char *p = (unsigned char *)malloc(bytes);
    all[i] = p;
    expect(p != NULL && ((size_t)p & 15) == 0);
    if (p == NULL) return;
    expect(mm_usable_size(p) >= bytes && mm_usable_size(p + 1) == 0);
    for (unsigned k = 0; k < bytes; k++) p[k] = (unsigned char)(i * 7 + k);
}

static __global__ void give_sizes(unsigned char **all) {
    const unsigned i = thread_idx();
    int good = 1;
    for (unsigned k = 0; all[i] != NULL && k <= i; k++) good &= all[i][k] == (unsigned char)(i * 7 + k);
    expect(good);
    free(all[i]);
}

static void sizes(void) {
    unsigned char **all;
    MUST(cudaMalloc((void **)&all, SIZES * sizeof *all));
    for (int round = 0; round < 3; round++) {
        take_sizes<<<ctas(SIZES), CTA_THREADS>>>(all);
        check_kernel("1 to 16,384 bytes");
        if (round == 0) check_live(SIZES, "live");
        give_sizes<<<ctas(SIZES), CTA_THREADS>>>(all);
        check_kernel("their patterns");
    }
    check_live(0, "all given back");
    MUST(cudaFree(all));
}

/* ---- one thread ------------------------------------------------------------------------------- */

static __global__ void large(unsigned long long most) {
    for (unsigned long long bytes = LARGE_BYTES_FIRST; bytes <= most; bytes = bytes * 2 + 5) {
        char *p = (char *)malloc(bytes);
        expect(p != NULL);
        if (p == NULL) continue;
        p[0] = p[bytes - 1] = 1;
        expect(mm_usable_size(p) >= bytes && mm_usable_size(p + 16) == 0);
        free(p);
    }
}

static __global__ void aligned(void) {
    for (size_t align = 16; align <= 1 << 20; align *= 2) {
        char *p = (char *)__nv_aligned_device_malloc(100, align);
        expect(p != NULL && (size_t)p % align == 0);
        free(p);
    }
}

static __global__ void by_new(void) {
    for (unsigned n = 1; n < 1000; n = n * 2 + 1) {
        unsigned *one = new unsigned, *many = new unsigned[n];
        expect(one != NULL && many != NULL);
        if (one != NULL && many != NULL) *one = many[0] = many[n - 1] = n;
        delete one;
        delete[] many;
    }
}

static __global__ void others(void) {
    unsigned *p = (unsigned *)mm_calloc(250, 4);
    expect(p != NULL);
    if (p == NULL) return;
    for (unsigned k = 0; k < 250; k++) {
        expect(p[k] == 0);
        p[k] = k;
    }
    p = (unsigned *)mm_realloc(p, 40000);
    expect(p != NULL);
    for (unsigned k = 0; p != NULL && k < 250; k++) expect(p[k] == k);
    free(p);
    expect(mm_calloc((size_t)1 << 40, (size_t)1 << 40) == NULL); /* overflows */
}

static __global__ void too_much(size_t bytes) { expect(malloc(bytes) == NULL); }

/* Each of the three misuses must be counted once. */
static __global__ void misuse(char *foreign) {
    char *p = (char *)malloc(64), *neighbour = (char *)malloc(64);
    expect(p != NULL && neighbour != NULL);
    free(foreign);
    free(p + 16);
    free(p);
    free(p);
    free(neighbour);
}

static void one_thread(void) {
    char *foreign;
    const unsigned long long most = device_bytes() / 8;
    large<<<1, 1>>>(most < LARGE_BYTES_MOST ? most : LARGE_BYTES_MOST);
    check_kernel("large ones, to 1/8 of the device");
    aligned<<<1, 1>>>();
    check_kernel("aligned to 16 B to 1 MiB");
    by_new<<<1, 1>>>();
    check_kernel("new and delete");
    struct mm_statistics s = statistics();
    check(misuses(&s) == 0 && s.null_count == 0, "no misuse, no NULL", "%llu, %llu", misuses(&s), s.null_count);
    too_much<<<1, 1>>>(device_bytes() * 2);
    check_kernel("NULL for more than the device has");
    s = statistics();
    check(s.null_count == 1, "NULLs are counted", "%llu; expected 1", s.null_count);
    MUST(cudaMalloc((void **)&foreign, 64));
    misuse<<<1, 1>>>(foreign);
    check_kernel("misuse does no harm");
    s = statistics();
    check(s.misuse_foreign == 1 && s.misuse_interior == 1 && misuses(&s) == 3, "misuse is counted",
          "%llu foreign, %llu interior, %llu in all; expected 1, 1, 3", s.misuse_foreign, s.misuse_interior, misuses(&s));
    MUST(cudaFree(foreign));
    check_live(0, "all given back");
}

static void header(void) {
    others<<<1, 1>>>();
    check_kernel("calloc and realloc");
}

/* ---- growing, giving back, reset ---------------------------------------------------------------- */

static __global__ void take(unsigned **all, unsigned n) {
    const unsigned i = thread_idx();
    if (i >= n) return;
    all[i] = (unsigned *)malloc(GROWN_BYTES);
    expect(all[i] != NULL);
    if (all[i] != NULL) all[i][0] = all[i][GROWN_BYTES / 4 - 1] = i;
}

static __global__ void give(unsigned **all, unsigned n) {
    const unsigned i = thread_idx();
    if (i >= n || all[i] == NULL) return;
    expect(all[i][0] == i && all[i][GROWN_BYTES / 4 - 1] == i);
    free(all[i]);
}

/* The heap has grown, and all of it is free. A cudaMalloc of more than the device has free must get some of the heap's memory. */
static void gives_back(unsigned long long heap_bytes) {
    void *theirs = NULL;
    const size_t available = device_free_bytes(), wanted = available + (size_t)(heap_bytes / 4);
    const double begin = now_s();
    const cudaError_t error = cudaMalloc(&theirs, wanted);
    check(error == cudaSuccess, "cudaMalloc gets free heap memory", "%.0f MB of which %.0f were free, %.1f ms: %s", (double)wanted / MB, (double)available / MB,
          (now_s() - begin) * 1e3, cudaGetErrorString(error));
    if (error != cudaSuccess) cudaGetLastError(); /* reported above; clear it */
    MUST(cudaFree(theirs));
}

static void growing(void) {
    const size_t most = device_bytes() / 4 / GROWN_BYTES;
    const unsigned n = most < GROWN_OBJECTS ? (unsigned)most : GROWN_OBJECTS;
    unsigned **all, word = 0;
    void *first;
    MUST(cudaMalloc((void **)&all, n * sizeof *all));
    double begin = now_s();
    take<<<ctas(n), CTA_THREADS>>>(all, n);
    const unsigned found = wrong_so_far("growing");
    check(found == 0, "1 KiB each, the heap grows", "%u objects, %u NULL, %.1f ms", n, found, (now_s() - begin) * 1e3);
    const unsigned long long grown = statistics().heap_bytes;
    figure("the heap", "%.0f MB", (double)grown / MB);
    MUST(cudaMemcpy(&first, all + n - 1, sizeof first, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(&word, first, sizeof word, cudaMemcpyDeviceToHost));
    check(word == n - 1, "cudaMemcpy from an object", "%u; expected %u", word, n - 1);
    begin = now_s();
    give<<<ctas(n), CTA_THREADS>>>(all, n);
    check_kernel("their patterns");
    figure("freed in", "%.1f ms", (now_s() - begin) * 1e3);
    check_live(0, "all given back");
    gives_back(grown);
    take<<<ctas(n), CTA_THREADS>>>(all, n);
    check_kernel("grows again");
    check(mm_reset() == MM_OK, "mm_reset", "takes %u objects back", n);
    check_live(0, "after mm_reset");
    take<<<ctas(n), CTA_THREADS>>>(all, n);
    give<<<ctas(n), CTA_THREADS>>>(all, n);
    check_kernel("works after mm_reset");
    check_live(0, "all given back");
    MUST(cudaFree(all));
}

void part_core(void) {
    struct cudaFuncAttributes kernel;
    setenv("MM_ON_MISUSE", "ignore", 1); /* deliberate misuse: counted, but not reported */
    MUST(cudaFuncGetAttributes(&kernel, (const void *)take));
    figure("code", "%s of sm_%d", kernel.ptxVersion == kernel.binaryVersion ? "machine code" : "the driver's, from PTX", kernel.ptxVersion);
    const double begin = now_s();
    take<<<1, 1>>>(NULL, 0);
    check_kernel("a heap is made");
    figure("in", "%.1f ms", (now_s() - begin) * 1e3);
    sizes();
    header();
    one_thread();
    growing();
    const struct mm_statistics s = statistics();
    check(misuses(&s) == 0, "no misuse since", "%llu", misuses(&s));
}
