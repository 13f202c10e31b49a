/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "interpose/preload/contexts.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/preload/kernel_cache.h"

pthread_mutex_t mm_contexts_lock = PTHREAD_MUTEX_INITIALIZER;
struct context *mm_contexts;
bool mm_forked;
static pthread_cond_t end_settled = PTHREAD_COND_INITIALIZER; /* a context's is_ending was cleared */
static __thread bool inside_end;
static bool has_green;

struct context *mm_context_listed(CUcontext handle) {
    for (struct context *c = mm_contexts; c; c = c->next)
        if (c->handle == handle) return c;
    return NULL;
}

struct context *mm_context_find(CUcontext handle) {
    struct context *c = mm_context_listed(handle);
    for (; c && c->is_ending && !inside_end && !mm_forked; c = mm_context_listed(handle)) pthread_cond_wait(&end_settled, &mm_contexts_lock);
    return c;
}

struct context *mm_context_get(CUcontext handle) {
    struct context *c = mm_context_find(handle);
    if (c) return c;
    c = (struct context *)calloc(1, sizeof *c);
    if (!c) return NULL;
    c->handle = handle;
    c->next = mm_contexts;
    mm_contexts = c;
    return c;
}

void mm_contexts_green_come(void) { __atomic_store_n(&has_green, true, __ATOMIC_RELAXED); }

bool mm_contexts_have_green(void) { return __atomic_load_n(&has_green, __ATOMIC_RELAXED); }

/* The primary context that the current green context is part of; NULL: the current context is not green. */
static CUcontext home_of_current(const struct mm_driver *d) {
    CUcontext home = NULL;
    CUgreenCtx green = NULL;
    if (!mm_contexts_have_green() || !d || !d->cuStreamGetCtx_v2) return NULL;
    return d->cuStreamGetCtx_v2(NULL, &home, &green) == CUDA_SUCCESS && green ? home : NULL;
}

struct context *mm_context_home(const struct mm_driver *d, CUcontext handle, bool makes_one) {
    struct context *c = mm_context_find(handle);
    CUcontext home = c ? c->home : home_of_current(d);
    if (!c && home && (c = mm_context_get(handle)) != NULL) c->home = home;
    if (!home) home = handle;
    return makes_one ? mm_context_get(home) : mm_context_find(home);
}

struct context *mm_context_home_listed(CUcontext handle) {
    struct context *c = mm_context_listed(handle);
    return c && c->home ? mm_context_listed(c->home) : c;
}

void mm_context_ending(struct context *c) { c->is_ending = inside_end = true; }
bool mm_context_is_inside_end(void) { return inside_end; }
void mm_context_settled(struct context *c) {
    c->is_ending = inside_end = false;
    pthread_cond_broadcast(&end_settled);
}

void mm_context_remove(struct context *c) {
    const CUcontext handle = c->handle;
    for (struct context **at = &mm_contexts; *at;) {
        struct context *gone = *at;
        if (gone != c && gone->home != handle) {
            at = &gone->next;
            continue;
        }
        *at = gone->next;
        free(gone);
    }
}

void mm_context_forget_known(CUcontext handle) {
    mm_kernel_cache_forget_context(handle);
    for (struct context *c = mm_contexts; c; c = c->next)
        if (c->home == handle) mm_kernel_cache_forget_context(c->handle);
}

void mm_contexts_in_child(void) {
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&mm_contexts_lock, &fresh, sizeof fresh); /* its holder, if any, is not in this process */
    mm_forked = true;
}
