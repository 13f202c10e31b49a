/* Slices: what a thread asks for and gives back. The lanes of a warp that are here together and want the same
 * (class, or word of slice bits) go as one: match, a leader does the atomic, the others get their share. malloc is two functions:
 * mm_slice_draw, which nearly always has the address, and mm_slice_malloc_slow for those to whom it gives a token instead.
 *
 * A leader acts for its group, so the group's plain accesses must be ordered with the leader's atomics: the
 * warp synchronisation before a free's release and after a malloc's acquire does that (a shuffle does not).
 */
#ifndef MM_CORE_SLICE_H
#define MM_CORE_SLICE_H

#include "runtime/core/stripe.h"

/* Counts a misuse of free. Rare. */
MM_FN_RARE void mm_misuse_count(const struct mm_heap_ref *ref, enum mm_misuse kind, uint32_t times) {
    mm_add_relaxed_u64(&mm_heap_of(ref)->misuse[kind], times);
}

/* Counts a request that could not be served. */
MM_FN_RARE void mm_null_count(const struct mm_heap_ref *ref, uint64_t bytes) {
    struct mm_heap *h = mm_heap_of(ref);
    if (mm_add_relaxed_u64(&h->null_count, 1) == 0) mm_store_relaxed_u64(&h->null_first_bytes, bytes + 1);
}

/* What mm_slice_draw returns when it has no address: a ticket, of stripe k of class c. */
#define MM_TOKEN (1ull << 63)
MM_FN uint64_t mm_token_make(uint32_t c, uint32_t k, uint32_t t) { return MM_TOKEN | (uint64_t)(c << 8 | k) << 32 | t; }
MM_FN uint32_t mm_token_class(uint64_t token) { return (uint32_t)(token >> 40) & 63; }
MM_FN uint32_t mm_token_stripe(uint64_t token) { return (uint32_t)(token >> 32) & 255; }
MM_STATIC_ASSERT(MM_CLASS_COUNT <= 64 && MM_STRIPES <= 256, "both fit");
#define MM_TOGETHER_SHIFT 4 /* lots, whose tickets go as one */
MM_STATIC_ASSERT(MM_RING > (1u << MM_TOGETHER_SHIFT) + MM_AHEAD_MAX, "they find room for what they make ready");

/* A slice for the ticket `token`, or for others that the caller draws then; NULL. Lanes that are here together with tickets
 * of the same class and stripe go as one until the last is served: lanes that leave early and come back in a next call, while
 * the others form a new group, got lost under nvcc 13.0 (docs/notes/lanes-that-leave.md). But no tickets further apart than
 * those of one draw can be: else one lane might wait for room in the ring that another has, who waits for the first. */
MM_FN_RARE void *mm_slice_malloc_slow(const struct mm_heap_ref *ref, uint64_t token) {
    const uint32_t c = mm_token_class(token), k = mm_token_stripe(token), lane = mm_warp_lane();
    const uint32_t near = (uint32_t)token >> ref->classes[c].lot_shift >> MM_TOGETHER_SHIFT;
    const uint32_t group = mm_warp_match(mm_warp_here(), (uint32_t)(token >> 32) << 18 | (near & ((1u << 18) - 1))), leader = mm_ctz(group);
    const uint32_t shift = ref->classes[c].lot_shift;
    struct mm_ring *ring = mm_ring_at(ref, c, k);
    uint32_t t = (uint32_t)token, left = group, nones;
    uint64_t off = MM_PIECE_VOID;
    int refilled = 0;
    MM_ROLLED
    do {
        const uint32_t mine = left >> lane & 1, m = t >> shift;
        if (mine) mm_stripe_begin(ref, c, k, t, &refilled);
        mm_warp_sync(group);
        if (mine) off = mm_stripe_piece(ref, c, k, t);
        mm_warp_sync(group);
        const uint32_t same = mm_warp_match(group, mine ? m : ~0u);
        if (mine && lane == mm_ctz(same)) mm_ring_took(ring, m, mm_popcount(same));
        nones = mm_warp_ballot(group, mine && off == MM_PIECE_NONE);
        if (nones != 0) {
            const uint32_t first = mm_ctz(nones), rank = mm_popcount(nones & mm_bits_low(lane));
            mm_claim claim = 0;
            if (lane == first) claim = mm_stripe_find(ref, c, mm_popcount(nones), k, t);
            mm_warp_sync(group);
            claim = mm_warp_shuffle_u64(group, claim, first);
            if (nones >> lane & 1 && rank < mm_claim_count(claim)) off = mm_claim_offset(ref->classes[c], claim, rank);
            if (claim == 0) left &= ~nones;
        }
        left = mm_warp_ballot(group, left >> lane & 1 && off >= MM_PIECE_VOID);
        if (left != 0) {
            if (lane == leader) t = mm_ring_draw(ring, mm_popcount(left));
            mm_warp_sync(group);
            t = mm_warp_shuffle(group, t, leader) + mm_popcount(left & mm_bits_low(lane));
        }
    } while (left != 0);
    refilled = (int)mm_warp_ballot(group, refilled);
    if (refilled) mm_stripe_look(ref, c, k, group, mm_popcount(group & mm_bits_low(lane)));
    mm_warp_sync(group); /* nobody runs ahead */
    if (off < MM_PIECE_VOID) return (void *)(ref->user_base + off);
    mm_null_count(ref, ref->classes[c].bytes);
    return NULL;
}

/* The address of a slice of class c, if it can be had by a plain ticket: one that is neither a lot's first nor last, nor
 * are those of the other lanes, of a lot that is ready, or will be soon. Else a token. Small, and without calls: a function that
 * makes any, or needs many registers, saves some for each lane that calls it, at a cost greater than all of this. */
MM_FN uint64_t mm_slice_draw(const struct mm_heap_ref *ref, uint32_t c) {
    uint32_t group = mm_warp_match(mm_warp_here(), c), t = 0;
    const uint32_t i = c * MM_RINGS + (mm_home() & ref->classes[c].stripe_mask), ring = i * (uint32_t)sizeof(struct mm_ring);
    if (mm_warp_lane() == mm_ctz(group)) t = mm_ring_draw((struct mm_ring *)(ref->rings + ring), mm_popcount(group));
    mm_warp_sync(group);
    t = mm_warp_shuffle(group, t, mm_ctz(group));
    group = mm_anew(group), c = mm_anew(c); /* here and below: what can be worked out again is in no register meanwhile */
    const uint32_t shift = ref->classes[c].lot_shift;
    if (MM_LIKELY((t - 1) >> shift == t >> shift && (t + mm_popcount(group)) >> shift == t >> shift)) {
        struct mm_slot *slot = (struct mm_slot *)(ref->rings + (ring + (uint32_t)offsetof(struct mm_ring, slot) + (t >> shift) % MM_RING * (uint32_t)sizeof *slot));
        uint64_t what;
        uint32_t polls = 0;
        MM_ROLLED
        for (;;) {
            what = mm_load_acquire_u64(&slot->what) ^ mm_lot_tag(mm_anew(t) >> shift);
            if ((what & ~MM_LOT_ODD) >> MM_LOT_CONTENT_BITS == 0) break;
            polls = mm_anew(polls + 1);
            if (polls == MM_WAIT_ITERATIONS) break;
            mm_wait();
        }
        mm_warp_sync(group);
        group = mm_anew(group);
        if (MM_LIKELY(what >> MM_LOT_CONTENT_BITS == 0)) {
            if (mm_warp_lane() == mm_ctz(group)) mm_count_u32(&slot->taken, mm_popcount(group));
            group = mm_anew(group);
            t += mm_popcount(group & mm_bits_low(mm_warp_lane()));
            return ref->user_base + what + (uint64_t)(t & ((1u << shift) - 1)) * ref->classes[mm_anew(c)].bytes;
        }
    }
    group = mm_anew(group), c = mm_anew(c);
    return mm_token_make(c, mm_anew(ring) / (uint32_t)sizeof(struct mm_ring) - c * MM_RINGS, t + mm_popcount(group & mm_bits_low(mm_warp_lane())));
}

/* What a free comes to that was not plain: the words of block j were `words` before `change` was added to them; `twice`
 * slices were free already. */
MM_FN_RARE void mm_slice_freed(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j, uint64_t words,
                               uint32_t change, uint32_t twice) {
    if (twice != 0) mm_misuse_count(ref, MM_MISUSE_DOUBLE_FREE, twice);
    if (change != 0) mm_block_counted(ref, s, c, j, words, change);
}

/* Marks the slices of `mask`, for which n lanes stand, free in word `word` of segment s, class c. */
MM_FN_RARE void mm_slice_mark_free(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t word, uint64_t mask, uint32_t n) {
    const uint64_t old = mm_or_release_u64(mm_segment_bits(ref, s) + word, mask);
    const struct mm_class class_ = ref->classes[c];
    const uint32_t change = mm_block_change(class_, word, old, mask), j = word >> (class_.block_shift - MM_WORD_SHIFT);
    const uint32_t twice = n - mm_popcount(mask & ~old);
    const uint64_t words = change == 0 ? 1 : mm_add_relaxed_u64(&mm_segment_at(ref, s)->words[j], change);
    if (MM_LIKELY(twice == 0 && mm_words_some(words) != 0 && !mm_words_are_all(words + change, class_, j))) return;
    mm_slice_freed(ref, s, c, j, words, change, twice);
}

/* Frees slice i of segment s, class c, which has been handed out. All lanes as one if they want the same word, else each for
 * itself: an or over part of a warp takes as long as several atomics. */
MM_FN void mm_slice_free_issued(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t i) {
    const uint32_t word = i >> MM_WORD_SHIFT, here = mm_warp_here(), group = mm_warp_match(here, s * MM_SEGMENT_WORDS + word);
    MM_STATIC_ASSERT((uint64_t)MM_TREE_BITS_MAX * MM_SEGMENT_WORDS <= 1ull << 32, "the number of a word fits");
    uint64_t mask = 1ull << (i % (1u << MM_WORD_SHIFT));
    uint32_t n = 1;
    if (MM_LIKELY(group == here)) {
        n = mm_popcount(group);
        mask = mm_warp_or(group, mask);
        mm_warp_sync(group);
        if (mm_warp_lane() != mm_ctz(group)) return;
    }
    mm_slice_mark_free(ref, s, c, word, mask, n);
}

/* Number of the slice at byte offset `off` of the heap, in a segment of the class; *rest: bytes from its beginning on. */
MM_FN uint32_t mm_slice_number(uint64_t off, struct mm_class class_, uint32_t *rest) {
    const uint32_t in = (uint32_t)off & (uint32_t)(MM_SEGMENT_BYTES - 1);
    const uint32_t i = mm_class_number(class_, in);
    *rest = in - i * class_.bytes; /* the shift rounded down */
    return i;
}

/* Frees slice i of segment s, class c, in a block of unissued, if it has been handed out; else counts the misuse. */
MM_FN_RARE void mm_slice_free_checked(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t i) {
    const int misuse = mm_stripe_misuse(ref, s, c, i);
    if (misuse == 0) mm_slice_free_issued(ref, s, c, i);
    else mm_misuse_count(ref, (enum mm_misuse)misuse, 1);
}

/* Frees the slice at byte offset `off` of the heap, or counts the misuse. Returns whether its segment has slices; if not,
 * nothing has been done. */
MM_FN int mm_slice_free(const struct mm_heap_ref *ref, uint64_t off) {
    const uint32_t s = (uint32_t)(off >> MM_SEGMENT_SHIFT);
    struct mm_segment *at = mm_segment_at(ref, s);
    const uint64_t owner = mm_load_relaxed_u64(&at->owner), unissued = mm_load_relaxed_u64(&at->unissued);
    const uint32_t c = MM_OWNER_KIND(owner) - 1;
    if (!MM_LIKELY(c < MM_CLASS_COUNT)) return 0;
    const struct mm_class class_ = ref->classes[c];
    uint32_t rest;
    const uint32_t i = mm_slice_number(off, class_, &rest);
    if (!MM_LIKELY(rest == 0 && i < class_.slices)) mm_misuse_count(ref, rest != 0 ? MM_MISUSE_INTERIOR : MM_MISUSE_NEVER, 1);
    else if (MM_LIKELY(!(unissued >> (i >> class_.block_shift) & 1))) mm_slice_free_issued(ref, s, c, i);
    else mm_slice_free_checked(ref, s, c, i);
    return 1;
}

#endif
