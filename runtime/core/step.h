/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Steps: how a lane that has to wait does so without keeping another lane of its warp from what it waits for.
 *
 * A warp goes on with one of its parts until that comes to a barrier or ends: nothing makes it change between lanes that wait and lanes
 * that have work to do (docs/design.md, "Whole warps"). So nothing in this room waits in a loop. What may have to is a function
 * that takes one step and keeps in a struct how far it is; the lanes of a warp that are here together call theirs in turns, in one loop,
 * until all are done (slice.h, run.h). Each wait has a bound, which the function counts.
 *
 * That is enough while a warp is whole. In a program whose own code has let go parts of a warp (volatile accesses and atomics in
 * divergent code do), one part may come here while another stands still in here, at a barrier. So lanes say that they are inside
 * before they may wait (mm_inside_enter); who waits, and finds lanes of its warp inside that are not of its loop, lets them go on
 * (mm_warp_let_go). What that does to a warp has been done to this one already. A number that is wrong, since a warp was moved to
 * another place meanwhile, costs nothing else.
 */
#ifndef MM_CORE_STEP_H
#define MM_CORE_STEP_H

#include "runtime/core/layout.h"

enum mm_step {
    MM_STEP_DONE,
    MM_STEP_WAIT,     /* to be called again: waits for another warp */
    MM_STEP_WAIT_HOST /* the same, for the host */
};

/* The lanes of the caller's warp that take their steps in turns: how many, and the number of the warp. */
struct mm_inside {
    uint16_t lanes, slot;
};
MM_STATIC_ASSERT(MM_WARP_SLOTS <= 1u << 16, "a slot fits");
MM_FN uint32_t *mm_inside_count(const struct mm_heap_ref *ref, uint32_t slot) { return &((struct mm_heap *)ref->heap)->inside[slot]; }
MM_FN struct mm_inside mm_inside_enter(const struct mm_heap_ref *ref, uint32_t here) {
    const struct mm_inside in = {(uint16_t)mm_popcount(here), (uint16_t)mm_warp_slot()};
    if (MM_WARP_ALL != 1u && mm_warp_lane() == mm_ctz(here)) mm_count_u32(mm_inside_count(ref, in.slot), in.lanes);
    return in;
}
MM_FN void mm_inside_leave(const struct mm_heap_ref *ref, struct mm_inside in, uint32_t here) {
    if (MM_WARP_ALL != 1u && mm_warp_lane() == mm_ctz(here)) mm_count_u32(mm_inside_count(ref, in.slot), 0u - in.lanes);
}

/* The same for lanes that draw (slice.h), since others wait for who has drawn: if they are not a whole warp, which has no other lanes
 * that could wait. apart: 0, or the slot + 1. Counted by the first of a group, until they have what they drew for or are inside. */
MM_FN uint32_t mm_inside_apart(uint32_t here) { return here == MM_WARP_ALL ? 0 : mm_warp_slot() + 1; }
MM_FN void mm_inside_count_apart(const struct mm_heap_ref *ref, uint32_t apart, uint32_t lanes) {
    if (MM_WARP_ALL != 1u && apart != 0) mm_count_u32(mm_inside_count(ref, apart - 1), lanes);
}

/* Between two steps of a lane, which counts in *waits how often it has waited. */
MM_FN void mm_step_wait(const struct mm_heap_ref *ref, struct mm_inside in, uint32_t *waits, enum mm_step step) {
    if (step == MM_STEP_DONE) return;
    if (MM_WARP_ALL != 1u && (mm_load_relaxed_u32(mm_inside_count(ref, in.slot)) != in.lanes || ++*waits % MM_LET_GO_STEPS == 0)) mm_warp_let_go();
    if (step == MM_STEP_WAIT) mm_wait();
    if (step == MM_STEP_WAIT_HOST) mm_wait_host();
}

#endif
