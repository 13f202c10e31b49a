/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* malloc from listed segments: draws, and what follows when they are in vain.
 *
 * An allocator provides, before this file is included (a unit is its unit of memory),
 *   MM_LISTED_UNITS_MAX, mm_listed_units(bytes)   the most units of a request; how many a request has
 *   mm_listed_draw(ref, here, is_drawing, n, count, random)   a bounded search for the lanes that are drawing. All lanes of `here` call. Returns the lane's address, or 0
 *   mm_listed_patience(n)                         draws in vain for n units before the list grows
 *   mm_listed_find(ref, s, n)                     looks whether segment s has memory for n units. Returns the number of its first unit, MM_LISTED_NONE, or MM_LISTED_HELD. A hint
 *   mm_listed_claim(ref, unit, n)                 claims what find found. Returns its address, or 0
 *
 * Termination. After mm_listed_patience draws in vain from a list that did not grow meanwhile the list gets another segment; if there is none, a shortage
 *   (core/shortage.h) and complete sweeps follow, each single-flight for all lanes that want as many units. A sweep proves nothing if others held memory for a moment, or
 *   were changing the list: then the lane begins anew, MM_LISTED_UNSURE times at most.
 * Progress. All lanes take their steps in one loop, and leave it together (single_flight.h). No lane waits for the list while lanes of its own warp have its lock.
 *   (Lanes that call apart, under random walk: one group had the lock and another one waited for it. 135 GiB were taken for 50 MB.)
 * Pages. A lane to which the list is closed takes pages of its own (core/span.h): lanes of its warp have the lock.
 * NULL. After a shortage and two complete sweeps that found nothing; free pages of segments outside of the list do not count. Or, for a lane that takes pages, after a
 *   search for them. Such a NULL may be early if lanes of the caller's warp have the lock: they may have taken the last free segments, and cannot go on before the
 *   caller returns.
 */
#ifndef MM_LISTED_MALLOC_H
#define MM_LISTED_MALLOC_H

#include "runtime/core/report.h"
#include "runtime/core/shortage.h"
#include "runtime/core/span.h"
#include "runtime/listed/list.h"

/* A sweep: searches all segments of the list, beginning where the last sweep ended, until the lane `of` has memory for n units. Returns, at that lane, its address;
 * MM_LISTED_HELD: there was none, but other threads held what may be enough, or were changing the list; or 0. All lanes of `here` call. */
MM_FN_RARE uint64_t mm_listed_sweep(const struct mm_heap_ref *ref, uint32_t here, uint32_t of, uint32_t n) {
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane())), many = mm_popcount(here), leader = mm_ctz(here);
    const uint32_t count = mm_warp_shuffle(here, mm_list_count(ref), leader),
                   begin = mm_warp_shuffle(here, mm_load_relaxed_u32(&mm_list_state(ref)->swept), leader);
    uint64_t address = 0;
    int is_held = 0;
    MM_ROLLED
    for (uint32_t seen = 0; seen < count; seen += many) {
        const uint32_t k = seen + rank < count ? (begin + seen + rank) % count : MM_TREE_NONE, s = k != MM_TREE_NONE ? mm_list_segment(ref, k) : 0;
        const uint64_t first = k != MM_TREE_NONE ? mm_listed_find(ref, s, n) : MM_LISTED_NONE;
        is_held |= first == MM_LISTED_HELD;
        MM_ROLLED
        for (uint32_t finders = mm_warp_ballot(here, first < MM_LISTED_HELD); finders != 0 && address == 0; finders &= finders - 1) {
            const uint32_t finder = mm_ctz(finders);
            uint64_t got = 0;
            MM_ROLLED
            for (uint64_t at = first, tries = 0; mm_warp_lane() == finder && at < MM_LISTED_HELD && got == 0 && tries < MM_TREE_TRIES; tries++) {
                got = mm_listed_claim(ref, at, n);
                if (got == 0) at = mm_listed_find(ref, s, n), is_held |= at == MM_LISTED_HELD; /* another thread was faster */
            }
            if (got != 0) mm_store_relaxed_u32(&mm_list_state(ref)->swept, k);
            mm_warp_sync(here);
            address = mm_warp_shuffle_u64(here, got, finder);
        }
        if (address != 0) break;
    }
    is_held |= mm_list_is_locked(ref); /* a segment may be on its way */
    if (mm_warp_ballot(here, is_held) != 0 && address == 0) address = MM_LISTED_HELD;
    return mm_warp_lane() == of ? address : 0;
}

/* The word of the single-flight rounds of sweeps for n units. */
MM_FN uint64_t *mm_listed_round(const struct mm_heap_ref *ref, uint32_t n) { return (uint64_t *)ref->made + n; }
MM_STATIC_ASSERT(MM_LISTED_UNITS_MAX < MM_MADE, "mm_listed_round");

enum mm_listed_stage { MM_LISTED_DRAW, MM_LISTED_GROW, MM_LISTED_SHORT, MM_LISTED_SWEEP, MM_LISTED_DONE };

/* malloc for lanes that got a token from mm_small_draw; they may want different numbers of units. Returns the address, or NULL, which it counts. */
MM_FN_RARE void *mm_listed_malloc(const struct mm_heap_ref *ref, uint64_t token) {
    const uint64_t bytes = token & ~MM_TOKEN;
    const uint32_t n = mm_listed_units(bytes), here = mm_warp_group(token >> 63), lane = mm_warp_lane(), leader = mm_ctz(here);
    uint32_t random = mm_random() + lane * 0x9e3779b1u, probes = 0, polls = 0, sweeps = 0, unsure = 0, listed = 0;
    const uint32_t patience = mm_listed_patience(n);
    int is_span = 0;                               /* the list is closed to the lane: it takes pages */
    uint64_t address = 0, awaited = 0, before = 0; /* the awaited round of sweeps; mapped segments when the last search for one failed */
    enum mm_listed_stage stage = MM_LISTED_DRAW;
    struct mm_shortage shortage = MM_SHORTAGE_NONE;
    MM_ROLLED
    do {
        const uint64_t mapped = mm_grow_mapped(ref);
        const uint32_t draws = mm_warp_ballot(here, stage == MM_LISTED_DRAW), count = mm_warp_shuffle(here, mm_list_count(ref), leader);
        random = mm_random_next(random);
        if (count > listed) { /* the list grew: the lane draws from the new one before it lets it grow again */
            listed = count, probes = 0;
            if (stage == MM_LISTED_GROW) stage = MM_LISTED_DRAW;
        }
        if (draws != 0 && count != 0) {
            const uint64_t drawn = mm_listed_draw(ref, here, stage == MM_LISTED_DRAW, n, count, random);
            if (stage == MM_LISTED_DRAW) address = drawn;
        }
        if (stage == MM_LISTED_DRAW && address != 0) stage = MM_LISTED_DONE;
        else if (stage == MM_LISTED_DRAW && (count == 0 || ++probes >= patience)) stage = MM_LISTED_GROW;
        if (mm_warp_ballot(here, stage == MM_LISTED_GROW) != 0) {
            const enum mm_listed added = mm_list_add(ref, here, count);
            if (stage == MM_LISTED_GROW && added == MM_LISTED_MORE) {
                stage = MM_LISTED_DRAW, probes = 0;
            } else if (stage == MM_LISTED_GROW && added == MM_LISTED_BUSY && ++polls < MM_LISTED_BUSY_POLLS) { /* the warp with the lock may be suspended */
                if (polls % MM_LISTED_BUSY_LOOKS == 0) stage = MM_LISTED_DRAW, probes = patience - 1;
            } else if (stage == MM_LISTED_GROW && added == MM_LISTED_OWN) {
                stage = MM_LISTED_DONE, is_span = 1;
            } else if (stage == MM_LISTED_GROW) {
                stage = MM_LISTED_SHORT, before = mapped;
            }
            if (added == MM_LISTED_BUSY) {
                mm_pause(ref, MM_MAKE_PAUSE);
                mm_wait();
            }
        }
        const uint32_t shorts = mm_warp_ballot(here, stage == MM_LISTED_SHORT);
        if (shorts == 0 && mm_warp_ballot(here, stage == MM_LISTED_SWEEP) == 0) continue;
        enum mm_short is = MM_SHORT_WAIT;
        int is_to_sweep = 0;
        const uint32_t first = shorts != 0 ? mm_ctz(shorts) : MM_TREE_NONE; /* this lane handles it for all */
        if (shorts != 0) {
            uint32_t next = MM_LISTED_SHORT;
            if (lane == first) {
                is = mm_shortage_step(ref, 1, before, &shortage);
                next = is == MM_SHORT_NONE ? MM_LISTED_SWEEP : is == MM_SHORT_SEARCH || is == MM_SHORT_SOME ? MM_LISTED_DRAW : MM_LISTED_SHORT;
            }
            mm_warp_sync(here);
            next = mm_warp_shuffle(here, next, first);
            if (stage == MM_LISTED_SHORT && next != MM_LISTED_SHORT) stage = (enum mm_listed_stage)next, probes = patience / 2, polls = 0;
        } else if (stage == MM_LISTED_SWEEP) {
            const enum mm_flight flight = polls++ < MM_WAIT_ITERATIONS ? mm_flight_begin(mm_listed_round(ref, n), &awaited) : MM_FLIGHT_NOTHING;
            is_to_sweep = flight == MM_FLIGHT_MINE;
            if (flight == MM_FLIGHT_NOTHING && ++sweeps >= 2) stage = MM_LISTED_DONE;
        }
        mm_warp_sync(here);
        mm_shortage_help(ref, here, is, &shortage);
        MM_ROLLED
        for (uint32_t turns = mm_warp_ballot(here, is_to_sweep); turns != 0; turns &= turns - 1) {
            const uint32_t of = mm_ctz(turns);
            const uint64_t swept = mm_listed_sweep(ref, here, of, mm_warp_shuffle(here, n, of));
            if (lane != of) continue;
            const int is_unsure = swept == MM_LISTED_HELD && unsure++ < MM_LISTED_UNSURE;
            address = swept != MM_LISTED_HELD ? swept : 0;
            mm_flight_end(mm_listed_round(ref, n), swept != 0); /* to those who wait, what proves nothing means: once more */
            if (is_unsure) {
                stage = MM_LISTED_DRAW, probes = patience - 1, polls = 0, sweeps = 0;
                mm_shortage_end(&shortage);
            } else if (address != 0 || ++sweeps >= 2) {
                stage = MM_LISTED_DONE;
            }
        }
        mm_warp_sync(here);
        if (!is_to_sweep && (stage == MM_LISTED_SWEEP || (lane == first && is <= MM_SHORT_WAIT_HOST)))
            mm_shortage_wait(ref, is == MM_SHORT_WAIT_HOST, &shortage);
    } while (mm_warp_ballot(here, stage != MM_LISTED_DONE) != 0);
    const uint32_t spans = mm_warp_ballot(here, is_span);
    if (is_span) address = (uint64_t)mm_span_malloc(ref, bytes, 1, spans);
    else if (address == 0) mm_null_count(ref, bytes);
    mm_warp_sync(here); /* the lanes leave together */
    return (void *)address;
}

#endif
