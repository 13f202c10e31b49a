/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cases "malloc_large", "hostlog" and "multistream": device memory that the host allocates. They call cudaMalloc and cudaFree, then
 * cudaMallocAsync and cudaFreeAsync.
 *
 *   host_log.c       logs of calls, their text format, the ranges of live blocks: on the CPU
 *   host_generate.c  generated logs: on the CPU
 *   host_calls.c     the calls that are measured
 *   host_case.c      the cases malloc_large and hostlog
 *   host_streams.c   the case multistream
 *   host_kernels.cu  kernels that stamp blocks and check the stamps. They do not allocate.
 *
 * Words: a BLOCK is what one call allocates; its ID is the number of allocations before it; its STAMP is what a kernel writes to it.
 */
#ifndef MM_BENCH_HOST_H
#define MM_BENCH_HOST_H

#include <stdint.h>
#include <stdio.h>

#include "tools/mmbench/child/child.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- random numbers ------------------------------------------------------------------------------ */

/* The 64-bit Mersenne Twister (Nishimura, ACM TOMACS 10(4), 2000; Matsumoto and Nishimura, mt19937-64.c): std::mt19937_64. */
#define MT64_WORDS 312u

struct mt64 {
    uint64_t words[MT64_WORDS];
    unsigned next;
};

void mt64_seed(struct mt64 *m, uint64_t seed);
uint64_t mt64_next(struct mt64 *m);

/* ---- logs ---------------------------------------------------------------------------------------- */

/* Text format: the line "size,free_id", then one line for each call:
 *
 *   4096,-1   allocates 4,096 bytes
 *   0,17      frees the block whose id is 17
 *
 * Numbers are decimal, without a sign (but for -1) and without spaces. Each line ends with a newline. A log holds at least one call, and
 * everything is free at its end.
 */
#define HOST_LOG_HEADER "size,free_id"
#define HOST_LOG_NONE (-1LL)        /* free_id of an allocation */
#define HOST_SIZE_MOST (1ull << 40) /* bytes of one block: more than any GPU has */
#define HOST_CALLS_MOST (1u << 23)  /* calls of a log; with HOST_SIZE_MOST: the live bytes fit 64 bits */
#define HOST_LOG_WHY_BYTES 128      /* of the line that says why a log was refused */

struct host_call {
    uint64_t size; /* 0: frees the block `id`; otherwise allocates it */
    unsigned id;
};

struct host_log {
    struct host_call *calls;
    uint64_t *sizes; /* of each block; 0 after it was freed */
    unsigned count, room;
    unsigned blocks; /* allocated in total */
    unsigned live_blocks, most_live_blocks;
    uint64_t live, most_live; /* bytes */
    unsigned most_live_call;  /* the first call after which most_live bytes are live */
};

/* An empty log. */
void host_log_begin(struct host_log *l);
void host_log_end(struct host_log *l);
/* Appends a call, given as in the text format. Returns NULL, or why it is refused. */
const char *host_log_add(struct host_log *l, uint64_t size, long long free_id);
/* Returns NULL if the log is complete: not empty, and everything is free at its end. */
const char *host_log_complete(const struct host_log *l);
/* Reads into an empty log. Returns 0; or 1, and writes one line that says why the file is refused. */
int host_log_read(struct host_log *l, FILE *from, char why[HOST_LOG_WHY_BYTES]);
/* Returns 0, or 1 if the file could not be written. */
int host_log_write(const struct host_log *l, FILE *to);

/* ---- generators ---------------------------------------------------------------------------------- */

#define HOST_SEED 42u /* of Bell et al. */

/* Bell et al., "malloc_large": each step draws a slot and a size, frees the slot's block, and allocates a new one. Then everything is freed.
 * A draw is lowest + next % range; since the range is below 2^24, the bias is below 2^-40. */
#define LARGE_SLOTS 50u
#define LARGE_STEPS 5000u
#define LARGE_SIZE_LEAST 1024u /* the paper's 1 KB and 16 MB, in binary units */
#define LARGE_SIZE_MOST (16u << 20)

/* Training of a deep network, as a framework allocates for it. Each layer has three weights (the parameter and its two moments), which stay to
 * the end. Forward: each layer allocates its activations and statistics, which stay until its backward pass, and a workspace, which it frees at
 * once. Backward, in reverse order: gradients of weights, which stay until the iteration ends; the gradient of the layer's input, which stays
 * until the next layer has used it; a workspace; then the layer's activations are freed. Activations and their gradients vary by 20 % from
 * iteration to iteration, as sequence lengths do; all other sizes repeat exactly. Bytes are drawn once for each layer, log-uniform in
 * [2^least, 2^most), and are multiples of 4.
 *
 * That is TRAINING_CALLS calls, with at most TRAINING_BLOCKS_MOST live blocks and TRAINING_LIVE_MOST live bytes.
 */
#define TRAINING_LAYERS 48u
#define TRAINING_ITERATIONS 26u
#define TRAINING_ACTIVATIONS 3u /* attention, first and second linear map */
#define TRAINING_WEIGHTS 3u
#define TRAINING_VARIES_PERCENT 20u
#define TRAINING_SIZE_MOST (64ull << 20)
#define TRAINING_CALLS 20308u
#define TRAINING_BLOCKS_MOST 340u
#define TRAINING_LIVE_MOST 3274163664ull

/* Each fills an empty log. Returns NULL, or why it failed. */
const char *host_log_large(struct host_log *l);
const char *host_log_training(struct host_log *l);

/* ---- live address ranges ------------------------------------------------------------------------- */

#define HOST_ALIGNMENT 256u /* bytes; CUDA C++ Programming Guide, "Device Memory Accesses": of every allocation by the runtime or driver */

struct host_range {
    uint64_t begin, end; /* end: the first byte after it */
    unsigned id;
};

/* Ranges of the live blocks, sorted by address. They do not overlap. */
struct host_ranges {
    struct host_range *at;
    unsigned count, room;
};

/* Returns 0, or 1 if the host has no memory. */
int host_ranges_begin(struct host_ranges *r, unsigned room);
void host_ranges_end(struct host_ranges *r);
/* Returns 0. Returns 1, and does not add the range, if it overlaps another one or wraps around. At most `room` ranges. */
int host_ranges_add(struct host_ranges *r, uint64_t begin, uint64_t bytes, unsigned id);
/* Removes that range of that block, if it was added. */
void host_ranges_remove(struct host_ranges *r, uint64_t begin, unsigned id);

/* ---- the calls that are measured ------------------------------------------------------------------ */

enum { HOST_PLAIN, HOST_ASYNC, HOST_KINDS };

struct host_kind {
    const char *malloc_op, *free_op, *all_op; /* rows of a log */
    const char *one_op, *many_op, *over_op;   /* rows of multistream */
    cudaError_t (*take)(void **p, size_t bytes, cudaStream_t stream);
    cudaError_t (*give)(void *p, cudaStream_t stream);
};

extern const struct host_kind host_kinds[HOST_KINDS];

/* Returns NULL if the device has no memory. */
void *host_take(const struct host_kind *k, size_t bytes, cudaStream_t stream);
void host_give(const struct host_kind *k, void *p, cudaStream_t stream);
cudaStream_t host_open_stream(void);

/* The runs of a case. It has a part of the request's time limit; after that, no further run starts, unless there are too few. */
struct host_runs {
    unsigned most;
    double stop_ms;
};

struct host_runs host_runs_begin(const struct request *q);
/* Whether this run is to start: not after a NULL or corruption. */
int host_runs_start(const struct host_runs *r, unsigned run, const struct tally *t);

/* ---- stamps --------------------------------------------------------------------------------------- */

#define HOST_STAMP_BYTES 8u

/* Different for each pair (a, b). */
TOOLS_BOTH unsigned long long host_key(unsigned a, unsigned b) { return (((unsigned long long)a << 32 | b) + 1) * 0x9e3779b97f4a7c15ull; }
/* For the ends of a block: its key, repeated from its first byte on. */
TOOLS_BOTH unsigned char host_stamp_byte(unsigned long long key, unsigned long long byte) { return (unsigned char)(key >> byte % HOST_STAMP_BYTES * 8); }
/* For a whole block: each word has a different value. */
TOOLS_BOTH unsigned long long host_stamp_word(unsigned long long key, unsigned long long word) { return key + word * 0xd1342543de82ef95ull; }

/* ---- kernels ------------------------------------------------------------------------------------- */

/* Stamps the first and the last HOST_STAMP_BYTES of a block. */
void host_stamp_ends(void *p, unsigned long long bytes, unsigned long long key, cudaStream_t stream);
/* Adds 1 to *damaged, in device memory, unless these hold the stamp. */
void host_check_ends(const void *p, unsigned long long bytes, unsigned long long key, unsigned long long *damaged, cudaStream_t stream);
/* Stamps all words of a block, then spins for that time. */
void host_stamp_all(void *p, unsigned long long words, unsigned long long key, unsigned spin_ns, cudaStream_t stream);
/* Adds to *intact, in device memory, the number of words that hold the stamp. */
void host_check_all(const void *p, unsigned long long words, unsigned long long key, unsigned long long *intact, cudaStream_t stream);

/* ---- the cases ----------------------------------------------------------------------------------- */

void run_malloc_large(const struct request *q); /* size and threads are not used */
void run_hostlog(const struct request *q);      /* the same */
void run_multistream(const struct request *q);  /* size: bytes of a block; threads: streams, a thread for each */

#ifdef __cplusplus
}
#endif
#endif
