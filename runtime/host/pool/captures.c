/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The streams that capture. The same handle may be in the list several times: each thread has its own default stream. */
#define _GNU_SOURCE /* of clock.h */
#include <stdlib.h>

#include "runtime/host/clock.h"
#include "runtime/host/pool/pool.h"
#include "runtime/host/pool/state.h"

unsigned mm_pool_capture_count;
static CUstream *streams; /* `listed` of them; a capture that the host has no memory to list counts for ever */
static unsigned listed, room;

/* A free of keep may have found that no stream captures, and be about to wait for its context, which would break the capture. The driver looks for captures
 * when such a call begins, so that a wait for kernels need not be over. The caller holds the lock. */
static void let_waits_begin(void) {
    const struct timespec until = mm_host_in_ms(CLOCK_MONOTONIC, MM_POOL_CAPTURE_MS);
    for (const struct mm_pool *p = mm_pools; p; p = p->next) mm_pool_await_visitors(p, &until);
}

void mm_pool_capture_begins(CUstream stream) {
    pthread_mutex_lock(&mm_pool_lock);
    __atomic_fetch_add(&mm_pool_capture_count, 1, __ATOMIC_SEQ_CST);
    if (listed == room) {
        CUstream *const more = (CUstream *)realloc(streams, (2 * room + 8) * sizeof *more);
        if (more) streams = more, room = 2 * room + 8;
    }
    if (listed < room) streams[listed++] = stream;
    let_waits_begin();
    pthread_mutex_unlock(&mm_pool_lock);
}

/* Index of a stream, or `listed`. */
static unsigned place_of(CUstream stream) {
    unsigned i = 0;
    while (i < listed && streams[i] != stream) i++;
    return i;
}

bool mm_pool_captures(CUstream stream) {
    if (__atomic_load_n(&mm_pool_capture_count, __ATOMIC_RELAXED) == 0 || !mm_pool_is_on()) return false; /* the child of a fork has no pool, but the lock */
    pthread_mutex_lock(&mm_pool_lock);
    const bool captures = place_of(stream) < listed;
    pthread_mutex_unlock(&mm_pool_lock);
    return captures;
}

void mm_pool_capture_ended(CUstream stream) {
    pthread_mutex_lock(&mm_pool_lock);
    const unsigned i = place_of(stream);
    if (i < listed) {
        streams[i] = streams[--listed];
        __atomic_fetch_sub(&mm_pool_capture_count, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&mm_pool_lock);
}
