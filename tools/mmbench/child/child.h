/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the child's files. alloc.cu and papers/kernels.cu allocate, and are compiled twice: by nvcc they run on CUDA's allocator, by mmnvcc
 * on mm. Their kernels use malloc and free only.
 *
 *   plain.cu      kernels that allocate nothing: floors, filling, checking, counting. Its module has no heap.
 *   alloc.cu      the kernels that call malloc or free. Its module has a heap.
 *   timed.c       the cases that measure kernel times
 *   graph_case.c  the case that is an application, with its own kernels that call malloc and free: graph.h
 *   converged.c   the case that measures whether warps stay converged: converged.h
 *   heap.c        the cases about the heap: the share that can be used, its spread, its creation, its ageing
 *   latency.c     the case that measures single calls: latency.h
 *   footprint.c   the cases that measure the device memory that the heap takes, which account.h counts
 *   replay*, trace.*  a trace of a program, replayed: replay.h
 *   main.c        reads requests, writes answers (../protocol.h)
 *
 * Words: a REQUEST is one line from mmbench to the child; an ASK is one call of malloc by one thread, numbered from 0.
 */
#ifndef MM_BENCH_CHILD_H
#define MM_BENCH_CHILD_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/kernels.h"

#define WARP_SHIFT 5

/* ---- asks ------------------------------------------------------------------------------------- */

/* How the number of an ask determines its size. LOG: each doubling has the same number of asks, and within a doubling sizes are
 * uniform. */
enum sizing { SIZING_ONE, SIZING_POWERS, SIZING_UNIFORM, SIZING_LOG };

/* The asks of a kernel. Every 2^every_shift-th thread asks once: 0 means every thread, WARP_SHIFT lane 0 of each warp. */
struct asks {
    unsigned count;
    unsigned every_shift;
    enum sizing sizing;
    unsigned powers;         /* SIZING_POWERS: the number of sizes 16, 32, ...; SIZING_LOG: doublings from 16 to size, in units of 1/2^16 */
    unsigned long long size; /* SIZING_ONE: the size; otherwise the largest size (the smallest is 16) */
};

/* Doublings from 16 bytes to `size`, in units of 1/2^16. The last doubling may be a partial one. */
TOOLS_BOTH unsigned ask_doublings(unsigned long long size) {
    unsigned n = 0;
    while (32ull << n <= size) n++;
    return (n << 16) + (unsigned)(((size - (16ull << n)) << 16) / (16ull << n));
}

/* Bytes of ask i. A slot that asks again (endurance) does so with a later round. */
TOOLS_BOTH unsigned long long ask_bytes(const struct asks *a, unsigned i, unsigned round) {
    if (a->sizing == SIZING_ONE) return a->size;
    const unsigned random = mix(i * 0x9e3779b9u + round * 0x7f4a7c15u + 1);
    if (a->sizing == SIZING_POWERS) return 16ull << random % a->powers;
    if (a->sizing == SIZING_LOG) {
        const unsigned at = (unsigned)((unsigned long long)random * a->powers >> 32);
        const unsigned long long base = 16ull << (at >> 16);
        return base + (base * (at & 0xffff) >> 16);
    }
    return 16 + random % ((unsigned)a->size - 15);
}

#ifdef __CUDACC__
/* The number of this thread's ask; a->count or more if it has none. */
static __device__ inline unsigned ask_idx(const struct asks *a) {
    const unsigned thread = thread_idx();
    return thread & ((1u << a->every_shift) - 1) ? ~0u : thread >> a->every_shift;
}

/* CTAs of a kernel with a thread for each ask. */
static inline unsigned ask_ctas(const struct asks *a) { return (unsigned)((((unsigned long long)a->count << a->every_shift) + CTA_THREADS - 1) / CTA_THREADS); }
#endif

/* ---- results of a check; in device memory ------------------------------------------------------ */

struct tally {
    unsigned long long nulls;
    unsigned long long corrupt; /* allocations that are misaligned or do not hold what their owner wrote */
    unsigned long long lowest;  /* first byte of the lowest live allocation */
    unsigned long long end;     /* first byte after the highest live allocation */
    unsigned long long bytes;   /* util: handed out in total; otherwise bytes of live allocations */
    unsigned long long bytes_before_null;
    unsigned long long null_seen; /* util: 1 after the first NULL */
};

#ifdef __cplusplus
extern "C" {
#endif

/* ---- plain.cu --------------------------------------------------------------------------------- */

/* Launches an empty kernel of the module that does not allocate. */
void plain_empty(void);

/* Fills each allocation with a pattern keyed to its ask. first_word_only: fills its first word only. rounds: the round of each
 * slot, or NULL for round 0. only_round: fills the slots of that round only, or -1 for all. */
void plain_fill(void **pointers, const struct asks *a, const unsigned *rounds, int only_round, int first_word_only);
/* Counts NULLs, misaligned pointers and allocations whose pattern is damaged. If two allocations overlap, at least one of them is damaged. */
void plain_check(void **pointers, const struct asks *a, const unsigned *rounds, int first_word_only, struct tally *t);
/* Counts NULLs and the bytes of live allocations, and sets `lowest` and `end`. */
void plain_bounds(void **pointers, const struct asks *a, const unsigned *rounds, struct tally *t);
/* Sets a bit for each 2 MiB page, counted from the byte `base`, that holds a byte of a live allocation. */
void plain_pages(void **pointers, const struct asks *a, const unsigned *rounds, unsigned long long base, unsigned *bits, unsigned pages);

/* A kernel with one device assertion per ask, which holds. It does not allocate, but its launch may take device memory. */
void plain_assert(const unsigned *rounds, const struct asks *a, unsigned round);

/* Only the arithmetic of the case "converged", without an allocation; writes the notes of each thread. */
struct lane_note;
void plain_converged(struct lane_note *notes, unsigned threads);

/* Floors: the time of the least work that an allocator needs. Each of these launches one kernel. */
struct floor_memory;
struct floor_memory *floor_open(unsigned count);
void floor_close(struct floor_memory *m);
/* Each ask stores one pointer. */
void floor_store(struct floor_memory *m, const struct asks *a);
/* Each ask loads the block pointer of its SM; each warp performs one atomic on the block's counter. */
void floor_atomic(struct floor_memory *m, const struct asks *a);
/* Each ask loads the pointer that floor_store left; each warp performs one atomic on the bitmap. */
void floor_bitmap(struct floor_memory *m, const struct asks *a);
/* Cycles of each of `count` atomics by one thread; each atomic depends on the previous one. */
void floor_latency(struct floor_memory *m, unsigned *cycles, unsigned count);

/* ---- alloc.cu --------------------------------------------------------------------------------- */

extern const char alloc_name[]; /* "mm" or "builtin", set by the build */
void alloc_empty(void);         /* launches an empty kernel of the module that allocates */
void alloc_malloc(void **pointers, const struct asks *a);
void alloc_free(void **pointers, const struct asks *a);
/* Each thread repeats `rounds` times: malloc(16..512), write, check, free. all: writes every word; otherwise the first and the last one. */
void alloc_churn(unsigned threads, unsigned rounds, int all, struct tally *t);
/* Each asking thread performs `pairs` times malloc, write a word, free, with sizes of the rounds from `first` on. Records the cycles of each call. */
void alloc_latency(const struct asks *a, unsigned first, unsigned pairs, unsigned *malloc_cycles, unsigned *free_cycles, struct tally *t);
/* Pairs of malloc and free by lane 0 of each warp, or by all lanes; then the same arithmetic by all lanes. */
void alloc_converged_lane(struct lane_note *notes, unsigned threads, unsigned long long bytes);
void alloc_converged_all(struct lane_note *notes, unsigned threads, unsigned long long bytes);
/* Every thread allocates until it gets NULL, and links its allocations into its own list. */
void alloc_exhaust(void **lists, unsigned threads, unsigned long long bytes, struct tally *t);
/* Walks the lists and checks that their contents are as written. */
void alloc_walk(void **lists, unsigned threads, struct tally *t);
/* Endurance: frees the allocations of a random half of the slots and marks these with `round`; malloc_half allocates for that half again. */
void alloc_free_half(void **pointers, unsigned *rounds, unsigned count, unsigned round);
void alloc_malloc_half(void **pointers, const unsigned *rounds, const struct asks *a, unsigned round, struct tally *t); /* counts NULLs */
/* Pinned: one ask in PINNED_ONE_IN keeps its allocation to the end. */
#define PINNED_ONE_IN 1000u
TOOLS_BOTH int pinned_stays(unsigned i) { return mix(i + 0x3c6ef372u) % PINNED_ONE_IN == 0; }
void alloc_free_most(void **pointers, unsigned count);

/* ---- main.c ----------------------------------------------------------------------------------- */

#define CHILD_RUNS_MAX 1000u /* samples of a case whose runs are timed one by one */

struct request {
    char name[32]; /* of the case, without the suffix _cold */
    int cold;
    unsigned long long size;
    unsigned threads;
    unsigned runs; /* for endurance, latency and footprint it has another meaning: ../protocol.h */
};

extern unsigned long long child_heap_bytes;
extern double child_seconds; /* time limit of one request; mmbench kills the child after it */

/* Sets the heap size of a fresh context. */
void child_start_device(void);
/* Creates the heap anew: resets the device, starts it, launches a first kernel. All device memory is lost. */
void child_restart_device(void);
/* Ends the process with one line: what, and why unless that is empty. */
void child_fatal(const char *what, const char *why);
/* Ends the process with one line unless `error` is cudaSuccess. */
void child_must(cudaError_t error);
/* Sorts the samples. */
double child_median(double *samples, unsigned count);
/* Answers with one row: median, minimum and maximum of the samples, which it sorts. If the tally holds NULLs or corruption, the row
 * is marked, and a time is left out. floor: the name of the floor to compare with, its value, or "-". */
void child_row(const char *op, const char *unit, double *samples, unsigned runs, const char *floor, const struct tally *t, const char *checked);
/* The same, for known numbers of `runs` samples. They are left out if runs is 0. */
void child_row_of(const char *op, const char *unit, const double *median_least_most, unsigned runs, const char *floor, const struct tally *t,
                  const char *checked);
/* Answers with the median of a floor. Sorts the samples. */
void child_floor(const char *name, const char *unit, double *samples, unsigned count);
struct tally child_nothing_found(void);
void *child_device_alloc(size_t bytes);                    /* cudaMalloc, then zeroed */
void *child_copied(const void *from, size_t bytes);        /* the same, with these contents */
void child_read(void *to, const void *from, size_t bytes); /* after all launched work has finished */
double child_now_ms(void);

/* Milliseconds on the device between child_time_begin and child_time_end_ms. */
void child_time_begin(void);
double child_time_end_ms(void);

/* ---- the cases -------------------------------------------------------------------------------- */

void run_kernels(const struct request *q); /* single, mixed, mixedu, scaling, warp, large, and their cold variants */
void run_churn(const struct request *q);
void run_latency(const struct request *q);
void run_floors(unsigned count, unsigned every_shift);
/* Returns `runs`, or fewer if one run takes `ms` and that is long. */
unsigned child_runs_for(double ms, unsigned runs);

void run_converged(const struct request *q);

void run_graph(const struct request *q); /* graph, graph_lesmis */

void run_util(const struct request *q);
void run_frag(const struct request *q);
void run_init(const struct request *q);
void run_endurance(const struct request *q);

void run_footprint(const struct request *q);
void run_pinned(const struct request *q);

#ifdef __cplusplus
}
#endif
#endif
