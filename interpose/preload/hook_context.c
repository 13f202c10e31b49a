/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Hooks for contexts: their ends, their limits, and peer access to their memory. */
#include "interpose/preload/contexts.h"
#include "interpose/preload/hooks.h"
#include "runtime/host/pool/pool.h"

/* ---- ends ------------------------------------------------------------------------------------ */

/* A context that a driver call may end: what is known of it. */
struct ending {
    struct context *context;
    struct mm_pool *pool;
};
/* Call before the driver's call; for the parameters see mm_attach_ending. */
static struct ending ending(CUcontext context, bool is_certain) { return (struct ending){mm_attach_ending(context, is_certain), mm_pool_ending(context)}; }
static struct ending primary_ending(CUdevice device, bool is_certain) { return ending(mm_attach_primary_of(mm_driver_get(), device), is_certain); }
/* Call after it. */
static void ended(struct ending e, bool has_ended) {
    mm_attach_ended(mm_driver_get(), e.context, has_ended);
    mm_pool_ended(e.pool, has_ended);
}

/* Call after a driver call that may have released the last reference to a primary context. */
static void primary_released(CUdevice device, struct ending e, CUresult r) {
    unsigned flags = 0;
    int active = 1;
    const bool is_known = r == CUDA_SUCCESS && (e.context || e.pool) && mm_driver_get()->cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS;
    ended(e, is_known && !active);
}

#define CONTEXT_END_HOOKS(suffix)                                           \
    HOOK(cuDevicePrimaryCtxReset##suffix)(CUdevice device) {                \
        const struct ending e = primary_ending(device, true);               \
        const CUresult r = REAL(cuDevicePrimaryCtxReset##suffix, device);   \
        ended(e, r == CUDA_SUCCESS);                                        \
        return r;                                                           \
    }                                                                       \
    HOOK(cuDevicePrimaryCtxRelease##suffix)(CUdevice device) {              \
        const struct ending e = primary_ending(device, false);              \
        const CUresult r = REAL(cuDevicePrimaryCtxRelease##suffix, device); \
        primary_released(device, e, r);                                     \
        return r;                                                           \
    }                                                                       \
    HOOK(cuCtxDestroy##suffix)(CUcontext context) {                         \
        const struct ending e = ending(context, true);                      \
        const CUresult r = REAL(cuCtxDestroy##suffix, context);             \
        ended(e, r == CUDA_SUCCESS);                                        \
        return r;                                                           \
    }
CONTEXT_END_HOOKS()
CONTEXT_END_HOOKS(_v2)

HOOK(cuCtxAttach)(CUcontext *context, unsigned flags) {
    CUresult r = REAL(cuCtxAttach, context, flags);
    if (r == CUDA_SUCCESS && context) mm_attach_attached(*context);
    return r;
}

HOOK(cuCtxDetach)(CUcontext context) {
    const bool stays = mm_attach_detaches(context);
    const struct ending e = stays ? (struct ending){NULL, NULL} : ending(context, true);
    const CUresult r = REAL(cuCtxDetach, context);
    if (stays && r != CUDA_SUCCESS) mm_attach_attached(context);
    ended(e, r == CUDA_SUCCESS);
    return r;
}

HOOK(cuCtxFromGreenCtx)(CUcontext *context, CUgreenCtx green) {
    mm_contexts_green_come();
    return REAL(cuCtxFromGreenCtx, context, green);
}

/* A green context holds a reference to the primary context, possibly the last one. */
HOOK(cuGreenCtxDestroy)(CUgreenCtx green) {
    const struct mm_driver *d = mm_driver_get();
    CUcontext handle = NULL;
    CUdevice device = 0;
    struct ending e = {NULL, NULL};
    struct mm_driver_visit visit;
    if (d && d->cuCtxFromGreenCtx && d->cuCtxFromGreenCtx(&handle, green) == CUDA_SUCCESS) {
        mm_attach_green_ends(handle);
        if (mm_driver_try_enter(d, handle, &visit)) {
            const bool has_device = d->cuCtxGetDevice(&device) == CUDA_SUCCESS;
            mm_driver_leave(d, &visit);
            if (has_device) e = primary_ending(device, false);
        }
    }
    const CUresult r = REAL(cuGreenCtxDestroy, green);
    primary_released(device, e, r);
    return r;
}

/* ---- cudaLimitMallocHeapSize ------------------------------------------------------------------- */

HOOK(cuCtxGetLimit)(size_t *value, CUlimit limit) {
    CUresult r = REAL(cuCtxGetLimit, value, limit);
    uint64_t ours = 0;
    if (r == CUDA_SUCCESS && value && limit == CU_LIMIT_MALLOC_HEAP_SIZE && mm_attach_get_limit(current_context(), &ours)) *value = (size_t)ours;
    return r;
}

/* If our heap exists, it grows to at least `value`, or the call fails. Whether the driver accepts the limit for its own heap does not
 * matter then (some refuse a late limit, some do not). If it accepts, we record the limit as the driver rounds it up, since programs
 * print it. */
HOOK(cuCtxSetLimit)(CUlimit limit, size_t value) {
    const bool is_ours = limit == CU_LIMIT_MALLOC_HEAP_SIZE;
    CUcontext context = is_ours ? current_context() : NULL;
    const bool is_made = context && mm_attach_has_heap(context);
    if (is_made && !mm_attach_try_ensure(mm_driver_get(), context, value)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = WITH_MEMORY(0, REAL(cuCtxSetLimit, limit, value));
    if (r != CUDA_SUCCESS && !is_made) return r;
    size_t rounded = 0;
    if (context && r == CUDA_SUCCESS && REAL(cuCtxGetLimit, &rounded, limit) == CUDA_SUCCESS && rounded > value) value = rounded;
    if (context) mm_attach_set_limit(context, value);
    return CUDA_SUCCESS;
}

/* ---- peers ------------------------------------------------------------------------------------ */

/* cuCtxEnablePeerAccess does not cover mapped memory, so the peer's heap changes the access itself. */
static void peer_access(CUcontext peer, bool is_allowed) {
    const struct mm_driver *d = mm_driver_get();
    CUdevice device;
    if (d && d->cuCtxGetDevice(&device) == CUDA_SUCCESS) mm_attach_access(d, peer, device, is_allowed);
}
HOOK(cuCtxEnablePeerAccess)(CUcontext peer, unsigned flags) {
    if (mm_pool_is_on()) mm_pool_peers_come();
    CUresult r = REAL(cuCtxEnablePeerAccess, peer, flags);
    if (r == CUDA_SUCCESS) peer_access(peer, true);
    return r;
}
HOOK(cuCtxDisablePeerAccess)(CUcontext peer) {
    CUresult r = REAL(cuCtxDisablePeerAccess, peer);
    if (r == CUDA_SUCCESS) peer_access(peer, false);
    return r;
}
