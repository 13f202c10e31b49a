/* Stripes and reserves: how memory of a class is handed out, by tickets.
 *
 * Representation. A class has MM_STRIPES stripes, which hand out slices to callers, and one or more reserves, which
 *   hand out blocks to stripes. Each is one atomic word, segment + 1 | limit | cursor. A caller adds the number of
 *   pieces it wants to the cursor of the stripe of its multiprocessor; the sum before is its first ticket.
 *   REGION  tickets below the limit are pieces of a row of neighbouring segments, that segment the first, counted from
 *           its beginning on.
 *   REUSE   (stripes) no segment, limit MM_REUSE_TICKETS / stripes: tickets below it allow to look for slices that came
 *           back (block.h).
 *   NONE    all 0.
 *   opener[s][j] of a block: 0 while it is whole or in a reserve; k + 1 once it is part of a region of stripe k, and
 *           MM_OPENER_PENDING until that region is published.
 * Invariants.
 *   I1  a ticket below the limit is one caller's alone, and came with the segment it is good for: nobody can be stale.
 *       The slice it names is 0 in the slice bits, so the block cannot become whole, nor the segment nobody's.
 *   I2  whoever draws the ticket whose number is the limit refills the word; one does, in each life of it. Only
 *       that caller stores to it (and who takes REUSE's ticket by force, by compare and swap).
 *   I3  unissued (segment.h) has a bit for each block with slices that were not handed out: set before the block is
 *       whole, cleared by whoever draws the block's last slice, before that slice can come back.
 * Size of a region. Who refills looks how many tickets were drawn too late: so many callers wait, so large the region.
 * Free looks whether a slice in a block of unissued has been handed out: not, if the block has no opener; nor if the
 *   stripe's region has it between cursor and limit. A region that has moved on, or run out, was handed out; one that
 *   is pending is waited for.
 * Linearisation. A ticket: the addition. A refill: the store of the new word.
 * Ordering. The word is published with release and drawn with acquire (read-modify-writes in between carry on).
 * Progress. A caller without a ticket waits for its stripe's refill, at most MM_WAIT_ITERATIONS polls; then it answers
 *   NULL. It adds once for each time that it saw a ticket left, so cursors do not overflow.
 * NULL. Only after MM_NULL_TRIES searches with a wait between, twice as long each time, each of which found neither
 *   block nor slice nor segment, no stripe of the class with tickets, nor any other to be flushed. `dry` keeps the
 *   version of the supply (tree.h) if it stood still meanwhile: then two searches with one wait between are enough
 *   for those who come later.
 */
#ifndef MM_CORE_STRIPE_H
#define MM_CORE_STRIPE_H

#include "runtime/core/block.h"

#define MM_OPENER_PENDING (1u << 31)
#define MM_CURSOR_BITS 25
MM_STATIC_ASSERT(2 * MM_SEGMENT_SLICES_MAX <= 1u << MM_LIMIT_BITS, "a limit fits");
MM_STATIC_ASSERT(MM_TREE_BITS_MAX < 1ull << (64 - MM_CURSOR_BITS - MM_LIMIT_BITS), "a segment + 1 fits");

MM_FN uint32_t mm_stripe_cursor(uint64_t w) { return (uint32_t)w & ((1u << MM_CURSOR_BITS) - 1); }
MM_FN uint32_t mm_stripe_limit(uint64_t w) { return (uint32_t)(w >> MM_CURSOR_BITS) & ((1u << MM_LIMIT_BITS) - 1); }
/* Segment + 1. */
MM_FN uint32_t mm_stripe_segment(uint64_t w) { return (uint32_t)(w >> (MM_CURSOR_BITS + MM_LIMIT_BITS)); }
MM_FN uint64_t mm_stripe_make(uint32_t segment, uint32_t limit, uint32_t cursor) {
    return (uint64_t)segment << (MM_CURSOR_BITS + MM_LIMIT_BITS) | (uint64_t)limit << MM_CURSOR_BITS | cursor;
}
/* Whether somebody else is to refill it. */
MM_FN int mm_stripe_is_waiting(uint64_t w) { return mm_stripe_cursor(w) > mm_stripe_limit(w); }
/* Tickets among n, the first of which is the cursor of w, that are good for something; *refill: whether the caller must
 * refill. */
MM_FN uint32_t mm_stripe_good(uint64_t w, uint32_t n, int *refill) {
    const uint32_t first = mm_stripe_cursor(w), limit = mm_stripe_limit(w), left = limit - first;
    *refill = first <= limit && left < n;
    return first >= limit ? 0 : left < n ? left : n;
}

/* Draws n tickets for `group`; waits first, and again, while somebody else is to refill. Returns the word as it was. The lanes
 * stay together: a vote or shuffle of lanes that are not costs some 500 cycles on an H200. */
MM_FN uint64_t mm_stripe_draw(uint64_t *word, uint32_t n, uint32_t group) {
    const uint32_t leader = mm_ctz(group);
    uint64_t w = 0;
    uint32_t polls = 0;
    do {
        if (mm_warp_lane() == leader) w = mm_add_acquire_u64(word, n);
        mm_warp_sync(group);
        w = mm_warp_shuffle_u64(group, w, leader);
        if (!mm_stripe_is_waiting(w)) break;
        do mm_wait();
        while (mm_warp_shuffle(group, mm_stripe_is_waiting(mm_load_relaxed_u64(word)), leader) && ++polls < MM_WAIT_ITERATIONS);
    } while (polls < MM_WAIT_ITERATIONS);
    return w;
}

MM_FN struct mm_class_state *mm_stripe_class(const struct mm_heap_ref *ref, uint32_t c) {
    return &mm_heap_of(ref)->classes[c];
}

/* n slices from number i on, of a row of segments that begins at s, are being handed out: blocks of which that was
 * the last are so altogether. */
MM_FN_RARE void mm_stripe_issued(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t i, uint32_t n) {
    const uint32_t slices = ref->classes[c].slices, shift = ref->classes[c].block_shift;
    MM_ROLLED
    for (; n > 0; s++) {
        if (i >= slices) {
            i -= slices;
            continue;
        }
        const uint32_t end = n < slices - i ? i + n : slices, first = i >> shift;
        const uint32_t done = end == slices ? ref->classes[c].blocks : end >> shift;
        struct mm_segment *at = mm_segment_at(ref, s);
        if (done > first) mm_and_acq_rel_u64(&at->unissued, ~(mm_bits_low(done) & ~mm_bits_low(first)));
        MM_ROLLED
        for (uint32_t j = first; j < done; j++) /* not a load: against mm_block_withdraw, which looks at unissued */
            if (mm_words_some(mm_add_acq_rel_u64(&at->words[j], 0)) != 0) mm_block_offer(ref, s, c, j);
        n -= end - i;
        i = 0;
    }
}

/* Lane `rank` of `lanes` does its part of opening a region (mm_claim_opening) of class c: sets the opener of its
 * blocks; while that is pending, clears their slice bits; when it no longer is, lets reusers in. Returns the limit,
 * counted from the beginning of the first segment on. */
MM_FN uint32_t mm_stripe_open(const struct mm_heap_ref *ref, uint32_t c, mm_claim region, uint32_t opener, uint32_t rank,
                              uint32_t lanes) {
    const uint32_t blocks = ref->classes[c].blocks, slices = ref->classes[c].slices, shift = ref->classes[c].block_shift;
    uint32_t s = (uint32_t)(region >> 32) & (MM_TREE_BITS_MAX - 1), b = (uint32_t)region >> 16, n = (uint32_t)region & 0xffff;
    uint32_t limit = 0;
    MM_ROLLED
    for (;; s++) { /* segment by segment */
        struct mm_segment *at = mm_segment_at(ref, s);
        const uint32_t end = n < blocks - b ? b + n : blocks;
        const uint32_t to = end == blocks ? slices : end << shift;
        const uint32_t words = ((to + (1u << MM_WORD_SHIFT) - 1) >> MM_WORD_SHIFT) - mm_block_first_word(ref->classes[c], b);
        if (opener & MM_OPENER_PENDING) mm_zero(mm_segment_bits(ref, s) + mm_block_first_word(ref->classes[c], b), words, rank, lanes);
        MM_ROLLED
        for (uint32_t j = b + rank; j < end; j += lanes) {
            if (opener & MM_OPENER_PENDING) mm_or_relaxed_u64(&at->words[j], MM_WORDS_WHOLE); /* fresh: as if it had been */
            mm_store_relaxed_u32(&at->opener[j], opener);
            if (!(opener & MM_OPENER_PENDING)) mm_block_opened(ref, s, c, j);
        }
        n -= end - b;
        if (n == 0) return limit + to;
        limit += slices;
        b = 0;
    }
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
    const uint32_t was = mm_warp_shuffle(group, (uint32_t)mm_load_relaxed_u64(rich), mm_ctz(group));
    const uint32_t is = mm_stripe_richness(ref, c, salt + was * MM_STRIPES, group, rank); /* not the same places each time */
    if (is != was && rank == 0)
        mm_store_relaxed_u64(rich, is > was ? is : was - (was - is + MM_REUSE_DECAY - 1) / MM_REUSE_DECAY);
}

/* Publishes a region that has been opened. The first n slices, or all if there are fewer, are the caller's, who gets
 * them. */
MM_FN mm_claim mm_stripe_publish(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, mm_claim region, uint32_t limit,
                                 uint32_t n) {
    const uint32_t s = (uint32_t)(region >> 32) & (MM_TREE_BITS_MAX - 1);
    const uint32_t first = ((uint32_t)region >> 16) << ref->classes[c].block_shift;
    if (n > limit - first) n = limit - first;
    mm_store_release_u64(&mm_stripe_class(ref, c)->stripe[k].word, mm_stripe_make(s + 1, limit, first + n));
    mm_version_raise(mm_heap_of(ref));
    if (n == 0) return 0;
    mm_stripe_issued(ref, s, c, first, n);
    return mm_claim_row(s, first, n);
}

/* Whether slices that came back, `rich` 1/256 of class c as it seems, which has so many segments, are to be used before it gets
 * more. Not if they are fewer than its stripes may hold anyway: to be had one by one they cost more than they are worth. */
MM_FN int mm_stripe_is_thrifty(const struct mm_heap_ref *ref, uint32_t c, uint64_t rich, uint64_t segments) {
    const struct mm_class class_ = ref->classes[c];
    const uint64_t block = class_.slices >> class_.block_shift ? 1u << class_.block_shift : class_.slices;
    const uint64_t held = (class_.stripe_mask + 1u) * block * MM_REUSE_HELD;
    if (rich * MM_REUSE_SHARE >= 256 && rich * segments * class_.slices >= 256 * held) return 1;
    return rich * MM_REUSE_SHARE_SCARCE >= 256 && mm_load_relaxed_u64(&mm_heap_of(ref)->free_count) < ref->mapped_count / MM_SCARCE;
}

/* Refills the reserve r of class c, which is the caller's to refill, with fresh segments; or with nothing, if there
 * are none, or slices that came back are to be used first (unless the caller insists). The first `mine` blocks, or all,
 * are the caller's, who gets them; 0: none. (If he drew them like anybody else, those who flush when memory is short could
 * take the segment away again and again.) salt: its number among the reserves. */
MM_FN_RARE mm_claim mm_stripe_refill_reserve(const struct mm_heap_ref *ref, uint32_t c, struct mm_stripe *r, uint32_t salt,
                                             int insist, uint32_t mine) {
    struct mm_heap *h = mm_heap_of(ref);
    /* Many wait: all that is needed is under way at once. */
    const uint64_t w = mm_load_relaxed_u64(&r->word), near = mm_load_relaxed_u64(&h->free_near);
    const uint64_t rich = mm_load_relaxed_u64(&h->classes[c].rich), had = mm_load_relaxed_u64(&h->classes[c].segments);
    const uint64_t used = mm_load_relaxed_u64(&h->classes_used);
    const uint32_t late = mm_stripe_cursor(w) - mm_stripe_limit(w), blocks = ref->classes[c].blocks;
    const uint32_t may = late > mine ? mm_class_reserve_segments(c, (uint32_t)ref->hold_shift) : 0;
    uint32_t n = 0, segments = 1, first = MM_TREE_NONE;
    MM_ROLLED
    for (uint32_t some = blocks; segments < MM_REGION_SEGMENTS_MAX; some += blocks, segments++)
        if (some >= late && (some >= MM_RESERVE_AHEAD * late || segments >= may)) break;
    if (insist || !mm_stripe_is_thrifty(ref, c, rich, had))
        first = mm_segment_claim_fresh(ref, c, (uint32_t)near, late > mine ? salt : 0, segments, &n);
    if (first != MM_TREE_NONE && !(used >> c & 1)) mm_or_release_u64(&h->classes_used, 1ull << c);
    n *= blocks;
    if (mine > n) mine = n;
    mm_store_release_u64(&r->word, n == 0 ? 0 : mm_stripe_make(first + 1, n, mine));
    return mine == 0 ? 0 : mm_claim_opening(first, 0, mine);
}

/* Opens a region of stripe k and publishes it: `group` does it together, the caller is the one of rank `rank` in it. The
 * first n slices, or all if there are fewer, are the group's: the lane of rank 0 gets the claim. */
MM_FN mm_claim mm_stripe_put_in_use(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, mm_claim region, uint32_t n,
                                    uint32_t group, uint32_t rank) {
    const uint32_t lanes = mm_popcount(group);
    const uint32_t limit = mm_stripe_open(ref, c, region, MM_OPENER_PENDING | (k + 1), rank, lanes);
    mm_claim claim = 0;
    mm_warp_sync(group);
    if (rank == 0) claim = mm_stripe_publish(ref, c, k, region, limit, n);
    mm_warp_sync(group);
    mm_stripe_open(ref, c, region, k + 1, rank, lanes);
    if (region & MM_REFILL) mm_stripe_look(ref, c, k, group, rank);
    mm_warp_sync(group); /* nobody runs ahead: see mm_slice_malloc_slow */
    return claim;
}

/* Refills stripe k of class c, which is the caller's to refill (I2): returns a region that the caller has to open and
 * publish, with MM_REFILL if he has refilled the reserve, too; or MM_REFILL alone, and then the stripe is REUSE; or 0:
 * NONE. `reuse`: it may be REUSE; else slices that came back have just been looked for in vain. `insist`: on fresh
 * segments, if there is nothing else, whatever mm_stripe_is_thrifty says. */
MM_FN_RARE mm_claim mm_stripe_refill(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, int reuse,
                                    int insist) {
    struct mm_class_state *cs = mm_stripe_class(ref, c);
    uint64_t *stripe = &cs->stripe[k].word;
    const uint32_t reserve_index = k & (mm_class_reserves(c, (uint32_t)ref->hold_shift) - 1);
    struct mm_stripe *r = &cs->stripe[MM_STRIPES + reserve_index];
    const struct mm_tree whole = mm_segment_class_tree(ref, c, MM_WHOLE);
    int fresh = 1, refill = 0;
    MM_ROLLED
    for (uint32_t tries = 0; tries < MM_TREE_TRIES; tries++) {
        const uint64_t any = mm_load_relaxed_u64(whole.node), reserve = mm_load_relaxed_u64(&r->word);
        uint64_t w = mm_load_relaxed_u64(stripe);
        const uint32_t slices = mm_stripe_cursor(w) - mm_stripe_limit(w), late = (slices - 1) >> mm_class_block_fill_shift(c);
        const uint32_t want = late < MM_REGION_BLOCKS_MAX ? late + 1 : MM_REGION_BLOCKS_MAX;
        /* What the reserve has is the class's already, and at hand. */
        const int has = fresh && mm_stripe_cursor(reserve) < mm_stripe_limit(reserve);
        if (any != 0 && !has && (tries == 0 || !fresh)) {
            const uint32_t s = mm_tree_find(whole, tries + (late ? k : 0));
            if (s == MM_TREE_NONE) continue;
            const uint64_t got = mm_segment_claim(ref, s, c, k, want);
            if (got != 0) return mm_claim_opening(s, mm_ctz(got), mm_popcount(got));
            mm_segment_unlist(ref, s, c, MM_WHOLE);
            continue;
        }
        if (!fresh) break;
        w = mm_add_acquire_u64(&r->word, want);
        MM_ROLLED
        for (uint32_t polls = 0; mm_stripe_is_waiting(w) && polls < MM_WAIT_ITERATIONS; polls++) {
            mm_wait();
            const uint64_t is = mm_load_relaxed_u64(&r->word);
            if (is == 0 && !insist) break; /* who was to refill it has found nothing better than slices that came back */
            if (!mm_stripe_is_waiting(is)) w = mm_add_acquire_u64(&r->word, want);
        }
        const uint32_t good = mm_stripe_good(w, want, &refill);
        if (refill) {
            const mm_claim own = mm_stripe_refill_reserve(ref, c, r, reserve_index, insist, good == 0 ? want : 0);
            if (own != 0) return own | MM_REFILL;
        }
        fresh = 0;
        if (good != 0) {
            const uint32_t blocks = ref->classes[c].blocks;
            uint32_t s = mm_stripe_segment(w) - 1, b = mm_stripe_cursor(w);
            MM_ROLLED
            for (; b >= blocks; b -= blocks) s++;
            return mm_claim_opening(s, b, good) | (refill ? MM_REFILL : 0);
        }
    }
    const int any = reuse && mm_load_relaxed_u64(mm_segment_class_tree(ref, c, MM_AVAIL).node) != 0;
    const uint32_t tickets = MM_REUSE_TICKETS / (ref->classes[c].stripe_mask + 1u);
    mm_store_release_u64(stripe, any ? mm_stripe_make(0, tickets, 0) : 0);
    if (refill) mm_stripe_look(ref, c, k, mm_warp_alone(), 0);
    return any ? MM_REFILL : 0;
}

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

/* Tickets of any stripe or reserve of the class: up to n slices. */
MM_FN_RARE mm_claim mm_stripe_steal(const struct mm_heap_ref *ref, uint32_t c, uint32_t n) {
    struct mm_class_state *cs = mm_stripe_class(ref, c);
    const uint32_t stripes = ref->classes[c].stripe_mask + 1u;
    mm_claim claim = 0;
    MM_ROLLED
    for (uint32_t k = 0; k < stripes && claim == 0; k++) {
        uint64_t *word = &cs->stripe[k].word, w = mm_load_relaxed_u64(word);
        int refill;
        if (mm_stripe_segment(w) == 0 || mm_stripe_cursor(w) >= mm_stripe_limit(w)) continue;
        w = mm_add_acquire_u64(word, n);
        const uint32_t good = mm_stripe_segment(w) ? mm_stripe_good(w, n, &refill) : (mm_stripe_good(w, n, &refill), 0);
        if (good) {
            mm_stripe_issued(ref, mm_stripe_segment(w) - 1, c, mm_stripe_cursor(w), good);
            claim = mm_claim_row(mm_stripe_segment(w) - 1, mm_stripe_cursor(w), good);
        }
        if (refill) mm_store_release_u64(word, 0); /* there is nothing to refill it with */
    }
    return claim;
}

/* Takes the tickets that are left in stripe or reserve `word` of class c, and frees those slices or gives back those
 * blocks. Returns whether there were any. */
MM_FN_RARE int mm_stripe_flush_one(const struct mm_heap_ref *ref, uint32_t c, uint64_t *word, int is_reserve) {
    uint64_t w = mm_load_acquire_u64(word);
    if (mm_stripe_segment(w) == 0 || mm_stripe_cursor(w) >= mm_stripe_limit(w)) return 0;
    const uint32_t want = mm_stripe_limit(w) - mm_stripe_cursor(w);
    int refill;
    w = mm_add_acquire_u64(word, want);
    uint32_t n = mm_stripe_good(w, want, &refill), i = mm_stripe_cursor(w), s = mm_stripe_segment(w) - 1;
    if (refill) mm_store_release_u64(word, 0);
    if (n == 0 || mm_stripe_segment(w) == 0) return 0;
    if (!is_reserve) mm_stripe_issued(ref, s, c, i, n);
    const uint32_t per_segment = is_reserve ? ref->classes[c].blocks : ref->classes[c].slices;
    MM_ROLLED
    while (n > 0) {
        if (i >= per_segment) {
            i -= per_segment;
            s++;
            continue;
        }
        const uint32_t bit = is_reserve ? i : i % (1u << MM_WORD_SHIFT);
        uint32_t some = is_reserve ? per_segment - i : (1u << MM_WORD_SHIFT) - bit;
        if (some > per_segment - i) some = per_segment - i;
        if (some > n) some = n;
        const uint64_t mask = mm_bits_low(some) << bit;
        if (is_reserve) mm_segment_give_back(ref, s, c, mask);
        else mm_block_free_bits(ref, s, c, i >> MM_WORD_SHIFT, mask);
        i += some;
        n -= some;
    }
    return 1;
}

/* Shortage: flushes all stripes and reserves, whatever their class, so that what they hold can be used by any stripe,
 * and blocks and segments that are free but for that become whole. Returns whether there was anything. */
MM_FN_RARE int mm_stripe_flush(const struct mm_heap_ref *ref) {
    int any = 0;
    MM_ROLLED
    for (uint64_t used = mm_load_acquire_u64(&mm_heap_of(ref)->classes_used); used != 0; used &= used - 1) {
        const uint32_t c = mm_ctz(used);
        struct mm_stripe *stripe = mm_stripe_class(ref, c)->stripe;
        const uint32_t stripes = ref->classes[c].stripe_mask + 1u;
        const uint32_t end = MM_STRIPES + mm_class_reserves(c, (uint32_t)ref->hold_shift);
        MM_ROLLED
        for (uint32_t k = 0; k < end; k = k + 1 == stripes ? MM_STRIPES : k + 1)
            any |= mm_stripe_flush_one(ref, c, &stripe[k].word, k >= MM_STRIPES);
    }
    return any;
}

/* What n tickets of stripe k, which was w, come to: up to n slices; or a region for the caller to open and publish; or
 * none, for NULL. MM_REFILL in a row of slices: the stripe is the caller's to refill, which it shows by w = 0 next. */
MM_FN_RARE mm_claim mm_stripe_claim(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t k, uint64_t w) {
    struct mm_class_state *cs = mm_stripe_class(ref, c);
    uint64_t *word = &cs->stripe[k].word, version = 0;
    uint32_t searches = 0, fails = 0;
    MM_ROLLED
    for (uint32_t tries = 0;; tries++) {
        int refill, reuse = 1;
        const uint32_t good = mm_stripe_good(w, n, &refill), s = mm_stripe_segment(w) - 1;
        if (good != 0 && mm_stripe_segment(w) != 0) {
            mm_stripe_issued(ref, s, c, mm_stripe_cursor(w), good);
            return mm_claim_row(s, mm_stripe_cursor(w), good) | (refill ? MM_REFILL : 0);
        }
        if (good != 0 && !refill) {
            const mm_claim claim = mm_stripe_reuse(ref, c, n, mm_stripe_cursor(w) + k);
            if (claim != 0) return claim;
            /* Others were quicker, or nothing is left to use again: then it is time for the refill. */
            if (++fails % MM_REUSE_FAILS != 0 && mm_load_relaxed_u64(&cs->rich) * MM_REUSE_SHARE >= 256) {
                w = mm_stripe_draw(word, n, mm_warp_alone());
                continue;
            }
            reuse = 0;
            const uint64_t is = mm_load_relaxed_u64(word);
            if (mm_stripe_segment(is) == 0 && mm_stripe_limit(is) != 0 && !mm_stripe_is_waiting(is))
                refill = mm_cas_acq_rel_u64(word, is, mm_stripe_make(0, mm_stripe_limit(is), mm_stripe_limit(is) + n));
        }
        if (refill) {
            mm_claim claim = mm_stripe_refill(ref, c, k, reuse, !reuse || searches != 0);
            if (claim & MM_OPENING) return claim;
            if (claim == 0) { /* as it seems, no memory */
                const uint64_t now = mm_version_read(mm_heap_of(ref));
                if (searches == 0) version = now;
                const int is_dry = mm_load_relaxed_u64(&cs->dry) == now + 1;
                if (is_dry && searches != 0) return 0;
                claim = is_dry ? 0 : mm_stripe_steal(ref, c, n);
                if (claim != 0) return claim;
                if (is_dry || !mm_stripe_flush(ref)) {
                    if (++searches >= MM_NULL_TRIES) {
                        if (now == version) mm_store_relaxed_u64(&cs->dry, version + 1);
                        return 0;
                    }
                    mm_wait_times(1u << searches);
                }
            }
        }
        if (mm_stripe_is_waiting(w) || tries == MM_TREE_TRIES) return 0; /* in vain */
        w = mm_stripe_draw(word, n, mm_warp_alone());
    }
}

/* Slice i of segment s, class c, lies in a block of unissued. Returns 0 if it has been handed out, or what is wrong
 * with freeing it. */
MM_FN int mm_stripe_misuse(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t i) {
    uint32_t *at = &mm_segment_at(ref, s)->opener[i >> ref->classes[c].block_shift];
    uint32_t opener = mm_load_acquire_u32(at);
    MM_ROLLED
    for (uint32_t polls = 0; opener & MM_OPENER_PENDING && polls < MM_WAIT_ITERATIONS; polls++) {
        mm_wait();
        opener = mm_load_acquire_u32(at);
    }
    if (opener == 0 || opener & MM_OPENER_PENDING) return MM_MISUSE_NOT_ALLOCATED;
    const uint64_t w = mm_load_acquire_u64(&mm_stripe_class(ref, c)->stripe[opener - 1].word);
    const uint32_t limit = mm_stripe_limit(w), slices = ref->classes[c].slices;
    uint32_t first = mm_stripe_segment(w), row = i;
    if (first == 0 || first > s + 1) return 0; /* NONE, or the region has moved on */
    MM_ROLLED
    for (; first <= s && row < limit; first++) row += slices;
    return row >= mm_stripe_cursor(w) && row < limit ? MM_MISUSE_NEVER : 0;
}

#endif
