/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The pools of the process, and what the files of this folder share. */
#ifndef MM_HOST_POOL_STATE_H
#define MM_HOST_POOL_STATE_H

#include <pthread.h>
#include <time.h>

#include "runtime/host/pool/fences.h"
#include "runtime/host/fit/fit.h"
#include "runtime/host/pool/ranges.h"
#include "runtime/host/pool/rounds.h"
#include "runtime/host/pool/shards.h"

struct mm_pool_pending_free {
    uint64_t address, epoch;
};
/* A queue of frees, in a ring; positions only grow. */
struct mm_pool_pending {
    struct mm_pool_pending_free *ring;
    uint64_t first, end, mask;
    uint64_t covered;                /* an event was recorded for all before this position */
    uint64_t bytes, uncovered_bytes; /* of all in the queue, and of those that no event covers */
};

struct mm_pool {
    struct mm_pool *next;
    unsigned visitors; /* threads that use the context without the lock; atomic. Like `next`, it outlives the context */
    CUcontext context; /* NULL: it has ended, and another one may take the place */
    CUdevice device;
    unsigned endings;   /* calls that may end its context, or have; read without the lock, too */
    bool is_anchoring;  /* a thread makes the anchor */
    CUdeviceptr anchor; /* a small allocation: what frees do while a stream captures is done to it; 0: none */
    struct mm_fit *fit;
    struct mm_pool_ranges whole; /* free ranges, by length */
    struct mm_pool_pending pending;
    struct mm_fences fences;
    uint64_t allocations, slabs, wholes;                /* numbers of its allocations, its slabs, and its other ranges */
    uint64_t slab_bytes, whole_bytes, most_taken_bytes; /* slab, whole: of all such ranges */
    uint64_t misses, given_back_bytes;
    uint64_t waited_us; /* by requests for events since the driver was asked for memory */
    _Alignas(64) struct mm_rounds rounds;
    _Alignas(64) uint64_t live_bytes, most_live_bytes; /* as asked; these are atomic, since magazines change them, too */
    uint64_t hits, frees;
};

static inline void mm_pool_count_live(struct mm_pool *p, uint64_t bytes) {
    const uint64_t live = __atomic_add_fetch(&p->live_bytes, bytes, __ATOMIC_RELAXED);
    uint64_t most = __atomic_load_n(&p->most_live_bytes, __ATOMIC_RELAXED);
    while (live > most && !__atomic_compare_exchange_n(&p->most_live_bytes, &most, live, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
}
static inline void mm_pool_count_free(struct mm_pool *p, uint64_t bytes) {
    __atomic_fetch_sub(&p->live_bytes, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&p->frees, 1, __ATOMIC_RELAXED);
}

extern pthread_mutex_t mm_pool_lock;
extern struct mm_pool *mm_pools;
extern struct mm_pool_ranges mm_pool_ranges; /* of all pools, by address */
extern unsigned mm_pool_capture_count;       /* atomic: read without the lock, too */
extern bool mm_pool_has_peers;               /* devices may access each other's memory */
extern bool mm_pool_needs_lock;              /* no set of a magazine is prepared: there are peers, or were contexts of several devices */

/* The caller of these holds the lock. Makes room for one more pending free than there are allocations. Returns false if the host has no memory. */
bool mm_pool_pending_try_reserve(struct mm_pool *p);
/* Queues an allocation that is no longer live: its free is pending, in the open epoch. */
void mm_pool_queue(struct mm_allocation *a);
/* An allocation ends, and its memory is free in the books. */
void mm_pool_release(struct mm_allocation *a);
/* Ends the first pending free: its memory is free in the books. */
void mm_pool_retire_first(struct mm_pool *p);
/* The number of pending frees that no event covers. */
uint64_t mm_pool_uncovered(const struct mm_pool *p);
/* Closes the open epoch (fences.h). No stream captures. */
CUresult mm_pool_close_epoch(const struct mm_driver *d, struct mm_pool *p);
/* Whether the pools' contexts have one device. */
bool mm_pool_is_on_one_device(void);
/* Ends pending frees whose epoch has ended, as far as is known. With several devices: none, only a wait for all contexts does. */
void mm_pool_retire_ended(struct mm_pool *p);
/* Waits for the work that may use memory of the pool, which the caller visits. Returns false if it could not wait for all of it: a stream captures, which a
 * wait would break, or the context of another pool may be about to end. Else *r is the driver's answer. The lock is open while it waits. */
bool mm_pool_try_wait(const struct mm_driver *d, struct mm_pool *of, CUresult *r);
/* Takes a range that is no slab out of the books: from now on it is the driver's alone. */
void mm_pool_forget_whole(struct mm_pool *p, CUdeviceptr base, uint64_t bytes);
/* Bytes that the pool would give back when nothing is pending any more. */
uint64_t mm_pool_idle_of(const struct mm_pool *p);
/* Opens the lock while the driver works in the pool's context, which does not end meanwhile (mm_pool_ending); and takes it again. */
void mm_pool_enter(struct mm_pool *p);
void mm_pool_leave(struct mm_pool *p);
void mm_pool_depart(struct mm_pool *p); /* a visit ends with the lock taken already */
/* The same without the lock. A thread that comes looks afterwards whether the pool is marked as ending, or a stream captures, and leaves if so; one that marks
 * a pool, or counts a capture, looks for visitors afterwards. So one of the two sees the other (Dekker), and that needs sequential consistency. */
static inline void mm_pool_come(struct mm_pool *p) { __atomic_fetch_add(&p->visitors, 1, __ATOMIC_SEQ_CST); }
void mm_pool_go(struct mm_pool *p);
/* Waits until no thread is in between, for the given time at most, with the lock open. */
void mm_pool_await_visitors(const struct mm_pool *p, const struct timespec *until);

/* The first pool is made: from now on a thread gives back memory, and the end of the process is seen. The caller holds the lock. */
void mm_pool_begin(const struct mm_driver *d);

#endif
