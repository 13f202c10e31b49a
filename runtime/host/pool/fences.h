/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Epochs of frees in one context. A free belongs to the epoch that is open when it is called. A fence closes the open epoch: an event of the whole context
 * (cuCtxRecordEvent, CUDA 12.5), which is done when all work that was submitted to the context before is done. Fences are recorded in order, and each covers
 * what those before it cover, so epochs end in order, too.
 *
 * A free may read `open` without the lock. The next epoch opens before the event is recorded. So work that the event does not cover was submitted after the
 * next epoch had opened, and a free after that work does not read the epoch that the event ends. An event that could not be recorded leaves an epoch that the
 * next event ends.
 *
 * For all else the caller locks, and sees to it that no stream of the context captures: the event would break the capture.
 */
#ifndef MM_HOST_POOL_FENCES_H
#define MM_HOST_POOL_FENCES_H

#include <stdint.h>

#include "mmconfig.h"
#include "runtime/host/driver.h"

struct mm_fences {
    CUevent events[MM_POOL_FENCES];  /* in turn; NULL: not made yet */
    uint64_t covers[MM_POOL_FENCES]; /* the last epoch that each event ends */
    uint64_t recorded, seen;         /* numbers of events that were recorded, and that are known to be done */
    uint64_t open, done;             /* the open epoch, from 1; the last one that is known to have ended */
};

/* Whether this driver can record fences. */
bool mm_fences_exist(const struct mm_driver *d);
static inline uint64_t mm_fences_open(const struct mm_fences *f) { return __atomic_load_n(&f->open, __ATOMIC_SEQ_CST); }
/* Whether an epoch has ended, as far as is known: all work that was submitted before its frees is done. */
static inline bool mm_fences_ended(const struct mm_fences *f, uint64_t epoch) { return epoch <= __atomic_load_n(&f->done, __ATOMIC_ACQUIRE); }

/* The last epoch that ends with an event that was recorded. */
static inline uint64_t mm_fences_covered(const struct mm_fences *f) { return f->recorded != 0 ? f->covers[(f->recorded - 1) % MM_POOL_FENCES] : 0; }

/* Closes the open epoch. Returns CUDA_SUCCESS, CUDA_ERROR_NOT_READY if all events are in use, or the driver's error. */
CUresult mm_fences_record(const struct mm_driver *d, struct mm_fences *f, CUcontext context);
/* Looks which epochs have ended. */
void mm_fences_poll(const struct mm_driver *d, struct mm_fences *f);
/* Waits for all events that were recorded before, of which there is one. The caller does not lock, and has read `event` and `recorded` with the lock:
 * mm_fences_last(f) and f->recorded. mm_fences_waited, with the lock, notes that the wait succeeded. A capture may begin meanwhile: a wait for an event
 * leaves it alone, since the thread's mode is relaxed; a wait for the context would break it. */
static inline CUevent mm_fences_last(const struct mm_fences *f) { return f->events[(f->recorded - 1) % MM_POOL_FENCES]; }
CUresult mm_fences_wait(const struct mm_driver *d, CUcontext context, CUevent event);
void mm_fences_waited(struct mm_fences *f, uint64_t recorded);

#endif
