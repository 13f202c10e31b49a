/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shortage: what malloc does when there are no pages, or too few consecutive segments, before it returns NULL. In this order:
 *
 *   1. Some random segments of the heap are examined for blocks whose slices are all free (mm_slices_retire_some), so that a class gives pages back that it no
 *      longer needs before the heap grows. Of many warps that do so at once, most lose to another one. So a warp that found none searches again if others gave
 *      pages back meanwhile, up to MM_SHORT_AGAIN times.
 *   2. The host is asked for more memory.
 *   3. The trees of segments are mended, so that no suspended thread hides free segments or pages (tree.h), and all blocks whose slices are all free are
 *      retired. Single-flight (single_flight.h).
 * After each step that found something malloc searches again. It returns NULL after MM_NULL_TRIES rounds of step 3, with pauses between, found nothing.
 */
#ifndef MM_CORE_SHORTAGE_H
#define MM_CORE_SHORTAGE_H

#include "runtime/core/grow.h"
#include "runtime/core/single_flight.h"

/* Provided by the slice allocator (gallatin/retire.h). All lanes of `here` call. retire_some returns the number of pages that came back; *is_busy: other
 * warps were retiring what it found. retire_all returns whether any came back, and lets waiters know as soon as one did (mm_flight_found_some). */
MM_FN_RARE uint32_t mm_slices_retire_some(const struct mm_heap_ref *ref, uint32_t here, int *is_busy);
MM_FN_RARE int mm_slices_retire_all(const struct mm_heap_ref *ref, uint32_t here);

enum mm_short {
    MM_SHORT_WAIT,
    MM_SHORT_WAIT_HOST, /* and call again */
    MM_SHORT_SEARCH,    /* search again: there may be memory */
    MM_SHORT_SOME,
    MM_SHORT_ALL, /* mm_shortage_help must retire blocks */
    MM_SHORT_NONE
};
/* The progress of a lane. */
struct mm_shortage {
    struct mm_growth growth;
    uint64_t awaited;
    uint64_t retired; /* mm_heap.retired before step 1; ~0: other warps were busy with that */
    uint32_t polls, searches, pause, again;
    int has_looked;
    enum mm_flight flight; /* how its flight has ended, if it had one (mm_shortage_help) */
};
#define MM_SHORTAGE_NONE \
    { {0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, MM_FLIGHT_NONE } /* not begun */

/* Whether other warps have given pages back since this one looked for some, and it did not find any. */
MM_FN int mm_shortage_is_late(const struct mm_heap_ref *ref, struct mm_shortage *s) {
    const int is_asked = s->growth.polls != 0 || s->awaited != 0; /* steps 2 and 3 have begun */
    return !is_asked && s->retired != mm_load_relaxed_u64(&mm_heap_of(ref)->retired) && s->again++ < MM_SHORT_AGAIN;
}

/* Leaves step 1 out, for a caller to whom some free segments are of no use. */
MM_FN void mm_shortage_leave_some(struct mm_shortage *s) { s->has_looked = 1, s->again = MM_SHORT_AGAIN; }

/* One step. The caller found nothing when `before` segments were mapped (mm_grow_mapped); wanted: its request (grow.h). */
MM_FN_RARE enum mm_short mm_shortage_step(const struct mm_heap_ref *ref, uint32_t wanted, uint64_t before, struct mm_shortage *s) {
    uint64_t *word = (uint64_t *)ref->giving_up;
    enum mm_flight flight = s->flight;
    s->flight = MM_FLIGHT_NONE;
    if (s->pause != 0) return --s->pause == 0 ? MM_SHORT_SEARCH : MM_SHORT_WAIT;
    if (!s->has_looked) {
        s->has_looked = 1;
        s->retired = mm_load_relaxed_u64(&mm_heap_of(ref)->retired);
        return MM_SHORT_SOME;
    }
    if (flight == MM_FLIGHT_NONE && mm_shortage_is_late(ref, s)) {
        s->has_looked = 0;
        return MM_SHORT_SEARCH;
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
    s->pause = mm_wait_steps(flight == MM_FLIGHT_NOTHING ? 1u << (1 + 2 * s->searches) : MM_SHORT_PAUSE);
    return MM_SHORT_WAIT;
}

/* Step 1 or 3 for the lanes of `here` that need it, after each step. All lanes of `here` call; `is`: the result of the caller's step, or MM_SHORT_WAIT.
 * Returns the number of pages that mm_slices_retire_some got back. */
MM_FN_RARE uint32_t mm_shortage_help(const struct mm_heap_ref *ref, uint32_t here, enum mm_short is, struct mm_shortage *s) {
    int is_busy = 0;
    const uint32_t got = mm_warp_ballot(here, is == MM_SHORT_SOME) != 0 ? mm_slices_retire_some(ref, here, &is_busy) : 0;
    if (is_busy) s->retired = ~0ull;
    if (mm_warp_ballot(here, is == MM_SHORT_ALL) == 0) return got;
    const int was_hidden = mm_trees_mend(ref, here), any = mm_slices_retire_all(ref, here) || was_hidden;
    if (is == MM_SHORT_ALL) s->flight = mm_flight_end((uint64_t *)ref->giving_up, any);
    return got;
}

/* Pauses before the next step, longer each time. */
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

/* Gives the search up; it may begin anew. */
MM_FN void mm_shortage_end(struct mm_shortage *s) {
    const struct mm_shortage none = MM_SHORTAGE_NONE;
    *s = none;
}

#endif
