/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What heap.h asks of an allocator of small memory, here of the default one: slices of blocks, one size class each. An allocator also provides
 * mm_slices_retire_some, mm_slices_retire_all (core/shortage.h) and mm_segment_retire (maintain.h), and, for statistics and checks, the functions of usage.h
 * and check.h. has.h has what the core reads. Its words begin as zeros or garbage (core/layout.h), and it owns pages under the owners 1 to MM_SHAPES.
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
    return mm_cursor_draw_first(ref, MM_WARP_ALL, 1, mm_class_spaced((uint32_t)bytes, (uint32_t)ref->spacing_mask));
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

/* free.h: mm_small_locate, free's first part; mm_small_mark, its second one, and mm_small_mark_warp for a full warp; mm_small_twice, for MM_DEFERRED_TWICE;
 * mm_small_address and mm_small_size, of MM_DEFERRED_SLICE. */
/* Bytes of what a page of this owner has, for reports of misuse. */
MM_FN uint64_t mm_small_owner_size(const struct mm_heap_ref *ref, uint32_t owner) { return ref->classes[owner - 1].bytes; }

#endif
