/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* malloc of units by random walks (Pham et al., ACM TOPC 12(1), 2025). Four faces, MM_WALK_FACE, differ in how one unit is found:
 *
 *   MM_WALK_RW    each lane draws units at random until one was free
 *   MM_WALK_BM    each lane draws words at random, and takes a free unit of the word. The paper takes the lowest one, which empties words unevenly
 *   MM_WALK_COOP  each lane draws a word; what is free there is shared out among the lanes that need a unit, and taken by one atomic for each word. The paper locks
 *                 the words meanwhile; here a unit that another warp took first is missing in the atomic's result, and its lane draws again
 *   MM_WALK_RUNS  as several units are found
 * Several units are found by RW_malloc: a warp draws a place at random, and its lanes search the words from there on for enough consecutive free units.
 *
 * Termination, which the paper leaves open: after mm_walk_patience draws in vain from a list that did not grow meanwhile the list gets another segment; if there is
 * none, a shortage (core/shortage.h) and complete sweeps follow, each single-flight for all lanes that want as many units.
 * Progress. All lanes take their steps in one loop, and leave it together (single_flight.h). No lane waits for a lane of its own warp.
 * NULL. After a shortage that found nothing, and two complete sweeps that found nothing.
 */
#ifndef MM_WALK_MALLOC_H
#define MM_WALK_MALLOC_H

#include "runtime/core/report.h"
#include "runtime/core/shortage.h"
#include "runtime/random_walk/list.h"

enum { MM_WALK_RW, MM_WALK_BM, MM_WALK_COOP, MM_WALK_RUNS };
#ifndef MM_WALK_FACE
#define MM_WALK_FACE MM_WALK_COOP
#endif

/* Units for `bytes`; 0 counts as 1. */
MM_FN uint32_t mm_walk_units(uint64_t bytes) { return bytes ? (uint32_t)((bytes - 1) >> MM_WALK_UNIT_SHIFT) + 1 : 1; }

/* A draw for one unit by one lane, as in the faces RW and BM. Returns the unit, or MM_TREE_NONE. count: of the list, not 0. */
MM_FN uint32_t mm_walk_draw(const struct mm_heap_ref *ref, int is_bitmap, uint32_t count, uint32_t random) {
    uint32_t unit = mm_walk_unit(ref, count, random);
    if (is_bitmap) {
        const uint32_t free = ~mm_units_taken(mm_load_relaxed_u64(mm_units_word(ref, unit / 32)));
        if (free == 0) return MM_TREE_NONE;
        unit += mm_bits_pick(mm_units_make(free, free), unit % 32) % 32 - unit % 32;
    }
    return mm_unit_claim(ref, unit) ? unit : MM_TREE_NONE;
}

/* A draw for one unit by the lanes of `here`, for those of `need`, as in the face COOP. Returns the caller's unit, or MM_TREE_NONE. */
MM_FN_RARE uint32_t mm_walk_share(const struct mm_heap_ref *ref, uint32_t here, uint32_t need, uint32_t count, uint32_t random) {
    const uint32_t lane = mm_warp_lane(), w = mm_walk_unit(ref, count, random) / 32;
    const uint32_t free = ~mm_units_taken(mm_load_relaxed_u64(mm_units_word(ref, w)));
    const uint32_t finders = mm_warp_ballot(here, free != 0), found = mm_popcount(finders), rank = mm_popcount(finders & mm_bits_low(lane));
    uint32_t mine = 0, got = 0;
    if (finders == 0) return MM_TREE_NONE;
    if (free != 0) { /* for the lanes of `need` whose rank is this finder's, plus a multiple of the number of finders */
        const uint32_t wanted = mm_popcount(need), share = rank < wanted ? (wanted - rank - 1) / found + 1 : 0;
        mine = (uint32_t)mm_bits_first(free, share);
        if (mine != 0) got = mine & ~mm_units_taken(mm_or_acquire_u64(mm_units_word(ref, w), mm_units_make(mine, 0)));
    }
    mm_warp_sync(here);
    const uint32_t number = mm_popcount(need & mm_bits_low(lane)), of = mm_bits_select(finders, number % found), which = number / found;
    const uint32_t of_word = mm_warp_shuffle(here, w, of), of_mine = mm_warp_shuffle(here, mine, of), of_got = mm_warp_shuffle(here, got, of);
    if (!(need >> lane & 1) || which >= mm_popcount(of_mine)) return MM_TREE_NONE;
    const uint32_t bit = mm_bits_select(of_mine, which);
    return of_got >> bit & 1 ? of_word * 32 + bit : MM_TREE_NONE;
}

/* A draw for n units by the lanes of `here` that have need, as in the face RUNS: all from one place, which is a multiple of their length, so that allocations of one
 * length leave no gaps of half a length. random: the same for all. */
MM_FN_RARE uint32_t mm_walk_run(const struct mm_heap_ref *ref, uint32_t here, int has_need, uint32_t n, uint32_t count, uint32_t random) {
    const uint32_t w = mm_walk_unit(ref, count, random) / 32, words = (n + 31) / 32;
    if (!has_need) return MM_TREE_NONE;
    const uint32_t in = (w + mm_popcount(here & mm_bits_low(mm_warp_lane())) * words) % MM_WALK_WORDS;
    const uint32_t first = mm_units_find(ref, w - w % MM_WALK_WORDS + in - in % words, n, mm_at_most(words + MM_WALK_WINDOW, MM_WALK_WORDS));
    return first != MM_TREE_NONE && mm_units_claim(ref, first, n) ? first : MM_TREE_NONE;
}

/* A sweep: searches all segments of the list, beginning where the last sweep ended, until the lane `of` has n consecutive units. Returns the first one at that lane, if
 * there is; else MM_TREE_NONE. All lanes of `here` call. */
MM_FN_RARE uint32_t mm_walk_sweep(const struct mm_heap_ref *ref, uint32_t here, uint32_t of, uint32_t n) {
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane())), many = mm_popcount(here), leader = mm_ctz(here);
    const uint32_t count = mm_warp_shuffle(here, mm_walk_count(ref), leader),
                   begin = mm_warp_shuffle(here, mm_load_relaxed_u32(&mm_walk_state(ref)->swept), leader);
    uint32_t unit = MM_TREE_NONE;
    MM_ROLLED
    for (uint32_t seen = 0; seen < count; seen += many) {
        const uint32_t k = seen + rank < count ? (begin + seen + rank) % count : MM_TREE_NONE, s = k != MM_TREE_NONE ? mm_walk_segment(ref, k) : 0;
        const uint32_t first = k != MM_TREE_NONE ? mm_units_find(ref, s * MM_WALK_WORDS, n, MM_WALK_WORDS) : MM_TREE_NONE;
        MM_ROLLED
        for (uint32_t finders = mm_warp_ballot(here, first != MM_TREE_NONE); finders != 0 && unit == MM_TREE_NONE; finders &= finders - 1) {
            const uint32_t finder = mm_ctz(finders);
            uint32_t got = MM_TREE_NONE;
            MM_ROLLED
            for (uint32_t at = first, tries = 0; mm_warp_lane() == finder && at != MM_TREE_NONE && got == MM_TREE_NONE && tries < MM_TREE_TRIES; tries++) {
                if (mm_units_claim(ref, at, n)) got = at;
                else at = mm_units_find(ref, s * MM_WALK_WORDS, n, MM_WALK_WORDS); /* another thread was faster */
            }
            if (got != MM_TREE_NONE) mm_store_relaxed_u32(&mm_walk_state(ref)->swept, k);
            mm_warp_sync(here);
            unit = mm_warp_shuffle(here, got, finder);
        }
        if (unit != MM_TREE_NONE) break;
    }
    return mm_warp_lane() == of ? unit : MM_TREE_NONE;
}

/* The word of the single-flight rounds of sweeps for n units. */
MM_FN uint64_t *mm_walk_round(const struct mm_heap_ref *ref, uint32_t n) { return (uint64_t *)ref->made + n; }
MM_STATIC_ASSERT(MM_WALK_UNITS_MAX < MM_MADE, "mm_walk_round");

/* Draws in vain for n units before the list grows. A draw of the face RW sees one unit, others see words: with one bound for both, RW would keep two thirds of its memory free. */
MM_FN uint32_t mm_walk_patience(uint32_t n) { return MM_WALK_FACE == MM_WALK_RW && n == 1 ? MM_WALK_UNIT_PROBES : MM_WALK_PROBES; }

enum mm_walk_stage { MM_WALK_DRAW, MM_WALK_GROW, MM_WALK_SHORT, MM_WALK_SWEEP, MM_WALK_DONE };

/* malloc for lanes that got a token from mm_small_draw; they may want different numbers of units. Returns the address, or NULL, which it counts. */
MM_FN_RARE void *mm_walk_malloc(const struct mm_heap_ref *ref, uint64_t token) {
    const uint32_t n = mm_walk_units(token & ~MM_TOKEN), here = mm_warp_group(token >> 63), lane = mm_warp_lane(), leader = mm_ctz(here);
    uint32_t random = mm_random() + lane * 0x9e3779b1u, unit = MM_TREE_NONE, probes = 0, polls = 0, sweeps = 0, listed = 0;
    const uint32_t patience = mm_walk_patience(n);
    uint64_t awaited = 0, before = 0; /* the awaited round of sweeps; mapped segments when the last search for one failed */
    enum mm_walk_stage stage = MM_WALK_DRAW;
    struct mm_shortage shortage = MM_SHORTAGE_NONE;
    MM_ROLLED
    do {
        const uint64_t mapped = mm_grow_mapped(ref);
        const uint32_t draws = mm_warp_ballot(here, stage == MM_WALK_DRAW), count = mm_warp_shuffle(here, mm_walk_count(ref), leader);
        random = mm_walk_next(random);
        if (count > listed) listed = count, probes = 0; /* the list grew: the lane draws from the new one before it lets it grow again */
        if (draws != 0 && count != 0) {
            const int is_one = stage == MM_WALK_DRAW && n == 1 && MM_WALK_FACE != MM_WALK_RUNS, is_run = stage == MM_WALK_DRAW && !is_one;
            const uint32_t ones = mm_warp_ballot(here, is_one), runs = mm_warp_ballot(here, is_run);
            uint32_t one = MM_TREE_NONE;
            if (MM_WALK_FACE == MM_WALK_COOP && ones != 0) one = mm_walk_share(ref, here, ones, count, random);
            else if (is_one) one = mm_walk_draw(ref, MM_WALK_FACE == MM_WALK_BM, count, random);
            if (is_one) unit = one;
            mm_warp_sync(here);
            if (runs != 0) {
                const uint32_t first = mm_walk_run(ref, here, is_run, n, count, mm_warp_shuffle(here, random, leader));
                if (is_run) unit = first;
            }
        }
        if (stage == MM_WALK_DRAW && unit != MM_TREE_NONE) stage = MM_WALK_DONE;
        else if (stage == MM_WALK_DRAW && (count == 0 || ++probes >= patience)) stage = MM_WALK_GROW;
        if (mm_warp_ballot(here, stage == MM_WALK_GROW) != 0) {
            const enum mm_walk_added added = mm_walk_add(ref, here);
            if (stage == MM_WALK_GROW && added == MM_WALK_ADDED) stage = MM_WALK_DRAW, probes = 0;
            else if (stage == MM_WALK_GROW && added == MM_WALK_BUSY && polls++ < MM_WALK_BUSY_POLLS) stage = MM_WALK_DRAW, probes = patience - 1;
            else if (stage == MM_WALK_GROW) stage = MM_WALK_SHORT, before = mapped;
            if (added == MM_WALK_BUSY) {
                mm_pause(ref, MM_MAKE_PAUSE);
                mm_wait();
            }
        }
        const uint32_t shorts = mm_warp_ballot(here, stage == MM_WALK_SHORT);
        if (shorts == 0 && mm_warp_ballot(here, stage == MM_WALK_SWEEP) == 0) continue;
        enum mm_short is = MM_SHORT_WAIT;
        int is_to_sweep = 0;
        const uint32_t first = shorts != 0 ? mm_ctz(shorts) : MM_TREE_NONE; /* this lane handles it for all */
        if (shorts != 0) {
            uint32_t next = MM_WALK_SHORT;
            if (lane == first) {
                is = mm_shortage_step(ref, 1, before, &shortage);
                next = is == MM_SHORT_NONE ? MM_WALK_SWEEP : is == MM_SHORT_SEARCH || is == MM_SHORT_SOME ? MM_WALK_DRAW : MM_WALK_SHORT;
            }
            mm_warp_sync(here);
            next = mm_warp_shuffle(here, next, first);
            if (stage == MM_WALK_SHORT && next != MM_WALK_SHORT) stage = (enum mm_walk_stage)next, probes = patience / 2, polls = 0;
        } else if (stage == MM_WALK_SWEEP) {
            const enum mm_flight flight = polls++ < MM_WAIT_ITERATIONS ? mm_flight_begin(mm_walk_round(ref, n), &awaited) : MM_FLIGHT_NOTHING;
            is_to_sweep = flight == MM_FLIGHT_MINE;
            if (flight == MM_FLIGHT_NOTHING && ++sweeps >= 2) stage = MM_WALK_DONE;
        }
        mm_warp_sync(here);
        mm_shortage_help(ref, here, is, &shortage);
        MM_ROLLED
        for (uint32_t turns = mm_warp_ballot(here, is_to_sweep); turns != 0; turns &= turns - 1) {
            const uint32_t of = mm_ctz(turns), swept = mm_walk_sweep(ref, here, of, mm_warp_shuffle(here, n, of));
            if (lane != of) continue;
            unit = swept;
            mm_flight_end(mm_walk_round(ref, n), unit != MM_TREE_NONE);
            if (unit != MM_TREE_NONE || ++sweeps >= 2) stage = MM_WALK_DONE;
        }
        mm_warp_sync(here);
        if (!is_to_sweep && (stage == MM_WALK_SWEEP || (lane == first && is <= MM_SHORT_WAIT_HOST))) mm_shortage_wait(ref, is == MM_SHORT_WAIT_HOST, &shortage);
    } while (mm_warp_ballot(here, stage != MM_WALK_DONE) != 0);
    mm_warp_sync(here); /* the lanes leave together */
    if (unit != MM_TREE_NONE) return (void *)mm_unit_address(ref, unit);
    mm_null_count(ref, (uint64_t)n << MM_WALK_UNIT_SHIFT);
    return NULL;
}

#endif
