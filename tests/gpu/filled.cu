/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* filled zero|junk: checks that all memory from malloc is filled with that, whatever it held before (MM_FILL; checked runs). Prints
 * "filled: N wrong", and exits with 1 if N is not 0. */
#include <cuda_runtime.h>
#include <mm.h>
#include <new>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_OK(call)                                                               \
    do {                                                                            \
        const cudaError_t error_ = (call);                                          \
        if (error_ != cudaSuccess) {                                                \
            fprintf(stderr, "filled: %s: %s\n", #call, cudaGetErrorString(error_)); \
            exit(3);                                                                \
        }                                                                           \
    } while (0)

#define CTAS 64
#define THREADS 256
#define ROUNDS 8
#define LARGE ((size_t)9 << 20)
#define LARGE_STEP 4093 /* distance of the bytes checked in a large allocation; odd, so that every offset in a word is checked */
#define JUNK 0xcd

static __device__ unsigned long long wrong;

/* Checks that bytes [from, to) of p, every step-th and the last, are `byte`; then overwrites them, from byte 0 on. */
static __device__ void expect(unsigned char *p, size_t from, size_t to, size_t step, int byte) {
    unsigned bad = p == NULL;
    for (size_t k = from; p != NULL && k < to; k += step) bad += p[k] != byte;
    if (p != NULL && from < to) bad += p[to - 1] != byte;
    for (size_t k = 0; p != NULL && k < to; k += step) p[k] = 0x5a;
    if (p != NULL && to > 0) p[to - 1] = 0x5a;
    if (bad) atomicAdd(&wrong, (unsigned long long)bad);
}

__global__ void small(int byte) {
    const unsigned i = blockIdx.x * THREADS + threadIdx.x;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const size_t n = 1 + (i * 2654435761u + round * 40503u) % (round % 2 ? 300 : 5000);
        unsigned char *p = (unsigned char *)malloc(n), *q = new unsigned char[n];
        unsigned char *a = (unsigned char *)__nv_aligned_device_malloc(n, (size_t)16 << round);
        expect(p, 0, mm_usable_size(p), 1, byte);
        expect(q, 0, n, 1, byte);
        expect(a, 0, mm_usable_size(a), 1, byte);
        free(a);
        delete[] q;
        free(p);
        unsigned char *c = (unsigned char *)mm_calloc(n, 1);
        expect(c, 0, n, 1, 0);
        /* grows in place as far as possible, then moves: new bytes are filled, and unwritten bytes keep their filling */
        unsigned char *r = (unsigned char *)mm_realloc(NULL, n);
        const size_t usable = mm_usable_size(r);
        for (size_t k = 0; k < n; k++) r[k] = 0x33;
        r = (unsigned char *)mm_realloc(r, usable);
        r = (unsigned char *)mm_realloc(r, 2 * usable + 100);
        expect(r, n, 2 * usable + 100, 1, byte);
        free(c);
        free(r);
    }
}

__global__ void large(int byte) {
    for (int round = 0; round < 2; round++) {
        unsigned char *p = (unsigned char *)malloc(LARGE + 5), *a = (unsigned char *)__nv_aligned_device_malloc(100, LARGE / 9 * 8);
        expect(p, 0, mm_usable_size(p), LARGE_STEP, byte);
        expect(a, 0, 100, 1, byte);
        free(p);
        free(a);
        unsigned char *c = (unsigned char *)mm_calloc(LARGE, 1);
        expect(c, 0, LARGE, LARGE_STEP, 0);
        free(c);
    }
}

int main(int argc, char **argv) {
    unsigned long long n = 0;
    if (argc != 2 || (strcmp(argv[1], "zero") != 0 && strcmp(argv[1], "junk") != 0)) {
        fprintf(stderr, "usage: filled zero|junk\n");
        return 2;
    }
    const int byte = strcmp(argv[1], "junk") == 0 ? JUNK : 0;
    for (int i = 0; i < 2; i++) {
        small<<<CTAS, THREADS>>>(byte);
        CUDA_OK(cudaGetLastError());
        large<<<1, 1>>>(byte);
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaDeviceSynchronize());
    }
    CUDA_OK(cudaMemcpyFromSymbol(&n, wrong, sizeof n));
    printf("filled: %llu wrong\n", n);
    return n != 0;
}
