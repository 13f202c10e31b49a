/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Two images with different allocators in one process: this file is compiled twice, with and without -DSECOND, by mmnvcc with two allocators. Each part
 * has kernels and a heap. The program exits with 0 if each heap serves its part, and a pointer of the other part is foreign and harms nothing. */
#include <cuda_runtime.h>
#include <mm.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long word;
enum { THREADS = 64 * 1024, CTA = 256 };

/* What a part offers; each function launches one kernel in `stream`. */
struct part {
    void (*get)(cudaStream_t stream, char **p, unsigned count, word bytes, unsigned char value); /* NULL stays NULL */
    void (*check)(cudaStream_t stream, char *const *p, unsigned count, word bytes, unsigned char value, unsigned *wrong);
    void (*give)(cudaStream_t stream, char *const *p, unsigned count);
};

#ifdef SECOND
#define PART second_part
#else
#define PART first_part
#endif
extern const struct part first_part, second_part;

static __device__ word bytes_of(unsigned i, word bytes) { return bytes ? bytes : 1 + i % 3000; } /* 0: many sizes */

static __global__ void get(char **p, unsigned count, word bytes, unsigned char value) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const word n = bytes_of(i, bytes);
    p[i] = (char *)malloc(n);
    if (p[i]) p[i][0] = p[i][n / 2] = p[i][n - 1] = (char)(value + i);
}
static __global__ void check(char *const *p, unsigned count, word bytes, unsigned char value, unsigned *wrong) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const word n = bytes_of(i, bytes);
    const char is = (char)(value + i);
    if (!p[i] || p[i][0] != is || p[i][n / 2] != is || p[i][n - 1] != is) atomicAdd(wrong, 1);
}
static __global__ void give(char *const *p, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) free(p[i]);
}

static unsigned grid(unsigned count) { return (count + CTA - 1) / CTA; }
static void host_get(cudaStream_t s, char **p, unsigned count, word bytes, unsigned char value) { get<<<grid(count), CTA, 0, s>>>(p, count, bytes, value); }
static void host_check(cudaStream_t s, char *const *p, unsigned count, word bytes, unsigned char value, unsigned *wrong) {
    check<<<grid(count), CTA, 0, s>>>(p, count, bytes, value, wrong);
}
static void host_give(cudaStream_t s, char *const *p, unsigned count) { give<<<grid(count), CTA, 0, s>>>(p, count); }
extern const struct part PART = {host_get, host_check, host_give};

#ifndef SECOND

static char **list[2]; /* pointers of both parts */
static unsigned *wrong;
static cudaStream_t stream[2];
static const struct part *const parts[2] = {&first_part, &second_part};

#define REQUIRE(condition)                                               \
    do {                                                                 \
        if (!(condition)) {                                              \
            fprintf(stderr, "two: line %d: " #condition "\n", __LINE__); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

static void synchronize(void) {
    const cudaError_t e = cudaDeviceSynchronize();
    if (e != cudaSuccess) fprintf(stderr, "two: %s\n", cudaGetErrorString(e));
    REQUIRE(e == cudaSuccess && cudaGetLastError() == cudaSuccess);
}
static struct mm_statistics counts(void) {
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    REQUIRE(mm_get_statistics(&s) == MM_OK);
    return s;
}
/* Both parts at once, each in its stream. */
static void get_both(unsigned count, word bytes) {
    for (int k = 0; k < 2; k++) parts[k]->get(stream[k], list[k], count, bytes, (unsigned char)(100 * k));
    synchronize();
}
static void are_intact(unsigned count, word bytes) {
    for (int k = 0; k < 2; k++) parts[1 - k]->check(stream[k], list[k], count, bytes, (unsigned char)(100 * k), wrong);
    synchronize();
    REQUIRE(*wrong == 0);
}
static void give_both(bool is_crossed, unsigned count) {
    for (int k = 0; k < 2; k++) parts[is_crossed ? 1 - k : k]->give(stream[k], list[k], count);
    synchronize();
}

int main(void) {
    REQUIRE(cudaMallocManaged(&wrong, sizeof *wrong) == cudaSuccess);
    *wrong = 0;
    for (int k = 0; k < 2; k++) {
        REQUIRE(cudaMalloc(&list[k], THREADS * sizeof **list) == cudaSuccess);
        REQUIRE(cudaStreamCreateWithFlags(&stream[k], cudaStreamNonBlocking) == cudaSuccess);
    }
    for (int round = 0; round < 3; round++) {
        get_both(THREADS, 0);
        are_intact(THREADS, 0);
        give_both(true, THREADS); /* in the wrong image: nothing happens but reports */
        struct mm_statistics s = counts();
        REQUIRE(s.misuse_foreign == 2ull * THREADS && s.null_count == 0);
        are_intact(THREADS, 0);
        give_both(false, THREADS);
        s = counts();
        REQUIRE(s.misuse_foreign == 2ull * THREADS && s.misuse_not_allocated + s.misuse_interior + s.misuse_never + s.misuse_double_free == 0);
        get_both(2048, 1 << 20); /* both heaps grow while both kernels run */
        are_intact(2048, 1 << 20);
        s = counts();
        REQUIRE(s.heap_bytes >= 2ull * 2048 << 20 && s.null_count == 0);
        REQUIRE(mm_reset() == MM_OK);
        s = counts();
        REQUIRE(s.misuse_foreign == 0 && s.heap_bytes >= 2ull * 2048 << 20);
    }
    get_both(THREADS, 64);
    give_both(false, THREADS);
    REQUIRE(cudaDeviceReset() == cudaSuccess);
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    REQUIRE(mm_get_statistics(&s) == MM_ERROR_NO_HEAP);
    return 0;
}

#endif
