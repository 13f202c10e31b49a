/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Units: 256 bytes each, which the paper calls pages (Pham et al., ACM TOPC 12(1), 2025). A segment that is used for small memory has MM_WALK_UNITS of them.
 *
 * Representation. One word for 32 units: {continues : 32 | taken : 32}. continues: the next unit is of the same allocation. So free knows the length, and tells
 *   an interior pointer: the unit before it continues. The words of a page follow the word of its span (core/span.h), which another owner of the page uses.
 * Invariants.
 *   I1  a unit that continues is taken, and so is the next unit, of the same segment.
 *   I2  outside of segments in the list (listed/list.h) all units are taken, or the segment was never in it. So a thread that draws from an old list takes
 *       nothing.
 * Linearisation points. Claim of one unit: the atomic or of its bit. Claim of several: the compare-and-swap of the first word, which is done last; a
 *   claim that fails gives back what it has, which nobody else knew. Free of one unit: the atomic and of its bit. Free of several: the compare-and-swap of the
 *   first word; from then on the rest is the caller's alone.
 * Ordering. A free releases, a claim acquires.
 * Progress. Lock-free: a compare-and-swap fails only if another thread changed the word.
 * Stale. A claim of several words that fails in the end holds units for a moment, and nothing tells them from live ones. A sweep that meets them passes over
 *   them. So malloc may return NULL if that is all there is and each sweep of the caller falls into such a moment.
 * Misuse. Of two concurrent frees of the same memory one succeeds, and the other changes nothing. But if an allocation lies in several words, a free of the
 *   first unit of a later word that races with the valid free is taken for a valid one, and both give these units back. So is a double free that races with the
 *   retiring of its segment.
 */
#ifndef MM_WALK_UNITS_H
#define MM_WALK_UNITS_H

#include "runtime/core/segment.h"

#define MM_WALK_UNIT_BYTES (1u << MM_WALK_UNIT_SHIFT)
#define MM_WALK_UNITS (1u << (MM_SEGMENT_SHIFT - MM_WALK_UNIT_SHIFT)) /* of a segment */
#define MM_WALK_WORDS (MM_WALK_UNITS / 32)                            /* of a segment */
#define MM_WALK_PAGE_WORDS (MM_WALK_WORDS / MM_SEGMENT_PAGES)         /* of a page */
MM_STATIC_ASSERT(MM_WALK_PAGE_WORDS >= 1 && MM_WALK_PAGE_WORDS < MM_BLOCK_WORDS_MAX, "a page's words have room for its units");

MM_FN uint64_t mm_units_make(uint32_t taken, uint32_t continues) { return (uint64_t)continues << 32 | taken; }
MM_FN uint32_t mm_units_taken(uint64_t word) { return (uint32_t)word; }
MM_FN uint32_t mm_units_continue(uint64_t word) { return (uint32_t)(word >> 32); }

/* Word number w of the heap: of units 32 w to 32 w + 31. */
MM_FN uint64_t *mm_units_word(const struct mm_heap_ref *ref, uint32_t w) { return mm_page_words(ref, w / MM_WALK_PAGE_WORDS) + 1 + w % MM_WALK_PAGE_WORDS; }
MM_FN uint64_t mm_unit_address(const struct mm_heap_ref *ref, uint32_t unit) { return ref->user_base + ((uint64_t)unit << MM_WALK_UNIT_SHIFT); }
/* Those of units [first, first + n) that word w has. */
MM_FN uint32_t mm_units_in(uint32_t w, uint32_t first, uint32_t n) {
    const uint32_t from = first > w * 32 ? first - w * 32 : 0, end = mm_at_most(first + n - w * 32, 32);
    return (uint32_t)(mm_bits_low(end) & ~mm_bits_low(from));
}

/* Gives back the units of [first, first + n) in words [w, end). Releases. */
MM_FN void mm_units_drop(const struct mm_heap_ref *ref, uint32_t first, uint32_t n, uint32_t w, uint32_t end) {
    MM_ROLLED
    for (; w < end; w++) {
        const uint32_t mask = mm_units_in(w, first, n);
        mm_and_release_u64(mm_units_word(ref, w), ~mm_units_make(mask, mask));
    }
}

/* Claims one unit. Returns whether it was free. Acquires. */
MM_FN int mm_unit_claim(const struct mm_heap_ref *ref, uint32_t unit) {
    const uint64_t bit = mm_units_make(1u << unit % 32, 0);
    return (mm_or_acquire_u64(mm_units_word(ref, unit / 32), bit) & bit) == 0;
}

/* Claims units [first, first + n) of one segment, last word first: no word continues in another one that the caller does not have. Returns whether all were
 * free.
 * Acquires. */
MM_FN_RARE int mm_units_claim(const struct mm_heap_ref *ref, uint32_t first, uint32_t n) {
    const uint32_t begin = first / 32, end = (first + n - 1) / 32 + 1;
    MM_ROLLED
    for (uint32_t w = end; w > begin;) {
        const uint32_t mask = mm_units_in(w - 1, first, n), continues = mm_units_in(w - 1, first, n - 1);
        const uint64_t seen = mm_load_relaxed_u64(mm_units_word(ref, w - 1));
        if (mm_units_taken(seen) & mask) {
            mm_units_drop(ref, first, n, w, end);
            return 0;
        }
        w -= (uint32_t)mm_cas_acquire_u64(mm_units_word(ref, w - 1), seen, seen | mm_units_make(mask, continues));
    }
    return 1;
}

/* The length of the allocation that begins at a unit, as far as `seen`, the unit's word, and the following words say. */
MM_FN uint32_t mm_units_length(const struct mm_heap_ref *ref, uint32_t first, uint64_t seen) {
    uint32_t w = first / 32, from = first % 32, n = 1;
    MM_ROLLED
    for (;;) {
        const uint32_t rest = ~(mm_units_continue(seen) >> from), more = rest == 0 ? 32 : mm_at_most(mm_ctz(rest), 32 - from);
        n += more;
        if (from + more < 32 || n > MM_WALK_UNITS || ++w % MM_WALK_WORDS == 0) return n;
        from = 0, seen = mm_load_relaxed_u64(mm_units_word(ref, w));
    }
}

enum mm_unit_is { MM_UNIT_FREE, MM_UNIT_FIRST, MM_UNIT_INTERIOR };

/* What a unit is. *seen: its word. */
MM_FN enum mm_unit_is mm_unit_look(const struct mm_heap_ref *ref, uint32_t unit, uint64_t *seen) {
    const uint32_t bit = unit % 32;
    *seen = mm_load_relaxed_u64(mm_units_word(ref, unit / 32));
    if (!(mm_units_taken(*seen) >> bit & 1)) return MM_UNIT_FREE;
    const uint64_t before = bit != 0 ? *seen << 1 : unit % MM_WALK_UNITS != 0 ? mm_load_relaxed_u64(mm_units_word(ref, unit / 32 - 1)) >> 31 : 0;
    return mm_units_continue(before) >> bit & 1 ? MM_UNIT_INTERIOR : MM_UNIT_FIRST;
}

/* Frees the allocation that begins at a unit. Returns what the unit was: MM_UNIT_FIRST if it was freed. Releases. */
MM_FN_RARE enum mm_unit_is mm_units_free(const struct mm_heap_ref *ref, uint32_t first) {
    uint64_t *word = mm_units_word(ref, first / 32), seen;
    const uint64_t bit = mm_units_make(1u << first % 32, 0);
    MM_ROLLED
    for (;;) {
        const enum mm_unit_is is = mm_unit_look(ref, first, &seen);
        if (is != MM_UNIT_FIRST) return is;
        if (!(mm_units_continue(seen) & (uint32_t)bit)) return mm_and_release_u64(word, ~bit) & bit ? MM_UNIT_FIRST : MM_UNIT_FREE;
        const uint32_t n = mm_units_length(ref, first, seen), mask = mm_units_in(first / 32, first, n);
        if (!mm_cas_acq_rel_u64(word, seen, seen & ~mm_units_make(mask, mask))) continue;
        mm_units_drop(ref, first, n, first / 32 + 1, (first + n - 1) / 32 + 1);
        return MM_UNIT_FIRST;
    }
}

/* No unit. Not a number of 32 bits: a heap of 1 TiB has as many units. */
#define MM_WALK_NONE (1ull << 63)
/* Searches for n consecutive free units in `most` words of a segment, from word w of the heap on; after the segment's end, at its beginning. Returns the first
 * unit; or MM_WALK_NONE, plus the most consecutive free units. A hint. */
MM_FN_RARE uint64_t mm_units_find(const struct mm_heap_ref *ref, uint32_t w, uint32_t n, uint32_t most) {
    const uint32_t begin = w - w % MM_WALK_WORDS;
    uint32_t first = 0, have = 0, longest = 0; /* free units up to here, and where they begin; the most so far */
    uint64_t taken[MM_LISTED_AT_ONCE / 2];     /* of the words from w on, read at once */
    MM_ROLLED
    for (uint32_t seen = 0; seen < most; seen++) {
        if (seen % MM_LISTED_AT_ONCE == 0)
            for (uint32_t i = 0; i < MM_LISTED_AT_ONCE; i += 2)
                taken[i / 2] = mm_units_taken(mm_load_relaxed_u64(mm_units_word(ref, begin + (w + i) % MM_WALK_WORDS))) |
                               (uint64_t)mm_units_taken(mm_load_relaxed_u64(mm_units_word(ref, begin + (w + i + 1) % MM_WALK_WORDS))) << 32;
        uint32_t free = ~(uint32_t)taken[0];
        for (uint32_t i = 0; i < MM_LISTED_AT_ONCE / 2; i++) taken[i] = taken[i] >> 32 | (i + 1 < MM_LISTED_AT_ONCE / 2 ? taken[i + 1] << 32 : 0);
        if (!(free & 1) || w == begin) have = 0;
        MM_ROLLED
        for (uint32_t bit, in; free != 0; free &= ~(uint32_t)(mm_bits_low(in) << bit)) {
            bit = mm_ctz(free), in = mm_ctz(~((uint64_t)free >> bit));
            if (bit != 0 || have == 0) first = w * 32 + bit, have = 0;
            have += in;
            if (have >= n) return first;
            if (have > longest) longest = have;
            if (bit + in < 32) have = 0;
        }
        if (++w == begin + MM_WALK_WORDS) w = begin;
    }
    return MM_WALK_NONE + longest;
}

/* The list's part (listed/list.h): a word is full if all of its units are taken, by nobody. */
#define MM_LISTED_WORDS MM_WALK_WORDS
MM_FN uint64_t *mm_listed_word(const struct mm_heap_ref *ref, uint32_t w) { return mm_units_word(ref, w); }
MM_FN void mm_listed_prepare(const struct mm_heap_ref *ref, uint32_t w, int is_new) { (void)ref, (void)w, (void)is_new; }
MM_FN int mm_listed_fill(const struct mm_heap_ref *ref, uint32_t w, int is_patient) {
    mm_store_published_u64(mm_units_word(ref, w), mm_units_make(0, 0));
    return is_patient;
}

#endif
