/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The kernels of a replay. They use malloc and free only. tests/bench/test_trace.c runs them without a GPU. */
#ifndef MM_BENCH_REPLAY_KERNELS_H
#define MM_BENCH_REPLAY_KERNELS_H

#include "tools/mmbench/child/replay.h"

/* The first op of the lane among the ops [low, high) of its warp, or high. */
static __device__ unsigned replay_first_of(const struct replay_op *ops, unsigned low, unsigned high, unsigned lane) {
    while (low < high) {
        const unsigned middle = low + (high - low) / 2;
        if (ops[middle].lane < lane) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The allocation's number, in its first word: every allocator's memory has room for that. */
static __device__ void replay_one(const struct replay_op *op, void **pointers, struct replay_tally *t) {
    if (op->kind == TRACE_FREE) {
        unsigned *p = (unsigned *)pointers[op->number];
        if (p && *p != op->number) atomicAdd(&t->corrupt, 1ull);
        pointers[op->number] = NULL;
        free(p);
        return;
    }
    unsigned *p = (unsigned *)malloc(op->bytes);
    if (op->kind == TRACE_NULL) {
        free(p);
        return;
    }
    if (p) *p = op->number;
    else atomicAdd(&t->nulls, 1ull);
    pointers[op->number] = p;
}

static __global__ void replay_step_kernel(const struct replay_op *ops, const unsigned *begins, unsigned warps, void **pointers, struct replay_tally *t) {
    const unsigned warp = thread_idx() / WARP_THREADS, lane = thread_idx() % WARP_THREADS;
    if (warp >= warps) return;
    const unsigned end = begins[warp + 1];
    for (unsigned i = replay_first_of(ops, begins[warp], end, lane); i < end && ops[i].lane == lane; i++) replay_one(&ops[i], pointers, t);
}

static __global__ void replay_rest_kernel(void **pointers, unsigned count) {
    const unsigned i = thread_idx();
    if (i >= count) return;
    free(pointers[i]);
    pointers[i] = NULL;
}

#endif
