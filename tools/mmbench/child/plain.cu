/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels that allocate nothing. */
#include <assert.h>
#include <stdlib.h>

#include "tools/mmbench/child/converged.h"
#include "tools/mmbench/child/lists_check.h"
#include "tools/mmbench/child/rmat.h"

static __global__ void empty_kernel(void) {}

void plain_empty(void) { empty_kernel<<<1, 1>>>(); }

/* ---- filling and checking: one CTA per allocation ----------------------------------------------- */

/* Word `word` of ask i in that round. The patterns of two asks differ in every word, wherever they overlap. */
static __device__ unsigned pattern(unsigned i, unsigned round, unsigned long long word) {
    return mix(i ^ mix(round + 0x51ed270bu)) + (unsigned)word * 0x9e3779b1u;
}

static __device__ unsigned char pattern_byte(unsigned i, unsigned round, unsigned long long byte) {
    return (unsigned char)(pattern(i, round, byte / 4) >> byte % 4 * 8);
}

static __global__ void fill_kernel(void **pointers, struct asks a, const unsigned *rounds, int only_round, int first_word_only) {
    const unsigned i = blockIdx.x, round = rounds ? rounds[i] : 0;
    unsigned char *p = (unsigned char *)pointers[i];
    if (p == NULL || ((size_t)p & 15) != 0 || (only_round >= 0 && round != (unsigned)only_round)) return;
    const unsigned long long bytes = first_word_only ? 4 : ask_bytes(&a, i, round);
    for (unsigned long long word = threadIdx.x; word < bytes / 4; word += blockDim.x) ((unsigned *)p)[word] = pattern(i, round, word);
    if (threadIdx.x < bytes % 4) p[bytes / 4 * 4 + threadIdx.x] = pattern_byte(i, round, bytes / 4 * 4 + threadIdx.x);
}

static __global__ void check_kernel(void **pointers, struct asks a, const unsigned *rounds, int first_word_only, struct tally *t) {
    const unsigned i = blockIdx.x, round = rounds ? rounds[i] : 0;
    const unsigned char *p = (const unsigned char *)pointers[i];
    int bad = ((size_t)p & 15) != 0;
    if (p != NULL && !bad) {
        const unsigned long long bytes = first_word_only ? 4 : ask_bytes(&a, i, round);
        for (unsigned long long word = threadIdx.x; word < bytes / 4; word += blockDim.x) bad |= ((const unsigned *)p)[word] != pattern(i, round, word);
        if (threadIdx.x < bytes % 4) bad |= p[bytes / 4 * 4 + threadIdx.x] != pattern_byte(i, round, bytes / 4 * 4 + threadIdx.x);
    }
    bad = __syncthreads_or(bad);
    if (threadIdx.x != 0) return;
    if (p == NULL) atomicAdd(&t->nulls, 1ull);
    if (bad) atomicAdd(&t->corrupt, 1ull);
}

static unsigned threads_for(const struct asks *a) { return a->size > 16384 ? 1024 : WARP_THREADS; }

void plain_fill(void **pointers, const struct asks *a, const unsigned *rounds, int only_round, int first_word_only) {
    fill_kernel<<<a->count, threads_for(a)>>>(pointers, *a, rounds, only_round, first_word_only);
}

void plain_check(void **pointers, const struct asks *a, const unsigned *rounds, int first_word_only, struct tally *t) {
    check_kernel<<<a->count, threads_for(a)>>>(pointers, *a, rounds, first_word_only, t);
}

/* ---- where the live allocations lie ------------------------------------------------------------- */

static __global__ void bounds_kernel(void **pointers, struct asks a, const unsigned *rounds, struct tally *t) {
    const unsigned i = thread_idx();
    if (i >= a.count) return;
    const unsigned long long p = (unsigned long long)pointers[i];
    if (p == 0) {
        atomicAdd(&t->nulls, 1ull);
        return;
    }
    const unsigned long long bytes = ask_bytes(&a, i, rounds ? rounds[i] : 0);
    atomicAdd(&t->bytes, bytes);
    atomicMin(&t->lowest, p);
    atomicMax(&t->end, p + bytes);
}

void plain_bounds(void **pointers, const struct asks *a, const unsigned *rounds, struct tally *t) {
    bounds_kernel<<<(a->count + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS>>>(pointers, *a, rounds, t);
}

static __global__ void pages_kernel(void **pointers, struct asks a, const unsigned *rounds, unsigned long long base, unsigned *bits, unsigned pages) {
    const unsigned i = thread_idx();
    if (i >= a.count || pointers[i] == NULL) return;
    const unsigned long long first = (unsigned long long)pointers[i] - base;
    const unsigned long long last = first + ask_bytes(&a, i, rounds ? rounds[i] : 0) - 1;
    for (unsigned long long page = first >> 21; page <= last >> 21 && page < pages; page++) {
        const unsigned bit = 1u << page % 32;
        if ((*(volatile unsigned *)&bits[page / 32] & bit) == 0) atomicOr(&bits[page / 32], bit);
    }
}

void plain_pages(void **pointers, const struct asks *a, const unsigned *rounds, unsigned long long base, unsigned *bits, unsigned pages) {
    pages_kernel<<<(a->count + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS>>>(pointers, *a, rounds, base, bits, pages);
}

/* ---- footprint ---------------------------------------------------------------------------------- */

static __global__ void assert_kernel(const unsigned *rounds, struct asks a, unsigned round) {
    const unsigned i = thread_idx();
    if (i < a.count) assert(rounds[i] <= round && "no slot is of a later round");
}

void plain_assert(const unsigned *rounds, const struct asks *a, unsigned round) {
    assert_kernel<<<(a->count + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS>>>(rounds, *a, round);
}

/* ---- converged ---------------------------------------------------------------------------------- */

static __global__ void converged_kernel(struct lane_note *notes) {
    struct lane_note *note = &notes[thread_idx()];
    note->after_malloc = note->after_free = note->nulls = 0;
    converged_arithmetic(note);
}

void plain_converged(struct lane_note *notes, unsigned threads) { converged_kernel<<<threads / CONVERGED_CTA_THREADS, CONVERGED_CTA_THREADS>>>(notes); }

/* ---- the graph ---------------------------------------------------------------------------------- */

static __global__ void rmat_kernel(struct edge *edges, unsigned scale, unsigned count) {
    const unsigned i = thread_idx();
    if (i < count) edges[i] = rmat_edge(scale, i);
}

void plain_rmat(struct edge *edges, unsigned scale, unsigned count) {
    rmat_kernel<<<(count + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS>>>(edges, scale, count);
}

void plain_lists_check(const struct list *lists, const struct list_sum *expected, unsigned vertices, struct tally *t) {
    lists_check_kernel<<<vertices, WARP_THREADS>>>(lists, expected, t);
}

/* ---- floors ------------------------------------------------------------------------------------- */

#define FLOOR_SMS 1024 /* no GPU has more */
#define FLOOR_SLICE 16

/* The least that a block needs: a count, and the address of its slices. Alone in a cache line of 128 bytes. */
struct floor_block {
    unsigned long long count;
    char *base;
    unsigned long long padding[14];
};

struct floor_memory {
    void **pointers;            /* one per ask */
    struct floor_block *blocks; /* FLOOR_SMS of them */
    struct floor_block **open;  /* one per SM */
    unsigned *bits;             /* one per ask */
};

static __global__ void open_kernel(struct floor_block *blocks, struct floor_block **open) {
    const unsigned i = threadIdx.x;
    blocks[i].base = (char *)((size_t)(i + 1) << 32); /* not mapped: it is only stored */
    open[i] = &blocks[i];
}

struct floor_memory *floor_open(unsigned count) {
    struct floor_memory *m = (struct floor_memory *)malloc(sizeof *m);
    if (m == NULL) child_must(cudaErrorMemoryAllocation);
    m->pointers = (void **)child_device_alloc(count * sizeof(void *));
    m->blocks = (struct floor_block *)child_device_alloc(FLOOR_SMS * sizeof *m->blocks);
    m->open = (struct floor_block **)child_device_alloc(FLOOR_SMS * sizeof *m->open);
    m->bits = (unsigned *)child_device_alloc((count / 32 + 2) * sizeof *m->bits);
    open_kernel<<<1, FLOOR_SMS>>>(m->blocks, m->open);
    return m;
}

void floor_close(struct floor_memory *m) {
    child_must(cudaFree(m->pointers));
    child_must(cudaFree(m->blocks));
    child_must(cudaFree(m->open));
    child_must(cudaFree(m->bits));
    free(m);
}

static __global__ void store_kernel(void **pointers, struct asks a) {
    const unsigned i = ask_idx(&a);
    if (i < a.count) pointers[i] = (void *)((size_t)i * FLOOR_SLICE);
}

static __global__ void atomic_kernel(void **pointers, struct floor_block **open, struct asks a) {
    const unsigned i = ask_idx(&a);
    if (i >= a.count) return;
    const unsigned active = __activemask(), lane = threadIdx.x % WARP_THREADS, leader = __ffs(active) - 1;
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    struct floor_block *block = *(struct floor_block *volatile *)&open[sm % FLOOR_SMS];
    unsigned long long first = 0;
    if (lane == leader) first = atomicAdd(&block->count, (unsigned long long)__popc(active));
    first = __shfl_sync(active, first, leader);
    pointers[i] = block->base + (first + __popc(active & ((1u << lane) - 1))) * FLOOR_SLICE;
}

/* After floor_store, the pointers of a warp share a word of the bitmap. */
static __global__ void bitmap_kernel(void **pointers, unsigned *bits, struct asks a) {
    const unsigned i = ask_idx(&a);
    if (i >= a.count) return;
    const unsigned active = __activemask(), lane = threadIdx.x % WARP_THREADS, leader = __ffs(active) - 1;
    const size_t slice = (size_t)pointers[i] / FLOOR_SLICE;
    const unsigned first = __shfl_sync(active, (unsigned)slice % 32, leader); /* the bits of the other lanes follow it */
    if (lane == leader) atomicOr(&bits[slice / 32], active >> leader << first);
}

void floor_store(struct floor_memory *m, const struct asks *a) { store_kernel<<<ask_ctas(a), CTA_THREADS>>>(m->pointers, *a); }

void floor_atomic(struct floor_memory *m, const struct asks *a) { atomic_kernel<<<ask_ctas(a), CTA_THREADS>>>(m->pointers, m->open, *a); }

void floor_bitmap(struct floor_memory *m, const struct asks *a) { bitmap_kernel<<<ask_ctas(a), CTA_THREADS>>>(m->pointers, m->bits, *a); }

static __global__ void latency_kernel(unsigned *word, unsigned *cycles, unsigned count) {
    unsigned zero = 0;
    for (unsigned i = 0; i < count; i++) {
        const long long begin = clock64();
        zero = atomicAdd(word + zero, 0u);
        if (zero != 0) return; /* never taken, but makes the thread wait for the result */
        cycles[i] = (unsigned)(clock64() - begin);
    }
}

void floor_latency(struct floor_memory *m, unsigned *cycles, unsigned count) {
    child_must(cudaMemset(m->bits, 0, sizeof *m->bits));
    latency_kernel<<<1, 1>>>(m->bits, cycles, count);
}
