/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by pool.c and decay.c: the pools of the process. */
#ifndef MM_HOST_POOL_STATE_H
#define MM_HOST_POOL_STATE_H

#include <pthread.h>

#include "runtime/host/pool/allocations.h"
#include "runtime/host/pool/fences.h"
#include "runtime/host/fit/fit.h"
#include "runtime/host/pool/ranges.h"

struct mm_pool_pending_free {
    uint64_t address, epoch;
};
/* A queue of frees, in a ring; positions only grow. */
struct mm_pool_pending {
    struct mm_pool_pending_free *ring;
    uint64_t first, end, mask;
};

struct mm_pool {
    struct mm_pool *next;
    CUcontext context; /* NULL: it has ended, and another one may take the place */
    CUdevice device;
    bool is_ending;
    unsigned visitors;  /* threads that use the context without the lock */
    CUdeviceptr anchor; /* a small allocation: what frees do while a stream captures is done to it; 0: none */
    struct mm_fit *fit;
    struct mm_pool_ranges whole; /* free ranges, by length */
    struct mm_pool_pending pending;
    struct mm_fences fences;
    uint64_t allocations, slabs, wholes;                                             /* numbers of its allocations, its slabs, and its other ranges */
    uint64_t slab_bytes, whole_bytes, live_bytes, most_live_bytes, most_taken_bytes; /* slab, whole: of all such ranges; live: as asked */
    uint64_t hits, misses, given_back_bytes;
};

extern pthread_mutex_t mm_pool_lock;
extern struct mm_pool *mm_pools;
extern struct mm_allocations mm_pool_allocations;
extern struct mm_pool_ranges mm_pool_ranges; /* of all pools, by address */
extern uint64_t mm_pool_uses;                /* number of calls that changed a pool */
extern unsigned mm_pool_capture_count;
extern bool mm_pool_has_peers; /* devices may access each other's memory */

/* The caller of these holds the lock. Ends the first pending free: its memory is free in the books. */
void mm_pool_retire_first(struct mm_pool *p);
/* Takes a range that is no slab out of the books: from now on it is the driver's alone. */
void mm_pool_forget_whole(struct mm_pool *p, CUdeviceptr base, uint64_t bytes);
/* Bytes that the pool would give back when nothing is pending any more. */
uint64_t mm_pool_idle_of(const struct mm_pool *p);
/* Opens the lock while the driver works in the pool's context, which does not end meanwhile (mm_pool_ending); and takes it again. */
void mm_pool_enter(struct mm_pool *p);
void mm_pool_leave(struct mm_pool *p);

/* Waits for all work of a context. The caller does not hold the lock. */
CUresult mm_pool_synchronize(const struct mm_driver *d, CUcontext context);

/* MM_STATS: writes what the pool did. The caller holds the lock. */
void mm_pool_report(struct mm_pool *p);

/* The first pool is made: from now on a thread gives back memory, and the end of the process is seen. The caller holds the lock. */
void mm_pool_begin(const struct mm_driver *d);

#endif
