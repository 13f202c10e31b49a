/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/trace.h"

#include <stdlib.h>

#include "runtime/host/copy.h"
#include "runtime/host/env.h"
#include "runtime/host/kernels.h"
#include "runtime/host/min.h"
#include "runtime/host/say.h"
#include "runtime/host/state.h"

void mm_trace_begin(const struct mm_driver *d, struct mm_host_heap *h) {
    const struct mm_trace head = {.count = 0, .room = MM_TRACE_EVENTS};
    const uint64_t bytes = sizeof head + MM_TRACE_EVENTS * sizeof(struct mm_trace_event);
    const struct mm_copy_zeros zeros = {h->shared ? h->shared->zeros : NULL, h->shared ? sizeof h->shared->zeros : 0};
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    const bool is_trace = mm_host_env_get()->trace != NULL;
    if (h->sibling) mm_host_say(is_trace ? "device %d: not traced: %s has no traces" : "device %d: not profiled: %s has no profiles", h->device, h->sibling);
    else if (h->guard) mm_host_say(is_trace ? "device %d: not traced: a checked run is not" : "device %d: not profiled: a checked run is not", h->device);
    if (h->trace || h->guard || h->sibling) return;
    if (MM_DRIVER_TRY(d, &error, cuMemAlloc, &h->trace, bytes) && mm_copy_try_fresh(d, h->trace, bytes, zeros, &head, sizeof head, &error)) return;
    if (h->trace) d->cuMemFree(h->trace);
    h->trace = 0;
    mm_host_say("device %d: not %s (%s: %s)", h->device, is_trace ? "traced" : "profiled", error.call, mm_driver_error_name(d, error.code).text);
}

void mm_trace_reset(const struct mm_driver *d, const struct mm_host_heap *h) {
    const struct mm_trace_event event = {.what = MM_TRACE_RESET};
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    struct mm_trace head;
    if (!h->trace) return;
    bool done = mm_copy_try_from_device(d, &head, h->trace, sizeof head, &error);
    if (done && head.count >= MM_TRACE_EVENTS) return; /* later events are dropped */
    const CUdeviceptr at = h->trace + offsetof(struct mm_trace, events) + head.count * sizeof event;
    head.count++;
    done = done && mm_copy_try_to_device(d, at, &event, sizeof event, &error) &&
           mm_copy_try_to_device(d, h->trace + offsetof(struct mm_trace, count), &head.count, sizeof head.count, &error);
    if (!done) mm_host_say("device %d: mm_reset is not in the trace (%s)", h->device, error.call);
}

static const char *name_of(void *kernels, uint32_t grid) { return mm_kernels_name((struct mm_host_kernels *)kernels, grid + 1ull); }

/* Counts the events, and writes the profile. */
static bool try_profile(const struct mm_host_heap *h, const struct mm_trace_event *events, uint64_t count, uint64_t dropped, struct mm_trace_out *out) {
    struct mm_profile profile;
    const bool done = mm_profile_try_count(&profile, events, count, dropped, name_of, h->kernels) &&
                      mm_profile_try_write(&profile, mm_host_env_get()->profile, out->title, out->profile);
    if (done) out->sum = profile.sum;
    mm_profile_drop(&profile);
    return done;
}

void mm_trace_take(const struct mm_driver *d, const struct mm_host_heap *h, struct mm_trace_out *out, struct mm_driver_error *error) {
    struct mm_trace head;
    if (!mm_copy_try_from_device(d, &head, h->trace, sizeof head, error)) return;
    const uint64_t count = min_u64(head.count, MM_TRACE_EVENTS), bytes = count * sizeof(struct mm_trace_event);
    struct mm_trace_event *events = (struct mm_trace_event *)malloc(bytes + 1);
    const bool done = events && (count == 0 || mm_copy_try_from_device(d, events, h->trace + offsetof(struct mm_trace, events), bytes, error));
    if (done) {
        out->has_trace = out->trace && mm_trace_try_write(events, count, head.count - count, out->trace, &out->sum);
        out->has_profile = out->profile && try_profile(h, events, count, head.count - count, out);
    }
    if ((done || !events) && (out->has_trace != (out->trace != NULL) || out->has_profile != (out->profile != NULL))) mm_driver_lacks_memory(error);
    free(events);
}
