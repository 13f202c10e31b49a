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
    uint64_t idle = mm_fit_free_bytes(p->fit) + (p->slabs << MM_POOL_GRAIN_SHIFT) + mm_magazines_sum(p).bytes;
    for (uint64_t i = 0; i < p->whole.count; i++) idle += p->whole.list[i].bytes;
    for (uint64_t i = p->pending.first; i != p->pending.end; i++) idle += mm_pool_allocation_at(p->pending.ring[i & p->pending.mask].address)->bytes;
    return idle;
}

/* ---- frees ------------------------------------------------------------------------------------ */

/* Room for one more pending free than there are allocations. */
static bool pending_try_reserve(struct mm_pool *p) {
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

/* The number of pending frees that no event covers. */
static uint64_t uncovered(const struct mm_pool_pending *q) { return q->end - (q->covered > q->first ? q->covered : q->first); }

void mm_pool_retire_ended(struct mm_pool *p) {
    const struct mm_pool_pending *const q = &p->pending;
    while (q->first != q->end && mm_fences_ended(&p->fences, q->ring[q->first & q->mask].epoch)) mm_pool_retire_first(p);
}

/* How long a request has waited for events. */
struct patience {
    uint64_t until_us, seen_us; /* when it gives up, and the last look; 0: it has not waited */
};

/* The pool has nothing for `rounded` bytes. Returns whether pending frees that have as much may end soon; then the lock was open meanwhile. Closes their
 * epoch. No stream captures. */
static bool may_wait(const struct mm_driver *d, struct mm_pool *p, uint64_t rounded, struct patience *w) {
    if (p->pending.bytes < rounded || !mm_fences_exist(d)) return false;
    if (uncovered(&p->pending) != 0) mm_pool_close_epoch(d, p);
    const uint64_t now = mm_host_now_us();
    if (w->until_us == 0) w->until_us = now + MM_POOL_WAIT_US, w->seen_us = now;
    p->waited_us += now - w->seen_us, w->seen_us = now;
    if (p->fences.seen == p->fences.recorded || now >= w->until_us || p->waited_us >= MM_POOL_WAITS_US) return false;
    pthread_mutex_unlock(&mm_pool_lock);
    pthread_mutex_lock(&mm_pool_lock);
    return true;
}

CUresult mm_pool_synchronize(const struct mm_driver *d, CUcontext context) {
    CUcontext current = NULL;
    struct mm_driver_visit visit;
    if (d->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context) return d->cuCtxSynchronize();
    if (!mm_driver_try_enter(d, context, &visit)) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult r = d->cuCtxSynchronize();
    mm_driver_leave(d, &visit);
    return r;
}

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

/* The same; in async the next such free may go into a magazine. Closes the epoch once so many frees wait that it is worth an event, unless a stream captures. */
static void queue(const struct mm_driver *d, struct mm_allocation *a) {
    struct mm_pool *const p = a->pool;
    mm_pool_queue(a);
    if (mm_pool_mode() == MM_POOL_ASYNC && mm_fences_exist(d)) mm_magazine_prepare(a);
    const bool is_worth_it = uncovered(&p->pending) >= MM_POOL_BATCH || p->pending.uncovered_bytes >= MM_POOL_BATCH_BYTES;
    if (is_worth_it && mm_pool_capture_count == 0 && p->endings == 0 && mm_fences_exist(d))
        mm_pool_close_epoch(d, p); /* if that fails, a later call tries again */
}

static bool is_on_one_device(void) {
    const struct mm_pool *first = NULL;
    for (const struct mm_pool *p = mm_pools; p; p = p->next) {
        if (p->context && first && p->device != first->device) return false;
        if (p->context) first = p;
    }
    return true;
}

/* Waits for the work that may use memory of the pool. The caller holds the lock, which is open while it waits. */
static CUresult wait_for_work(const struct mm_driver *d, struct mm_pool *of) {
    const bool is_alone = is_on_one_device();
    CUresult r = CUDA_SUCCESS;
    for (struct mm_pool *p = is_alone ? of : mm_pools; p && r == CUDA_SUCCESS; p = is_alone ? NULL : p->next) { /* entries stay in the list */
        if (!p->context || (p->endings != 0 && p != of)) continue;
        mm_pool_enter(p);
        r = mm_rounds_wait(d, &p->rounds, p->context, MM_POOL_ROUND_LOOKS);
        mm_pool_leave(p);
    }
    return r;
}

/* The wait of a free of keep is over: its allocation, which is ENDING, is free in the books; or, after an error, the program's. The caller holds the lock. */
static void end_after(CUresult r, CUdeviceptr address) {
    struct mm_allocation *const a = mm_pool_allocation_at(address);
    if (!a) return; /* it went with its context */
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

bool mm_pool_free(const struct mm_driver *d, CUdeviceptr address, CUresult *r) {
    const bool is_async = mm_pool_mode() == MM_POOL_ASYNC && mm_fences_exist(d);
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
    if (is_captured ? anchor == 0 : is_async && is_on_one_device()) {
        queue(d, a);
        pthread_mutex_unlock(&mm_pool_lock);
        return true;
    }
    const uint64_t before = p->pending.end;
    if (is_captured) p->anchor = 0;
    if (is_captured) {
        mm_pool_enter(p);
        *r = d->cuMemFree(anchor);
        mm_pool_leave(p);
    } else {
        *r = wait_for_work(d, p);
    }
    while (*r == CUDA_SUCCESS && p->pending.first < before) mm_pool_retire_first(p);
    if (*r == CUDA_SUCCESS && !is_captured && !is_async && (a = mm_pool_allocation_at(address)) != NULL) mm_magazine_prepare(a);
    end_after(*r, address);
    pthread_mutex_unlock(&mm_pool_lock);
    return true;
}

/* ---- allocations ------------------------------------------------------------------------------ */

/* The first grain of a slab is never handed out: a free of an allocation that reaches the driver past mm is then an error, and not the end of the slab. */
#define GRAIN_BYTES (1ull << MM_POOL_GRAIN_SHIFT)

static uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

/* Takes free memory of the pool for an allocation of `bytes`, rounded up to `rounded`. Returns 0: it has none, or the host has no memory. */
static CUdeviceptr take(struct mm_pool *p, uint64_t bytes, uint64_t rounded, bool is_carved) {
    struct mm_allocation a = {0, bytes, rounded, p, MM_ALLOCATION_LIVE, !is_carved, false};
    struct mm_pool_range *const best = is_carved ? NULL : mm_pool_ranges_best(&p->whole, rounded);
    if (!pending_try_reserve(p)) return 0;
    if (is_carved) a.address = mm_fit_allocate(p->fit, rounded);
    else if (best && best->bytes - rounded <= rounded / MM_POOL_WASTE_PART) a.address = best->base, a.bytes = best->bytes;
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

/* Bytes of the pool's next slab: a part of what its slabs have, so that their number grows slowly. */
static uint64_t next_slab(const struct mm_pool *p) {
    const uint64_t part = round_up(p->slab_bytes / MM_POOL_SLAB_PART, MM_POOL_RANGE_BYTES);
    return part < MM_POOL_RANGE_BYTES ? MM_POOL_RANGE_BYTES : part > MM_POOL_SLAB_BYTES_MAX ? MM_POOL_SLAB_BYTES_MAX : part;
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
        if (waiting > mm_fences_covered(&p->fences) && mm_fences_exist(d)) mm_pool_close_epoch(d, p);
        mm_fences_poll(d, &p->fences);
        mm_pool_retire_ended(p);
        CUdeviceptr got = waiting != 0 && tries == 0 ? mm_magazine_take(context, rounded, bytes, NULL) : 0;
        if (got == 0 && (got = take(p, bytes, rounded, is_carved)) != 0) __atomic_fetch_add(&p->hits, tries == 0, __ATOMIC_RELAXED);
        if (got != 0) {
            *address = got;
            pthread_mutex_unlock(&mm_pool_lock);
            return CUDA_SUCCESS;
        }
        if (tries == 0 && may_wait(d, p, rounded, &patience)) continue;
        if (tries == MM_POOL_TRIES) break;
        CUdeviceptr base = 0;
        uint64_t range_bytes = is_carved ? next_slab(p) : 0;
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
