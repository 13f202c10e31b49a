/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Room in front of an allocation, for machine code that stores there. nvcc 13 writes the number of elements of `new T[n]` 8 bytes in front
 * of what malloc returned, where the C++ ABI has an array cookie for classes with a destructor, and nobody reads it
 * (docs/explanation/array-counts.md). A text can be mended; finished machine code gets, instead of malloc, the functions here, which ask malloc
 * for more and return an address behind the room, as CUDA's own malloc has 16 bytes of its own in front of each allocation.
 *
 * Layout: start | ... | seal, 8 bytes | count, 8 bytes | p, what the program gets. The seal says p, and how far the start is: free gets
 * such pointers from all images of the process. It looks for a seal only if p is not the beginning of an allocation.
 * Both are in one segment: a slice or a span does not cross segments, and a room in front of a run is smaller than one.
 * Invariants. The seal is written before the program has p, by malloc's caller, and is a part of the allocation until that is freed.
 * Stale. The memory of a freed allocation keeps its seal: a second free of p is told as a double free of the start, or frees what has got that
 *   memory since, as every stale pointer does.
 */
#ifndef MM_CHECKED_COOKIE_H
#define MM_CHECKED_COOKIE_H

#include "runtime/checked/closed.h"

#define MM_COOKIE_SHIFT 4 /* log2 of the room, and of the alignment */
#define MM_COOKIE_BYTES (1ull << MM_COOKIE_SHIFT)
#define MM_COOKIE_SHIFT_BITS 6
#define MM_COOKIE_MAGIC 0x9e3779b97f4a7c15ull /* any odd number of which nobody thinks: 2^64 over the golden ratio */

/* What to ask for. Behind the room is one byte at least, or p would be the beginning of the next allocation. */
MM_FN uint64_t mm_cookie_bytes(uint64_t bytes, uint32_t shift) {
    const uint64_t room = 1ull << shift, some = bytes ? bytes : 1;
    return some <= ~0ull - room ? some + room : ~0ull;
}

/* The room for an alignment, a power of two: as large as that. */
MM_FN uint32_t mm_cookie_shift(uint64_t align) {
    const uint32_t shift = mm_ctz(align);
    return shift > MM_COOKIE_SHIFT ? shift : MM_COOKIE_SHIFT;
}

MM_FN uint64_t mm_cookie_seal(uint64_t p, uint32_t shift) { return (p << MM_COOKIE_SHIFT_BITS | shift) ^ MM_COOKIE_MAGIC; }

/* Leaves 1 << shift bytes at the start of an allocation, and seals them. start: NULL, or what malloc gave for mm_cookie_bytes. Returns NULL,
 * or what the program gets. */
MM_FN void *mm_cookie_put(void *start, uint32_t shift) {
    const uint64_t p = (uint64_t)start + (1ull << shift);
    if (start == NULL) return NULL;
    mm_store_relaxed_u64((uint64_t *)(p - MM_COOKIE_BYTES), mm_cookie_seal(p, shift));
    return (void *)p;
}

/* Where the allocation begins of which mm_cookie_put returned p; 0 if there is none. p: any address that is not the beginning of an allocation. */
MM_FN_RARE uint64_t mm_cookie_start(const struct mm_heap_ref *ref, uint64_t p) {
    const uint64_t off = p - ref->user_base;
    if (off >= ref->user_bytes || off % MM_SEGMENT_BYTES < MM_COOKIE_BYTES || p % MM_COOKIE_BYTES != 0) return 0;
    const uint32_t page = (uint32_t)((off - MM_COOKIE_BYTES) >> MM_PAGE_SHIFT), owner = mm_load_relaxed_u8(mm_page_owner(ref, page));
    if (owner == MM_OWNER_NOBODY && mm_load_relaxed_u64(&mm_segment_at(ref, page / MM_SEGMENT_PAGES)->run) == MM_RUN_NONE)
        return 0; /* nothing may be mapped where the seal would be */
    const uint64_t seal = mm_load_relaxed_u64((uint64_t *)(p - MM_COOKIE_BYTES));
    const uint32_t shift = (uint32_t)(seal ^ MM_COOKIE_MAGIC) & ((1u << MM_COOKIE_SHIFT_BITS) - 1);
    if (seal != mm_cookie_seal(p, shift) || shift > MM_SLICE_SHIFT_MAX || 1ull << shift > off % MM_SEGMENT_BYTES) return 0;
    return p - (1ull << shift);
}

/* What free has left of p: the start of its allocation, or 0. */
MM_FN_RARE uint64_t mm_cookie_start_of_deferred(const struct mm_heap_ref *ref, uint64_t left) {
    if (mm_deferred_kind(left) != MM_DEFERRED_ODD || (mm_deferred_misuse(left) != 0 && mm_deferred_misuse(left) != MM_MISUSE_INTERIOR)) return 0;
    return mm_cookie_start(ref, ref->user_base + mm_deferred_offset(left));
}

/* The same of what may be the beginning of an allocation: memory in front of that may hold an old seal. */
MM_FN_RARE uint64_t mm_cookie_start_of_any(const struct mm_heap_ref *ref, uint64_t p) {
    const uint64_t start = mm_cookie_start(ref, p);
    return start && mm_closed_usable_size(ref, (const void *)p) == 0 ? start : 0;
}

/* See mm_heap_usable_size. */
MM_FN_RARE uint64_t mm_cookie_usable_size(const struct mm_heap_ref *ref, const void *p) {
    const uint64_t start = mm_cookie_start_of_any(ref, (uint64_t)p), front = start ? (uint64_t)p - start : 0;
    const uint64_t bytes = mm_closed_usable_size(ref, (const void *)((uint64_t)p - front));
    return bytes > front ? bytes - front : 0;
}

/* The rest of a free (mm_heap_free_other, mm_closed_free), of what either malloc gave. */
MM_FN void mm_cookie_free_other(const struct mm_heap_ref *ref, uint64_t left) {
    if (ref->open_bytes) {
        const uint64_t start = mm_cookie_start_of_deferred(ref, left);
        if (start) left = mm_heap_release(ref, (void *)start);
        if (left) mm_heap_free_other(ref, left);
    } else {
        const uint64_t p = mm_deferred_address(left), start = mm_cookie_start_of_any(ref, p);
        mm_closed_free(ref, (void *)(start ? start : p));
    }
}

#endif
