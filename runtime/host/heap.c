/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "runtime/host/heap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/host/clock.h"
#include "runtime/host/env.h"
#include "runtime/host/fresh.h"
#include "runtime/host/grower.h"
#include "runtime/host/inspect.h"
#include "runtime/host/kernels.h"
#include "runtime/host/report.h"
#include "runtime/host/say.h"
#include "runtime/host/state.h"
#include "runtime/host/trace.h"
#include "runtime/host/trim.h"

struct mm_host_heap *mm_host_heap_new(void) {
    return (struct mm_host_heap *)calloc(1, sizeof(struct mm_host_heap));
}
bool mm_host_heap_is_absent(const struct mm_host_heap *heap) { return heap->kind == MM_HOST_HEAP_ABSENT; }
const char *mm_host_heap_sibling(const struct mm_host_heap *heap) { return heap->sibling; }
CUdevice mm_host_heap_device(const struct mm_host_heap *heap) { return heap->device; }
struct mm_host_kernels *mm_host_heap_kernels(const struct mm_host_heap *heap) {
    return heap->kernels;
}

struct mm_heap_ref mm_host_heap_published(const struct mm_host_heap *h) {
    struct mm_heap_ref ref = h->ref;
    if (h->guard || ref.fill || ref.fail || ref.trace || !ref.user_base) ref.open_bytes = 0; /* without addresses NULL would lie in it */
    return ref;
}

bool mm_host_heap_try_ensure(const struct mm_driver *d, struct mm_host_heap *h, uint64_t bytes) {
    const uint64_t wanted = mm_host_segments_of(bytes);
    pthread_mutex_lock(&h->lock);
    while (h->kind == MM_HOST_HEAP_MAPPED && h->shared && h->chunks.mapped_count < wanted)
        if (mm_grower_more(d, h, 1, wanted - h->chunks.mapped_count, 1).count == 0) break;
    const bool has = h->chunks.mapped_count >= wanted;
    pthread_mutex_unlock(&h->lock);
    return has;
}

void mm_host_heap_promise(struct mm_host_heap *h, uint64_t bytes) {
    pthread_mutex_lock(&h->lock);
    if (h->promised_segments < mm_host_segments_of(bytes)) h->promised_segments = mm_host_segments_of(bytes);
    pthread_mutex_unlock(&h->lock);
}

uint64_t mm_host_heap_give_back(const struct mm_driver *d, struct mm_host_heap *h, uint64_t bytes) {
    CUcontext popped;
    const double start_ms = mm_host_now_ms();
    if (h->kind != MM_HOST_HEAP_MAPPED || !mm_host_env_get()->gives_back || d->cuCtxPushCurrent(h->context) != CUDA_SUCCESS) return 0;
    pthread_mutex_lock(&h->lock);
    const uint64_t got = mm_trim(d, h, bytes, 0);
    pthread_mutex_unlock(&h->lock);
    d->cuCtxPopCurrent(&popped);
    if (got && mm_host_env_get()->verbose)
        mm_host_say("heap on device %d: gave %s back in %.1f ms, has %s", h->device, mm_host_size(got).text, mm_host_now_ms() - start_ms,
                    mm_host_size(h->chunks.mapped_count * MM_SEGMENT_BYTES).text);
    return got;
}

bool mm_host_heap_wants_idle(const struct mm_host_heap *h) {
    return h->kind == MM_HOST_HEAP_MAPPED && mm_host_env_get()->gives_back && h->shared && !h->trim.retire && !h->trim.is_refused;
}

void mm_host_heap_idle(const struct mm_driver *d, struct mm_host_heap *h) {
    pthread_mutex_lock(&h->lock);
    mm_trim_load(d, h);
    pthread_mutex_unlock(&h->lock);
}

/* Resets in place: addresses stay the same, and so do the heap variables of modules and graphs. Launches need no change.
 * Invariant: from the end of the old thread to the start of the new one, no other thread owns, gives or takes a segment.
 *   The device: no kernel of the program runs (the caller ensures that), and none of ours (their stream is synchronised). The grower: it has ended.
 *   Other host threads: give_back, try_ensure, access and drop are called under mm_contexts_lock (interpose/preload), which the caller holds.
 *   So an answer that no thread took, a chunk that was claimed late, and a spare chunk all become chunks that are free in the heap.
 * The numbers of requests restart in all three places: in the device's state (zeroed), in the mailbox (zeroed), and in the new thread, which reads them
 *   from the mailbox when it starts. A first launch that happens meanwhile waits for the lock, or writes the same value to its module's variable. */
bool mm_host_heap_try_reset(const struct mm_driver *d, struct mm_host_heap *h, struct mm_driver_error *error) {
    bool is_stopped = false;
    if (h->trim.stream && !MM_DRIVER_TRY(d, error, cuStreamSynchronize, h->trim.stream)) return false;
    for (int i = 0; i < MM_HOST_RESET_STOPS && !is_stopped; i++) is_stopped = mm_host_heap_try_stop(h);
    if (!is_stopped) return mm_driver_failed(error, "pthread_join", CUDA_ERROR_OPERATING_SYSTEM);
    pthread_mutex_lock(&h->lock);
    const bool done = mm_fresh_try_again(d, h, error);
    for (unsigned i = 0; done && i < h->chunks.count; i++) h->chunks.chunk[i].is_spare = false;
    if (done) h->trim.pending = 0, h->trim.is_idle_done = h->trim.has_looked = false, h->refusal[0] = 0;
    pthread_mutex_unlock(&h->lock);
    if (done) mm_trace_reset(d, h);
    if (!done || !h->shared) return done;
    h->grower.null_bytes_at_end = h->grower.answer_at_end = h->grower.reported = 0;
    h->reports_said = 0, h->is_summed_up = false; /* try_stop has printed them all */
    memset(&h->shared->mailbox, 0, sizeof h->shared->mailbox);
    h->grower.is_closed = 0;
    if (mm_grower_start(d, h) != 0) {
        mm_host_heap_close(h);
        mm_host_say("the heap on device %d cannot grow (pthread_create)", h->device);
    }
    return true;
}

void mm_host_heap_access(const struct mm_driver *d, struct mm_host_heap *h, CUdevice device, bool is_allowed) {
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    if (h->kind != MM_HOST_HEAP_MAPPED) return;
    pthread_mutex_lock(&h->lock);
    const bool done = mm_chunks_try_access(d, &h->chunks, device, is_allowed, &error);
    pthread_mutex_unlock(&h->lock);
    if (!done && is_allowed)
        mm_host_say("device %d has no access to the heap on device %d (%s)", device, h->device,
                    error.call ? mm_driver_error_name(d, error.code).text : "too many devices");
}

void mm_host_heap_close(struct mm_host_heap *h) {
    if (!h->shared || __atomic_load_n(&h->shared->mailbox.answer, __ATOMIC_RELAXED) == MM_ANSWER_CLOSED) return;
    h->grower.null_bytes_at_end = __atomic_load_n(&h->shared->mailbox.null_bytes, __ATOMIC_RELAXED);
    h->grower.answer_at_end = __atomic_exchange_n(&h->shared->mailbox.answer, MM_ANSWER_CLOSED, __ATOMIC_ACQ_REL);
}

void mm_host_heap_reopen(const struct mm_driver *d, struct mm_host_heap *h) {
    if (!h->shared || __atomic_load_n(&h->shared->mailbox.answer, __ATOMIC_RELAXED) != MM_ANSWER_CLOSED) return;
    if (!h->grower.is_running || !mm_grower_try_stop(h)) return;
    __atomic_store_n(&h->shared->mailbox.answer, h->grower.answer_at_end, __ATOMIC_RELEASE);
    h->grower.is_closed = 0;
    mm_grower_start(d, h);
}

bool mm_host_heap_try_stop(struct mm_host_heap *h) {
    mm_host_heap_close(h);
    if (!mm_grower_try_stop(h)) return false;
    mm_report_say(h);
    return true;
}

bool mm_host_heap_drop(const struct mm_driver *d, struct mm_host_heap *h) {
    CUdevice device = h->device;
    if (!mm_host_heap_try_stop(h)) return false; /* the thread hangs in the driver */
    mm_report_end(h);
    mm_inspect_write(h);
    if (mm_host_env_get()->verbose && h->kind == MM_HOST_HEAP_MAPPED && h->shared)
        mm_host_say("heap on device %d: grew %llu times, had %s at the end, gave %s back", h->device, (unsigned long long)h->steps,
                    mm_host_size(h->chunks.mapped_count * MM_SEGMENT_BYTES).text, mm_host_size(h->given_back_bytes).text);
    mm_chunks_drop(d, &h->chunks);
    mm_vm_unreserve(d, &h->metadata);
    mm_vm_unreserve(d, &h->user);
    if (h->shared) munmap(h->shared, sizeof *h->shared);
    mm_kernels_drop(h->kernels);
    pthread_mutex_destroy(&h->lock);
    memset(h, 0, sizeof *h);
    h->device = device;
    return true;
}
