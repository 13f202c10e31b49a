/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Packed words, made and read here and nowhere else. */
#ifndef MM_CORE_HANDLES_H
#define MM_CORE_HANDLES_H

#include "runtime/core/class.h"

/* Owner of a page, one byte: nobody's; class + 1 of the block in which it is; MM_OWNER_SPAN + pages in the first page of a span,
 * MM_OWNER_SPAN_BODY in its others. */
#define MM_OWNER_NOBODY 0u
#define MM_OWNER_SPAN 128u
#define MM_OWNER_SPAN_BODY 255u
MM_FN int mm_owner_is_class(uint32_t owner) { return owner - 1 < MM_CLASS_COUNT; }
MM_FN int mm_owner_is_span(uint32_t owner) { return owner > MM_OWNER_SPAN && owner < MM_OWNER_SPAN_BODY; }
MM_FN uint32_t mm_owner_span_pages(uint32_t owner) { return owner - MM_OWNER_SPAN; }

/* A word: {generation : 32 | a bit for each slice that is free : 32}. A generation that is odd belongs to nobody. */
MM_FN uint64_t mm_word_make(uint32_t generation, uint32_t free) { return (uint64_t)generation << 32 | free; }
MM_FN uint32_t mm_word_generation(uint64_t word) { return (uint32_t)(word >> 32); }
MM_FN uint32_t mm_word_free(uint64_t word) { return (uint32_t)word; }
MM_FN int mm_word_is_dead(uint64_t word) { return (int)(word >> 32 & 1); }
/* The generation in which a block is made where `word` is; that in which it ends. Never 0, which no entry has. */
MM_FN uint32_t mm_generation_next(uint64_t word) {
    const uint32_t next = (mm_word_generation(word) | 1) + 1;
    return next ? next : 2;
}
MM_FN uint32_t mm_generation_end(uint32_t generation) { return generation | 1; }

/* An entry of a class's table: {generation : 32 | first page : 26 | class : 6}. 0: there is none. */
#define MM_ENTRY_NONE 0ull
#define MM_ENTRY_CLASS_BITS 6
MM_FN uint64_t mm_entry_make(uint32_t generation, uint32_t page, uint32_t c) {
    return (uint64_t)generation << 32 | page << MM_ENTRY_CLASS_BITS | c;
}
MM_FN uint32_t mm_entry_generation(uint64_t entry) { return (uint32_t)(entry >> 32); }
MM_FN uint32_t mm_entry_page(uint64_t entry) { return (uint32_t)entry >> MM_ENTRY_CLASS_BITS; }
MM_FN uint32_t mm_entry_class(uint64_t entry) { return (uint32_t)entry & ((1u << MM_ENTRY_CLASS_BITS) - 1); }
/* Whether it is a block of class c. */
MM_FN int mm_entry_is_of(uint64_t entry, uint32_t c) {
    return mm_entry_generation(entry) != 0 && mm_entry_class(entry) == c;
}

/* What a segment is: 0, nobody's, or its pages are given away one by one; first of a run of so many segments; another of a run. */
#define MM_RUN_NONE 0ull
#define MM_RUN_BODY 1ull
#define MM_RUN_LENGTH_SHIFT 8
MM_FN uint64_t mm_run_make(uint64_t segments) { return segments << MM_RUN_LENGTH_SHIFT; }
MM_FN uint64_t mm_run_segments(uint64_t run) { return run >> MM_RUN_LENGTH_SHIFT; }

/* What is asked of the host (grow.h): number << 32 | log2 of the alignment << 26 | segments. */
#define MM_WANTED_ALIGN_SHIFT 26
#define MM_WANTED_SEGMENTS(wanted) ((uint32_t)(wanted) & ((1u << MM_WANTED_ALIGN_SHIFT) - 1))
#define MM_WANTED_ALIGN(wanted) ((uint32_t)(wanted) >> MM_WANTED_ALIGN_SHIFT)
/* And what it answers: number << 42 | segments << 21 | first segment. */
#define MM_ANSWER_COUNT_SHIFT 21
#define MM_ANSWER_SEGMENTS (1u << MM_ANSWER_COUNT_SHIFT)
#define MM_ANSWER_NUMBER_SHIFT 42
#define MM_ANSWER_NUMBERS ((1u << (64 - MM_ANSWER_NUMBER_SHIFT)) - 2) /* 1 and so on: 0 is no request, all bits mean closed */
#define MM_ANSWER_CLOSED (~0ull)
static inline uint64_t mm_answer_make(uint64_t number, uint64_t first, uint64_t count) {
    return number << MM_ANSWER_NUMBER_SHIFT | count << MM_ANSWER_COUNT_SHIFT | first;
}

/* Which block of those that tickets are for has been made (gallatin/make.h): {its number + 1 : 32 | its entry's number + 1 : 32};
 * MM_MADE_NO_PAGES, MM_MADE_BUSY in its place: there were none; it is being made. */
MM_FN uint64_t mm_made_make(uint32_t number, uint32_t index) { return (uint64_t)(number + 1) << 32 | (uint32_t)(index + 1); }
MM_FN uint64_t mm_made_none(uint32_t number) { return (uint64_t)number << 32; } /* of the place for that one: it has not been made */
#define MM_MADE_NO_PAGES ~0u
#define MM_MADE_BUSY (~0u - 1)
MM_FN int mm_made_is_of(uint64_t made, uint32_t number) { return (uint32_t)(made >> 32) == number + 1; }
/* Blocks have so many slices. Numbers begin again at 0 when tickets do; so it is their first tickets that are compared. */
MM_FN int mm_made_is_later(uint64_t made, uint32_t number, uint32_t slices) {
    return (int32_t)(((uint32_t)(made >> 32) - (number + 1)) * slices) > 0;
}
MM_FN uint32_t mm_made_index(uint64_t made) { return (uint32_t)made - 1; }

/* What malloc's first part leaves for its second: an address, or MM_TOKEN and what is wanted: a class, or more bytes than a slice has.
 * MM_TOKEN_GROW: the ticket for a slice that is to be made. */
#define MM_TOKEN (1ull << 63)
#define MM_TOKEN_LARGE (3ull << 62)
#define MM_TOKEN_GROW (1ull << 61)
#define MM_TOKEN_TICKET_SHIFT 8
MM_FN uint64_t mm_token_grow(uint32_t c, uint32_t ticket) { return MM_TOKEN | MM_TOKEN_GROW | (uint64_t)ticket << MM_TOKEN_TICKET_SHIFT | c; }
MM_FN uint32_t mm_token_class(uint64_t token) { return (uint32_t)token & ((1u << MM_TOKEN_TICKET_SHIFT) - 1); }
MM_FN uint32_t mm_token_ticket(uint64_t token) { return (uint32_t)(token >> MM_TOKEN_TICKET_SHIFT); }
MM_FN uint64_t mm_token_large(uint64_t bytes) { return MM_TOKEN_LARGE | (bytes < ~MM_TOKEN_LARGE ? bytes : ~MM_TOKEN_LARGE); }

/* What a part of free leaves for the next: 0, nothing; or a kind and
 *   MM_DEFERRED_SLICE    a slice: class | number of its word | bit
 *   MM_DEFERRED_TWICE    the same, of the first slice of that word that was free already | how many were, - 1 | whether they were freed as one
 *   MM_DEFERRED_ODD      what is no slice: what is wrong, if that is known | its byte offset in the heap
 *   MM_DEFERRED_FOREIGN  what is not in the heap, or the heap is not open, or there is none: the address, see mm_deferred_foreign */
#define MM_DEFERRED_KIND_SHIFT 61
#define MM_DEFERRED_SLICE (1ull << MM_DEFERRED_KIND_SHIFT)
#define MM_DEFERRED_TWICE (2ull << MM_DEFERRED_KIND_SHIFT)
#define MM_DEFERRED_ODD (3ull << MM_DEFERRED_KIND_SHIFT)
#define MM_DEFERRED_FOREIGN (4ull << MM_DEFERRED_KIND_SHIFT)
#define MM_DEFERRED_MISUSE_SHIFT 48
#define MM_DEFERRED_CLASS_SHIFT 40
#define MM_DEFERRED_TIMES_SHIFT 46
#define MM_DEFERRED_AS_ONE (1ull << 51)
MM_FN uint64_t mm_deferred_kind(uint64_t left) { return left >> MM_DEFERRED_KIND_SHIFT << MM_DEFERRED_KIND_SHIFT; }
MM_FN uint64_t mm_deferred_slice(uint32_t c, uint32_t word, uint32_t bit) {
    return MM_DEFERRED_SLICE | (uint64_t)c << MM_DEFERRED_CLASS_SHIFT | (uint64_t)word << MM_WORD_SHIFT | bit;
}
MM_FN uint32_t mm_deferred_class(uint64_t left) { return (uint32_t)(left >> MM_DEFERRED_CLASS_SHIFT) & 63; }
MM_FN uint32_t mm_deferred_word(uint64_t left) { return (uint32_t)(left >> MM_WORD_SHIFT); }
MM_FN uint32_t mm_deferred_bit(uint64_t left) { return (uint32_t)left & ((1u << MM_WORD_SHIFT) - 1); }
/* Of the slices of a word that were freed as one, `freed`, those of `twice` were free. */
MM_FN uint64_t mm_deferred_twice(uint64_t left, uint32_t freed, uint32_t twice) {
    const uint64_t first = mm_deferred_slice(mm_deferred_class(left), mm_deferred_word(left), mm_ctz(twice)) ^ MM_DEFERRED_SLICE ^ MM_DEFERRED_TWICE;
    return first | (uint64_t)(mm_popcount(twice) - 1) << MM_DEFERRED_TIMES_SHIFT | (freed & (freed - 1) ? MM_DEFERRED_AS_ONE : 0);
}
MM_FN uint32_t mm_deferred_times(uint64_t left) { return ((uint32_t)(left >> MM_DEFERRED_TIMES_SHIFT) & 31) + 1; }
MM_FN uint64_t mm_deferred_odd(uint32_t misuse, uint64_t off) { return MM_DEFERRED_ODD | (uint64_t)misuse << MM_DEFERRED_MISUSE_SHIFT | off; }
MM_FN uint32_t mm_deferred_misuse(uint64_t left) { return (uint32_t)(left >> MM_DEFERRED_MISUSE_SHIFT) & 7; }
MM_FN uint64_t mm_deferred_offset(uint64_t left) { return left & ((1ull << MM_DEFERRED_MISUSE_SHIFT) - 1); }
/* An address in 63 bits. The highest bit goes to the place of bit MM_DEFERRED_SIGN, which is taken to be as the one above; where the two
 * differ, both become 1. So a pointer that differs from a good one in high bits only is never read back as the good one: no device's
 * addresses have these bits. */
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
