/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* AtomicMalloc and AWMalloc: malloc is an atomic addition, free does nothing (Vinkler & Havran, "Register efficient dynamic memory allocator for GPUs", Computer Graphics
 * Forum 2015). They are bounds for measurements.
 *
 *   MM_REGEFF_ATOMIC   NULL at the heap's end
 *   MM_REGEFF_AW       at the heap's end it begins anew, and hands out memory that is in use. A program gets it with MM_ALLOW_UNSAFE=1 only
 *
 * Representation. A word: {place in the list : 24 | bytes used of the segment : 40}. Segments never leave the list, so a place is always the same segment.
 * Linearisation point. The addition, if the segment has room for the request; else the compare-and-swap to the next segment, which its first bytes go along with.
 */
#ifndef MM_REGEFF_BUMP_H
#define MM_REGEFF_BUMP_H

#include "runtime/core/segment.h"

/* The list's part: one word for each page, always full, so that no segment is retired. */
#define MM_LISTED_WORDS MM_SEGMENT_PAGES
MM_FN uint64_t *mm_listed_word(const struct mm_heap_ref *ref, uint32_t w) { return mm_page_words(ref, w) + 1; }
MM_FN void mm_listed_prepare(const struct mm_heap_ref *ref, uint32_t w) { (void)ref, (void)w; }
MM_FN void mm_listed_fill(const struct mm_heap_ref *ref, uint32_t w) { mm_store_published_u64(mm_listed_word(ref, w), 0x00000000ffffffffull); }

#include "runtime/listed/list.h"

#define MM_BUMP_PLACE_SHIFT 40
MM_FN uint32_t mm_bump_place(uint64_t word) { return (uint32_t)(word >> MM_BUMP_PLACE_SHIFT); }
MM_FN uint64_t mm_bump_used(uint64_t word) { return word & ((1ull << MM_BUMP_PLACE_SHIFT) - 1); }
MM_STATIC_ASSERT(MM_TREE_BITS_MAX <= 1u << (64 - MM_BUMP_PLACE_SHIFT), "a place in the list has 24 bits");
MM_FN uint64_t *mm_bump_word(const struct mm_heap_ref *ref) { return (uint64_t *)ref->made + MM_MADE; }
MM_FN uint64_t mm_bump_address(const struct mm_heap_ref *ref, uint64_t word) {
    return ref->user_base + (uint64_t)mm_list_segment(ref, mm_bump_place(word)) * MM_SEGMENT_BYTES + mm_bump_used(word);
}

#define MM_LISTED_UNITS_MAX MM_RING_UNITS_MAX
/* Units of 16 bytes. */
MM_FN uint32_t mm_listed_units(uint64_t bytes) { return (uint32_t)((bytes + 15) >> MM_ALIGN_SHIFT) + (bytes == 0); }
MM_FN uint32_t mm_listed_patience(uint32_t n) { return (void)n, 1; }

/* Returns the address, or 0 at the end of the list. A lane adds only where it saw room, so what is used stays below 2^40. */
MM_FN uint64_t mm_small_draw_units(const struct mm_heap_ref *ref, uint32_t n) {
    const uint64_t bytes = (uint64_t)n << MM_ALIGN_SHIFT;
    uint64_t *at = mm_bump_word(ref), word = mm_load_relaxed_u64(at);
    if (mm_list_count(ref) == 0) return 0;
    MM_ROLLED
    for (;;) {
        if (mm_bump_used(word) + bytes <= MM_SEGMENT_BYTES) {
            word = mm_add_relaxed_u64(at, bytes);
            if (mm_bump_used(word) + bytes <= MM_SEGMENT_BYTES) return mm_bump_address(ref, word);
        }
        const uint32_t place = mm_bump_place(word) + 1;
        if (place >= mm_list_count(ref)) return 0;
        const uint64_t next = (uint64_t)place << MM_BUMP_PLACE_SHIFT;
        word = mm_load_relaxed_u64(at);
        if (mm_bump_place(word) + 1 == place && mm_cas_acquire_u64(at, word, next | bytes)) return mm_bump_address(ref, next);
        word = mm_load_relaxed_u64(at);
    }
}
MM_FN uint64_t mm_listed_draw(const struct mm_heap_ref *ref, uint32_t here, int is_drawing, uint32_t n, uint32_t count, uint32_t random) {
    const uint64_t got = is_drawing ? mm_small_draw_units(ref, n) : 0;
    (void)count, (void)random;
    mm_warp_sync(here);
    return got;
}

/* A sweep of AW finds memory anywhere, and claims it by beginning anew. */
MM_FN uint64_t mm_listed_find(const struct mm_heap_ref *ref, uint32_t s, uint32_t n) {
    return (void)ref, (void)s, (void)n, MM_REGEFF_FACE == MM_REGEFF_AW ? 0 : MM_LISTED_NONE;
}
MM_FN uint64_t mm_listed_claim(const struct mm_heap_ref *ref, uint64_t unit, uint32_t n) {
    uint64_t *at = mm_bump_word(ref);
    (void)unit;
    if (!mm_cas_acquire_u64(at, mm_load_relaxed_u64(at), (uint64_t)n << MM_ALIGN_SHIFT)) return 0;
    return mm_bump_address(ref, 0);
}

/* For allocator.h: free does nothing, and nobody knows the size of an allocation. */
#define MM_SMALL_UNIT_BYTES (1u << MM_ALIGN_SHIFT)
#define MM_SMALL_HEADER_BYTES 0u
MM_FN int mm_small_free_at(const struct mm_heap_ref *ref, uint64_t off) { return (void)ref, (void)off, 0; }
MM_FN uint64_t mm_small_size_at(const struct mm_heap_ref *ref, uint64_t off) { return (void)ref, (void)off, 0; }

#endif
