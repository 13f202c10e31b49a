/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* AtomicMalloc and AWMalloc: malloc is an atomic addition, free does nothing (Vinkler & Havran, "Register efficient dynamic memory allocator for GPUs",
 * Computer Graphics Forum 2015). They are bounds for measurements.
 *
 *   MM_REGEFF_ATOMIC   NULL at the heap's end
 *   MM_REGEFF_AW       at the heap's end it begins anew, and hands out memory that is in use. A program gets it with MM_ALLOW_UNSAFE=1 only
 *
 * Representation. A word: {place in the list : 20 | segments - 1 : 6 | bytes used of them : 38}. The segments are consecutive in the list and in the heap: with
 *   one segment at a time 1,000,000 requests of 256 bytes took 50 ms, since all resident threads add in vain at the end of each. Segments never leave the list,
 *   so a place is always the same segment.
 * Linearisation point. The addition, if the segments have room for the request; else the compare-and-swap to the next ones, which its first bytes go along
 *   with.
 * Ordering. The compare-and-swap releases and the addition acquires: a caller that gets a place sees the list's entry there.
 * Loss. A request that does not fit in what is left goes to the next segments, and what is left is lost: less than the request has, for up to 64 segments each.
 *   Another request cannot use it, since the word is the only state.
 */
#ifndef MM_REGEFF_BUMP_H
#define MM_REGEFF_BUMP_H

#include "runtime/core/segment.h"

/* The list's part: one word for each page, always full, so that no segment is retired. */
#define MM_LISTED_WORDS MM_SEGMENT_PAGES
MM_FN uint64_t *mm_listed_word(const struct mm_heap_ref *ref, uint32_t w) { return mm_page_words(ref, w) + 1; }
MM_FN void mm_listed_prepare(const struct mm_heap_ref *ref, uint32_t w, int is_new) { (void)ref, (void)w, (void)is_new; }
MM_FN int mm_listed_fill(const struct mm_heap_ref *ref, uint32_t w, int is_patient) {
    mm_store_published_u64(mm_listed_word(ref, w), MM_LISTED_FULL);
    return is_patient;
}

#include "runtime/listed/list.h"

#define MM_BUMP_PLACE_SHIFT 44
#define MM_BUMP_SEGMENTS_SHIFT 38
MM_FN uint32_t mm_bump_place(uint64_t word) { return (uint32_t)(word >> MM_BUMP_PLACE_SHIFT); }
MM_FN uint32_t mm_bump_segments(uint64_t word) { return (uint32_t)(word >> MM_BUMP_SEGMENTS_SHIFT & 63) + 1; }
MM_FN uint64_t mm_bump_used(uint64_t word) { return word & ((1ull << MM_BUMP_SEGMENTS_SHIFT) - 1); }
MM_STATIC_ASSERT(MM_TREE_BITS_MAX <= 1u << (64 - MM_BUMP_PLACE_SHIFT), "a place in the list has 20 bits");
/* Whether `bytes` more fit. */
MM_FN int mm_bump_has(uint64_t word, uint64_t bytes) { return mm_bump_used(word) + bytes <= (uint64_t)mm_bump_segments(word) << MM_SEGMENT_SHIFT; }
MM_FN uint64_t *mm_bump_word(const struct mm_heap_ref *ref) { return (uint64_t *)ref->made; }
MM_FN uint64_t mm_bump_address(const struct mm_heap_ref *ref, uint64_t word) {
    return ref->user_base + (uint64_t)mm_list_segment(ref, mm_bump_place(word)) * MM_SEGMENT_BYTES + mm_bump_used(word);
}
/* The word for the segments from a place of the list on, of which nothing is used. count: of the list, more than place. */
MM_FN uint64_t mm_bump_make(const struct mm_heap_ref *ref, uint32_t place, uint32_t count) {
    const uint32_t first = mm_list_segment(ref, place);
    uint32_t n = 1;
    MM_ROLLED
    while (n < 64 && place + n < count && mm_list_segment(ref, place + n) == first + n) n++;
    return (uint64_t)place << MM_BUMP_PLACE_SHIFT | (uint64_t)(n - 1) << MM_BUMP_SEGMENTS_SHIFT;
}

#define MM_LISTED_UNITS_MAX MM_RING_UNITS_MAX
/* Units of 16 bytes. */
MM_FN uint32_t mm_listed_units(uint64_t bytes) { return (uint32_t)((bytes + 15) >> MM_ALIGN_SHIFT) + (bytes == 0); }
MM_FN uint32_t mm_listed_bytes(uint32_t n) { return n << MM_ALIGN_SHIFT; }
MM_FN uint32_t mm_listed_patience(uint32_t n, int is_full) { return (void)n, (void)is_full, 1; }

/* Returns the address, or 0 at the end of the list. A lane adds only where it saw room, so what is used stays below 2^38. */
MM_FN uint64_t mm_small_draw_units(const struct mm_heap_ref *ref, uint32_t n) {
    const uint64_t bytes = (uint64_t)n << MM_ALIGN_SHIFT;
    const uint32_t count = mm_list_count(ref);
    uint64_t *at = mm_bump_word(ref), word = mm_load_relaxed_u64(at);
    if (count == 0) return 0;
    MM_ROLLED
    for (uint32_t looks = 0;; word = mm_load_relaxed_u64(at)) {
        int is_first = 0; /* whose addition went beyond the end */
        if (mm_bump_has(word, bytes)) {
            word = mm_add_acquire_u64(at, bytes);
            if (mm_bump_has(word, bytes)) return mm_bump_address(ref, word);
            is_first = mm_bump_has(word, 0);
        }
        const uint32_t place = mm_bump_place(word) + mm_bump_segments(word);
        if (place >= count) return 0;
        if (!is_first && ++looks % MM_BUMP_LOOKS != 0) continue; /* the first one goes on, or, if that takes too long, anybody */
        const uint64_t next = mm_bump_make(ref, place, count);
        for (word = mm_load_relaxed_u64(at); mm_bump_place(word) + mm_bump_segments(word) == place; word = mm_load_relaxed_u64(at))
            if (mm_cas_acq_rel_u64(at, word, next | bytes)) return mm_bump_address(ref, next);
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
    return (void)ref, (void)s, MM_REGEFF_FACE == MM_REGEFF_AW ? (n <= MM_LISTED_UNITS_MAX ? 0 : MM_LISTED_NONE + MM_LISTED_UNITS_MAX) : MM_LISTED_NONE;
}
MM_FN uint64_t mm_listed_claim(const struct mm_heap_ref *ref, uint64_t unit, uint32_t n) {
    uint64_t *at = mm_bump_word(ref);
    (void)unit;
    const uint64_t got = mm_small_draw_units(ref, n); /* another caller may have begun anew */
    if (got != 0) return got;
    const uint64_t begin = mm_bump_make(ref, 0, mm_list_count(ref));
    if (!mm_cas_acq_rel_u64(at, mm_load_relaxed_u64(at), begin | (uint64_t)n << MM_ALIGN_SHIFT)) return 0;
    return mm_bump_address(ref, begin);
}

/* For allocator.h: free does nothing, and nobody knows the size of an allocation. */
#define MM_SMALL_UNIT_BYTES (1u << MM_ALIGN_SHIFT)
#define MM_SMALL_HEADER_BYTES 0u
MM_FN int mm_small_free_at(const struct mm_heap_ref *ref, uint64_t off) { return (void)ref, (void)off, 0; }
MM_FN uint64_t mm_small_size_at(const struct mm_heap_ref *ref, uint64_t off) { return (void)ref, (void)off, 0; }

#endif
