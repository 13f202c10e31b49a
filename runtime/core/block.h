/* Blocks: how a block is opened, handed out by tickets, and retired. Protocol T of the design.
 *
 * Representation. For the block b (named by its first granule):
 *   ctrl[b]        bits 0..7 kind: closed (0), class + 1 while it is handed out, MM_KIND_RUN; then the group it
 *                  serves; the rest counts tickets. ctrl of its other granules: MM_KIND_BODY + class.
 *   bits[b..]      one bit per slice, 1: free again (or beyond the last slice). 0: not handed out yet, or live.
 *   full_words[b]  how many words of bits[b..] are all ones.
 *   stripe[c][i]   a state, a group, a block. A caller looks at the stripe of its multiprocessor.
 * A GROUP is 2^k neighbouring stripes that share one block: (first stripe, level), level = log2(stripes / size). A
 *   class begins with one group of all its stripes; a refill splits a group whose demand outruns its block.
 *   State NONE: the group has no block. BUSY (in the first stripe only): somebody is refilling it. BLOCK: it has
 *   block b, which is open, or has run out and is being replaced by the one who took its last ticket.
 * A ticket is taken by adding to ctrl[b]; the sum before is the position, if it is below the capacity of the
 *   kind that came back WITH it. Nothing else hands out slices.
 * Invariants.
 *   I1  a ticket below capacity is one caller's alone, and names a slice that is not live: the count only
 *       grows while the kind stays, and begins at 0 with all slices free.
 *   I2  while a slice of b is live, or a ticket is left, b is not retired: not all its words are full, since a
 *       bit gets set only for a slice that was handed out (mm_slice_free checks the position against the
 *       count). So a taken ticket pins the incarnation, and needs no generation number.
 *   I3  the groups of a class are a partition of its stripes. Of a group at most one block is open, and a group
 *       that has none, or whose block has run out, has exactly one owner or is NONE. Owner is who turned NONE
 *       into BUSY, or whose addition reached the capacity (one addition per incarnation does). Only the owner
 *       writes the group's stripes. ctrl names the group, so that a stale reader who takes the last ticket of
 *       another group's or class's block knows what it has to refill.
 *   I4  a closed block has kind 0, so additions to it claim nothing. Nor do those to a body or a run.
 * Opening: bits, full_words, bodies, opened; then the stripes; then ctrl (release). Failing: the other stripes, then the
 *   first (release). In this order, because with that last write the group has a next owner, who must find our
 *   writes done: it acquires from it.
 * Demand. Additions that came too late are counted all the same: count - capacity of the block that ran out is
 *   how many tickets were wanted while the refill was under way. It decides into how many groups to split.
 * Linearisation. Ticket: the addition. Slice free: the or on its word. Retire: the addition to full_words
 *   that reaches the number of words (it happens once per incarnation: each word gets full once).
 * Ordering. free: or (release), an acquiring load by the one who fills the word, addition to full_words
 *   (acq_rel), give back of the block (release), claim (acquire), open (release), ticket (acquire): so what
 *   the last user of a slice did happens before what its next user does.
 * Progress. A caller that finds no ticket waits for its group's refill, with an eye on the other groups, at most
 *   MM_WAIT_ITERATIONS polls; then it answers NULL. It adds once per refill, so counts stay small.
 * NULL. Only if a refill found neither block nor segment and then all groups were NONE, all while no move was under
 *   way (tree.h) and between two equal reads of the version (moves begun + blocks opened; both monotonic, so an
 *   equal sum is no change at all). `dry` keeps the version at which a refill failed (so that nobody else tries,
 *   and the groups come to rest at NONE) or at which NULL was the answer (later callers give it at once). A stale
 *   write of it names an old version and so says nothing.
 *   And only after a round over all classes found no open block without a live slice: those are taken out of use
 *   first (mm_block_reclaim), since they may be what keeps a segment from another class or a run.
 *   Not covered: the tickets that a stale reader draws from another class's block are out of sight until it has
 *   given them back. It does so first of all.
 * Stale. A reader of a stripe may add to a block that has been retired and opened again since, for another
 *   group (fine, the slice is of its class) or another class (it gives those slices back).
 */
#ifndef MM_CORE_BLOCK_H
#define MM_CORE_BLOCK_H

#include "runtime/core/segment.h"

#define MM_KIND_CLOSED 0u
#define MM_KIND_RUN 65u
#define MM_KIND_BODY 128u
MM_STATIC_ASSERT(MM_CLASS_COUNT <= 64, "kinds 1..64 are class + 1, 128..191 bodies");
#define MM_GROUP_SHIFT 8
#define MM_COUNT_SHIFT (MM_GROUP_SHIFT + MM_GROUP_BITS)

/* A group: level above the number of its first stripe. All zero: all stripes. */
#define MM_GROUP_BITS (MM_STRIPES_SHIFT + 3)
MM_STATIC_ASSERT(MM_STRIPES_SHIFT < 1 << 3, "levels 0..MM_STRIPES_SHIFT fit");
MM_FN uint32_t mm_group_first(uint32_t group) { return group & (MM_STRIPES - 1); }
MM_FN uint32_t mm_group_level(uint32_t group) { return group >> MM_STRIPES_SHIFT; }
MM_FN uint32_t mm_group_size(uint32_t group) { return MM_STRIPES >> mm_group_level(group); }

/* A stripe: block << 32 | group << 2 | state. All zero: NONE, one group of all stripes. */
#define MM_STRIPE_NONE 0u
#define MM_STRIPE_BUSY 1u
#define MM_STRIPE_BLOCK 2u
MM_FN uint32_t mm_stripe_state(uint64_t stripe) { return (uint32_t)stripe & 3; }
MM_FN uint32_t mm_stripe_group(uint64_t stripe) { return (uint32_t)stripe >> 2; }
MM_FN uint32_t mm_stripe_block(uint64_t stripe) { return (uint32_t)(stripe >> 32); }

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
MM_FN uint32_t mm_ctrl_group(uint64_t ctrl) {
    return (uint32_t)ctrl >> MM_GROUP_SHIFT & ((1u << MM_GROUP_BITS) - 1);
}
MM_FN uint64_t mm_ctrl_count(uint64_t ctrl) { return ctrl >> MM_COUNT_SHIFT; }
/* The block a granule of kind MM_KIND_BODY + c belongs to. */
MM_FN uint32_t mm_block_of_granule(uint32_t granule, uint32_t c) {
    return granule & ~(mm_class_block_granules(c) - 1);
}

/* Writes `is` to all stripes of a group; to the first one last, and with release. */
MM_FN void mm_block_set_stripes(uint64_t *stripes, uint32_t group, uint64_t is) {
    const uint32_t first = mm_group_first(group);
    MM_ROLLED
    for (uint32_t i = first + mm_group_size(group); --i > first;) mm_store_relaxed_u64(&stripes[i], is);
    mm_store_release_u64(&stripes[first], is);
}

/* Makes the claimed block b ready for class c and opens it for the group, which is the caller's, as are the first `taken`
 * tickets; if that is all, so is the group still. */
MM_FN void mm_block_open(const struct mm_heap_ref *ref, uint32_t b, uint32_t c, uint32_t group, uint32_t taken) {
    struct mm_class_state *cs = &mm_heap_of(ref)->classes[c];
    const uint32_t capacity = mm_class_capacity(c), granules = mm_class_block_granules(c);
    uint64_t *bits = mm_block_bits(ref, b), *ctrl = mm_block_ctrl(ref, b); /* not read anew for each store */
    MM_ROLLED
    for (uint32_t done = 0; done < capacity; done += 64)
        mm_store_relaxed_u64(bits++, capacity - done >= 64 ? 0 : ~mm_bits_low(capacity - done));
    mm_store_relaxed_u32(mm_block_full_words(ref, b), 0);
    MM_ROLLED
    for (uint32_t g = 1; g < granules; g++) mm_store_relaxed_u64(ctrl + g, MM_KIND_BODY + c);
    mm_add_relaxed_u64(&cs->opened, 1);
    mm_block_set_stripes(cs->stripe, group, (uint64_t)b << 32 | group << 2 | MM_STRIPE_BLOCK);
    mm_store_release_u64(ctrl, (uint64_t)taken << MM_COUNT_SHIFT | group << MM_GROUP_SHIFT | (c + 1));
}

/* Into how many groups to split a group of class c whose block was b: a power of two, as many blocks as it takes to
 * serve those who came too late, within MM_SPLIT_MAX. */
MM_FN uint32_t mm_block_parts(const struct mm_heap_ref *ref, uint32_t b, uint32_t c, uint32_t group) {
    const uint64_t ctrl = mm_load_relaxed_u64(mm_block_ctrl(ref, b));
    if (mm_ctrl_kind(ctrl) != c + 1 || mm_ctrl_group(ctrl) != group) return 1; /* retired meanwhile */
    const uint32_t capacity = mm_class_capacity(c);
    uint32_t parts = 1;
    MM_ROLLED
    while (parts < MM_SPLIT_MAX && parts < mm_group_size(group) && mm_ctrl_count(ctrl) > (parts + 1) * capacity)
        parts *= 2;
    return parts;
}

/* Refills the group, which is the caller's (I3). ran_out: the block it had, or MM_BLOCK_NONE. taken: so many
 * tickets of the new block are the caller's at once, or one that is short of memory could reclaim it before he draws,
 * again and again. Returns the block, or MM_BLOCK_NONE; afterwards the group is nobody's (mm_block_open). */
MM_FN_RARE uint32_t mm_block_refill(const struct mm_heap_ref *ref, uint32_t c, uint32_t group, uint32_t ran_out,
                                    uint32_t taken) {
    struct mm_heap *h = mm_heap_of(ref);
    const uint32_t salt = mm_group_first(group) + c;
    uint32_t b = mm_segment_claim_block(h, c, salt), got = MM_BLOCK_NONE;
    const uint32_t parts = ran_out == MM_BLOCK_NONE || b == MM_BLOCK_NONE ? 1 : mm_block_parts(ref, ran_out, c, group);
    const uint32_t level = mm_group_level(group) + mm_ctz(parts), size = MM_STRIPES >> level;
    uint32_t first = mm_group_first(group);
    MM_ROLLED
    for (uint32_t i = 0; i < parts; i++, first += size) {
        const uint32_t part = level << MM_STRIPES_SHIFT | first;
        if (i > 0) b = mm_segment_claim_block(h, c, salt + i);
        if (b != MM_BLOCK_NONE) {
            mm_block_open(ref, b, c, part, taken);
            got = b;
        } else {
            mm_block_set_stripes(h->classes[c].stripe, part, part << 2 | MM_STRIPE_NONE);
        }
    }
    return got;
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
    while (n > 0) {
        const uint32_t bit = first % 64, some = n < 64 - bit ? n : 64 - bit;
        mm_block_free_bits(ref, b, c, first / 64, mm_bits_low(some) << bit);
        first += some;
        n -= some;
    }
}

MM_FN uint64_t mm_block_draw(const struct mm_heap_ref *ref, uint32_t b, uint32_t n) {
    return mm_add_acquire_u64(mm_block_ctrl(ref, b), (uint64_t)n << MM_COUNT_SHIFT);
}

/* What an addition of n to ctrl[b], which was `ctrl`, got of class c. Who took the last ticket refills the group;
 * slices of another class (the addition was a stale reader's) go back. */
MM_FN_RARE mm_claim mm_block_settle(const struct mm_heap_ref *ref, uint32_t b, uint32_t c, uint32_t n, uint64_t ctrl) {
    const uint32_t kind = mm_ctrl_kind(ctrl);
    if (kind == MM_KIND_CLOSED || kind > MM_CLASS_COUNT) return 0;
    const uint32_t capacity = mm_class_capacity(kind - 1);
    if (mm_ctrl_count(ctrl) >= capacity) return 0;
    const uint32_t first = (uint32_t)mm_ctrl_count(ctrl), left = capacity - first;
    const int last = n >= left;
    if (last) n = left;
    if (kind != c + 1) mm_block_free_range(ref, b, kind - 1, first, n);
    if (last) mm_block_refill(ref, kind - 1, mm_ctrl_group(ctrl), b, 0);
    return kind == c + 1 ? (uint64_t)b << 32 | first << 16 | n : 0;
}

/* Tickets of the block that a stripe names, if it has some left: looks before it adds. 0: none. */
MM_FN mm_claim mm_block_try_draw(const struct mm_heap_ref *ref, uint64_t stripe, uint32_t c, uint32_t n) {
    if (mm_stripe_state(stripe) != MM_STRIPE_BLOCK) return 0;
    const uint32_t b = mm_stripe_block(stripe);
    const uint64_t ctrl = mm_load_relaxed_u64(mm_block_ctrl(ref, b));
    if (mm_ctrl_kind(ctrl) != c + 1 || mm_ctrl_count(ctrl) >= mm_class_capacity(c)) return 0;
    return mm_block_settle(ref, b, c, n, mm_block_draw(ref, b, n));
}

/* Version of the supply for a class: changes when a move begins or a block is opened. *still: no move is under way. */
MM_FN uint64_t mm_block_version(struct mm_heap *h, uint32_t c, int *still) {
    const uint64_t supply = mm_move_read(h, still);
    return supply + mm_load_acquire_u64(&h->classes[c].opened);
}
MM_FN uint64_t mm_block_version_again(struct mm_heap *h, uint32_t c) {
    return mm_move_read_again(h) + mm_load_acquire_u64(&h->classes[c].opened);
}

/* One round over all groups of the class: tickets of whichever has some. *none: whether all groups were NONE. */
MM_FN_RARE mm_claim mm_block_go_round(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, int *none) {
    uint64_t *stripes = mm_heap_of(ref)->classes[c].stripe;
    uint32_t i = 0;
    *none = 1;
    MM_ROLLED
    while (i < MM_STRIPES) {
        const uint64_t is = mm_load_acquire_u64(&stripes[i]);
        const mm_claim claim = mm_block_try_draw(ref, is, c, n);
        if (claim != 0) return claim;
        const int whole = mm_group_first(mm_stripe_group(is)) == i; /* else the groups are just being split */
        if (!whole || mm_stripe_state(is) != MM_STRIPE_NONE) *none = 0;
        i += whole ? mm_group_size(mm_stripe_group(is)) : 1;
    }
    return 0;
}

/* Whether none of the first `count` slices of block b is live. A hint. */
MM_FN int mm_block_is_idle(const struct mm_heap_ref *ref, uint32_t b, uint32_t count) {
    uint64_t *bits = mm_block_bits(ref, b);
    MM_ROLLED
    for (uint32_t done = 0; done < count; done += 64)
        if (~mm_load_relaxed_u64(bits++) & mm_bits_low(count - done)) return 0;
    return 1;
}

/* Shortage: takes all tickets that are left of open blocks without a live slice, whatever their class, and frees
 * those slices, so that the blocks retire. Who takes the last ticket owns the group (I3): it becomes NONE. Returns
 * whether there was such a block; if not, nothing was written. */
MM_FN_RARE int mm_block_reclaim(const struct mm_heap_ref *ref) {
    struct mm_heap *h = mm_heap_of(ref);
    int any = 0;
    MM_ROLLED
    for (uint32_t i = 0; i < MM_CLASS_COUNT * MM_STRIPES;) {
        struct mm_class_state *cs = &h->classes[i / MM_STRIPES];
        const uint64_t is = mm_load_acquire_u64(&cs->stripe[i % MM_STRIPES]);
        const uint32_t group = mm_stripe_group(is), b = mm_stripe_block(is);
        i += mm_group_first(group) == i % MM_STRIPES ? mm_group_size(group) : 1;
        if (mm_stripe_state(is) != MM_STRIPE_BLOCK) continue;
        uint64_t ctrl = mm_load_acquire_u64(mm_block_ctrl(ref, b));
        uint32_t kind = mm_ctrl_kind(ctrl);
        if (kind == MM_KIND_CLOSED || kind > MM_CLASS_COUNT || mm_ctrl_count(ctrl) >= mm_class_capacity(kind - 1) ||
            !mm_block_is_idle(ref, b, (uint32_t)mm_ctrl_count(ctrl)))
            continue;
        mm_move_begin(h);
        ctrl = mm_block_draw(ref, b, MM_BLOCK_SLICES_MAX);
        kind = mm_ctrl_kind(ctrl); /* it may have changed hands */
        if (kind != MM_KIND_CLOSED && kind <= MM_CLASS_COUNT && mm_ctrl_count(ctrl) < mm_class_capacity(kind - 1)) {
            const uint32_t c = kind - 1, first = (uint32_t)mm_ctrl_count(ctrl), theirs = mm_ctrl_group(ctrl);
            mm_block_set_stripes(h->classes[c].stripe, theirs, theirs << 2 | MM_STRIPE_NONE);
            mm_block_free_range(ref, b, c, first, mm_class_capacity(c) - first);
            any = 1;
        }
        mm_move_end(h);
    }
    return any;
}

/* Tickets when the first addition (to b, which was `ctrl`; MM_BLOCK_NONE: there was none) did not do it plainly. */
MM_FN_RARE mm_claim mm_block_claim_slow(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t b,
                                        uint64_t ctrl) {
    struct mm_heap *h = mm_heap_of(ref);
    struct mm_class_state *cs = &h->classes[c];
    mm_claim claim = b == MM_BLOCK_NONE ? 0 : mm_block_settle(ref, b, c, n, ctrl);
    MM_ROLLED
    for (uint32_t polls = 0; claim == 0 && polls < MM_WAIT_ITERATIONS; polls++) {
        const uint32_t away = polls % MM_STEAL_POLLS == 0 ? polls : 0;
        const uint64_t is = mm_load_acquire_u64(&cs->stripe[(mm_home() + away) % MM_STRIPES]);
        claim = mm_block_try_draw(ref, is, c, n);
        if (claim != 0) break;
        int short_of_memory = 0, still;
        uint64_t version = 0;
        if (mm_stripe_state(is) == MM_STRIPE_NONE) {
            uint64_t *first = &cs->stripe[mm_group_first(mm_stripe_group(is))];
            version = mm_block_version(h, c, &still);
            const uint64_t dry = mm_load_acquire_u64(&cs->dry);
            if (dry == MM_DRY_NULL(version)) break;
            if (dry == MM_DRY_REFILL(version)) {
                short_of_memory = 1;
            } else if (mm_cas_acq_rel_u64(first, is, is | MM_STRIPE_BUSY)) {
                const uint32_t capacity = mm_class_capacity(c), taken = n < capacity ? n : capacity;
                const uint32_t got = mm_block_refill(ref, c, mm_stripe_group(is), MM_BLOCK_NONE, taken);
                if (got != MM_BLOCK_NONE) {
                    if (taken == capacity) mm_block_refill(ref, c, mm_stripe_group(is), got, 0);
                    claim = (uint64_t)got << 32 | taken;
                    break;
                }
                if (still && mm_block_version_again(h, c) == version)
                    mm_store_release_u64(&cs->dry, MM_DRY_REFILL(version));
                else
                    mm_wait(); /* somebody has something in hand */
                continue;
            }
        }
        if (short_of_memory) {
            int none;
            claim = mm_block_go_round(ref, c, n, &none);
            if (claim == 0 && none && !mm_block_reclaim(ref) &&
                mm_block_version_again(h, c) == version) {
                mm_store_release_u64(&cs->dry, MM_DRY_NULL(version));
                break;
            }
        }
        if (claim == 0) mm_wait();
    }
    return claim;
}

/* Tickets for n slices of class c, as many as one block gives; 0 for NULL. */
MM_FN mm_claim mm_block_claim(const struct mm_heap_ref *ref, uint32_t c, uint32_t n) {
    const uint64_t is = mm_load_relaxed_u64(&mm_heap_of(ref)->classes[c].stripe[mm_home() % MM_STRIPES]);
    uint32_t b = MM_BLOCK_NONE;
    uint64_t ctrl = 0;
    if (MM_LIKELY(mm_stripe_state(is) == MM_STRIPE_BLOCK)) {
        b = mm_stripe_block(is);
        ctrl = mm_block_draw(ref, b, n);
        if (MM_LIKELY(mm_ctrl_kind(ctrl) == c + 1 && mm_ctrl_count(ctrl) + n < mm_class_capacity(c)))
            return (uint64_t)b << 32 | (uint32_t)mm_ctrl_count(ctrl) << 16 | n;
    }
    return mm_block_claim_slow(ref, c, n, b, ctrl);
}

#endif
