/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/pool/fences.h"

bool mm_fences_exist(const struct mm_driver *d) { return d->cuCtxRecordEvent && d->cuEventCreate && d->cuEventQuery && d->cuEventSynchronize; }

CUresult mm_fences_record(const struct mm_driver *d, struct mm_fences *f, CUcontext context) {
    if (f->recorded - f->seen == MM_POOL_FENCES) return CUDA_ERROR_NOT_READY;
    const uint64_t place = f->recorded % MM_POOL_FENCES, epoch = f->open;
    CUevent *const event = &f->events[place];
    struct mm_driver_visit visit;
    CUresult r = CUDA_SUCCESS;
    if (!*event) {
        if (!mm_driver_try_enter(d, context, &visit)) return CUDA_ERROR_INVALID_CONTEXT;
        r = d->cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
        mm_driver_leave(d, &visit);
    }
    if (r != CUDA_SUCCESS) return r;
    __atomic_store_n(&f->open, epoch + 1, __ATOMIC_SEQ_CST);
    r = d->cuCtxRecordEvent(context, *event);
    f->covers[place] = epoch;
    f->recorded += r == CUDA_SUCCESS;
    return r;
}

CUresult mm_fences_wait(const struct mm_driver *d, CUcontext context, CUevent event) {
    struct mm_driver_visit visit;
    if (!mm_driver_try_enter(d, context, &visit)) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult r = d->cuEventSynchronize(event);
    mm_driver_leave(d, &visit);
    return r;
}

/* The last of these events was not recorded again: then it would have been seen to be done. */
void mm_fences_waited(struct mm_fences *f, uint64_t recorded) {
    if (recorded <= f->seen) return;
    f->seen = recorded;
    __atomic_store_n(&f->done, f->covers[(recorded - 1) % MM_POOL_FENCES], __ATOMIC_RELEASE);
}

void mm_fences_poll(const struct mm_driver *d, struct mm_fences *f) {
    for (; f->seen < f->recorded; f->seen++) {
        const uint64_t place = f->seen % MM_POOL_FENCES;
        if (d->cuEventQuery(f->events[place]) != CUDA_SUCCESS) break;
        __atomic_store_n(&f->done, f->covers[place], __ATOMIC_RELEASE);
    }
}
