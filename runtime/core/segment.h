/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Segments and their pages: ownership, and how blocks and spans get pages.
 *
 * Representation.
 *   free tree     the unowned segments. Its leaves are exact; the levels above are hints.
 *   pages         one word for each segment that was taken out of the free tree for its pages: bit i is set if page i is free. 0 in all other segments.
 *   room tree r   segments that may have room of kind r (room.h). All levels are hints, the leaves too.
 *   run           one word for each segment: whether it belongs to a run (run.h).
 * Invariants.
 *   I1  a segment in the free tree has pages 0 and run MM_RUN_NONE, and all its pages are unowned.
 *   I2  a segment stays out of the free tree while a caller holds any of its pages, since its pages cannot be all free then.
 *   I3  a segment that has room r is in room tree r, or the thread that made the room, or one that has taken the segment out of the tree, is about to insert
 *       it.
 * Linearisation points. Take: the atomic and on pages that clears the bits. Give back: the atomic or. A segment becomes unowned by the
 *   compare-and-swap of pages from all to 0.
 * Ordering. Giving back releases, taking acquires. The room trees follow the protocol of tree.h, one level further down: a thread that makes room
 *   sets the leaf's bit afterwards; a thread that found no room clears the leaf's bit and then reads pages again. So does the thread that takes the last
 *   room of its kind, or gives the last page back, for all trees: otherwise each search for a room would pass every segment that had one once.
 * Progress. All searches are bounded. No thread waits here.
 * Stale. A room tree may lead to a segment that was given back or has a new owner since. Its pages are then 0, or really free. A thread that is suspended
 *   between making room and listing it, or between unlisting a segment and reading its pages again, hides one segment.
 */
#ifndef MM_CORE_SEGMENT_H
#define MM_CORE_SEGMENT_H

#include "runtime/core/room.h"
#include "runtime/core/tree.h"
#include MM_ALLOCATOR_FILE(has.h)

MM_FN struct mm_heap *mm_heap_of(const struct mm_heap_ref *ref) { return (struct mm_heap *)ref->heap; }
MM_FN struct mm_segment *mm_segment_at(const struct mm_heap_ref *ref, uint32_t s) { return (struct mm_segment *)ref->segments - s; }
MM_FN uint8_t *mm_page_owner(const struct mm_heap_ref *ref, uint32_t page) { return (uint8_t *)ref->owners + page; }
/* So many bytes from the heap's beginning on were mapped once: their owners may be read. */
MM_FN uint64_t mm_heap_reached(const struct mm_heap_ref *ref) { return mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached) << MM_SEGMENT_SHIFT; }
/* The index of the entry of the block that begins at a page. */
MM_FN uint32_t *mm_page_index(const struct mm_heap_ref *ref, uint32_t page) {
    return &mm_segment_at(ref, page >> MM_PAGES_SHIFT)->index[page & (MM_SEGMENT_PAGES - 1)];
}
/* The words of the block or span that begins at a page. */
MM_FN uint64_t *mm_page_words(const struct mm_heap_ref *ref, uint32_t page) { return (uint64_t *)ref->words + ((uint64_t)page << (uint32_t)ref->word_shift); }
MM_FN uint64_t mm_page_address(const struct mm_heap_ref *ref, uint32_t page) { return ref->user_base + ((uint64_t)page << MM_PAGE_SHIFT); }
MM_FN struct mm_tree mm_tree_at(const struct mm_heap_ref *ref, uint64_t address) {
    const struct mm_tree t = {(uint64_t *)address, (uint32_t)ref->tree_roots, (uint32_t)ref->tree_mids};
    return t;
}
MM_FN struct mm_tree mm_segment_free_tree(const struct mm_heap_ref *ref) { return mm_tree_at(ref, ref->free_tree); }
MM_FN struct mm_tree mm_segment_room_tree(const struct mm_heap_ref *ref, uint32_t r) { return mm_tree_at(ref, ref->room_trees + r * ref->tree_bytes); }

/* Whether this is a checked run. */
MM_FN int mm_is_checked(const struct mm_heap_ref *ref) { return MM_ALLOCATOR_CHECKED && ref->guard != 0; }
/* Whether requests are traced. The allocators that have no checked runs have no traces either: their libraries stay small. */
MM_FN int mm_is_traced(const struct mm_heap_ref *ref) { return MM_ALLOCATOR_CHECKED && ref->trace != 0; }

/* Eras, for checked runs. The era of an allocation is constant while it lives. If two allocations at one address have the same era, their page had no
 * other owner in between, not even as a part of a span or block that began on another page.
 * A segment's era: {number of changes : 32 | its run, or MM_ERA_PAGES : 32}; a page's: {number of changes : 24 | owner : 8}. */
#define MM_ERA_PAGES 2u
MM_FN struct mm_guard *mm_guard_of(const struct mm_heap_ref *ref) { return (struct mm_guard *)ref->guard; }
MM_FN void mm_era_enter_segment(const struct mm_heap_ref *ref, uint32_t s, uint32_t what) {
    if (!mm_is_checked(ref)) return;
    uint64_t *at = &mm_guard_of(ref)->eras[s].segment;
    const uint64_t era = mm_load_relaxed_u64(at);
    if ((uint32_t)era != what) mm_store_relaxed_u64(at, ((era >> 32) + 1) << 32 | what);
}
MM_FN void mm_era_enter_page(const struct mm_heap_ref *ref, uint32_t page, uint32_t owner) {
    uint32_t *at = &mm_guard_of(ref)->eras[page / MM_SEGMENT_PAGES].page[page % MM_SEGMENT_PAGES];
    const uint32_t era = mm_load_relaxed_u32(at);
    if ((era & 255) != owner) mm_store_relaxed_u32(at, ((era >> 8) + 1) << 8 | owner);
}

MM_STATIC_ASSERT(MM_ROOMS_AT_ONCE == 6, "as many as mm_words_zero has");
/* Which of the words are 0, one bit each. A function of its own, so that all of them are on their way before the first one is used: the assembler would use each
 * as soon as it is there, before it issues the next access. */
MM_FN_RARE uint32_t mm_words_zero(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
    return (uint32_t)(a == 0) | (uint32_t)(b == 0) << 1 | (uint32_t)(c == 0) << 2 | (uint32_t)(d == 0) << 3 | (uint32_t)(e == 0) << 4 | (uint32_t)(f == 0) << 5;
}
/* Inserts segment s into the trees of these rooms, bottom-up like mm_tree_insert, several trees at a time. A release waits for the accesses before it, so 54 of
 * them, for a fresh segment, would not overlap. */
MM_FN_RARE void mm_rooms_insert(const struct mm_heap_ref *ref, uint32_t s, uint32_t rooms) {
    const struct mm_tree t = mm_segment_room_tree(ref, 0);
    uint64_t *at = mm_tree_leaf(t, s), bit = 1ull << (s % 64);
    MM_ROLLED
    for (uint32_t level = 0; rooms != 0 && level < 3; level++) {
        uint32_t filled = 0; /* rooms whose word was empty: the level above changes, too */
        mm_publish_fence();
        MM_ROLLED
        for (uint32_t r = 0; r < MM_ROOMS; r += MM_ROOMS_AT_ONCE) {
            uint64_t was[MM_ROOMS_AT_ONCE];
            if ((rooms >> r & mm_bits_low(MM_ROOMS_AT_ONCE)) == 0) continue;
            for (uint32_t i = 0; i < MM_ROOMS_AT_ONCE; i++) {
                uint64_t *word = at + (r + i) * (ref->tree_bytes / sizeof *at);
                was[i] = mm_or_published_if_u64(rooms >> (r + i) & 1, word, bit);
            }
            filled |= mm_words_zero(was[0], was[1], was[2], was[3], was[4], was[5]) << r;
        }
        rooms = filled;
        at = level == 0 ? mm_tree_mid(t, s) : mm_tree_root(t, s);
        bit = level == 0 ? 1ull << (s / 64 % 64) : mm_tree_root_bit(s);
    }
}

#define MM_ROOMS_ALL ((1u << MM_ROOMS) - 1)
/* Clears the leaves' bits of segment s in the trees of these rooms, several trees at a time. Returns the rooms whose bit was set, and above them those whose
 * word is 0 now. Out of line: its frame is gone when the caller goes on. */
MM_FN_RARE uint64_t mm_rooms_clear(const struct mm_heap_ref *ref, uint32_t s, uint32_t rooms) {
    uint64_t *leaf = mm_tree_leaf(mm_segment_room_tree(ref, 0), s), bit = 1ull << (s % 64), result = 0;
    MM_ROLLED
    for (uint32_t r = 0; r < MM_ROOMS; r += MM_ROOMS_AT_ONCE) {
        uint64_t was[MM_ROOMS_AT_ONCE];
        for (uint32_t i = 0; i < MM_ROOMS_AT_ONCE; i++)
            was[i] = rooms >> (r + i) & 1 ? mm_and_fenced_u64(leaf + (r + i) * (ref->tree_bytes / sizeof bit), ~bit) : 0;
        for (uint32_t i = 0; i < MM_ROOMS_AT_ONCE; i++) {
            result |= (uint64_t)((was[i] & bit) != 0) << (r + i);
            result |= (uint64_t)(was[i] == bit) << (32 + r + i);
        }
    }
    return result;
}
/* Takes segment s out of the trees of those of `rooms` that it does not have, and puts it back where that has changed meanwhile. */
MM_FN_RARE void mm_rooms_unlist(const struct mm_heap_ref *ref, uint32_t s, uint32_t rooms) {
    uint64_t *pages = &mm_segment_at(ref, s)->pages;
    const uint64_t cleared = mm_rooms_clear(ref, s, rooms & ~mm_pages_rooms(mm_load_relaxed_u64(pages)));
    if (cleared == 0) return;
    mm_publish_fence(); /* the bits were cleared before pages and leaves are read again */
    MM_ROLLED
    for (uint32_t emptied = (uint32_t)(cleared >> 32); emptied != 0; emptied &= emptied - 1) mm_tree_retract(mm_segment_room_tree(ref, mm_ctz(emptied)), s);
    mm_rooms_insert(ref, s, (uint32_t)cleared & mm_pages_rooms(mm_load_acquire_u64(pages)));
}

/* Mends all trees, one for each lane (mm_tree_mend). Returns whether anything was hidden. All lanes of `here` call. */
MM_FN_RARE int mm_trees_mend(const struct mm_heap_ref *ref, uint32_t here) {
    const uint32_t leaves = ((uint32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->grow.reached) + 63) / 64;
    int any = 0;
    MM_ROLLED
    for (uint32_t i = mm_popcount(here & mm_bits_low(mm_warp_lane())); i <= MM_ROOMS; i += mm_popcount(here))
        any |= mm_tree_mend(i < MM_ROOMS ? mm_segment_room_tree(ref, i) : mm_segment_free_tree(ref), leaves);
    mm_warp_sync(here);
    return mm_warp_ballot(here, any) != 0;
}

/* Gives back pages of segment s that the caller owns, and the segment itself if all of its pages are free then. Releases. */
MM_FN_RARE void mm_pages_put(const struct mm_heap_ref *ref, uint32_t s, uint64_t bits) {
    struct mm_heap *h = mm_heap_of(ref);
    uint64_t *at = &mm_segment_at(ref, s)->pages;
    uint64_t old = mm_or_release_u64(at, bits), now = old | bits;
    if (now == ~0ull && mm_cas_acq_rel_u64(at, now, 0)) { /* if it fails, another thread has taken pages, and will come here when it gives them back */
        mm_tree_insert(mm_segment_free_tree(ref), s);
        mm_add_relaxed_u64(&h->free_count, 1);
        mm_rooms_unlist(ref, s, MM_ROOMS_ALL);
        return;
    }
    mm_rooms_insert(ref, s, mm_pages_rooms(now) & ~mm_pages_rooms(old));
}

/* The mapped segments that are in use. A hint. */
MM_FN uint32_t mm_segments_used(const struct mm_heap_ref *ref) {
    struct mm_heap *h = mm_heap_of(ref);
    return (uint32_t)(mm_load_relaxed_u64(&h->grow.mapped) - mm_load_relaxed_u64(&h->free_count));
}
/* Takes a segment out of the free tree. Returns it, or MM_TREE_NONE. random: any number. Acquires. */
MM_FN_RARE uint32_t mm_segment_take(const struct mm_heap_ref *ref, uint32_t random) {
    const uint32_t s = mm_tree_take(mm_segment_free_tree(ref), random, mm_segments_used(ref));
    if (s != MM_TREE_NONE) mm_add_relaxed_u64(&mm_heap_of(ref)->free_count, ~0ull);
    return s;
}

/* Takes up to `want` segments out of one leaf of the free tree. Returns their bits in the leaf (0: none is free); *leaf: the leaf. Acquires. Warps that meet
 * in a leaf go on with what it has left; when it is empty, each goes to another one. */
MM_FN_RARE uint64_t mm_segments_take(const struct mm_heap_ref *ref, uint32_t want, uint32_t *leaf) {
    const struct mm_tree t = mm_segment_free_tree(ref);
    uint32_t random = mm_random();
    uint64_t got = 0;
    MM_ROLLED
    for (uint32_t tries = 0; got == 0 && tries < MM_TREE_TRIES; tries++) {
        const uint32_t s = mm_tree_find(t, tries == 0 ? 0 : (mm_warp_number() + tries) % MM_TREE_SPREAD + mm_mulhi(random, 64) / want * want * MM_TREE_SPREAD);
        if (s == MM_TREE_NONE) break;
        uint64_t left = mm_load_relaxed_u64(mm_tree_leaf(t, s)) & ~mm_bits_low(s % 64);
        MM_ROLLED
        for (uint32_t more = want; more != 0 && left != 0; more = want - mm_popcount(got)) {
            const uint64_t bits = mm_bits_first(left, more), old = mm_tree_erase_bits(t, s, bits);
            got |= old & bits, left &= old & ~bits;
        }
        *leaf = s / 64;
        random = mm_random_next(random);
    }
    if (got != 0) mm_add_relaxed_u64(&mm_heap_of(ref)->free_count, 0 - (uint64_t)mm_popcount(got));
    return got;
}

/* Takes up to `want` groups of segment s, which may have room. Returns their first pages, or 0 if it had none (*is_full) or other threads took them.
 * from: 0, or any number; it spreads threads that collided before. Acquires. */
MM_FN uint64_t mm_room_take(const struct mm_heap_ref *ref, uint32_t s, struct mm_cut cut, uint32_t want, uint32_t from, int *is_full) {
    const uint64_t seen = mm_load_relaxed_u64(&mm_segment_at(ref, s)->pages), places = mm_cut_starts(cut, seen);
    if (places == 0) {
        const uint64_t listed = mm_load_relaxed_u64(mm_tree_leaf(mm_segment_room_tree(ref, cut.room), s));
        if (listed >> s % 64 & 1) mm_rooms_unlist(ref, s, 1u << cut.room);
        *is_full = 1;
        return 0;
    }
    const int is_any = want == 1 && cut.pages == 1u << cut.align;
    const uint64_t mine = mm_cut_pages(cut, is_any ? 1ull << mm_bits_pick(places, from) : mm_cut_first(cut, seen, want));
    const uint64_t old = mm_and_acquire_u64(&mm_segment_at(ref, s)->pages, ~mine);
    const uint64_t got = old & mine, groups = mm_cut_first(cut, got, want), rest = got & ~mm_cut_pages(cut, groups);
    if (rest != 0) mm_pages_put(ref, s, rest);
    if (got != 0 && mm_cut_starts(cut, old & ~mine) == 0) mm_rooms_unlist(ref, s, MM_ROOMS_ALL);
    return groups;
}

/* Whether the caller may take a fresh segment for pages of room r. At most one segment for each MM_OPEN_SHARE in use is being opened at a time. */
MM_FN int mm_segment_may_open(const struct mm_heap_ref *ref, uint32_t r) {
    struct mm_heap *h = mm_heap_of(ref);
    if (mm_add_relaxed_u32(&h->opening[r], 1) <= mm_segments_used(ref) / MM_OPEN_SHARE) return 1;
    mm_add_relaxed_u32(&h->opening[r], ~0u);
    return 0;
}

/* Takes up to `want` groups of this cut from one segment. Returns the segment, or MM_TREE_NONE; *groups: their first pages. Segments in use are
 * searched before a fresh one is taken, unless a whole segment is wanted. When there is no room, a few callers take fresh segments, and the
 * others search for a while whether these have room for them, too. Acquires. */
MM_FN_RARE uint32_t mm_groups_take(const struct mm_heap_ref *ref, struct mm_cut cut, uint32_t want, uint64_t *groups) {
    const uint32_t random = mm_random(), r = cut.room;
    uint32_t s = MM_TREE_NONE;
    int may_open = 0;
    *groups = 0;
    if (want * cut.pages >= MM_SEGMENT_PAGES) s = mm_segment_take(ref, random);
    MM_ROLLED
    for (uint32_t tries = 0, looks = 0, polls = 0; r < MM_ROOMS && s == MM_TREE_NONE && tries < MM_TREE_TRIES && looks < MM_WAIT_ITERATIONS; looks++) {
        const uint32_t other = looks == 0 ? 0 : mm_tree_random(random + looks), room = mm_tree_find(mm_segment_room_tree(ref, r), other >> 16);
        int is_full = 0;
        if (room != MM_TREE_NONE) *groups = mm_room_take(ref, room, cut, want, other, &is_full);
        if (*groups != 0) s = room;
        tries += !is_full; /* a full segment that was met leaves the trees, so the next search is shorter */
        if (room != MM_TREE_NONE) continue;
        may_open = mm_segment_may_open(ref, r);
        if (may_open || polls++ >= MM_OPEN_POLLS) break;
    }
    if (s == MM_TREE_NONE) s = mm_segment_take(ref, random);
    if (s != MM_TREE_NONE && *groups == 0) {
        mm_era_enter_segment(ref, s, MM_ERA_PAGES);
        *groups = mm_cut_first(cut, ~0ull, want);
        const uint64_t rest = ~mm_cut_pages(cut, *groups);
        if (rest != 0) mm_pages_put(ref, s, rest);
    }
    if (may_open) mm_add_relaxed_u32(&mm_heap_of(ref)->opening[r], ~0u);
    return s;
}
/* The same for groups of 1 << k pages at multiples of that. */
MM_FN uint32_t mm_pages_take(const struct mm_heap_ref *ref, uint32_t k, uint32_t want, uint64_t *groups) {
    return mm_groups_take(ref, mm_cut_evenly(k), want, groups);
}

/* Sets the owner byte of all of these pages. */
MM_FN void mm_pages_own(const struct mm_heap_ref *ref, uint32_t page, uint32_t n, uint32_t owner) {
    MM_ROLLED
    for (uint32_t i = 0; mm_is_checked(ref) && owner != MM_OWNER_NOBODY && i < n; i++) mm_era_enter_page(ref, page + i, owner);
    MM_ROLLED
    while (n != 0) {
        const uint32_t many = page % 8 == 0 && n >= 8 ? 8 : 1;
        if (many == 8) mm_store_eight_u8(mm_page_owner(ref, page), owner * 0x0101010101010101ull);
        else mm_store_relaxed_u8(mm_page_owner(ref, page), (uint8_t)owner);
        page += many, n -= many;
    }
}

/* Whether any page of segment s has an owner. */
MM_FN int mm_segment_is_owned(const struct mm_heap_ref *ref, uint32_t s) {
    uint64_t any = 0;
    for (uint32_t i = 0; i < MM_SEGMENT_PAGES; i += 8)
        any |= mm_load_eight_u8(mm_page_owner(ref, s * MM_SEGMENT_PAGES + i)); /* all loads are issued before the first result is used */
    return any != 0;
}

#endif
