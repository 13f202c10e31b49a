/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* How allocations end, and the queue of pending frees. */
#include <stdlib.h>

#include "runtime/host/pool/magazines.h"
#include "runtime/host/pool/pool.h"
#include "runtime/host/pool/state.h"

/* ---- pending frees ---------------------------------------------------------------------------- */

bool mm_pool_pending_try_reserve(struct mm_pool *p) {
    struct mm_pool_pending *const q = &p->pending;
    const uint64_t places = q->ring ? q->mask + 1 : 0;
    if (p->allocations < places) return true;
    const uint64_t larger = places ? 2 * places : MM_POOL_FIRST_PLACES;
    struct mm_pool_pending_free *const ring = (struct mm_pool_pending_free *)malloc(larger * sizeof *ring);
    if (!ring) return false;
    for (uint64_t i = q->first; i != q->end; i++) ring[i & (larger - 1)] = q->ring[i & q->mask];
    free(q->ring);
    q->ring = ring, q->mask = larger - 1;
    return true;
}

void mm_pool_release(struct mm_allocation *a) {
    struct mm_pool *const p = a->pool;
    if (a->is_whole) mm_pool_ranges_add_by_bytes(&p->whole, (struct mm_pool_range){a->address, a->bytes, p, false});
    else mm_fit_free(p->fit, a->address);
    p->allocations--;
    mm_pool_allocation_remove(a);
}

void mm_pool_retire_first(struct mm_pool *p) {
    struct mm_pool_pending *const q = &p->pending;
    struct mm_allocation *const a = mm_pool_allocation_at(q->ring[q->first & q->mask].address);
    q->bytes -= a->bytes;
    if (q->first++ >= q->covered) q->uncovered_bytes -= a->bytes;
    mm_pool_release(a);
}

CUresult mm_pool_close_epoch(const struct mm_driver *d, struct mm_pool *p) {
    const CUresult r = mm_fences_record(d, &p->fences, p->context);
    if (r == CUDA_SUCCESS) p->pending.covered = p->pending.end, p->pending.uncovered_bytes = 0;
    return r;
}

uint64_t mm_pool_uncovered(const struct mm_pool *p) { return p->pending.end - (p->pending.covered > p->pending.first ? p->pending.covered : p->pending.first); }

bool mm_pool_is_on_one_device(void) {
    const struct mm_pool *first = NULL;
    for (const struct mm_pool *p = mm_pools; p; p = p->next) {
        if (p->context && first && p->device != first->device) return false;
        if (p->context) first = p;
    }
    return true;
}

void mm_pool_retire_ended(struct mm_pool *p) {
    const struct mm_pool_pending *const q = &p->pending;
    if (!mm_pool_is_on_one_device()) return; /* an event of one context does not show that the others' work is done */
    while (q->first != q->end && mm_fences_ended(&p->fences, q->ring[q->first & q->mask].epoch)) mm_pool_retire_first(p);
}

/* ---- frees ------------------------------------------------------------------------------------ */

void mm_pool_forget_whole(struct mm_pool *p, CUdeviceptr base, uint64_t bytes) {
    mm_pool_ranges_remove(&mm_pool_ranges, mm_pool_ranges_containing(&mm_pool_ranges, base));
    p->wholes--, p->whole_bytes -= bytes;
}

void mm_pool_queue(struct mm_allocation *a) {
    struct mm_pool_pending *const q = &a->pool->pending;
    mm_allocation_becomes(a, MM_ALLOCATION_PENDING);
    q->bytes += a->bytes, q->uncovered_bytes += a->bytes;
    q->ring[q->end++ & q->mask] = (struct mm_pool_pending_free){a->address, a->pool->fences.open};
}

/* async, if the driver can record events. */
static bool frees_do_not_wait(const struct mm_driver *d) { return mm_pool_mode() == MM_POOL_ASYNC && mm_fences_exist(d); }

/* Queues an allocation; in async the next such free may go into a magazine. Closes the epoch once so much waits that it is worth an event, unless a stream
 * captures. */
static void queue(const struct mm_driver *d, struct mm_allocation *a) {
    struct mm_pool *const p = a->pool;
    mm_pool_queue(a);
    if (frees_do_not_wait(d)) mm_magazine_prepare(a);
    const bool is_worth_it = mm_pool_uncovered(p) >= MM_POOL_BATCH || p->pending.uncovered_bytes >= MM_POOL_BATCH_BYTES;
    if (is_worth_it && mm_pool_capture_count == 0 && p->endings == 0 && mm_fences_exist(d))
        mm_pool_close_epoch(d, p); /* if that fails, a later call tries again */
}

bool mm_pool_try_wait(const struct mm_driver *d, struct mm_pool *of, CUresult *r) {
    const bool is_alone = mm_pool_is_on_one_device();
    bool is_for_all = true;
    *r = CUDA_SUCCESS;
    for (struct mm_pool *p = is_alone ? of : mm_pools; p && *r == CUDA_SUCCESS; p = is_alone ? NULL : p->next) { /* entries stay in the list */
        if (!p->context) continue;
        if (p->endings != 0 && p != of) { /* it may be gone, or live on */
            is_for_all = false;
            continue;
        }
        if (mm_pool_capture_count != 0) return false; /* it began while the lock was open */
        mm_pool_enter(p);
        *r = mm_rounds_wait(d, &p->rounds, p->context, MM_POOL_ROUND_LOOKS);
        mm_pool_leave(p);
    }
    return is_for_all || *r != CUDA_SUCCESS;
}

/* The allocation of a free that waits. NULL: it went with its context; another one may be there, and its pool may be another context's. */
static struct mm_allocation *ending_at(CUdeviceptr address) {
    struct mm_allocation *const a = mm_pool_allocation_at(address);
    return a && __atomic_load_n(&a->state, __ATOMIC_RELAXED) == MM_ALLOCATION_ENDING ? a : NULL;
}

/* The wait of a free of keep is over: its allocation, which is ENDING, is free in the books; or, after an error, the program's. The caller holds the lock. */
static void end_after(CUresult r, CUdeviceptr address) {
    struct mm_allocation *const a = ending_at(address);
    if (!a) return;
    if (r == CUDA_SUCCESS) mm_pool_release(a);
    else mm_pool_count_live(a->pool, a->asked_bytes), mm_allocation_becomes(a, MM_ALLOCATION_LIVE);
}

/* keep: frees an allocation into this thread's magazine. Returns false if that has no room for it. */
static bool free_into_magazine(const struct mm_driver *d, CUdeviceptr address, CUresult *r) {
    struct mm_pool *const p = mm_magazine_try_end(address);
    if (!p) return false;
    *r = mm_rounds_wait(d, &p->rounds, p->context, MM_POOL_ROUND_LOOKS);
    if (*r != CUDA_SUCCESS || !mm_magazine_put_ended(address)) {
        pthread_mutex_lock(&mm_pool_lock);
        end_after(*r, address);
        pthread_mutex_unlock(&mm_pool_lock);
    }
    mm_pool_go(p);
    return true;
}

/* Ends an allocation of the pool, which is ENDING: waits for what may use it, or, if a stream captures, by the driver's free of the pool's anchor (0: none
 * captures). Returns what the driver's free of the allocation would. The caller holds the lock, which is open meanwhile. */
static CUresult end_by_wait(const struct mm_driver *d, struct mm_pool *p, CUdeviceptr address, CUdeviceptr anchor) {
    const uint64_t before = p->pending.end;
    CUresult r;
    bool has_waited = true;
    mm_pool_come(p); /* for all of this: while we visit another pool, the context of this one may be about to end */
    if (anchor != 0) {
        p->anchor = 0;
        pthread_mutex_unlock(&mm_pool_lock);
        r = d->cuMemFree(anchor);
        pthread_mutex_lock(&mm_pool_lock);
        has_waited = r != CUDA_SUCCESS || mm_pool_is_on_one_device(); /* it waits for one context at most */
    } else {
        has_waited = mm_pool_try_wait(d, p, &r);
    }
    struct mm_allocation *a = ending_at(address);
    if (a && !has_waited) queue(d, a);
    if (a && has_waited) {
        while (r == CUDA_SUCCESS && p->pending.first < before) mm_pool_retire_first(p);
        if (r == CUDA_SUCCESS && anchor == 0 && !frees_do_not_wait(d) && (a = mm_pool_allocation_at(address)) != NULL) mm_magazine_prepare(a);
        end_after(r, address);
    }
    mm_pool_depart(p);
    return r;
}

bool mm_pool_free(const struct mm_driver *d, CUdeviceptr address, CUresult *r) {
    const bool is_async = frees_do_not_wait(d);
    *r = CUDA_SUCCESS;
    if (is_async ? mm_magazine_put(address) : free_into_magazine(d, address, r)) return true;
    pthread_mutex_lock(&mm_pool_lock);
    struct mm_allocation *a = mm_pool_allocation_at(address);
    if (!a || !mm_allocation_try_end(a, MM_ALLOCATION_ENDING)) {
        const bool is_ours = a || mm_pool_ranges_containing(&mm_pool_ranges, address);
        pthread_mutex_unlock(&mm_pool_lock);
        *r = CUDA_ERROR_INVALID_VALUE;
        return is_ours;
    }
    struct mm_pool *const p = a->pool;
    mm_pool_count_free(p, a->asked_bytes);
    const bool is_captured = mm_pool_capture_count != 0;
    if (a->is_whole && (is_captured || a->goes_back || mm_pool_has_peers)) { /* if the driver does not free it now, it will when the program asks again */
        mm_pool_forget_whole(p, a->address, a->bytes);
        p->allocations--;
        mm_pool_allocation_remove(a);
        pthread_mutex_unlock(&mm_pool_lock);
        *r = d->cuMemFree(address);
        return true;
    }
    /* While a stream captures, the driver's free of the anchor does what its free of the allocation would do; the second such free does not wait. */
    const CUdeviceptr anchor = is_captured ? p->anchor : 0;
    if (is_captured ? anchor == 0 : is_async && mm_pool_is_on_one_device()) {
        queue(d, a);
        pthread_mutex_unlock(&mm_pool_lock);
        return true;
    }
    *r = end_by_wait(d, p, address, anchor);
    pthread_mutex_unlock(&mm_pool_lock);
    return true;
}
