/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the child's files share. What allocates is alloc.cu and graph.cu, compiled twice: by nvcc they run on CUDA's
 * allocator, by mmnvcc on mm. They know of neither: malloc and free in kernels are all they use.
 *
 *   plain.cu   kernels that allocate nothing: floors, filling, checking, counting. Its module has no heap.
 *   alloc.cu   the kernels that call malloc or free. Its module has one.
 *   timed.c    the cases that are kernel times
 *   graph.c    the case that is an application, with kernels of its own that call malloc and free: graph.h
 *   converged.c the case that is about warps that stay whole: converged.h
 *   heap.c     the cases about the heap itself: its share in use, its span, its making, its life
 *   latency.c  the case about single calls: latency.h
 *   footprint.c the cases about the device memory that the heap takes, which account.h counts
 *   main.c     requests in, answers out (../protocol.h)
 *
 * Words: a REQUEST is what mmbench asks of us, one line; an ASK is one call of malloc by one thread, numbered from 0.
 */
#ifndef MM_BENCH_CHILD_H
#define MM_BENCH_CHILD_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/kernels.h"

#define WARP_SHIFT 5

/* ---- asks ------------------------------------------------------------------------------------- */

/* How the bytes of an ask follow from its number. */
/* LOG: each doubling has as many; within one they are even. */
enum sizing { SIZING_ONE, SIZING_POWERS, SIZING_UNIFORM, SIZING_LOG };

/* Who asks, and for how much. Every 2^every_shift-th thread asks once: 0 all, WARP_SHIFT lane 0 of each warp. */
struct asks {
    unsigned count;
    unsigned every_shift;
    enum sizing sizing;
    unsigned powers;         /* SIZING_POWERS: 16, 32, ..., so many sizes; SIZING_LOG: doublings from 16 to size, in 1/2^16 */
    unsigned long long size; /* SIZING_ONE: the size; else the largest (the smallest is 16) */
};

/* Doublings from 16 bytes to `size`, in 1/2^16, of which the last one is not whole. */
TOOLS_BOTH unsigned ask_doublings(unsigned long long size) {
    unsigned n = 0;
    while (32ull << n <= size) n++;
    return (n << 16) + (unsigned)(((size - (16ull << n)) << 16) / (16ull << n));
}

/* Bytes of ask i; a slot that asks again (endurance) asks in a later round. */
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
/* The ask of this thread; a->count or more if it has none. */
static __device__ inline unsigned ask_idx(const struct asks *a) {
    const unsigned thread = thread_idx();
    return thread & ((1u << a->every_shift) - 1) ? ~0u : thread >> a->every_shift;
}

/* CTAs of a kernel with a thread for each ask. */
static inline unsigned ask_ctas(const struct asks *a) {
    return (unsigned)((((unsigned long long)a->count << a->every_shift) + CTA_THREADS - 1) / CTA_THREADS);
}
#endif

/* ---- what a check finds; in device memory ------------------------------------------------------ */

struct tally {
    unsigned long long nulls;
    unsigned long long corrupt;   /* allocations that hold what their owner did not write, or are misaligned */
    unsigned long long lowest;    /* first byte of the lowest live allocation */
    unsigned long long end;       /* first byte after the highest */
    unsigned long long bytes;     /* util: handed out in all; else of what is live */
    unsigned long long bytes_before_null;
    unsigned long long null_seen; /* util: 1 once somebody got NULL */
};

#ifdef __cplusplus
extern "C" {
#endif

/* ---- plain.cu --------------------------------------------------------------------------------- */

/* Launch an empty kernel of the module that does not allocate. */
void plain_empty(void);

/* Every byte of each allocation gets a pattern keyed to its ask; first_word_only: its first word. rounds: of each
 * slot, or NULL for round 0; only_round: slots of that round, or -1 for all. */
void plain_fill(void **pointers, const struct asks *a, const unsigned *rounds, int only_round, int first_word_only);
/* Counts NULLs, misaligned pointers and patterns that are gone. What two allocations share, one of them lost. */
void plain_check(void **pointers, const struct asks *a, const unsigned *rounds, int first_word_only, struct tally *t);
/* Counts NULLs and bytes of what is live, and finds its lowest and end. */
void plain_bounds(void **pointers, const struct asks *a, const unsigned *rounds, struct tally *t);
/* Sets a bit for each 2 MiB page, counted from the byte `base`, that holds a byte of a live allocation. */
void plain_pages(void **pointers, const struct asks *a, const unsigned *rounds, unsigned long long base,
                 unsigned *bits, unsigned pages);

/* A device assertion for each ask, which holds: what a kernel costs that has one and does not allocate. */
void plain_assert(const unsigned *rounds, const struct asks *a, unsigned round);

/* The arithmetic of the case "converged", and nothing else; notes of each thread. */
struct lane_note;
void plain_converged(struct lane_note *notes, unsigned threads);

/* Floors: what the hardware asks for the least an allocator could do. Launch one kernel each. */
struct floor_memory;
struct floor_memory *floor_open(unsigned count);
void floor_close(struct floor_memory *m);
/* Store one pointer each. */
void floor_store(struct floor_memory *m, const struct asks *a);
/* Load the block pointer of the SM, then one atomic per warp on the block's counter. */
void floor_atomic(struct floor_memory *m, const struct asks *a);
/* Load one pointer each, as floor_store left it, then one atomic per warp on the bitmap. */
void floor_bitmap(struct floor_memory *m, const struct asks *a);
/* Cycles of each of `count` atomics by one thread, every one waiting for the one before. */
void floor_latency(struct floor_memory *m, unsigned *cycles, unsigned count);

/* ---- alloc.cu --------------------------------------------------------------------------------- */

extern const char alloc_name[]; /* mm or builtin, as the build says */
void alloc_empty(void); /* launch an empty kernel of the module that allocates */
void alloc_malloc(void **pointers, const struct asks *a);
void alloc_free(void **pointers, const struct asks *a);
/* threads: each `rounds` times malloc(16..512), write, check, free; all: every word, else first and last. */
void alloc_churn(unsigned threads, unsigned rounds, int all, struct tally *t);
/* Each asking thread: `pairs` times malloc, write a word, free, as the rounds from `first` on; the cycles of each call. */
void alloc_latency(const struct asks *a, unsigned first, unsigned pairs, unsigned *malloc_cycles, unsigned *free_cycles,
                   struct tally *t);
/* Pairs of malloc and free by lane 0 of each warp, or by all lanes, then the same arithmetic by all. */
void alloc_converged_lane(struct lane_note *notes, unsigned threads, unsigned long long bytes);
void alloc_converged_all(struct lane_note *notes, unsigned threads, unsigned long long bytes);
/* Every thread allocates until NULL, and hangs what it got into a list of its own. */
void alloc_exhaust(void **lists, unsigned threads, unsigned long long bytes, struct tally *t);
/* Walks the lists: everything in them is as its owner left it. */
void alloc_walk(void **lists, unsigned threads, struct tally *t);
/* Endurance: frees what belongs to the random half of `round` and marks it; gives that half new allocations. */
void alloc_free_half(void **pointers, unsigned *rounds, unsigned count, unsigned round);
void alloc_malloc_half(void **pointers, const unsigned *rounds, const struct asks *a, unsigned round,
                       struct tally *t); /* counts NULLs */
/* Pinned: one ask in PINNED_ONE_IN keeps its allocation. */
#define PINNED_ONE_IN 1000u
TOOLS_BOTH int pinned_stays(unsigned i) { return mix(i + 0x3c6ef372u) % PINNED_ONE_IN == 0; }
void alloc_free_most(void **pointers, unsigned count);

/* ---- main.c ----------------------------------------------------------------------------------- */

#define CHILD_RUNS_MAX 1000u /* of what is timed one by one */

struct request {
    char name[32]; /* of the case, without _cold */
    int cold;
    unsigned long long size;
    unsigned threads;
    unsigned runs; /* of endurance, latency and footprint: ../protocol.h */
};

extern unsigned long long child_heap_bytes;
extern double child_seconds; /* one request's time, after which mmbench gives us up */

/* Sets the heap size of a fresh context. */
void child_start_device(void);
/* The heap is made anew: reset, start, first launch. Everything of the device is gone before. */
void child_restart_device(void);
/* Ends the process with one line: what, and why, if that is not empty. */
void child_fatal(const char *what, const char *why);
/* Ends the process with one line if `error` is one. */
void child_must(cudaError_t error);
/* Answers with one row: median, least, most of the samples, which are sorted. If the tally holds NULLs or corruption
 * the row is marked, and then a time is not told. floor: the name of the floor that it is measured against, or "-". */
void child_row(const char *op, const char *unit, double *samples, unsigned runs, const char *floor,
               const struct tally *t, const char *checked);
/* The same of numbers that are known: of `runs` samples. Not told if that is 0. */
void child_row_of(const char *op, const char *unit, const double *median_least_most, unsigned runs, const char *floor,
                  const struct tally *t, const char *checked);
/* Answers with the median of a floor. Sorts the samples. */
void child_floor(const char *name, const char *unit, double *samples, unsigned count);
struct tally child_nothing_found(void);
void *child_device_alloc(size_t bytes);                    /* cudaMalloc, zeroed */
void child_read(void *to, const void *from, size_t bytes); /* after everything that was launched */
double child_now_ms(void);

/* Milliseconds on the device of what was launched between begin and end. */
void child_time_begin(void);
double child_time_end_ms(void);

/* ---- the cases -------------------------------------------------------------------------------- */

void run_kernels(const struct request *q); /* single, mixed, mixedu, scaling, warp, large, and the cold ones */
void run_churn(const struct request *q);
void run_latency(const struct request *q);
void run_floors(unsigned count, unsigned every_shift);
/* runs, or fewer if one takes that long. */
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
