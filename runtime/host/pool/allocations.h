/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The allocations that a program got from pools: a hash table by address, with open addressing and linear probing (Knuth, The Art of Computer Programming,
 * volume 3, section 6.4, algorithm R removes without marks). Not thread-safe: the caller locks.
 */
#ifndef MM_HOST_POOL_ALLOCATIONS_H
#define MM_HOST_POOL_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

struct mm_pool;

enum mm_allocation_state {
    MM_ALLOCATION_LIVE,    /* the program's */
    MM_ALLOCATION_ENDING,  /* a call of free waits for kernels */
    MM_ALLOCATION_PENDING, /* freed, and kernels that were launched before may still use it */
    MM_ALLOCATION_CACHED,  /* freed, in a magazine; the same */
};

struct mm_allocation {
    uint64_t address; /* 0: an empty place in the table */
    uint64_t asked_bytes, bytes;
    struct mm_pool *pool;
    int state;      /* enum mm_allocation_state; it and asked_bytes are read and written atomically */
    bool is_whole;  /* a range alone, not a part of a slab */
    bool goes_back; /* to the driver as soon as it is free: somebody has a handle of it, or changed its attributes */
};

static inline bool mm_allocation_is_live(const struct mm_allocation *a) { return __atomic_load_n(&a->state, __ATOMIC_ACQUIRE) == MM_ALLOCATION_LIVE; }
static inline void mm_allocation_becomes(struct mm_allocation *a, enum mm_allocation_state state) { __atomic_store_n(&a->state, state, __ATOMIC_RELEASE); }
/* Of several calls that free an allocation, one gets true. */
static inline bool mm_allocation_try_end(struct mm_allocation *a, enum mm_allocation_state state) {
    int live = MM_ALLOCATION_LIVE;
    return __atomic_compare_exchange_n(&a->state, &live, state, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

struct mm_allocations {
    struct mm_allocation *places;
    uint64_t count, mask; /* mask: number of places - 1; 0: none yet */
};

/* Adds an allocation whose address is not in the table, and returns its place, which stays valid until the next call that adds or removes. NULL: the host has
 * no memory, and nothing has changed. */
struct mm_allocation *mm_allocations_add(struct mm_allocations *table, const struct mm_allocation *allocation);
/* Returns the allocation that begins at the address, or NULL. */
struct mm_allocation *mm_allocations_find(const struct mm_allocations *table, uint64_t address);
/* Removes one that mm_allocations_find returned. Needs no memory. */
void mm_allocations_remove(struct mm_allocations *table, struct mm_allocation *at);
/* Removes all of a pool. */
void mm_allocations_forget(struct mm_allocations *table, const struct mm_pool *pool);

#endif
