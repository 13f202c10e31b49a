/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Room in front of an allocation, for machine code that stores there. nvcc 13 stores the number of elements of `new T[n]` 8 bytes in front of the address
 * that malloc returned. The C++ ABI has an array cookie there for classes with a destructor; for other classes no code reads it
 * (docs/explanation/array-counts.md). mm removes these stores from PTX. Finished machine code calls the functions here instead of malloc: they request
 * more memory, and return an address behind the room. CUDA's malloc also has 16 unused bytes in front of each allocation.
 *
 * Representation. start | ... | seal, 8 bytes | count, 8 bytes | p, the program's address. The seal encodes p and the size of the room. free needs it, since
 *   pointers with and without room come from all images of the process. It looks for a seal only if p is not the beginning of an allocation.
 * Invariants. The calling thread writes the seal before the program has p. The seal is a part of the allocation until that is freed.
 *   p and its seal are in one segment: a slice or a span does not cross segments, and the room in front of a run is smaller than a segment.
 * Stale. The memory of a freed allocation keeps its seal. A second free of p is reported as a double free of the start, or frees the memory's next
 *   allocation, as with every stale pointer.
 */
#ifndef MM_CHECKED_COOKIE_H
#define MM_CHECKED_COOKIE_H

#include "runtime/checked/closed.h"

#define MM_COOKIE_SHIFT 4 /* log2 of the room, and of the alignment */
#define MM_COOKIE_BYTES (1ull << MM_COOKIE_SHIFT)
#define MM_COOKIE_SHIFT_BITS 6
#define MM_COOKIE_MAGIC 0x9e3779b97f4a7c15ull /* an arbitrary odd number that programs hardly store: 2^64 divided by the golden ratio */

/* The bytes to request. At least one byte follows the room; otherwise p would be the beginning of the next allocation. */
MM_FN uint64_t mm_cookie_bytes(uint64_t bytes, uint32_t shift) {
    const uint64_t room = 1ull << shift, some = bytes ? bytes : 1;
    return some <= ~0ull - room ? some + room : ~0ull;
}

/* Log2 of the room for an alignment, a power of two. The room is as large as the alignment, at least MM_COOKIE_BYTES. */
MM_FN uint32_t mm_cookie_shift(uint64_t align) {
    const uint32_t shift = mm_ctz(align);
    return shift > MM_COOKIE_SHIFT ? shift : MM_COOKIE_SHIFT;
}

MM_FN uint64_t mm_cookie_seal(uint64_t p, uint32_t shift) { return (p << MM_COOKIE_SHIFT_BITS | shift) ^ MM_COOKIE_MAGIC; }

/* Reserves 1 << shift bytes at the start of an allocation, and writes the seal there. start: what malloc returned for mm_cookie_bytes, or NULL. Returns
 * the program's address, or NULL. */
MM_FN void *mm_cookie_put(void *start, uint32_t shift) {
    const uint64_t p = (uint64_t)start + (1ull << shift);
    if (start == NULL) return NULL;
    mm_store_relaxed_u64((uint64_t *)(p - MM_COOKIE_BYTES), mm_cookie_seal(p, shift));
    return (void *)p;
}

/* The start of the allocation for which mm_cookie_put returned p, or 0 if there is none. p: any address that is not the beginning of an allocation. */
MM_FN_RARE uint64_t mm_cookie_start(const struct mm_heap_ref *ref, uint64_t p) {
    const uint64_t off = p - ref->user_base;
    if (off >= mm_heap_reached(ref) || off % MM_SEGMENT_BYTES < MM_COOKIE_BYTES || p % MM_COOKIE_BYTES != 0) return 0;
    const uint32_t page = (uint32_t)((off - MM_COOKIE_BYTES) >> MM_PAGE_SHIFT), owner = mm_load_relaxed_u8(mm_page_owner(ref, page));
    if (owner == MM_OWNER_NOBODY && mm_load_relaxed_u64(&mm_segment_at(ref, page / MM_SEGMENT_PAGES)->run) == MM_RUN_NONE)
        return 0; /* the memory where the seal would be may not be mapped */
    const uint64_t seal = mm_load_relaxed_u64((uint64_t *)(p - MM_COOKIE_BYTES));
    const uint32_t shift = (uint32_t)(seal ^ MM_COOKIE_MAGIC) & ((1u << MM_COOKIE_SHIFT_BITS) - 1);
    if (seal != mm_cookie_seal(p, shift) || shift > MM_SLICE_SHIFT_MAX || 1ull << shift > off % MM_SEGMENT_BYTES) return 0;
    return p - (1ull << shift);
}

/* The start of the allocation of a deferred free, or 0. */
MM_FN_RARE uint64_t mm_cookie_start_of_deferred(const struct mm_heap_ref *ref, uint64_t left) {
    if (mm_deferred_kind(left) != MM_DEFERRED_ODD || (mm_deferred_misuse(left) != 0 && mm_deferred_misuse(left) != MM_MISUSE_INTERIOR)) return 0;
    return mm_cookie_start(ref, ref->user_base + mm_deferred_offset(left));
}

/* The same as mm_cookie_start for any address. If an allocation begins at p, returns 0: an old seal may lie in front of it. */
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

/* Second part of free (mm_heap_free_other, mm_closed_free), for addresses with or without room. */
MM_FN void mm_cookie_free_other(const struct mm_heap_ref *ref, uint64_t left) {
    if (ref->open_bytes) {
        left = mm_heap_release_far(ref, left);
        const uint64_t start = mm_cookie_start_of_deferred(ref, left);
        if (start) left = mm_heap_release_any(ref, (void *)start);
        if (left) mm_heap_free_other(ref, left);
    } else {
        const uint64_t p = mm_deferred_address(left), start = mm_cookie_start_of_any(ref, p);
        mm_closed_free(ref, (void *)(start ? start : p));
    }
}

#endif
