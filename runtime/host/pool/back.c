/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* How memory leaves the pools: to the driver, or with its context. */
#define _GNU_SOURCE /* of thread.h */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/host/pool/magazines.h"
#include "runtime/host/pool/output.h"
#include "runtime/host/pool/pool.h"
#include "runtime/host/pool/state.h"
#include "runtime/host/thread.h"

/* ---- to the driver ----------------------------------------------------------------------------- */

/* A thread has left a pool. Waits end by CLOCK_MONOTONIC. */
static pthread_cond_t left_condition;
static pthread_once_t left_once = PTHREAD_ONCE_INIT;
static void make_left(void) { mm_host_condition_make(&left_condition); }
static pthread_cond_t *left(void) {
    pthread_once(&left_once, make_left);
    return &left_condition;
}

static unsigned visitors_of(const struct mm_pool *p) { return __atomic_load_n(&p->visitors, __ATOMIC_SEQ_CST); }
void mm_pool_enter(struct mm_pool *p) {
    mm_pool_come(p);
    pthread_mutex_unlock(&mm_pool_lock);
}
void mm_pool_depart(struct mm_pool *p) {
    __atomic_fetch_sub(&p->visitors, 1, __ATOMIC_SEQ_CST);
    pthread_cond_broadcast(left());
}
void mm_pool_leave(struct mm_pool *p) {
    pthread_mutex_lock(&mm_pool_lock);
    mm_pool_depart(p);
}
void mm_pool_go(struct mm_pool *p) {
    __atomic_fetch_sub(&p->visitors, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&p->endings, __ATOMIC_SEQ_CST) == 0 && __atomic_load_n(&mm_pool_capture_count, __ATOMIC_SEQ_CST) == 0) return; /* nobody waits */
    pthread_mutex_lock(&mm_pool_lock);
    pthread_cond_broadcast(left());
    pthread_mutex_unlock(&mm_pool_lock);
}

void mm_pool_await_visitors(const struct mm_pool *p, const struct timespec *until) {
    while (visitors_of(p) != 0 && pthread_cond_timedwait(left(), &mm_pool_lock, until) == 0) continue;
}

/* Waits for contexts: no event can be recorded, or that of one context is not enough. */
static void settle_by_context(const struct mm_driver *d, struct mm_pool *p, uint64_t end) {
    CUresult r;
    mm_pool_come(p);
    const bool is_done = mm_pool_try_wait(d, p, &r) && r == CUDA_SUCCESS;
    while (is_done && p->pending.first < end) mm_pool_retire_first(p);
    mm_pool_depart(p);
}

/* Waits for what is pending in the pool now, unless a stream captures, or begins to. The caller holds the lock, which is open while it waits. */
static void settle(const struct mm_driver *d, struct mm_pool *p) {
    const uint64_t end = p->pending.end;
    CUresult r = CUDA_SUCCESS;
    while (p->pending.first < end && mm_pool_capture_count == 0 && r == CUDA_SUCCESS) {
        r = mm_fences_exist(d) && mm_pool_is_on_one_device() ? mm_pool_close_epoch(d, p) : CUDA_ERROR_NOT_SUPPORTED;
        if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY) { /* not ready: all events are in use, and the wait ends that */
            settle_by_context(d, p, end);
            return;
        }
        const uint64_t recorded = p->fences.recorded;
        const CUevent last = mm_fences_last(&p->fences);
        mm_pool_enter(p);
        r = mm_fences_wait(d, p->context, last);
        mm_pool_leave(p);
        if (r == CUDA_SUCCESS) mm_fences_waited(&p->fences, recorded);
        mm_pool_retire_ended(p);
    }
}

static void slab_leaves(void *leaving, uint64_t base, uint64_t bytes) {
    struct mm_pool_range *const at = mm_pool_ranges_containing(&mm_pool_ranges, base); /* begins one grain before what the fit has of it */
    (void)bytes;
    at->pool->slabs--, at->pool->slab_bytes -= at->bytes;
    mm_pool_ranges_add_by_bytes((struct mm_pool_ranges *)leaving, *at);
    mm_pool_ranges_remove(&mm_pool_ranges, at);
}

/* Takes all free ranges of the pool out of the books, and has the driver free them. Returns whether there were any. The caller holds the lock, which is open
 * while the driver works. */
static bool empty(const struct mm_driver *d, struct mm_pool *p) {
    struct mm_driver_visit visit;
    struct mm_pool_ranges leaving = {NULL, 0, 0};
    uint64_t bytes = 0;
    if (!mm_pool_ranges_try_reserve(&leaving, mm_pool_ranges.count)) return false;
    if (!mm_driver_try_enter(d, p->context, &visit)) {
        free(leaving.list);
        return false;
    }
    mm_fit_shrink(p->fit, 0, slab_leaves, &leaving);
    for (; p->whole.count != 0; p->whole.count--) {
        const struct mm_pool_range range = p->whole.list[p->whole.count - 1];
        mm_pool_forget_whole(p, range.base, range.bytes);
        mm_pool_ranges_add_by_bytes(&leaving, range);
    }
    mm_pool_enter(p);
    for (uint64_t i = 0; i < leaving.count; i++)
        if (d->cuMemFree(leaving.list[i].base) == CUDA_SUCCESS) bytes += leaving.list[i].bytes;
    mm_driver_leave(d, &visit);
    const bool is_any = leaving.count != 0;
    free(leaving.list);
    mm_pool_leave(p);
    p->given_back_bytes += bytes;
    return is_any;
}

bool mm_pool_give_back(const struct mm_driver *d) {
    bool is_any = false;
    if (!d || !mm_pool_is_on()) return false;
    pthread_mutex_lock(&mm_pool_lock);
    for (struct mm_pool *p = mm_pools; p; p = p->next) { /* entries stay in the list */
        if (!p->context || p->endings != 0) continue;
        mm_magazines_empty(p);
        settle(d, p);
        if (p->endings == 0) is_any |= empty(d, p);
    }
    pthread_mutex_unlock(&mm_pool_lock);
    return is_any;
}

uint64_t mm_pool_idle_bytes(const struct mm_driver *d) {
    CUdevice device;
    uint64_t idle = 0;
    if (!d || d->cuCtxGetDevice(&device) != CUDA_SUCCESS) return 0;
    pthread_mutex_lock(&mm_pool_lock);
    for (struct mm_pool *p = mm_pools; p; p = p->next)
        if (p->context && p->device == device) idle += mm_pool_idle_of(p);
    pthread_mutex_unlock(&mm_pool_lock);
    return idle;
}

/* ---- with the context --------------------------------------------------------------------------- */

struct mm_pool *mm_pool_ending(CUcontext context) {
    struct mm_pool *p = NULL;
    if (!context || mm_pool_mode() == MM_POOL_OFF) return NULL;
    pthread_mutex_lock(&mm_pool_lock);
    for (p = mm_pools; p && p->context != context;) p = p->next;
    if (p) __atomic_store_n(&p->endings, p->endings + 1, __ATOMIC_SEQ_CST);
    while (p && visitors_of(p) != 0) pthread_cond_wait(left(), &mm_pool_lock);
    pthread_mutex_unlock(&mm_pool_lock);
    return p;
}

void mm_pool_ended(struct mm_pool *p, bool has_ended) {
    if (!p) return;
    pthread_mutex_lock(&mm_pool_lock);
    if (p->endings != 0 && !has_ended) __atomic_store_n(&p->endings, p->endings - 1, __ATOMIC_RELEASE);
    if (p->endings != 0 && has_ended) { /* 0: another call has forgotten it */
        mm_magazines_empty(p);
        struct mm_pool_output output = mm_pool_collect(p);
        mm_pool_allocations_forget(p);
        for (uint64_t i = mm_pool_ranges.count; i-- > 0;)
            if (mm_pool_ranges.list[i].pool == p) mm_pool_ranges_remove(&mm_pool_ranges, &mm_pool_ranges.list[i]);
        mm_fit_destroy(p->fit);
        free(p->whole.list), free(p->pending.ring);
        __atomic_store_n(&p->context, NULL, __ATOMIC_RELAXED);
        memset((char *)p + offsetof(struct mm_pool, context), 0, sizeof *p - offsetof(struct mm_pool, context));
        pthread_cond_broadcast(left()); /* to another call that may end the context */
        mm_pool_write(&output);
    }
    pthread_mutex_unlock(&mm_pool_lock);
}
