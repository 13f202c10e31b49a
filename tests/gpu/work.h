/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the kernels of the GPU suites. */
#ifndef MM_TESTS_GPU_WORK_H
#define MM_TESTS_GPU_WORK_H

#include "runtime/heap.h"

/* Real calls, not inlined, as in programs. */
static __device__ __noinline__ void *heap_malloc(const struct mm_heap_ref *ref, uint64_t bytes) { return mm_heap_malloc(ref, bytes); }
static __device__ __noinline__ void heap_free(const struct mm_heap_ref *ref, void *p) { mm_heap_free(ref, p); }

struct tally {
    unsigned nulls, corrupt;
    unsigned long long bytes;
};

static __device__ unsigned thread_index(void) { return blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ unsigned mix(unsigned x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

/* The payload of word `at` of an allocation of `bytes` at p. */
static __device__ uint64_t payload_key(const uint64_t *p, uint64_t at, uint64_t bytes) {
    const uint64_t x = ((uint64_t)(p + at) ^ (uint64_t)p << 32 ^ bytes << 44) * 0x9e3779b97f4a7c15ull;
    return x ^ x >> 31;
}

/* Log-uniform, from 16 bytes to below 16 << doublings; a multiple of 8. */
static __device__ unsigned log_uniform(unsigned random, unsigned doublings) {
    const unsigned least = 16u << (random >> 24) % doublings;
    return (least + (random & 0xffffffu) % least) & ~7u;
}

/* Memory passed between threads: the first word holds its size, some others are keyed to address and size. */
#define STAMPS 6u
static __device__ uint64_t stamp_place(uint64_t words, unsigned i) {
    const uint64_t at = i == 0 ? 1 : i == 1 ? words - 1 : words * (i - 1) / 5;
    return at != 0 ? at : words - 1;
}
static __device__ void stamp(uint64_t *p, uint64_t bytes) {
    p[0] = payload_key(p, 0, 0) << 32 | bytes;
    for (unsigned i = 0; i < STAMPS; i++) {
        const uint64_t at = stamp_place(bytes / 8, i);
        p[at] = payload_key(p, at, bytes);
    }
}
/* Whether the stamps are intact. Breaks them, so that a second owner is detected. */
static __device__ int unstamp(uint64_t *p, uint64_t most_bytes) {
    const uint64_t bytes = p[0] & 0xffffffffu;
    if (bytes < 16 || bytes > most_bytes || p[0] != (payload_key(p, 0, 0) << 32 | bytes)) return 0;
    int good = 1;
    for (unsigned i = 0; i < STAMPS; i++) good &= p[stamp_place(bytes / 8, i)] == payload_key(p, stamp_place(bytes / 8, i), bytes);
    p[0] = 0;
    return good;
}
static __device__ int in_heap(const struct mm_heap_ref *ref, const void *p, uint64_t bytes) {
    const uint64_t off = (uint64_t)p - ref->user_base;
    return off % 16 == 0 && off < ref->user_bytes && bytes <= ref->user_bytes - off;
}

#endif
