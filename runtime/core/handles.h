/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Packed words. Only this file makes and reads them. */
#ifndef MM_CORE_HANDLES_H
#define MM_CORE_HANDLES_H

#include "runtime/core/class.h"

/* Owner of a page, one byte: unowned; shape + 1 of the page's block; MM_OWNER_SPAN + pages for the first page of a span, MM_OWNER_SPAN_BODY for its
 * other pages. */
#define MM_OWNER_NOBODY 0u
#define MM_OWNER_SPAN 128u
#define MM_OWNER_SPAN_BODY 255u
MM_FN int mm_owner_is_block(uint32_t owner) { return owner - 1 < MM_SHAPES; }
MM_FN int mm_owner_is_span(uint32_t owner) { return owner > MM_OWNER_SPAN && owner < MM_OWNER_SPAN_BODY; }
MM_FN uint32_t mm_owner_span_pages(uint32_t owner) { return owner - MM_OWNER_SPAN; }

/* A word: {generation : 32 | one bit per slice, set if free : 32}. No block has an odd generation. */
MM_FN uint64_t mm_word_make(uint32_t generation, uint32_t free) { return (uint64_t)generation << 32 | free; }
MM_FN uint32_t mm_word_generation(uint64_t word) { return (uint32_t)(word >> 32); }
MM_FN uint32_t mm_word_free(uint64_t word) { return (uint32_t)word; }
MM_FN int mm_word_is_dead(uint64_t word) { return (int)(word >> 32 & 1); }
/* The generation of the next block at `word`; the generation that a block leaves when it is retired. Never 0, which no entry has. */
MM_FN uint32_t mm_generation_next(uint64_t word) {
    const uint32_t next = (mm_word_generation(word) | 1) + 1;
    return next ? next : 2;
}
MM_FN uint32_t mm_generation_end(uint32_t generation) { return generation | 1; }

/* An entry of a class's table: {generation : 32 | first page : 26 | shape : 6}. 0: empty. */
#define MM_ENTRY_NONE 0ull
#define MM_ENTRY_SHAPE_BITS 6
MM_FN uint64_t mm_entry_make(uint32_t generation, uint32_t page, uint32_t shape) { return (uint64_t)generation << 32 | page << MM_ENTRY_SHAPE_BITS | shape; }
MM_FN uint32_t mm_entry_generation(uint64_t entry) { return (uint32_t)(entry >> 32); }
MM_FN uint32_t mm_entry_page(uint64_t entry) { return (uint32_t)entry >> MM_ENTRY_SHAPE_BITS; }
MM_FN uint32_t mm_entry_shape(uint64_t entry) { return (uint32_t)entry & ((1u << MM_ENTRY_SHAPE_BITS) - 1); }
MM_FN uint32_t mm_entry_class(uint64_t entry) { return mm_shape_class(mm_entry_shape(entry)); }
/* Whether the entry names a block of this shape; whether an entry of the table of class c names a block that has word w: a narrow one has one word. */
MM_FN int mm_entry_is_of(uint64_t entry, uint32_t shape) { return mm_entry_generation(entry) != 0 && mm_entry_shape(entry) == shape; }
MM_FN int mm_entry_has(uint64_t entry, uint32_t c, uint32_t w) { return mm_entry_generation(entry) != 0 && (w == 0 || mm_entry_shape(entry) == c); }

/* State of a segment: 0 if it is unowned or used page by page; the first segment of a run of so many; another segment of a run. */
#define MM_RUN_NONE 0ull
#define MM_RUN_BODY 1ull
#define MM_RUN_LENGTH_SHIFT 8
MM_FN uint64_t mm_run_make(uint64_t segments) { return segments << MM_RUN_LENGTH_SHIFT; }
MM_FN uint64_t mm_run_segments(uint64_t run) { return run >> MM_RUN_LENGTH_SHIFT; }

/* A request to the host (grow.h): number << 32 | log2 of the alignment << 26 | segments. */
#define MM_WANTED_ALIGN_SHIFT 26
#define MM_WANTED_SEGMENTS(wanted) ((uint32_t)(wanted) & ((1u << MM_WANTED_ALIGN_SHIFT) - 1))
#define MM_WANTED_ALIGN(wanted) ((uint32_t)(wanted) >> MM_WANTED_ALIGN_SHIFT)
/* The host's answer: number << 42 | segments << 21 | first segment. */
#define MM_ANSWER_COUNT_SHIFT 21
#define MM_ANSWER_SEGMENTS (1u << MM_ANSWER_COUNT_SHIFT)
#define MM_ANSWER_NUMBER_SHIFT 42
#define MM_ANSWER_NUMBERS ((1u << (64 - MM_ANSWER_NUMBER_SHIFT)) - 2) /* 1 and so on: 0 is no request, all bits mean closed */
#define MM_ANSWER_CLOSED (~0ull)
static inline uint64_t mm_answer_make(uint64_t number, uint64_t first, uint64_t count) {
    return number << MM_ANSWER_NUMBER_SHIFT | count << MM_ANSWER_COUNT_SHIFT | first;
}

/* A block for which tickets exist, and where it is (gallatin/make.h): {number of the block + 1 : 32 | index of its entry + 1 : 32}. Instead of the index:
 * MM_MADE_NO_PAGES (there were no pages), MM_MADE_BUSY (it is being made). */
MM_FN uint64_t mm_made_make(uint32_t number, uint32_t index) { return (uint64_t)(number + 1) << 32 | (uint32_t)(index + 1); }
MM_FN uint64_t mm_made_none(uint32_t number) { return (uint64_t)number << 32; } /* the word before that block is made */
#define MM_MADE_NO_PAGES ~0u
#define MM_MADE_BUSY (~0u - 1)
MM_FN int mm_made_is_of(uint64_t made, uint32_t number) { return (uint32_t)(made >> 32) == number + 1; }
/* slices: of a block. Tickets, and so numbers, wrap around; therefore first tickets are compared, as signed differences. */
MM_FN int mm_made_is_later(uint64_t made, uint32_t number, uint32_t slices) { return (int32_t)(((uint32_t)(made >> 32) - (number + 1)) * slices) > 0; }
MM_FN uint32_t mm_made_index(uint64_t made) { return (uint32_t)made - 1; }

/* The result of malloc's first part: an address, or MM_TOKEN with the request: a size class, or a number of bytes larger than a slice.
 * MM_TOKEN_GROW: with the ticket for a slice that is to be made. */
#define MM_TOKEN (1ull << 63)
#define MM_TOKEN_LARGE (3ull << 62)
#define MM_TOKEN_GROW (1ull << 61)
#define MM_TOKEN_TICKET_SHIFT 8
MM_FN uint64_t mm_token_grow(uint32_t c, uint32_t ticket) { return MM_TOKEN | MM_TOKEN_GROW | (uint64_t)ticket << MM_TOKEN_TICKET_SHIFT | c; }
MM_FN uint32_t mm_token_class(uint64_t token) { return (uint32_t)token & ((1u << MM_TOKEN_TICKET_SHIFT) - 1); }
MM_FN uint32_t mm_token_ticket(uint64_t token) { return (uint32_t)(token >> MM_TOKEN_TICKET_SHIFT); }
MM_FN uint64_t mm_token_large(uint64_t bytes) { return MM_TOKEN_LARGE | (bytes < ~MM_TOKEN_LARGE ? bytes : ~MM_TOKEN_LARGE); }

/* The work that a part of free defers to the next part: 0 for none, or a kind and
 *   MM_DEFERRED_SLICE    a slice: shape | number of its word | bit
 *   MM_DEFERRED_TWICE    the same for the first slice of the word that was free already | their number - 1 | whether a group freed them together
 *   MM_DEFERRED_ODD      not a slice: kind of misuse, if known | byte offset in the heap
 *   MM_DEFERRED_FOREIGN  not in the heap, or the heap is closed or absent: the address, see mm_deferred_foreign */
#define MM_DEFERRED_KIND_SHIFT 61
#define MM_DEFERRED_SLICE (1ull << MM_DEFERRED_KIND_SHIFT)
#define MM_DEFERRED_TWICE (2ull << MM_DEFERRED_KIND_SHIFT)
#define MM_DEFERRED_ODD (3ull << MM_DEFERRED_KIND_SHIFT)
#define MM_DEFERRED_FOREIGN (4ull << MM_DEFERRED_KIND_SHIFT)
#define MM_DEFERRED_MISUSE_SHIFT 48
#define MM_DEFERRED_SHAPE_SHIFT 40
#define MM_DEFERRED_TIMES_SHIFT 46
#define MM_DEFERRED_AS_ONE (1ull << 51)
MM_FN uint64_t mm_deferred_kind(uint64_t left) { return left >> MM_DEFERRED_KIND_SHIFT << MM_DEFERRED_KIND_SHIFT; }
MM_FN uint64_t mm_deferred_slice(uint32_t shape, uint32_t word, uint32_t bit) {
    return MM_DEFERRED_SLICE | (uint64_t)shape << MM_DEFERRED_SHAPE_SHIFT | (uint64_t)word << MM_WORD_SHIFT | bit;
}
MM_FN uint32_t mm_deferred_shape(uint64_t left) { return (uint32_t)(left >> MM_DEFERRED_SHAPE_SHIFT) & 63; }
MM_FN uint32_t mm_deferred_word(uint64_t left) { return (uint32_t)(left >> MM_WORD_SHIFT); }
MM_FN uint32_t mm_deferred_bit(uint64_t left) { return (uint32_t)left & ((1u << MM_WORD_SHIFT) - 1); }
/* A group freed the slices `freed` of a word; those of `twice` were free already. */
MM_FN uint64_t mm_deferred_twice(uint64_t left, uint32_t freed, uint32_t twice) {
    const uint64_t first = mm_deferred_slice(mm_deferred_shape(left), mm_deferred_word(left), mm_ctz(twice)) ^ MM_DEFERRED_SLICE ^ MM_DEFERRED_TWICE;
    return first | (uint64_t)(mm_popcount(twice) - 1) << MM_DEFERRED_TIMES_SHIFT | (freed & (freed - 1) ? MM_DEFERRED_AS_ONE : 0);
}
MM_FN uint32_t mm_deferred_times(uint64_t left) { return ((uint32_t)(left >> MM_DEFERRED_TIMES_SHIFT) & 31) + 1; }
MM_FN uint64_t mm_deferred_odd(uint32_t misuse, uint64_t off) { return MM_DEFERRED_ODD | (uint64_t)misuse << MM_DEFERRED_MISUSE_SHIFT | off; }
MM_FN uint32_t mm_deferred_misuse(uint64_t left) { return (uint32_t)(left >> MM_DEFERRED_MISUSE_SHIFT) & 7; }
MM_FN uint64_t mm_deferred_offset(uint64_t left) { return left & ((1ull << MM_DEFERRED_MISUSE_SHIFT) - 1); }
/* An address in 63 bits. Its highest bit replaces bit MM_DEFERRED_SIGN, which is assumed to equal the bit above it; where these two differ, both become 1.
 * So a pointer that differs from a valid one in high bits only is never read back as the valid one: no device address has these bits set. */
#define MM_DEFERRED_SIGN 57
#define MM_DEFERRED_SIGN_BIT (1ull << MM_DEFERRED_SIGN)
MM_FN uint64_t mm_deferred_foreign(uint64_t p) {
    p |= ((p >> 1 ^ p) & MM_DEFERRED_SIGN_BIT) << 1;
    return MM_DEFERRED_FOREIGN | (p & ~MM_DEFERRED_SIGN_BIT) | (p >> 63) << MM_DEFERRED_SIGN;
}
MM_FN uint64_t mm_deferred_address(uint64_t left) {
    return (left & ~(MM_DEFERRED_FOREIGN | MM_DEFERRED_SIGN_BIT)) | (left >> 1 & MM_DEFERRED_SIGN_BIT) | left >> MM_DEFERRED_SIGN << 63;
}

#endif
