/* The checked run (MM_CHECK=1): malloc and free that find writes past the end, writes after free, double frees, and what was
 * never freed and by which kernel it was allocated. On top of the allocator as it is; without MM_CHECK none of this runs, and the fast
 * path has not an instruction for it: the variable of a module has open_bytes 0, so that every call takes the slow way, which
 * leads here.
 *
 * Representation. What malloc grants, `granted` bytes at p, is
 *   [0, asked)              the program's
 *   the zone                32 bytes from the multiple of 16 on that is not above asked: at least 17 bytes are nobody's
 *   the last 16 bytes       struct mm_guard_tail: asked and who allocated it, and the seal: a hash of that with p, of a large one with
 *                           the segment's era, and whether it is live or has been freed
 *   free writes MM_GUARD_POISON into the beginning, and who it was before the tail, and puts the allocation into quarantine: a ring
 *   of slots, into which a ticket's holder exchanges it (its class above its address) for what was there, which then is really freed.
 *   For the allocator what is in quarantine is live. Large ones (above MM_GUARD_KEPT_BYTES) are freed at once.
 *   era[s]: kind of the owner of segment s when something of it was last given out | how often that has changed << 8.
 * Invariants.
 *   I1  a seal "live" is made by malloc before the program has p; it becomes "freed" once, by compare-and-swap: of several frees one
 *       goes on, the others are double frees.
 *   I2  an allocation is in one slot at most: its one free puts it there, the exchange takes it out.
 *   I3  poison is looked at once, before the memory can be anybody's again: when it leaves quarantine; of what does not go there, when it
 *       is given out. A seal "freed" that is found then was left by the last allocation at p: of the same class, or the era would be
 *       another, and so of the same tail; and nobody owned p since, or malloc had sealed it anew.
 * Ordering. The slot's exchange acquires and releases, and after it the mark does (slice.h). All else are relaxed accesses of words that
 *   belong to one owner at a time; the program orders its malloc before its free.
 * NULL. First the quarantine is emptied, once for each time somebody has put something in since.
 * Stale. A write past the end may have hit the tail: the seal fits neither state. It is told, without what is lost, and freed.
 */
#ifndef MM_CORE_GUARD_H
#define MM_CORE_GUARD_H

#include "runtime/core/heap.h"

struct mm_guard_tail {
    uint64_t made; /* bytes asked for | grid << MM_GUARD_GRID_SHIFT */
    uint64_t seal;
};
#define MM_GUARD_GRID_SHIFT 40
MM_STATIC_ASSERT(MM_GRID_BITS + MM_GUARD_GRID_SHIFT == 64, "both fit");
#define MM_GUARD_ZONE_BYTES 32
#define MM_GUARD_MORE (MM_GUARD_ZONE_BYTES + sizeof(struct mm_guard_tail)) /* what malloc takes in addition */

/* Zero in the beginning. Memory of the device of its own: struct mm_heap_ref.guard. */
struct mm_guard {
    uint64_t tickets, spare0[15]; /* of the quarantine */
    uint64_t emptied, spare1[15]; /* tickets at which it was emptied last */
    uint64_t slots[MM_GUARD_SLOTS];
    uint32_t eras[];
};
static inline uint64_t mm_guard_bytes(uint64_t segment_count) {
    return mm_round_up(sizeof(struct mm_guard) + segment_count * sizeof(uint32_t), 256);
}

#define MM_GUARD_ZONE 0xfdfdfdfdfdfdfdfdull
#define MM_GUARD_POISON 0xddddddddddddddddull
enum mm_guard_state { MM_GUARD_LOST, MM_GUARD_LIVE, MM_GUARD_FREED };

MM_FN struct mm_guard *mm_guard_of(const struct mm_heap_ref *ref) { return (struct mm_guard *)ref->guard; }

/* An allocation: where it is for the device, and where its memory can be read here (a copy, on the host). */
struct mm_guarded {
    uint64_t p, granted;
    char *at;
};
MM_FN uint64_t *mm_guard_word(struct mm_guarded g, uint64_t at) { return (uint64_t *)(g.at + at); }

/* What the tail says. */
struct mm_guard_said {
    uint64_t asked, made, seal; /* asked: of made */
    enum mm_guard_state state;
};
MM_FN uint32_t mm_guard_grid(uint64_t made) { return (uint32_t)(made >> MM_GUARD_GRID_SHIFT); }

MM_FN uint64_t mm_guard_seal(uint64_t p, uint64_t made, uint32_t era, enum mm_guard_state state) {
    uint64_t x = (p ^ (uint64_t)era << 32 ^ (uint64_t)state) * 0x9e3779b97f4a7c15ull;
    return (x ^ x >> 29 ^ made) * 0xbf58476d1ce4e5b9ull;
}

MM_FN struct mm_guard_said mm_guard_ask(struct mm_guarded g, uint32_t era) {
    struct mm_guard_said said = {0, 0, 0, MM_GUARD_LOST};
    mm_gather_two(mm_guard_word(g, g.granted - sizeof(struct mm_guard_tail)), &said.made, &said.seal);
    said.asked = said.made & ((1ull << MM_GUARD_GRID_SHIFT) - 1);
    if (said.asked > g.granted - MM_GUARD_MORE) return said;
    if (said.seal == mm_guard_seal(g.p, said.made, era, MM_GUARD_LIVE)) said.state = MM_GUARD_LIVE;
    if (said.seal == mm_guard_seal(g.p, said.made, era, MM_GUARD_FREED)) said.state = MM_GUARD_FREED;
    return said;
}

/* Where it stands who freed it. */
MM_FN uint64_t *mm_guard_freed_by(struct mm_guarded g) { return mm_guard_word(g, g.granted - 2 * sizeof(struct mm_guard_tail)); }

/* Bytes of poison, a multiple of 16. */
MM_FN uint32_t mm_guard_poison_bytes(struct mm_guarded g) {
    return g.granted < MM_GUARD_POISON_BYTES + 2 * sizeof(struct mm_guard_tail) ? (uint32_t)(g.granted - 2 * sizeof(struct mm_guard_tail))
                                                                                : MM_GUARD_POISON_BYTES;
}

/* Whether something was written behind the program's bytes. Little-endian, as GPUs and their hosts are. */
MM_FN int mm_guard_is_overrun(struct mm_guarded g, uint64_t asked) {
    uint64_t *zone = mm_guard_word(g, asked / 16 * 16), word[4];
    const uint32_t own = (uint32_t)(asked % 16) * 8; /* bits of the first two that are the program's */
    mm_gather_two(zone, &word[0], &word[1]);
    mm_gather_two(zone + 2, &word[2], &word[3]);
    uint64_t differs = (word[0] ^ MM_GUARD_ZONE) & ~mm_bits_low(own);
    differs |= (word[1] ^ MM_GUARD_ZONE) & ~mm_bits_low(own > 64 ? own - 64 : 0);
    return (differs | (word[2] ^ MM_GUARD_ZONE) | (word[3] ^ MM_GUARD_ZONE)) != 0;
}
/* Whether something was written after free. */
MM_FN int mm_guard_is_unpoisoned(struct mm_guarded g) {
    const uint32_t n = mm_guard_poison_bytes(g);
    uint64_t differs = 0, word[2];
    for (uint32_t at = 0; at < MM_GUARD_POISON_BYTES; at += 16) { /* all on their way at once */
        if (at >= n) break;
        mm_gather_two(mm_guard_word(g, at), &word[0], &word[1]);
        differs |= (word[0] ^ MM_GUARD_POISON) | (word[1] ^ MM_GUARD_POISON);
    }
    return differs != 0;
}

/* ---- on the device ------------------------------------------------------------------------------------ */

MM_FN_RARE void mm_guard_tell(const struct mm_heap_ref *ref, struct mm_guarded g, struct mm_guard_said said, enum mm_misuse kind) {
    struct mm_misused what = {kind, g.p, g.granted - MM_GUARD_MORE, 0, 0, 0};
    if (said.state != MM_GUARD_LOST) {
        what.bytes = said.asked, what.made_by = mm_guard_grid(said.made) + 1u;
        what.freed_by = kind == MM_MISUSE_OVERRUN ? 0 : mm_load_relaxed_u64(mm_guard_freed_by(g)) + 1;
    }
    mm_misuse_count(ref, kind, 1);
    mm_misuse_tell(ref, what);
}

MM_FN struct mm_guarded mm_guard_at(const struct mm_heap_ref *ref, const void *p) {
    const struct mm_guarded g = {(uint64_t)p, mm_heap_usable_size(ref, p), (char *)p};
    return g;
}
/* Whether what is granted for so many bytes goes into quarantine, and has no era. (A class ends there, whatever the spacing.) */
MM_FN int mm_guard_is_small(uint64_t bytes) { return bytes <= MM_GUARD_KEPT_BYTES; }
MM_STATIC_ASSERT((MM_GUARD_KEPT_BYTES & (MM_GUARD_KEPT_BYTES - 1)) == 0, "powers of two are classes");

#define MM_GUARD_ERA_SHIFT 8
MM_FN uint32_t *mm_guard_era_at(const struct mm_heap_ref *ref, uint64_t p) {
    return &mm_guard_of(ref)->eras[(p - ref->user_base) >> MM_SEGMENT_SHIFT];
}
MM_FN uint32_t mm_guard_era(const struct mm_heap_ref *ref, struct mm_guarded g) {
    return mm_guard_is_small(g.granted) ? 0 : mm_load_relaxed_u32(mm_guard_era_at(ref, g.p));
}

/* The era in which something of p's segment is given out, whose owner is of that kind. */
MM_FN uint32_t mm_guard_enter(const struct mm_heap_ref *ref, uint64_t p, uint32_t kind) {
    uint32_t *era = mm_guard_era_at(ref, p), seen = mm_load_relaxed_u32(era);
    MM_ROLLED
    while ((seen & ((1u << MM_GUARD_ERA_SHIFT) - 1)) != kind) { /* the first one given out: the others find it done */
        mm_cas_relaxed_u32(era, seen, ((seen >> MM_GUARD_ERA_SHIFT) + 1) << MM_GUARD_ERA_SHIFT | kind);
        seen = mm_load_relaxed_u32(era);
    }
    return seen;
}

/* The stages of free and malloc, each small and without calls, as those of slice.h: a function that makes calls keeps what it needs after
 * them in memory of its own, for each lane. */

/* First: whose p is (slice.h). */
MM_FN_RARE uint64_t mm_guard_locate(const struct mm_heap_ref *ref, void *p) { return mm_slice_locate_in(ref, p, ref->user_bytes); }

/* free as it is without this, from there on. */
MM_FN void mm_guard_plain_free(const struct mm_heap_ref *ref, uint64_t left) {
    left = mm_slice_mark(ref, left);
    if (left != 0) mm_heap_free_other(ref, left);
}

/* What is in a slot: a slice, and its class. */
#define MM_GUARD_CLASS_SHIFT 57
MM_STATIC_ASSERT(MM_CLASS_COUNT <= 1 << (64 - MM_GUARD_CLASS_SHIFT), "it fits above an address");
/* In its lowest bits, as addresses are multiples of 16: that something was found. */
#define MM_GUARD_FLAGS 15u
#define MM_GUARD_SAW 4u
/* Instead of a slot, what is wrong. */
#define MM_GUARD_IS_FREE 1u /* for the allocator, too */
#define MM_GUARD_IS_TWICE 2u
#define MM_GUARD_IS_LOST 3u
MM_FN uint64_t mm_guard_slot(const struct mm_heap_ref *ref, uint64_t left) {
    const uint32_t c = mm_left_class(left), s = (uint32_t)(left >> MM_SLICE_BITS) & (MM_TREE_BITS_MAX - 1);
    const uint32_t i = (uint32_t)left & ((1u << MM_SLICE_BITS) - 1);
    return (uint64_t)c << MM_GUARD_CLASS_SHIFT | (ref->user_base + ((uint64_t)s << MM_SEGMENT_SHIFT) + (uint64_t)(i * ref->classes[c].bytes));
}
MM_FN struct mm_guarded mm_guard_of_slot(const struct mm_heap_ref *ref, uint64_t slot) {
    const uint64_t p = slot & mm_bits_low(MM_GUARD_CLASS_SHIFT) & ~(uint64_t)MM_GUARD_FLAGS;
    const struct mm_guarded g = {p, ref->classes[slot >> MM_GUARD_CLASS_SHIFT].bytes, (char *)p};
    return g;
}
/* Ends the life of the allocation g: seal, zone, poison. Returns 0, MM_GUARD_SAW, or what is wrong. */
MM_FN uint32_t mm_guard_end(const struct mm_heap_ref *ref, struct mm_guarded g) {
    const uint32_t era = mm_guard_era(ref, g);
    const struct mm_guard_said said = mm_guard_ask(g, era);
    if (said.state == MM_GUARD_LOST) return MM_GUARD_IS_LOST;
    if (said.state == MM_GUARD_FREED ||
        !mm_cas_relaxed_u64(mm_guard_word(g, g.granted - 8), said.seal, mm_guard_seal(g.p, said.made, era, MM_GUARD_FREED)))
        return MM_GUARD_IS_TWICE;
    const int is_overrun = mm_guard_is_overrun(g, said.asked);
    const uint32_t n = mm_guard_poison_bytes(g);
    for (uint32_t at = 0; at < MM_GUARD_POISON_BYTES; at += 16)
        if (at < n) mm_store_two(mm_guard_word(g, at), MM_GUARD_POISON, MM_GUARD_POISON);
    mm_store_relaxed_u64(mm_guard_freed_by(g), mm_grid());
    return is_overrun ? MM_GUARD_SAW : 0;
}

/* Second, of a slice: ends its life. Returns its slot, with MM_GUARD_SAW, or why not. */
MM_FN_LEAF uint64_t mm_guard_end_slice(const struct mm_heap_ref *ref, uint64_t left) {
    const uint32_t word = (uint32_t)(left >> MM_WORD_SHIFT);
    if (mm_load_relaxed_u64((uint64_t *)ref->bits + word) >> (left % (1u << MM_WORD_SHIFT)) & 1) return MM_GUARD_IS_FREE;
    const uint64_t slot = mm_guard_slot(ref, left);
    const uint32_t what = mm_guard_end(ref, mm_guard_of_slot(ref, slot));
    return what == 0 || what == MM_GUARD_SAW ? slot | what : what;
}

/* Third: puts it into quarantine. Returns what comes out, or 0. Acquires and releases. */
MM_FN_LEAF uint64_t mm_guard_keep(const struct mm_heap_ref *ref, uint64_t slot) {
    const uint32_t group = mm_warp_here(), leader = mm_ctz(group);
    struct mm_guard *guard = mm_guard_of(ref);
    uint32_t ticket = 0;
    if (mm_warp_lane() == leader) ticket = (uint32_t)mm_add_relaxed_u64(&guard->tickets, mm_popcount(group));
    mm_warp_sync(group);
    ticket = mm_warp_shuffle(group, ticket, leader) + mm_popcount(group & mm_bits_low(mm_warp_lane()));
    return mm_exchange_acq_rel_u64(&guard->slots[ticket % MM_GUARD_SLOTS], slot);
}

/* Fourth: looks at what comes out of quarantine. Returns it, with MM_GUARD_SAW if it was written to. */
MM_FN_LEAF uint64_t mm_guard_leave(const struct mm_heap_ref *ref, uint64_t slot) {
    const struct mm_guarded g = mm_guard_of_slot(ref, slot);
    return mm_guard_is_unpoisoned(g) ? slot | MM_GUARD_SAW : slot;
}

/* Tells of what is in a slot. */
MM_FN_RARE void mm_guard_tell_slot(const struct mm_heap_ref *ref, uint64_t slot, enum mm_misuse kind) {
    const struct mm_guarded g = mm_guard_of_slot(ref, slot);
    mm_guard_tell(ref, g, mm_guard_ask(g, mm_guard_era(ref, g)), kind);
    if (kind == MM_MISUSE_AFTER_FREE) mm_store_relaxed_u64(mm_guard_word(g, g.granted - 8), 0); /* the seal: told once */
}

/* Really frees what comes out of quarantine. */
MM_FN_RARE void mm_guard_release(const struct mm_heap_ref *ref, uint64_t slot) {
    slot = mm_guard_leave(ref, slot);
    if (slot & MM_GUARD_FLAGS) mm_guard_tell_slot(ref, slot, MM_MISUSE_AFTER_FREE);
    const uint64_t off = mm_guard_of_slot(ref, slot).p - ref->user_base;
    const uint32_t c = (uint32_t)(slot >> MM_GUARD_CLASS_SHIFT), i = mm_class_number(ref->classes[c], (uint32_t)off & (uint32_t)(MM_SEGMENT_BYTES - 1));
    mm_guard_plain_free(ref, MM_LEFT_MARK | (uint64_t)c << MM_LEFT_CLASS_SHIFT | (off >> MM_SEGMENT_SHIFT << MM_SLICE_BITS | i));
}

/* Returns whether there was anything in quarantine, or has been put in since it was last emptied. */
MM_FN_RARE int mm_guard_empty(const struct mm_heap_ref *ref) {
    struct mm_guard *guard = mm_guard_of(ref);
    const uint64_t tickets = mm_load_relaxed_u64(&guard->tickets);
    if (mm_load_relaxed_u64(&guard->emptied) == tickets) return 0;
    MM_ROLLED
    for (uint32_t i = 0; i < MM_GUARD_SLOTS; i++) {
        if (mm_load_relaxed_u64(&guard->slots[i]) == 0) continue;
        const uint64_t slot = mm_exchange_acq_rel_u64(&guard->slots[i], 0);
        if (slot != 0) mm_guard_release(ref, slot);
    }
    mm_store_relaxed_u64(&guard->emptied, tickets);
    return 1;
}

/* Zone and seal. Sectors of a cache are written whole, or memory would have to be read for them; what is the program's of them becomes 0,
 * as memory is that nobody had before. */
MM_FN void mm_guard_write(struct mm_guarded g, uint32_t era, uint64_t asked) {
    const uint64_t made = asked | mm_grid() << MM_GUARD_GRID_SHIFT;
    uint64_t *zone = mm_guard_word(g, asked / 16 * 16);
    const uint32_t own = (uint32_t)(asked % 16) * 8;
    mm_store_two(zone, MM_GUARD_ZONE & ~mm_bits_low(own), MM_GUARD_ZONE & ~mm_bits_low(own > 64 ? own - 64 : 0));
    mm_store_two(zone + 2, MM_GUARD_ZONE, MM_GUARD_ZONE);
    mm_store_two(mm_guard_freed_by(g), MM_GUARD_ZONE, MM_GUARD_ZONE); /* it may be in the zone */
    mm_store_two(mm_guard_word(g, g.granted - sizeof(struct mm_guard_tail)), made, mm_guard_seal(g.p, made, era, MM_GUARD_LIVE));
}

/* g is now the caller's, in a segment whose owner is of that kind: seals it. Returns whether it was written to after free; what has
 * been in quarantine was looked at when it left. */
MM_FN int mm_guard_begin(const struct mm_heap_ref *ref, struct mm_guarded g, uint32_t kind, uint64_t asked) {
    const uint32_t era = mm_guard_is_small(g.granted) ? 0 : mm_guard_enter(ref, g.p, kind);
    if (!mm_guard_is_small(g.granted) && mm_guard_ask(g, era).state == MM_GUARD_FREED && mm_guard_is_unpoisoned(g)) return 1;
    mm_guard_write(g, era, asked);
    return 0;
}

/* First stage of malloc: see mm_heap_draw. */
MM_FN_RARE uint64_t mm_guard_draw(const struct mm_heap_ref *ref, uint64_t bytes) { return mm_heap_draw(ref, bytes); }
/* Second: the slice that was had for `more` bytes at p is the caller's, of so many bytes. See mm_guard_begin. */
MM_FN_LEAF int mm_guard_begin_slice(const struct mm_heap_ref *ref, void *p, uint64_t asked, uint32_t more) {
    const uint32_t c = mm_class_spaced(more, (uint32_t)ref->spacing_mask);
    const struct mm_guarded g = {(uint64_t)p, ref->classes[c].bytes, (char *)p};
    return mm_guard_begin(ref, g, c + 1, asked);
}

/* The same of a small one, of which nothing is looked at. Returns p. */
MM_FN_LEAF void *mm_guard_begin_small(const struct mm_heap_ref *ref, void *p, uint64_t asked) {
    const uint32_t c = mm_class_spaced((uint32_t)(asked + MM_GUARD_MORE), (uint32_t)ref->spacing_mask);
    const struct mm_guarded g = {(uint64_t)p, ref->classes[c].bytes, (char *)p};
    mm_guard_write(g, 0, asked);
    return p;
}

/* What was there was written to: tells it, and takes it. */
MM_FN_RARE void mm_guard_begin_anew(const struct mm_heap_ref *ref, struct mm_guarded g, uint32_t kind, uint64_t asked) {
    mm_guard_tell(ref, g, mm_guard_ask(g, mm_guard_era(ref, g)), MM_MISUSE_AFTER_FREE);
    mm_store_relaxed_u64(mm_guard_word(g, g.granted - 8), 0);
    mm_guard_begin(ref, g, kind, asked);
}

/* A run. See mm_guard_malloc. */
MM_FN_RARE void *mm_guard_malloc_run(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t more, uint64_t align) {
    char *p = NULL;
    int is_more = 1;
    MM_ROLLED
    for (int tries = 0; p == NULL && is_more && tries < MM_GUARD_TRIES; tries++) {
        is_more = tries == 0 || mm_guard_empty(ref);
        p = (char *)mm_run_malloc(ref, more, align > MM_SEGMENT_BYTES ? align : MM_SEGMENT_BYTES);
    }
    const struct mm_guarded g = {(uint64_t)p, (more + MM_SEGMENT_BYTES - 1) / MM_SEGMENT_BYTES * MM_SEGMENT_BYTES, p};
    if (p == NULL) mm_null_tell(ref, bytes);
    else if (mm_guard_begin(ref, g, MM_OWNER_RUN, bytes)) mm_guard_begin_anew(ref, g, MM_OWNER_RUN, bytes);
    return p;
}

/* There was no memory for `more` bytes, in a slice, for a request of `bytes`: tries again without what is in quarantine; once more also if that
 * is empty now, since somebody else may just have emptied it. */
MM_FN_RARE void *mm_guard_malloc_again(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t more) {
    void *p = NULL;
    int is_more = 1;
    MM_ROLLED
    for (int tries = 0; p == NULL && is_more && tries < MM_GUARD_TRIES; tries++) {
        is_more = mm_guard_empty(ref);
        p = mm_heap_malloc(ref, more);
    }
    if (p == NULL) mm_null_tell(ref, bytes);
    return p;
}

/* A slice was had at p, or not (NULL), for `more` bytes, of which `bytes` were asked for. */
MM_FN void *mm_guard_have(const struct mm_heap_ref *ref, void *p, uint64_t bytes, uint64_t more) {
    if (!MM_LIKELY(p != NULL)) p = mm_guard_malloc_again(ref, bytes, more);
    if (p != NULL && !MM_LIKELY(mm_guard_begin_slice(ref, p, bytes, (uint32_t)more) == 0)) {
        const uint32_t c = mm_class_spaced((uint32_t)more, (uint32_t)ref->spacing_mask);
        const struct mm_guarded g = {(uint64_t)p, ref->classes[c].bytes, (char *)p};
        mm_guard_begin_anew(ref, g, c + 1, bytes);
    }
    return p;
}

/* See mm_heap_aligned_malloc. */
MM_FN_RARE void *mm_guard_aligned_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align) {
    if (align == 0 || (align & (align - 1)) != 0) return NULL;
    bytes += bytes == 0;
    uint64_t more = bytes < ~0ull - MM_GUARD_MORE ? bytes + MM_GUARD_MORE : bytes;
    if (more > MM_SLICE_BYTES_MAX || align > MM_SLICE_BYTES_MAX) return mm_guard_malloc_run(ref, bytes, more, align);
    more = mm_heap_aligned_bytes(more, align);
    return mm_guard_have(ref, mm_heap_malloc(ref, more), bytes, more);
}

/* See mm_heap_malloc. Of small ones, which have been in quarantine, nothing is to be looked at. */
MM_FN void *mm_guard_malloc(const struct mm_heap_ref *ref, uint64_t bytes) {
    bytes += bytes == 0;
    if (!MM_LIKELY(bytes <= MM_GUARD_KEPT_BYTES - MM_GUARD_MORE)) return mm_guard_aligned_malloc(ref, bytes, 1);
    const uint64_t at = mm_guard_draw(ref, bytes + MM_GUARD_MORE);
    void *p = MM_LIKELY(!(at & MM_TOKEN)) ? (void *)at : mm_heap_malloc_other(ref, at);
    if (!MM_LIKELY(p != NULL)) p = mm_guard_malloc_again(ref, bytes, bytes + MM_GUARD_MORE);
    return p ? mm_guard_begin_small(ref, p, bytes) : p;
}

/* What is no slice: a run, or none of this heap. */
MM_FN_RARE void mm_guard_free_odd(const struct mm_heap_ref *ref, void *p, uint64_t left) {
    const struct mm_guarded g = mm_guard_at(ref, p);
    const uint32_t what = g.granted != 0 ? mm_guard_end(ref, g) : 0;
    if (what != 0) {
        const struct mm_guard_said said = mm_guard_ask(g, mm_guard_era(ref, g));
        mm_guard_tell(ref, g, said, what == MM_GUARD_IS_TWICE ? MM_MISUSE_DOUBLE_FREE : MM_MISUSE_OVERRUN);
    }
    if (what != MM_GUARD_IS_TWICE) mm_guard_plain_free(ref, left);
}

/* A slice that did not go into a slot without a word. what: of mm_guard_end_slice. Returns whether it is to go on. */
MM_FN_RARE int mm_guard_free_wrong(const struct mm_heap_ref *ref, uint64_t left, uint64_t what) {
    if (what != MM_GUARD_IS_FREE)
        mm_guard_tell_slot(ref, mm_guard_slot(ref, left), what == MM_GUARD_IS_TWICE ? MM_MISUSE_DOUBLE_FREE : MM_MISUSE_OVERRUN);
    if (what == MM_GUARD_IS_FREE || what == MM_GUARD_IS_LOST) mm_guard_plain_free(ref, left);
    return what > MM_GUARD_FLAGS;
}

/* See mm_heap_free. */
MM_FN void mm_guard_free(const struct mm_heap_ref *ref, void *p) {
    const uint64_t left = mm_guard_locate(ref, p);
    if (!MM_LIKELY(mm_left_kind(left) == MM_LEFT_MARK)) {
        mm_guard_free_odd(ref, p, left);
        return;
    }
    uint64_t slot = mm_guard_end_slice(ref, left);
    if (!MM_LIKELY((slot & MM_GUARD_FLAGS) == 0) && !mm_guard_free_wrong(ref, left, slot)) return;
    slot &= ~(uint64_t)MM_GUARD_FLAGS;
    if (!mm_guard_is_small(mm_guard_of_slot(ref, slot).granted)) {
        mm_guard_plain_free(ref, left);
        return;
    }
    slot = mm_guard_keep(ref, slot);
    if (slot != 0) mm_guard_release(ref, slot);
}

/* See mm_heap_usable_size: as many as were asked for. */
MM_FN_RARE uint64_t mm_guard_usable_size(const struct mm_heap_ref *ref, const void *p) {
    const struct mm_guarded g = mm_guard_at(ref, p);
    if (g.granted == 0) return 0;
    const struct mm_guard_said said = mm_guard_ask(g, mm_guard_era(ref, g));
    if (said.state == MM_GUARD_LOST) return g.granted - MM_GUARD_MORE;
    return said.state == MM_GUARD_LIVE ? said.asked : 0;
}

#endif
