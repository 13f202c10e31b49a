/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Epochs of frees in one context. All frees since the last fence belong to the open epoch, `recorded` + 1. A fence closes it: an event of the whole context
 * (cuCtxRecordEvent, CUDA 12.5), which is done when all work that was submitted to the context before is done. Fences are recorded in order, and each covers
 * what those before it cover, so epochs end in order, too.
 *
 * The caller locks, and sees to it that no stream of the context captures: the event would break the capture.
 */
#ifndef MM_HOST_POOL_FENCES_H
#define MM_HOST_POOL_FENCES_H

#include <stdint.h>

#include "mmconfig.h"
#include "runtime/host/driver.h"

struct mm_fences {
    CUevent events[MM_POOL_FENCES]; /* in turn; NULL: not made yet */
    uint64_t recorded, done;        /* the last epoch that was closed; the last one that has ended */
};

/* Whether this driver can record fences. */
bool mm_fences_exist(const struct mm_driver *d);
/* Closes the open epoch. Returns CUDA_SUCCESS, CUDA_ERROR_NOT_READY if all events are in use, or the driver's error. */
CUresult mm_fences_record(const struct mm_driver *d, struct mm_fences *f, CUcontext context);
/* Looks which epochs have ended. */
void mm_fences_poll(const struct mm_driver *d, struct mm_fences *f);

#endif
