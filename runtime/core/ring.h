/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Rings: tickets, and what they are good for, made ready in parallel and ahead of need.
 *
 * Representation. A caller adds the number of pieces it wants to `tickets`; the sum before is its first ticket. Tickets come
 *   in LOTS of 1 << shift: ticket t is place t % (1 << shift) of lot t >> shift. Lot m has slot m % MM_RING:
 *     what    the lot's tag | its content, when it is ready; of an earlier lot, or 0, until then
 *     taken   how many tickets of the slot's lots have been looked up, all lots added up, modulo 2^32 / MM_RING
 *   What a lot consists of, and how many of its tickets are good for something, is the user's (stripe.h, reserve.h).
 * Invariants.
 *   I1  a ticket is drawn by one caller, who looks its lot up and then counts it in taken, once.
 *   I2  lot m is made ready by one caller: who has drawn the first ticket of lot m - ahead; or, if there is no such lot, its
 *       own first one.
 *   I3  a slot is changed only when all tickets of the lot that it had were counted in taken. So whoever has a ticket finds its
 *       lot, or an earlier one and waits: nobody is stale.
 * Linearisation. A ticket: the addition (or, for all that is left of a lot, the compare and swap that jumps to the next).
 * Ordering. A lot is put with release and looked up with acquire; who looked it up counts afterwards, and who puts the next
 *   lot has seen the count.
 * Progress. Who has a ticket waits for who makes its lot ready, and that one for the callers of lot m - MM_RING, all with
 *   smaller tickets: so the oldest never waits. Each wait is at most MM_WAIT_ITERATIONS polls; who gives up has nothing. Nothing here
 *   waits: a caller that would have to returns to the loop in which all lanes of its warp take their steps (slice.h), since
 *   a lane that waits in a loop of its own keeps the others of its warp from going on.
 */
#ifndef MM_CORE_RING_H
#define MM_CORE_RING_H

#include "runtime/core/segment.h"

MM_STATIC_ASSERT(MM_RING > 16 + MM_AHEAD_MAX, "a warp draws 32 tickets, and no lot has less than two");
MM_STATIC_ASSERT(MM_RING > 2 * MM_RESERVE_AHEAD, "what is ahead finds room");

#define MM_LOT_CONTENT ((1ull << MM_LOT_CONTENT_BITS) - 1)
/* Beside the content: not for those who know the plain case only. */
#define MM_LOT_ODD (1ull << 63)
#define MM_LOT_NONE (MM_LOT_ODD | MM_LOT_CONTENT)
MM_STATIC_ASSERT(MM_TREE_BITS_MAX * MM_SEGMENT_BYTES <= 1ull << MM_LOT_CONTENT_BITS, "an offset in the heap is content");

MM_FN struct mm_ring *mm_ring_at(const struct mm_heap_ref *ref, uint32_t c, uint32_t i) {
    return (struct mm_ring *)(ref->rings + (c * MM_RINGS_BYTES + i * (uint32_t)sizeof(struct mm_ring)));
}
/* Of ring i of a class: tickets of a lot, as a shift; lots that are made ready ahead. */
MM_FN uint32_t mm_ring_shift(struct mm_class k, uint32_t i) { return i < MM_STRIPES ? k.lot_shift : k.row_lot_shift; }
MM_FN uint32_t mm_ring_ahead(struct mm_class k, uint32_t i) { return i < MM_STRIPES ? k.ahead : k.reserve_ahead; }
MM_FN struct mm_slot *mm_ring_slot(struct mm_ring *ring, uint32_t m) { return &ring->slot[m % MM_RING]; }

/* The lot n lots after lot m: they begin again with the tickets, which are counted modulo 2^32. */
MM_FN uint32_t mm_lot_after(uint32_t m, uint32_t n, uint32_t shift) { return (m + n) & ~0u >> shift; }
/* What distinguishes a lot from those that its slot had before; never 0, so that only a fresh slot has none. */
MM_FN uint64_t mm_lot_tag(uint32_t m) {
    return ((uint64_t)(m >> MM_RING_SHIFT) << MM_LOT_CONTENT_BITS | MM_LOT_ODD >> 1) & ~MM_LOT_ODD;
}
/* Whether `what` is lot m's. */
MM_FN int mm_lot_is(uint64_t what, uint32_t m) {
    return ((what ^ mm_lot_tag(m)) & ~MM_LOT_ODD) >> MM_LOT_CONTENT_BITS == 0;
}
/* Whether there is nothing in a lot. */
MM_FN int mm_lot_is_none(uint64_t what) { return (what & MM_LOT_NONE) == MM_LOT_NONE; }

/* Whether a lot, its tag aside, is short of some slices, but not of all. */
MM_FN int mm_lot_is_odd(uint64_t what) {
    return what >> MM_LOT_CONTENT_BITS == MM_LOT_ODD >> MM_LOT_CONTENT_BITS && (uint32_t)what != (uint32_t)MM_LOT_NONE;
}

/* Draws n tickets. Returns the first. */
MM_FN uint32_t mm_ring_draw(struct mm_ring *ring, uint32_t n) { return mm_add_relaxed_u32(&ring->tickets, n); }

/* Looks lot m up, of which the caller has a ticket. Returns `what`, or 0 if the lot is not ready. Acquires. */
MM_FN uint64_t mm_ring_try_look(struct mm_ring *ring, uint32_t m) {
    const uint64_t what = mm_load_acquire_u64(&mm_ring_slot(ring, m)->what);
    return mm_lot_is(what, m) ? what : 0;
}
/* The same for a caller that looks again and again: *polls counts that, from 0. An empty lot if it took too long. */
MM_FN uint64_t mm_ring_poll(struct mm_ring *ring, uint32_t m, uint32_t *polls) {
    const uint64_t what = mm_ring_try_look(ring, m);
    if (what == 0 && ++*polls < MM_WAIT_ITERATIONS) return 0;
    *polls = 0;
    return what ? what : MM_LOT_NONE;
}

/* n tickets of lot m have been looked up. */
MM_FN void mm_ring_took(struct mm_ring *ring, uint32_t m, uint32_t n) { mm_count_u32(&mm_ring_slot(ring, m)->taken, n); }

/* Whether lot m can be put, when `taken` is that of its slot: the lot before it there has been looked up by all. */
MM_FN int mm_ring_is_done(uint32_t taken, uint32_t shift, uint32_t m) {
    return (taken - (m >> MM_RING_SHIFT << shift)) << MM_RING_SHIFT == 0;
}
MM_FN int mm_ring_has_room(struct mm_ring *ring, uint32_t shift, uint32_t m) {
    return mm_ring_is_done(mm_load_acquire_u32(&mm_ring_slot(ring, m)->taken), shift, m);
}

/* Lot m is ready. Releases. */
MM_FN void mm_ring_put(struct mm_ring *ring, uint32_t m, uint64_t content) {
    mm_store_release_u64(&mm_ring_slot(ring, m)->what, mm_lot_tag(m) | content);
}

/* Whether who draws the first ticket of lot m has to make it ready: nobody was there to do it ahead. */
MM_FN int mm_ring_is_late(struct mm_ring *ring, uint32_t m, uint32_t ahead) {
    return m < ahead ? mm_load_relaxed_u64(&mm_ring_slot(ring, m)->what) == 0 : ahead == 0;
}

/* Takes what is left of the lot of ticket t, if that is the next ticket. Returns whether it was. */
MM_FN int mm_ring_finish(struct mm_ring *ring, uint32_t shift, uint32_t t) {
    return mm_cas_relaxed_u32(&ring->tickets, t, ((t >> shift) + 1) << shift);
}

/* The caller, who has a ticket of lot m, saw that the rest of it is good for nothing: nobody needs to draw it. */
MM_FN void mm_ring_skip(struct mm_ring *ring, uint32_t shift, uint32_t m) {
    const uint32_t t = mm_load_relaxed_u32(&ring->tickets);
    if (t >> shift == m && (t & ((1u << shift) - 1)) != 0 && mm_ring_finish(ring, shift, t)) mm_ring_took(ring, m, ((m + 1) << shift) - t);
}

#endif
