/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Taking and freeing pages, and cutting chunks (chunk.h).
 *
 * Page allocators (MM_OURO_PAGES): an entry names a mask of up to 64 pages. Who has the entry, or finds it in a cell (cells.h), takes pages of the mask by one
 *   atomic and; who has it puts it back if any are left. A free that makes a mask other than 0 enqueues it. In the paper an entry names one page; with 64 there
 *   is room for all entries that there can be, and frees of neighbours cost one entry. A chunk keeps its class for ever.
 * Chunk allocators (MM_OURO_CHUNKS): an entry names a chunk. Who has the entry reserves pages by lowering the number of free pages, then clears as many bits,
 *   beginning at any mask; as many are set (chunk.h, I4). By hints callers take pages without the entry, so it may name a chunk without any (hints.h). A free
 *   raises the number. If all pages are free then, it makes the chunk free, for any class; an entry of the old class stays in its queue, marked in `queued`,
 *   until a caller meets it, or the chunk has that class again.
 */
#ifndef MM_OURO_PAGES_H
#define MM_OURO_PAGES_H

#include "runtime/ouroboros/cells.h"
#include "runtime/ouroboros/fresh.h"
#include "runtime/ouroboros/queue.h"

/* Pages that a caller took: bits of a mask; and the entry that it has to put back, or MM_QUEUE_NONE. */
struct mm_pages_got {
    uint64_t bits;
    uint32_t mask, again;
};

/* Takes up to n pages of a mask. *rest: what is left of it. Acquires. */
MM_FN uint64_t mm_mask_take(const struct mm_heap_ref *ref, uint32_t mask, uint32_t n, uint64_t *rest) {
    uint64_t *at = mm_chunk_mask(ref, mask);
    const uint64_t bits = mm_bits_first(mm_load_relaxed_u64(at), n), old = bits != 0 ? mm_and_acquire_u64(at, ~bits) : 0;
    *rest = old & ~bits;
    return old & bits;
}

/* Puts entries as mm_queue_put_lanes does. What an entry of a chunk says about itself (queued) is taken back if it finds no slot. Returns whether all found
 * one. */
MM_FN_RARE int mm_entries_put(const struct mm_heap_ref *ref, uint32_t here, uint32_t q, uint32_t entry, uint32_t each, uint32_t looks) {
    const int is_put = mm_queue_put_lanes(ref, here, q, entry, each, looks) == 0;
    if (!is_put && MM_OURO_IS_MARKED(q)) {
        mm_and_release_u64(mm_chunk_header(ref, entry), ~mm_chunk_queued(q));
        mm_add_relaxed_u64(&mm_queue_of(ref, q)->refused, 1); /* not before: who looks for it leaves out what is marked */
    }
    return is_put;
}
/* An entry of each lane of `here`, all of which call, or MM_QUEUE_NONE: most often no lane has one. */
MM_FN void mm_lanes_put(const struct mm_heap_ref *ref, uint32_t here, uint32_t q, uint32_t entry) {
    if (mm_warp_ballot(here, entry != MM_QUEUE_NONE) != 0) mm_entries_put(ref, here, q, entry, 1, MM_OURO_LONG_LOOKS);
}
/* The masks of a chunk that a lane of `here`, all of which call, has cut: each lane puts one at a time. entry: that lane's is the first mask if that
 * has to be put, or MM_QUEUE_NONE; the others' are not read. */
MM_FN void mm_masks_put(const struct mm_heap_ref *ref, uint32_t here, uint32_t cutter, uint32_t q, uint32_t first, uint32_t entry) {
    const uint32_t lane = mm_warp_lane(), number = lane == cutter ? 0 : mm_popcount(here & mm_bits_low(lane)) + (lane < cutter), many = mm_popcount(here);
    MM_ROLLED
    for (uint32_t next = number; next - number < mm_chunk_masks(q); next += many) {
        if (next != 0) entry = next < mm_chunk_masks(q) ? first + next : MM_QUEUE_NONE;
        mm_lanes_put(ref, here, q, entry);
    }
}
/* Those of the caller alone. */
MM_FN int mm_entry_put(const struct mm_heap_ref *ref, uint32_t q, uint32_t entry, uint32_t each, uint32_t looks) {
    return mm_entries_put(ref, 1u << mm_warp_lane(), q, entry, each, looks);
}
/* Enqueues a chunk, unless the queue has an entry for it. Returns whether it has now. */
MM_FN int mm_chunk_enqueue_soon(const struct mm_heap_ref *ref, uint32_t chunk, uint32_t q, uint32_t looks) {
    const uint64_t mark = mm_chunk_queued(q);
    return (mm_or_release_u64(mm_chunk_header(ref, chunk), mark) & mark) != 0 || mm_entry_put(ref, q, chunk, 1, looks);
}
MM_FN void mm_chunk_enqueue(const struct mm_heap_ref *ref, uint32_t chunk, uint32_t q) { mm_chunk_enqueue_soon(ref, chunk, q, MM_OURO_LONG_LOOKS); }
/* The caller has the entry of a chunk for class q. Returns whether it has to put it back, since the chunk has free pages of that class. */
MM_FN int mm_chunk_settle(const struct mm_heap_ref *ref, uint32_t chunk, uint32_t q) {
    uint64_t *at = mm_chunk_header(ref, chunk);
    MM_ROLLED
    for (;;) {
        const uint64_t header = mm_load_relaxed_u64(at);
        if (mm_chunk_is_of(header, q) && mm_chunk_count(header) != 0) return 1;
        if (mm_cas_acq_rel_u64(at, header, header & ~mm_chunk_queued(q))) return 0;
    }
}
/* The caller has given pages of a chunk of class q back, and does not have its entry. */
MM_FN_RARE void mm_chunk_gave_back(const struct mm_heap_ref *ref, uint32_t chunk, uint32_t q) {
    if (mm_chunk_is_of(mm_load_relaxed_u64(mm_chunk_header(ref, chunk)), q)) mm_chunk_enqueue(ref, chunk, q);
}
/* Takes up to n pages, and at least `least`, of one mask of a chunk of class q. Begins where pages are left if others took them in order. Acquires. again: the
 * chunk, if the caller has given back pages that it had reserved. Meanwhile the chunk may have lost its entry. Who does not have it has to enqueue the chunk. */
MM_FN struct mm_pages_got mm_chunk_take_soon(const struct mm_heap_ref *ref, uint32_t chunk, uint32_t q, uint32_t n, uint32_t least) {
    uint64_t *at = mm_chunk_header(ref, chunk), rest;
    struct mm_pages_got got = {0, 0, MM_QUEUE_NONE};
    uint32_t reserved = 0, in = 0;
    MM_ROLLED
    while (reserved == 0) {
        const uint64_t header = mm_load_relaxed_u64(at);
        const uint32_t count = mm_chunk_count(header), k = mm_at_most(n, count);
        if (!mm_chunk_is_of(header, q) || count < least) return got;
        in = mm_chunk_pages(q) - count;
        if (mm_cas_acquire_u64(at, header, header - k)) reserved = k;
    }
    MM_ROLLED
    for (uint32_t tries = 0; got.bits == 0 && tries < MM_TREE_TRIES; tries++, in += 64) {
        got.mask = chunk * MM_OURO_MASKS + in / 64 % mm_chunk_masks(q);
        got.bits = mm_mask_take(ref, got.mask, reserved, &rest);
    }
    reserved -= mm_popcount(got.bits);
    if (reserved != 0) mm_add_acq_rel_u64(at, reserved), got.again = chunk;
    return got;
}
MM_FN_RARE struct mm_pages_got mm_chunk_take(const struct mm_heap_ref *ref, uint32_t chunk, uint32_t q, uint32_t n, uint32_t least) {
    return mm_chunk_take_soon(ref, chunk, q, n, least);
}

/* The caller has an entry of queue q: takes up to n pages. It has to put the entry back if some are left. Acquires. In page allocators a chunk keeps its
 * class, so a mask that is in the queue of class q has pages of that class. */
MM_FN struct mm_pages_got mm_entry_take(const struct mm_heap_ref *ref, uint32_t entry, uint32_t q, uint32_t n) {
    struct mm_pages_got got = {0, entry, MM_QUEUE_NONE};
    uint64_t rest = 0;
    if (MM_OURO_ENTRY == MM_OURO_CHUNKS) got = mm_chunk_take(ref, entry, q, n, 1), rest = (uint64_t)mm_chunk_settle(ref, entry, q);
    else got.bits = mm_mask_take(ref, entry, n, &rest);
    got.again = rest != 0 ? entry : MM_QUEUE_NONE;
    return got;
}

/* Cuts a free chunk into pages of class q, and takes n of them. Chunk allocators enqueue the rest; of page allocators the caller has to put the first mask, if
 * any pages of it are left (again), and all others. Queue q has room for them (mm_queue_reserve). has_entry: the caller has the chunk's entry of the queue of
 * free chunks. Returns nothing if the chunk is not free. */
MM_FN_RARE struct mm_pages_got mm_chunk_cut(const struct mm_heap_ref *ref, uint32_t chunk, uint32_t q, uint32_t n, int has_entry) {
    const uint64_t entry = mm_chunk_queued(MM_OURO_FREE) | MM_OURO_CELLED;
    uint64_t *at = mm_chunk_header(ref, chunk), header;
    struct mm_pages_got got = {0, chunk * MM_OURO_MASKS, MM_QUEUE_NONE};
    do {
        header = mm_load_relaxed_u64(at);
        if ((uint32_t)header == 0) continue;
        if (!has_entry) return got;
        /* a warp looks whether the segment can leave the list; if it does leave, the next one that meets the entry drops it */
        const int is_held = (uint32_t)header == MM_LISTED_FULL && mm_load_relaxed_u8(mm_page_owner(ref, chunk / MM_OURO_PAGE_CHUNKS)) == MM_LISTED_OWNER;
        if (is_held) mm_entry_put(ref, MM_OURO_FREE, chunk, 1, MM_OURO_LONG_LOOKS);
        if (is_held || mm_cas_acq_rel_u64(at, header, header & ~entry)) return got;
    } while ((uint32_t)header != 0 || !mm_cas_acquire_u64(at, header, (has_entry ? header & ~entry : header) | MM_OURO_PREPARED));
    const uint32_t pages = mm_chunk_pages(q), k = mm_at_most(mm_at_most(n, pages), 64), masks = mm_chunk_masks(q);
    got.bits = mm_bits_low(k);
    MM_ROLLED
    for (uint32_t i = 0; i < masks; i++) mm_store_relaxed_u64(mm_chunk_mask(ref, got.mask + i), mm_chunk_mask_fresh(q) & ~(i == 0 ? got.bits : 0));
    mm_add_acq_rel_u64(at, mm_chunk_state(q, MM_OURO_ENTRY == MM_OURO_CHUNKS ? pages - k : 0) - MM_OURO_PREPARED);
    if (MM_OURO_ENTRY == MM_OURO_CHUNKS && k < pages) mm_chunk_enqueue(ref, chunk, q);
    if (MM_OURO_ENTRY == MM_OURO_PAGES && k < mm_at_most(pages, 64)) got.again = got.mask;
    return got;
}

/* A page was freed a second time, and counted in a chunk that had another class by then (I1), or none yet: `added`. Takes it back as a caller that wants it
 * does: reserves a page, then clears the bit. Returns whether it did. If not, others have it, or the chunk has become free, and the second free counts. */
MM_FN int mm_page_unfree(const struct mm_heap_ref *ref, uint32_t chunk, uint32_t mask, uint64_t bit, uint32_t added) {
    uint64_t *at = mm_chunk_header(ref, chunk), header;
    do {
        header = mm_load_relaxed_u64(at);
        if (mm_chunk_count(header) == 0 || (uint32_t)header >> 31 != 0) return 0;
        if (mm_chunk_is_cut(added) && !mm_chunk_is_of(header, mm_chunk_class(added))) return 0;
    } while (!mm_cas_acquire_u64(at, header, header - 1));
    if (mm_and_acquire_u64(mm_chunk_mask(ref, mask), ~bit) & bit) return 1;
    mm_add_acq_rel_u64(at, 1);
    return 0;
}
/* A page of the chunk was freed: counts it, and makes the chunk free if it was the last one. Returns 0, or the misuse. *of, *entry: see mm_page_mark. */
MM_FN int mm_chunk_count_free(const struct mm_heap_ref *ref, uint32_t chunk, uint32_t mask, uint64_t bit, uint32_t *of, uint32_t *entry) {
    uint64_t *at = mm_chunk_header(ref, chunk), header = mm_add_acq_rel_u64(at, 1) + 1;
    uint32_t q = *of;
    if (!MM_LIKELY(mm_chunk_is_of(header, q))) {
        if (mm_page_unfree(ref, chunk, mask, bit, (uint32_t)header)) return MM_MISUSE_DOUBLE_FREE;
        header = mm_load_relaxed_u64(at), q = mm_chunk_class(header);
        if (!mm_chunk_is_cut(header)) return 0;
    }
    const uint64_t is_queued = header & mm_chunk_queued(q);
    MM_ROLLED
    while ((uint32_t)header == mm_chunk_state(q, mm_chunk_pages(q))) {
        const uint64_t next = header >> 32 << 32 | mm_chunk_queued(MM_OURO_FREE);
        if (mm_cas_acq_rel_u64(at, header, next)) {
            if (!(header & mm_chunk_queued(MM_OURO_FREE))) *of = MM_OURO_FREE, *entry = chunk;
            return 0;
        }
        header = mm_load_relaxed_u64(at);
    }
    if (!is_queued && !(mm_or_release_u64(at, mm_chunk_queued(q)) & mm_chunk_queued(q))) *of = q, *entry = chunk;
    return 0;
}

/* Frees the page at byte `off` of the heap. Returns 0, or the misuse. *of, *entry: what the caller has to enqueue (mm_entries_put), and where. Releases. */
MM_FN int mm_page_mark(const struct mm_heap_ref *ref, uint64_t off, uint32_t *of, uint32_t *entry) {
    const uint32_t chunk = (uint32_t)(off >> MM_OURO_CHUNK_SHIFT), in = (uint32_t)off % MM_OURO_CHUNK_BYTES;
    const uint64_t header = mm_load_relaxed_u64(mm_chunk_header(ref, chunk));
    if (!MM_LIKELY(mm_chunk_is_cut(header))) return MM_MISUSE_DOUBLE_FREE;
    const uint32_t q = mm_chunk_class(header), page = in >> (MM_ALIGN_SHIFT + q), mask = chunk * MM_OURO_MASKS + page / 64;
    if (!MM_LIKELY(page << (MM_ALIGN_SHIFT + q) == in)) return MM_MISUSE_INTERIOR;
    const uint64_t bit = 1ull << page % 64, old = mm_or_release_u64(mm_chunk_mask(ref, mask), bit);
    if (!MM_LIKELY(!(old & bit))) return MM_MISUSE_DOUBLE_FREE;
    *of = q;
    if (MM_OURO_ENTRY == MM_OURO_CHUNKS) return mm_chunk_count_free(ref, chunk, mask, bit, of, entry);
    if (old == 0) *entry = mask;
    return 0;
}
/* All lanes of `here` call, and enqueue together. */
MM_FN int mm_page_free(const struct mm_heap_ref *ref, uint32_t here, uint64_t off) {
    uint32_t q = 0, entry = MM_QUEUE_NONE;
    const int misuse = mm_page_mark(ref, off, &q, &entry);
    if (MM_OURO_ENTRY == MM_OURO_CHUNKS) { /* of those that become free the cell keeps one */
        const uint32_t frees = mm_warp_ballot(here, entry != MM_QUEUE_NONE && q == MM_OURO_FREE);
        if ((frees & (0 - frees)) >> mm_warp_lane() == 1 && mm_cell_keep(ref, entry)) entry = MM_QUEUE_NONE;
    }
    mm_lanes_put(ref, here, q, entry);
    return misuse;
}
/* Bytes of the page at byte `off` of the heap; 0: none that is live begins there. */
MM_FN uint64_t mm_page_size(const struct mm_heap_ref *ref, uint64_t off) {
    const uint32_t chunk = (uint32_t)(off >> MM_OURO_CHUNK_SHIFT), in = (uint32_t)off % MM_OURO_CHUNK_BYTES;
    const uint64_t header = mm_load_relaxed_u64(mm_chunk_header(ref, chunk));
    const uint32_t q = mm_chunk_class(header), page = in >> (MM_ALIGN_SHIFT + q);
    if (!mm_chunk_is_cut(header) || page << (MM_ALIGN_SHIFT + q) != in) return 0;
    return mm_load_relaxed_u64(mm_chunk_mask(ref, chunk * MM_OURO_MASKS + page / 64)) >> page % 64 & 1 ? 0 : 1ull << (MM_ALIGN_SHIFT + q);
}

/* The list's part (chunk.h): all chunks of a segment that enters it are free. Those of a new one can be drawn (fresh.h); the others are enqueued, if they are
 * not in the queue still. */
MM_FN void mm_listed_prepare(const struct mm_heap_ref *ref, uint32_t w, int is_new) {
    if (is_new) mm_store_relaxed_u64(mm_chunk_header(ref, w), mm_chunk_queued(MM_OURO_FREE));
}
MM_FN int mm_listed_fill(const struct mm_heap_ref *ref, uint32_t w, int is_patient) {
    mm_and_release_u64(mm_chunk_header(ref, w), ~MM_LISTED_FULL);
    const int has_entry = mm_chunk_enqueue_soon(ref, w, MM_OURO_FREE, is_patient ? MM_OURO_LONG_LOOKS : 1);
    return is_patient && has_entry;
}
MM_FN int mm_listed_is_new(const struct mm_heap_ref *ref, uint32_t s) { return mm_load_relaxed_u8(mm_chunks_known(ref, s)) == 0; }
MM_FN uint32_t mm_listed_rows(const struct mm_heap_ref *ref, uint32_t n) { return mm_fresh_rows(ref, n); }
MM_FN void mm_listed_begin(const struct mm_heap_ref *ref, uint32_t row, uint32_t n, uint32_t rank, uint32_t many) { mm_queues_begin(ref, row, n, rank, many); }
MM_FN void mm_listed_enters(const struct mm_heap_ref *ref, uint32_t s, uint32_t row) { mm_fresh_enters(ref, s, row); }
MM_FN void mm_listed_entered(const struct mm_heap_ref *ref, uint32_t here) {
    const uint32_t chunks = mm_fresh_entered(ref, here);
    if (mm_warp_lane() != mm_ctz(here) || chunks == 0) return;
    if (MM_OURO_ENTRY == MM_OURO_CHUNKS) mm_queue_reserve(ref, MM_OURO_FREE, chunks);
    mm_fresh_count(ref, chunks);
}

#endif
