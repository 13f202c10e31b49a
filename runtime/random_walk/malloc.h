/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* malloc of units by random walks (Pham et al., ACM TOPC 12(1), 2025). Four faces, MM_WALK_FACE, differ in how one unit is found:
 *
 *   MM_WALK_RW    each lane draws units at random until one was free
 *   MM_WALK_BM    each lane draws words at random, and takes a free unit of the word. The paper takes the lowest one, which empties words unevenly
 *   MM_WALK_COOP  each lane draws a word; what is free there is shared out among the lanes that need a unit, and taken by one atomic for each word. The paper
 *                 locks the words meanwhile; here a unit that another warp took first is missing in the atomic's result, and its lane draws again
 *   MM_WALK_RUNS  as several units are found
 * Several units are found by RW_malloc: a warp draws a place at random, and its lanes search the words from there on for enough consecutive free units.
 *
 * Termination and NULL, which the paper leaves open: listed/malloc.h.
 */
#ifndef MM_WALK_MALLOC_H
#define MM_WALK_MALLOC_H

#include "runtime/listed/list.h"

enum { MM_WALK_RW, MM_WALK_BM, MM_WALK_COOP, MM_WALK_RUNS };
#ifndef MM_WALK_FACE
#define MM_WALK_FACE MM_WALK_COOP
#endif

#define MM_LISTED_UNITS_MAX MM_WALK_UNITS_MAX
/* Units for `bytes`; 0 counts as 1. */
MM_FN uint32_t mm_listed_units(uint64_t bytes) { return bytes ? (uint32_t)((bytes - 1) >> MM_WALK_UNIT_SHIFT) + 1 : 1; }
MM_FN uint32_t mm_listed_bytes(uint32_t n) { return n << MM_WALK_UNIT_SHIFT; }

/* A unit of the list, for a random number. count: of the list, not 0. */
MM_FN uint32_t mm_walk_unit(const struct mm_heap_ref *ref, uint32_t count, uint32_t random) {
    const uint32_t at = mm_mulhi(random, count * MM_WALK_UNITS);
    return mm_list_segment(ref, at / MM_WALK_UNITS) * MM_WALK_UNITS + at % MM_WALK_UNITS;
}

/* A draw for one unit by one lane, as in the faces RW and BM. Returns the unit, or MM_WALK_NONE. count: of the list, not 0. */
MM_FN uint64_t mm_walk_draw(const struct mm_heap_ref *ref, int is_bitmap, uint32_t count, uint32_t random) {
    uint32_t unit = mm_walk_unit(ref, count, random);
    if (is_bitmap) {
        const uint32_t free = ~mm_units_taken(mm_load_relaxed_u64(mm_units_word(ref, unit / 32)));
        if (free == 0) return MM_WALK_NONE;
        unit += mm_bits_pick(mm_units_make(free, free), unit % 32) % 32 - unit % 32;
    }
    return mm_unit_claim(ref, unit) ? unit : MM_WALK_NONE;
}

/* A draw for one unit by the lanes of `here`, for those of `need`, as in the face COOP. Returns the caller's unit, or MM_WALK_NONE. */
MM_FN_RARE uint64_t mm_walk_share(const struct mm_heap_ref *ref, uint32_t here, uint32_t need, uint32_t count, uint32_t random) {
    const uint32_t lane = mm_warp_lane(), w = mm_walk_unit(ref, count, random) / 32;
    const uint32_t free = ~mm_units_taken(mm_load_relaxed_u64(mm_units_word(ref, w)));
    const uint32_t finders = mm_warp_ballot(here, free != 0), found = mm_popcount(finders), rank = mm_popcount(finders & mm_bits_low(lane));
    uint32_t mine = 0, got = 0;
    if (finders == 0) return MM_WALK_NONE;
    if (free != 0) { /* for the lanes of `need` whose rank is this finder's, plus a multiple of the number of finders */
        const uint32_t wanted = mm_popcount(need), share = rank < wanted ? (wanted - rank - 1) / found + 1 : 0;
        mine = (uint32_t)mm_bits_first(free, share);
        if (mine != 0) got = mine & ~mm_units_taken(mm_or_acquire_u64(mm_units_word(ref, w), mm_units_make(mine, 0)));
    }
    mm_warp_sync(here);
    const uint32_t number = mm_popcount(need & mm_bits_low(lane)), of = mm_bits_select(finders, number % found), which = number / found;
    const uint32_t of_word = mm_warp_shuffle(here, w, of), of_mine = mm_warp_shuffle(here, mine, of), of_got = mm_warp_shuffle(here, got, of);
    if (!(need >> lane & 1) || which >= mm_popcount(of_mine)) return MM_WALK_NONE;
    const uint32_t bit = mm_bits_select(of_mine, which);
    return of_got >> bit & 1 ? of_word * 32 + bit : MM_WALK_NONE;
}

/* A draw for n units by the lanes of `here` that have need, as in the face RUNS: all from one place, which is a multiple of their length, so that allocations
 * of one length leave no gaps of half a length. random: the same for all. */
MM_FN_RARE uint64_t mm_walk_run(const struct mm_heap_ref *ref, uint32_t here, int has_need, uint32_t n, uint32_t count, uint32_t random) {
    const uint32_t w = mm_walk_unit(ref, count, random) / 32, words = (n + 31) / 32;
    if (!has_need) return MM_WALK_NONE;
    const uint32_t in = (w + mm_popcount(here & mm_bits_low(mm_warp_lane())) * words) % MM_WALK_WORDS;
    const uint64_t first = mm_units_find(ref, w - w % MM_WALK_WORDS + in - in % words, n, mm_at_most(words + MM_WALK_WINDOW, MM_WALK_WORDS));
    return first < MM_WALK_NONE && mm_units_claim(ref, (uint32_t)first, n) ? first : MM_WALK_NONE;
}

/* A draw by the lanes of `here` for those that are drawing: see listed/malloc.h. */
MM_FN uint64_t mm_listed_draw(const struct mm_heap_ref *ref, uint32_t here, int is_drawing, uint32_t n, uint32_t count, uint32_t random) {
    const int is_one = is_drawing && n == 1 && MM_WALK_FACE != MM_WALK_RUNS, is_run = is_drawing && !is_one;
    const uint32_t ones = mm_warp_ballot(here, is_one), runs = mm_warp_ballot(here, is_run);
    uint64_t unit = MM_WALK_NONE;
    if (MM_WALK_FACE == MM_WALK_COOP && ones != 0) unit = mm_walk_share(ref, here, ones, count, random);
    else if (is_one) unit = mm_walk_draw(ref, MM_WALK_FACE == MM_WALK_BM, count, random);
    mm_warp_sync(here);
    if (runs != 0) {
        const uint64_t first = mm_walk_run(ref, here, is_run, n, count, mm_warp_shuffle(here, random, mm_ctz(here)));
        if (is_run) unit = first;
    }
    return is_drawing && unit != MM_WALK_NONE ? mm_unit_address(ref, (uint32_t)unit) : 0;
}

/* Draws in vain for n units before the list grows; is_full: and when it cannot. A draw of the face RW sees one unit, others see words: with one bound for both,
 * RW would keep two thirds of its memory free. */
MM_FN uint32_t mm_listed_patience(uint32_t n, int is_full) {
    return MM_WALK_FACE == MM_WALK_RW && n == 1 ? MM_WALK_UNIT_PROBES : is_full ? MM_WALK_FULL_PROBES : MM_WALK_PROBES;
}

MM_STATIC_ASSERT(MM_WALK_NONE == MM_LISTED_NONE, "mm_listed_find");
MM_FN uint64_t mm_listed_find(const struct mm_heap_ref *ref, uint32_t s, uint32_t n) { return mm_units_find(ref, s * MM_WALK_WORDS, n, MM_WALK_WORDS); }
MM_FN uint64_t mm_listed_claim(const struct mm_heap_ref *ref, uint64_t unit, uint32_t n) {
    return mm_units_claim(ref, (uint32_t)unit, n) ? mm_unit_address(ref, (uint32_t)unit) : 0;
}

#endif
