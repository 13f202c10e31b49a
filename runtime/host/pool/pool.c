/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP */
#include "runtime/host/pool/pool.h"

#include <stdlib.h>

#include "runtime/host/clock.h"
#include "runtime/host/pool/magazines.h"
#include "runtime/host/pool/state.h"

pthread_mutex_t mm_pool_lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
struct mm_pool *mm_pools;
struct mm_pool_ranges mm_pool_ranges;
bool mm_pool_has_peers, mm_pool_needs_lock;

/* ---- pools ------------------------------------------------------------------------------------ */

static void stop_magazines(void) {
    mm_pool_needs_lock = true;
    mm_magazines_empty(NULL);
}

/* The pool of the current context, which is made if it has none. NULL: the host or the driver refuses. */
static struct mm_pool *pool_of(const struct mm_driver *d, CUcontext context) {
    struct mm_pool *p = mm_pools, *empty = NULL;
    if (mm_pool_has_peers) return NULL;
    for (; p && p->context != context; p = p->next)
        if (!p->context) empty = p;
    if (p) return p->endings != 0 ? NULL : p;
    CUdevice device;
    if (d->cuCtxGetDevice(&device) != CUDA_SUCCESS) return NULL;
    struct mm_fit *const fit = mm_fit_create(mm_host_env_get()->pool_fit, 1u << MM_POOL_GRAIN_SHIFT);
    if (!fit) return NULL;
    p = empty ? empty : (struct mm_pool *)aligned_alloc(_Alignof(struct mm_pool), sizeof *p);
    if (!p) {
        mm_fit_destroy(fit);
        return NULL;
    }
    if (!empty) *p = (struct mm_pool){0};
    mm_pool_begin(d);
    for (const struct mm_pool *other = mm_pools; other; other = other->next)
        if (other->context && other->device != device) stop_magazines();
    if (!empty) p->next = mm_pools, __atomic_store_n(&mm_pools, p, __ATOMIC_RELAXED);
    p->device = device, p->fit = fit, p->fences.open = 1;
    __atomic_store_n(&p->context, context, __ATOMIC_RELAXED);
    return p;
}

/* Makes the anchor of a pool that has none, in this thread's current context. The lock is open while the driver works: the pool may be ending afterwards, and
 * a stream may capture, which the call leaves alone in a relaxed thread. */
static void make_anchor(const struct mm_driver *d, struct mm_pool *p) {
    struct mm_driver_visit visit;
    CUdeviceptr anchor = 0;
    if (p->is_anchoring) return;
    p->is_anchoring = true;
    mm_pool_enter(p);
    if (mm_driver_try_enter(d, p->context, &visit)) {
        if (d->cuMemAlloc(&anchor, 1) != CUDA_SUCCESS) anchor = 0;
        mm_driver_leave(d, &visit);
    }
    mm_pool_leave(p);
    p->is_anchoring = false;
    p->anchor = anchor;
}

uint64_t mm_pool_idle_of(const struct mm_pool *p) {
    uint64_t idle = mm_fit_free_bytes(p->fit) + (p->slabs << MM_POOL_GRAIN_SHIFT) + mm_magazines_sum(p).bytes + p->pending.bytes;
    for (uint64_t i = 0; i < p->whole.count; i++) idle += p->whole.list[i].bytes;
    return idle;
}

/* ---- allocations ------------------------------------------------------------------------------ */

/* The first grain of a slab is never handed out: a free of an allocation that reaches the driver past mm is then an error, and not the end of the slab. */
#define GRAIN_BYTES (1ull << MM_POOL_GRAIN_SHIFT)

static uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

/* Takes free memory of the pool for an allocation of `bytes`, rounded up to `rounded`; a range that is kept whole may be longer by `waste`. Returns 0: it has
 * none, or the host has no memory. */
static CUdeviceptr take(struct mm_pool *p, uint64_t bytes, uint64_t rounded, bool is_carved, uint64_t waste) {
    struct mm_allocation a = {0, bytes, rounded, p, MM_ALLOCATION_LIVE, !is_carved, false};
    struct mm_pool_range *const best = is_carved ? NULL : mm_pool_ranges_best(&p->whole, rounded);
    if (!mm_pool_pending_try_reserve(p)) return 0;
    if (is_carved) a.address = mm_fit_allocate(p->fit, rounded);
    else if (best && best->bytes - rounded <= waste) a.address = best->base, a.bytes = best->bytes;
    if (a.address == 0) return 0;
    if (!mm_pool_allocation_add(&a)) {
        if (is_carved) mm_fit_free(p->fit, a.address);
        return 0;
    }
    if (best) mm_pool_ranges_remove(&p->whole, best);
    p->allocations++;
    mm_pool_count_live(p, bytes);
    return a.address;
}

/* Adds a range of the driver's to the pool; a whole one is free at first. Returns false if the host has no memory. */
static bool try_add(struct mm_pool *p, CUdeviceptr base, uint64_t bytes, bool is_slab) {
    const struct mm_pool_range range = {base, bytes, p, is_slab};
    if (!mm_pool_ranges_try_reserve(&mm_pool_ranges, mm_pool_ranges.count + 1)) return false;
    if (is_slab && !mm_fit_add(p->fit, base + GRAIN_BYTES, bytes - GRAIN_BYTES)) return false;
    if (!is_slab && !mm_pool_ranges_try_reserve(&p->whole, p->wholes + 1)) return false;
    mm_pool_ranges_add_by_base(&mm_pool_ranges, range);
    if (is_slab) p->slabs++, p->slab_bytes += bytes;
    else p->wholes++, p->whole_bytes += bytes, mm_pool_ranges_add_by_bytes(&p->whole, range);
    p->waited_us = 0;
    if (p->slab_bytes + p->whole_bytes > p->most_taken_bytes) p->most_taken_bytes = p->slab_bytes + p->whole_bytes;
    return true;
}

/* Gets a range from the driver, for a pool that has nothing for `rounded` bytes; slab_bytes: of the slab that the pool would like, or 0. Called without the
 * lock. */
static CUresult range_from_driver(const struct mm_driver *d, uint64_t slab_bytes, uint64_t rounded, CUdeviceptr *base, uint64_t *bytes,
                                  mm_pool_driver_allocate *driver) {
    *bytes = slab_bytes;
    if (*bytes > rounded + GRAIN_BYTES && d->cuMemAlloc(base, *bytes) == CUDA_SUCCESS) return CUDA_SUCCESS;
    *bytes = round_up(slab_bytes != 0 ? rounded + GRAIN_BYTES : rounded, MM_POOL_RANGE_BYTES);
    return driver(base, *bytes);
}

/* Bytes of the pool's next slab, for a request that lacks memory: a part of what its slabs have, so that their number grows slowly, and more than one such
 * request, so that memory of different lengths shares a slab; with the first grain, and no more of them than a slab can have. */
static uint64_t next_slab(const struct mm_pool *p, uint64_t rounded) {
    const uint64_t most = (MM_POOL_SLAB_BYTES_MAX - GRAIN_BYTES) / rounded, count = most > MM_POOL_SLAB_REQUESTS ? MM_POOL_SLAB_REQUESTS : most != 0 ? most : 1;
    const uint64_t part = p->slab_bytes / MM_POOL_SLAB_PART, requests = rounded * count + GRAIN_BYTES;
    const uint64_t bytes = round_up(part > requests ? part : requests, MM_POOL_RANGE_BYTES);
    return bytes > MM_POOL_SLAB_BYTES_MAX ? MM_POOL_SLAB_BYTES_MAX : bytes;
}

/* How long a request has waited for events. */
struct patience {
    uint64_t until_us, seen_us; /* when it gives up, and up to when its waiting is counted; 0: it has not waited */
};

/* Counts what a request has waited since it was counted last: until its last look, and until it is served. */
static uint64_t count_wait(struct mm_pool *p, struct patience *w) {
    const uint64_t now = mm_host_now_us();
    if (w->until_us == 0) w->until_us = now + MM_POOL_WAIT_US, w->seen_us = now;
    const uint64_t waited = now - w->seen_us;
    p->waited_us += waited < MM_POOL_WAIT_US ? waited : MM_POOL_WAIT_US; /* this thread may have been suspended */
    w->seen_us = now;
    return now;
}

/* How long all requests may wait until the pool grows. */
static uint64_t patience_of(const struct mm_pool *p) {
    const uint64_t us = (p->slab_bytes + p->whole_bytes) / MM_POOL_WAITS_BYTES;
    return us < MM_POOL_WAITS_LEAST_US ? MM_POOL_WAITS_LEAST_US : us > MM_POOL_WAITS_MOST_US ? MM_POOL_WAITS_MOST_US : us;
}

/* The pool has nothing for `rounded` bytes. Returns whether pending frees that have as much may end soon; then the lock was open meanwhile. Closes their
 * epoch. No stream captures. */
static bool may_wait(const struct mm_driver *d, struct mm_pool *p, uint64_t rounded, struct patience *w) {
    if (p->pending.bytes < rounded || !mm_fences_exist(d)) return false;
    const uint64_t now = count_wait(p, w);
    if (mm_pool_uncovered(p) != 0) mm_pool_close_epoch(d, p);
    if (p->fences.seen == p->fences.recorded || now >= w->until_us || p->waited_us >= patience_of(p)) return false;
    pthread_mutex_unlock(&mm_pool_lock);
    pthread_mutex_lock(&mm_pool_lock);
    return true;
}

/* Takes memory that the pool has, once it has looked which frees have ended; or, without a look, which asks the driver, a free range of just the length.
 * waiting: the epoch that this thread's magazine waits for, or 0. Returns 0 if there is none. */
static CUdeviceptr serve(const struct mm_driver *d, struct mm_pool *p, uint64_t bytes, uint64_t rounded, bool is_carved, uint64_t waiting, bool is_hit) {
    CUdeviceptr got = is_carved ? 0 : take(p, bytes, rounded, false, 0);
    if (got == 0) {
        if (waiting > mm_fences_covered(&p->fences) && mm_fences_exist(d)) mm_pool_close_epoch(d, p);
        mm_fences_poll(d, &p->fences);
        mm_pool_retire_ended(p);
        if (waiting != 0 && (got = mm_magazine_take(p->context, rounded, bytes, NULL)) != 0) return got; /* which counts it */
        got = take(p, bytes, rounded, is_carved, rounded / MM_POOL_WASTE_PART);
    }
    if (got != 0) __atomic_fetch_add(&p->hits, is_hit, __ATOMIC_RELAXED);
    return got;
}

CUresult mm_pool_allocate(const struct mm_driver *d, CUdeviceptr *address, size_t bytes, mm_pool_driver_allocate *driver) {
    CUcontext context = NULL;
    uint64_t waiting;
    struct patience patience = {0, 0};
    bool was_anchored = false;
    const bool is_carved = bytes < MM_POOL_RANGE_BYTES || bytes <= mm_host_env_get()->pool_carve_bytes;
    const uint64_t rounded = round_up(bytes, is_carved ? GRAIN_BYTES : MM_POOL_RANGE_BYTES);
    if (!address || bytes == 0 || bytes > MM_POOL_BYTES_MAX || d->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context) return driver(address, bytes);
    const CUdeviceptr cached = mm_magazine_take(context, rounded, bytes, &waiting);
    if (cached != 0) {
        *address = cached;
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&mm_pool_lock);
    for (int tries = 0;;) { /* another thread may be faster at what the driver gave */
        struct mm_pool *const p = mm_pool_capture_count == 0 ? pool_of(d, context) : NULL;
        if (!p) break;
        if (p->anchor == 0 && !was_anchored) {
            was_anchored = true;
            make_anchor(d, p);
            continue;
        }
        const CUdeviceptr got = serve(d, p, bytes, rounded, is_carved, tries == 0 ? waiting : 0, tries == 0);
        if (got != 0) {
            if (patience.until_us != 0 && tries == 0) count_wait(p, &patience); /* else the driver took the time */
            *address = got;
            pthread_mutex_unlock(&mm_pool_lock);
            return CUDA_SUCCESS;
        }
        if (tries == 0 && may_wait(d, p, rounded, &patience)) continue;
        if (tries == MM_POOL_TRIES) break;
        CUdeviceptr base = 0;
        uint64_t range_bytes = is_carved ? next_slab(p, rounded) : 0;
        pthread_mutex_unlock(&mm_pool_lock);
        const CUresult r = range_from_driver(d, range_bytes, rounded, &base, &range_bytes, driver);
        if (r != CUDA_SUCCESS) return r;
        pthread_mutex_lock(&mm_pool_lock);
        p->misses += tries++ == 0;
        if (p->context != context || !try_add(p, base, range_bytes, is_carved)) {
            pthread_mutex_unlock(&mm_pool_lock);
            *address = base; /* it is the driver's alone */
            return CUDA_SUCCESS;
        }
    }
    pthread_mutex_unlock(&mm_pool_lock);
    return driver(address, bytes);
}

void mm_pool_anchor(const struct mm_driver *d) {
    CUcontext context = NULL;
    if (d->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context) return;
    pthread_mutex_lock(&mm_pool_lock);
    struct mm_pool *const p = mm_pool_capture_count == 0 ? pool_of(d, context) : NULL;
    if (p && p->anchor == 0) make_anchor(d, p);
    pthread_mutex_unlock(&mm_pool_lock);
}

void mm_pool_peers_come(void) {
    pthread_mutex_lock(&mm_pool_lock);
    mm_pool_has_peers = true;
    stop_magazines();
    pthread_mutex_unlock(&mm_pool_lock);
}
