/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Compares mm_get_usage with an account that the program keeps: over ten million calls, with no kernel running and next to a
 * kernel. */
#include <mm.h>

#include <string.h>

#define MM_TEST_OUTSIDE
#include "tests/gpu/support.h"

#define THREADS 131072
#define HELD 8
#define OPERATIONS 80 /* per thread: 10,485,760 in all */
#define CLASSES 80

/* The size that a request takes, according to docs/reference/contract.md: classes are 16, 32, 48, 64 bytes and four per doubling, slices begin at
 * multiples of 32. Independent of the allocator's own arithmetic. */
__host__ __device__ static unsigned long long granted(unsigned long long n) {
    unsigned long long size = 16, step = 16;
    while (size < n || size % 32) {
        size += step;
        if (size >= 8 * step) step *= 2;
    }
    return size;
}

struct account {
    unsigned long long operations, nulls, wrong, asked;
    unsigned long long sizes[CLASSES]; /* set by the host beforehand */
    unsigned long long live[CLASSES], spans, span_bytes, runs, run_bytes;
};

__device__ static unsigned next(unsigned *state) {
    *state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
    return *state;
}

__device__ static void note(struct account *a, size_t bytes, unsigned long long sign) {
    if (bytes > 56u * (16u << 10)) {
        const unsigned long long segments = (bytes + (1u << 20) - 1) >> 20;
        atomicAdd(&a->runs, sign), atomicAdd(&a->run_bytes, sign * (segments << 20));
        return;
    }
    if (bytes > 64u << 10) {
        const unsigned long long least = (bytes + (16u << 10) - 1) >> 14;
        unsigned long long pages = 4, step = 1; /* 5, 6, 7, 8, 10, 12, ... */
        while (pages < least) pages += step, step += pages == 8 * step ? step : 0;
        atomicAdd(&a->spans, sign), atomicAdd(&a->span_bytes, sign * (pages << 14));
        return;
    }
    const unsigned long long size = granted(bytes);
    for (int c = 0; c < CLASSES; c++)
        if (a->sizes[c] == size) atomicAdd(&a->live[c], sign);
}

struct held {
    void *p;
    unsigned long long bytes;
};

__global__ void work(struct account *a, struct held *held, unsigned seed, int frees_in_16) {
    const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned state = (t + 1) * 2654435761u ^ seed;
    struct held *mine = held + t * HELD;
    for (int i = 0; i < OPERATIONS; i++) {
        struct held *h = &mine[next(&state) % HELD];
        if (h->p && (int)(next(&state) % 16) < frees_in_16) {
            free(h->p);
            note(a, h->bytes, ~0ull);
            h->p = NULL;
        } else if (!h->p) {
            const unsigned sort = next(&state) % 4096;
            h->bytes = sort == 0 ? (2u << 20) + 1 + next(&state) % (8u << 20) : sort < 8 ? next(&state) % 300000 : next(&state) % 600;
            h->p = malloc(h->bytes);
            if (!h->p) atomicAdd(&a->nulls, 1ull);
            else note(a, h->bytes, 1ull);
        } else {
            continue;
        }
        atomicAdd(&a->operations, 1ull);
    }
}

static void agrees(const struct account *a) {
    struct mm_usage_statistics u;
    u.struct_bytes = sizeof u;
    ck_assert_int_eq(mm_get_usage(&u), MM_OK);
    unsigned long long objects = a->runs + a->spans, bytes = a->run_bytes + a->span_bytes;
    for (int c = 0; c < CLASSES && a->sizes[c]; c++) {
        unsigned long long live = 0;
        for (size_t i = 0; i < u.class_count; i++)
            if (u.classes[i].slice_bytes == a->sizes[c]) live = u.classes[i].live_objects;
        ck_assert_msg(live == a->live[c], "class %llu: %llu live, the program has %llu", a->sizes[c], live, a->live[c]);
        objects += live, bytes += live * a->sizes[c];
    }
    ck_assert_uint_eq(u.runs, a->runs);
    ck_assert_uint_eq(u.spans, a->spans);
    ck_assert_uint_eq(u.span_pages * u.page_bytes, a->span_bytes);
    ck_assert_uint_eq(u.run_segments * u.segment_bytes, a->run_bytes);
    ck_assert_uint_eq(u.live_objects, objects);
    ck_assert_uint_eq(u.live_bytes, bytes);
    ck_assert_uint_eq((u.paged_segments + u.run_segments + u.free_segments + u.spare_segments) * u.segment_bytes, u.heap_bytes);
    ck_assert(u.peak_heap_bytes >= u.heap_bytes);
}

START_TEST(test_account) {
    struct account *a = NULL, host;
    struct held *held = NULL;
    unsigned long long operations = 0;
    CUDA_OK(cudaMalloc(&a, sizeof *a));
    CUDA_OK(cudaMalloc(&held, sizeof *held * THREADS * HELD));
    CUDA_OK(cudaMemset(held, 0, sizeof *held * THREADS * HELD));
    memset(&host, 0, sizeof host);
    int n = 0;
    for (unsigned long long size = granted(1); size <= 64u << 10; size = granted(size + 1)) host.sizes[n++] = size;
    CUDA_OK(cudaMemcpy(a, &host, sizeof host, cudaMemcpyHostToDevice));
    for (int round = 0; round < 5; round++) {
        work<<<THREADS / 256, 256>>>(a, held, 12345u + round, round % 2 ? 14 : 4);
        CUDA_OK(cudaDeviceSynchronize());
        CUDA_OK(cudaMemcpy(&host, a, sizeof host, cudaMemcpyDeviceToHost));
        ck_assert_uint_eq(host.nulls, 0);
        agrees(&host);
        operations = host.operations;
    }
    ck_assert_msg(operations >= 10000000, "%llu operations only", operations);
    unsigned long long live = host.runs + host.spans;
    for (int c = 0; c < CLASSES; c++) live += host.live[c];
    printf("%llu calls of malloc and free, %llu objects live at the end: every class agrees\n", operations, live);
    work<<<THREADS / 256, 256>>>(a, held, 1, 8); /* next to a kernel: approximate, and harmless */
    struct mm_usage_statistics u;
    u.struct_bytes = sizeof u;
    for (int i = 0; i < 20; i++) ck_assert_int_eq(mm_get_usage(&u), MM_OK);
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaMemcpy(&host, a, sizeof host, cudaMemcpyDeviceToHost));
    agrees(&host);
}
END_TEST

int main(void) {
    Suite *s = suite_create("usage");
    add_test(s, "account", test_account);
    return run_suite(s);
}
