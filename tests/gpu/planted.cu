/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A program with planted faults, for tests/gpu/planted.sh: planted KIND..., planted in the order given. Kinds: nothing, leaks, overruns, twice, after-free,
 * null, streams, memsets. Plain CUDA, so that it also runs with CUDA's allocator. */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_OK(call)                                                                \
    do {                                                                             \
        const cudaError_t error_ = (call);                                           \
        if (error_ != cudaSuccess) {                                                 \
            fprintf(stderr, "planted: %s: %s\n", #call, cudaGetErrorString(error_)); \
            exit(3);                                                                 \
        }                                                                            \
    } while (0)

#define THREADS 64
__device__ char *kept[THREADS];

__global__ void make(size_t bytes) { kept[threadIdx.x] = (char *)malloc(bytes); }
__global__ void give_back(void) { free(kept[threadIdx.x]); }
/* `count` threads each write their object's byte `at`. */
__global__ void write_at(size_t at, unsigned count) {
    if (threadIdx.x < count) kept[threadIdx.x][at]++;
}
__global__ void give_back_some(unsigned count) {
    if (threadIdx.x < count) free(kept[threadIdx.x]);
}
struct node {
    struct node *next;
    char payload[96];
};
/* Lists whose heads are lost: every thread leaks `length` nodes of 104 bytes. */
__global__ void lose(unsigned length) {
    struct node *list = NULL;
    for (unsigned i = 0; i < length; i++) {
        struct node *n = (struct node *)malloc(sizeof *n);
        n->next = list;
        list = n;
    }
}
template <typename T> __global__ void lose_one(void) { new T; }
struct large {
    char bytes[3000];
};

static void leaks(void) {
    lose<<<1, THREADS>>>(10);
    lose_one<large><<<1, 7>>>();
    make<<<1, 32>>>(2000);
    give_back_some<<<1, 32>>>(20);
}
static void overruns(void) {
    make<<<1, 5>>>(24);
    write_at<<<1, 5>>>(24, 3);
    give_back<<<1, 5>>>();
}
static void twice(void) {
    make<<<1, 6>>>(200);
    give_back<<<1, 6>>>();
    give_back_some<<<1, 6>>>(4);
}
static void after_free(void) {
    make<<<1, 6>>>(48);
    give_back<<<1, 6>>>();
    write_at<<<1, 6>>>(8, 2);
}
static void nothing(void) {
    make<<<1, THREADS>>>(300);
    write_at<<<1, THREADS>>>(299, THREADS);
    give_back<<<1, THREADS>>>();
}
/* Four threads, each with its own stream: which kernel leaks what. `is_disturbed`: also with memsets. */
template <int n> struct sized { char bytes[n]; };
static bool is_disturbed;
static void *work(void *memory) {
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 500; i++) {
        lose_one<sized<1000>><<<1, 1, 0, stream>>>();
        lose_one<sized<2000>><<<1, 1, 0, stream>>>();
        if (is_disturbed && i % 100 == 50) CUDA_OK(cudaMemsetAsync(memory, i, 1 << 20, stream));
    }
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaStreamDestroy(stream));
    return NULL;
}
static void streams(void) {
    pthread_t thread[4];
    void *memory;
    CUDA_OK(cudaMalloc(&memory, 1 << 20));
    make<<<1, 1>>>(1); /* creates the heap before the threads start */
    give_back<<<1, 1>>>();
    for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, work, memory);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
}
static void memsets(void) {
    is_disturbed = true;
    streams();
}
static void null(void) { make<<<1, 1>>>((size_t)1 << 50); }

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*plant)(void);
    } kinds[] = {{"nothing", nothing},       {"leaks", leaks}, {"overruns", overruns}, {"twice", twice},
                 {"after-free", after_free}, {"null", null},   {"streams", streams},   {"memsets", memsets}};
    CUDA_OK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 64 << 20));
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (strcmp(argv[i], kinds[k].name) == 0) {
                kinds[k].plant();
                CUDA_OK(cudaGetLastError());
                CUDA_OK(cudaDeviceSynchronize());
            }
    puts("planted");
    if (argc > 1 && strcmp(argv[argc - 1], "reset") == 0) CUDA_OK(cudaDeviceReset());
    return 0;
}
