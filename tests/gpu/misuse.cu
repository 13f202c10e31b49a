/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One misuse of free in a separate process, in a program compiled by mmnvcc; misuse.sh runs all cases.
 *
 *   misuse --list   a line for each case: name, expected exit status, and the MM_ON_MISUSE and MM_SPACING to run it with
 *   misuse CASE     prints the text expected on standard error. Exit status:
 *                     0   no kernel failed
 *                     3   the kernel with the misuse was stopped: cudaErrorLaunchFailure or cudaErrorIllegalInstruction
 *                     4   the case could not be set up; the reason is printed
 *                     5   mm_get_statistics reports other counts
 *                    77   the case needs two GPUs
 */
#include <mm.h>

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/misuse.h"

#define STOPPED 3
#define NOT_ARRANGED 4
#define COUNTED_OTHERWISE 5
#define NO_SECOND_GPU 77
#define TOLD_MOST 32

typedef unsigned long long address;

/* ---- device ---- */

enum { GET = 1, RELEASE = 2, MISUSE = 4, FINISH = 8 };
struct work {
    struct misuse_row row;
    unsigned steps;
    uint3 thread, block; /* the acting thread, or the first of the warp */
    unsigned lanes;      /* 32 for a warp, or 1 */
    bool in_turns;
    volatile address *slot, *told; /* in host memory, which survives a stopped kernel. told: the misused pointers */
    address from_host;
};

static __device__ unsigned global_word[4];

static __device__ address misused(const struct work &w, unsigned k) {
    static __shared__ unsigned shared_word[4];
    unsigned stack_word[4];
    address at = 0;
    switch (w.row.pointer) {
    case SLOT: return w.slot[k] + w.row.offset;
    case END: return (w.slot[0] | (w.row.stretch - 1)) + 1 + w.row.offset;
    case WILD: break;
    case STACK: at = (address)stack_word; break;
    case SHARED: at = (address)shared_word; break;
    case GLOBAL: at = (address)global_word; break;
    default: at = w.from_host;
    }
    return at + w.row.offset + 16 * k;
}

static __device__ void give_back(address p) {
    asm volatile("" : "+l"(p)); /* hides the value from the compiler */
    free((void *)p);
}
/* Records the pointer for the host before the misuse. */
static __device__ void misuse_told(const struct work &w, unsigned k, address p) {
    w.told[k] = p;
    __threadfence_system();
}

/* Called by all 32 lanes. The lane with the odd pointer records it, or else the lane of the first slice that was already free. */
static __device__ void misuse_as_warp(const struct work &w, unsigned lane) {
    const unsigned odd = w.row.odd_lane, teller = odd ? odd : w.row.first;
    const address p = w.slot[lane] + (odd == lane ? w.row.offset : 0);
    for (unsigned k = 0; k < w.row.times; k++) {
        if (lane == teller) misuse_told(w, k, p);
        __syncwarp();
        give_back(p);
        __syncwarp();
    }
}

static __global__ void act(const struct work w) {
    if (blockIdx.x != w.block.x || blockIdx.y != w.block.y || blockIdx.z != w.block.z) return;
    const unsigned me = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned first = (w.thread.z * blockDim.y + w.thread.y) * blockDim.x + w.thread.x, lane = me - first;
    if (me == first) {
        if (w.steps & GET)
            for (unsigned i = 0; i < w.row.count; i++) w.slot[i] = (address)malloc(w.row.bytes);
        __threadfence_system();
        if (w.steps & RELEASE && w.lanes == 1)
            for (unsigned i = w.row.first; i < w.row.released; i++) give_back(w.slot[i]);
        if (w.steps & FINISH)
            for (unsigned i = w.row.live_from; i < w.row.count; i++) give_back(w.slot[i]);
    }
    __syncthreads();
    if (lane < w.lanes && w.lanes > 1) { /* a warp: all of its lanes or none */
        __syncwarp();
        if (w.steps & RELEASE && w.row.first <= lane && lane < w.row.released) give_back(w.slot[lane]);
        __syncwarp();
        if (w.steps & MISUSE) misuse_as_warp(w, lane);
    } else if (w.steps & MISUSE) {
        for (unsigned k = 0; k < w.row.times; k++) {
            if (lane == (w.in_turns ? k : 0)) {
                const address p = misused(w, k);
                misuse_told(w, k, p);
                give_back(p);
            }
            if (w.in_turns) __syncthreads();
        }
    }
}

/* ---- ways ---- */

static const char *const when_name[] = {"same-kernel", "later-kernel", "other-gpu"};
static const char *const mode_name[] = {"report", "trap", "ignore"};
static const struct {
    const char *name;
    dim3 grid, threads;
    uint3 thread, block;
} who_ways[] = {
    {"", {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
    {"/middle", {4, 1, 1}, {128, 1, 1}, {77, 0, 0}, {2, 0, 0}},
    {"/three-dimensions", {3, 2, 2}, {8, 4, 3}, {5, 2, 1}, {2, 1, 1}},
    {"/warp", {3, 1, 1}, {96, 1, 1}, {32, 0, 0}, {1, 0, 0}},
    {"/warp-of-three-dimensions", {2, 2, 1}, {8, 4, 3}, {0, 0, 1}, {1, 1, 0}},
    {"/in-turns", {2, 1, 1}, {64, 1, 1}, {0, 0, 0}, {1, 0, 0}},
};

/* A case: a row, and one choice for each of when, who and mode. */
struct misuse_case {
    struct misuse_row row;
    unsigned when, who, mode; /* one bit each */
    char name[120];
};
static unsigned index_of(unsigned bit) { return (unsigned)__builtin_ctz(bit); }

/* Calls f for each case until f returns nonzero; returns that value. */
static int for_each_case(int (*f)(const struct misuse_case *c, const char *argument), const char *argument) {
    int result = 0;
    for (unsigned i = 0; i < misuse_row_count && result == 0; i++) {
        struct misuse_case c = {misuse_rows[i], 0, 0, 0, ""};
        struct misuse_row *row = &c.row;
        if (row->when == 0) row->when = BOTH_KERNELS;
        if (row->who == 0) row->who = ONE;
        if (row->mode == 0) row->mode = REPORT;
        if (row->live_from == 0) row->live_from = row->released;
        if (row->times == 0) row->times = 1;
        if (row->spacing == 0) row->spacing = 32;
        for (c.when = SAME_KERNEL; c.when <= OTHER_GPU; c.when <<= 1)
            for (c.who = ONE; c.who <= TURNS; c.who <<= 1)
                for (c.mode = REPORT; c.mode <= IGNORE && result == 0; c.mode <<= 1) {
                    if (!(row->when & c.when && row->who & c.who && row->mode & c.mode)) continue;
                    snprintf(c.name, sizeof c.name, "%s/%s%s%s%s", row->name, when_name[index_of(c.when)], who_ways[index_of(c.who)].name,
                             c.mode == REPORT ? "" : "/", c.mode == REPORT ? "" : mode_name[index_of(c.mode)]);
                    result = f(&c, argument);
                }
    }
    return result;
}

static int list(const struct misuse_case *c, const char *argument) {
    (void)argument;
    printf("%s %d %s %u\n", c->name, c->mode == TRAP ? STOPPED : 0, mode_name[index_of(c->mode)], c->row.spacing);
    return 0;
}

/* ---- one case ---- */

static void fail(const char *what, const char *why) {
    printf("%s: %s\n", what, why);
    exit(NOT_ARRANGED);
}
static void cuda(cudaError_t error, const char *what) {
    if (error != cudaSuccess) fail(what, cudaGetErrorString(error));
}

/* Launches the steps on a device, by the case's threads, and waits. */
static cudaError_t launch(const struct misuse_case *c, struct work w, int device, unsigned steps) {
    const auto &way = who_ways[index_of(c->who)];
    cuda(cudaSetDevice(device), "cudaSetDevice");
    w.steps = steps;
    act<<<way.grid, way.threads>>>(w);
    cuda(cudaGetLastError(), "launch");
    return cudaDeviceSynchronize();
}

static address pointer_from_host(const struct misuse_case *c) {
    void *p = NULL;
    const int device = (int)c->row.device;
    cuda(cudaSetDevice(c->row.pointer == CUDA_MALLOC_OF_ANOTHER ? 1 - device : device), "cudaSetDevice");
    switch (c->row.pointer) {
    case CUDA_MALLOC:
    case CUDA_MALLOC_OF_ANOTHER: cuda(cudaMalloc(&p, 4096), "cudaMalloc"); break;
    case MANAGED: cuda(cudaMallocManaged(&p, 4096), "cudaMallocManaged"); break;
    case PINNED: cuda(cudaMallocHost(&p, 4096), "cudaMallocHost"); break;
    case HOST_STACK: return (address)&p;
    case HOST_HEAP: p = malloc(4096); break;
    default: break;
    }
    return (address)p;
}

/* Prints the expected reports, in the words of docs/reference/contract.md. */
static void print_lines(const struct misuse_case *c, const struct work &w, enum misuse_kind kind, address counted) {
    static const char *const text[KINDS] = {
        "invalid free(%#llx), a pointer of another allocator, another GPU's heap or the stack", "invalid free(%#llx), a pointer into memory that is free",
        "invalid free(%#llx), a pointer into the middle of an allocation", "invalid free(%#llx), a pointer that malloc never gave", "double free(%#llx)"};
    for (unsigned k = 0; k < w.row.times && k < TOLD_MOST; k++) {
        printf("mm: device %u: ", c->row.device);
        printf(text[kind], w.told[k]);
        if (kind == c->row.kind && c->row.size) printf(" of %llu bytes", c->row.size);
        printf(", by %sthread (%u,%u,%u) of block (%u,%u,%u)\n", w.lanes > 1 && !c->row.odd_lane ? "the warp of " : "",
               w.thread.x + (w.in_turns ? k : 0) + c->row.odd_lane, w.thread.y, w.thread.z, w.block.x, w.block.y, w.block.z);
    }
    if (w.row.times > TOLD_MOST) printf("mm: device %u: %llu misuses of free in all; these were the first %d\n", c->row.device, counted, TOLD_MOST);
}

/* Checks that the slots and the misused pointers are where the case needs them. */
static void check_arranged(const struct misuse_case *c, const struct work &w) {
    const unsigned stretch = c->row.stretch;
    for (unsigned i = 0; i < c->row.count; i++) {
        if (w.slot[i] == 0) fail("malloc", "NULL");
        if (stretch && (w.slot[i] ^ w.slot[0]) >= stretch) fail("slots", "not in one block");
        if (i && w.lanes > 1 && w.slot[i] < w.slot[i - 1]) fail("slots", "not one behind the other");
    }
    for (unsigned k = 0; k < w.row.times; k++)
        if (c->row.count && stretch && (w.told[k] ^ w.slot[0]) >= stretch) fail("what is misused", "not in the block");
}

/* Returns whether the current context counted n misuses, all of this kind. */
static bool are_counted(enum misuse_kind kind, address n) {
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    if (mm_get_statistics(&s) != MM_OK) fail("mm_get_statistics", "an error");
    const address is[KINDS] = {s.misuse_foreign, s.misuse_not_allocated, s.misuse_interior, s.misuse_never, s.misuse_double_free};
    address all = 0;
    for (int i = 0; i < KINDS; i++) all += is[i];
    return is[kind] == n && all == n;
}

static int run(const struct misuse_case *c, const char *name) {
    if (strcmp(c->name, name) != 0) return 0;
    const struct misuse_row *row = &c->row;
    const auto &way = who_ways[index_of(c->who)];
    const int device = (int)row->device, owner = c->when == OTHER_GPU ? 1 - device : device;
    int devices = 0;
    cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    if (devices < 1 + (c->when == OTHER_GPU || device == 1)) exit(NO_SECOND_GPU);

    void *shared;
    cuda(cudaHostAlloc(&shared, (row->count + row->times) * sizeof(address), cudaHostAllocPortable), "cudaHostAlloc");
    struct work w = {*row, 0, way.thread, way.block, c->who & (WARP | WARP_SPACE) ? 32u : 1u, c->who == TURNS, (address *)shared, NULL, 0};
    w.told = w.slot + row->count;
    w.from_host = pointer_from_host(c);
    if (c->when != SAME_KERNEL) {
        cuda(launch(c, w, owner, GET), "kernel that mallocs");
        cuda(launch(c, w, owner, RELEASE), "kernel that frees");
    }
    const cudaError_t error = launch(c, w, device, c->when == SAME_KERNEL ? GET | RELEASE | MISUSE : MISUSE);
    const bool is_stopped = error == cudaErrorLaunchFailure || error == cudaErrorIllegalInstruction;
    if (!is_stopped) cuda(error, "kernel that misuses");
    check_arranged(c, w);

    const enum misuse_kind kind = c->when == OTHER_GPU ? FOREIGN : row->kind;
    const address counted = row->times * (w.lanes > 1 && !row->odd_lane ? row->released - row->first : 1ull);
    if (c->mode != IGNORE) print_lines(c, w, kind, counted);
    fflush(stdout);
    if (is_stopped) exit(STOPPED);
    if (!are_counted(kind, counted)) exit(COUNTED_OTHERWISE);
    cuda(launch(c, w, owner, FINISH), "kernel that frees the rest"); /* the misuse changed nothing */
    cudaSetDevice(device);
    exit(are_counted(kind, counted) ? 0 : COUNTED_OTHERWISE);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) return for_each_case(list, NULL);
    if (argc == 2) for_each_case(run, argv[1]);
    fprintf(stderr, "usage: misuse --list | misuse CASE\n");
    return 2;
}
