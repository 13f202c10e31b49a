/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Magazines: each thread keeps some memory that it freed, and gets it back without the pools' lock (Bonwick and Adams, Magazines and Vmem, USENIX ATC 2001).
 *
 * Representation. A magazine has sets; a set has blocks of one pool and length, the oldest first, each with the epoch of its free (fences.h). A length has
 * one set that it may be in. For the books, a block in a magazine is an allocation in the state CACHED.
 *
 * Invariants.
 *   M1  A block of a set is in the table, CACHED, with the set's pool and length, and in no other set.
 *   M2  A block leaves its set as the program's only when its epoch has ended (I3 of pool.h), and as pending, in the open epoch, else. In keep a block enters
 *       when its free has waited, and its epoch is 0, which has ended; it leaves as the program's, or is free in the books.
 *   M3  While a pool is marked as ending, no block enters or leaves a set of it, but to become pending or free. Before an ended pool is forgotten, its sets
 *       are emptied; it loses its mark last. When devices share memory, or there are several, no set is prepared any more, and then each is emptied.
 *   M4  A set has at most MM_POOL_SET_PLACES blocks, of MM_POOL_SET_BYTES_MAX at most.
 *
 * Locks, in this order: the pools', a magazine's, a table's (shards.h). take, put, try_end and put_ended need the last two only; a thread's own magazine is
 * locked by others only to empty it.
 *
 * Linearisation points. put, try_end and take: the change of the allocation's state.
 *
 * What may be stale: whether a stream captures. A call that misses the beginning happened before it.
 */
#ifndef MM_HOST_POOL_MAGAZINES_H
#define MM_HOST_POOL_MAGAZINES_H

#include "runtime/host/pool/state.h"

/* Takes a block of `rounded` bytes of the context's pool from this thread's magazine, for a request of `bytes`. Returns 0 if that has none whose epoch has
 * ended; *waiting (may be NULL) is that epoch, if so many blocks wait that it is worth an event, else 0. */
CUdeviceptr mm_magazine_take(CUcontext context, uint64_t rounded, uint64_t bytes, uint64_t *waiting);
/* Frees the live allocation at an address into this thread's magazine. Returns false if it does not take it, or there is no such allocation. */
bool mm_magazine_put(CUdeviceptr address);

/* keep, before and after the wait of a free. try_end: the live allocation at an address, for which this thread's magazine has room, becomes ENDING, and this
 * thread a visitor of its pool (state.h), which is returned. NULL: there is no such allocation. put_ended: the wait has succeeded; returns false if there is
 * no room any more. */
struct mm_pool *mm_magazine_try_end(CUdeviceptr address);
bool mm_magazine_put_ended(CUdeviceptr address);

/* For all of these, the caller holds the pools' lock. */
/* Makes this thread's set for allocations like this one theirs: what it has of others becomes pending, or free. Allocations of the table may move. */
void mm_magazine_prepare(const struct mm_allocation *a);
/* Blocks of a pool (NULL: of all) in magazines become pending, or free. */
void mm_magazines_empty(const struct mm_pool *p);
struct mm_magazines_sum {
    uint64_t blocks, bytes;
};
struct mm_magazines_sum mm_magazines_sum(const struct mm_pool *p);

#endif
