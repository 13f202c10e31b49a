/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Stripes: how memory of a class is handed out, by tickets of rings (ring.h).
 *
 * Representation. A class has stripes, from which callers draw slices, and a reserve, from which stripes draw blocks; a caller
 *   uses the stripe of its multiprocessor.
 *   lot of a stripe    a block: the byte offset of its first slice in the heap. Odd if it has fewer slices than the lot has
 *                      tickets. Place i is slice i of it.
 *   lot of a reserve   blocks: reserve.h.
 *   either             none: there was no memory, or (stripes) slices that came back are to be used first. Who has a
 *                      ticket of such a lot looks for itself (shortage.h).
 *   opener[s][j] of a block: 0 while it is whole or in a lot of a reserve; then stripe + 1 | its lot << 8.
 * Invariants.
 *   I1  a slice is handed out once: by the ticket of its place, or by who put its block into circulation.
 *       It is 0 in the slice bits until it comes back, so the block cannot become whole, nor the segment nobody's.
 *   I2  unissued (segment.h) has a bit for each block with slices that were not handed out: set before the block is
 *       whole, cleared by whoever draws the block's last slice, before that slice can come back.
 *   I3  the slice bits of a block in a lot of a stripe are 0 before the lot is ready, and opener tells the lot.
 * Free looks whether a slice in a block of unissued has been handed out: not, if the block has no opener, or its lot is not
 *   ready, or its ticket was not drawn.
 */
#ifndef MM_CORE_STRIPE_H
#define MM_CORE_STRIPE_H

#include "runtime/core/block.h"
#include "runtime/core/reserve.h"

#define MM_OPENER_LOT_SHIFT 8
MM_STATIC_ASSERT(MM_STRIPES < 1u << MM_OPENER_LOT_SHIFT, "a stripe + 1 fits");
MM_FN struct mm_class_state *mm_stripe_class(const struct mm_heap_ref *ref, uint32_t c) {
    return &mm_heap_of(ref)->classes[c];
}

/* The last slice of block j of segment s, class c, is being handed out. */
MM_FN_RARE void mm_stripe_issued(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j) {
    mm_and_acq_rel_u64(&mm_segment_at(ref, s)->unissued, ~(1ull << j));
    /* not a load: against mm_block_withdraw, which looks at unissued */
    if (mm_words_some(mm_add_acq_rel_u64(&mm_segment_blocks(ref, s)->words[j], 0)) != 0) mm_block_offer(ref, s, c, j);
}

/* How many of the slices of class c have come back one by one, to be used again, in 1/256: a guess, to which each lane of
 * `group` does its part. */
MM_FN_RARE uint32_t mm_stripe_richness(const struct mm_heap_ref *ref, uint32_t c, uint32_t salt, uint32_t group, uint32_t rank) {
    const struct mm_tree t = mm_segment_class_tree(ref, c, MM_AVAIL);
    if (!mm_warp_shuffle(group, mm_load_relaxed_u64(t.node) != 0, mm_ctz(group))) return 0;
    uint32_t segments = 0, back = 0; /* added up over the samples: segments with some, slices of one of them */
    MM_ROLLED
    for (uint32_t tries = rank; tries < MM_REUSE_TRIES; tries += mm_popcount(group)) {
        const uint32_t x = mm_tree_random(salt * MM_REUSE_TRIES + tries);
        const uint32_t s = mm_tree_any(t, x, &segments);
        if (s == MM_TREE_NONE) continue;
        const uint64_t avail = mm_load_relaxed_u64(&mm_segment_at(ref, s)->avail);
        const uint64_t unissued = mm_load_relaxed_u64(&mm_segment_at(ref, s)->unissued);
        if (avail == 0) {
            mm_segment_unlist(ref, s, c, MM_AVAIL);
            continue;
        }
        const uint32_t j = mm_bits_any(avail, x << 18);
        if (j >= ref->classes[c].blocks || unissued >> j & 1) continue; /* another class's by now, or whole */
        const uint32_t word = mm_block_first_word(ref->classes[c], j) + x % mm_class_block_words(ref->classes[c], j);
        back += mm_popcount(avail) * mm_popcount(mm_load_relaxed_u64(mm_segment_bits(ref, s) + word));
    }
    mm_warp_sync(group);
    segments = mm_warp_sum(group, segments);
    back = mm_warp_sum(group, back);
    const uint32_t all = (uint32_t)mm_load_relaxed_u64(&mm_stripe_class(ref, c)->segments);
    const uint32_t per_segment = ref->classes[c].blocks * mm_popcount(mm_class_word_mask(ref->classes[c], 0)); /* as `back` counts them */
    return all == 0 ? 0 : (segments * 256 / MM_REUSE_TRIES / all) * (back * 256 / MM_REUSE_TRIES / per_segment) >> 8;
}

/* Looks how many slices of class c have come back, for who refills next. Takes its time: nobody should wait for `group`. */
MM_FN_RARE void mm_stripe_look(const struct mm_heap_ref *ref, uint32_t c, uint32_t salt, uint32_t group, uint32_t rank) {
    uint64_t *rich = &mm_stripe_class(ref, c)->rich;
    if (rank == 0) mm_reserve_look(ref, c, salt);
    mm_warp_sync(group);
    const uint32_t was = mm_warp_shuffle(group, (uint32_t)mm_load_relaxed_u64(rich), mm_ctz(group));
    const uint32_t is = mm_stripe_richness(ref, c, salt + was * MM_STRIPES, group, rank); /* not the same places each time */
    if (is != was && rank == 0)
        mm_store_relaxed_u64(rich, is > was ? is : was - (was - is + MM_REUSE_DECAY - 1) / MM_REUSE_DECAY);
}

/* Whether slices that came back are to be used before class c gets more memory. Not if they are fewer than its stripes may hold
 * anyway: to be had one by one they cost more than they are worth. */
MM_FN int mm_stripe_is_thrifty(const struct mm_heap_ref *ref, uint32_t c) {
    struct mm_class_state *cs = mm_stripe_class(ref, c);
    const uint64_t rich = mm_load_relaxed_u64(&cs->rich), segments = mm_load_relaxed_u64(&cs->segments);
    const uint64_t left = mm_load_relaxed_u64(&mm_heap_of(ref)->free_count);
    const struct mm_class class_ = ref->classes[c];
    const uint64_t held = (uint64_t)(class_.stripe_mask + 1u) * (class_.ahead + 1u) * mm_class_block_slices(class_, 0) * MM_REUSE_HELD;
    if (rich * MM_REUSE_SHARE >= 256 && rich * segments * class_.slices >= 256 * held) return 1;
    return rich * MM_REUSE_SHARE_SCARCE >= 256 && mm_reserve_is_scarce(ref, left);
}

/* ---- Stripes ---------------------------------------------------------------------------------------- */

/* Puts a block (segment << 6 | number), all of whose slices are free, as lot m of stripe k of class c. */
MM_FN void mm_stripe_open(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t m, uint32_t block) {
    mm_zero(mm_segment_bits(ref, block >> 6) + mm_block_first_word(ref->classes[c], block & 63),
            mm_class_block_words(ref->classes[c], block & 63));
    block = mm_anew(block), c = mm_anew(c);
    mm_store_relaxed_u32(&mm_segment_blocks(ref, block >> 6)->opener[block & 63], (k + 1) | m << MM_OPENER_LOT_SHIFT);
    block = mm_anew(block), c = mm_anew(c);
    const uint64_t off = ((uint64_t)(block >> 6) << MM_SEGMENT_SHIFT) +
                         (uint64_t)((block & 63) << ref->classes[c].block_shift) * ref->classes[c].bytes;
    const int is_short = mm_class_block_slices(ref->classes[c], block & 63) != 1u << ref->classes[c].lot_shift;
    mm_ring_put(mm_ring_at(ref, c, k), m, off + (is_short ? MM_LOT_ODD : 0));
    mm_version_raise(mm_heap_of(ref));
}

/* Makes lot m of stripe k of class c ready if the reserve has a block at hand, of fresh segments. Returns
 * MM_PUT_DONE, or what mm_stripe_put needs to know: a ticket of the reserve, or MM_TICKET_NONE. Small and without calls: tens of
 * thousands of slices wait for it, and each instruction of it takes 20 cycles when all warps are busy. */
#define MM_PUT_DONE (~1ull)
MM_FN_LEAF uint64_t mm_stripe_try_put(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t m) {
    const uint32_t shift = ref->classes[c].lot_shift;
    const uint32_t taken = mm_load_relaxed_u32(&mm_ring_slot(mm_ring_at(ref, c, k), m)->taken); /* under way together with the next */
    const uint32_t rich = (uint32_t)mm_load_relaxed_u64(&mm_stripe_class(ref, c)->rich);
    const uint32_t left = (uint32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->free_count);
    const uint32_t scarce = (uint32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->grow.scarce);
    const uint32_t share = left < scarce ? MM_REUSE_SHARE_SCARCE : MM_REUSE_SHARE;
    if (!MM_LIKELY(rich * share < 256 && mm_ring_is_done(taken, shift, m))) return MM_TICKET_NONE;
    struct mm_ring *ring = mm_reserve_ring(ref, c);
    const uint32_t t = mm_ring_draw(ring, 1), lot = t >> ref->classes[c].row_lot_shift, place = t - (lot << ref->classes[c].row_lot_shift);
    const uint64_t what = mm_load_acquire_u64(&mm_ring_slot(ring, lot)->what) ^ mm_lot_tag(lot);
    const uint32_t n = place * ref->classes[c].row_reciprocal >> MM_ROW_RECIPROCAL_SHIFT; /* place / blocks */
    if (!MM_LIKELY(place != 0 && what >> MM_LOT_CONTENT_BITS == 0 && n < mm_row_count(what))) return t;
    uint32_t s = mm_row_first(what) + n;
    if (!MM_LIKELY(!(what & MM_ROW_APART))) s += mm_bits_select(mm_load_acquire_u64(&ring->blocks[lot % MM_RING]), n) - n;
    mm_ring_took(ring, lot, 1);
    mm_stripe_open(ref, mm_anew(c), mm_anew(k), mm_anew(m), mm_anew(s << 6 | (place - n * ref->classes[c].blocks)));
    return MM_PUT_DONE;
}

/* One step towards lot m of stripe k of class c, whatever it takes, after mm_stripe_try_put. */
MM_FN_RARE enum mm_step mm_stripe_put(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t m, struct mm_refill *r) {
    struct mm_ring *ring = mm_ring_at(ref, c, k);
    uint32_t block = MM_BLOCK_NONE;
    if (r->stage == MM_REFILL_ROOM) {
        int has_room;
        if (mm_refill_room(r, ring, ref->classes[c].lot_shift, m, &has_room) != MM_STEP_DONE) return MM_STEP_WAIT;
        if (!has_room) return MM_STEP_DONE;
        if (mm_stripe_is_thrifty(ref, c)) {
            mm_ring_put(ring, m, MM_LOT_NONE);
            return MM_STEP_DONE;
        }
        r->stage = MM_REFILL_DRAW;
    }
    const enum mm_step step = mm_reserve_draw(ref, c, r, &block);
    if (step != MM_STEP_DONE) return step;
    if (block == MM_BLOCK_NONE) mm_ring_put(ring, m, MM_LOT_NONE);
    else mm_stripe_open(ref, c, k, m, block);
    return MM_STEP_DONE;
}

/* One step towards lot m of stripe k of class c. */
MM_FN enum mm_step mm_stripe_make(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t m, struct mm_refill *r) {
    if (r->stage == MM_REFILL_AT_HAND) {
        r->drawn = mm_stripe_try_put(ref, c, k, m);
        if (r->drawn == MM_PUT_DONE) return MM_STEP_DONE;
        r->stage = r->drawn == MM_TICKET_NONE ? MM_REFILL_ROOM : MM_REFILL_DRAW;
        r->tries = r->nones = r->puts = 0;
    }
    const enum mm_step step = mm_stripe_put(ref, c, k, m, r);
    if (step == MM_STEP_DONE) r->stage = MM_REFILL_AT_HAND;
    return step;
}

/* One step of a lane that has drawn ticket t of stripe k: makes ready what it has to, if anything. */
MM_FN enum mm_step mm_stripe_begin(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t t, struct mm_refill *r) {
    const uint32_t shift = ref->classes[c].lot_shift, ahead = ref->classes[c].ahead, m = t >> shift;
    if ((t & ((1u << shift) - 1)) != 0) return MM_STEP_DONE;
    MM_ROLLED
    for (; r->lots < 2; r->lots++) {
        if (r->lots == 0 ? !mm_ring_is_late(mm_ring_at(ref, c, k), m, ahead) : ahead == 0) continue;
        const enum mm_step step = mm_stripe_make(ref, c, k, r->lots == 0 ? m : mm_lot_after(m, ahead, shift), r);
        if (step != MM_STEP_DONE) return step;
    }
    return MM_STEP_DONE;
}

/* The block of a stripe's lot: segment << 6 | number. */
MM_FN uint32_t mm_stripe_block(struct mm_class class_, uint64_t what) {
    const uint64_t off = what & MM_LOT_CONTENT;
    const uint32_t in = (uint32_t)off & (uint32_t)(MM_SEGMENT_BYTES - 1);
    return (uint32_t)(off >> MM_SEGMENT_SHIFT) << 6 | mm_class_number(class_, in) >> class_.block_shift;
}

/* What ticket t of stripe k, of a lot that is `what`, is good for, after mm_stripe_begin: the byte offset of a slice in the heap, or
 * MM_PIECE_NONE: nothing, the caller has to look for itself; or MM_PIECE_VOID: nothing, another ticket will do. The caller
 * then counts it in taken. */
#define MM_PIECE_NONE (~0ull)
#define MM_PIECE_VOID (~1ull)
MM_FN uint64_t mm_stripe_piece(const struct mm_heap_ref *ref, uint32_t c, uint32_t t, uint64_t what) {
    const struct mm_class class_ = ref->classes[c];
    const uint32_t place = t & ((1u << class_.lot_shift) - 1);
    if (mm_lot_is_none(what)) return MM_PIECE_NONE;
    const uint32_t block = mm_stripe_block(class_, what), s = block >> 6, j = block & 63, n = mm_class_block_slices(class_, j);
    if (place == n - 1) mm_stripe_issued(ref, s, c, j);
    return place < n ? (what & MM_LOT_CONTENT) + (uint64_t)place * class_.bytes : MM_PIECE_VOID;
}

/* Slice i of segment s, class c, lies in a block of unissued. Returns 0 if it has been handed out, or what is wrong
 * with freeing it. */
MM_FN int mm_stripe_misuse(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t i) {
    const struct mm_class class_ = ref->classes[c];
    const uint32_t opener = mm_load_relaxed_u32(&mm_segment_blocks(ref, s)->opener[i >> class_.block_shift]);
    if (opener == 0) return MM_MISUSE_NOT_ALLOCATED;
    const uint32_t lot = opener >> MM_OPENER_LOT_SHIFT, shift = class_.lot_shift;
    struct mm_ring *ring = mm_ring_at(ref, c, (opener & ((1u << MM_OPENER_LOT_SHIFT) - 1)) - 1);
    const uint32_t tag = mm_anew((uint32_t)(mm_load_acquire_u64(&mm_ring_slot(ring, lot)->what) >> 32));
    const uint32_t tickets = mm_load_relaxed_u32(&ring->tickets), ticket = (lot << shift) + (i & ((1u << class_.block_shift) - 1));
    /* The lot is known modulo 2^24, and there are 2^(32 - shift); the ticket accordingly. None that are compared are further apart
     * than the ring. */
    const uint32_t up = shift < MM_OPENER_LOT_SHIFT ? MM_OPENER_LOT_SHIFT - shift : 0;
    const uint32_t since = (tag >> (MM_LOT_CONTENT_BITS - 32)) - (uint32_t)(mm_lot_tag(lot) >> MM_LOT_CONTENT_BITS);
    if (tag == 0 || (int32_t)(since << (MM_RING_SHIFT + shift + up)) < 0) return MM_MISUSE_NOT_ALLOCATED; /* not ready */
    return (int32_t)((tickets - ticket) << up) > 0 ? 0 : MM_MISUSE_NEVER;
}

#endif
