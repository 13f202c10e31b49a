/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Hooks of the pool (runtime/host/pool): frees, questions about memory, captures. cuMemAlloc's is in hook_memory.c. */
#include "interpose/preload/hooks.h"
#include "runtime/host/pool/pool.h"
#include "runtime/host/say.h"

/* An address that is never the beginning of memory: the driver answers to it what it would to memory that was freed. */
#define NOWHERE ((CUdeviceptr)1)

/* ---- frees ------------------------------------------------------------------------------------ */

HOOK(cuMemFree_v2)(CUdeviceptr address) {
    CUresult r;
    if (mm_pool_is_on() && address != 0 && mm_pool_free(mm_driver_get(), address, &r)) return r;
    return REAL(cuMemFree_v2, address);
}

/* Memory from cuMemAlloc, freed in the order of a stream: as cuMemFree after the stream's work. During a capture it would be a node of the graph, which takes
 * memory of graphs only. */
#define FREE_ASYNC_HOOK(suffix, the_stream)                                                                                                    \
    HOOK(cuMemFreeAsync##suffix)(CUdeviceptr address, CUstream stream) {                                                                       \
        CUdeviceptr base;                                                                                                                      \
        size_t bytes;                                                                                                                          \
        CUresult r;                                                                                                                            \
        if (!mm_pool_is_on() || mm_pool_find(address, &base, &bytes) == MM_POOL_NOWHERE) return REAL(cuMemFreeAsync##suffix, address, stream); \
        if (mm_pool_captures(the_stream)) return CUDA_ERROR_INVALID_VALUE;                                                                     \
        r = mm_driver_get()->cuStreamSynchronize(the_stream);                                                                                  \
        if (r == CUDA_SUCCESS) mm_pool_free(mm_driver_get(), address, &r);                                                                     \
        return r;                                                                                                                              \
    }
FREE_ASYNC_HOOK(, stream)
FREE_ASYNC_HOOK(_ptsz, (stream ? stream : CU_STREAM_PER_THREAD))

/* ---- questions -------------------------------------------------------------------------------- */

HOOK(cuMemGetInfo_v2)(size_t *free_bytes, size_t *total_bytes) {
    const CUresult r = REAL(cuMemGetInfo_v2, free_bytes, total_bytes);
    if (r == CUDA_SUCCESS && free_bytes && mm_pool_is_on()) *free_bytes += mm_pool_idle_bytes(mm_driver_get());
    return r;
}

/* An address that a question is about: the allocation of a pool that contains it, if has_allocation, and what to ask the driver. */
struct question {
    bool has_allocation;
    CUdeviceptr base, asked;
    size_t bytes;
};
static struct question question_of(CUdeviceptr address) {
    struct question q = {false, 0, address, 0};
    const enum mm_pool_place place = mm_pool_is_on() ? mm_pool_find(address, &q.base, &q.bytes) : MM_POOL_NOWHERE;
    q.has_allocation = place == MM_POOL_WHOLE || place == MM_POOL_CARVED;
    if (place == MM_POOL_DEAD) q.asked = NOWHERE;
    return q;
}

HOOK(cuMemGetAddressRange_v2)(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    const struct question q = question_of(address);
    const CUresult r = REAL(cuMemGetAddressRange_v2, base, bytes, q.asked);
    if (r != CUDA_SUCCESS || !q.has_allocation) return r;
    if (base) *base = q.base;
    if (bytes) *bytes = q.bytes;
    return r;
}

/* What the driver says of a range of a pool is what the program should see of its allocation. */
static void see_allocation(const struct question *q, CUpointer_attribute attribute, void *data) {
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) *(CUdeviceptr *)data = q->base;
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) *(size_t *)data = q->bytes;
}

HOOK(cuPointerGetAttribute)(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
    const struct question q = question_of(address);
    const CUresult r = REAL(cuPointerGetAttribute, data, attribute, q.asked);
    if (r == CUDA_SUCCESS && q.has_allocation) see_allocation(&q, attribute, data);
    return r;
}

HOOK(cuPointerGetAttributes)(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address) {
    const struct question q = question_of(address);
    const CUresult r = REAL(cuPointerGetAttributes, count, attributes, data, q.asked);
    for (unsigned i = 0; r == CUDA_SUCCESS && q.has_allocation && i < count; i++) see_allocation(&q, attributes[i], data[i]);
    return r;
}

/* An attribute stays with the memory: another allocation must not get it. */
HOOK(cuPointerSetAttribute)(const void *value, CUpointer_attribute attribute, CUdeviceptr address) {
    const enum mm_pool_place place = mm_pool_is_on() ? mm_pool_keep_out(address) : MM_POOL_NOWHERE;
    return REAL(cuPointerSetAttribute, value, attribute, place == MM_POOL_DEAD ? NOWHERE : address);
}

HOOK(cuIpcGetMemHandle)(CUipcMemHandle *handle, CUdeviceptr address) {
    static bool was_said;
    const enum mm_pool_place place = mm_pool_is_on() ? mm_pool_keep_out(address) : MM_POOL_NOWHERE;
    if (place == MM_POOL_DEAD) return REAL(cuIpcGetMemHandle, handle, NOWHERE);
    if (place != MM_POOL_CARVED) return REAL(cuIpcGetMemHandle, handle, address);
    if (!__atomic_exchange_n(&was_said, true, __ATOMIC_RELAXED))
        mm_host_say(
            "cudaIpcGetMemHandle: the memory at 0x%llx is a part of a slab of the pool and cannot be shared; MM_POOL=off (or a smaller MM_POOL_CARVE, for 2 MiB "
            "and more) allows that",
            (unsigned long long)address);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- captures --------------------------------------------------------------------------------- */

/* The stream counts as capturing from before the call, so that the pool does nothing in between that would break the capture. */
#define CAPTURED(stream, call)                                           \
    ({                                                                   \
        const bool is_on_ = mm_pool_is_on();                             \
        if (is_on_) mm_pool_capture_begins(stream);                      \
        const CUresult r_ = (call);                                      \
        if (is_on_ && r_ != CUDA_SUCCESS) mm_pool_capture_ended(stream); \
        r_;                                                              \
    })

/* A capture may end with an error; whether it did, only the driver knows. */
static CUresult capture_ends(CUstream stream, CUresult r) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const struct mm_driver *d = mm_driver_get();
    if (r != CUDA_SUCCESS && d && d->cuStreamIsCapturing) d->cuStreamIsCapturing(stream, &status);
    if (status == CU_STREAM_CAPTURE_STATUS_NONE) mm_pool_capture_ended(stream);
    return r;
}

#define CAPTURE_HOOKS(suffix, the_stream)                                                                                              \
    HOOK(cuStreamBeginCapture##suffix)(CUstream stream) { return CAPTURED(the_stream, REAL(cuStreamBeginCapture##suffix, stream)); }   \
    HOOK(cuStreamBeginCapture_v2##suffix)(CUstream stream, CUstreamCaptureMode mode) {                                                 \
        return CAPTURED(the_stream, REAL(cuStreamBeginCapture_v2##suffix, stream, mode));                                              \
    }                                                                                                                                  \
    HOOK(cuStreamBeginCaptureToGraph##suffix)                                                                                          \
    (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode) { \
        return CAPTURED(the_stream, REAL(cuStreamBeginCaptureToGraph##suffix, stream, graph, nodes, edges, count, mode));              \
    }                                                                                                                                  \
    HOOK(cuStreamEndCapture##suffix)(CUstream stream, CUgraph * graph) {                                                               \
        const CUresult r = REAL(cuStreamEndCapture##suffix, stream, graph);                                                            \
        return mm_pool_captures(the_stream) ? capture_ends(the_stream, r) : r;                                                         \
    }
CAPTURE_HOOKS(, stream)
CAPTURE_HOOKS(_ptsz, (stream ? stream : CU_STREAM_PER_THREAD))

/* Destroying a stream ends its capture. */
HOOK(cuStreamDestroy_v2)(CUstream stream) {
    const bool captures = mm_pool_captures(stream);
    const CUresult r = REAL(cuStreamDestroy_v2, stream);
    if (captures && r == CUDA_SUCCESS) mm_pool_capture_ended(stream);
    return r;
}
