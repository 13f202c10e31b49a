/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Random walk as an allocator of small memory (gallatin/allocator.h says what one provides): Pham et al., "Random-walk allocation for parallel threads on
 * GPUs", ACM TOPC 12(1), 2025. Memory is handed out in units of 256 bytes.
 */
#ifndef MM_WALK_ALLOCATOR_H
#define MM_WALK_ALLOCATOR_H

#include "runtime/random_walk/free.h"
#include "runtime/random_walk/malloc.h"
#include "runtime/listed/malloc.h"
#include "runtime/listed/retire.h"

#define MM_SMALL_BYTES_MAX ((uint64_t)MM_WALK_UNITS_MAX << MM_WALK_UNIT_SHIFT)
#define MM_SMALL_ALIGN_MAX MM_WALK_UNIT_BYTES /* units begin at multiples of their size */

MM_FN uint64_t mm_small_draw(const struct mm_heap_ref *ref, uint64_t bytes) {
    if (bytes <= MM_WALK_UNIT_BYTES && MM_WALK_FACE <= MM_WALK_BM) {
        const uint32_t count = mm_list_count(ref);
        const uint64_t unit = count != 0 ? mm_walk_draw(ref, MM_WALK_FACE == MM_WALK_BM, count, mm_random() + mm_warp_lane() * 0x9e3779b1u) : MM_WALK_NONE;
        if (unit != MM_WALK_NONE) return mm_unit_address(ref, (uint32_t)unit);
    }
    return MM_TOKEN | bytes;
}
MM_FN void *mm_small_malloc(const struct mm_heap_ref *ref, uint64_t token) { return mm_listed_malloc(ref, token); }

MM_FN uint32_t mm_small_aligned(uint64_t bytes, uint64_t align) { return (void)align, (uint32_t)bytes; }

MM_FN uint64_t mm_small_locate(const struct mm_heap_ref *ref, const void *p, uint64_t bytes) { return mm_units_locate(ref, p, bytes); }
MM_FN uint64_t mm_small_mark(const struct mm_heap_ref *ref, uint64_t left) { return mm_units_mark(ref, left); }
MM_FN void mm_small_twice(const struct mm_heap_ref *ref, uint64_t left) { mm_listed_twice(ref, mm_unit_address(ref, mm_deferred_unit(left))); }
MM_FN uint64_t mm_small_address(const struct mm_heap_ref *ref, uint64_t left) { return mm_unit_address(ref, mm_deferred_unit(left)); }
MM_FN uint64_t mm_small_size(const struct mm_heap_ref *ref, uint64_t left) { return mm_units_size(ref, mm_deferred_unit(left)); }
MM_FN uint64_t mm_small_owner_size(const struct mm_heap_ref *ref, uint32_t owner) { return (void)ref, (void)owner, 0; }

#endif
