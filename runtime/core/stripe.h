/* Stripes and reserves: how memory of a class is handed out, by tickets of rings (ring.h).
 *
 * Representation. A class has stripes, from which callers draw slices, and a reserve, from which stripes draw blocks; a caller
 *   uses the stripe of its multiprocessor.
 *   lot of a stripe    a block: the byte offset of its first slice in the heap. Odd if it has fewer slices than the lot has
 *                      tickets. Place i is slice i of it.
 *   lot of a reserve   some fresh segments: the first of them and how many there are, if they are neighbours, else `blocks` has which
 *                      of 64; place i is block i of them all. Or whole blocks of a row of segments: `blocks` has which, a bit
 *                      each, for as many blocks of each segment as is a power of two; place i is the i-th of them.
 *   either             none: there was no memory, or (stripes) slices that came back are to be used first. Who has a
 *                      ticket of such a lot looks for itself (mm_stripe_find).
 *   opener[s][j] of a block: 0 while it is whole or in a lot of a reserve; then stripe + 1 | its lot << 8.
 * Invariants.
 *   I1  a slice is handed out once: by the ticket of its place, or by who put its block into circulation.
 *       It is 0 in the slice bits until it comes back, so the block cannot become whole, nor the segment nobody's.
 *   I2  unissued (segment.h) has a bit for each block with slices that were not handed out: set before the block is
 *       whole, cleared by whoever draws the block's last slice, before that slice can come back.
 *   I3  the slice bits of a block in a lot of a stripe are 0 before the lot is ready, and opener tells the lot.
 * Free looks whether a slice in a block of unissued has been handed out: not, if the block has no opener, or its lot is not
 *   ready, or its ticket was not drawn.
 * Memory that is short. Lots are made ready from fresh segments and whole blocks only, without haste. Who finds nothing in
 *   them searches: slices that came back; whole blocks and segments, of which it puts one block into circulation (all of it
 *   handed out, and what the caller does not need has come back); then the stripes and reserves of all classes are flushed.
 *   One caller of a class at a time puts a block into circulation, or each of hundreds would, for a few slices each, and one at
 *   a time flushes; the others look for slices meanwhile, as long as a wait may take.
 * NULL. Only after MM_NULL_TRIES such searches with a wait between, twice as long each time, each of which found nothing.
 *   `dry` keeps the version of the supply (tree.h) if it stood still meanwhile: then two searches with one wait between are
 *   enough for those who come later.
 */
#ifndef MM_CORE_STRIPE_H
#define MM_CORE_STRIPE_H

#include "runtime/core/block.h"
#include "runtime/core/ring.h"

/* Content of a lot of a reserve: segment | how many fresh ones | whether they are apart. */
#define MM_ROW_SHIFT 20
#define MM_ROW_APART (1ull << (MM_LOT_CONTENT_BITS - 1))
MM_STATIC_ASSERT(MM_TREE_BITS_MAX <= 1u << MM_ROW_SHIFT && MM_ROW_APART >> MM_ROW_SHIFT > 64 && MM_ROW_APART < 1ull << MM_LOT_CONTENT_BITS, "all fit");
#define MM_OPENER_LOT_SHIFT 8
MM_STATIC_ASSERT(MM_STRIPES < 1u << MM_OPENER_LOT_SHIFT, "a stripe + 1 fits");
MM_FN struct mm_class_state *mm_stripe_class(const struct mm_heap_ref *ref, uint32_t c) {
    return &mm_heap_of(ref)->classes[c];
}

/* The last slice of block j of segment s, class c, is being handed out. */
MM_FN_RARE void mm_stripe_issued(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j) {
    struct mm_segment *at = mm_segment_at(ref, s);
    mm_and_acq_rel_u64(&at->unissued, ~(1ull << j));
    /* not a load: against mm_block_withdraw, which looks at unissued */
    if (mm_words_some(mm_add_acq_rel_u64(&at->words[j], 0)) != 0) mm_block_offer(ref, s, c, j);
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

/* Segments of a row whose whole blocks are claimed at once. */
MM_FN uint32_t mm_reserve_row(const struct mm_heap_ref *ref, uint32_t c) {
    return 1u << mm_class_at_most(ref->classes[c].row_shift, MM_WHOLE_ROW_SHIFT);
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
    return rich * MM_REUSE_SHARE_SCARCE >= 256 && left * MM_SCARCE < ref->mapped_count;
}

/* ---- Reserves --------------------------------------------------------------------------------------- */

MM_FN struct mm_ring *mm_reserve_ring(const struct mm_heap_ref *ref, uint32_t c) { return mm_ring_at(ref, c, MM_STRIPES); }

/* A block: segment << 6 | number. */
#define MM_BLOCK_NONE 0xffffffffu

/* Claims all whole blocks of the row of segments that begins at s for class c. Returns them: block j of segment i of the row is
 * bit i * blocks + j. mm_reserve_tidy is to follow. */
MM_FN_RARE uint64_t mm_reserve_gather(const struct mm_heap_ref *ref, uint32_t c, uint32_t s) {
    const uint32_t row = mm_reserve_row(ref, c), bits = ref->classes[c].row_lot_shift - ref->classes[c].row_shift;
    uint64_t blocks = 0;
    MM_ROLLED
    for (uint32_t i = 0; i < row; i += MM_GATHERED) {
        uint64_t got[MM_GATHERED];
        uint32_t owner[MM_GATHERED];
        for (uint32_t k = 0; k < MM_GATHERED; k++) got[k] = i + k < row ? mm_gather_zero(&mm_segment_at(ref, s + i + k)->whole) : 0;
        mm_gather_fence();
        for (uint32_t k = 0; k < MM_GATHERED; k++) /* pinned by the blocks, if there are any */
            owner[k] = got[k] != 0 ? MM_OWNER_KIND(mm_load_relaxed_u64(&mm_segment_at(ref, s + i + k)->owner)) : 0;
        for (uint32_t k = 0; k < MM_GATHERED; k++) {
            if (owner[k] == c + 1) blocks |= got[k] << ((i + k) << bits);
            else if (got[k] != 0) mm_segment_give_back(ref, s + i + k, owner[k] - 1, got[k]);
        }
    }
    return blocks;
}

/* The segments of that row have no whole blocks any more: out of the class's tree with them, unless that has changed (segment.h). */
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

/* Makes lot m of the reserve of class c ready: whole blocks of the class, or else fresh segments.
 * Returns whether the caller is to look (mm_stripe_look): when the class has grown, or memory is scarce, and as long as that
 * finds whole blocks. */
MM_FN_RARE int mm_reserve_put(const struct mm_heap_ref *ref, uint32_t c, uint32_t m) {
    struct mm_heap *h = mm_heap_of(ref);
    struct mm_ring *ring = mm_reserve_ring(ref, c);
    const struct mm_tree whole = mm_segment_class_tree(ref, c, MM_WHOLE);
    const uint64_t near = mm_load_relaxed_u64(&h->free_near), used = mm_load_relaxed_u64(&h->classes_used);
    const uint64_t left = mm_load_relaxed_u64(&h->free_count), found = mm_load_relaxed_u64(&h->classes[c].whole_row);
    const uint64_t segments = mm_load_relaxed_u64(&h->classes[c].segments), looked = mm_load_relaxed_u64(&h->classes[c].looked);
    const struct mm_class class_ = ref->classes[c];
    const uint32_t row = mm_reserve_row(ref, c);
    uint32_t s = MM_TREE_NONE, n = 0, apart = 0;
    uint64_t blocks = 0;
    if (!mm_ring_await(ring, class_.row_lot_shift, m)) return 0;
    if (found != 0) {
        if (mm_cas_acquire_u64(&h->classes[c].whole_row, found, 0)) s = (uint32_t)found - 1;
    } else if (left * MM_SCARCE < ref->mapped_count && mm_load_relaxed_u64(whole.node) != 0) {
        const uint32_t any = mm_tree_find(whole, m);
        if (any != MM_TREE_NONE) s = any & ~(row - 1);
    }
    if (s != MM_TREE_NONE && (blocks = mm_reserve_gather(ref, c, s)) == 0) mm_reserve_tidy(ref, c, s);
    const int is_fresh = blocks == 0;
    if (is_fresh) {
        s = mm_segment_claim_fresh(ref, c, (uint32_t)near, m % MM_RESERVE_SPREAD, 1u << class_.row_shift, &blocks);
        if (s != MM_TREE_NONE && !(used >> c & 1)) mm_or_release_u64(&h->classes_used, 1ull << c);
        n = mm_popcount(blocks), apart = blocks >> mm_ctz(blocks | 1ull << 63) != mm_bits_low(n);
        if (!apart) s += mm_ctz(blocks | 1ull << 63);
    }
    mm_store_relaxed_u64(&ring->blocks[m % MM_RING], blocks);
    mm_ring_put(ring, m, blocks == 0 ? MM_LOT_NONE : (apart ? MM_ROW_APART : 0) | (uint64_t)n << MM_ROW_SHIFT | s);
    if (blocks != 0) mm_version_raise(h);
    if (!is_fresh) mm_reserve_tidy(ref, c, s);
    if (is_fresh && segments <= looked + looked / MM_REUSE_LOOKS && left * MM_SCARCE >= ref->mapped_count) return 0;
    if (is_fresh) mm_store_relaxed_u64(&h->classes[c].looked, segments + n);
    return 1;
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

/* Draws a block of class c, by ticket `drawn` of the reserve if the caller has drawn that already, else MM_TICKET_NONE.
 * Returns it, or MM_BLOCK_NONE. *is_to_look: whether the caller is to look (mm_reserve_put). */
#define MM_TICKET_NONE (~0ull)
MM_FN_RARE uint32_t mm_reserve_draw(const struct mm_heap_ref *ref, uint32_t c, uint64_t drawn, int *is_to_look) {
    const struct mm_class class_ = ref->classes[c];
    const uint32_t shift = class_.row_lot_shift, ahead = class_.reserve_ahead;
    struct mm_ring *ring = mm_reserve_ring(ref, c);
    uint32_t nones = 0;
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_TREE_TRIES && nones <= ahead; tries++) {
        const uint32_t t = drawn == MM_TICKET_NONE ? mm_ring_draw(ring, 1) : (uint32_t)drawn, m = t >> shift, place = t & ((1u << shift) - 1);
        drawn = MM_TICKET_NONE;
        if (place == 0) {
            if (mm_ring_is_late(ring, m, ahead)) *is_to_look |= mm_reserve_put(ref, c, m);
            if (ahead) *is_to_look |= mm_reserve_put(ref, c, mm_lot_after(m, ahead, shift));
        }
        const uint64_t what = mm_ring_look(ring, m);
        const uint32_t block = mm_reserve_block(class_, ring, what, m, place);
        mm_ring_took(ring, m, 1);
        if (block != MM_BLOCK_NONE) return block;
        nones += mm_lot_is_none(what);
        mm_ring_skip(ring, shift, m);
    }
    return MM_BLOCK_NONE;
}

/* ---- Stripes ---------------------------------------------------------------------------------------- */

/* Puts a block (segment << 6 | number), all of whose slices are free, as lot m of stripe k of class c. */
MM_FN void mm_stripe_open(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t m, uint32_t block) {
    mm_zero(mm_segment_bits(ref, block >> 6) + mm_block_first_word(ref->classes[c], block & 63), mm_class_block_words(ref->classes[c], block & 63));
    block = mm_anew(block), c = mm_anew(c);
    mm_store_relaxed_u32(&mm_segment_at(ref, block >> 6)->opener[block & 63], (k + 1) | m << MM_OPENER_LOT_SHIFT);
    block = mm_anew(block), c = mm_anew(c);
    const uint64_t off = ((uint64_t)(block >> 6) << MM_SEGMENT_SHIFT) + (uint64_t)((block & 63) << ref->classes[c].block_shift) * ref->classes[c].bytes;
    mm_ring_put(mm_ring_at(ref, c, k), m, off + (mm_class_block_slices(ref->classes[c], block & 63) != 1u << ref->classes[c].lot_shift ? MM_LOT_ODD : 0));
    mm_version_raise(mm_heap_of(ref));
}

/* Makes lot m of stripe k of class c ready if the reserve has a block at hand, of fresh segments. Returns
 * MM_PUT_DONE, or what mm_stripe_put needs to know: a ticket of the reserve, or MM_TICKET_NONE. Small and without calls: tens of
 * thousands of slices wait for it, and each instruction of it takes 20 cycles when all warps are busy. */
#define MM_PUT_DONE (~1ull)
MM_FN_LEAF uint64_t mm_stripe_try_put(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t m) {
    const uint32_t shift = ref->classes[c].lot_shift;
    const uint32_t taken = mm_load_relaxed_u32(&mm_ring_slot(mm_ring_at(ref, c, k), m)->taken); /* under way together with the next */
    const uint32_t rich = (uint32_t)mm_load_relaxed_u64(&mm_stripe_class(ref, c)->rich), left = (uint32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->free_count);
    const uint32_t share = left * MM_SCARCE < (uint32_t)ref->mapped_count ? MM_REUSE_SHARE_SCARCE : MM_REUSE_SHARE;
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

/* Makes lot m of stripe k of class c ready, whatever it takes. drawn: see mm_stripe_try_put. *is_to_look: see mm_reserve_draw. */
MM_FN_RARE void mm_stripe_put(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t m, uint64_t drawn, int *is_to_look) {
    struct mm_ring *ring = mm_ring_at(ref, c, k);
    const int thrifty = drawn == MM_TICKET_NONE && mm_stripe_is_thrifty(ref, c);
    if (drawn == MM_TICKET_NONE && !mm_ring_await(ring, ref->classes[c].lot_shift, m)) return;
    const uint32_t block = thrifty ? MM_BLOCK_NONE : mm_reserve_draw(ref, c, drawn, is_to_look);
    if (block == MM_BLOCK_NONE) mm_ring_put(ring, m, MM_LOT_NONE);
    else mm_stripe_open(ref, c, k, m, block);
}

/* Makes lot m of stripe k of class c ready. */
MM_FN void mm_stripe_make(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t m, int *is_to_look) {
    const uint64_t drawn = mm_stripe_try_put(ref, c, k, m);
    if (drawn != MM_PUT_DONE) mm_stripe_put(ref, c, k, m, drawn, is_to_look);
}

/* Who has drawn ticket t of stripe k: makes ready what he has to, if anything. *is_to_look: see mm_reserve_draw. */
MM_FN void mm_stripe_begin(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t t, int *is_to_look) {
    const uint32_t shift = ref->classes[c].lot_shift, ahead = ref->classes[c].ahead, m = t >> shift;
    if ((t & ((1u << shift) - 1)) != 0) return;
    if (mm_ring_is_late(mm_ring_at(ref, c, k), m, ahead)) mm_stripe_make(ref, c, k, m, is_to_look);
    if (ahead) mm_stripe_make(ref, c, k, mm_lot_after(m, ahead, shift), is_to_look);
}

/* The block of a stripe's lot: segment << 6 | number. */
MM_FN uint32_t mm_stripe_block(struct mm_class class_, uint64_t what) {
    const uint64_t off = what & MM_LOT_CONTENT;
    const uint32_t in = (uint32_t)off & (uint32_t)(MM_SEGMENT_BYTES - 1);
    return (uint32_t)(off >> MM_SEGMENT_SHIFT) << 6 | mm_class_number(class_, in) >> class_.block_shift;
}

/* What ticket t of stripe k is good for, after mm_stripe_begin: the byte offset of a slice in the heap, or
 * MM_PIECE_NONE: nothing, the caller has to look for itself; or MM_PIECE_VOID: nothing, another ticket will do. The caller
 * then counts it in taken. */
#define MM_PIECE_NONE (~0ull)
#define MM_PIECE_VOID (~1ull)
MM_FN uint64_t mm_stripe_piece(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t t) {
    const struct mm_class class_ = ref->classes[c];
    const uint32_t m = t >> class_.lot_shift, place = t & ((1u << class_.lot_shift) - 1);
    const uint64_t what = mm_ring_look(mm_ring_at(ref, c, k), m);
    if (mm_lot_is_none(what)) return MM_PIECE_NONE;
    const uint32_t block = mm_stripe_block(class_, what), s = block >> 6, j = block & 63, n = mm_class_block_slices(class_, j);
    if (place == n - 1) mm_stripe_issued(ref, s, c, j);
    return place < n ? (what & MM_LOT_CONTENT) + (uint64_t)place * class_.bytes : MM_PIECE_VOID;
}

/* ---- When memory is short --------------------------------------------------------------------------- */

/* Slices that came back, of any segment of the class. */
MM_FN_RARE mm_claim mm_stripe_reuse(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t salt) {
    const struct mm_tree t = mm_segment_class_tree(ref, c, MM_AVAIL);
    mm_claim claim = 0;
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_REUSE_ROUNDS && claim == 0; tries++) { /* found empty: found no more */
        uint32_t s = mm_tree_find(t, salt + tries), count = 0;
        if (s == MM_TREE_NONE) break;
        if (tries >= MM_REUSE_FRONT) { /* the front is crowded */
            const uint32_t other = mm_tree_any(t, mm_tree_random(salt + tries), &count);
            if (other != MM_TREE_NONE) s = other;
        }
        claim = mm_block_reuse(ref, s, c, n, salt + tries);
        if (claim == 0 && mm_load_relaxed_u64(&mm_segment_at(ref, s)->avail) == 0) mm_segment_unlist(ref, s, c, MM_AVAIL);
    }
    return claim;
}

/* A whole block of class c, or one of a fresh segment, put into circulation: all of it handed out, and all has come back but
 * for up to n slices, which are the caller's. */
MM_FN_RARE mm_claim mm_stripe_circulate(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t salt) {
    struct mm_heap *h = mm_heap_of(ref);
    const struct mm_tree whole = mm_segment_class_tree(ref, c, MM_WHOLE);
    const struct mm_class class_ = ref->classes[c];
    uint32_t s = MM_TREE_NONE, j = 0;
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_TREE_TRIES && mm_load_relaxed_u64(whole.node) != 0; tries++) {
        s = mm_tree_find(whole, tries + salt);
        if (s == MM_TREE_NONE) break;
        const uint64_t seen = mm_load_relaxed_u64(&mm_segment_at(ref, s)->whole);
        const uint64_t got = seen ? mm_segment_claim(ref, s, 1ull << mm_bits_pick(seen, salt)) : 0;
        if (got != 0 && mm_segment_keep(ref, s, c, got)) {
            j = mm_ctz(got);
            break;
        }
        mm_segment_unlist(ref, s, c, MM_WHOLE);
        s = MM_TREE_NONE;
    }
    if (s == MM_TREE_NONE) {
        uint64_t bit = 0;
        s = mm_segment_claim_fresh(ref, c, (uint32_t)mm_load_relaxed_u64(&h->free_near), 0, 1, &bit);
        if (s == MM_TREE_NONE) return 0;
        s += mm_ctz(bit);
        mm_or_release_u64(&h->classes_used, 1ull << c);
        const uint64_t others = mm_bits_low(class_.blocks) & ~1ull;
        if (others != 0) mm_segment_give_back(ref, s, c, others);
    }
    const uint32_t slices = mm_class_block_slices(class_, j), word = mm_block_first_word(class_, j), words = mm_class_block_words(class_, j);
    n = mm_class_at_most(n, mm_class_at_most(slices, 1u << MM_CLAIM_SHIFT));
    MM_ROLLED
    for (uint32_t i = 0; i < words; i++)
        mm_store_relaxed_u64(mm_segment_bits(ref, s) + word + i, mm_class_word_mask(class_, word + i) & ~mm_bits_low(i == 0 ? n : 0));
    const uint32_t some = words - (mm_class_word_mask(class_, word) == mm_bits_low(n));
    mm_add_relaxed_u64(&mm_segment_at(ref, s)->words[j], some + (words - 1) * MM_WORDS_FULL);
    mm_and_acq_rel_u64(&mm_segment_at(ref, s)->unissued, ~(1ull << j));
    if (some != 0) mm_block_list(ref, s, c, j);
    mm_version_raise(h);
    return mm_claim_make(s, j << class_.block_shift, (uint32_t)mm_bits_low(n));
}

/* Pieces [place, end) of lot m, which is `what`, of ring i of class c, not handed out: frees those slices, or gives those blocks
 * back. Returns whether there were any. */
MM_FN_RARE int mm_stripe_return(const struct mm_heap_ref *ref, uint32_t c, uint32_t i, uint64_t what, uint32_t m, uint32_t place) {
    const struct mm_class class_ = ref->classes[c];
    if (i >= MM_STRIPES) {
        uint32_t block, n = 0;
        MM_ROLLED
        while ((block = mm_reserve_block(class_, mm_ring_at(ref, c, i), what, m, place + n)) != MM_BLOCK_NONE) {
            mm_segment_give_back(ref, block >> 6, c, 1ull << (block & 63));
            n++;
        }
        return n != 0;
    }
    const uint32_t block = mm_stripe_block(class_, what), s = block >> 6, j = block & 63, n = mm_class_block_slices(class_, j);
    if (place >= n) return 0;
    mm_stripe_issued(ref, s, c, j);
    MM_ROLLED
    for (uint32_t first = place; first < n;) {
        const uint32_t bit = first % (1u << MM_WORD_SHIFT), some = mm_class_at_most((1u << MM_WORD_SHIFT) - bit, n - first);
        mm_block_free_bits(ref, s, c, mm_block_first_word(class_, j) + (first >> MM_WORD_SHIFT), mm_bits_low(some) << bit);
        first += some;
    }
    return 1;
}

/* Takes the tickets of ring i of class c that are good for something, and returns those pieces. Returns whether there were any.
 * Waits for nobody. */
MM_FN_RARE int mm_stripe_flush_one(const struct mm_heap_ref *ref, uint32_t c, uint32_t i) {
    const struct mm_class class_ = ref->classes[c];
    const uint32_t shift = mm_ring_shift(class_, i), ahead = mm_ring_ahead(class_, i);
    struct mm_ring *ring = mm_ring_at(ref, c, i);
    uint32_t t = mm_load_relaxed_u32(&ring->tickets), end = 0;
    MM_ROLLED
    for (uint32_t n = 0; n <= ahead; n++) { /* up to the last lot that has something */
        const uint32_t m = mm_lot_after(t >> shift, n, shift);
        const uint64_t what = mm_load_relaxed_u64(&mm_ring_slot(ring, m)->what);
        if (mm_lot_is(what, m) && !mm_lot_is_none(what)) end = n + 1;
    }
    int any = 0;
    MM_ROLLED
    for (; end > 0; end--) {
        const uint32_t m = t >> shift, place = t & ((1u << shift) - 1), next = mm_lot_after(m, ahead, shift);
        const uint64_t what = mm_load_acquire_u64(&mm_ring_slot(ring, m)->what);
        const int begins = place == 0 && ahead != 0, late = begins && mm_ring_is_late(ring, m, ahead);
        if (!late && !mm_lot_is(what, m)) break; /* on its way */
        if (begins && !mm_ring_has_room(ring, shift, next)) break;
        if (!mm_ring_finish(ring, shift, t)) break; /* somebody is at work here */
        if (late) mm_ring_put(ring, m, MM_LOT_NONE);
        if (begins) mm_ring_put(ring, next, MM_LOT_NONE);
        if (!late && !mm_lot_is_none(what)) any |= mm_stripe_return(ref, c, i, what, m, place);
        mm_ring_took(ring, m, (1u << shift) - place); /* not before its blocks have been read */
        t = (m + 1) << shift;
    }
    return any;
}

/* Shortage: flushes all stripes and reserves, whatever their class, so that what they hold can be used by anybody, and
 * blocks and segments that are free but for that become whole. Returns whether there was anything. */
MM_FN_RARE int mm_stripe_flush(const struct mm_heap_ref *ref) {
    int any = 0;
    MM_ROLLED
    for (uint64_t used = mm_load_acquire_u64(&mm_heap_of(ref)->classes_used); used != 0; used &= used - 1) {
        const uint32_t c = mm_ctz(used), stripes = ref->classes[c].stripe_mask + 1u, end = MM_RINGS;
        MM_ROLLED
        for (uint32_t i = 0; i < end; i = i + 1 == stripes ? MM_STRIPES : i + 1) any |= mm_stripe_flush_one(ref, c, i);
    }
    return any;
}

/* Up to n slices (at most 32) of class c, for who has ticket t of stripe k, of a lot in which there is nothing; 0, for NULL.
 * *is_to_look: whether the caller is to look; there is less to be used again than was thought. */
MM_FN_RARE mm_claim mm_stripe_find(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t k, uint32_t t, int *is_to_look) {
    struct mm_heap *h = mm_heap_of(ref);
    struct mm_class_state *cs = mm_stripe_class(ref, c);
    uint64_t version = 0;
    uint32_t searches = 0, fails = 0, polls = 0;
    mm_claim claim = 0;
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_TREE_TRIES && claim == 0; tries++) {
        claim = mm_stripe_reuse(ref, c, n, t + k + (tries + polls) * MM_REUSE_ROUNDS);
        if (claim != 0) continue;
        const int thrifty = mm_stripe_is_thrifty(ref, c);
        if (++fails < MM_REUSE_FAILS && thrifty) continue;
        *is_to_look |= thrifty;
        const uint64_t now = mm_version_read(h);
        const int is_dry = mm_load_relaxed_u64(&cs->dry) == now + 1;
        if (!is_dry) { /* one at a time: what he puts into circulation the others find */
            if (!mm_cas_acquire_u64(&cs->circulating, 0, 1)) {
                if (++polls == MM_WAIT_ITERATIONS) break;
                tries--; /* that was no search */
                mm_wait();
                continue;
            }
            claim = mm_stripe_circulate(ref, c, n, t + k);
            mm_store_release_u64(&cs->circulating, 0);
            if (claim != 0) { /* there is memory: then there is no need for each to look for itself */
                mm_ring_skip(mm_ring_at(ref, c, k), ref->classes[c].lot_shift, t >> ref->classes[c].lot_shift);
                break;
            }
        }
        if (searches == 0) version = now;
        if (is_dry && searches != 0) break;
        if (!is_dry) { /* one at a time, or those who flush are in each other's way, and find nothing that is not in others' hands */
            if (!mm_cas_acquire_u64(&h->flushing, 0, 1)) {
                if (++polls == MM_WAIT_ITERATIONS) break;
                tries--;
                mm_wait();
                continue;
            }
            const int some = mm_stripe_flush(ref);
            mm_store_release_u64(&h->flushing, 0);
            if (some) continue;
        }
        if (++searches >= MM_NULL_TRIES) {
            if (now == version) mm_store_relaxed_u64(&cs->dry, version + 1);
            break;
        }
        mm_wait_times(1u << searches);
    }
    return claim;
}

/* Slice i of segment s, class c, lies in a block of unissued. Returns 0 if it has been handed out, or what is wrong
 * with freeing it. */
MM_FN int mm_stripe_misuse(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t i) {
    const struct mm_class class_ = ref->classes[c];
    const uint32_t opener = mm_load_relaxed_u32(&mm_segment_at(ref, s)->opener[i >> class_.block_shift]);
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
