/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The first draw of malloc: what is frequent, in a function that calls no other. The rest is in the draw that follows (malloc.h); of page allocators, first in
 * mm_pages_settle.
 *
 * Chunk allocators. Lanes that want the same class take pages of the chunk that the warp's cell names (hints.h), if it has enough for all of them.
 * Page allocators. Lanes that want the same class take pages of the entry in the warp's cell (cells.h), or else of entries of the class's queue: as many as
 *   have enough pages if all of them are free. They do not look whether there are any: a look at the word that all warps add to takes as long as the addition.
 *   Each entry serves its share of the lanes.
 * An entry of the queue of which pages are left goes into the warp's cell, if that is empty; else into the queue.
 * Tokens. What a lane has left to do (mm_pages_settle), or that it has no page: the next draw is for it.
 * Progress. No wait; no loop, but for positions beyond 32 bits (array.h), and a compare-and-swap of a chunk's header, which
 *   fails if another caller's succeeded, and looks into a few masks.
 */
#ifndef MM_OURO_FIRST_H
#define MM_OURO_FIRST_H

#include "runtime/ouroboros/malloc.h"

#if MM_OURO_ENTRY == MM_OURO_PAGES
/* Tokens: MM_TOKEN, a kind, and
 *   MM_PAGE_NONE   bytes: 14
 *   MM_PAGE_TAKE   {position : 44 | bytes : 14}   the lane has drawn a position of its class's queue, with a right, and found no entry
 *   MM_PAGE_LEFT   {what is left | entry, if MM_PAGE_AGAIN : 31 | bytes : 14}       it has no page
 *   MM_PAGE_GOT    {what is left | class : 4 | its page's offset in the heap / 16 : 38}
 * What is left. MM_PAGE_AGAIN: pages of the entry are left, which has to be put; of MM_PAGE_GOT it is the mask of the page. MM_PAGE_LAST |
 *   word << MM_PAGE_WORD_SHIFT: the lane was the last one that passed in the queue chunk of this word (mm_queue_passed). */
#define MM_PAGE_BYTES_BITS 14
#define MM_PAGE_ENTRY_BITS 31
#define MM_PAGE_OFFSET_BITS 38
#define MM_PAGE_WORD_SHIFT 45
#define MM_PAGE_KIND_SHIFT 58
#define MM_PAGE_NONE 0ull
#define MM_PAGE_TAKE (1ull << MM_PAGE_KIND_SHIFT)
#define MM_PAGE_LEFT (2ull << MM_PAGE_KIND_SHIFT)
#define MM_PAGE_GOT (3ull << MM_PAGE_KIND_SHIFT)
#define MM_PAGE_AGAIN (1ull << 60)
#define MM_PAGE_LAST (1ull << 61)
MM_STATIC_ASSERT(MM_PAGE_WORD_SHIFT + MM_OURO_RING_SHIFT <= MM_PAGE_KIND_SHIFT && MM_PAGE_BYTES_BITS + MM_PAGE_ENTRY_BITS <= MM_PAGE_WORD_SHIFT, "tokens");
MM_STATIC_ASSERT(MM_OURO_CHUNK_BYTES < 1u << MM_PAGE_BYTES_BITS &&
                     (uint64_t)MM_TREE_BITS_MAX << (MM_SEGMENT_SHIFT - MM_ALIGN_SHIFT) <= 1ull << MM_PAGE_OFFSET_BITS,
                 "tokens");
MM_FN uint64_t mm_page_kind(uint64_t token) { return token & MM_PAGE_GOT; }
MM_FN uint64_t mm_page_token(uint64_t bytes) { return MM_TOKEN | MM_PAGE_NONE | bytes; }
MM_FN uint64_t mm_page_bytes(uint64_t token) { return token & ((1u << MM_PAGE_BYTES_BITS) - 1); }
MM_FN uint64_t mm_page_take(uint64_t p, uint64_t bytes) { return MM_TOKEN | MM_PAGE_TAKE | (p << MM_PAGE_BYTES_BITS & (MM_PAGE_TAKE - 1)) | bytes; }
/* The position of such a token: it is before `front`. */
MM_FN uint64_t mm_page_position(uint64_t token, uint64_t front) {
    const uint32_t bits = MM_PAGE_KIND_SHIFT - MM_PAGE_BYTES_BITS;
    return front - ((front - (token >> MM_PAGE_BYTES_BITS)) & ((1ull << bits) - 1));
}
MM_FN uint64_t mm_page_left(uint64_t left, uint32_t entry, uint64_t bytes) {
    return MM_TOKEN | MM_PAGE_LEFT | left | (uint64_t)(left & MM_PAGE_AGAIN ? entry : 0) << MM_PAGE_BYTES_BITS | bytes;
}
MM_FN uint64_t mm_page_got(uint64_t left, uint32_t q, uint64_t off) {
    return MM_TOKEN | MM_PAGE_GOT | left | (uint64_t)q << MM_PAGE_OFFSET_BITS | off >> MM_ALIGN_SHIFT;
}
MM_FN uint32_t mm_page_class(uint64_t token) { return (uint32_t)(token >> MM_PAGE_OFFSET_BITS) & 15; }
MM_FN uint64_t mm_page_offset(uint64_t token) { return (token & ((1ull << MM_PAGE_OFFSET_BITS) - 1)) << MM_ALIGN_SHIFT; }
MM_FN uint32_t mm_page_word(uint64_t token) { return (uint32_t)(token >> MM_PAGE_WORD_SHIFT) % (1u << MM_OURO_RING_SHIFT); }

/* The first draw by the present lanes. Returns the caller's address, or a token. */
MM_FN_RARE uint64_t mm_pages_draw_soon(const struct mm_heap_ref *ref, uint32_t bytes) {
    const uint32_t q = mm_listed_units(bytes) - 1, here = mm_warp_group(bytes >> 16), group = mm_warp_match(here, q), leader = mm_ctz(group);
    const uint32_t rank = mm_popcount(group & mm_warp_before()), wanted = mm_popcount(group), shift = mm_at_most(mm_chunk_pages_shift(q), 6);
    const uint32_t rights = ((wanted - 1) >> shift) + 1, has_cell = rights == 1 && q < MM_OURO_CELL_CLASSES;
    struct mm_queue *of = mm_queue_of(ref, q);
    uint32_t held = 0, entry = MM_QUEUE_NONE;
    uint64_t first = MM_LISTED_NONE, bits = 0, left = 0;
    if (rank == 0 && has_cell) held = mm_cell_open(ref, q, wanted == 1);
    if (rank == 0 && held == 0) {
        if ((int64_t)mm_add_relaxed_u64(&of->count, 0 - (uint64_t)rights) >= (int64_t)rights) first = mm_add_relaxed_u64(&of->front, rights);
        else mm_semaphore_put(ref, q, rights);
    }
    const uint64_t view = mm_queue_view(ref, q); /* under way together with front's addition */
    first = mm_warp_shuffle_u64(here, first, leader);
    const int takes = first != MM_LISTED_NONE && rank < rights;
    const uint64_t p = first + rank;
    if (held != 0) entry = held - 1;
    if (takes) {
        uint32_t *const slot = mm_queue_slot_soon(ref, q, p, view);
        const uint32_t found = slot != NULL ? mm_exchange_acquire_u32(slot, 0) : 0;
        if (mm_slot_has_entry(found)) {
            entry = found - 1;
            mm_queue_turn(ref, q, slot);
        }
    }
    if (MM_OURO_QUEUE != MM_OURO_S) { /* those in the same queue chunk pass by one addition, before anything is put */
        const int passes = takes && entry != MM_QUEUE_NONE, is_near = passes && (p ^ first) >> MM_OURO_STORE_SHIFT == 0;
        const uint32_t near = mm_warp_ballot(here, is_near) & group, n = !passes                          ? 0
                                                                         : !is_near                       ? 2
                                                                         : (near & mm_warp_before()) != 0 ? 0
                                                                                                          : 2 * mm_popcount(near);
        if (n != 0 && mm_queue_pass_soon(ref, q, p, n)) left = MM_PAGE_LAST | (p >> MM_OURO_STORE_SHIFT) % (1u << MM_OURO_RING_SHIFT) << MM_PAGE_WORD_SHIFT;
    }
    /* Entry number i serves lanes i, i + rights and so on: so who took it gets its first page, and puts it. */
    const uint32_t inverse = rights > 1 ? (1u << 16) / rights + 1 : 1u << 16, in = rank * inverse >> 16; /* rank / rights, of numbers up to 32 */
    if (entry != MM_QUEUE_NONE) {
        uint64_t rest;
        bits = mm_mask_take(ref, entry, ((wanted - rank - 1) * inverse >> 16) + 1, &rest);
        if (mm_cell_close(ref, q, entry, rest, (int)has_cell, held != 0 && wanted == 1)) left |= MM_PAGE_AGAIN;
    }
    const uint32_t of_lane = rights > 1 ? mm_bits_select_u32(group, rank - in * rights) : leader, mask = mm_warp_shuffle(here, entry, of_lane);
    bits = mm_warp_shuffle_u64(here, bits, of_lane);
    uint64_t result = mm_page_token(bytes);
    if (takes && entry == MM_QUEUE_NONE) {
        result = mm_page_take(p, bytes);
    } else if (in < mm_popcount(bits)) {
        result = mm_chunk_address(ref, mask, mm_bits_select(bits, in), q);
        if (left != 0) result = mm_page_got(left, q, result - ref->user_base);
    } else if (left != 0) {
        result = mm_page_left(left, entry, bytes);
    }
    mm_warp_sync(here); /* the lanes leave together */
    return result;
}

/* The mask of its page. */
MM_FN uint32_t mm_page_mask(uint64_t token) {
    const uint64_t off = mm_page_offset(token);
    return (uint32_t)(off >> MM_OURO_CHUNK_SHIFT) * MM_OURO_MASKS + ((uint32_t)off % MM_OURO_CHUNK_BYTES >> (MM_ALIGN_SHIFT + mm_page_class(token))) / 64;
}

/* Puts an entry at a position whose slot the caller did not find, or not empty. */
MM_FN_RARE int mm_queue_put_late(const struct mm_heap_ref *ref, uint32_t q, uint64_t p, uint64_t view, uint32_t entry) {
    return mm_queue_put_at(ref, q, p, view, entry, MM_OURO_LONG_LOOKS);
}
/* Puts the entries of lanes with tokens MM_PAGE_GOT and MM_PAGE_AGAIN, which have passed. Returns the addresses. */
MM_FN_RARE uint64_t mm_pages_put_soon(const struct mm_heap_ref *ref, uint64_t token) {
    const uint32_t here = mm_warp_group(token >> 63), q = mm_page_class(token), group = mm_warp_match(here, q), many = mm_popcount(group);
    const uint32_t rank = mm_popcount(group & mm_warp_before()), entry = mm_page_mask(token);
    struct mm_queue *of = mm_queue_of(ref, q);
    const uint64_t view = mm_queue_view(ref, q);
    uint64_t first = MM_LISTED_NONE;
    int is_put = 0;
    if (rank == 0 && !mm_queue_is_full_soon(ref, q)) first = mm_add_relaxed_u64(&of->back, many);
    first = mm_warp_shuffle_u64(here, first, mm_ctz(group));
    if (first != MM_LISTED_NONE) {
        const uint64_t p = first + rank;
        uint32_t *const slot = mm_queue_slot_soon(ref, q, p, view);
        is_put = slot != NULL && mm_cas_acq_rel_u32(slot, 0, entry + 1);
        if (!is_put) is_put = mm_queue_put_late(ref, q, p, view, entry);
    }
    const uint32_t put = mm_popcount(mm_warp_ballot(here, is_put) & group);
    if (rank == 0 && put != 0) mm_semaphore_put(ref, q, put);
    if (first != MM_LISTED_NONE) mm_queue_go_ahead(ref, q, group, first, many);
    mm_warp_sync(here);
    mm_lanes_put(ref, here, q, is_put ? MM_QUEUE_NONE : entry);
    mm_warp_sync(here);
    return ref->user_base + mm_page_offset(token);
}

/* What a lane has left. Returns its address, or the token of a lane that has no page and nothing left. All lanes that call enqueue together. */
MM_FN_RARE uint64_t mm_pages_settle(const struct mm_heap_ref *ref, uint64_t token) {
    const uint32_t here = mm_warp_group(token >> 63);
    const uint64_t kind = mm_page_kind(token);
    const uint32_t q = kind == MM_PAGE_GOT ? mm_page_class(token) : mm_listed_units(mm_page_bytes(token)) - 1;
    uint32_t entry = MM_QUEUE_NONE;
    uint64_t result = mm_page_token(mm_page_bytes(token));
    if (token & MM_PAGE_LAST) mm_queue_passed(ref, q, mm_page_word(token));
    if (kind == MM_PAGE_GOT) {
        result = ref->user_base + mm_page_offset(token);
        if (token & MM_PAGE_AGAIN) entry = mm_page_mask(token);
    } else if (kind == MM_PAGE_LEFT) {
        if (token & MM_PAGE_AGAIN) entry = (uint32_t)(token >> MM_PAGE_BYTES_BITS) % (1u << MM_PAGE_ENTRY_BITS);
    } else {
        uint32_t passes = 0;
        const uint64_t p = mm_page_position(token, mm_load_relaxed_u64(&mm_queue_of(ref, q)->front));
        const uint32_t taken = mm_queue_take(ref, q, p, mm_queue_view(ref, q), &passes);
        if (passes != 0) mm_queue_pass(ref, q, p, passes);
        if (taken != MM_QUEUE_NONE) {
            const struct mm_pages_got got = mm_entry_take(ref, taken, q, 1);
            if (got.bits != 0) result = mm_chunk_address(ref, got.mask, mm_ctz(got.bits), q);
            entry = got.again;
        }
    }
    mm_warp_sync(here);
    mm_lanes_put(ref, here, q, entry);
    mm_warp_sync(here);
    return result;
}
#else
/* Tokens: MM_TOKEN, bytes, and {MM_CHUNK_GAVE_BACK | chunk << 32}: mm_chunk_gave_back has to be called. */
#define MM_CHUNK_BITS 27
#define MM_CHUNK_GAVE_BACK (1ull << 60)
MM_STATIC_ASSERT((uint64_t)MM_TREE_BITS_MAX *MM_OURO_SEGMENT_CHUNKS <= 1u << MM_CHUNK_BITS && MM_CHUNK_BITS + 3 <= 31, "chunks, and masks");
/* The first draw of chunk allocators, by the present lanes: pages of the chunk in the warp's cell. Returns the caller's address, or a token. */
MM_FN_RARE uint64_t mm_chunks_draw_soon(const struct mm_heap_ref *ref, uint32_t bytes) {
    const uint32_t q = mm_listed_units(bytes) - 1, here = mm_warp_group(bytes >> 16), group = mm_warp_match(here, q), leader = mm_ctz(group);
    const uint32_t rank = mm_popcount(group & mm_warp_before());
    struct mm_pages_got got = {0, 0, MM_QUEUE_NONE};
    if (rank == 0 && q < MM_OURO_CELL_FREE) {
        const uint32_t held = mm_load_relaxed_u32(mm_cell_of(ref, q));
        if (held != 0) got = mm_chunk_take_soon(ref, held - 1, q, mm_popcount(group), mm_popcount(group));
    }
    const uint32_t found = mm_warp_shuffle(here, got.mask | (got.again != MM_QUEUE_NONE ? 1u << 31 : 0), leader), mask = found & ~(1u << 31);
    const uint64_t bits = mm_warp_shuffle_u64(here, got.bits, leader);
    uint64_t result = MM_TOKEN | bytes;
    if (rank < mm_popcount(bits)) result = mm_chunk_address(ref, mask, mm_bits_select(bits, rank), q);
    else if (rank == mm_popcount(bits) && found >> 31 != 0) result = MM_TOKEN | MM_CHUNK_GAVE_BACK | (uint64_t)(mask / MM_OURO_MASKS) << 32 | bytes;
    mm_warp_sync(here); /* the lanes leave together */
    return result;
}
#endif

#endif
