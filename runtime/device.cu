/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The entry points of device code. They are compiled to PTX under other names; interpose/compile/devicetext.sh gives them the names malloc, free,
 * __cuda_syscall_aligned_malloc and mm_usable_size (CUDA source that defined those would also define host functions of these names).
 */
#include "runtime/checked/cookie.h"

extern "C" {

/* One per device image; the host writes it before the first launch of a kernel of the image. In constant memory: malloc and free read it first, and an
 * acquire invalidates the cache of global memory. */
__constant__ struct mm_heap_ref MM_HEAP_REF;

/* Stops the kernel with cudaErrorLaunchFailure; the host says why (create.c, mmfatbinary). A device assertion would, too, but each program would pay for it with
 * 97 MB of local memory, and CUDA would take cudaLimitPrintfFifoSize no more (growing.md). */
MM_FN_RARE void *mm_no_heap(void) {
    __trap();
    return NULL;
}

/* The rare paths of malloc and free, which are the only paths if the heap is closed (a checked run, MM_FILL, MM_FAIL or MM_TRACE) or absent. They are tail
 * calls: a value that is kept across a call costs every caller a store, whether the call is made or not. */
MM_FN_RARE void *mm_device_malloc_other(uint64_t token) {
    if (MM_HEAP_REF.open_bytes) return mm_heap_malloc_other(&MM_HEAP_REF, token);
    return MM_HEAP_REF.heap ? mm_closed_malloc(&MM_HEAP_REF, token & ~MM_TOKEN_LARGE) : mm_no_heap();
}
MM_FN_RARE void mm_device_free_other(uint64_t left) {
    if (MM_HEAP_REF.heap) mm_cookie_free_other(&MM_HEAP_REF, left);
    else mm_no_heap();
}

/* A leaf function, kept out of line, needs no stack frame; if it calls others, it is one frame less in line. What a frame saves is most of what malloc writes
 * (docs/explanation/hardware.md). Without a heap there are no slices. */
#if MM_ALLOCATOR_LEAF
#define MM_DRAW_FN static __device__ __noinline__
#else
#define MM_DRAW_FN MM_FN
#endif
MM_DRAW_FN uint64_t mm_device_draw(size_t bytes) { return mm_heap_draw_warp(&MM_HEAP_REF, bytes); }

/* See mm_heap_malloc. */
__device__ __noinline__ void *mm_device_malloc(size_t bytes) {
    const uint64_t at = mm_device_draw(bytes);
    return MM_LIKELY(!(at & MM_TOKEN)) ? (void *)at : mm_device_malloc_other(at);
}

/* See mm_heap_free. */
__device__ __noinline__ void mm_device_free(void *p) {
    uint64_t left = mm_heap_release_warp(&MM_HEAP_REF, p);
    if (MM_LIKELY(left == 0)) return;
    left = mm_heap_release_left(&MM_HEAP_REF, left);
    if (left != 0) mm_device_free_other(left);
}

/* See mm_heap_aligned_malloc. */
__device__ void *mm_device_aligned_malloc(size_t bytes, size_t align) {
    if (MM_HEAP_REF.open_bytes) return mm_heap_aligned_malloc(&MM_HEAP_REF, bytes, align);
    return MM_HEAP_REF.heap ? mm_closed_aligned_malloc(&MM_HEAP_REF, bytes, align) : mm_no_heap();
}

/* See mm_heap_usable_size. 0 without a heap. */
__device__ size_t mm_device_usable_size(const void *p) { return MM_HEAP_REF.heap ? mm_cookie_usable_size(&MM_HEAP_REF, p) : 0; }

/* malloc and aligned malloc for machine code that stores in front of the returned memory (cookie.h); libmm renames the functions that such code calls. An
 * alignment larger than a slice's is not used for arrays, and gets no room. */
__device__ void *mm_device_new(size_t bytes) { return mm_cookie_put(mm_device_malloc(mm_cookie_bytes(bytes, MM_COOKIE_SHIFT)), MM_COOKIE_SHIFT); }
__device__ void *mm_device_aligned_new(size_t bytes, size_t align) {
    if (align == 0 || (align & (align - 1)) != 0 || align > MM_SLICE_BYTES_MAX) return mm_device_aligned_malloc(bytes, align);
    const uint32_t shift = mm_cookie_shift(align);
    return mm_cookie_put(mm_device_aligned_malloc(mm_cookie_bytes(bytes, shift), align), shift);
}
}
