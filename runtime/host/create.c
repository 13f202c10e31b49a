/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* How a heap begins: mapped, or as one allocation, or empty, by what the driver provides (heap.h). */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/core/image.h"
#include "runtime/host/clock.h"
#include "runtime/host/env.h"
#include "runtime/host/fresh.h"
#include "runtime/host/grower.h"
#include "runtime/host/heap.h"
#include "runtime/host/kernels.h"
#include "runtime/host/min.h"
#include "runtime/host/say.h"
#include "runtime/host/state.h"
#include "runtime/host/trim.h"

/* The requested size, and the device's memory. */
struct budget {
    uint64_t total_bytes, free_bytes;
    uint64_t metadata_bytes; /* metadata that were mapped when free_bytes was read */
    uint64_t asked_bytes;    /* requested by MM_HEAP_SIZE or the program's limit */
    bool is_capped;          /* by MM_HEAP_MAX */
};

/* The "call" of the error if the device has no virtual memory management. The heap is then one allocation, and the message about that is printed only
 * with MM_VERBOSE=1. */
#define NO_VMM "virtual memory management"

static uint64_t size_of(struct mm_host_env_size size, uint64_t total_bytes) { return size.percent ? total_bytes / 100 * size.percent : size.bytes; }

static bool try_budget(const struct mm_driver *d, struct mm_host_heap *h, uint64_t floor_bytes, struct budget *b, struct mm_driver_error *error) {
    const struct mm_host_env *env = mm_host_env_get();
    size_t total = 0, free_now = 0, total_now = 0;
    if (!MM_DRIVER_TRY(d, error, cuDeviceTotalMem, &total, h->device)) return false;
    if (!MM_DRIVER_TRY(d, error, cuMemGetInfo, &free_now, &total_now)) return false;
    b->total_bytes = total;
    b->free_bytes = free_now;
    b->metadata_bytes = mm_chunks_metadata_bytes(&h->chunks);
    h->reserve_bytes = min_u64(total / MM_HOST_RESERVE_DIVISOR, MM_HOST_RESERVE_BYTES);
    uint64_t ceiling = size_of(env->heap_max, total);
    b->is_capped = ceiling != 0;
    if (!ceiling) ceiling = total - total / MM_HOST_CEILING_DIVISOR;
    b->asked_bytes = size_of(env->heap_size, total);
    if (!b->asked_bytes) b->asked_bytes = floor_bytes;
    if (b->asked_bytes > ceiling && !b->is_capped) ceiling = b->asked_bytes; /* a larger request raises the default ceiling */
    h->ceiling_segments = mm_host_segments_of(ceiling);
    return true;
}

/* What the heap's layout is made for: the other allocators do not space slices, and use all words of a page (16). */
static uint64_t spacing_of(const struct mm_host_heap *h) { return h->sibling ? 1u << MM_ALIGN_SHIFT : mm_host_env_get()->spacing; }

/* Reserves addresses of segments for the whole device, or fewer if the driver refuses, and of the metadata. */
static bool try_reserve(const struct mm_driver *d, struct mm_host_heap *h, uint64_t total_bytes, uint64_t page_bytes, struct mm_driver_error *error) {
    struct mm_host_chunks *c = &h->chunks;
    const uint64_t unit_bytes = page_bytes > MM_SEGMENT_BYTES ? page_bytes : MM_SEGMENT_BYTES;
    c->page_bytes = page_bytes, c->unit = unit_bytes / MM_SEGMENT_BYTES;
    uint64_t segments = min_u64(total_bytes / MM_SEGMENT_BYTES, MM_TREE_BITS_MAX);
    for (; (segments = mm_chunks_down(c, segments)) != 0 && !h->user.bytes; segments /= 2)
        if (!mm_vm_try_reserve(d, segments * MM_SEGMENT_BYTES, unit_bytes, &h->user, error) && mm_driver_error_is_foreign(error->code)) return false;
    if (!h->user.bytes) return false;
    error->call = NULL; /* the driver may have refused a larger reservation before */
    if (h->user.base % unit_bytes != 0 || mm_layout_make(&h->layout, h->user.bytes / MM_SEGMENT_BYTES, page_bytes, spacing_of(h)) != 0)
        return mm_driver_failed(error, "cuMemAddressReserve", CUDA_ERROR_MISALIGNED_ADDRESS);
    if (!mm_vm_try_reserve(d, h->layout.total_bytes, page_bytes, &h->metadata, error)) return false;
    c->user = h->user.base;
    c->segment_count = h->layout.segment_count;
    mm_chunks_divide(c, &h->layout, h->metadata.base);
    return true;
}

/* Allocates host memory that the device can access. It is mapped by mmap and registered with the driver, so it outlives the context. */
static bool try_share(const struct mm_driver *d, struct mm_host_heap *h, struct mm_driver_error *error) {
    CUdeviceptr mailbox = 0;
    void *at = mmap(NULL, sizeof *h->shared, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return mm_driver_failed(error, "mmap", CUDA_ERROR_OUT_OF_MEMORY);
    if (MM_DRIVER_TRY(d, error, cuMemHostRegister, at, sizeof *h->shared, CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE)) {
        if (MM_DRIVER_TRY(d, error, cuMemHostGetDevicePointer, &mailbox, at, 0)) {
            h->shared = (struct mm_host_shared *)at;
            h->chunks.zeros = (struct mm_copy_zeros){h->shared->zeros, sizeof h->shared->zeros};
            h->ref.mailbox = mailbox;
            return true;
        }
        d->cuMemHostUnregister(at);
    }
    munmap(at, sizeof *h->shared);
    return false;
}

/* Reserves addresses. */
static bool try_found(const struct mm_driver *d, struct mm_host_heap *h, uint64_t total_bytes, struct mm_driver_error *error) {
    uint64_t page_bytes = 0;
    int supported = 0;
    if (!MM_DRIVER_TRY(d, error, cuDeviceGetAttribute, &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, h->device)) return false;
    if (!supported) return mm_driver_failed(error, NO_VMM, CUDA_ERROR_NOT_SUPPORTED);
    if (!mm_vm_try_page(d, h->device, &page_bytes, error)) return false;
    if (page_bytes == 0 || (page_bytes & (page_bytes - 1)) != 0) return mm_driver_failed(error, "cuMemGetAllocationGranularity", CUDA_ERROR_NOT_SUPPORTED);
    h->chunks.access.count = 1;
    h->chunks.access.devices[0] = h->device;
    return try_reserve(d, h, total_bytes, page_bytes, error);
}

/* What a heap that cannot grow begins with: MM_HEAP_SIZE, if it is set; else at least a part of the free memory. */
static uint64_t all_at_once_bytes(const struct budget *b) {
    const struct mm_host_env_size set = mm_host_env_get()->heap_size;
    const uint64_t share = b->free_bytes / MM_HOST_FIXED_FREE_DIVISOR;
    return set.bytes || set.percent || b->asked_bytes > share ? b->asked_bytes : share;
}

static bool try_create_mapped(const struct mm_driver *d, struct mm_host_heap *h, struct budget *b, struct mm_driver_error *error,
                              struct mm_driver_error *no_growth) {
    if (!h->is_prepared && !try_found(d, h, b->total_bytes, error)) return false;
    if (!h->shared && !try_share(d, h, no_growth)) b->asked_bytes = all_at_once_bytes(b);
    if (!mm_chunks_try_describe(d, &h->chunks, 0, error)) return false;
    h->ceiling_segments = mm_chunks_up(&h->chunks, h->ceiling_segments);
    uint64_t wanted = mm_chunks_up(&h->chunks, mm_host_segments_of(b->asked_bytes));
    if (h->shared && wanted < MM_HOST_FIRST_SEGMENTS && !mm_host_env_get()->heap_size.bytes) wanted = MM_HOST_FIRST_SEGMENTS;
    wanted = min_u64(min_u64(wanted, h->ceiling_segments), h->layout.segment_count);
    const uint64_t mapped_since = mm_chunks_metadata_bytes(&h->chunks) - b->metadata_bytes + h->chunks.page_bytes;
    wanted = min_u64(wanted, mm_chunks_down(&h->chunks, mm_grower_room(h, b->free_bytes - min_u64(b->free_bytes, mapped_since))));
    while (h->chunks.mapped_count < wanted) /* possibly in several pieces, but consecutive from the first segment on */
        if (mm_chunks_grow(d, &h->chunks, 1, wanted - h->chunks.mapped_count, 1, error).count == 0) break;
    if (h->chunks.mapped_count == wanted) error->call = NULL; /* refused first, then granted in smaller pieces */
    mm_chunks_set_spare(&h->chunks, (struct mm_host_segments){0, wanted}, false);
    h->promised_segments = wanted;
    struct mm_driver_error fatal = {NULL, CUDA_SUCCESS};
    if (!mm_fresh_try_first(d, h, h->metadata.base, h->user.base, h->chunks.mapped_count, h->ref.mailbox, &fatal)) {
        *error = fatal;
        return false;
    }
    h->chunks.is_used = true;
    h->kind = MM_HOST_HEAP_MAPPED;
    struct mm_driver_error no_names = {NULL, CUDA_SUCCESS};
    const bool has_names = h->guard || (h->trace && mm_host_env_get()->profile);
    if (has_names && !(h->kernels = mm_kernels_create(d, h->context, &no_names)))
        mm_host_say("device %d: kernels have no names (%s)", h->device, no_names.call);
    if (!h->shared) return true;
    if (mm_host_env_get()->trim_after_ms == MM_HOST_TRIM_IDLE_MS) mm_trim_load(d, h);
    if (mm_grower_start(d, h) != 0) {
        mm_driver_failed(no_growth, "pthread_create", CUDA_ERROR_OPERATING_SYSTEM);
        mm_host_heap_close(h);
    }
    return true;
}

/* Makes one allocation for metadata, and one for segments; tries half as many segments after each failure. */
static bool try_create_fixed(const struct mm_driver *d, struct mm_host_heap *h, const struct budget *b, struct mm_driver_error *error) {
    const uint64_t line_bytes = 256;
    uint64_t segments = mm_host_segments_of(all_at_once_bytes(b));
    segments = min_u64(min_u64(segments, h->ceiling_segments), min_u64(mm_grower_room(h, b->free_bytes), MM_TREE_BITS_MAX));
    for (; segments; segments /= 2) {
        CUdeviceptr metadata = 0, user = 0;
        mm_layout_make(&h->layout, segments, line_bytes, spacing_of(h));
        if (!MM_DRIVER_TRY(d, error, cuMemAlloc, &metadata, h->layout.total_bytes)) continue;
        if (MM_DRIVER_TRY(d, error, cuMemAlloc, &user, (segments + 1) * MM_SEGMENT_BYTES)) {
            const CUdeviceptr base = mm_round_up(user, MM_SEGMENT_BYTES);
            if (mm_fresh_try_first(d, h, metadata, base, segments, 0, error)) {
                h->kind = MM_HOST_HEAP_FIXED;
                h->chunks.mapped_count = h->chunks.peak_count = segments;
                return true;
            }
            d->cuMemFree(user);
        }
        d->cuMemFree(metadata);
    }
    return false;
}

/* Creates a heap of one segment that is never mapped: it suffices for malloc to return NULL. */
static bool try_create_empty(const struct mm_driver *d, struct mm_host_heap *h, struct mm_driver_error *error) {
    const uint64_t line_bytes = 256;
    CUdeviceptr metadata = 0;
    mm_layout_make(&h->layout, 1, line_bytes, spacing_of(h));
    if (!MM_DRIVER_TRY(d, error, cuMemAlloc, &metadata, h->layout.total_bytes)) return false;
    if (!mm_fresh_try_first(d, h, metadata, 0, 0, 0, error)) {
        d->cuMemFree(metadata);
        return false;
    }
    h->kind = MM_HOST_HEAP_EMPTY;
    return true;
}

/* Prints one line if the heap is not as requested, and the line of MM_VERBOSE=1. */
static void report(const struct mm_driver *d, const struct mm_host_heap *h, const struct budget *b, const struct mm_driver_error *error,
                   const struct mm_driver_error *no_growth, double took_ms) {
    char reason[160];
    const uint64_t mapped_bytes = h->chunks.mapped_count * MM_SEGMENT_BYTES;
    const bool is_verbose = mm_host_env_get()->verbose, is_refused = error->call && strcmp(error->call, NO_VMM) == 0;
    if (h->chunks.count == MM_HOST_CHUNKS_MAX) snprintf(reason, sizeof reason, "its memory came in %u pieces, and it takes no more", h->chunks.count);
    else if (error->call) snprintf(reason, sizeof reason, "%s: %s", error->call, mm_driver_error_name(d, error->code).text);
    else if (h->chunks.mapped_count && h->chunks.mapped_count == h->layout.segment_count) snprintf(reason, sizeof reason, "there are no more addresses for it");
    else if (h->chunks.mapped_count >= h->ceiling_segments && b->is_capped) snprintf(reason, sizeof reason, "MM_HEAP_MAX allows no more");
    else snprintf(reason, sizeof reason, "%s are free, a part stays so for the driver", mm_host_size(b->free_bytes).text);
    if (error->call && mm_driver_error_is_foreign(error->code)) return;
    if (h->kind == MM_HOST_HEAP_ABSENT)
        mm_host_say("no heap on device %d (%s); a kernel that calls malloc will fail with cudaErrorLaunchFailure", h->device, reason);
    else if (h->kind == MM_HOST_HEAP_EMPTY) mm_host_say("the heap on device %d is empty (%s); every malloc in a kernel returns NULL", h->device, reason);
    else if (h->kind == MM_HOST_HEAP_FIXED && (!is_refused || is_verbose))
        mm_host_say("the heap on device %d has %s and cannot grow (%s)", h->device, mm_host_size(mapped_bytes).text, reason);
    else if (h->kind == MM_HOST_HEAP_MAPPED && h->chunks.mapped_count < mm_host_segments_of(b->asked_bytes))
        mm_host_say("heap on device %d is %s instead of %s (%s)", h->device, mm_host_size(mapped_bytes).text, mm_host_size(b->asked_bytes).text, reason);
    else if (h->kind == MM_HOST_HEAP_MAPPED && no_growth->call && !mm_driver_error_is_foreign(no_growth->code))
        mm_host_say("the heap on device %d has %s and cannot grow (%s: %s)", h->device, mm_host_size(mapped_bytes).text, no_growth->call,
                    mm_driver_error_name(d, no_growth->code).text);
    if (is_verbose && h->kind == MM_HOST_HEAP_MAPPED)
        mm_host_say("heap on device %d: %s mapped, up to %s, of %s reserved; made in %.1f ms", h->device, mm_host_size(mapped_bytes).text,
                    mm_host_size(min_u64(h->ceiling_segments, h->layout.segment_count) * MM_SEGMENT_BYTES).text, mm_host_size(h->user.bytes).text, took_ms);
}

/* Reverts a creation that failed halfway. The context exists. Keeps what try_begin and try_budget set. */
static void undo(const struct mm_driver *d, struct mm_host_heap *h) {
    if (h->shared) d->cuMemHostUnregister(h->shared);
    if (h->guard) d->cuMemFree(h->guard);
    if (h->trace) d->cuMemFree(h->trace);
    h->guard = h->trace = 0;
    const uint64_t ceiling_segments = h->ceiling_segments, reserve_bytes = h->reserve_bytes;
    const CUcontext context = h->context;
    const char *sibling = h->sibling;
    mm_host_heap_drop(d, h);
    pthread_mutex_init(&h->lock, NULL);
    h->ceiling_segments = ceiling_segments, h->reserve_bytes = reserve_bytes, h->context = context, h->sibling = sibling;
}

/* Sets the lock, device and context for the current context. */
static bool try_begin(const struct mm_driver *d, struct mm_host_heap *h, struct mm_driver_error *error) {
    pthread_mutex_init(&h->lock, NULL);
    return MM_DRIVER_TRY(d, error, cuCtxGetDevice, &h->device) && MM_DRIVER_TRY(d, error, cuCtxGetCurrent, &h->context);
}

bool mm_host_heap_try_prepare(const struct mm_driver *d, struct mm_host_heap *h) {
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    size_t total_bytes = 0;
    h->is_prepared = try_begin(d, h, &error) && MM_DRIVER_TRY(d, &error, cuDeviceTotalMem, &total_bytes, h->device) && try_found(d, h, total_bytes, &error) &&
                     try_share(d, h, &error) && mm_chunks_try_describe(d, &h->chunks, MM_HOST_FIRST_SEGMENTS, &error);
    if (h->is_prepared) return true;
    undo(d, h);
    pthread_mutex_destroy(&h->lock);
    memset(h, 0, sizeof *h);
    return false;
}

void mm_host_heap_create(const struct mm_driver *d, struct mm_host_heap *h, uint64_t floor_bytes, const char *sibling) {
    struct mm_driver_error error = {NULL, CUDA_SUCCESS}, no_growth = error, later = error;
    struct budget b = {0, 0, 0, 0, false};
    double start_ms = mm_host_now_ms();
    h->sibling = sibling;
    if (h->is_prepared || try_begin(d, h, &error)) {
        const bool has_budget = try_budget(d, h, floor_bytes, &b, &error);
        if (!has_budget || !try_create_mapped(d, h, &b, &error, &no_growth)) {
            undo(d, h);
            if (!mm_driver_error_is_foreign(error.code) && !(has_budget && try_create_fixed(d, h, &b, &later))) try_create_empty(d, h, &later);
        } else if (h->chunks.mapped_count == 0 && !h->grower.is_running) {
            h->kind = MM_HOST_HEAP_EMPTY;
        }
    }
    report(d, h, &b, &error, &no_growth, mm_host_now_ms() - start_ms);
    if (sibling && mm_host_env_get()->is_checked) mm_host_say("device %d: not checked: %s has no checked runs", h->device, sibling);
}
