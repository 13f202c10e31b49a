/* Blocks: how a block is opened, handed out by tickets, and retired. Protocol T of the design.
 *
 * Representation. For the block b (named by its first granule):
 *   ctrl[b]        bits 0..7 kind: closed (0), class + 1 while it is handed out, MM_KIND_RUN; bits 8..12 its
 *                  stripe; the rest counts tickets. ctrl of the block's other granules: MM_KIND_BODY + class.
 *   bits[b..]      one bit per slice, 1: free again (or beyond the last slice). 0: not handed out yet, or live.
 *   full_words[b]  how many words of bits[b..] are all ones.
 *   stripe[c][i]   NONE: no block. BUSY: somebody is refilling. Otherwise the block that is open, or that has
 *                  run out and is being replaced by the one who took its last ticket.
 * A ticket is taken by adding to ctrl[b]; the sum before is the position, if it is below the capacity of the
 *   kind that came back WITH it. Nothing else hands out slices.
 * Invariants.
 *   I1  a ticket below capacity is one caller's alone, and names a slice that is not live: the count only
 *       grows while the kind stays, and begins at 0 with all slices free.
 *   I2  while a slice of b is live, or a ticket is left, b is not retired: not all its words are full, since a
 *       bit gets set only for a slice that was handed out (mm_slice_free checks the position against the
 *       count). So a taken ticket pins the incarnation, and needs no generation number.
 *   I3  of a stripe at most one block is open, and exactly one caller is to refill a stripe that is BUSY or
 *       whose block has run out: who turned NONE into BUSY, or whose addition reached the capacity (one
 *       addition per incarnation does). ctrl names the stripe, so that a stale reader who takes the last
 *       ticket of another stripe's block, or another class's, knows what it has to refill.
 *   I4  a closed block has kind 0, so additions to it claim nothing. Nor do those to a body or a run.
 * Opening: bits, full_words, bodies; then the stripe; then ctrl (release). In this order, because as soon as
 *   ctrl is open others may use the block up and write the stripe anew: their write comes after ours.
 * Linearisation. Ticket: the addition. Slice free: the or on its word. Retire: the addition to full_words
 *   that reaches the number of words (it happens once per incarnation: each word gets full once).
 * Ordering. free: or (release), an acquiring load by the one who fills the word, addition to full_words
 *   (acq_rel), give back of the block (release), claim (acquire), open (release), ticket (acquire): so what
 *   the last user of a slice did happens before what its next user does.
 * Progress. A caller that finds no ticket waits for the refill in flight, MM_WAIT_ITERATIONS polls at most,
 *   and tries the class's other stripes meanwhile.
 * NULL. Only if a refill found neither block nor segment and then all stripes were NONE, all between two equal
 *   reads of the version (blocks given back + blocks opened; both monotonic, so an equal sum is no change at
 *   all). `dry` keeps the version at which a refill failed (so that nobody else tries, and the stripes come
 *   to rest at NONE) or at which NULL was the answer (later callers give it at once). A stale write of it
 *   names an old version and so says nothing.
 * Stale. A reader of a stripe may add to a block that has been retired and opened again since, for another
 *   stripe (fine, the slice is of its class) or another class (it gives those slices back, slice.h).
 *   The count may overshoot by failing additions; it has 51 bits, which at one addition of 32 every
 *   nanosecond last for 19 hours on one block that never gets replaced: retries load first.
 */
#ifndef MM_CORE_BLOCK_H
#define MM_CORE_BLOCK_H

#include "runtime/core/segment.h"

#define MM_KIND_CLOSED 0u
#define MM_KIND_RUN 65u
#define MM_KIND_BODY 128u
MM_STATIC_ASSERT(MM_CLASS_COUNT <= 64, "kinds 1..64 are class + 1, 128..191 bodies");
#define MM_STRIPE_BITS_SHIFT 8
#define MM_COUNT_SHIFT 13
MM_STATIC_ASSERT(MM_STRIPES_MAX <= 1u << (MM_COUNT_SHIFT - MM_STRIPE_BITS_SHIFT), "a stripe fits");

#define MM_STRIPE_NONE 0u
#define MM_STRIPE_BUSY 1u
#define MM_STRIPE_BLOCK 2u /* + block */

#define MM_DRY_REFILL(version) ((version)*4 + 1)
#define MM_DRY_NULL(version) ((version)*4 + 3)

/* What one addition got, as one word: block << 32 | position of the first ticket << 16 | tickets.
 * 0: nothing. */
typedef uint64_t mm_claim;
MM_FN uint32_t mm_claim_count(uint32_t low_half) { return low_half & 0xffffu; }
MM_FN uint32_t mm_claim_first(uint32_t low_half) { return low_half >> 16; }
MM_STATIC_ASSERT(MM_GRANULE_BYTES >> MM_ALIGN_SHIFT < 1u << 16, "positions of the smallest blocks fit");
MM_STATIC_ASSERT(2u << MM_BLOCK_SLICES_SHIFT < 1u << 16, "positions of the other blocks fit");

MM_FN uint64_t *mm_block_ctrl(const struct mm_heap_ref *ref, uint32_t granule) {
    return (uint64_t *)ref->ctrl + granule;
}
MM_FN uint64_t *mm_block_bits(const struct mm_heap_ref *ref, uint32_t block) {
    return (uint64_t *)ref->bits + (uint64_t)block * MM_GRANULE_WORDS;
}
MM_FN uint32_t *mm_block_full_words(const struct mm_heap_ref *ref, uint32_t block) {
    return (uint32_t *)mm_heap_of(ref)->full_words + block;
}
MM_FN uint32_t mm_ctrl_kind(uint64_t ctrl) { return (uint32_t)ctrl & 0xffu; }
MM_FN uint32_t mm_ctrl_stripe(uint64_t ctrl) {
    return (uint32_t)ctrl >> MM_STRIPE_BITS_SHIFT & ((1u << (MM_COUNT_SHIFT - MM_STRIPE_BITS_SHIFT)) - 1);
}
MM_FN uint64_t mm_ctrl_count(uint64_t ctrl) { return ctrl >> MM_COUNT_SHIFT; }
/* The block a granule of kind MM_KIND_BODY + c belongs to. */
MM_FN uint32_t mm_block_of_granule(uint32_t granule, uint32_t c) {
    return granule & ~(mm_class_block_granules(c) - 1);
}

/* Makes the claimed block b ready for class c and opens it in the stripe. */
MM_FN void mm_block_open(const struct mm_heap_ref *ref, uint32_t b, uint32_t c, uint32_t stripe) {
    struct mm_class_state *cs = &mm_heap_of(ref)->classes[c];
    const uint32_t capacity = mm_class_capacity(c), granules = mm_class_block_granules(c);
    uint64_t *bits = mm_block_bits(ref, b);
    MM_ROLLED
    for (uint32_t done = 0; done < capacity; done += 64)
        mm_store_relaxed_u64(bits++, capacity - done >= 64 ? 0 : ~mm_bits_low(capacity - done));
    mm_store_relaxed_u32(mm_block_full_words(ref, b), 0);
    MM_ROLLED
    for (uint32_t g = 1; g < granules; g++) mm_store_relaxed_u64(mm_block_ctrl(ref, b + g), MM_KIND_BODY + c);
    mm_store_relaxed_u64(&cs->stripe[stripe], MM_STRIPE_BLOCK + b);
    mm_store_release_u64(mm_block_ctrl(ref, b), (uint64_t)stripe << MM_STRIPE_BITS_SHIFT | (c + 1));
    mm_add_release_u64(&cs->opened, 1);
}

/* Refills the stripe, which is the caller's to refill (I3). Returns whether there was a block for it. */
MM_FN_RARE int mm_block_refill(const struct mm_heap_ref *ref, uint32_t c, uint32_t stripe) {
    struct mm_heap *h = mm_heap_of(ref);
    const uint32_t b = mm_segment_claim_block(h, c, stripe * 2 + c);
    if (b != MM_BLOCK_NONE)
        mm_block_open(ref, b, c, stripe);
    else
        mm_store_release_u64(&h->classes[c].stripe[stripe], MM_STRIPE_NONE);
    return b != MM_BLOCK_NONE;
}

/* Closes the block b of class c, all of whose slices are free, and gives it back. */
MM_FN_RARE void mm_block_retire(const struct mm_heap_ref *ref, uint32_t b, uint32_t c) {
    mm_store_relaxed_u64(mm_block_ctrl(ref, b), MM_KIND_CLOSED);
    mm_segment_give_back(mm_heap_of(ref), b / MM_SEGMENT_GRANULES, c, 1ull << (b % MM_SEGMENT_GRANULES));
}

/* Marks the slices of `mask` in word `word` of block b, class c, free again. Returns those that were so
 * already (which is misuse). Releases. The block may be gone when this returns. */
MM_FN uint64_t mm_block_free_bits(const struct mm_heap_ref *ref, uint32_t b, uint32_t c, uint32_t word,
                                  uint64_t mask) {
    uint64_t *at = mm_block_bits(ref, b) + word;
    const uint64_t old = mm_or_release_u64(at, mask);
    if ((old | mask) == ~0ull && old != ~0ull) {
        (void)mm_load_acquire_u64(at); /* takes over what the others who freed in this word released */
        if (mm_add_acq_rel_u32(mm_block_full_words(ref, b), 1) + 1 == mm_class_words(c)) mm_block_retire(ref, b, c);
    }
    return old & mask;
}

/* Frees n slices of block b, class c, from position `first`: those of a stale reader. */
MM_FN_RARE void mm_block_free_range(const struct mm_heap_ref *ref, uint32_t b, uint32_t c, uint32_t first,
                                    uint32_t n) {
    MM_ROLLED
    for (uint32_t at = first; at < first + n; at++) mm_block_free_bits(ref, b, c, at / 64, 1ull << (at % 64));
}

/* One addition to ctrl[b]: returns the tickets of class c that it got, and refills a stripe if it took the last
 * ticket. Slices of another class (a stale reader's) go back. */
MM_FN mm_claim mm_block_settle(const struct mm_heap_ref *ref, uint32_t b, uint32_t c, uint32_t n, uint64_t ctrl) {
    const uint32_t kind = mm_ctrl_kind(ctrl);
    if (kind == MM_KIND_CLOSED || kind > MM_CLASS_COUNT) return 0;
    const uint32_t capacity = mm_class_capacity(kind - 1);
    if (mm_ctrl_count(ctrl) >= capacity) return 0;
    const uint32_t first = (uint32_t)mm_ctrl_count(ctrl), left = capacity - first;
    if (n >= left) mm_block_refill(ref, kind - 1, mm_ctrl_stripe(ctrl));
    if (n > left) n = left;
    if (kind == c + 1) return (uint64_t)b << 32 | first << 16 | n;
    mm_block_free_range(ref, b, kind - 1, first, n);
    return 0;
}
MM_FN uint64_t mm_block_draw(const struct mm_heap_ref *ref, uint32_t b, uint32_t n) {
    return mm_add_acquire_u64(mm_block_ctrl(ref, b), (uint64_t)n << MM_COUNT_SHIFT);
}

/* Version of the supply for a class: changes when a block or segment comes back or a block is opened. */
MM_FN uint64_t mm_block_version(struct mm_heap *h, uint32_t c) {
    return mm_load_acquire_u64(&h->supply) + mm_load_acquire_u64(&h->classes[c].opened);
}

/* Tickets when the first addition did not do it plainly: settles it (`b` is MM_BLOCK_NONE if there was none),
 * then goes round the stripes: refills, waits, or finds that there is nothing left. */
MM_FN_RARE mm_claim mm_block_claim_slow(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t b,
                                        uint64_t ctrl) {
    struct mm_heap *h = mm_heap_of(ref);
    struct mm_class_state *cs = &h->classes[c];
    const uint32_t stripes = mm_class_stripes(c);
    uint64_t version = mm_block_version(h, c);
    uint32_t at = mm_home();
    uint32_t idle = 0; /* stripes seen NONE in a row while the version stood and no refill could succeed */
    MM_ROLLED
    for (uint32_t polls = 0; polls < MM_WAIT_ITERATIONS; polls++) {
        if (b != MM_BLOCK_NONE) {
            const mm_claim claim = mm_block_settle(ref, b, c, n, ctrl);
            if (claim != 0) return claim;
        }
        b = MM_BLOCK_NONE;
        uint64_t *stripe = &cs->stripe[at % stripes];
        const uint64_t is = mm_load_relaxed_u64(stripe);
        if (is >= MM_STRIPE_BLOCK) { /* open, or run out: look before adding, so that counts stay small */
            b = (uint32_t)is - MM_STRIPE_BLOCK;
            ctrl = mm_load_relaxed_u64(mm_block_ctrl(ref, b));
            if (mm_ctrl_kind(ctrl) == c + 1 && mm_ctrl_count(ctrl) < mm_class_capacity(c))
                ctrl = mm_block_draw(ref, b, n);
            else
                b = MM_BLOCK_NONE;
        } else if (is == MM_STRIPE_NONE) {
            const uint64_t dry = mm_load_acquire_u64(&cs->dry), now = mm_block_version(h, c);
            if (dry == MM_DRY_NULL(now)) break;
            if (now != version) idle = 0;
            version = now;
            if (dry == MM_DRY_REFILL(now)) {
                if (++idle > stripes) {
                    mm_store_release_u64(&cs->dry, MM_DRY_NULL(now));
                    break;
                }
            } else if (mm_cas_acq_rel_u64(stripe, MM_STRIPE_NONE, MM_STRIPE_BUSY)) {
                if (mm_block_refill(ref, c, at % stripes)) continue;
                if (mm_block_version(h, c) == now) mm_store_release_u64(&cs->dry, MM_DRY_REFILL(now));
            }
            at++;
            continue;
        }
        if (b == MM_BLOCK_NONE) { /* being refilled: another may have some meanwhile */
            idle = 0;
            at++;
            if (polls % 8 == 7) mm_wait();
        }
    }
    return 0;
}

/* Tickets for n slices of class c, as many as one block gives; 0 for NULL. */
MM_FN mm_claim mm_block_claim(const struct mm_heap_ref *ref, uint32_t c, uint32_t n) {
    const uint32_t stripe = mm_home() & (mm_class_stripes(c) - 1);
    const uint64_t is = mm_load_relaxed_u64(&mm_heap_of(ref)->classes[c].stripe[stripe]);
    uint32_t b = MM_BLOCK_NONE;
    uint64_t ctrl = 0;
    if (MM_LIKELY(is >= MM_STRIPE_BLOCK)) {
        b = (uint32_t)is - MM_STRIPE_BLOCK;
        ctrl = mm_block_draw(ref, b, n);
        if (MM_LIKELY(mm_ctrl_kind(ctrl) == c + 1 && mm_ctrl_count(ctrl) + n < mm_class_capacity(c)))
            return (uint64_t)b << 32 | (uint32_t)mm_ctrl_count(ctrl) << 16 | n;
    }
    return mm_block_claim_slow(ref, c, n, b, ctrl);
}

#endif
