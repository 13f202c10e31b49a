/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Chunks of 8 KiB and their pages (Winter et al., "Ouroboros: virtualized queues for dynamic memory management on GPUs", ICS 2020). A chunk has pages of one
 * size, 16 << q bytes; q is its class. The words of a chunk are outside of it, so a page is aligned to its size.
 *
 * Representation. A header: {queued : 32 | state : 32}, and up to MM_OURO_MASKS masks, one bit for each page, set if the page is free.
 *   state   0: the chunk is free. MM_LISTED_FULL: its segment is not in the list. MM_OURO_PREPARED: a warp that has it makes its masks.
 *           MM_OURO_CUT | q << 16 | free pages: it has pages of class q. (The number of free pages: chunk allocators only.)
 *   queued  bit q, or MM_OURO_FREE: the queue of that class, or of free chunks, has an entry for the chunk, or a cell (hints.h), or a thread has that entry.
 *           MM_OURO_CELLED: a cell has that of a free chunk, which is a hint. Bits of classes, and that: chunk allocators only
 * Invariants.
 *   I1  a page is free if and only if its bit is set, in a chunk that is cut. The masks are the only truth about pages; entries of queues are hints.
 *       Chunk allocators: bits beyond the pages are set, and never taken: the lowest ones are, of which there are enough (I4). So a bit is 0 only if a page is
 *       live, and a second free that comes when the chunk has been cut for another class meets a set bit; or it frees the page that has this bit now for a
 *       moment, until it sees the class. Who owns the page keeps the chunk from being cut again until it is counted. The second free then takes the page back
 *       as a caller that wants one does, by a reservation and the bit; if it gets none, since others have reserved all or the chunk is free, the page stays
 *       freed. So both are undone or none, and I4 holds.
 *   I2  there is at most one entry for a chunk and a queue, and it is in the queue, in a cell, or in a thread's hand, if bit q of queued is set.
 *   I3  page allocators: a mask that is not 0 has an entry, in the queue of its class, in a cell (cells.h) or in a caller's hand, or the thread that made it so is
 *       about to enqueue it. It may have several: one whose last page was taken by a caller without the entry (a sweep, or one that left it in a cell) gets
 *       another one with the next free; so does one that a caller found which looked for what a queue refused (mm_queue_recover). Who has an entry whose mask
 *       is 0 drops it.
 *   I4  chunk allocators: the number of free pages is at most the number of bits set; the difference is pages that callers have reserved, and pages that are
 *       being freed.
 *   I5  chunk allocators: a chunk of class q whose number of free pages is not 0 has an entry of that class, or a thread that raised the number is about to look
 *       whether bit q of queued is set, and to enqueue the chunk if not. An entry is dropped by a compare-and-swap that finds the number 0 (mm_chunk_settle).
 * Linearisation points. A page is handed out by the atomic and that clears its bit, and freed by the atomic or that sets it. A chunk is taken by the
 *   compare-and-swap of state from 0, and becomes free by the one to 0, which finds all pages counted.
 * Ordering. Setting a bit releases, clearing acquires. The addition that ends a preparation releases the masks.
 * Progress. Lock-free.
 */
#ifndef MM_OURO_CHUNK_H
#define MM_OURO_CHUNK_H

#include "runtime/core/segment.h"

/* What an entry of a queue names: a mask of pages (the page allocators), or a chunk. */
#define MM_OURO_PAGES 0
#define MM_OURO_CHUNKS 1
#ifndef MM_OURO_ENTRY
#define MM_OURO_ENTRY MM_OURO_PAGES
#endif

#define MM_OURO_CHUNK_BYTES (1u << MM_OURO_CHUNK_SHIFT)
#define MM_OURO_CLASSES (MM_OURO_CHUNK_SHIFT - MM_ALIGN_SHIFT + 1)
#define MM_OURO_FREE MM_OURO_CLASSES         /* the queue of free chunks */
#define MM_OURO_QUEUES (MM_OURO_CLASSES + 1) /* of the classes, and that one */
#define MM_OURO_FRESH MM_OURO_QUEUES         /* chunks that were never taken (fresh.h) */
#define MM_OURO_MASKS (MM_OURO_CHUNK_BYTES >> MM_ALIGN_SHIFT >> 6)
#define MM_OURO_SEGMENT_CHUNKS (1u << (MM_SEGMENT_SHIFT - MM_OURO_CHUNK_SHIFT))
#define MM_OURO_PAGE_CHUNKS (MM_OURO_SEGMENT_CHUNKS / MM_SEGMENT_PAGES) /* of a page of the heap */
MM_STATIC_ASSERT(1 + MM_OURO_PAGE_CHUNKS * (1 + MM_OURO_MASKS) <= MM_BLOCK_WORDS_MAX, "a page's words have room for its chunks");
MM_STATIC_ASSERT(MM_OURO_CLASSES == 10 && MM_OURO_MASKS == 8, "the paper's");

#define MM_OURO_CUT (1u << 30)
#define MM_OURO_PREPARED (1u << 29)
MM_FN uint32_t mm_chunk_state(uint32_t q, uint32_t free) { return MM_OURO_CUT | q << 16 | free; }
MM_FN uint32_t mm_chunk_class(uint64_t header) { return (uint32_t)header >> 16 & 15; }
MM_FN uint32_t mm_chunk_count(uint64_t header) { return (uint32_t)header & 0xffff; }
/* Whether the chunk is cut; into pages of class q. */
MM_FN int mm_chunk_is_cut(uint64_t header) { return ((uint32_t)header & (MM_OURO_CUT | 1u << 31)) == MM_OURO_CUT; }
MM_FN int mm_chunk_is_of(uint64_t header, uint32_t q) { return mm_chunk_is_cut(header) && mm_chunk_class(header) == q; }
MM_FN uint64_t mm_chunk_queued(uint32_t q) { return 1ull << (32 + q); }

#define MM_OURO_CELLED mm_chunk_queued(MM_OURO_QUEUES) /* see queued */

/* Log2 of the pages of a chunk of class q; its masks; the bits of each. */
MM_FN uint32_t mm_chunk_pages_shift(uint32_t q) { return MM_OURO_CLASSES - 1 - q; }
MM_FN uint32_t mm_chunk_pages(uint32_t q) { return 1u << mm_chunk_pages_shift(q); }
MM_FN uint32_t mm_chunk_masks(uint32_t q) { return (mm_chunk_pages(q) + 63) / 64; }

/* Bits of a mask that are pages. Bits of a mask without live pages: in chunk allocators those beyond the pages, too (I1). */
MM_FN uint64_t mm_chunk_mask_pages(uint32_t q) { return mm_bits_low(mm_chunk_pages(q)); }
MM_FN uint64_t mm_chunk_mask_fresh(uint32_t q) { return MM_OURO_ENTRY == MM_OURO_CHUNKS ? ~0ull : mm_chunk_mask_pages(q); }

/* Chunks are numbered through the heap, masks, too: MM_OURO_MASKS for each chunk. */
MM_FN uint64_t *mm_chunk_header(const struct mm_heap_ref *ref, uint32_t chunk) {
    return mm_page_words(ref, chunk / MM_OURO_PAGE_CHUNKS) + 1 + chunk % MM_OURO_PAGE_CHUNKS * (1 + MM_OURO_MASKS);
}
MM_FN uint64_t *mm_chunk_mask(const struct mm_heap_ref *ref, uint32_t mask) { return mm_chunk_header(ref, mask / MM_OURO_MASKS) + 1 + mask % MM_OURO_MASKS; }
MM_FN uint64_t mm_chunk_address(const struct mm_heap_ref *ref, uint32_t mask, uint32_t bit, uint32_t q) {
    const uint32_t page = mask % MM_OURO_MASKS * 64 + bit;
    return ref->user_base + ((uint64_t)(mask / MM_OURO_MASKS) << MM_OURO_CHUNK_SHIFT) + (page << (MM_ALIGN_SHIFT + q));
}

/* The list's part (listed/list.h): a word is a chunk's header. Whether a segment was in the list before is in the directory, which is 0 at first; if it was,
 * queues may have entries for its chunks. */
#define MM_LISTED_WORDS MM_OURO_SEGMENT_CHUNKS
#define MM_LISTED_LEAST MM_OURO_LEAST
#define MM_LISTED_FULL_WARP MM_OURO_FULL_WARP
#define MM_LISTED_ROWS 1
MM_FN uint64_t *mm_listed_word(const struct mm_heap_ref *ref, uint32_t w) { return mm_chunk_header(ref, w); }
MM_FN uint32_t *mm_chunks_fresh(const struct mm_heap_ref *ref, uint64_t k) { return (uint32_t *)ref->directory + k; }
MM_FN uint8_t *mm_chunks_known(const struct mm_heap_ref *ref, uint32_t s) { return (uint8_t *)mm_chunks_fresh(ref, ref->user_bytes >> MM_SEGMENT_SHIFT) + s; }
#define MM_LISTED_SEGMENTS_MAX (1u << MM_OURO_LIST_SHIFT)

/* The words of made, all of them 0 at first: words of queue chunks (storage.h), from the first one on; cells (cells.h). What queues have before the first segment
 * enters is in the firsts (layout.h). */
#define MM_OURO_CELLS_AT (MM_OURO_QUEUES * 3 * (1u << MM_OURO_RING_SHIFT) / 2)
MM_STATIC_ASSERT(MM_OURO_CELLS_AT + MM_OURO_CELL_CLASSES * MM_OURO_CELLS / 2 <= MM_MADE_WORDS, "made has room");

#endif
