/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reserves: where the stripes of a class (stripe.h) get their blocks, by tickets of a ring.
 *
 * Representation. A class has one reserve, its last ring. A lot of it is
 *   some fresh segments: the first of them and how many there are, if they are neighbours, else `blocks` has which of 64; place i is
 *   block i of them all;
 *   or whole blocks of a row of segments: `blocks` has which, a bit each, for as many blocks of each segment as is a power of two;
 *   place i is the i-th of them;
 *   or none, if there was neither.
 * A block that is in a lot is claimed (segment.h), and pins its segment. All else is the ring's (ring.h).
 */
#ifndef MM_CORE_RESERVE_H
#define MM_CORE_RESERVE_H

#include "runtime/core/grow.h"
#include "runtime/core/ring.h"

/* Content of a lot of a reserve: segment | how many fresh ones | whether they are apart. */
#define MM_ROW_SHIFT 20
#define MM_ROW_APART (1ull << (MM_LOT_CONTENT_BITS - 1))
MM_STATIC_ASSERT(MM_TREE_BITS_MAX <= 1u << MM_ROW_SHIFT && MM_ROW_APART >> MM_ROW_SHIFT > 64 && MM_ROW_APART < 1ull << MM_LOT_CONTENT_BITS,
                 "all fit");

/* Whether memory is scarce, with so many free segments left. */
MM_FN int mm_reserve_is_scarce(const struct mm_heap_ref *ref, uint64_t left) {
    return left < mm_load_relaxed_u64(&mm_heap_of(ref)->grow.scarce);
}

/* Segments of a row whose whole blocks are claimed at once. */
MM_FN uint32_t mm_reserve_row(const struct mm_heap_ref *ref, uint32_t c) {
    return 1u << mm_class_at_most(ref->classes[c].row_shift, MM_WHOLE_ROW_SHIFT);
}

/* Segments of the next lot, of a heap that has so many now. */
MM_FN uint32_t mm_reserve_lot(const struct mm_heap_ref *ref, uint32_t c, uint64_t mapped) {
    const uint32_t row = 1u << ref->classes[c].row_shift, part = (uint32_t)(mapped >> MM_GROW_LOT_SHIFT);
    return ref->mailbox == 0 || part >= row ? row : part + (part == 0);
}

/* Looks for a row of segments of whose blocks 3/4 are whole, for who makes the next lot ready. */
MM_FN_RARE void mm_reserve_look(const struct mm_heap_ref *ref, uint32_t c, uint32_t salt) {
    const struct mm_tree whole = mm_segment_class_tree(ref, c, MM_WHOLE);
    const uint32_t row = mm_reserve_row(ref, c);
    uint64_t *found = &mm_heap_of(ref)->classes[c].whole_row;
    uint32_t n = 0, s = mm_load_relaxed_u64(found) == 0 && mm_load_relaxed_u64(whole.node) != 0 ? mm_tree_find(whole, salt) : MM_TREE_NONE;
    if (s == MM_TREE_NONE) return;
    s &= ~(row - 1);
    MM_ROLLED
    for (uint32_t i = 0; i < row; i += MM_GATHERED)
        for (uint32_t k = 0; k < MM_GATHERED; k++) /* under way together */
            if (i + k < row) n += mm_popcount(mm_load_relaxed_u64(&mm_segment_at(ref, s + i + k)->whole));
    if (4 * n >= 3u * row * ref->classes[c].blocks) mm_store_relaxed_u64(found, s + 1);
}

MM_FN struct mm_ring *mm_reserve_ring(const struct mm_heap_ref *ref, uint32_t c) { return mm_ring_at(ref, c, MM_STRIPES); }

/* A block: segment << 6 | number. */
#define MM_BLOCK_NONE 0xffffffffu

#define MM_RESERVE_GATHERED (MM_GATHERED / 2 + MM_GATHERED % 2) /* at once: more would take more of each kernel's stack */
/* Claims all whole blocks of the row of segments that begins at s for class c. Returns them: block j of segment i of the row is
 * bit i * blocks + j. mm_reserve_tidy is to follow. */
MM_FN_RARE uint64_t mm_reserve_gather(const struct mm_heap_ref *ref, uint32_t c, uint32_t s) {
    const uint32_t row = mm_reserve_row(ref, c), bits = ref->classes[c].row_lot_shift - ref->classes[c].row_shift;
    uint64_t blocks = 0;
    MM_ROLLED
    for (uint32_t i = 0; i < row; i += MM_RESERVE_GATHERED) {
        uint64_t got[MM_RESERVE_GATHERED];
        uint32_t owner[MM_RESERVE_GATHERED];
        for (uint32_t k = 0; k < MM_RESERVE_GATHERED; k++) got[k] = i + k < row ? mm_gather_zero(&mm_segment_at(ref, s + i + k)->whole) : 0;
        mm_gather_fence();
        for (uint32_t k = 0; k < MM_RESERVE_GATHERED; k++) /* pinned by the blocks, if there are any */
            owner[k] = got[k] != 0 ? MM_OWNER_KIND(mm_load_relaxed_u64(&mm_segment_at(ref, s + i + k)->owner)) : 0;
        for (uint32_t k = 0; k < MM_RESERVE_GATHERED; k++) {
            if (owner[k] == c + 1) blocks |= got[k] << ((i + k) << bits);
            else if (got[k] != 0) mm_segment_give_back(ref, s + i + k, owner[k] - 1, got[k]);
        }
    }
    return blocks;
}

/* The segments of that row have no whole blocks any more: out of the class's tree with them, unless that has changed. */
MM_FN_RARE void mm_reserve_tidy(const struct mm_heap_ref *ref, uint32_t c, uint32_t s) {
    const uint32_t row = mm_reserve_row(ref, c);
    uint64_t any = 0;
    mm_tree_erase_bits(mm_segment_class_tree(ref, c, MM_WHOLE), s, mm_bits_low(row) << (s % 64));
    MM_ROLLED
    for (uint32_t i = 0; i < row; i += MM_GATHERED)
        for (uint32_t k = 0; k < MM_GATHERED; k++)
            any |= (uint64_t)(i + k < row && mm_load_relaxed_u64(&mm_segment_at(ref, s + i + k)->whole) != 0) << (i + k);
    MM_ROLLED
    for (; any != 0; any &= any - 1) mm_segment_unlist(ref, s + mm_ctz(any), c, MM_WHOLE);
}

/* How far a lane is with the lots that it has to make ready. All 0: it has not begun. */
struct mm_refill {
    uint32_t lots;  /* of its stripe: the late one, the one ahead (stripe.h) */
    uint32_t stage; /* enum mm_refill_stage, of the next of these */
    uint64_t drawn; /* its ticket of the reserve, or MM_TICKET_NONE */
    uint32_t puts;  /* of the lots that this ticket makes it make ready: the late one, the one ahead */
    uint32_t tries, nones, polls;
    struct mm_growth growth;
    int is_to_look; /* it is to look (mm_stripe_look) */
};
enum mm_refill_stage { MM_REFILL_AT_HAND, MM_REFILL_ROOM, MM_REFILL_DRAW };

MM_FN void mm_refill_begin(struct mm_refill *r) {
    r->lots = r->puts = r->tries = r->nones = r->polls = 0, r->stage = MM_REFILL_AT_HAND, r->drawn = 0;
    mm_growth_begin(&r->growth);
    r->is_to_look = 0;
}

/* Whether lot m of a ring can be put: MM_STEP_DONE, or it is to be waited for. *has_room: 0, it took too long: the lot cannot be put, and
 * whoever looks it up gives up as well. */
MM_FN enum mm_step mm_refill_room(struct mm_refill *r, struct mm_ring *ring, uint32_t shift, uint32_t m, int *has_room) {
    *has_room = mm_ring_has_room(ring, shift, m);
    if (!*has_room && ++r->polls < MM_WAIT_ITERATIONS) return MM_STEP_WAIT;
    r->polls = 0;
    return MM_STEP_DONE;
}

/* Claims a row of whole blocks for lot m of the reserve of class c, if one was found, or memory is scarce. Returns them, 0 if none; *s: the
 * row. mm_reserve_fill is to follow. */
MM_FN_RARE uint64_t mm_reserve_row_take(const struct mm_heap_ref *ref, uint32_t c, uint32_t m, uint32_t *s) {
    struct mm_heap *h = mm_heap_of(ref);
    const struct mm_tree whole = mm_segment_class_tree(ref, c, MM_WHOLE);
    const uint64_t found = mm_load_relaxed_u64(&h->classes[c].whole_row);
    uint64_t blocks = 0;
    *s = MM_TREE_NONE;
    if (found != 0) {
        if (mm_cas_acquire_u64(&h->classes[c].whole_row, found, 0)) *s = (uint32_t)found - 1;
    } else if (mm_reserve_is_scarce(ref, mm_load_relaxed_u64(&h->free_count)) && mm_load_relaxed_u64(whole.node) != 0) {
        const uint32_t any = mm_tree_find(whole, m);
        if (any != MM_TREE_NONE) *s = any & ~(mm_reserve_row(ref, c) - 1);
    }
    if (*s != MM_TREE_NONE && (blocks = mm_reserve_gather(ref, c, *s)) == 0) mm_reserve_tidy(ref, c, *s);
    return blocks;
}

/* One step towards lot m of the reserve of class c: the whole blocks `blocks` of the row s, or, if there are none, fresh segments.
 * The caller is to look (mm_stripe_look) when something has come back and the class has grown, or memory
 * is scarce, and as long as that finds whole blocks. */
MM_FN_RARE enum mm_step mm_reserve_fill(const struct mm_heap_ref *ref, uint32_t c, uint32_t m, struct mm_refill *r, uint32_t s,
                                        uint64_t blocks) {
    struct mm_heap *h = mm_heap_of(ref);
    struct mm_ring *ring = mm_reserve_ring(ref, c);
    const struct mm_tree whole = mm_segment_class_tree(ref, c, MM_WHOLE);
    const uint64_t near = mm_load_relaxed_u64(&h->free_near), used = mm_load_relaxed_u64(&h->classes_used);
    const uint64_t left = mm_load_relaxed_u64(&h->free_count);
    const uint64_t segments = mm_load_relaxed_u64(&h->classes[c].segments), looked = mm_load_relaxed_u64(&h->classes[c].looked);
    const uint64_t hints = mm_load_relaxed_u64(whole.node) | mm_load_relaxed_u64(mm_segment_class_tree(ref, c, MM_AVAIL).node);
    uint32_t n = 0, apart = 0;
    const int is_fresh = blocks == 0;
    if (is_fresh) {
        uint64_t there;
        enum mm_grown grown;
        MM_ROLLED
        do {
            there = mm_grow_mapped(ref);
            s = mm_segment_claim_fresh(ref, c, (uint32_t)near, m % MM_RESERVE_SPREAD, mm_reserve_lot(ref, c, there), &blocks);
            grown = s == MM_TREE_NONE ? mm_grow_poll(ref, 1, there, MM_PATIENCE_TICKET, &r->growth) : MM_GROWN_NO;
        } while (grown == MM_GROWN_MORE);
        if (grown == MM_GROWN_WAIT) return MM_STEP_WAIT_HOST;
        if (s != MM_TREE_NONE && !(used >> c & 1)) mm_or_release_u64(&h->classes_used, 1ull << c);
        n = mm_popcount(blocks), apart = blocks >> mm_ctz(blocks | 1ull << 63) != mm_bits_low(n);
        if (!apart) s += mm_ctz(blocks | 1ull << 63);
    }
    mm_store_relaxed_u64(&ring->blocks[m % MM_RING], blocks);
    mm_ring_put(ring, m, blocks == 0 ? MM_LOT_NONE : (apart ? MM_ROW_APART : 0) | (uint64_t)n << MM_ROW_SHIFT | s);
    if (blocks != 0) mm_version_raise(h);
    if (is_fresh) mm_grow_ahead(ref, left > n ? left - n : 0);
    else mm_reserve_tidy(ref, c, s);
    if (is_fresh && (hints == 0 || (segments <= looked + looked / MM_REUSE_LOOKS && !mm_reserve_is_scarce(ref, left)))) return MM_STEP_DONE;
    if (is_fresh) mm_store_relaxed_u64(&h->classes[c].looked, segments + n);
    r->is_to_look = 1;
    return MM_STEP_DONE;
}

/* One step towards lot m of the reserve of class c. */
MM_FN enum mm_step mm_reserve_put(const struct mm_heap_ref *ref, uint32_t c, uint32_t m, struct mm_refill *r) {
    int has_room;
    if (!mm_growth_is_due(&r->growth)) return MM_STEP_WAIT_HOST;
    if (mm_refill_room(r, mm_reserve_ring(ref, c), ref->classes[c].row_lot_shift, m, &has_room) != MM_STEP_DONE) return MM_STEP_WAIT;
    if (!has_room) return MM_STEP_DONE;
    uint32_t s;
    const uint64_t blocks = mm_reserve_row_take(ref, c, m, &s);
    return mm_reserve_fill(ref, c, m, r, s, blocks);
}

MM_FN uint32_t mm_row_first(uint64_t what) { return (uint32_t)what & ((1u << MM_ROW_SHIFT) - 1); }
MM_FN uint32_t mm_row_count(uint64_t what) { return (uint32_t)(what >> MM_ROW_SHIFT) & 127; }
/* The block that place `place` of lot m, which is `what`, of a reserve stands for, if any. */
MM_FN uint32_t mm_reserve_block(struct mm_class class_, struct mm_ring *ring, uint64_t what, uint32_t m, uint32_t place) {
    const uint32_t bits = class_.row_lot_shift - class_.row_shift;
    if (mm_lot_is_none(what)) return MM_BLOCK_NONE;
    const uint32_t first = mm_row_first(what), n = mm_row_count(what), i = place / class_.blocks;
    if (n != 0 && i >= n) return MM_BLOCK_NONE;
    if (n != 0 && !(what & MM_ROW_APART)) return (first + i) << 6 | place % class_.blocks;
    const uint64_t blocks = mm_load_acquire_u64(&ring->blocks[m % MM_RING]); /* before it is counted as taken */
    if (n != 0) return (first + mm_bits_select(blocks, i)) << 6 | place % class_.blocks;
    if (place >= mm_popcount(blocks)) return MM_BLOCK_NONE;
    const uint32_t bit = mm_bits_select(blocks, place);
    return (first + (bit >> bits)) << 6 | (bit & ((1u << bits) - 1));
}

/* One step towards a block of class c, by ticket r->drawn of the reserve if the caller has drawn one already, else MM_TICKET_NONE.
 * *block, when done: it, or MM_BLOCK_NONE. */
#define MM_TICKET_NONE (~0ull)
MM_FN_RARE enum mm_step mm_reserve_draw(const struct mm_heap_ref *ref, uint32_t c, struct mm_refill *r, uint32_t *block) {
    const struct mm_class class_ = ref->classes[c];
    const uint32_t shift = class_.row_lot_shift, ahead = class_.reserve_ahead;
    struct mm_ring *ring = mm_reserve_ring(ref, c);
    *block = MM_BLOCK_NONE;
    MM_ROLLED
    for (; r->tries < MM_TREE_TRIES && r->nones <= ahead; r->tries++) {
        if (r->drawn == MM_TICKET_NONE) r->drawn = mm_ring_draw(ring, 1), r->puts = 0;
        const uint32_t t = (uint32_t)r->drawn, m = t >> shift, place = t & ((1u << shift) - 1);
        MM_ROLLED
        for (; place == 0 && r->puts < 2; r->puts++) {
            if (r->puts == 0 ? !mm_ring_is_late(ring, m, ahead) : ahead == 0) continue;
            const enum mm_step step = mm_reserve_put(ref, c, r->puts == 0 ? m : mm_lot_after(m, ahead, shift), r);
            if (step != MM_STEP_DONE) return step;
        }
        const uint64_t what = mm_ring_poll(ring, m, &r->polls);
        if (what == 0) return MM_STEP_WAIT;
        *block = mm_reserve_block(class_, ring, what, m, place);
        mm_ring_took(ring, m, 1);
        r->drawn = MM_TICKET_NONE;
        if (*block != MM_BLOCK_NONE) return MM_STEP_DONE;
        r->nones += mm_lot_is_none(what);
        mm_ring_skip(ring, shift, m);
    }
    return MM_STEP_DONE;
}

#endif
