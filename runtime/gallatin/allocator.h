/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What heap.h asks of an allocator of small memory, here of the default one: slices of blocks, one size class each. An allocator also provides
 * mm_slices_retire_some, mm_slices_retire_all (core/shortage.h) and mm_segment_retire (maintain.h), and, for statistics and checks, the functions of usage.h
 * and check.h. has.h has what the core reads. Its words begin as zeros or garbage (core/layout.h), and it owns pages under the owners 1 to MM_CLASS_COUNT.
 */
#ifndef MM_GALLATIN_ALLOCATOR_H
#define MM_GALLATIN_ALLOCATOR_H

#include "runtime/gallatin/free.h"
#include "runtime/gallatin/malloc.h"
#include "runtime/gallatin/retire.h"

/* The largest request that it serves, and the largest alignment, in bytes. */
#define MM_SMALL_BYTES_MAX MM_SLICE_BYTES_MAX
#define MM_SMALL_ALIGN_MAX MM_SLICE_BYTES_MAX

/* malloc, first part: an address, or a token for mm_small_malloc. bytes: at most MM_SMALL_BYTES_MAX. For a full warp; for any lanes. */
MM_FN uint64_t mm_small_draw_warp(const struct mm_heap_ref *ref, uint64_t bytes) {
    return mm_slice_draw_warp(ref, mm_class_spaced((uint32_t)bytes, (uint32_t)ref->spacing_mask));
}
MM_FN uint64_t mm_small_draw(const struct mm_heap_ref *ref, uint64_t bytes) {
    return mm_slice_draw(ref, mm_class_spaced((uint32_t)bytes, (uint32_t)ref->spacing_mask));
}
/* malloc, second part. Returns the address, or NULL, which it counts. Inlined: the active mask is read in the middle of the caller. Lanes that are apart there
 * take the steps apart, and the caller brings them together. */
MM_FN void *mm_small_malloc(const struct mm_heap_ref *ref, uint64_t token) {
    const uint32_t here = mm_warp_group(token >> 63);
    token = mm_slice_malloc_soon(ref, here, token);
    void *p = (void *)token;
    if (token & MM_TOKEN) p = mm_slice_malloc(ref, token);
    mm_warp_sync(here);
    return p;
}

/* What to request for `bytes` aligned to `align`, a power of two; no more than the above. Blocks begin at multiples of their size, so a class whose slice
 * size is a multiple of `align` will do; every fourth class is a power of two. */
MM_FN uint32_t mm_small_aligned(uint64_t bytes, uint64_t align) {
    uint32_t c = mm_class_of((uint32_t)(bytes > align ? bytes : align));
    MM_ROLLED
    while (mm_class_bytes(c) & (align - 1)) c++;
    return mm_class_bytes(c);
}

/* free, first part: finds what p is, in a heap of so many bytes. Returns what is left to do (core/handles.h). */
MM_FN uint64_t mm_small_locate(const struct mm_heap_ref *ref, const void *p, uint64_t bytes) { return mm_slice_locate_in(ref, p, bytes); }
/* free, second part: frees what was found, if it is small. Returns what is left: MM_DEFERRED_TWICE is for mm_small_twice. */
MM_FN uint64_t mm_small_mark(const struct mm_heap_ref *ref, uint64_t left) { return mm_slice_mark(ref, left); }
/* The same for a full warp; leaves the slices of others. */
MM_FN uint64_t mm_small_mark_warp(const struct mm_heap_ref *ref, uint64_t left) { return mm_slice_mark_warp(ref, left); }
/* Counts and reports double frees. */
MM_FN void mm_small_twice(const struct mm_heap_ref *ref, uint64_t left) { mm_slice_twice(ref, left); }

/* The address of what mm_small_locate found, MM_DEFERRED_SLICE. */
MM_FN uint64_t mm_small_address(const struct mm_heap_ref *ref, uint64_t left) { return mm_deferred_slice_address(ref, left); }
/* Bytes of what mm_small_locate found, MM_DEFERRED_SLICE; 0 if it is not live. */
MM_FN uint64_t mm_small_size(const struct mm_heap_ref *ref, uint64_t left) {
    return mm_deferred_is_live(ref, left) ? ref->classes[mm_deferred_class(left)].bytes : 0;
}
/* Bytes of what a page of this owner has, for reports of misuse. */
MM_FN uint64_t mm_small_owner_size(const struct mm_heap_ref *ref, uint32_t owner) { return ref->classes[owner - 1].bytes; }

#endif
