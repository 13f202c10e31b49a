/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The hooks' requests to contexts and their heaps, except those at a kernel's first launch (attach.c) and at watched launches (watch.c). */
#include "interpose/preload/attach.h"

#include <pthread.h>
#include <stdlib.h>

#include "interpose/preload/attach_shared.h"
#include "interpose/preload/contexts.h"
#include "interpose/preload/resolve.h"
#include "runtime/host/heap.h"
#include "runtime/host/pool/pool.h"
#include "runtime/host/report.h"

void mm_attach_record(const void *handle, enum mm_handle_kind kind, const void *owner, CUcontext context) {
    pthread_mutex_lock(&mm_contexts_lock);
    mm_handle_record(handle, kind, owner, context);
    pthread_mutex_unlock(&mm_contexts_lock);
}

struct mm_handle mm_attach_find(const void *handle) {
    pthread_mutex_lock(&mm_contexts_lock);
    struct mm_handle found = mm_handle_find(handle);
    pthread_mutex_unlock(&mm_contexts_lock);
    return found;
}

void mm_attach_forget_owner(const void *owner) {
    pthread_mutex_lock(&mm_contexts_lock);
    mm_kernel_cache_forget_owner(owner);
    mm_handle_forget_owner(owner);
    pthread_mutex_unlock(&mm_contexts_lock);
}

struct context *mm_attach_ending(CUcontext handle, bool is_certain) {
    if (mm_forked || mm_context_is_inside_end() || !handle) return NULL;
    pthread_mutex_lock(&mm_contexts_lock);
    struct context *c = mm_context_find(handle);
    mm_context_forget_known(handle);
    mm_handle_forget_context(handle);
    if (c) mm_context_ending(c);
    for (unsigned i = 0; c && i < c->heap_count; i++) mm_attach_look_back(c->heaps[i], is_certain);
    for (unsigned i = 0; c && i < c->heap_count && is_certain; i++) mm_host_heap_close(c->heaps[i]);
    pthread_mutex_unlock(&mm_contexts_lock);
    return c;
}

void mm_attach_ended(const struct mm_driver *d, struct context *c, bool has_ended) {
    if (!c) return;
    pthread_mutex_lock(&mm_contexts_lock);
    mm_context_settled(c); /* waiters look again when the lock is free */
    if (has_ended) {
        for (unsigned i = 0; i < c->heap_count; i++)
            if (d && mm_host_heap_drop(d, c->heaps[i])) free(c->heaps[i]);
        if (!c->prepared || (d && mm_host_heap_drop(d, c->prepared))) free(c->prepared);
        mm_context_remove(c);
    } else {
        for (unsigned i = 0; d && i < c->heap_count; i++) mm_host_heap_reopen(d, c->heaps[i]);
    }
    pthread_mutex_unlock(&mm_contexts_lock);
}

void mm_attach_green_ends(CUcontext handle) {
    if (mm_forked) return;
    pthread_mutex_lock(&mm_contexts_lock);
    struct context *c = mm_context_listed(handle);
    mm_kernel_cache_forget_context(handle);
    mm_handle_forget_context(handle);
    if (c && c->home) mm_context_remove(c);
    pthread_mutex_unlock(&mm_contexts_lock);
}

void mm_attach_attached(CUcontext handle) {
    pthread_mutex_lock(&mm_contexts_lock);
    struct context *c = mm_context_get(handle);
    if (c) c->attaches++;
    pthread_mutex_unlock(&mm_contexts_lock);
}

bool mm_attach_detaches(CUcontext handle) {
    pthread_mutex_lock(&mm_contexts_lock);
    struct context *c = mm_context_find(handle);
    const bool stays = c && c->attaches != 0;
    if (stays) c->attaches--;
    pthread_mutex_unlock(&mm_contexts_lock);
    return stays;
}

CUcontext mm_attach_primary_of(const struct mm_driver *d, CUdevice device) {
    unsigned flags = 0;
    int active = 0;
    CUcontext primary = NULL;
    pthread_mutex_lock(&mm_contexts_lock);
    bool any = mm_contexts != NULL || mm_kernel_cache_current != NULL || mm_pool_mode() != MM_POOL_OFF;
    pthread_mutex_unlock(&mm_contexts_lock);
    if (!d || !any || mm_forked) return NULL;
    if (d->cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active) return NULL;
    if (d->cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS) return NULL;
    d->cuDevicePrimaryCtxRelease(device);
    return primary;
}

void mm_attach_set_limit(CUcontext context, uint64_t bytes) {
    pthread_mutex_lock(&mm_contexts_lock);
    struct context *c = mm_context_home(mm_driver_get(), context, true);
    if (c) {
        c->limit_is_set = true;
        c->limit_bytes = bytes;
    }
    pthread_mutex_unlock(&mm_contexts_lock);
}

bool mm_attach_get_limit(CUcontext context, uint64_t *bytes) {
    pthread_mutex_lock(&mm_contexts_lock);
    const struct context *c = mm_context_home(mm_driver_get(), context, false);
    bool is_set = c && c->limit_is_set;
    if (is_set) *bytes = c->limit_bytes;
    pthread_mutex_unlock(&mm_contexts_lock);
    return is_set;
}

bool mm_attach_has_heap(CUcontext context) {
    if (mm_forked) return false;
    pthread_mutex_lock(&mm_contexts_lock);
    const struct context *c = mm_context_home(mm_driver_get(), context, false);
    const bool has = c && c->heap_count != 0;
    pthread_mutex_unlock(&mm_contexts_lock);
    return has;
}

bool mm_attach_try_ensure(const struct mm_driver *d, CUcontext context, uint64_t bytes) {
    pthread_mutex_lock(&mm_contexts_lock);
    const struct context *c = mm_context_home(mm_driver_get(), context, false);
    bool has = true;
    for (unsigned i = 0; c && d && i < c->heap_count && has; i++) has = mm_host_heap_try_ensure(d, c->heaps[i], bytes);
    for (unsigned i = 0; c && d && i < c->heap_count && has; i++) mm_host_heap_promise(c->heaps[i], bytes);
    pthread_mutex_unlock(&mm_contexts_lock);
    return has;
}

bool mm_attach_give_back(const struct mm_driver *d, uint64_t bytes) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!d || mm_attach_is_inside || mm_forked || d->cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS) return false;
    mm_attach_is_inside = true;
    const bool given = mm_attach_take_back(d, bytes);
    mm_attach_is_inside = false;
    d->cuThreadExchangeStreamCaptureMode(&mode);
    return given;
}

enum mm_result mm_attach_with_heaps(const struct mm_driver *d, mm_attach_work *work, void *argument) {
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    CUcontext context = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    enum mm_result result = MM_ERROR_NO_HEAP;
    if (!d || mm_attach_is_inside || mm_forked) return result;
    if (d->cuCtxGetCurrent(&context) != CUDA_SUCCESS) return MM_ERROR_CUDA;
    if (!mm_attach_has_heap(context)) return result;
    if (d->cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS) return MM_ERROR_CUDA;
    mm_attach_is_inside = true;
    pthread_mutex_lock(&mm_contexts_lock);
    const struct context *c = mm_context_home(mm_driver_get(), context, false);
    for (unsigned i = 0; c && i < c->heap_count; i++) {
        if (mm_host_heap_is_absent(c->heaps[i])) continue;
        if (result == MM_ERROR_NO_HEAP) result = MM_OK;
        if (!work(d, c->heaps[i], argument, &error)) result = MM_ERROR_CUDA;
    }
    pthread_mutex_unlock(&mm_contexts_lock);
    mm_attach_is_inside = false;
    d->cuThreadExchangeStreamCaptureMode(&mode);
    return result;
}

bool mm_attach_try_synchronize(const struct mm_driver *d, CUcontext context) {
    struct mm_driver_visit visit;
    pthread_mutex_lock(&mm_contexts_lock);
    const struct context *c = mm_context_home(d, context, false);
    const CUcontext home = c ? c->handle : context;
    pthread_mutex_unlock(&mm_contexts_lock);
    if (home == context) return d->cuCtxSynchronize() == CUDA_SUCCESS;
    if (!mm_driver_try_enter(d, home, &visit)) return false;
    const bool done = d->cuCtxSynchronize() == CUDA_SUCCESS;
    mm_driver_leave(d, &visit);
    return done;
}

void mm_attach_report(void) {
    if (!__atomic_load_n(&mm_contexts, __ATOMIC_RELAXED) || mm_forked || mm_attach_is_inside) return;
    if (pthread_mutex_trylock(&mm_contexts_lock) != 0) return; /* the heap's thread reports it later */
    for (struct context *c = mm_contexts; c; c = c->next)
        for (unsigned i = 0; i < c->heap_count; i++) mm_report_say(c->heaps[i]);
    pthread_mutex_unlock(&mm_contexts_lock);
}

void mm_attach_idle(const struct mm_driver *d, CUcontext handle) {
    struct mm_driver_visit visit;
    if (!d || !__atomic_load_n(&mm_contexts, __ATOMIC_RELAXED) || mm_forked || mm_attach_is_inside) return;
    if (!handle && d->cuCtxGetCurrent(&handle) != CUDA_SUCCESS) return;
    if (pthread_mutex_trylock(&mm_contexts_lock) != 0) return; /* the next synchronisation does it */
    const struct context *c = mm_context_listed(handle);
    mm_attach_is_inside = true;
    for (unsigned i = 0; c && i < c->heap_count && !c->is_ending; i++) {
        if (!mm_host_heap_wants_idle(c->heaps[i]) || !mm_driver_try_enter(d, handle, &visit)) continue;
        mm_host_heap_idle(d, c->heaps[i]);
        mm_driver_leave(d, &visit);
    }
    mm_attach_is_inside = false;
    pthread_mutex_unlock(&mm_contexts_lock);
}

void mm_attach_access(const struct mm_driver *d, CUcontext peer, CUdevice device, bool is_allowed) {
    if (!d || mm_forked) return;
    pthread_mutex_lock(&mm_contexts_lock);
    struct context *c = mm_context_get(peer);
    unsigned peer_at = 0;
    while (c && peer_at < c->peer_count && c->peers[peer_at] != device) peer_at++;
    if (c && !is_allowed && peer_at < c->peer_count) c->peers[peer_at] = c->peers[--c->peer_count];
    if (c && is_allowed && peer_at == c->peer_count && peer_at < sizeof c->peers / sizeof *c->peers) c->peers[c->peer_count++] = device;
    for (unsigned i = 0; c && i < c->heap_count; i++) mm_host_heap_access(d, c->heaps[i], device, is_allowed);
    pthread_mutex_unlock(&mm_contexts_lock);
}
