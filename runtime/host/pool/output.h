/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Output of a pool when its context or the process ends: what it did (MM_STATS), and its picture (MM_HEAP_MAP). It is collected under the pools' lock, and
 * written without it, since a file system may be slow. One thread writes at a time: two pools of one device have one file.
 */
#ifndef MM_HOST_POOL_OUTPUT_H
#define MM_HOST_POOL_OUTPUT_H

#include "runtime/host/env.h"
#include "runtime/host/pool/state.h"

struct mm_pool_numbers {
    CUdevice device;
    enum mm_stats_form form;
    uint64_t hits, misses, live, live_bytes, most_live_bytes, used_bytes, idle_bytes, taken_bytes, most_taken_bytes, given_back_bytes, largest_free_bytes;
    unsigned internal, external; /* in millionths, so that no locale's decimal point is printed; UNKNOWN */
};

struct mm_pool_output {
    CUdevice device;
    bool has_numbers, lacks_memory; /* lacks_memory: for the picture */
    struct mm_pool_numbers numbers;
    char *picture; /* NULL: none */
    size_t picture_bytes;
};

/* The caller of these holds the pools' lock. Collects the output of a pool. */
struct mm_pool_output mm_pool_collect(struct mm_pool *p);
/* Its parts: false: there are no numbers. */
bool mm_pool_try_count(struct mm_pool *p, struct mm_pool_numbers *n);
void mm_pool_draw(struct mm_pool *p, struct mm_pool_output *o);
/* Writes output, with the lock open, and drops it. One thread writes at a time; one that has waited MM_HOST_STOP_MS for that says so, and writes nothing. */
void mm_pool_write(struct mm_pool_output *o);
void mm_pool_write_numbers(struct mm_pool_numbers *n);
/* The process ends: waits until all output that other threads collected is written, MM_HOST_STOP_MS at most, with the lock open. Returns whether it is. */
bool mm_pool_await_writers(void);

#endif
