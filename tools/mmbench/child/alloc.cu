/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels that allocate. They use malloc and free only, and no interface of a particular allocator. */
#include <stdlib.h>

#include "tools/mmbench/child/converged.h"

const char alloc_name[] = ALLOCATOR;

static __global__ void empty_kernel(void) {}

void alloc_empty(void) { empty_kernel<<<1, 1>>>(); }

/* ---- one ask per thread ------------------------------------------------------------------------ */

static __global__ void malloc_kernel(void **pointers, struct asks a) {
    const unsigned i = ask_idx(&a);
    if (i < a.count) pointers[i] = malloc(ask_bytes(&a, i, 0));
}

static __global__ void free_kernel(void **pointers, struct asks a) {
    const unsigned i = ask_idx(&a);
    if (i < a.count) free(pointers[i]);
}

/* A count of 0 only loads the kernel. */
void alloc_malloc(void **pointers, const struct asks *a) { malloc_kernel<<<a->count ? ask_ctas(a) : 1, CTA_THREADS>>>(pointers, *a); }

void alloc_free(void **pointers, const struct asks *a) { free_kernel<<<a->count ? ask_ctas(a) : 1, CTA_THREADS>>>(pointers, *a); }

/* ---- churn ------------------------------------------------------------------------------------ */

static __global__ void churn_kernel(unsigned threads, unsigned rounds, int all, struct tally *t) {
    const unsigned i = thread_idx();
    if (i >= threads) return;
    unsigned nulls = 0, corrupt = 0;
    for (unsigned round = 0; round < rounds; round++) {
        const unsigned words = (16 + mix(i * 0x9e3779b9u + round) % 497) / 4, step = all ? 1 : words - 1;
        volatile unsigned *p = (volatile unsigned *)malloc(words * 4);
        if (p == NULL) {
            nulls++;
            continue;
        }
        unsigned bad = ((size_t)p & 15) != 0;
        for (unsigned w = 0; w < words; w += step) p[w] = i ^ round << 20 ^ w * 0x10001u;
        for (unsigned w = 0; w < words; w += step) bad |= p[w] != (i ^ round << 20 ^ w * 0x10001u);
        corrupt += bad;
        free((void *)p);
    }
    if (nulls) atomicAdd(&t->nulls, nulls);
    if (corrupt) atomicAdd(&t->corrupt, corrupt);
}

void alloc_churn(unsigned threads, unsigned rounds, int all, struct tally *t) {
    churn_kernel<<<(threads + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS>>>(threads, rounds, all, t);
}

/* ---- latency ---------------------------------------------------------------------------------- */

static __device__ unsigned cycles_between(long long begin, long long end) { return end - begin > 0xffffffffll ? 0xffffffffu : (unsigned)(end - begin); }

static __global__ void latency_kernel(struct asks a, unsigned first, unsigned pairs, unsigned *malloc_cycles, unsigned *free_cycles, struct tally *t) {
    const unsigned i = ask_idx(&a);
    if (i >= a.count) return;
    for (unsigned pair = 0; pair < pairs; pair++) {
        const unsigned long long bytes = ask_bytes(&a, i, first + pair);
        const long long begin = clock64();
        volatile unsigned *p = (volatile unsigned *)malloc(bytes);
        if (p == NULL) {
            atomicAdd(&t->nulls, 1ull);
            continue;
        }
        *p = i; /* needs the pointer, so that the clock is read after malloc has returned */
        const long long between = clock64();
        free((void *)p);
        const long long end = clock64();
        malloc_cycles[pair * a.count + i] = cycles_between(begin, between);
        free_cycles[pair * a.count + i] = cycles_between(between, end);
    }
}

/* A count of 0 only loads the kernel. */
void alloc_latency(const struct asks *a, unsigned first, unsigned pairs, unsigned *malloc_cycles, unsigned *free_cycles, struct tally *t) {
    latency_kernel<<<a->count ? ask_ctas(a) : 1, CTA_THREADS>>>(*a, first, pairs, malloc_cycles, free_cycles, t);
}

/* ---- converged: no barrier, since a barrier would make the warp converged again -------------------- */

static __global__ void converged_lane_kernel(struct lane_note *notes, unsigned long long bytes) {
    const unsigned i = thread_idx(), lane = threadIdx.x % WARP_THREADS;
    unsigned after_malloc = 0, after_free = 0, nulls = 0;
    for (unsigned pair = 0; pair < CONVERGED_PAIRS; pair++) {
        volatile unsigned *p = NULL;
        if (lane == 0) p = (volatile unsigned *)malloc(bytes);
        after_malloc = __activemask();
        if (lane == 0) {
            if (p == NULL) nulls++;
            else *p = i;
            free((void *)p);
        }
        after_free = __activemask();
    }
    notes[i].after_malloc = after_malloc, notes[i].after_free = after_free, notes[i].nulls = nulls;
    converged_arithmetic(&notes[i]);
}

static __global__ void converged_all_kernel(struct lane_note *notes, unsigned long long bytes) {
    const unsigned i = thread_idx();
    unsigned after_malloc = 0, after_free = 0, nulls = 0;
    for (unsigned pair = 0; pair < CONVERGED_PAIRS; pair++) {
        volatile unsigned *p = (volatile unsigned *)malloc(bytes);
        after_malloc = __activemask();
        if (p == NULL) nulls++;
        else *p = i;
        free((void *)p);
        after_free = __activemask();
    }
    notes[i].after_malloc = after_malloc, notes[i].after_free = after_free, notes[i].nulls = nulls;
    converged_arithmetic(&notes[i]);
}

void alloc_converged_lane(struct lane_note *notes, unsigned threads, unsigned long long bytes) {
    converged_lane_kernel<<<threads / CONVERGED_CTA_THREADS, CONVERGED_CTA_THREADS>>>(notes, bytes);
}

void alloc_converged_all(struct lane_note *notes, unsigned threads, unsigned long long bytes) {
    converged_all_kernel<<<threads / CONVERGED_CTA_THREADS, CONVERGED_CTA_THREADS>>>(notes, bytes);
}

/* ---- util: until NULL ------------------------------------------------------------------------- */

/* The first 16 bytes of each allocation: the previous allocation of the same thread, that thread, and the number of the allocation. */
struct link {
    struct link *before;
    unsigned thread;
    unsigned number;
};

static __global__ void exhaust_kernel(void **lists, unsigned threads, unsigned long long bytes, struct tally *t) {
    const unsigned i = thread_idx();
    if (i >= threads) return;
    unsigned long long count = 0, count_before = 0;
    struct link *last = NULL;
    for (;;) {
        struct link *p = (struct link *)malloc(bytes);
        if (p == NULL) break;
        p->before = last;
        p->thread = i;
        p->number = (unsigned)count++;
        last = p;
        if (*(volatile unsigned long long *)&t->null_seen == 0) count_before++;
    }
    *(volatile unsigned long long *)&t->null_seen = 1;
    lists[i] = last;
    atomicAdd(&t->nulls, 1ull);
    atomicAdd(&t->bytes, count * bytes);
    atomicAdd(&t->bytes_before_null, count_before * bytes);
}

static __global__ void walk_kernel(void **lists, unsigned threads, struct tally *t) {
    const unsigned i = thread_idx();
    if (i >= threads) return;
    unsigned corrupt = 0, number = 0;
    for (struct link *p = (struct link *)lists[i]; p != NULL; p = p->before) {
        if (((size_t)p & 15) != 0 || p->thread != i || (p != lists[i] && p->number + 1 != number)) {
            corrupt = 1; /* the rest of the list cannot be reached */
            break;
        }
        number = p->number;
    }
    if (lists[i] != NULL && number != 0) corrupt = 1;
    if (corrupt) atomicAdd(&t->corrupt, 1ull);
}

void alloc_exhaust(void **lists, unsigned threads, unsigned long long bytes, struct tally *t) {
    exhaust_kernel<<<(threads + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS>>>(lists, threads, bytes, t);
}

void alloc_walk(void **lists, unsigned threads, struct tally *t) { walk_kernel<<<(threads + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS>>>(lists, threads, t); }

/* ---- endurance -------------------------------------------------------------------------------- */

static __global__ void free_half_kernel(void **pointers, unsigned *rounds, unsigned count, unsigned round) {
    const unsigned i = thread_idx();
    if (i >= count || (round != 0 && (mix(i ^ mix(round)) & 1))) return;
    free(pointers[i]);
    pointers[i] = NULL;
    rounds[i] = round;
}

static __global__ void malloc_half_kernel(void **pointers, const unsigned *rounds, struct asks a, unsigned round, struct tally *t) {
    const unsigned i = thread_idx();
    if (i >= a.count || rounds[i] != round) return;
    pointers[i] = malloc(ask_bytes(&a, i, round));
    if (pointers[i] == NULL) atomicAdd(&t->nulls, 1ull);
}

void alloc_free_half(void **pointers, unsigned *rounds, unsigned count, unsigned round) {
    free_half_kernel<<<(count + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS>>>(pointers, rounds, count, round);
}

void alloc_malloc_half(void **pointers, const unsigned *rounds, const struct asks *a, unsigned round, struct tally *t) {
    malloc_half_kernel<<<ask_ctas(a), CTA_THREADS>>>(pointers, rounds, *a, round, t);
}

/* ---- pinned ----------------------------------------------------------------------------------- */

static __global__ void free_most_kernel(void **pointers, unsigned count) {
    const unsigned i = thread_idx();
    if (i >= count || pinned_stays(i)) return;
    free(pointers[i]);
    pointers[i] = NULL;
}

void alloc_free_most(void **pointers, unsigned count) { free_most_kernel<<<(count + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS>>>(pointers, count); }
