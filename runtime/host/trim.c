/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* nanosleep */
#include "runtime/host/trim.h"

#include <stdlib.h>

#include "runtime/host/clock.h"
#include "runtime/host/copy.h"
#include "runtime/host/env.h"
#include "runtime/host/say.h"
#include "runtime/host/state.h"

__asm__(".pushsection .rodata\n"
        ".balign 8\n"
        ".globl mm_kernels_fatbin\n"
        ".hidden mm_kernels_fatbin\n"
        "mm_kernels_fatbin: .incbin \"" MM_KERNELS_FATBIN "\"\n"
        ".popsection\n");

#define WARP 32u /* threads of a CTA: one warp, since the smallest CTA finds room on a multiprocessor soonest */

static bool try_load(const struct mm_driver *d, struct mm_host_heap *h, struct mm_driver_error *error) {
    CUmodule module = NULL;
    CUdeviceptr variable = 0;
    size_t bytes = 0;
    int least = 0, greatest = 0;
    CUfunction retire = NULL, claim = NULL;
    bool done = MM_DRIVER_TRY(d, error, cuModuleLoadData, &module, mm_kernels_fatbin) &&
                MM_DRIVER_TRY(d, error, cuModuleGetFunction, &retire, module, "mm_kernel_retire") &&
                MM_DRIVER_TRY(d, error, cuModuleGetFunction, &claim, module, "mm_kernel_claim") &&
                MM_DRIVER_TRY(d, error, cuModuleGetGlobal, &variable, &bytes, module, MM_HEAP_REF_NAME) &&
                mm_copy_try_to_device(d, variable, &h->ref, sizeof h->ref, error) && MM_DRIVER_TRY(d, error, cuCtxGetStreamPriorityRange, &least, &greatest) &&
                MM_DRIVER_TRY(d, error, cuStreamCreateWithPriority, &h->trim.stream, CU_STREAM_NON_BLOCKING, greatest);
    if (done) h->trim.retire = retire, h->trim.claim = claim;
    return done;
}

void mm_trim_load(const struct mm_driver *d, struct mm_host_heap *h) {
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    if (h->sibling) h->trim.is_refused = true; /* the kernels retire the default's blocks */
    if (h->trim.retire || h->trim.is_refused || !h->shared || try_load(d, h, &error)) return;
    if (error.code == CUDA_ERROR_OUT_OF_MEMORY) return; /* there may be memory the next time */
    h->trim.is_refused = true;
    if (!mm_driver_error_is_foreign(error.code))
        mm_host_say("the heap on device %d cannot give memory back (%s: %s)", h->device, error.call, mm_driver_error_name(d, error.code).text);
}

/* Waits for our stream, at most until the time end_us. Returns whether its work is complete. */
static bool try_wait(const struct mm_driver *d, const struct mm_host_heap *h, uint64_t end_us) {
    const struct timespec moment = {0, 20000};
    for (;;) {
        const CUresult r = d->cuStreamQuery(h->trim.stream);
        if (r == CUDA_SUCCESS) return true;
        if (r != CUDA_ERROR_NOT_READY || mm_host_now_us() >= end_us) return false;
        nanosleep(&moment, NULL);
    }
}

static CUdeviceptr device_address(const struct mm_host_heap *h, const void *at) {
    return h->ref.mailbox + (uint64_t)((const char *)at - (const char *)h->shared);
}

/* Unmaps spare chunks, the last ones first, until `bytes` bytes are unmapped. At least `keep` segments stay mapped. */
static uint64_t unmap_spare(const struct mm_driver *d, struct mm_host_heap *h, uint64_t bytes, uint64_t keep) {
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    uint64_t got = 0;
    for (unsigned i = h->chunks.count; i-- > 0 && got < bytes;)
        if (h->chunks.chunk[i].is_spare && h->chunks.mapped_count - h->chunks.chunk[i].count >= keep) got += mm_chunks_unmap(d, &h->chunks, i, &error);
    h->given_back_bytes += got;
    return got;
}

/* Marks the chunks that the device has claimed since the last request as spare. */
static void collect(struct mm_host_heap *h) {
    for (unsigned i = 0; i < h->trim.pending; i++) {
        const struct mm_wanted_chunk *w = &h->shared->wanted[i];
        if (w->is_claimed) mm_chunks_set_spare(&h->chunks, (struct mm_host_segments){w->first, w->count}, true);
    }
    h->trim.pending = 0;
}

/* Whether segments [first, end) were all free when the leaves were copied. */
static bool is_free(const struct mm_host_heap *h, uint64_t first, uint64_t end) {
    for (; first < end; first++)
        if (!(h->shared->leaves[first / 64] >> (first % 64) & 1)) return false;
    return true;
}

/* Chooses chunks that look free, the last ones first, until they have `bytes` bytes. At least `keep` segments stay. Returns the number of chunks. */
static unsigned choose(const struct mm_host_heap *h, uint64_t bytes, uint64_t keep) {
    unsigned n = 0;
    uint64_t left = h->chunks.mapped_count;
    for (unsigned i = h->chunks.count; i-- > 0 && (h->chunks.mapped_count - left) * MM_SEGMENT_BYTES < bytes;) {
        const struct mm_host_chunk *c = &h->chunks.chunk[i];
        if (c->is_spare || left - c->count < keep || !is_free(h, c->first, c->first + c->count)) continue;
        h->shared->wanted[n++] = (struct mm_wanted_chunk){(uint32_t)c->first, (uint32_t)c->count, 0, 0};
        left -= c->count;
    }
    return n;
}

/* Makes the device claim free chunks of about `bytes` bytes. */
static void claim_free(const struct mm_driver *d, struct mm_host_heap *h, uint64_t bytes, uint64_t keep) {
    const uint64_t end_us = mm_host_now_us() + MM_HOST_TRIM_MS * 1000;
    unsigned n = 0;
    CUdeviceptr wanted = device_address(h, h->shared->wanted);
    const unsigned segments = (unsigned)mm_chunks_end(&h->chunks);
    unsigned parts = segments < MM_HOST_TRIM_WARPS ? segments + 1 : MM_HOST_TRIM_WARPS; /* at least 1 */
    void *of_retire[] = {&parts}, *of_claim[] = {&wanted, &n};
    if (!h->trim.retire || !try_wait(d, h, end_us)) return;
    collect(h); /* late claims of an earlier call */
    if (d->cuLaunchKernel(h->trim.retire, parts, 1, 1, WARP, 1, 1, 0, h->trim.stream, of_retire, NULL) != CUDA_SUCCESS ||
        d->cuMemcpyDtoHAsync(h->shared->leaves, h->ref.free_tree + 8 * (h->ref.tree_roots + h->ref.tree_mids), 8 * h->layout.tree_leaves, h->trim.stream) !=
            CUDA_SUCCESS ||
        !try_wait(d, h, end_us))
        return;
    n = choose(h, bytes, keep);
    if (n == 0 || d->cuLaunchKernel(h->trim.claim, (n + WARP - 1) / WARP, 1, 1, WARP, 1, 1, 0, h->trim.stream, of_claim, NULL) != CUDA_SUCCESS) return;
    h->trim.pending = n;
    if (try_wait(d, h, end_us)) collect(h);
}

uint64_t mm_trim(const struct mm_driver *d, struct mm_host_heap *h, uint64_t bytes, uint64_t keep) {
    uint64_t got = unmap_spare(d, h, bytes, keep);
    if (got < bytes && !__atomic_load_n(&h->grower.is_closed, __ATOMIC_RELAXED)) {
        mm_trim_load(d, h);
        claim_free(d, h, bytes - got, keep);
        got += unmap_spare(d, h, bytes - got, keep);
    }
    return got;
}

/* Hashes the header, the trees and the segments (FNV-1a over words): every malloc changes a cursor, the free tree, or the free pages of a segment.
 * Returns whether it succeeded. */
static bool try_hash(const struct mm_driver *d, const struct mm_host_heap *h, uint64_t *hash) {
    const uint64_t segments = mm_chunks_end(&h->chunks), segments_bytes = segments * sizeof(struct mm_segment); /* before the header */
    const uint64_t bytes = segments_bytes + (h->layout.directory - h->layout.heap);
    if (d->cuStreamQuery(h->trim.stream) != CUDA_SUCCESS)
        return false; /* a kernel of ours still waits for a multiprocessor; a copy alone waits for no kernel */
    uint64_t *copy = (uint64_t *)malloc(bytes);
    const bool done = copy && d->cuMemcpyDtoHAsync(copy, h->ref.heap - segments_bytes, bytes, h->trim.stream) == CUDA_SUCCESS &&
                      d->cuStreamSynchronize(h->trim.stream) == CUDA_SUCCESS;
    *hash = 14695981039346656037ull;
    const struct mm_segment *segment = (const struct mm_segment *)(const void *)copy;
    for (uint64_t s = 0; done && s < segments; s++) *hash = ((*hash ^ segment[s].pages) * 1099511628211ull ^ segment[s].run) * 1099511628211ull;
    for (uint64_t i = segments_bytes / sizeof *copy; done && i < bytes / sizeof *copy; i++) *hash = (*hash ^ copy[i]) * 1099511628211ull;
    free(copy);
    return done;
}

enum mm_trim_unused mm_trim_unused(const struct mm_driver *d, struct mm_host_heap *h) {
    uint64_t hash;
    if (mm_host_env_get()->trim_after_ms == MM_HOST_TRIM_IDLE_MS) {
        mm_trim(d, h, UINT64_MAX, 0);
        return MM_TRIM_UNUSED_DONE;
    }
    if (h->trim.is_refused || h->chunks.mapped_count <= h->promised_segments) return MM_TRIM_UNUSED_DONE;
    if (!h->trim.retire || !try_hash(d, h, &hash)) return MM_TRIM_UNUSED_AGAIN;
    const bool is_second = h->trim.has_looked, is_same = hash == h->trim.look_hash;
    h->trim.has_looked = !is_second, h->trim.look_hash = hash;
    if (!is_second) return MM_TRIM_UNUSED_AGAIN;
    if (!is_same) return MM_TRIM_UNUSED_IN_USE;
    mm_trim(d, h, UINT64_MAX, h->promised_segments);
    return MM_TRIM_UNUSED_DONE;
}
