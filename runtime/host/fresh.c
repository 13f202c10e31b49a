/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/fresh.h"

#include <stdlib.h>

#include "runtime/checked/guard.h"
#include "runtime/core/image.h"
#include "runtime/host/copy.h"
#include "runtime/host/env.h"
#include "runtime/host/fail.h"
#include "runtime/host/state.h"
#include "runtime/host/trace.h"

/* Allocates struct mm_guard for a checked run, unless it exists, and zeroes it. */
static bool try_guard(const struct mm_driver *d, struct mm_host_heap *h, struct mm_driver_error *error) {
    const uint64_t bytes = mm_guard_bytes(h->layout.segment_count);
    return (h->guard || MM_DRIVER_TRY(d, error, cuMemAlloc, &h->guard, bytes)) && mm_copy_try_zero(d, h->guard, bytes, h->chunks.zeros, error);
}

/* Allocates an image of the heap, which try_write frees. NULL: the host has no memory. */
static struct mm_heap *try_image(const struct mm_host_heap *h, struct mm_driver_error *error) {
    struct mm_heap *image = (struct mm_heap *)malloc(h->layout.image_bytes);
    if (!image) mm_driver_lacks_memory(error);
    return image;
}

/* Writes the image; frees it. */
static bool try_write(const struct mm_driver *d, const struct mm_host_heap *h, struct mm_heap *image, struct mm_driver_error *error) {
    const bool done = mm_copy_try_to_device(d, h->ref.heap, image, h->layout.image_bytes, error);
    free(image);
    return done;
}

/* Zeroes what must be zero of metadata that are one allocation, at `base`. */
static bool try_zero_all(const struct mm_driver *d, const struct mm_host_heap *h, CUdeviceptr base, struct mm_driver_error *error) {
    return mm_copy_try_zero(d, base, h->layout.zero_bytes, h->chunks.zeros, error);
}

bool mm_fresh_try_first(const struct mm_driver *d, struct mm_host_heap *h, CUdeviceptr metadata_base, CUdeviceptr user_base, uint64_t segments,
                        CUdeviceptr mailbox, struct mm_driver_error *error) {
    const bool is_mapped = h->metadata.bytes != 0; /* then chunks.c has zeroed it */
    if (mm_host_env_get()->is_checked && !h->sibling && user_base && !try_guard(d, h, error)) return false;
    if (!is_mapped && !try_zero_all(d, h, metadata_base, error)) return false;
    struct mm_heap *image = try_image(h, error);
    if (!image) return false;
    mm_heap_image(image, &h->layout, metadata_base, user_base, segments);
    if (is_mapped) image->ref.open_bytes = mm_chunks_owned(&h->chunks) * MM_SEGMENT_BYTES;
    image->ref.mailbox = mailbox, image->ref.grow_polls = mm_host_env_get()->grow_wait_ms * (1000000ull / MM_GROW_LOOK_NS);
    image->ref.spacing_mask = mm_host_env_get()->spacing - 1;
    image->ref.on_misuse = mm_host_env_get()->on_misuse;
    image->ref.fill = mm_host_env_get()->fill;
    mm_fail_image(image);
    if ((mm_host_env_get()->trace || mm_host_env_get()->profile) && user_base) mm_trace_begin(d, h); /* after the guard */
    image->ref.trace = h->trace;
    image->ref.guard = h->guard;
    if (h->guard) mm_heap_image_guard(image);
    h->ref = image->ref;
    return try_write(d, h, image, error);
}

bool mm_fresh_try_again(const struct mm_driver *d, struct mm_host_heap *h, struct mm_driver_error *error) {
    const struct mm_host_chunks *c = &h->chunks;
    const CUdeviceptr base = h->ref.heap - h->layout.heap;
    if (h->guard && !try_guard(d, h, error)) return false;
    struct mm_heap *image = try_image(h, error);
    if (!image) return false;
    mm_heap_image(image, &h->layout, base, h->ref.user_base, c->count ? 0 : c->mapped_count);
    for (unsigned i = 0; i < c->count; i++) mm_heap_image_put(image, &h->layout, c->chunk[i].first, c->chunk[i].count);
    image->ref = h->ref;
    if (h->ref.fail && !mm_fail_try_take(d, h, &image->fail, error)) { /* a reset does not number requests anew */
        free(image);
        return false;
    }
    image->grow.mapped = c->mapped_count;
    image->grow.reached = c->count ? mm_chunks_end(c) : c->mapped_count;
    const bool is_zeroed = h->metadata.bytes ? mm_chunks_try_zero(d, c, error) : try_zero_all(d, h, base, error); /* after it was read */
    if (is_zeroed) return try_write(d, h, image, error);
    free(image);
    return false;
}
