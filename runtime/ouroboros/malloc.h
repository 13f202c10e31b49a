/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* malloc of pages: the lanes of a warp that want the same class ask together. Termination and NULL: listed/malloc.h.
 *
 * A draw. Chunk allocators first look into cells (hints.h), and again when the queue has nothing. 1. Rights to entries of the class's queue: as many as have
 *   enough pages if all of them are free, for all lanes, by one addition; in later rounds four times as many, since entries had fewer pages. Each entry serves
 *   its share of the lanes. 2. If there is no entry: put into the queue what did not find a place in it before (mm_queue_recover). 3. If there is nothing, or
 *   MM_OURO_TRIES rounds found too few pages: wait for pages that another warp is about to enqueue, or cut free chunks, as many as the lanes need. An entry of
 *   a chunk that is not free costs a round, and the last warps of a kernel may meet many: so chunk allocators have MM_OURO_ROUNDS. 4. If there are none, the
 *   list of segments grows.
 *   Of page allocators, lanes that are alone look into some cells of others (cells.h) before step 2, and several only before step 4; these say at once, in
 *   step 2, how many pages they want, so that chunks are cut early. (When all looked into cells first, which is 256 loads of a warp, and then said so, 1 M of
 *   16 B in a used heap took 55 us instead of 35.)
 * The first draw comes before all that listed/malloc.h does: a call in a heap with free pages reads no word of the list.
 * Units of listed/malloc.h. A request of class q has q + 1 units, a free chunk MM_OURO_CLASSES. So a sweep that saw a free page of a larger class proves
 *   nothing to a caller that wants a smaller one, and such a caller begins anew MM_LISTED_UNSURE times before it gets NULL.
 */
#ifndef MM_OURO_MALLOC_H
#define MM_OURO_MALLOC_H

#include "runtime/ouroboros/hints.h"

#include "runtime/listed/list.h"

#define MM_LISTED_UNITS_MAX MM_OURO_CLASSES
/* The units of a request: its class, plus 1. 0 bytes count as 1. */
MM_FN uint32_t mm_listed_units(uint64_t bytes) {
    const uint32_t above = ((uint32_t)bytes - (bytes != 0)) >> MM_ALIGN_SHIFT;
    return above == 0 ? 1 : 33 - mm_clz_u32(above);
}
MM_FN uint32_t mm_listed_bytes(uint32_t n) { return 1u << (MM_ALIGN_SHIFT - 1 + n); }
MM_FN uint32_t mm_listed_patience(uint32_t n, int is_full) { return (void)n, (void)is_full, MM_OURO_PATIENCE; }

/* A caller looks at segment `visit` % count for what queue `of` refused. After a lap of the list in which no put was refused and no segment came or went, all that
 * was refused has been looked at. lap: {what was refused, and count : 32 | the visit that ends it : 32}. */
MM_FN void mm_queue_visit(struct mm_queue *of, uint32_t visit, uint32_t count) {
    const uint64_t refused = mm_load_relaxed_u64(&of->refused), lap = mm_load_relaxed_u64(&of->lap);
    const uint32_t is = ((uint32_t)refused * 0x9e3779b1u + 2 * count) | 1;
    if ((uint32_t)(lap >> 32) != is) mm_cas_relaxed_u64(&of->lap, lap, (uint64_t)is << 32 | (visit + count));
    else if ((int32_t)(visit - (uint32_t)lap) >= 0 && mm_cas_relaxed_u64(&of->refused, refused, 0)) mm_store_relaxed_u64(&of->lap, 0);
}
/* What one segment of the list has, and queue q may not have, since a put was refused: all lanes of `group` look, and put it there, as far as there is room. Each
 * call takes the next segment. Returns whether it put something. */
MM_FN_RARE int mm_queue_recover(const struct mm_heap_ref *ref, uint32_t group, uint32_t q) {
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint32_t rank = mm_popcount(group & mm_warp_before()), many = mm_popcount(group), count = mm_warp_shuffle(group, mm_list_count(ref), mm_ctz(group));
    if (count == 0) return 0;
    uint32_t visit = rank == 0 ? (uint32_t)mm_add_relaxed_u64(&of->visits, 1) : 0;
    if (rank == 0) mm_queue_visit(of, visit, count);
    visit = mm_warp_shuffle(group, visit, mm_ctz(group));
    const uint32_t first = mm_list_segment(ref, visit % count) * MM_OURO_SEGMENT_CHUNKS;
    int is_put = 0;
    MM_ROLLED
    for (uint32_t seen = 0; seen < MM_OURO_SEGMENT_CHUNKS; seen += many) {
        const uint32_t chunk = first + seen + rank;
        uint64_t *const at = mm_chunk_header(ref, chunk);
        const uint64_t header = seen + rank < MM_OURO_SEGMENT_CHUNKS ? mm_load_relaxed_u64(at) : MM_LISTED_FULL;
        MM_ROLLED
        for (uint32_t i = 0; i < (MM_OURO_ENTRY == MM_OURO_PAGES ? mm_chunk_masks(q) : 1); i++) {
            uint32_t entry = MM_QUEUE_NONE;
            if (MM_OURO_ENTRY == MM_OURO_PAGES) {
                if (mm_chunk_is_of(header, q) && mm_load_relaxed_u64(mm_chunk_mask(ref, chunk * MM_OURO_MASKS + i)) != 0) entry = chunk * MM_OURO_MASKS + i;
            } else if (q == MM_OURO_FREE ? (uint32_t)header == 0 : mm_chunk_is_of(header, q) && mm_chunk_count(header) != 0) {
                const uint64_t mark = mm_chunk_queued(q);
                if (!(header & mark) && !(mm_or_release_u64(at, mark) & mark)) entry = chunk;
            }
            if (mm_warp_ballot(group, entry != MM_QUEUE_NONE) == 0) continue;
            if (mm_warp_ballot(group, !mm_entries_put(ref, group, q, entry, 1, MM_OURO_SHORT_LOOKS)) != 0) return is_put;
            is_put = 1;
        }
    }
    return is_put;
}
/* Looks into some segments for what queue q refused, unless more callers do so than every MM_OURO_VISITORS-th segment has one: two in one segment would put
 * masks twice. The others wait as for a chunk that is being cut. All lanes of `group` call. Returns whether it put something. */
MM_FN_RARE int mm_queue_recover_some(const struct mm_heap_ref *ref, uint32_t group, uint32_t q, uint32_t in) {
    struct mm_queue *of = mm_queue_of(ref, in);
    const uint32_t leader = mm_ctz(group), is_leader = mm_warp_lane() == leader;
    int is_put = 0, is_in = 0;
    if (is_leader) is_in = mm_add_relaxed_u64(&of->visitors, 1) <= mm_list_count(ref) / MM_OURO_VISITORS;
    if (mm_warp_shuffle(group, (uint32_t)is_in, leader) != 0) {
        if (is_leader) mm_semaphore_expect(ref, q);
        MM_ROLLED
        for (uint32_t tries = 0; tries < MM_OURO_TRIES && !is_put && mm_warp_ballot(group, mm_load_relaxed_u64(&of->refused) != 0) != 0; tries++)
            is_put = mm_queue_recover(ref, group, in);
        if (is_leader) mm_semaphore_expected(ref, q);
    }
    if (is_leader) mm_add_relaxed_u64(&of->visitors, 0 - 1ull);
    mm_warp_sync(group);
    return is_put;
}
/* Puts into queue q what is free and not there, or chunks into that of free chunks. All lanes of `group` call. Returns whether it did. */
MM_FN int mm_queue_refill(const struct mm_heap_ref *ref, uint32_t group, uint32_t q) {
    MM_ROLLED
    for (uint32_t in = q; in != MM_QUEUE_NONE; in = MM_OURO_ENTRY == MM_OURO_CHUNKS && in != MM_OURO_FREE ? MM_OURO_FREE : MM_QUEUE_NONE)
        if (mm_warp_ballot(group, mm_load_relaxed_u64(&mm_queue_of(ref, in)->refused) != 0) != 0 && mm_queue_recover_some(ref, group, q, in)) return 1;
    return 0;
}

/* A draw by the present lanes for a page of class q each, which may differ. Returns the caller's address, or 0. */
MM_FN_RARE uint64_t mm_pages_draw(const struct mm_heap_ref *ref, uint32_t q) {
    const uint32_t here = mm_warp_group(q >> 8), group = mm_warp_match(here, q);
    const uint32_t lane = mm_warp_lane(), leader = mm_ctz(group), pages = mm_at_most(mm_chunk_pages(q), 64);
    const int is_many = MM_OURO_ENTRY == MM_OURO_PAGES && mm_popcount(group) > 1;
    uint32_t left = group, from = q;
    uint64_t address = 0;
    int is_refilled = 0, has_wanted = 0;
    enum mm_cells cells = MM_CELLS_OWN;
    MM_ROLLED
    for (uint32_t rounds = 0; left != 0 && rounds < MM_OURO_ROUNDS; rounds++) {
        if (MM_OURO_ENTRY == MM_OURO_CHUNKS && cells != MM_CELLS_NONE) { /* a chunk that a cell names, for all lanes */
            struct mm_pages_got got = {0, 0, MM_QUEUE_NONE};
            if (lane == leader) got = mm_cells_chunk(ref, q, mm_popcount(left), cells);
            mm_warp_sync(group);
            const uint32_t mask = mm_warp_shuffle(group, got.mask, leader), in = mm_popcount(left & mm_bits_low(lane));
            const uint64_t bits = mm_warp_shuffle_u64(group, got.bits, leader);
            if (left >> lane & 1 && in < mm_popcount(bits)) address = mm_chunk_address(ref, mask, mm_bits_select(bits, in), q);
            if (cells == MM_CELLS_FREE && bits == 0) break;
            left = mm_warp_ballot(group, address == 0);
            cells = MM_CELLS_NONE;
            if (left == 0) break;
        }
        const uint32_t wanted = mm_popcount(left), rank = mm_popcount(left & mm_bits_low(lane)), least = (wanted - 1) / pages + 1;
        const uint32_t needs = is_many ? least * pages : wanted; /* all pages of the masks, so as not to wait until others put back what they leave */
        uint32_t rights = 0;
        uint64_t first = 0;
        if (lane == leader) {
            uint32_t want = least;
            const uint32_t before = from;
            if (from == q && rounds >= MM_OURO_TRIES) from = MM_OURO_FREE;
            if (from == q) {
                want = mm_at_most(least << mm_at_most(2 * rounds, 5), wanted);
                rights = mm_semaphore_take(ref, q, want);
                if (rights == 0 && !has_wanted && (is_refilled || (is_many && mm_load_relaxed_u64(&mm_queue_of(ref, q)->refused) == 0))) {
                    has_wanted = 1;
                    if (mm_semaphore_wants(ref, q, needs)) from = MM_OURO_FREE;
                }
                if (rights == 0 && from == q && is_refilled) {
                    rights = mm_semaphore_wait(ref, q, needs);
                    if (rights == 0) from = MM_OURO_FREE;
                }
                if (rights != 0) has_wanted = 0;
                if (from != q) want = least;
            }
            if (from != before && mm_popcount(group) < mm_chunk_pages(q)) mm_semaphore_expect(ref, q);
            if (from != q) from = MM_OURO_FREE;
            MM_ROLLED
            while (from != q && (rights = mm_semaphore_take(ref, from, want)) == 0 && from == MM_OURO_FREE) from = MM_OURO_FRESH;
            if (rights != 0) {
                first = mm_add_relaxed_u64(&mm_queue_of(ref, from)->front, rights);
                if (from != q) mm_queue_reserve(ref, q, rights);
            }
        }
        uint64_t view = mm_queue_view(ref, q); /* under way together with front's addition */
        mm_warp_sync(group);
        const uint32_t found = mm_warp_shuffle(group, from << 8 | rights, leader);
        first = mm_warp_shuffle_u64(group, first, leader);
        rights = found & 255, from = found >> 8;
        if (from != q) view = mm_queue_view(ref, from);
        if (rights == 0) {
            const int is_last = from != q;
            const uint64_t page = MM_OURO_ENTRY == MM_OURO_PAGES && is_last == is_many ? mm_cells_take(ref, group, (int)(left >> lane & 1), q) : 0;
            if (is_last) cells = MM_CELLS_FREE;
            else if (2 * wanted <= pages) cells = MM_CELLS_OTHERS;
            if (page != 0) address = page;
            const uint32_t rest = mm_warp_ballot(group, address == 0);
            if (!is_last && rest == left && !is_refilled) is_refilled = !mm_queue_refill(ref, group, q);
            left = rest;
            if (is_last && MM_OURO_ENTRY == MM_OURO_PAGES) break;
            continue;
        }
        const uint32_t inverse = (1u << 16) / rights + 1, which = rank * inverse >> 16; /* rank / rights, of numbers up to 32 */
        struct mm_pages_got got = {0, 0, MM_QUEUE_NONE};
        uint32_t passes = 0, entry = MM_QUEUE_NONE;
        if (left >> lane & 1 && which == 0)
            entry = from == MM_OURO_FRESH ? mm_fresh_chunk(ref, first + rank) : mm_queue_take(ref, from, first + rank, view, &passes);
        mm_warp_sync(group);
        mm_queue_pass_lanes(ref, group, from, first, first + rank, passes);
        if (entry != MM_QUEUE_NONE) {
            const uint32_t share = ((wanted - rank - 1) * inverse >> 16) + 1;
            got = from != q ? mm_chunk_cut(ref, entry, q, share, 1) : mm_entry_take(ref, entry, q, share);
            if (MM_OURO_ENTRY == MM_OURO_CHUNKS && got.bits != 0) mm_cell_note(ref, q, entry);
        }
        mm_warp_sync(group);
        const uint32_t of = mm_bits_select(left, rank - which * rights), mask = mm_warp_shuffle(group, got.mask, of);
        const uint64_t bits = mm_warp_shuffle_u64(group, got.bits, of);
        if (left >> lane & 1 && which < mm_popcount(bits)) address = mm_chunk_address(ref, mask, mm_bits_select(bits, which), q);
        const uint32_t cutter = mm_ctz(left), cut = mm_warp_shuffle(group, from != q && got.bits != 0 ? got.mask : MM_QUEUE_NONE, cutter);
        left = mm_warp_ballot(group, address == 0);
        if (MM_OURO_ENTRY == MM_OURO_PAGES && cut != MM_QUEUE_NONE && mm_chunk_masks(q) > 1) mm_masks_put(ref, group, cutter, q, cut, got.again);
        else mm_lanes_put(ref, group, q, got.again);
    }
    if (lane == leader && from != q && mm_popcount(group) < mm_chunk_pages(q)) mm_semaphore_expected(ref, q);
    mm_warp_sync(here); /* the lanes leave together */
    return address;
}
/* See listed/malloc.h. */
MM_FN uint64_t mm_listed_draw(const struct mm_heap_ref *ref, uint32_t here, int is_drawing, uint32_t n, uint32_t count, uint32_t random) {
    uint64_t address = 0;
    (void)count, (void)random;
    if (is_drawing) address = mm_pages_draw(ref, n - 1);
    mm_warp_sync(here);
    return address;
}

/* The free pages of a chunk of class q. */
MM_FN uint32_t mm_chunk_free_pages(const struct mm_heap_ref *ref, uint32_t chunk, uint32_t q) {
    uint32_t free = 0;
    MM_ROLLED
    for (uint32_t i = 0; i < mm_chunk_masks(q); i++)
        free += mm_popcount(mm_load_relaxed_u64(mm_chunk_mask(ref, chunk * MM_OURO_MASKS + i)) & mm_chunk_mask_pages(q));
    return free;
}
/* A sweep's part: a unit is a chunk. */
MM_FN_RARE uint64_t mm_listed_find(const struct mm_heap_ref *ref, uint32_t s, uint32_t n) {
    uint32_t most = 0;
    MM_ROLLED
    for (uint32_t chunk = s * MM_OURO_SEGMENT_CHUNKS; chunk < (s + 1) * MM_OURO_SEGMENT_CHUNKS; chunk++) {
        const uint64_t header = mm_load_relaxed_u64(mm_chunk_header(ref, chunk));
        const uint32_t q = mm_chunk_class(header);
        uint32_t units = 0;
        if ((uint32_t)header == 0) units = MM_OURO_CLASSES;
        else if ((uint32_t)header == MM_OURO_PREPARED || (uint32_t)header == MM_LISTED_FULL)
            most = MM_OURO_CLASSES; /* a moment later it may have anything: somebody cuts it, or looks whether its segment can leave the list */
        else if (mm_chunk_is_cut(header) && mm_chunk_free_pages(ref, chunk, q) != 0) units = q + 1;
        const int is_reserved =
            MM_OURO_ENTRY == MM_OURO_CHUNKS && (uint32_t)header != 0 && mm_chunk_count(header) == 0; /* all of it: others are about to take it */
        if (units != 0 && n <= MM_OURO_CLASSES && !is_reserved && (units == n || (uint32_t)header == 0)) return chunk;
        if (units > most) most = units;
    }
    return MM_LISTED_NONE + most;
}
MM_FN uint64_t mm_listed_claim(const struct mm_heap_ref *ref, uint64_t unit, uint32_t n) {
    const uint32_t chunk = (uint32_t)unit, q = n - 1;
    mm_queue_reserve(ref, q, 1);
    struct mm_pages_got got = mm_chunk_cut(ref, chunk, q, 1, 0);
    if (MM_OURO_ENTRY == MM_OURO_PAGES && got.bits != 0) mm_masks_put(ref, 1u << mm_warp_lane(), mm_warp_lane(), q, got.mask, got.again);
    if (got.bits == 0 && MM_OURO_ENTRY == MM_OURO_CHUNKS) {
        got = mm_chunk_take(ref, chunk, q, 1, 1);
        mm_chunk_gave_back(ref, chunk, q); /* draws did not find it */
    }
    MM_ROLLED
    for (uint32_t i = 0; MM_OURO_ENTRY == MM_OURO_PAGES && got.bits == 0 && i < mm_chunk_masks(q); i++) {
        uint64_t rest;
        if (!mm_chunk_is_of(mm_load_relaxed_u64(mm_chunk_header(ref, chunk)), q)) break;
        got.mask = chunk * MM_OURO_MASKS + i, got.bits = mm_mask_take(ref, got.mask, 1, &rest);
        if (got.bits != 0 && rest != 0)
            mm_entry_put(ref, q, got.mask, 1, MM_OURO_LONG_LOOKS); /* draws did not find it; if it has an entry, one of the two is dropped in the end */
    }
    return got.bits != 0 ? mm_chunk_address(ref, got.mask, mm_ctz(got.bits), q) : 0;
}

#endif
