/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/pool/fences.h"

bool mm_fences_exist(const struct mm_driver *d) { return d->cuCtxRecordEvent && d->cuEventCreate && d->cuEventQuery; }

CUresult mm_fences_record(const struct mm_driver *d, struct mm_fences *f, CUcontext context) {
    if (f->recorded - f->done == MM_POOL_FENCES) return CUDA_ERROR_NOT_READY;
    CUevent *const event = &f->events[f->recorded % MM_POOL_FENCES];
    struct mm_driver_visit visit;
    CUresult r = CUDA_SUCCESS;
    if (!*event) {
        if (!mm_driver_try_enter(d, context, &visit)) return CUDA_ERROR_INVALID_CONTEXT;
        r = d->cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
        mm_driver_leave(d, &visit);
    }
    if (r == CUDA_SUCCESS) r = d->cuCtxRecordEvent(context, *event);
    f->recorded += r == CUDA_SUCCESS;
    return r;
}

void mm_fences_poll(const struct mm_driver *d, struct mm_fences *f) {
    while (f->done < f->recorded && d->cuEventQuery(f->events[f->done % MM_POOL_FENCES]) == CUDA_SUCCESS) f->done++;
}
