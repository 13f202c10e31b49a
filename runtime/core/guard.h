/* The checked run (MM_CHECK=1): malloc and free that find writes past the end, writes after free, double frees, and what was
 * never freed and by which kernel it was allocated. On top of the allocator as it is; without MM_CHECK none of this runs, and the fast
 * path has not an instruction for it: the variable of a module has open_bytes 0, so that every call takes the slow way, which
 * leads here.
 *
 * Representation. What malloc grants, `granted` bytes at p, is
 *   [0, asked)              the program's
 *   words from asked / 8 on MM_GUARD_ZONE, 3 to MM_GUARD_ZONE_WORDS of them: at least 17 bytes
 *   the last 32 bytes       struct mm_guard_tail: asked, who allocated it, who freed it, and the seal: a hash of those with p, the
 *                           segment's era and whether it is live or has been freed
 *   free writes MM_GUARD_POISON into the first words, up to MM_GUARD_POISON_WORDS, and puts the allocation into quarantine: a ring of
 *   slots, into which a ticket's holder exchanges it for what was there, which then is really freed. For the allocator what is in
 *   quarantine is live. Large ones are freed at once.
 *   era[s]: class + 1 of segment s when something of it was last given out | how often that has changed << 8.
 * Invariants.
 *   I1  a seal "live" is made by malloc before the program has p; it becomes "freed" once, by compare-and-swap: of several frees one
 *       goes on, the others are double frees.
 *   I2  an allocation is in one slot at most: its one free puts it there, the exchange takes it out.
 *   I3  a seal "freed" that fits was left by the last allocation at p: of the same class, or the era would be another, and so of the same
 *       tail; and nobody owned p since, or malloc had sealed it anew. So its poison is as free left it, but for writes after free.
 * Ordering. The seal's compare-and-swap and the slot's exchange acquire and release. All else are relaxed accesses of words that
 *   belong to one owner at a time; the program orders its malloc before its free.
 * NULL. First the quarantine is emptied, once for each time somebody has put something in since.
 * Stale. A write past the end may have hit the tail: the seal fits neither state. It is told, without what is lost, and freed.
 */
#ifndef MM_CORE_GUARD_H
#define MM_CORE_GUARD_H

#include "runtime/core/heap.h"

struct mm_guard_tail {
    uint64_t asked, made_by, freed_by; /* bytes; grids (mm_grid) */
    uint64_t seal;
};
#define MM_GUARD_ZONE_LEAST 3 /* words */
#define MM_GUARD_MORE (8 * MM_GUARD_ZONE_LEAST + sizeof(struct mm_guard_tail)) /* what malloc takes in addition */

/* Zero in the beginning. Memory of the device of its own: struct mm_heap.guard. */
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

MM_FN struct mm_guard *mm_guard_of(const struct mm_heap_ref *ref) { return (struct mm_guard *)mm_heap_of(ref)->guard; }

/* An allocation: where it is for the device, and where its memory can be read here (a copy, on the host). */
struct mm_guarded {
    uint64_t p, granted;
    char *at;
};
MM_FN struct mm_guard_tail *mm_guard_tail(struct mm_guarded g) {
    return (struct mm_guard_tail *)(g.at + g.granted - sizeof(struct mm_guard_tail));
}

MM_FN uint64_t mm_guard_seal(uint64_t p, uint64_t asked, uint64_t made_by, uint32_t era, enum mm_guard_state state) {
    uint64_t x = (p ^ (uint64_t)era << 32 ^ (uint64_t)state) * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 29 ^ asked) * 0xbf58476d1ce4e5b9ull;
    return (x ^ x >> 32 ^ made_by) * 0x94d049bb133111ebull;
}

/* What the tail says it is. */
MM_FN enum mm_guard_state mm_guard_state(struct mm_guarded g, uint32_t era) {
    struct mm_guard_tail *tail = mm_guard_tail(g);
    const uint64_t asked = mm_load_relaxed_u64(&tail->asked), made_by = mm_load_relaxed_u64(&tail->made_by);
    const uint64_t seal = mm_load_relaxed_u64(&tail->seal);
    if (asked > g.granted - MM_GUARD_MORE) return MM_GUARD_LOST;
    if (seal == mm_guard_seal(g.p, asked, made_by, era, MM_GUARD_LIVE)) return MM_GUARD_LIVE;
    return seal == mm_guard_seal(g.p, asked, made_by, era, MM_GUARD_FREED) ? MM_GUARD_FREED : MM_GUARD_LOST;
}

/* How many words of zone, and of poison, there are. */
MM_FN uint32_t mm_guard_zone_words(struct mm_guarded g, uint64_t asked) {
    const uint64_t room = (g.granted - sizeof(struct mm_guard_tail)) / 8 - asked / 8;
    return room < MM_GUARD_ZONE_WORDS ? (uint32_t)room : MM_GUARD_ZONE_WORDS;
}
MM_FN uint32_t mm_guard_poison_words(uint64_t asked) {
    const uint64_t words = (asked + 7) / 8;
    return words < MM_GUARD_POISON_WORDS ? (uint32_t)words : MM_GUARD_POISON_WORDS;
}

/* Whether something was written behind the program's bytes. Little-endian, as GPUs and their hosts are. */
MM_FN_RARE int mm_guard_is_overrun(struct mm_guarded g, uint64_t asked) {
    uint64_t *zone = (uint64_t *)(g.at + asked / 8 * 8);
    const uint32_t n = mm_guard_zone_words(g, asked);
    uint64_t differs = (mm_load_relaxed_u64(zone) ^ MM_GUARD_ZONE) & ~mm_bits_low((uint32_t)(asked % 8) * 8);
    MM_ROLLED
    for (uint32_t i = 1; i < n; i++) differs |= mm_load_relaxed_u64(zone + i) ^ MM_GUARD_ZONE;
    return differs != 0;
}
/* Whether something was written after free. */
MM_FN_RARE int mm_guard_is_unpoisoned(struct mm_guarded g, uint64_t asked) {
    const uint32_t n = mm_guard_poison_words(asked);
    uint64_t differs = 0;
    MM_ROLLED
    for (uint32_t i = 0; i < n; i++) differs |= mm_load_relaxed_u64((uint64_t *)g.at + i) ^ MM_GUARD_POISON;
    return differs != 0;
}

/* ---- on the device ------------------------------------------------------------------------------------ */

MM_FN void mm_guard_tell(const struct mm_heap_ref *ref, struct mm_guarded g, enum mm_misuse kind, int is_lost) {
    struct mm_guard_tail *tail = mm_guard_tail(g);
    struct mm_misused what = {kind, g.p, g.granted - MM_GUARD_MORE, 0, 0, 0};
    if (!is_lost) {
        what.bytes = mm_load_relaxed_u64(&tail->asked);
        what.made_by = mm_load_relaxed_u64(&tail->made_by) + 1;
        what.freed_by = kind == MM_MISUSE_OVERRUN ? 0 : mm_load_relaxed_u64(&tail->freed_by) + 1;
    }
    mm_misuse_count(ref, kind, 1);
    mm_misuse_tell(ref, what);
}

MM_FN struct mm_guarded mm_guard_at(const struct mm_heap_ref *ref, const void *p) {
    const struct mm_guarded g = {(uint64_t)p, mm_heap_usable_size(ref, p), (char *)p};
    return g;
}
MM_FN uint32_t *mm_guard_era(const struct mm_heap_ref *ref, uint64_t p) {
    return &mm_guard_of(ref)->eras[(p - ref->user_base) >> MM_SEGMENT_SHIFT];
}
#define MM_GUARD_ERA_SHIFT 8

/* The era in which something of p's segment is given out. */
MM_FN_RARE uint32_t mm_guard_enter(const struct mm_heap_ref *ref, uint64_t p) {
    uint32_t *era = mm_guard_era(ref, p);
    const uint32_t kind = MM_OWNER_KIND(mm_load_relaxed_u64(&mm_segment_at(ref, (uint32_t)((p - ref->user_base) >> MM_SEGMENT_SHIFT))->owner));
    uint32_t seen = mm_load_relaxed_u32(era);
    MM_ROLLED
    while ((seen & ((1u << MM_GUARD_ERA_SHIFT) - 1)) != kind) { /* the first one given out: the others find it done */
        mm_cas_relaxed_u32(era, seen, ((seen >> MM_GUARD_ERA_SHIFT) + 1) << MM_GUARD_ERA_SHIFT | kind);
        seen = mm_load_relaxed_u32(era);
    }
    return seen;
}

/* free as it is without this. */
MM_FN_RARE uint64_t mm_guard_locate(const struct mm_heap_ref *ref, void *p) { return mm_slice_locate_in(ref, p, ref->user_bytes); }
MM_FN_RARE void mm_guard_plain_free(const struct mm_heap_ref *ref, void *p) {
    const uint64_t left = mm_slice_mark(ref, mm_guard_locate(ref, p));
    if (left != 0) mm_heap_free_other(ref, left);
}

/* Really frees what comes out of quarantine, or does not go there. */
MM_FN_RARE void mm_guard_release(const struct mm_heap_ref *ref, void *p) {
    const struct mm_guarded g = mm_guard_at(ref, p);
    if (g.granted != 0) {
        const int is_lost = mm_guard_state(g, mm_load_relaxed_u32(mm_guard_era(ref, g.p))) != MM_GUARD_FREED;
        if (is_lost || mm_guard_is_unpoisoned(g, mm_load_relaxed_u64(&mm_guard_tail(g)->asked))) {
            mm_guard_tell(ref, g, MM_MISUSE_AFTER_FREE, is_lost);
            mm_store_relaxed_u64(&mm_guard_tail(g)->seal, 0); /* told once */
        }
    }
    mm_guard_plain_free(ref, p);
}

/* Returns whether there was anything in quarantine, or has been put in since it was last emptied. */
MM_FN_RARE int mm_guard_empty(const struct mm_heap_ref *ref) {
    struct mm_guard *guard = mm_guard_of(ref);
    const uint64_t tickets = mm_load_relaxed_u64(&guard->tickets);
    if (mm_load_relaxed_u64(&guard->emptied) == tickets) return 0;
    MM_ROLLED
    for (uint32_t i = 0; i < MM_GUARD_SLOTS; i++) {
        if (mm_load_relaxed_u64(&guard->slots[i]) == 0) continue;
        void *p = (void *)mm_exchange_acq_rel_u64(&guard->slots[i], 0);
        if (p) mm_guard_release(ref, p);
    }
    mm_store_relaxed_u64(&guard->emptied, tickets);
    return 1;
}

/* Where [p, p + granted) is now the caller's: looks at what was left there, and seals it. */
MM_FN_RARE void mm_guard_make(const struct mm_heap_ref *ref, void *p, uint64_t asked) {
    const struct mm_guarded g = mm_guard_at(ref, p);
    const uint32_t era = mm_guard_enter(ref, g.p), n = mm_guard_zone_words(g, asked);
    struct mm_guard_tail *tail = mm_guard_tail(g);
    if (mm_guard_state(g, era) == MM_GUARD_FREED && mm_guard_is_unpoisoned(g, mm_load_relaxed_u64(&tail->asked)))
        mm_guard_tell(ref, g, MM_MISUSE_AFTER_FREE, 0);
    const uint64_t grid = mm_grid();
    MM_ROLLED
    for (uint32_t i = 0; i < n; i++) mm_store_relaxed_u64((uint64_t *)p + asked / 8 + i, MM_GUARD_ZONE);
    mm_store_relaxed_u64(&tail->asked, asked);
    mm_store_relaxed_u64(&tail->made_by, grid);
    mm_store_relaxed_u64(&tail->seal, mm_guard_seal(g.p, asked, grid, era, MM_GUARD_LIVE));
}

/* See mm_heap_malloc (align 1), mm_heap_aligned_malloc. */
MM_FN_RARE void *mm_guard_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align) {
    if (bytes == 0) bytes = 1;
    const uint64_t more = bytes <= ~0ull - MM_GUARD_MORE ? bytes + MM_GUARD_MORE : bytes;
    void *p = NULL;
    MM_ROLLED
    for (int tries = 0; p == NULL && tries < MM_GUARD_TRIES; tries++) {
        if (tries != 0 && !mm_guard_empty(ref)) break;
        p = align == 1 ? mm_heap_malloc(ref, more) : mm_heap_aligned_malloc(ref, more, align);
    }
    if (p == NULL) mm_null_tell(ref, bytes);
    else mm_guard_make(ref, p, bytes);
    return p;
}

/* See mm_heap_free. */
MM_FN_RARE void mm_guard_free(const struct mm_heap_ref *ref, void *p) {
    const struct mm_guarded g = mm_guard_at(ref, p);
    if (g.granted == 0) { /* not live, not from its beginning, not ours */
        mm_guard_plain_free(ref, p);
        return;
    }
    struct mm_guard_tail *tail = mm_guard_tail(g);
    const uint32_t era = mm_load_relaxed_u32(mm_guard_era(ref, g.p));
    const uint64_t asked = mm_load_relaxed_u64(&tail->asked), made_by = mm_load_relaxed_u64(&tail->made_by);
    const enum mm_guard_state state = mm_guard_state(g, era);
    if (state == MM_GUARD_LOST) {
        mm_guard_tell(ref, g, MM_MISUSE_OVERRUN, 1);
        mm_guard_plain_free(ref, p);
        return;
    }
    if (state == MM_GUARD_FREED || !mm_cas_acq_rel_u64(&tail->seal, mm_guard_seal(g.p, asked, made_by, era, MM_GUARD_LIVE),
                                                       mm_guard_seal(g.p, asked, made_by, era, MM_GUARD_FREED))) {
        mm_guard_tell(ref, g, MM_MISUSE_DOUBLE_FREE, 0);
        return;
    }
    if (mm_guard_is_overrun(g, asked)) mm_guard_tell(ref, g, MM_MISUSE_OVERRUN, 0);
    mm_store_relaxed_u64(&tail->freed_by, mm_grid());
    const uint32_t n = mm_guard_poison_words(asked);
    MM_ROLLED
    for (uint32_t i = 0; i < n; i++) mm_store_relaxed_u64((uint64_t *)p + i, MM_GUARD_POISON);
    if (g.granted <= MM_GUARD_KEPT_BYTES) {
        const uint32_t group = mm_warp_here(), leader = mm_ctz(group);
        struct mm_guard *guard = mm_guard_of(ref);
        uint64_t ticket = 0;
        if (mm_warp_lane() == leader) ticket = mm_add_relaxed_u64(&guard->tickets, mm_popcount(group));
        mm_warp_sync(group);
        ticket = mm_warp_shuffle_u64(group, ticket, leader) + mm_popcount(group & mm_bits_low(mm_warp_lane()));
        p = (void *)mm_exchange_acq_rel_u64(&guard->slots[ticket % MM_GUARD_SLOTS], g.p);
        if (p == NULL) return;
    }
    mm_guard_release(ref, p);
}

/* See mm_heap_usable_size: as many as were asked for. */
MM_FN_RARE uint64_t mm_guard_usable_size(const struct mm_heap_ref *ref, const void *p) {
    const struct mm_guarded g = mm_guard_at(ref, p);
    if (g.granted == 0) return 0;
    const enum mm_guard_state state = mm_guard_state(g, mm_load_relaxed_u32(mm_guard_era(ref, g.p)));
    if (state == MM_GUARD_LOST) return g.granted - MM_GUARD_MORE;
    return state == MM_GUARD_LIVE ? mm_load_relaxed_u64(&mm_guard_tail(g)->asked) : 0;
}

#endif
