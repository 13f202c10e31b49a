/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Host-based pooling: cudaMalloc and cudaFree of a program without the driver (MM_POOL). All books are kept in host memory (Bell, Kumar and Gill, Host-Based
 * Allocators for Device Memory).
 *
 * Representation. Each context has a pool. A pool has ranges from cuMemAlloc: slabs, from which allocations up to MM_POOL_CARVE (below 2 MiB by default) are
 * carved (fit.h), and ranges that are one allocation each, kept whole when it is freed. An allocation is
 *     live      the program's
 *     ending    (keep) its free waits for the context, as cuMemFree does (rounds.h)
 *     pending   (async) freed in epoch e (fences.h)
 *     cached    freed, in a thread's magazine (magazines.h)
 * and not in the table once it is free.
 *
 * Invariants.
 *   I1  What the fit of a pool holds as live is exactly the pool's allocations that are carved, of any state.
 *   I2  Each range that is no slab is in exactly one of: the table of allocations, the pool's list of free ranges, the hands of a thread that took it out of
 *       both to give it to the driver.
 *   I3  Memory becomes free in the books only when all work that was submitted to its context before the program's free is done: keep waited for the
 *       context; async's epoch has ended; or the driver's own cuMemFree waited.
 *       Pools on several devices: it waited for all of their contexts, since copies between devices are work of one context that uses memory of another.
 *       Then no event ends a pending free; and a pool is visited for as long as any of these waits lasts, so that its context does not end meanwhile.
 *       A context that may be about to end is not waited for; since it may live on, such a free stays pending.
 *   I4  While a stream of the process captures, the pool hands out nothing, and a free does what the driver would do: nothing of the pool gets into a graph.
 *       A capture that begins while the lock is open is not broken: pending frees are waited for by events, and let_waits_begin (captures.c) lets a free of
 *       keep come to the driver first. A free that has waited for one of several contexts then stays pending; so does a free in a capture, with several
 *       devices, since the driver's free waits for one context. Threads without the lock and a beginning capture see each other by mm_pool_come (state.h).
 *   I5  No allocation begins where a slab does, so no free that passes mm can end a slab.
 *   I6  A free needs no host memory: an allocation is handed out only when there is room for its free.
 *
 * Events. One for each free would be a fifth of the time of a pair. So an epoch of frees is closed (fences.h) late: by a free after which MM_POOL_BATCH frees,
 * or MM_POOL_BATCH_BYTES, have no event; by a request for which the pool has no memory; by one whose magazine waits for it; or by the thread that gives memory
 * back. I3 holds whenever that is, since a later event covers all that an earlier one would. Before a request asks the driver, it closes the epoch and waits
 * for up to MM_POOL_WAIT_US, so the pool does not grow for want of an event. After some such waits it does, the later the larger it is.
 * A free range of just the length is handed out without a look at events. No epoch is closed while a stream captures, or in a context that is about to end.
 *
 * Linearisation points. All under one lock, but for magazines: an allocation begins when it enters the table. Its free takes effect when its state changes.
 *
 * Ordering. The lock orders the books. Kernels are ordered by the driver: a kernel that is launched after malloc returned, and one that was submitted before
 * free was called, are ordered by I3.
 *
 * Progress. The lock is not held while the driver allocates, frees or waits; only while an event is recorded or queried. A request waits for an event with the
 * lock open.
 *
 * What may be stale. `done` of a pool's fences: memory is then handed out later. The list of captures holds a stream until its capture has ended; in between
 * the pool does less.
 */
#ifndef MM_HOST_POOL_POOL_H
#define MM_HOST_POOL_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/host/driver.h"
#include "runtime/host/pool/mode.h"

/* cuMemAlloc of the driver, which may have heaps give memory back. */
typedef CUresult mm_pool_driver_allocate(CUdeviceptr *address, size_t bytes);

/* cuMemAlloc in the current context, unless that context is green. Returns what the driver would. */
CUresult mm_pool_allocate(const struct mm_driver *d, CUdeviceptr *address, size_t bytes, mm_pool_driver_allocate *driver);
/* MM_POOL=small: keeps one small allocation of the current context alive. */
void mm_pool_anchor(const struct mm_driver *d);
/* cuMemFree. Returns false if the address belongs to no pool: the driver frees it. Else *r is what the driver would return: CUDA_ERROR_INVALID_VALUE if no live
 * allocation begins there. */
bool mm_pool_free(const struct mm_driver *d, CUdeviceptr address, CUresult *r);

/* The driver lacks memory: gives it all that is free, waiting for pending frees unless a stream captures. Returns whether there was any. */
__attribute__((cold)) bool mm_pool_give_back(const struct mm_driver *d);
/* Bytes on the device of the current context that the driver takes for used, and that pools would give back. */
uint64_t mm_pool_idle_bytes(const struct mm_driver *d);

/* Bytes that all pools have of the devices, live or not. Exported for mmbench. */
uint64_t mm_pool_taken_v1(void);

enum mm_pool_place { MM_POOL_NOWHERE, MM_POOL_WHOLE, MM_POOL_CARVED, MM_POOL_DEAD };
/* What an address in device memory belongs to: nothing of a pool; an allocation, *base and *bytes as the program asked for it; memory of a pool that no
 * allocation has. */
enum mm_pool_place mm_pool_find(CUdeviceptr address, CUdeviceptr *base, size_t *bytes);
/* The allocation that contains the address, if it is whole, will go to the driver when it is freed: a handle of it exists, or its attributes changed. Returns
 * as mm_pool_find. */
enum mm_pool_place mm_pool_keep_out(CUdeviceptr address);

/* A device gets access to the memory of another one: no more is handed out, since work of one context may use the memory of another. */
void mm_pool_peers_come(void);

/* A capture of a stream begins, before the driver's call; it has ended, or did not begin. */
void mm_pool_capture_begins(CUstream stream);
void mm_pool_capture_ended(CUstream stream);
bool mm_pool_captures(CUstream stream);

/* A context is about to end: nothing is handed out from its pool. Returns what mm_pool_ended takes after the driver's call. */
struct mm_pool;
struct mm_pool *mm_pool_ending(CUcontext context);
/* has_ended: forgets all of it, which the driver has freed. */
void mm_pool_ended(struct mm_pool *pool, bool has_ended);

#endif
