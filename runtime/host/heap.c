#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "runtime/host/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/host/copy.h"
#include "runtime/host/env.h"
#include "runtime/host/say.h"

/* What is asked for, and what the device has. */
struct budget {
    uint64_t total_bytes, free_bytes;
    uint64_t asked_bytes; /* by MM_HEAP_SIZE, the program's limit, or the default */
};

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool try_budget(const struct mm_driver *d, CUdevice device, uint64_t floor_bytes, struct budget *b,
                       struct mm_driver_error *error) {
    const struct mm_host_env *env = mm_host_env_get();
    size_t total = 0, free_now = 0, total_now = 0;
    if (!MM_DRIVER_TRY(d, error, cuDeviceTotalMem, &total, device)) return false;
    if (!MM_DRIVER_TRY(d, error, cuMemGetInfo, &free_now, &total_now)) return false;
    b->total_bytes = total;
    b->free_bytes = free_now;
    uint64_t share = free_now / MM_HOST_DEFAULT_FREE_DIVISOR;
    if (env->heap_bytes)
        b->asked_bytes = env->heap_bytes;
    else if (env->heap_percent)
        b->asked_bytes = total / 100 * env->heap_percent;
    else
        b->asked_bytes = floor_bytes > share ? floor_bytes : share;
    return true;
}

/* Reserves segments for the whole device, fewer if the driver will not have it, and the metadata. */
static bool try_reserve(const struct mm_driver *d, struct mm_host_heap *h, uint64_t total_bytes,
                        uint64_t page_bytes, struct mm_driver_error *error) {
    uint64_t segments = min_u64(total_bytes / MM_SEGMENT_BYTES, MM_TREE_BITS_MAX);
    for (; segments && !h->user.bytes; segments /= 2)
        if (!mm_vm_try_reserve(d, segments * MM_SEGMENT_BYTES, MM_SEGMENT_BYTES, &h->user, error) &&
            mm_driver_error_is_foreign(error->code))
            return false;
    if (!h->user.bytes) return false;
    error->call = NULL; /* more addresses may have been refused before */
    if (h->user.base % MM_SEGMENT_BYTES != 0 ||
        mm_layout_make(&h->layout, h->user.bytes / MM_SEGMENT_BYTES, page_bytes) != 0) {
        error->call = "cuMemAddressReserve";
        error->code = CUDA_ERROR_MISALIGNED_ADDRESS;
        return false;
    }
    return mm_vm_try_reserve(d, h->layout.total_bytes, page_bytes, &h->metadata, error);
}

/* Appends one chunk of `segments`: its slice bits, then its memory. All or nothing. */
static bool try_append_chunk(const struct mm_driver *d, struct mm_host_heap *h, uint64_t segments,
                             uint64_t page_bytes, struct mm_driver_error *error) {
    struct mm_host_chunk *c = &h->chunks[h->chunk_count];
    uint64_t end = h->mapped_segments + segments;
    uint64_t bits_end = mm_round_up(end * MM_SEGMENT_BITMAP_BYTES, page_bytes);
    bits_end = min_u64(bits_end, h->metadata.bytes - h->layout.bits_offset);
    c->first_segment = h->mapped_segments;
    c->segment_count = segments;
    c->bits = h->metadata.base + h->layout.bits_offset + h->bits_mapped_bytes;
    c->bits_bytes = bits_end > h->bits_mapped_bytes ? bits_end - h->bits_mapped_bytes : 0;
    if (c->bits_bytes && !mm_vm_try_map(d, h->device, c->bits, c->bits_bytes, error)) return false;
    if (!mm_vm_try_map(d, h->device, h->user.base + c->first_segment * MM_SEGMENT_BYTES,
                       segments * MM_SEGMENT_BYTES, error)) {
        mm_vm_unmap(d, c->bits, c->bits_bytes);
        return false;
    }
    h->bits_mapped_bytes += c->bits_bytes;
    h->mapped_segments = end;
    h->chunk_count++;
    return true;
}

/* Maps up to `segments`, in growing chunks; a chunk that is refused is tried at half its size. */
static void map_segments(const struct mm_driver *d, struct mm_host_heap *h, uint64_t segments,
                         uint64_t page_bytes, struct mm_driver_error *error) {
    uint64_t ceiling = MM_HOST_CHUNK_SEGMENTS_MAX;
    while (h->mapped_segments < segments && h->chunk_count < MM_HOST_CHUNKS_MAX) {
        uint64_t next = h->mapped_segments;
        if (next < MM_HOST_CHUNK_SEGMENTS_MIN) next = MM_HOST_CHUNK_SEGMENTS_MIN;
        next = min_u64(min_u64(next, ceiling), segments - h->mapped_segments);
        if (try_append_chunk(d, h, next, page_bytes, error)) continue;
        if (error->code != CUDA_ERROR_OUT_OF_MEMORY || next == 1) return;
        ceiling = next / 2;
    }
}

/* Zeroes the fixed part and writes the image of a fresh heap. */
static bool try_write_image(const struct mm_driver *d, const struct mm_host_heap *h,
                            CUdeviceptr metadata_base, CUdeviceptr user_base, struct mm_heap_ref *ref,
                            struct mm_driver_error *error) {
    void *image = malloc(h->layout.image_bytes);
    if (!image) {
        error->call = "malloc";
        error->code = CUDA_ERROR_OUT_OF_MEMORY;
        return false;
    }
    mm_heap_image(image, &h->layout, metadata_base, user_base, h->mapped_segments);
    *ref = ((struct mm_heap *)image)->ref;
    bool done = mm_copy_try_to_device(d, metadata_base, h->layout.fixed_bytes, image, h->layout.image_bytes,
                                      error);
    free(image);
    return done;
}

static bool try_create_mapped(const struct mm_driver *d, struct mm_host_heap *h, uint64_t floor_bytes,
                              struct budget *b, struct mm_driver_error *error) {
    uint64_t page_bytes = 0;
    int supported = 0;
    if (!try_budget(d, h->device, floor_bytes, b, error)) return false;
    if (!MM_DRIVER_TRY(d, error, cuDeviceGetAttribute, &supported,
                       CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, h->device))
        return false;
    if (!supported) {
        error->call = "virtual memory management";
        error->code = CUDA_ERROR_NOT_SUPPORTED;
        return false;
    }
    if (!mm_vm_try_page(d, h->device, &page_bytes, error)) return false;
    if (page_bytes == 0 || MM_SEGMENT_BYTES % page_bytes != 0) {
        error->call = "cuMemGetAllocationGranularity";
        error->code = CUDA_ERROR_NOT_SUPPORTED;
        return false;
    }
    if (!try_reserve(d, h, b->total_bytes, page_bytes, error)) return false;
    if (!mm_vm_try_map(d, h->device, h->metadata.base, h->layout.fixed_bytes, error)) return false;
    h->fixed_mapped_bytes = h->layout.fixed_bytes;

    uint64_t room = b->free_bytes;
    room -= min_u64(room / MM_HOST_RESERVE_FREE_DIVISOR, MM_HOST_RESERVE_BYTES);
    room -= min_u64(room, h->layout.fixed_bytes + page_bytes);
    uint64_t wanted = b->asked_bytes / MM_SEGMENT_BYTES + (b->asked_bytes % MM_SEGMENT_BYTES != 0);
    wanted = min_u64(wanted, room / (MM_SEGMENT_BYTES + MM_SEGMENT_BITMAP_BYTES));
    wanted = min_u64(wanted, h->layout.segment_count);
    map_segments(d, h, wanted, page_bytes, error);
    if (!try_write_image(d, h, h->metadata.base, h->user.base, &h->ref, error)) return false;
    if (h->mapped_segments == wanted) error->call = NULL; /* refused at first, had in smaller pieces */
    h->kind = MM_HOST_HEAP_MAPPED;
    return true;
}

/* A heap of one segment that is never there: all that malloc needs to answer NULL. */
static bool try_create_empty(const struct mm_driver *d, struct mm_host_heap *h,
                             struct mm_driver_error *error) {
    const uint64_t line_bytes = 256;
    CUdeviceptr metadata = 0;
    mm_layout_make(&h->layout, 1, line_bytes);
    if (!MM_DRIVER_TRY(d, error, cuMemAlloc, &metadata, h->layout.total_bytes)) return false;
    if (!try_write_image(d, h, metadata, 0, &h->ref, error)) {
        d->cuMemFree(metadata);
        return false;
    }
    h->kind = MM_HOST_HEAP_EMPTY;
    return true;
}

/* The one line on a heap that is not what was asked for, or the one that MM_VERBOSE=1 asks for. */
static void report(const struct mm_driver *d, const struct mm_host_heap *h, const struct budget *b,
                   const struct mm_driver_error *error, double took_ms) {
    char reason[128];
    if (h->chunk_count == MM_HOST_CHUNKS_MAX)
        snprintf(reason, sizeof reason, "its memory came in %u pieces, and it takes no more", h->chunk_count);
    else if (error->call)
        snprintf(reason, sizeof reason, "%s: %s", error->call, mm_driver_error_name(d, error->code).text);
    else if (h->mapped_segments && h->mapped_segments == h->layout.segment_count)
        snprintf(reason, sizeof reason, "there are no more addresses for it");
    else
        snprintf(reason, sizeof reason, "%s are free, a part stays so for the driver",
                 mm_host_size(b->free_bytes).text);
    uint64_t mapped_bytes = h->mapped_segments * MM_SEGMENT_BYTES;
    if (error->call && mm_driver_error_is_foreign(error->code)) return;
    if (h->kind == MM_HOST_HEAP_ABSENT)
        mm_host_say("no heap on device %d (%s); a kernel that calls malloc will stop by an assertion",
                    h->device, reason);
    else if (h->mapped_segments == 0)
        mm_host_say("the heap on device %d is empty (%s); every malloc in a kernel answers NULL",
                    h->device, reason);
    else if (mapped_bytes < b->asked_bytes)
        mm_host_say("heap on device %d is %s instead of %s (%s)", h->device,
                    mm_host_size(mapped_bytes).text, mm_host_size(b->asked_bytes).text, reason);
    if (mm_host_env_get()->verbose && h->kind == MM_HOST_HEAP_MAPPED)
        mm_host_say("heap on device %d: %s mapped of %s reserved, %u chunks, made in %.1f ms", h->device,
                    mm_host_size(mapped_bytes).text, mm_host_size(h->user.bytes).text, h->chunk_count, took_ms);
}

void mm_host_heap_create(const struct mm_driver *d, struct mm_host_heap *h, uint64_t floor_bytes) {
    struct mm_driver_error error = {NULL, CUDA_SUCCESS}, later = {NULL, CUDA_SUCCESS};
    struct budget b = {0, 0, 0};
    double start_ms = now_ms();
    memset(h, 0, sizeof *h);
    if (MM_DRIVER_TRY(d, &error, cuCtxGetDevice, &h->device) &&
        !try_create_mapped(d, h, floor_bytes, &b, &error)) {
        mm_host_heap_drop(d, h);
        if (!mm_driver_error_is_foreign(error.code)) try_create_empty(d, h, &later);
    }
    report(d, h, &b, &error, now_ms() - start_ms);
}

bool mm_host_ref_try_read(const struct mm_driver *d, CUdeviceptr variable, struct mm_heap_ref *ref,
                          struct mm_driver_error *error) {
    return mm_copy_try_from_device(d, ref, variable, sizeof *ref, error);
}

bool mm_host_ref_try_write(const struct mm_driver *d, CUdeviceptr variable, const struct mm_heap_ref *ref,
                           struct mm_driver_error *error) {
    return mm_copy_try_to_device(d, variable, 0, ref, sizeof *ref, error);
}

void mm_host_heap_drop(const struct mm_driver *d, struct mm_host_heap *h) {
    CUdevice device = h->device;
    while (h->chunk_count) {
        struct mm_host_chunk *c = &h->chunks[--h->chunk_count];
        mm_vm_unmap(d, h->user.base + c->first_segment * MM_SEGMENT_BYTES,
                    c->segment_count * MM_SEGMENT_BYTES);
        mm_vm_unmap(d, c->bits, c->bits_bytes);
    }
    mm_vm_unmap(d, h->metadata.base, h->fixed_mapped_bytes);
    mm_vm_unreserve(d, &h->metadata);
    mm_vm_unreserve(d, &h->user);
    memset(h, 0, sizeof *h);
    h->device = device;
}
