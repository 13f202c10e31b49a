/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What an address belongs to. */
#include "runtime/host/pool/pool.h"
#include "runtime/host/pool/state.h"

/* Finds what an address belongs to, and the live allocation that contains it, or NULL. The caller holds the lock. */
static enum mm_pool_place place_of(CUdeviceptr address, struct mm_allocation **found) {
    const struct mm_pool_range *const range = mm_pool_ranges_containing(&mm_pool_ranges, address);
    uint64_t base = 0, bytes;
    *found = NULL;
    if (!range) return MM_POOL_NOWHERE;
    if (!range->is_slab) base = range->base;
    else if (!mm_fit_find(range->pool->fit, address, &base, &bytes)) return MM_POOL_DEAD;
    struct mm_allocation *const a = mm_pool_allocation_at(base);
    if (!a || !mm_allocation_is_live(a) || address - base >= __atomic_load_n(&a->asked_bytes, __ATOMIC_RELAXED)) return MM_POOL_DEAD;
    *found = a;
    return a->is_whole ? MM_POOL_WHOLE : MM_POOL_CARVED;
}

enum mm_pool_place mm_pool_find(CUdeviceptr address, CUdeviceptr *base, size_t *bytes) {
    struct mm_allocation *a;
    pthread_mutex_lock(&mm_pool_lock);
    const enum mm_pool_place place = place_of(address, &a);
    if (a) *base = a->address, *bytes = __atomic_load_n(&a->asked_bytes, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&mm_pool_lock);
    return place;
}

enum mm_pool_place mm_pool_keep_out(CUdeviceptr address) {
    struct mm_allocation *a;
    pthread_mutex_lock(&mm_pool_lock);
    const enum mm_pool_place place = place_of(address, &a);
    if (a) a->goes_back = true;
    pthread_mutex_unlock(&mm_pool_lock);
    return place;
}
