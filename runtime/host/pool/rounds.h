/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Waits for a context that threads share (keep): while one thread is in cuCtxSynchronize, others that come wait for the next such call, which one of them makes
 * for all. In the driver each of them would wait for its locks.
 *
 * Representation. Rounds are numbered from 1; one at a time runs. `state` is twice the number of rounds that have ended, plus 1 while one runs. `done` is the
 * last round that succeeded.
 *
 * Invariants.
 *   R1  A wait returns CUDA_SUCCESS only if a cuCtxSynchronize that began after it was called has succeeded. So all work that was submitted before is done.
 *   R2  An error is returned only to the thread whose call got it; others make a call of their own. So each thread sees what the driver would answer to it.
 *
 * Linearisation points: a wait enters with its addition to `state`; a round begins with the change of `state` to an odd number.
 *
 * Ordering. The addition of a wait (release) pairs with the beginning of a round (acquire), through the additions in between: work that the waiting thread
 * submitted is submitted for the thread that synchronizes. `done` (release) pairs with the look at it (acquire).
 *
 * Progress. A thread looks a number of times, then it synchronizes without the others: so it waits for no thread that is suspended, and where the device
 * has work to do, threads wait in the driver, in the way that the context's flags say. One thread that gave up is enough for a round: others do not look.
 */
#ifndef MM_HOST_POOL_ROUNDS_H
#define MM_HOST_POOL_ROUNDS_H

#include <stdint.h>

#include "runtime/host/driver.h"

struct mm_rounds {
    uint64_t state, done;
    uint64_t
        slow; /* the state that a thread gave up with: others do not wait for that round. May be stale: then a thread looks in vain, or synchronizes alone */
};

/* Waits for all work of a context, alone. The caller does not hold the pools' lock. */
CUresult mm_pool_synchronize(const struct mm_driver *d, CUcontext context);

/* Waits for all work of a context that was submitted before. Returns what cuCtxSynchronize would. looks: how often to look whether another thread's call has
 * served this one. */
CUresult mm_rounds_wait(const struct mm_driver *d, struct mm_rounds *r, CUcontext context, unsigned looks);

#endif
