/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Watched launches: in checked runs, with MM_PROFILE, and when MM_HEAP_MAP or MM_MAP_SERIES asks for pictures of launches, each launch is numbered, and the heap may be inspected after it. With
 * MM_FAIL=kernel:NAME each launch of that kernel waits for the kernels before it and is waited for, so that the device can tell its requests from others
 * (runtime/checked/fail.h). No watched launch begins meanwhile. */
#include "interpose/preload/attach_shared.h"

#include <pthread.h>

#include "interpose/preload/attach.h"
#include "interpose/preload/contexts.h"
#include "runtime/host/env.h"
#include "runtime/host/fail.h"
#include "runtime/host/heap.h"
#include "runtime/host/inspect.h"
#include "runtime/host/kernels.h"
#include "runtime/host/say.h"

/* Held from the launch of our own kernel, which notes the number of the program's kernel, to the program's launch. Taken before mm_contexts_lock. */
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t watched_launches; /* under watch_lock */
static CUcontext failing;         /* under watch_lock: the context of a launch whose requests fail; NULL: none */
bool mm_attach_is_watching;

/* Lets all requests in a context fail from now on, or none, when its kernels have ended. The caller holds watch_lock. */
static bool try_fail(const struct mm_driver *d, CUcontext handle, bool is_on) {
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    struct mm_driver_visit visit;
    if (!mm_driver_try_enter(d, handle, &visit)) return false;
    bool done = MM_DRIVER_TRY(d, &error, cuCtxSynchronize);
    pthread_mutex_lock(&mm_contexts_lock);
    const struct context *c = mm_context_home_listed(handle);
    for (unsigned i = 0; done && c && i < c->heap_count && !c->is_ending; i++)
        if (!mm_host_heap_is_absent(c->heaps[i])) done = mm_fail_try_set(d, c->heaps[i], is_on, &error);
    pthread_mutex_unlock(&mm_contexts_lock);
    mm_driver_leave(d, &visit);
    if (!done && !mm_driver_error_is_foreign(error.code))
        mm_host_say("MM_FAIL: requests of a launch do not fail, or later ones do (%s: %s)", error.call, mm_driver_error_name(d, error.code).text);
    return done;
}

/* The context of a launch in this stream, or NULL if it is unknown. */
static CUcontext context_of(const struct mm_driver *d, CUstream stream) {
    CUcontext context = NULL;
    const bool is_created = (uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD;
    if (is_created && d->cuStreamGetCtx(stream, &context) == CUDA_SUCCESS) return context;
    return d->cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

bool mm_attach_try_watch(const struct mm_driver *d, CUfunction kernel, CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (!d || mm_attach_is_inside || mm_forked) return false;
    if (!d->cuStreamIsCapturing || d->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE) return false;
    const CUcontext handle = context_of(d, stream);
    mm_attach_is_inside = true;
    pthread_mutex_lock(&watch_lock);
    pthread_mutex_lock(&mm_contexts_lock);
    const struct context *c = mm_context_home_listed(handle);
    bool is_watched = false;
    for (unsigned i = 0; c && i < c->heap_count && !c->is_ending; i++) {
        struct mm_host_kernels *const kernels = mm_host_heap_kernels(c->heaps[i]);
        is_watched |= !mm_host_heap_is_absent(c->heaps[i]);
        if (kernels) mm_kernels_note(kernels, kernel);
    }
    pthread_mutex_unlock(&mm_contexts_lock);
    if (is_watched && mm_host_env_get()->fail_kernel && mm_fail_is_meant(mm_driver_kernel_name(d, kernel)) && try_fail(d, handle, true)) failing = handle;
    if (!is_watched) pthread_mutex_unlock(&watch_lock);
    mm_attach_is_inside = false;
    return is_watched;
}

/* A launch, as this thread will look at it: its number, and for each heap of the context the number of its frame in the series of maps, 0: none. */
struct look {
    uint64_t launch, frames[MM_CONTEXT_HEAPS];
};

/* Counts a launch in a context. Returns whether a heap is looked at after it. The caller holds watch_lock, so that launches are counted in their order. */
static bool try_count(CUcontext handle, struct look *l) {
    bool is_wanted = false;
    pthread_mutex_lock(&mm_contexts_lock);
    const struct context *c = mm_context_home_listed(handle);
    for (unsigned i = 0; c && i < c->heap_count && !c->is_ending; i++) is_wanted |= mm_inspect_wants_launch(c->heaps[i], &l->frames[i]);
    pthread_mutex_unlock(&mm_contexts_lock);
    return is_wanted;
}

void mm_attach_watched(const struct mm_driver *d, CUstream stream, bool is_launched) {
    struct look look = {0, {0}};
    struct mm_driver_visit visit;
    const CUcontext handle = context_of(d, stream);
    if (is_launched) look.launch = ++watched_launches;
    const bool is_wanted = is_launched && mm_inspect_wants_launches() && try_count(handle, &look);
    if (failing) try_fail(d, failing, false);
    failing = NULL;
    pthread_mutex_unlock(&watch_lock);
    if (!is_wanted || !mm_driver_try_enter(d, handle, &visit)) return;
    if (d->cuCtxSynchronize() == CUDA_SUCCESS) {
        pthread_mutex_lock(&mm_contexts_lock);
        const struct context *c = mm_context_home_listed(handle);
        for (unsigned i = 0; c && i < c->heap_count && !c->is_ending; i++) mm_inspect_launch(d, c->heaps[i], look.launch, look.frames[i]);
        pthread_mutex_unlock(&mm_contexts_lock);
    }
    mm_driver_leave(d, &visit);
}
