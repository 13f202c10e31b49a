/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* malloc from listed segments: draws, and what follows when they are in vain.
 *
 * An allocator provides, before this file is included (a unit is its unit of memory),
 *   MM_LISTED_UNITS_MAX, mm_listed_units(bytes)   the most units of a request; how many a request has
 *   mm_listed_bytes(n)                            the memory that a request of n units takes, in bytes
 *   mm_listed_draw(ref, here, is_drawing, n, count, random)   a bounded search for the lanes that are drawing. All lanes of `here` call. Returns the lane's
 *                                                 address, or 0
 *   mm_listed_patience(n, is_full)                draws in vain for n units before the list grows; is_full: before a shortage begins, if it cannot grow
 *   mm_listed_find(ref, s, n)                     looks whether segment s has memory for n units. Returns the number of its first unit; or MM_LISTED_NONE, plus
 *                                                 the most consecutive units that are free, or that somebody holds for a moment. A hint
 *   mm_listed_claim(ref, unit, n)                 claims what find found. Returns its address, or 0
 *
 * Termination. After mm_listed_patience draws in vain from a list that did not grow meanwhile the list gets another segment; if there is none, some allocators
 *   draw more often, since many draws take less than a sweep; then a shortage (core/shortage.h) follows, and rounds of sweeps.
 * Sweeps. A round is a sweep over the whole list, single-flight for all lanes, whatever they want. Its result is a number, `most`: no segment had more
 *   consecutive units that were free, or held for a moment. For lanes that want more the round has found nothing. The others look for themselves in the
 *   segments that had enough when the round saw them, and claim what they find: a visit. A segment without room for n units was seen so by the round or by the
 *   visit, after the lane began to wait. So a visit in vain proves as much as a round. A round for which nobody waits ends as soon as its own lane has memory:
 *   a single caller sweeps on where its last sweep ended. A round or a visit proves nothing if others hold what may be enough, or if others were changing the
 *   list: then the lane begins anew, MM_LISTED_UNSURE times at most. (With rounds for each number of units, whose result was one lane's memory, 135,168 threads
 *   took 19 to 41 s for 1,300,000 NULLs, up to 12 s for one.)
 * Progress. All lanes take their steps in one loop, and leave it together (single_flight.h). No lane waits for the list while other lanes of its own warp are
 *   bringing segments or have its lock. (Lanes that call apart, under random walk: one group had the lock, and another one waited for it. 135 GiB were taken
 *   for 50 MB.)
 * Pages. A lane takes pages of its own (core/span.h) if lanes of its warp bring segments or have the lock of the list; or if the list has nothing for it, and
 *   a segment that is used page by page may have.
 * NULL. After a shortage, two rounds or visits that found nothing, and a search for pages; and if no segment entered the list between, or is free. Else the lane
 *   begins anew, too: a shortage lets segments in which nothing is live leave the list, another caller brings them back, and a sweep or a search may miss them
 *   each time. A lane that takes pages because of the lock only searches for pages. Its NULL may be early: the lanes that have the lock may have taken the last
 *   free segments, and cannot go on before the caller returns.
 * Stale. What a round stored for a segment, when another round runs or has ended: it is what somebody saw there later. `most`: likewise, of a later round.
 */
#ifndef MM_LISTED_MALLOC_H
#define MM_LISTED_MALLOC_H

#include "runtime/core/report.h"
#include "runtime/core/shortage.h"
#include "runtime/core/span.h"
#include "runtime/listed/list.h"

#define MM_LISTED_UNKNOWN ~0u /* most: the round ended early */
enum mm_listed_sweeps { MM_LISTED_STAYS, MM_LISTED_VISITS, MM_LISTED_ROUND };
/* What a sweep found: memory, or 0; and `most`, for a visit only of the segments that it looked at. */
struct mm_listed_swept {
    uint64_t address;
    uint32_t most;
};
/* Looks into all segments of the list for n units, in a round beginning where the last one ended. A visit leaves out segments in which the last round saw less.
 * All lanes of `here` call, with the same n and is_round, and get the same. */
MM_FN_RARE struct mm_listed_swept mm_listed_sweep(const struct mm_heap_ref *ref, uint32_t here, uint32_t n, int is_round) {
    struct mm_class_state *of = mm_list_state(ref);
    const uint32_t rank = mm_popcount(here & mm_bits_low(mm_warp_lane())), many = mm_popcount(here), leader = mm_ctz(here);
    const uint32_t entered = mm_load_acquire_u32(&of->entered); /* before the count */
    const uint32_t count = mm_warp_shuffle(here, mm_list_count(ref), leader),
                   begin = mm_warp_shuffle(here, is_round ? mm_load_relaxed_u32(&of->swept) : mm_mulhi(mm_random(), count), leader);
    struct mm_listed_swept swept = {0, 0};
    uint32_t is_early = 0;
    MM_ROLLED
    for (uint32_t seen = 0; seen < count && !is_early; seen += many) {
        const uint32_t k = seen + rank < count ? (begin + seen + rank) % count : MM_TREE_NONE, s = k != MM_TREE_NONE ? mm_list_segment(ref, k) : 0;
        const int is_looked_at = k != MM_TREE_NONE && (is_round || mm_load_relaxed_u32(mm_list_most(ref, s)) >= n);
        uint64_t at = is_looked_at ? mm_listed_find(ref, s, swept.address == 0 ? n : MM_LISTED_NEVER) : MM_LISTED_NONE;
        MM_ROLLED
        for (uint32_t finders = mm_warp_ballot(here, at < MM_LISTED_NONE); finders != 0 && swept.address == 0; finders &= finders - 1) {
            const uint32_t finder = mm_ctz(finders);
            uint64_t got = 0;
            MM_ROLLED
            for (uint32_t tries = 0; mm_warp_lane() == finder && at < MM_LISTED_NONE && got == 0 && tries < MM_TREE_TRIES; tries++) {
                got = mm_listed_claim(ref, at, n);
                if (got == 0) at = mm_listed_find(ref, s, n); /* another thread was faster */
            }
            if (got != 0 && is_round) mm_store_relaxed_u32(&of->swept, k);
            mm_warp_sync(here);
            swept.address = mm_warp_shuffle_u64(here, got, finder);
        }
        if (swept.address != 0) is_early = mm_warp_shuffle(here, !is_round || mm_load_relaxed_u32(&of->is_awaited) == 0, leader);
        if (!is_early && at < MM_LISTED_NONE) at = mm_listed_find(ref, s, MM_LISTED_NEVER); /* the rest of the segment */
        if (is_round && !is_early && k != MM_TREE_NONE) mm_store_relaxed_u32(mm_list_most(ref, s), (uint32_t)at);
        if ((uint32_t)at > swept.most) swept.most = (uint32_t)at;
    }
    if ((mm_list_has_changed(ref, entered) || mm_list_count(ref) != count) && swept.most < MM_LISTED_UNITS_MAX)
        swept.most = MM_LISTED_UNITS_MAX; /* a segment was on its way, or went behind the sweep */
    swept.most = mm_warp_max(here, is_early ? MM_LISTED_UNKNOWN : swept.most);
    return swept;
}

/* Asks for a round for n units. *awaited: see mm_flight_begin. Returns how the caller has to sweep now; *has_none: whether a round has found nothing for it.
 * Acquires. */
MM_FN enum mm_listed_sweeps mm_listed_ask(const struct mm_heap_ref *ref, uint32_t n, uint64_t *awaited, int *has_none) {
    struct mm_class_state *of = mm_list_state(ref);
    const enum mm_flight flight = mm_flight_begin(&of->round, awaited);
    *has_none = 0;
    if (flight == MM_FLIGHT_MINE || flight == MM_FLIGHT_WAIT) {
        const uint32_t is_awaited = flight == MM_FLIGHT_WAIT;
        if (mm_load_relaxed_u32(&of->is_awaited) != is_awaited) mm_store_relaxed_u32(&of->is_awaited, is_awaited);
        return is_awaited ? MM_LISTED_STAYS : MM_LISTED_ROUND;
    }
    const uint32_t most = mm_load_relaxed_u32(&of->most);
    if (most == MM_LISTED_UNKNOWN) return MM_LISTED_STAYS; /* once more */
    *has_none = n > most;
    return *has_none ? MM_LISTED_STAYS : MM_LISTED_VISITS;
}
/* Ends the caller's round. Releases. */
MM_FN void mm_listed_end(const struct mm_heap_ref *ref, uint32_t most) {
    mm_store_relaxed_u32(&mm_list_state(ref)->most, most);
    mm_flight_end(&mm_list_state(ref)->round, 0);
}

enum mm_listed_stage { MM_LISTED_DRAW, MM_LISTED_GROW, MM_LISTED_SHORT, MM_LISTED_SWEEP, MM_LISTED_PAGES, MM_LISTED_DONE };

/* malloc for lanes that got a token from mm_small_draw; they may want different numbers of units. Returns the address, or NULL, which it counts. */
MM_FN_RARE void *mm_listed_malloc(const struct mm_heap_ref *ref, uint64_t token) {
    const uint64_t bytes = token & ~MM_TOKEN;
    const uint32_t n = mm_listed_units(bytes), here = mm_warp_group(token >> 63), lane = mm_warp_lane(), leader = mm_ctz(here);
    uint32_t random = mm_random() + lane * 0x9e3779b1u, probes = 0, polls = 0, sweeps = 0, unsure = 0, listed = 0, entered = 0;
    uint32_t patience = mm_listed_patience(n, 0);
    int is_span = 0;                               /* the lane takes pages */
    uint32_t wants = 0;                            /* bytes that the warp has counted as wanted (list.h) */
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
        wants = mm_list_want(ref, here, stage == MM_LISTED_GROW || (stage == MM_LISTED_DRAW && 2 * probes >= patience) ? mm_listed_bytes(n) : 0, wants);
        const uint32_t grows = mm_warp_ballot(here, stage == MM_LISTED_GROW);
        if (grows != 0) {
            const enum mm_listed added = mm_list_add(ref, here, count);
            if (stage == MM_LISTED_GROW && added == MM_LISTED_MORE) {
                stage = MM_LISTED_DRAW, probes = 0;
            } else if (stage == MM_LISTED_GROW && added == MM_LISTED_BUSY &&
                       ++polls < MM_LISTED_BUSY_POLLS) { /* a warp that brings segments may be suspended */
                if (polls % MM_LISTED_BUSY_LOOKS == 0) stage = MM_LISTED_DRAW, probes = patience - 1;
            } else if (stage == MM_LISTED_GROW && added == MM_LISTED_OWN) {
                stage = MM_LISTED_DONE, is_span = 1;
            } else if (stage == MM_LISTED_GROW && patience < mm_listed_patience(n, 1)) {
                stage = MM_LISTED_DRAW, patience = mm_listed_patience(n, 1);
            } else if (stage == MM_LISTED_GROW) {
                stage = MM_LISTED_SHORT, before = mapped;
            }
            if (added == MM_LISTED_BUSY) mm_list_await(ref, count, grows == here ? MM_LISTED_LOOKS : 1);
        }
        const uint32_t shorts = mm_warp_ballot(here, stage == MM_LISTED_SHORT);
        if (shorts == 0 && mm_warp_ballot(here, stage == MM_LISTED_SWEEP) == 0) continue;
        enum mm_short is = MM_SHORT_WAIT;
        enum mm_listed_sweeps sweep = MM_LISTED_STAYS;
        const uint32_t first = shorts != 0 ? mm_ctz(shorts) : MM_TREE_NONE; /* this lane handles it for all */
        if (shorts != 0) {
            uint32_t next = MM_LISTED_SHORT;
            if (lane == first) {
                is = mm_shortage_step(ref, 1, before, &shortage);
                next = is == MM_SHORT_NONE ? MM_LISTED_SWEEP : is == MM_SHORT_SEARCH || is == MM_SHORT_SOME ? MM_LISTED_DRAW : MM_LISTED_SHORT;
            }
            mm_warp_sync(here);
            next = mm_warp_shuffle(here, next, first);
            if (stage == MM_LISTED_SHORT && next != MM_LISTED_SHORT) {
                stage = (enum mm_listed_stage)next, probes = patience / 2, polls = 0;
                entered = mm_load_acquire_u32(&mm_list_state(ref)->entered);
            }
        } else if (stage == MM_LISTED_SWEEP) {
            int has_none = 1;
            if (polls++ < MM_WAIT_ITERATIONS) sweep = mm_listed_ask(ref, n, &awaited, &has_none);
            if (has_none && ++sweeps >= 2) stage = MM_LISTED_PAGES;
        }
        mm_warp_sync(here);
        mm_shortage_help(ref, here, is, &shortage);
        int is_again = 0;
        MM_ROLLED
        for (uint32_t turns = mm_warp_ballot(here, sweep != MM_LISTED_STAYS); turns != 0; turns &= turns - 1) {
            const uint32_t of = mm_ctz(turns);
            const struct mm_listed_swept swept = mm_listed_sweep(ref, here, mm_warp_shuffle(here, n, of), mm_warp_shuffle(here, sweep, of) == MM_LISTED_ROUND);
            if (lane != of) continue;
            if (sweep == MM_LISTED_ROUND) mm_listed_end(ref, swept.most);
            address = swept.address;
            if (address != 0) stage = MM_LISTED_DONE;
            else if (n <= swept.most && unsure < MM_LISTED_UNSURE) is_again = 1;
            else if (++sweeps >= 2) stage = MM_LISTED_PAGES;
        }
        if (stage == MM_LISTED_PAGES) {
            is_span = mm_span_has_room(ref, bytes), stage = MM_LISTED_DONE;
            /* in this order: a segment that is taken out of the free tree between the two is coming, or has entered */
            is_again =
                !is_span && unsure < MM_LISTED_UNSURE && (mm_tree_find(mm_segment_free_tree(ref), 0) != MM_TREE_NONE || mm_list_has_changed(ref, entered));
        }
        if (is_again) {
            stage = MM_LISTED_DRAW, probes = patience - 1, polls = 0, sweeps = 0, unsure++;
            mm_shortage_end(&shortage);
        }
        mm_warp_sync(here);
        if (sweep == MM_LISTED_STAYS && (stage == MM_LISTED_SWEEP || (lane == first && is <= MM_SHORT_WAIT_HOST)))
            mm_shortage_wait(ref, is == MM_SHORT_WAIT_HOST, &shortage);
    } while (mm_warp_ballot(here, stage != MM_LISTED_DONE) != 0);
    mm_list_want(ref, here, 0, wants);
    const uint32_t spans = mm_warp_ballot(here, is_span);
    if (is_span) address = (uint64_t)mm_span_malloc(ref, bytes, 1, spans);
    else if (address == 0) mm_null_count(ref, bytes);
    mm_warp_sync(here); /* the lanes leave together */
    return (void *)address;
}

#endif
