/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* MM_TRACE: notes each malloc and free, in the order in which they happened, for a replay (docs/reference/traces.md). The fast path has no instruction for it
 * (closed.h). The host's side is runtime/host/trace.c.
 *
 * Representation. Device memory next to the heap: struct mm_trace, with a place for each of the first `room` events. `count` numbers the events; those with
 *   later numbers are only counted. An event is complete if its word `what` is not 0. The host adds
 *   one for mm_reset, while no kernel runs.
 * Invariant. Of one address the events have the order of the calls. malloc draws its number after it has the memory, and free before it gives the memory back. If
 *   free gives p back and a later malloc returns p, its acquire of the memory pairs with free's release, so free's draw happens before malloc's, and has the lower
 *   number: the two are read-modify-writes of one word.
 * Linearisation point. The addition to `count`, once for all lanes that are converged there.
 * Progress. No thread waits.
 * Stale. Nothing: the host reads the events after the kernels have ended. A kernel that was stopped by a fault leaves incomplete events.
 */
#ifndef MM_CHECKED_TRACE_H
#define MM_CHECKED_TRACE_H

#include "runtime/core/layout.h"
#include "runtime/port.h"

MM_FN struct mm_trace *mm_trace_of(const struct mm_heap_ref *ref) { return (struct mm_trace *)ref->trace; }

/* Draws as many consecutive numbers as there are lanes here; returns the caller's. */
MM_FN uint64_t mm_trace_draw(uint64_t *count, uint64_t same) {
    const uint32_t group = mm_warp_group(same >> 63), leader = mm_ctz(group);
    uint64_t number = 0;
    if (mm_warp_lane() == leader) number = mm_add_relaxed_u64(count, mm_popcount(group));
    mm_warp_sync(group);
    return mm_warp_shuffle_u64(group, number, leader) + mm_popcount(group & mm_bits_low(mm_warp_lane()));
}

/* Notes an event at `address`, and returns that, so that the caller keeps nothing. kind: with the logarithm of the alignment, see struct mm_trace_event. */
MM_FN_RARE uint64_t mm_trace_note(const struct mm_heap_ref *ref, uint64_t address, uint64_t bytes, uint32_t kind) {
    struct mm_trace *t = mm_trace_of(ref);
    const uint64_t number = mm_trace_draw(&t->count, address);
    if (number >= t->room) return address;
    struct mm_trace_event *e = &t->events[number];
    mm_store_two(&e->address, address, bytes);
    mm_store_two(&e->cta, mm_cta_number(), mm_grid() << MM_TRACE_GRID_SHIFT | (uint64_t)mm_thread_number() << MM_TRACE_THREAD_SHIFT | kind);
    return address;
}

#endif
