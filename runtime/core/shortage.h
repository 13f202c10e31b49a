/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* When there are no pages, or no segments side by side: what is done before the answer is NULL, in this order.
 *
 *   Some pages anywhere in the heap are looked at for blocks that are free but for their class (mm_slices_retire_some), so that a class gives
 *   its peak to others before the heap grows. The host is asked for more. All blocks that are free are retired, by one at a time for all
 *   who want it (single_flight.h). What is found is searched for anew; MM_NULL_TRIES times, with pauses between, it may be nothing.
 */
#ifndef MM_CORE_SHORTAGE_H
#define MM_CORE_SHORTAGE_H

#include "runtime/core/grow.h"
#include "runtime/core/single_flight.h"

/* What an allocator of slices does for it (gallatin/retire.h). All lanes of `here` call. Some: how many pages they got back. All: whether
 * anybody got any; it says so to others as soon as that is so (mm_flight_found_some). */
MM_FN_RARE uint32_t mm_slices_retire_some(const struct mm_heap_ref *ref, uint32_t here);
MM_FN_RARE int mm_slices_retire_all(const struct mm_heap_ref *ref, uint32_t here);

enum mm_short {
    MM_SHORT_WAIT, MM_SHORT_WAIT_HOST, /* and call this again */
    MM_SHORT_SEARCH, /* again: there may be some */
    MM_SHORT_SOME, MM_SHORT_ALL, /* are to be retired: mm_shortage_help */
    MM_SHORT_NONE
};
/* How far a lane is with that. All 0: it has not begun. */
struct mm_shortage {
    struct mm_growth growth;
    uint64_t awaited;
    uint32_t polls, searches, pause;
    int has_looked;
    enum mm_flight flight; /* how its flight has ended, if it had one (mm_shortage_help) */
};

/* The caller found nothing when `before` segments were mapped (mm_grow_mapped), and wants so many segments (wanted: grow.h). */
MM_FN_RARE enum mm_short mm_shortage_step(const struct mm_heap_ref *ref, uint32_t wanted, uint64_t before, struct mm_shortage *s) {
    uint64_t *word = (uint64_t *)ref->giving_up;
    enum mm_flight flight = s->flight;
    s->flight = MM_FLIGHT_NONE;
    if (s->pause != 0) return --s->pause == 0 ? MM_SHORT_SEARCH : MM_SHORT_WAIT;
    if (!s->has_looked) {
        s->has_looked = 1;
        return MM_SHORT_SOME;
    }
    if (flight == MM_FLIGHT_NONE) {
        if (!mm_growth_is_due(&s->growth)) return MM_SHORT_WAIT_HOST;
        const enum mm_grown grown = s->awaited == 0 ? mm_grow_poll(ref, wanted, before, &s->growth) : MM_GROWN_NO;
        if (grown == MM_GROWN_WAIT) return MM_SHORT_WAIT_HOST;
        if (grown == MM_GROWN_MORE) {
            s->has_looked = 0;
            return MM_SHORT_SEARCH;
        }
        flight = s->polls++ < MM_WAIT_ITERATIONS ? mm_flight_begin(word, &s->awaited) : MM_FLIGHT_NOTHING;
    }
    if (flight == MM_FLIGHT_MINE) return MM_SHORT_ALL;
    if (flight == MM_FLIGHT_WAIT) return MM_SHORT_WAIT;
    if (flight == MM_FLIGHT_FOUND) return MM_SHORT_SEARCH;
    if (flight == MM_FLIGHT_NOTHING && ++s->searches >= MM_NULL_TRIES) return MM_SHORT_NONE;
    s->pause = mm_wait_steps(flight == MM_FLIGHT_NOTHING ? 1u << (4 + 2 * s->searches) : MM_SHORT_PAUSE);
    return MM_SHORT_WAIT;
}

/* What the lanes of `here` do for those of them that are short, after each step. All of them call; `is`: what that answered to
 * the caller, or MM_SHORT_WAIT. Returns how many pages the look at some gave back. */
MM_FN_RARE uint32_t mm_shortage_help(const struct mm_heap_ref *ref, uint32_t here, enum mm_short is, struct mm_shortage *s) {
    const uint32_t got = mm_warp_ballot(here, is == MM_SHORT_SOME) != 0 ? mm_slices_retire_some(ref, here) : 0;
    if (mm_warp_ballot(here, is == MM_SHORT_ALL) == 0) return got;
    const int any = mm_slices_retire_all(ref, here);
    if (is == MM_SHORT_ALL) s->flight = mm_flight_end((uint64_t *)ref->giving_up, any);
    return got;
}

/* Waits, longer each time, before the next step, which is only to be taken then. */
MM_FN void mm_shortage_wait(const struct mm_heap_ref *ref, int is_for_host, struct mm_shortage *s) {
    const uint32_t n = mm_at_most(s->polls + 1, MM_WAIT_PAUSE);
    mm_pause(ref, n);
    if (is_for_host) {
        mm_wait_host();
    } else {
        s->polls += n - 1;
        mm_wait();
    }
}

/* The search has to be given up, and may be begun again. */
MM_FN void mm_shortage_end(struct mm_shortage *s) {
    const struct mm_shortage begun = {{0, 0, 0}, 0, 0, 0, 0, 0, MM_FLIGHT_NONE};
    *s = begun;
}

#endif
