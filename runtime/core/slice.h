/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Slices: what a thread asks for and gives back. The lanes of a warp that are here together and want the same
 * class go as one, and those of a whole warp that free in the same word: a leader does the atomic, the others get their share.
 * malloc is two functions: mm_slice_draw, which nearly always has the address, and mm_slice_malloc_slow for those to whom it gives a
 * token instead.
 *
 * A leader acts for its group, so the group's plain accesses must be ordered with the leader's atomics: the
 * warp synchronisation before a free's release and after a malloc's acquire does that (a shuffle does not).
 */
#ifndef MM_CORE_SLICE_H
#define MM_CORE_SLICE_H

#include "runtime/core/report.h"
#include "runtime/core/shortage.h"

/* Counts a request that got NULL. */
MM_FN_RARE void mm_null_tell(const struct mm_heap_ref *ref, uint64_t bytes) {
    struct mm_heap *h = mm_heap_of(ref);
    if (mm_add_relaxed_u64(&h->null_count, 1) != 0) return;
    mm_store_relaxed_u64(&h->null_first_grid, mm_grid() + 1);
    mm_store_relaxed_u64(&h->null_first_bytes, bytes + 1);
    if (ref->mailbox != 0) mm_store_release_system_u64(&mm_grow_mailbox(ref)->null_bytes, bytes + 1);
}

/* Counts a request that could not be served; in a checked run it may be yet (guarded.h). */
MM_FN_RARE void mm_null_count(const struct mm_heap_ref *ref, uint64_t bytes) {
    if (ref->guard == 0) mm_null_tell(ref, bytes);
}

/* What mm_slice_draw returns when it has no address: a ticket, of stripe k of class c. */
#define MM_TOKEN (1ull << 63)
MM_FN uint64_t mm_token_make(uint32_t c, uint32_t k, uint32_t t) { return MM_TOKEN | (uint64_t)(c << 8 | k) << 32 | t; }
MM_FN uint32_t mm_token_class(uint64_t token) { return (uint32_t)(token >> 40) & 63; }
MM_FN uint32_t mm_token_stripe(uint64_t token) { return (uint32_t)(token >> 32) & 255; }
MM_STATIC_ASSERT(MM_CLASS_COUNT <= 64 && MM_STRIPES <= 256, "both fit");
#define MM_TOKEN_SHORT (1ull << 46) /* of a lot that is ready, and has fewer slices than tickets */
#define MM_TOKEN_APART_SHIFT 47      /* above: 0, or the slot + 1 in which its lane is counted (mm_inside_apart) */
#define MM_TOKEN_APART(token) ((uint32_t)((token) >> MM_TOKEN_APART_SHIFT) & ((1u << (MM_WARP_SLOTS_SHIFT + 1)) - 1))
MM_STATIC_ASSERT(MM_TOKEN_APART_SHIFT + MM_WARP_SLOTS_SHIFT + 1 <= 62, "below the kinds of tokens");

/* Where a lane is on its way to a slice: it makes ready the lots that its ticket makes it make ready; looks its lot up; if that is empty,
 * searches; if the ticket is good for nothing, draws another. */
enum mm_slice_stage { MM_SLICE_BEGIN, MM_SLICE_LOOK, MM_SLICE_NONE, MM_SLICE_VOID, MM_SLICE_HAS };

/* A slice for the ticket `token`, or for others that the caller draws then; NULL. here: the lanes that call, of those in `in`. They
 * all take their steps in one loop and leave together: lanes that waited for memory in loops of their own would keep those of their
 * warp for which other warps wait from going on, for ever, since nothing makes a warp change between its lanes (docs/design.md). Lanes
 * that leave early and come back in a next call got lost under nvcc 13.0, too (docs/notes/lanes-that-leave.md). Lanes with tickets of
 * the same class and stripe, a group, draw and search as one. While a lane has lots to make ready, for which others wait, nobody
 * searches. */
MM_FN_RARE void *mm_slice_malloc_slow(const struct mm_heap_ref *ref, uint64_t token, uint32_t here, struct mm_inside in) {
    const uint32_t group = mm_warp_match(here, (uint32_t)(token >> 32)), leader = mm_ctz(group);
    const uint32_t c = mm_token_class(token), k = mm_token_stripe(token), lane = mm_warp_lane(), shift = ref->classes[c].lot_shift;
    struct mm_ring *ring = mm_ring_at(ref, c, k);
    union {
        struct mm_refill refill; /* while it makes lots ready */
        struct mm_search search; /* while it searches */
    } own;
    int is_to_look = 0;
    uint32_t t = (uint32_t)token, polls = 0, waits = 0, asking = 0; /* asking: the lanes of the group for which the first of them searches */
    uint64_t off = MM_PIECE_NONE;
    enum mm_slice_stage stage = MM_SLICE_BEGIN;
    mm_refill_begin(&own.refill);
    MM_ROLLED
    do {
        const uint32_t m = t >> shift;
        enum mm_step step = MM_STEP_DONE;
        uint64_t what = 0;
        if (stage == MM_SLICE_BEGIN) {
            step = mm_stripe_begin(ref, c, k, t, &own.refill);
            if (step == MM_STEP_DONE) stage = MM_SLICE_LOOK, is_to_look |= own.refill.is_to_look;
        }
        const uint32_t looks = mm_warp_ballot(here, stage == MM_SLICE_BEGIN) == 0 ? MM_LOOK_POLLS : 1;
        if (stage == MM_SLICE_LOOK) {
            MM_ROLLED
            for (uint32_t i = 0; i < looks && what == 0; i++) what = mm_ring_poll(ring, m, &polls);
            if (what == 0) step = MM_STEP_WAIT;
        }
        if (what != 0) {
            off = mm_stripe_piece(ref, c, t, what);
            stage = off == MM_PIECE_NONE ? MM_SLICE_NONE : off == MM_PIECE_VOID ? MM_SLICE_VOID : MM_SLICE_HAS;
        }
        mm_warp_sync(here);
        const uint32_t same = mm_warp_match(group, what != 0 ? m : ~0u);
        if (what != 0 && lane == 31 - mm_clz_u32(same)) { /* the largest ticket */
            mm_ring_took(ring, m, mm_popcount(same));
            if (stage == MM_SLICE_VOID) mm_ring_skip(ring, shift, m);
        }
        const uint32_t begins = mm_warp_ballot(here, stage == MM_SLICE_BEGIN), nones = mm_warp_ballot(group, stage == MM_SLICE_NONE);
        if (nones != 0 && begins == 0) {
            const uint32_t first = mm_ctz(asking ? asking : nones);
            if (asking == 0) {
                asking = nones;
                if (lane == first) mm_search_begin(&own.search);
            }
            const uint32_t rank = mm_popcount(asking & mm_bits_low(lane));
            mm_claim claim = 0;
            if (lane == first) step = mm_stripe_find(ref, c, mm_popcount(asking), k, t, &own.search, &claim, &is_to_look);
            mm_warp_sync(group);
            if (mm_warp_shuffle(group, step == MM_STEP_DONE, first)) {
                claim = mm_warp_shuffle_u64(group, claim, first);
                if (asking >> lane & 1) {
                    if (rank < mm_claim_count(claim)) off = mm_claim_offset(ref->classes[c], claim, rank);
                    stage = rank < mm_claim_count(claim) || claim == 0 ? MM_SLICE_HAS : MM_SLICE_VOID;
                }
                asking = 0;
            }
        }
        const uint32_t voids = mm_warp_ballot(group, stage == MM_SLICE_VOID);
        if (voids != 0) {
            uint32_t first = 0;
            if (lane == leader) first = mm_ring_draw(ring, mm_popcount(voids));
            mm_warp_sync(group);
            first = mm_warp_shuffle(group, first, leader);
            if (stage == MM_SLICE_VOID) {
                t = first + mm_popcount(voids & mm_bits_low(lane));
                stage = MM_SLICE_BEGIN;
                mm_refill_begin(&own.refill);
            }
        }
        mm_step_wait(ref, in, &waits, step);
    } while (mm_warp_ballot(here, stage != MM_SLICE_HAS) != 0);
    if (mm_warp_ballot(group, is_to_look) != 0) mm_stripe_look(ref, c, k, group, mm_popcount(group & mm_bits_low(lane)));
    mm_warp_sync(here); /* nobody runs ahead */
    if (off < MM_PIECE_VOID) return (void *)(ref->user_base + off);
    mm_null_count(ref, ref->classes[c].bytes);
    return NULL;
}

/* The caller's token, of a group that has the tickets from t on, of the ring of class c that byte `at` of all rings is in. */
MM_FN uint64_t mm_slice_token(uint32_t at, uint32_t c, uint32_t t, uint32_t group, uint32_t apart) {
    group = mm_anew(group), c = mm_anew(c);
    t += mm_popcount(group & mm_bits_low(mm_warp_lane()));
    return (uint64_t)apart << MM_TOKEN_APART_SHIFT | mm_token_make(c, (mm_anew(at) - c * MM_RINGS_BYTES) / (uint32_t)sizeof(struct mm_ring), t);
}

/* The address of a slice of class c, if it can be had by a plain ticket: one that is neither a lot's first nor last, nor
 * are those of the other lanes, of a lot that is ready, or will be after a few polls, and not short. Else a token: there is no longer
 * wait here, since another lane of the warp may have a lot to make ready. Small, and without calls: a function that makes any, or
 * needs many registers, saves some for each lane that calls it, at a cost greater than all of this. */
MM_FN uint64_t mm_slice_draw(const struct mm_heap_ref *ref, uint32_t c) {
    const uint32_t here = mm_warp_here(), apart = mm_inside_apart(here);
    uint32_t group = mm_warp_match(here, c), t = 0;
    uint32_t at = c * MM_RINGS_BYTES + (mm_home() & ref->classes[c].stripe_mask) * (uint32_t)sizeof(struct mm_ring);
    if (mm_warp_lane() == mm_ctz(group)) {
        mm_inside_count_apart(ref, apart, mm_popcount(group));
        t = mm_ring_draw((struct mm_ring *)(ref->rings + at), mm_popcount(group));
    }
    mm_warp_sync(group);
    t = mm_warp_shuffle(group, t, mm_ctz(group));
    group = mm_anew(group), c = mm_anew(c); /* here and below: what can be worked out again is in no register meanwhile */
    const uint32_t shift = ref->classes[c].lot_shift;
    if (MM_LIKELY((t - 1) >> shift == t >> shift && (t + mm_popcount(group)) >> shift == t >> shift)) {
        at = mm_anew(at + (uint32_t)offsetof(struct mm_ring, slot) + (t >> shift) % MM_RING * (uint32_t)sizeof(struct mm_slot));
        struct mm_slot *slot = (struct mm_slot *)(ref->rings + at);
        uint64_t what;
        uint32_t polls = 0;
        MM_ROLLED
        for (;;) {
            what = mm_load_acquire_u64(&slot->what) ^ mm_lot_tag(t >> shift);
            if ((what & ~MM_LOT_ODD) >> MM_LOT_CONTENT_BITS == 0) break;
            polls = mm_anew(polls + 1);
            if (polls >= MM_DRAW_POLLS) break;
            if (polls >= MM_DRAW_POLLS_APART && mm_warp_here() != group) break;
            mm_wait();
        }
        /* What one lane has seen ready another may not have: all of the group go one way, since one counts for all. */
        const int is_plain = mm_warp_ballot(group, what >> MM_LOT_CONTENT_BITS != 0) == 0;
        group = mm_anew(group);
        if (MM_LIKELY(is_plain)) {
            slot = (struct mm_slot *)(ref->rings + mm_anew(at));
            if (mm_warp_lane() == mm_ctz(group)) {
                mm_count_u32(&slot->taken, mm_popcount(group));
                mm_inside_count_apart(ref, apart, 0u - mm_popcount(group));
            }
            group = mm_anew(group);
            t += mm_popcount(group & mm_bits_low(mm_warp_lane()));
            return ref->user_base + what + (uint64_t)(t & ((1u << shift) - 1)) * ref->classes[mm_anew(c)].bytes;
        }
        if (what >> MM_LOT_CONTENT_BITS != 0 && mm_lot_is_odd(what)) return MM_TOKEN_SHORT | mm_slice_token(at, c, t, group, apart);
    }
    return mm_slice_token(at, c, t, group, apart);
}

/* The address of a slice for the ticket `token`, of a short lot that is ready, or for another ticket if that is beyond the lot's
 * slices; or a token, if it is not that easy, or the lot is not ready. No calls, as mm_slice_draw. Lanes that draw again do so as one, and
 * stay together. */
MM_FN_LEAF uint64_t mm_slice_redraw(const struct mm_heap_ref *ref, uint64_t token) {
    const uint32_t c = mm_token_class(token), k = mm_token_stripe(token), shift = ref->classes[c].lot_shift, size = 1u << shift;
    struct mm_ring *ring = mm_ring_at(ref, c, k);
    uint32_t t = (uint32_t)token, n = 1, rank = 0, group = 0;
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_TREE_TRIES; tries++) {
        const uint32_t m = t >> shift, place = t & (size - 1);
        if (place == 0 || place + n >= size + (group == 0)) break; /* the first has something to do, the last too */
        const uint64_t what = mm_ring_try_look(ring, m);
        const int is_none = what == 0 || mm_lot_is_none(what);
        if (group != 0 ? mm_warp_ballot(group, is_none) != 0 : is_none) break;
        const uint32_t good = what & MM_LOT_ODD ? ref->classes[c].short_slices : size;
        if (place < good && place + n >= good) break;
        if (rank == 0) mm_ring_took(ring, m, n);
        if (place < good) return ref->user_base + (what & MM_LOT_CONTENT) + (uint64_t)(place + rank) * ref->classes[c].bytes;
        if (group == 0) {
            group = mm_warp_match(mm_warp_here(), (uint32_t)(token >> 32) << 18 | (m & ((1u << 18) - 1)));
            n = mm_popcount(group), rank = mm_popcount(group & mm_bits_low(mm_warp_lane()));
        }
        if (rank == 0) {
            mm_ring_skip(ring, shift, m);
            t = mm_ring_draw(ring, n);
        }
        mm_warp_sync(group);
        t = mm_warp_shuffle(group, t, mm_ctz(group));
    }
    return mm_token_make(c, k, t + rank);
}

/* free goes by stages, the first two small and without calls, as mm_slice_draw. What a stage leaves for the next is one word: 0,
 * nothing; or its kind and
 *   MM_LEFT_MARK     a slice that has been handed out: class | segment | number of the slice
 *   MM_LEFT_DUE      what the words of a block call for: its life | class | what | number of a word of its slice bits
 *   no kind          a slice that has not been handed out: what is wrong | class | segment | number of the slice
 *   MM_LEFT_ALL      what is no slice: what is wrong, if that is known | its byte offset in the heap
 *   MM_LEFT_TWICE    (and no kind) slices of a word some of which were free already: of a whole warp? | how many were not, and had come back before |
 *                    class | number of the first that was | number of the word
 *   MM_LEFT_FOREIGN  it is not in the heap, or the heap is not open (a checked run), or there is none: the address, see mm_left_foreign */
#define MM_LEFT_KIND_SHIFT 61
#define MM_LEFT_MARK (1ull << MM_LEFT_KIND_SHIFT)
#define MM_LEFT_DUE (2ull << MM_LEFT_KIND_SHIFT)
#define MM_LEFT_ALL (3ull << MM_LEFT_KIND_SHIFT)
#define MM_LEFT_FOREIGN (4ull << MM_LEFT_KIND_SHIFT)
#define MM_LEFT_TWICE (1ull << 60)
#define MM_LEFT_MISUSE_SHIFT 40
#define MM_LEFT_NOT_SHIFT 46
#define MM_LEFT_FIRST_SHIFT 34
#define MM_LEFT_BACK_SHIFT 46
#define MM_LEFT_MORE_SHIFT 53
#define MM_LEFT_WARP (1ull << 59)
#define MM_LEFT_CLASS_SHIFT 40
#define MM_LEFT_LIFE_SHIFT 46
MM_FN uint64_t mm_left_kind(uint64_t left) { return left >> MM_LEFT_KIND_SHIFT << MM_LEFT_KIND_SHIFT; }
MM_FN uint32_t mm_left_class(uint64_t left) { return (uint32_t)(left >> MM_LEFT_CLASS_SHIFT) & 63; }
/* An address in 63 bits. The highest bit goes to the place of bit MM_LEFT_SIGN, which is taken to be as the one above; where the two
 * differ, both become 1. So a pointer that differs from a good one in high bits only is never read back as the good one: no device's
 * addresses have these bits. */
#define MM_LEFT_SIGN 57
#define MM_LEFT_SIGN_BIT (1ull << MM_LEFT_SIGN)
MM_FN uint64_t mm_left_foreign(uint64_t p) {
    p |= ((p >> 1 ^ p) & MM_LEFT_SIGN_BIT) << 1;
    return MM_LEFT_FOREIGN | (p & ~MM_LEFT_SIGN_BIT) | (p >> 63) << MM_LEFT_SIGN;
}
MM_FN uint64_t mm_left_address(uint64_t left) {
    return (left & ~(MM_LEFT_FOREIGN | MM_LEFT_SIGN_BIT)) | (left >> 1 & MM_LEFT_SIGN_BIT) | left >> MM_LEFT_SIGN << 63;
}
MM_STATIC_ASSERT((uint64_t)MM_TREE_BITS_MAX << MM_SLICE_BITS <= 1ull << MM_LEFT_CLASS_SHIFT, "the number of a slice fits");
MM_STATIC_ASSERT(MM_WORD_SHIFT == 6 && MM_LEFT_CLASS_SHIFT - MM_LEFT_FIRST_SHIFT == 6 && MM_LEFT_MORE_SHIFT - MM_LEFT_BACK_SHIFT == 7,
                 "counts of a word");
MM_STATIC_ASSERT(MM_WORDS_LIVES << MM_LEFT_LIFE_SHIFT <= MM_LEFT_MARK && MM_CLASS_COUNT <= 64, "so do life and class");

/* First stage: whose slice p is. bytes: of the heap, from its beginning. */
MM_FN uint64_t mm_slice_locate_in(const struct mm_heap_ref *ref, void *p, uint64_t bytes) {
    const uint64_t off = (uint64_t)p - ref->user_base;
    if (!MM_LIKELY(off < bytes)) return p == NULL ? 0 : mm_left_foreign((uint64_t)p);
    const uint32_t s = mm_anew((uint32_t)(off >> MM_SEGMENT_SHIFT));
    const uint32_t in = mm_anew((uint32_t)off & (uint32_t)(MM_SEGMENT_BYTES - 1));
    uint64_t owner, unissued;
    mm_gather_two(&mm_segment_at(ref, s)->owner, &owner, &unissued);
    const uint32_t c = mm_anew(MM_OWNER_KIND(owner) - 1);
    if (!MM_LIKELY(c < MM_CLASS_COUNT)) return MM_LEFT_ALL | (uint64_t)s << MM_SEGMENT_SHIFT | in;
    const uint32_t i = mm_anew(mm_class_number(ref->classes[c], in)), rest = in - i * ref->classes[c].bytes; /* the shift rounded down */
    if (!MM_LIKELY(rest == 0 && i < ref->classes[c].slices))
        return MM_LEFT_ALL | (uint64_t)(rest != 0 ? MM_MISUSE_INTERIOR : MM_MISUSE_NEVER) << MM_LEFT_MISUSE_SHIFT |
               (uint64_t)s << MM_SEGMENT_SHIFT | (i * ref->classes[mm_anew(c)].bytes + rest);
    uint64_t left = MM_LEFT_MARK;
    if (!MM_LIKELY(!(unissued >> (i >> ref->classes[c].block_shift) & 1))) {
        const int misuse = mm_stripe_misuse(ref, s, c, i);
        if (!MM_LIKELY(misuse == 0)) left = (uint64_t)misuse << MM_LEFT_NOT_SHIFT;
    }
    return left | (uint64_t)c << MM_LEFT_CLASS_SHIFT | ((uint64_t)s << MM_SLICE_BITS | i);
}

MM_FN_LEAF uint64_t mm_slice_locate(const struct mm_heap_ref *ref, void *p) { return mm_slice_locate_in(ref, p, ref->open_bytes); }

/* Second stage: marks the slice free. All lanes of a whole warp as one if theirs are in the same word of slice bits, and none
 * twice; else each for itself: an or over part of a warp takes as long as several atomics. */
MM_FN_LEAF uint64_t mm_slice_mark(const struct mm_heap_ref *ref, uint64_t left) {
    if (!MM_LIKELY(mm_left_kind(left) == MM_LEFT_MARK)) return left;
    const uint32_t w = mm_anew((uint32_t)(left >> MM_WORD_SHIFT)), c = mm_anew(mm_left_class(left));
    MM_STATIC_ASSERT((uint64_t)MM_TREE_BITS_MAX * MM_SEGMENT_WORDS <= 1ull << 32, "the number of a word fits");
    uint64_t mask = 1ull << (left % (1u << MM_WORD_SHIFT));
    if (MM_LIKELY(mm_warp_here() == MM_WARP_ALL) && mm_warp_all_same(w)) {
        const uint64_t all = mm_warp_or(MM_WARP_ALL, mask);
        if (MM_LIKELY(mm_popcount(all) == mm_popcount(MM_WARP_ALL))) {
            mask = all;
            mm_warp_sync(MM_WARP_ALL);
            if (mm_warp_lane() != 0) return 0;
        }
    }
    const uint64_t old = mm_or_release_u64((uint64_t *)ref->bits + w, mask);
    if (!MM_LIKELY((old & mask) == 0)) {
        const uint32_t more = mm_popcount(mask & ~old), first = mm_ctz(old & mask);
        const uint32_t counts = more << (MM_LEFT_MORE_SHIFT - 32) | mm_popcount(old) << (MM_LEFT_BACK_SHIFT - 32);
        const uint32_t whole = mask & (mask - 1) ? (uint32_t)((MM_LEFT_TWICE | MM_LEFT_WARP) >> 32) : (uint32_t)(MM_LEFT_TWICE >> 32);
        return (uint64_t)(whole | counts | c << (MM_LEFT_CLASS_SHIFT - 32) | first << (MM_LEFT_FIRST_SHIFT - 32)) << 32 | w;
    }
    const uint32_t back = mm_anew(mm_popcount(old)), more = mm_anew(mm_popcount(mask));
    const struct mm_class class_ = ref->classes[c];
    const uint32_t change = mm_block_change(class_, w % MM_SEGMENT_WORDS, back, more);
    if (MM_LIKELY(change == 0)) return 0;
    const uint32_t j = mm_block_of_word(class_, w % MM_SEGMENT_WORDS);
    const uint64_t words = mm_add_relaxed_u64(&mm_segment_blocks(ref, w / MM_SEGMENT_WORDS)->words[j], change);
    const uint32_t due = mm_block_due(class_, j, words, change);
    if (MM_LIKELY(due == MM_DUE_NOTHING)) return 0;
    const uint64_t life = (words + change) / MM_WORDS_LIFE % MM_WORDS_LIVES;
    return MM_LEFT_DUE | life << MM_LEFT_LIFE_SHIFT | (uint64_t)c << MM_LEFT_CLASS_SHIFT | (uint64_t)due << 32 | w;
}

/* Third stage, some slices were free already: does the rest for the others, and tells it. */
MM_FN_RARE void mm_slice_twice(const struct mm_heap_ref *ref, uint64_t left) {
    const uint32_t w = (uint32_t)left, s = w / MM_SEGMENT_WORDS, c = mm_left_class(left);
    const struct mm_class class_ = ref->classes[c];
    const uint32_t back = (uint32_t)(left >> MM_LEFT_BACK_SHIFT) & 127, more = (uint32_t)(left >> MM_LEFT_MORE_SHIFT) & 63;
    const int is_of_warp = (left & MM_LEFT_WARP) != 0;
    const uint32_t i = (w % MM_SEGMENT_WORDS << MM_WORD_SHIFT) + ((uint32_t)(left >> MM_LEFT_FIRST_SHIFT) & 63);
    const uint32_t j = mm_block_of_word(class_, w % MM_SEGMENT_WORDS), change = mm_block_change(class_, w % MM_SEGMENT_WORDS, back, more);
    if (change != 0) mm_block_counted(ref, s, c, j, mm_add_relaxed_u64(&mm_segment_blocks(ref, s)->words[j], change), change);
    const struct mm_misused what = {MM_MISUSE_DOUBLE_FREE, ref->user_base + ((uint64_t)s << MM_SEGMENT_SHIFT) + (uint64_t)i * class_.bytes,
                                    class_.bytes, (uint32_t)is_of_warp, 0, 0};
    mm_misuse_count(ref, what.kind, is_of_warp ? mm_popcount(MM_WARP_ALL) - more : 1);
    mm_misuse_tell(ref, what);
}

/* Third stage: does what is due. */
MM_FN_RARE void mm_slice_do(const struct mm_heap_ref *ref, uint64_t left) {
    const uint32_t w = (uint32_t)left, c = mm_left_class(left);
    const struct mm_class class_ = ref->classes[c];
    const uint32_t j = mm_block_of_word(class_, w % MM_SEGMENT_WORDS);
    const uint64_t life = (left >> MM_LEFT_LIFE_SHIFT) % MM_WORDS_LIVES, all = mm_class_block_words(class_, j) * (MM_WORDS_FULL + 1);
    mm_block_do(ref, w / MM_SEGMENT_WORDS, c, j, (uint32_t)(left >> 32) & 3, life * MM_WORDS_LIFE | all);
}

#endif
