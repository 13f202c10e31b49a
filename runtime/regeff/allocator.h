/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The register-efficient allocators as allocators of small memory (gallatin/allocator.h says what one provides): Vinkler & Havran, "Register efficient dynamic
 * memory allocator for GPUs", Computer Graphics Forum 2015.
 */
#ifndef MM_REGEFF_ALLOCATOR_H
#define MM_REGEFF_ALLOCATOR_H

/* Faces: the paper's AtomicMalloc, AWMalloc, CMalloc, CFMalloc, CMMalloc, CFMMalloc. */
#define MM_REGEFF_ATOMIC 0
#define MM_REGEFF_AW 1
#define MM_REGEFF_CIRCULAR 2
#define MM_REGEFF_FUSED 3
#define MM_REGEFF_MULTI 4
#define MM_REGEFF_MULTI_FUSED 5
#ifndef MM_REGEFF_FACE
#define MM_REGEFF_FACE MM_REGEFF_MULTI_FUSED
#endif

#if MM_REGEFF_FACE >= MM_REGEFF_CIRCULAR
#include "runtime/regeff/ring.h"
#else
#include "runtime/regeff/bump.h"
#endif
#include "runtime/listed/free.h"
#include "runtime/listed/malloc.h"
#include "runtime/listed/retire.h"

#define MM_SMALL_BYTES_MAX ((uint64_t)MM_LISTED_UNITS_MAX * MM_SMALL_UNIT_BYTES - MM_SMALL_HEADER_BYTES)
#define MM_SMALL_ALIGN_MAX (1u << MM_ALIGN_SHIFT)

MM_FN uint64_t mm_small_draw(const struct mm_heap_ref *ref, uint64_t bytes) {
    const uint64_t got = mm_small_draw_units(ref, mm_listed_units(bytes));
    return got != 0 ? got : MM_TOKEN | bytes;
}
MM_FN void *mm_small_malloc(const struct mm_heap_ref *ref, uint64_t token) { return mm_listed_malloc(ref, token); }
MM_FN uint32_t mm_small_aligned(uint64_t bytes, uint64_t align) { return (void)align, (uint32_t)bytes; }

/* What is left of a free (core/handles.h): MM_DEFERRED_SLICE or MM_DEFERRED_TWICE, and where in the heap the allocation begins, in bytes. */
MM_FN uint64_t mm_small_locate(const struct mm_heap_ref *ref, const void *p, uint64_t bytes) {
    return mm_listed_locate(ref, p, bytes, MM_SMALL_UNIT_BYTES, MM_SMALL_HEADER_BYTES);
}
MM_FN uint64_t mm_small_address(const struct mm_heap_ref *ref, uint64_t left) { return ref->user_base + mm_deferred_offset(left); }
MM_FN uint64_t mm_small_mark(const struct mm_heap_ref *ref, uint64_t left) {
    if (!MM_LIKELY(mm_deferred_kind(left) == MM_DEFERRED_SLICE)) return left;
    switch (mm_small_free_at(ref, mm_deferred_offset(left))) {
    case 0: return 0;
    case MM_MISUSE_DOUBLE_FREE: return MM_DEFERRED_TWICE | mm_deferred_offset(left);
    default: return mm_deferred_odd(MM_MISUSE_INTERIOR, mm_deferred_offset(left));
    }
}
MM_FN void mm_small_twice(const struct mm_heap_ref *ref, uint64_t left) { mm_listed_twice(ref, mm_small_address(ref, left)); }
MM_FN uint64_t mm_small_size(const struct mm_heap_ref *ref, uint64_t left) { return mm_small_size_at(ref, mm_deferred_offset(left)); }
MM_FN uint64_t mm_small_owner_size(const struct mm_heap_ref *ref, uint32_t owner) { return (void)ref, (void)owner, 0; }

#endif
