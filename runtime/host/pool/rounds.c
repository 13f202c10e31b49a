/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/pool/rounds.h"

CUresult mm_pool_synchronize(const struct mm_driver *d, CUcontext context) {
    CUcontext current = NULL;
    struct mm_driver_visit visit;
    if (d->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context) return d->cuCtxSynchronize();
    if (!mm_driver_try_enter(d, context, &visit)) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult r = d->cuCtxSynchronize();
    mm_driver_leave(d, &visit);
    return r;
}

static void relax(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

CUresult mm_rounds_wait(const struct mm_driver *d, struct mm_rounds *r, CUcontext context, unsigned looks) {
    uint64_t state = __atomic_fetch_add(&r->state, 0, __ATOMIC_ACQ_REL);
    const uint64_t next = state / 2 + 1 + state % 2; /* the round that runs now began before */
    if (state % 2 != 0 && state == __atomic_load_n(&r->slow, __ATOMIC_RELAXED)) looks = 0;
    for (; looks != 0; looks--) {
        if (__atomic_load_n(&r->done, __ATOMIC_ACQUIRE) >= next) return CUDA_SUCCESS;
        state = __atomic_load_n(&r->state, __ATOMIC_RELAXED);
        if (state % 2 == 0 && __atomic_compare_exchange_n(&r->state, &state, state + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            const CUresult result = mm_pool_synchronize(d, context);
            if (result == CUDA_SUCCESS) __atomic_store_n(&r->done, state / 2 + 1, __ATOMIC_RELEASE);
            __atomic_fetch_add(&r->state, 1, __ATOMIC_ACQ_REL); /* not a store: it would hide the additions of waits */
            return result;
        }
        relax();
    }
    if (state % 2 != 0) __atomic_store_n(&r->slow, state, __ATOMIC_RELAXED);
    return mm_pool_synchronize(d, context);
}
