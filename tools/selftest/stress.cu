/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Random malloc and free of mixed sizes by many threads. Each object holds a pattern keyed by its owner, which is checked before it
 * is freed. At the end all memory is free again, and there was no NULL and no misuse.
 */
#include <stdlib.h>

#include "tools/selftest/parts.h"

#define HELD 8u /* objects of one thread, at most */
#define STRESS_ROUNDS 64u
#define ENTRIES (1u << 17)
#define KERNEL_S 3.0 /* each kernel is launched again and again for this long */
#define LAUNCHES_MAX 100u
#define STRIDE 64u      /* in a large object, one word in this many has the pattern, and the last word */
#define ALL_WORDS 2048u /* in an object of up to this many words, all have the pattern */

struct tally {
    unsigned long long nulls, corrupt, pairs;
};

/* ---- patterns --------------------------------------------------------------------------------- */

/* Word 0 is the number of words, word 1 the key. */
static __device__ unsigned step_of(unsigned words) { return words <= ALL_WORDS ? 1 : STRIDE; }

static __device__ void write_pattern(unsigned *p, unsigned words, unsigned key) {
    volatile unsigned *v = p;
    v[0] = words;
    v[1] = key;
    for (unsigned w = 2; w < words; w += step_of(words)) v[w] = key ^ w * 0x10001u;
    if (words > 2) v[words - 1] = key ^ (words - 1) * 0x10001u;
}

/* Checks the pattern, then destroys it. */
static __device__ int take_pattern(unsigned *p, unsigned most_words) {
    volatile unsigned *v = p;
    const unsigned words = v[0], key = v[1];
    int good = words >= 2 && words <= most_words;
    for (unsigned w = 2; good && w < words; w += step_of(words)) good = v[w] == (key ^ w * 0x10001u);
    if (good && words > 2) good = v[words - 1] == (key ^ (words - 1) * 0x10001u);
    v[0] = 0;
    return good;
}

static __device__ void add(struct tally *t, unsigned nulls, unsigned corrupt, unsigned pairs) {
    if (nulls) atomicAdd(&t->nulls, (unsigned long long)nulls);
    if (corrupt) atomicAdd(&t->corrupt, (unsigned long long)corrupt);
    atomicAdd(&t->pairs, (unsigned long long)pairs);
}

/* ---- kernels ---------------------------------------------------------------------------------- */

/* Each thread holds some objects, and frees them itself: within a warp, some lanes allocate while others free. */
static __global__ void hold(unsigned threads, unsigned most, unsigned salt, struct tally *t) {
    if (thread_idx() >= threads) return;
    unsigned *held[HELD] = {NULL}, seed = mix(thread_idx() * 0x9e3779b9u + salt), nulls = 0, corrupt = 0, pairs = 0;
    for (unsigned round = 0; round < STRESS_ROUNDS; round++) {
        seed = mix(seed + round);
        unsigned **slot = &held[seed % HELD];
        if (*slot != NULL) {
            corrupt += !take_pattern(*slot, most / 4);
            free(*slot);
            *slot = NULL;
            pairs++;
        } else {
            const unsigned words = draw_bytes(seed, 0, 8, most) / 4;
            *slot = (unsigned *)malloc(words * 4);
            if (*slot == NULL) nulls++;
            else write_pattern(*slot, words, seed);
        }
    }
    for (unsigned i = 0; i < HELD; i++) {
        if (held[i] == NULL) continue;
        corrupt += !take_pattern(held[i], most / 4);
        free(held[i]);
        pairs++;
    }
    add(t, nulls, corrupt, pairs);
}

/* The table holds live objects. Each step puts a new object into it, and frees the old one, which another thread may have made. */
static __global__ void exchange(unsigned long long *table, unsigned threads, unsigned most, unsigned salt, struct tally *t) {
    if (thread_idx() >= threads) return;
    unsigned seed = mix(thread_idx() * 0x9e3779b9u + salt), nulls = 0, corrupt = 0, pairs = 0;
    for (unsigned round = 0; round < STRESS_ROUNDS; round++) {
        seed = mix(seed + round);
        const unsigned words = draw_bytes(mix(seed ^ 0x5bd1e995u), 1, 8, most) / 4;
        unsigned *p = (unsigned *)malloc(words * 4);
        if (p == NULL) nulls++;
        else write_pattern(p, words, seed);
        __threadfence(); /* orders the pattern before the address; the fence below orders the address before the reads of the pattern */
        unsigned *old = (unsigned *)atomicExch(&table[seed % ENTRIES], (unsigned long long)p);
        __threadfence();
        if (old == NULL) continue;
        corrupt += !take_pattern(old, most / 4);
        free(old);
        pairs++;
    }
    add(t, nulls, corrupt, pairs);
}

static __global__ void empty(unsigned long long *table, unsigned most, struct tally *t) {
    const unsigned i = thread_idx();
    if (i >= ENTRIES || table[i] == 0) return;
    add(t, 0, !take_pattern((unsigned *)table[i], most / 4), 1);
    free((void *)table[i]);
    table[i] = 0;
}

/* Lane 0 of each warp allocates for all, the last lane frees. */
static __global__ void by_warps(unsigned rounds, unsigned salt, struct tally *t) {
    const unsigned lane = threadIdx.x % WARP_THREADS;
    unsigned nulls = 0, corrupt = 0, pairs = 0;
    for (unsigned round = 0; round < rounds; round++) {
        const unsigned key = mix(thread_idx() / WARP_THREADS * 0x9e3779b9u + round + salt), words = 64 + key % 960;
        unsigned long long address = lane == 0 ? (unsigned long long)malloc(words * 4) : 0;
        __syncwarp();
        volatile unsigned *p = (volatile unsigned *)__shfl_sync(~0u, address, 0);
        if (p == NULL) {
            nulls += lane == 0;
            continue;
        }
        for (unsigned w = lane; w < words; w += WARP_THREADS) p[w] = key ^ w;
        __syncwarp();
        for (unsigned w = WARP_THREADS - 1 - lane; w < words; w += WARP_THREADS) corrupt += p[w] != (key ^ w);
        __syncwarp();
        if (lane == WARP_THREADS - 1) {
            free((void *)p);
            pairs++;
        }
    }
    add(t, nulls, corrupt, pairs);
}

/* ---- the part --------------------------------------------------------------------------------- */

enum work { HOLD_SMALL, HOLD_MIXED, HOLD_LARGE, EXCHANGE, BY_WARPS, TWO_STREAMS, WORKS };

static const char *const work_names[WORKS] = {"threads hold, 8 to 512 B",     "threads hold, 8 B to 8 KiB",      "threads hold, 8 B to 1 MiB",
                                              "another frees, 8 B to 64 KiB", "one lane for its warp, to 4 KiB", "two streams, hold and exchange"};

struct bench {
    unsigned long long *table;
    struct tally *on_device;
    cudaStream_t streams[2];
};

static void launch(const struct bench *b, enum work work, unsigned salt) {
    switch (work) {
    case HOLD_SMALL: hold<<<ctas(1u << 17), CTA_THREADS>>>(1u << 17, 512, salt, b->on_device); break;
    case HOLD_MIXED: hold<<<ctas(1u << 15), CTA_THREADS>>>(1u << 15, 8 << 10, salt, b->on_device); break;
    case HOLD_LARGE: hold<<<1, CTA_THREADS>>>(256, 1 << 20, salt, b->on_device); break;
    case EXCHANGE: exchange<<<ctas(1u << 15), CTA_THREADS>>>(b->table, 1u << 15, 64 << 10, salt, b->on_device); break;
    case BY_WARPS: by_warps<<<ctas(1u << 17), CTA_THREADS>>>(STRESS_ROUNDS, salt, b->on_device); break;
    default:
        hold<<<ctas(1u << 15), CTA_THREADS, 0, b->streams[0]>>>(1u << 15, 2048, salt, b->on_device);
        exchange<<<ctas(1u << 14), CTA_THREADS, 0, b->streams[1]>>>(b->table, 1u << 14, 64 << 10, ~salt, b->on_device);
    }
    must_end(work_names[work]);
}

static void run(const struct bench *b, enum work work) {
    struct tally t = {0, 0, 0};
    unsigned launches = 0;
    MUST(cudaMemset(b->on_device, 0, sizeof t));
    const double begin = now_s();
    do launch(b, work, mix((unsigned)work * LAUNCHES_MAX + launches));
    while (++launches < LAUNCHES_MAX && now_s() - begin < KERNEL_S);
    const double took = now_s() - begin;
    empty<<<ctas(ENTRIES), CTA_THREADS>>>(b->table, 64 << 10, b->on_device);
    must_end("all is given back");
    MUST(cudaMemcpy(&t, b->on_device, sizeof t, cudaMemcpyDeviceToHost));
    check(t.nulls == 0 && t.corrupt == 0 && t.pairs > 0, work_names[work], "%llu pairs in %u launches, %.1f s; %llu corrupt, %llu NULL", t.pairs, launches,
          took, t.corrupt, t.nulls);
    check_live(0, "all given back");
}

void part_stress(void) {
    struct bench b;
    MUST(cudaMalloc((void **)&b.table, ENTRIES * sizeof *b.table));
    MUST(cudaMemset(b.table, 0, ENTRIES * sizeof *b.table));
    MUST(cudaMalloc((void **)&b.on_device, sizeof *b.on_device));
    for (int i = 0; i < 2; i++) MUST(cudaStreamCreate(&b.streams[i]));
    for (int work = 0; work < WORKS; work++) run(&b, (enum work)work);
    const struct mm_statistics s = statistics();
    check(misuses(&s) == 0 && s.null_count == 0, "no misuse, no NULL", "%llu, %llu", misuses(&s), s.null_count);
    figure("the heap", "%.0f MB", (double)s.heap_bytes / MB);
}
