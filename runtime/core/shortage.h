/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* When memory is short: what whoever has a ticket of a lot in which there is nothing (stripe.h) does to get slices, and when
 * the answer is NULL.
 *
 * Order. Lots are made ready from fresh segments and whole blocks only, without haste. Who finds nothing in
 *   them searches: slices that came back; whole blocks and segments, of which it puts one block into circulation (all of it
 *   handed out, and what the caller does not need has come back); then the stripes and reserves of all classes are flushed.
 *   One caller of a class at a time puts a block into circulation, or each of hundreds would, for a few slices each; and one at
 *   a time flushes, or they are in each other's way, and find nothing that is not in others' hands. The others look for slices
 *   meanwhile, as long as a wait may take; and what was done in vain, from beginning to end while one waited, one need not do
 *   again: a NULL takes each of the many who get one at once as long as the first.
 * NULL. Only after MM_NULL_TRIES such searches with a wait between, twice as long each time, each of which found nothing.
 *   `dry` keeps the version of the supply (tree.h) if it stood still meanwhile: then two searches with one wait between are
 *   enough for those who come later.
 */
#ifndef MM_CORE_SHORTAGE_H
#define MM_CORE_SHORTAGE_H

#include "runtime/core/stripe.h"

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
    mm_add_relaxed_u64(&mm_segment_blocks(ref, s)->words[j], some + (words - 1) * MM_WORDS_FULL);
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
MM_FN int mm_stripe_flush(const struct mm_heap_ref *ref) {
    int any = 0;
    MM_ROLLED
    for (uint64_t used = mm_load_acquire_u64(&mm_heap_of(ref)->classes_used); used != 0; used &= used - 1) {
        const uint32_t c = mm_ctz(used), stripes = ref->classes[c].stripe_mask + 1u, end = MM_RINGS;
        MM_ROLLED
        for (uint32_t i = 0; i < end; i = i + 1 == stripes ? MM_STRIPES : i + 1) any |= mm_stripe_flush_one(ref, c, i);
    }
    return any;
}

/* What one does at a time, for all who want it done: the word counts how often it was done, beside whether it found something
 * the last time and whether somebody is at it. Who wants it done waits for one that begins after that, be it another's. */
#define MM_ROUND_BUSY 1ull
#define MM_ROUND_FOUND 2ull
#define MM_ROUND_ONE 4ull
enum mm_turn { MM_TURN_MINE, MM_TURN_WAIT, MM_TURN_FOUND, MM_TURN_NOTHING };

/* *due: which the caller waits for; 0, none yet. Returns whether the next is the caller's (who ends it) or is to be waited for;
 * or what it found, which ends the wait. Acquires. */
MM_FN_RARE enum mm_turn mm_round_begin(uint64_t *word, uint64_t *due) {
    const uint64_t now = mm_load_acquire_u64(word), done = now / MM_ROUND_ONE;
    const int is_busy = (now & MM_ROUND_BUSY) != 0;
    if (*due == 0) *due = done + 1 + is_busy;
    if (done < *due && (is_busy || !mm_cas_acquire_u64(word, now, now | MM_ROUND_BUSY))) return MM_TURN_WAIT;
    const enum mm_turn turn = done < *due ? MM_TURN_MINE : now & MM_ROUND_FOUND ? MM_TURN_FOUND : MM_TURN_NOTHING;
    *due = 0;
    return turn;
}
/* Releases. */
MM_FN enum mm_turn mm_round_end(uint64_t *word, int found) {
    mm_store_release_u64(word, (mm_load_relaxed_u64(word) / MM_ROUND_ONE + 1) * MM_ROUND_ONE | (found ? MM_ROUND_FOUND : 0));
    return found ? MM_TURN_FOUND : MM_TURN_NOTHING;
}

/* The next round of flushing; due and result: mm_round_begin, but MM_TURN_MINE. */
MM_FN_RARE enum mm_turn mm_stripe_flush_turn(const struct mm_heap_ref *ref, uint64_t *due) {
    uint64_t *word = &mm_heap_of(ref)->flushing;
    const enum mm_turn turn = mm_round_begin(word, due);
    return turn == MM_TURN_MINE ? mm_round_end(word, mm_stripe_flush(ref)) : turn;
}

/* How far a search is. All 0: it has not begun. */
struct mm_search {
    uint64_t version, due;
    uint32_t tries, polls, searches, fails; /* neighbours are read together: else nvcc emits a pragma that needs PTX 8.3 */
    uint32_t pause;  /* steps until the next search */
    int circulated; /* in vain: what is left to be done is to flush */
    struct mm_growth growth;
};

MM_FN void mm_search_begin(struct mm_search *s) {
    s->version = s->due = 0, s->tries = s->searches = s->fails = s->polls = s->pause = 0, s->circulated = 0;
    mm_growth_begin(&s->growth);
}

/* One step of a search for up to n slices (at most 32) of class c, for a lane that has ticket t of stripe k, of a lot in which there is
 * nothing. *claim, when done: them; 0, for NULL. *is_to_look: whether the caller is to look; there is less to be used again than was
 * thought. */
MM_FN_RARE enum mm_step mm_stripe_find(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t k, uint32_t t, struct mm_search *s,
                                       mm_claim *claim, int *is_to_look) {
    struct mm_heap *h = mm_heap_of(ref);
    struct mm_class_state *cs = mm_stripe_class(ref, c);
    *claim = 0;
    if (s->pause > 1) {
        s->pause--;
        return MM_STEP_WAIT;
    }
    if (!mm_growth_is_due(&s->growth)) return MM_STEP_WAIT_HOST;
    MM_ROLLED
    while (s->tries < MM_TREE_TRIES && s->polls < MM_WAIT_ITERATIONS) {
        const uint64_t there = mm_grow_mapped(ref);
        *claim = mm_stripe_reuse(ref, c, n, t + k + (s->tries + s->polls) * MM_REUSE_ROUNDS);
        if (*claim != 0) return MM_STEP_DONE;
        s->tries++;
        const int thrifty = mm_stripe_is_thrifty(ref, c);
        if (++s->fails < MM_REUSE_FAILS && thrifty) continue;
        *is_to_look |= thrifty;
        const uint64_t now = mm_version_read(h);
        const int is_dry = mm_load_relaxed_u64(&cs->dry) == now + 1 && mm_grow_is_refused(ref, 1);
        if (is_dry && s->searches != 0) break;
        if (s->searches == 0) s->version = now;
        if (!is_dry) {
            const enum mm_grown grown = s->circulated ? mm_grow_poll(ref, 1, there, MM_PATIENCE_CALLER, &s->growth) : MM_GROWN_NO;
            if (grown == MM_GROWN_WAIT) {
                s->tries--;
                return MM_STEP_WAIT_HOST;
            }
            if (grown == MM_GROWN_MORE) {
                s->circulated = 0;
                continue;
            }
            enum mm_turn turn = s->circulated ? mm_stripe_flush_turn(ref, &s->due) : mm_round_begin(&cs->circulating, &s->due);
            if (turn == MM_TURN_MINE) { /* what he puts into circulation the others find */
                *claim = mm_stripe_circulate(ref, c, n, t + k);
                turn = mm_round_end(&cs->circulating, *claim != 0);
            }
            if (*claim != 0) { /* there is memory: then there is no need for each to look for itself */
                mm_ring_skip(mm_ring_at(ref, c, k), ref->classes[c].lot_shift, t >> ref->classes[c].lot_shift);
                return MM_STEP_DONE;
            }
            if (turn == MM_TURN_WAIT) { /* that was no search */
                s->tries--, s->polls++;
                return MM_STEP_WAIT;
            }
            s->circulated = turn == MM_TURN_NOTHING && !s->circulated;
            if (s->circulated || turn == MM_TURN_FOUND) continue;
        }
        if (++s->searches >= MM_NULL_TRIES) {
            if (now == s->version) mm_store_relaxed_u64(&cs->dry, s->version + 1);
            break;
        }
        s->pause = mm_wait_steps(1u << s->searches);
        return MM_STEP_WAIT;
    }
    return MM_STEP_DONE;
}

#endif
