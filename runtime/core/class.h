/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Size classes: the slice size for a request, and how a class cuts its blocks. Pure arithmetic; the results are computed once for each heap (struct mm_class)
 * and stored in the heap variable of each device image.
 *
 * Classes 0 to 3 have 16, 32, 48 and 64 bytes; from there four per doubling: 80, 96, 112, 128, 160, ... Every slice size is unit << shift with
 * unit in 5..8, so a multiplication by the reciprocal of the unit, and a shift, divide by it.
 */
#ifndef MM_CORE_CLASS_H
#define MM_CORE_CLASS_H

#include "runtime/port.h"

/* The class for x + 1 bytes; x < MM_SLICE_BYTES_MAX. If x + 1 is a multiple of a power of two, the class's slice size is, too. */
MM_FN uint32_t mm_class_above(uint32_t x) {
    const uint32_t log = 31 - mm_clz_u32(x | 64); /* below 64 as in [64, 128): steps of 16 */
    return (log - 6) * 4 + (x >> (log - 2));
}
/* The class for `bytes` (0 counts as 1) whose slice size is a multiple of mask + 1, a power of two; bytes <= MM_SLICE_BYTES_MAX. */
MM_FN uint32_t mm_class_spaced(uint32_t bytes, uint32_t mask) { return mm_class_above((bytes ? bytes - 1 : 0) | mask); }
MM_FN uint32_t mm_class_of(uint32_t bytes) { return mm_class_spaced(bytes, 0); }

/* Slice size of a class as unit << shift, unit in 5..8. */
MM_FN uint32_t mm_class_shift(uint32_t c) {
    if (c >= 4) return (c >> 2) + 3;
    return c == 0 ? 1 : c == 1 ? 2 : 3;
}
MM_FN uint32_t mm_class_unit(uint32_t c) { return c >= 4 ? 5 + (c & 3) : c == 2 ? 6 : 8; }
MM_FN uint32_t mm_class_bytes(uint32_t c) {
    const uint32_t m = c >> 2 > 1 ? c >> 2 : 1; /* doublings; the first four classes go on in steps of the next four */
    return (c + 5 - 4 * m) << (m + 3);
}

/* ceil(2^32 / n). mm_mulhi(x, this) is floor(x / n) for n in 5..8 and x < 2^29: the error of the reciprocal is below 1/2^32 per unit of x, and x % n is at most
 * n - 1. */
MM_FN uint32_t mm_class_reciprocal(uint32_t n) { return n > 1 ? (uint32_t)(((1ull << 32) + n - 1) / n) : ~0u; }

/* Log2 of the pages of a block: as few as have 1 << MM_BLOCK_SLICES_SHIFT slices. */
MM_FN uint32_t mm_class_page_shift(uint32_t c) {
    uint32_t k = 0;
    while (MM_PAGE_BYTES << k < (uint64_t)mm_class_bytes(c) << MM_BLOCK_SLICES_SHIFT && MM_PAGE_BYTES << k < MM_SEGMENT_BYTES) k++;
    return k;
}
/* Slices of a block. */
MM_FN uint32_t mm_class_slices(uint32_t c) {
    return mm_mulhi((uint32_t)(MM_PAGE_BYTES << mm_class_page_shift(c)) >> mm_class_shift(c), mm_class_reciprocal(mm_class_unit(c)));
}

/* What malloc and free need to know of a class in a given heap, computed once. In constant memory. */
struct mm_class {
    uint32_t bytes, slices;                       /* of a slice; of a block */
    uint32_t reciprocal;                          /* of the unit */
    uint32_t slices_reciprocal;                   /* ceil(2^32 / slices) */
    uint8_t shift, page_shift, words, made_shift; /* words: of a block */
    uint32_t directory, directory_length;         /* the class's part of the directory of extents: begin and length (gallatin/table.h) */
    uint32_t made;                                /* the class's part of made: where it begins; it has 1 << made_shift words (gallatin/make.h) */
};
MM_STATIC_ASSERT(sizeof(struct mm_class) == 32, "found by a shift");

MM_FN uint32_t mm_at_most(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* slices: of a block, at most mm_class_slices(c). */
MM_FN struct mm_class mm_class_cut(uint32_t c, uint32_t slices) {
    struct mm_class k = {0};
    k.bytes = mm_class_bytes(c), k.slices = slices, k.reciprocal = mm_class_reciprocal(mm_class_unit(c)), k.slices_reciprocal = mm_class_reciprocal(slices);
    k.shift = (uint8_t)mm_class_shift(c), k.page_shift = (uint8_t)mm_class_page_shift(c);
    k.words = (uint8_t)((slices + (1u << MM_WORD_SHIFT) - 1) >> MM_WORD_SHIFT);
    const uint8_t most = MM_MADE_SHIFT - (k.bytes > 2 * MM_PAGE_BYTES); /* half as many of more than 32 KiB: words for 5 GB that are asked for at once */
    while (k.made_shift < most && slices << k.made_shift < MM_MADE_WORDS) k.made_shift++;
    return k;
}
MM_FN struct mm_class mm_class_make(uint32_t c) { return mm_class_cut(c, mm_class_slices(c)); }
/* The same class of a heap with other slices per block: its parts of the directory and of made stay. */
MM_FN struct mm_class mm_class_cut_again(struct mm_class was, uint32_t c, uint32_t slices) {
    struct mm_class k = mm_class_cut(c, slices);
    k.directory = was.directory, k.directory_length = was.directory_length;
    k.made = was.made, k.made_shift = was.made_shift;
    return k;
}

/* A class whose blocks have several pages has narrow blocks, too, of one page (gallatin/narrow.h). The shape of a block: its class; that of a narrow block lies
 * behind all classes. */
MM_FN int mm_class_has_narrow(uint32_t c) { return c - MM_NARROW_FIRST < MM_NARROW_END - MM_NARROW_FIRST; }
MM_FN uint32_t mm_shape_narrow(uint32_t c) { return c + (MM_CLASS_COUNT - MM_NARROW_FIRST); }
MM_FN uint32_t mm_shape_class(uint32_t shape) { return shape < MM_CLASS_COUNT ? shape : shape - (MM_CLASS_COUNT - MM_NARROW_FIRST); }
/* What malloc and free need to know of a shape. A narrow block has one word. */
MM_FN struct mm_class mm_shape_make(uint32_t shape) {
    const uint32_t c = mm_shape_class(shape);
    if (shape == c) return mm_class_make(c);
    struct mm_class k = mm_class_cut(c, (uint32_t)MM_PAGE_BYTES / mm_class_bytes(c));
    k.page_shift = 0;
    return k;
}

/* Number of the slice in which byte `in` of a block lies. */
MM_FN uint32_t mm_class_number(struct mm_class k, uint32_t in) { return mm_mulhi(in >> k.shift, k.reciprocal); }

/* A place is the number of a slice, counted block after block. Returns the number of its block; *slice: the slice in that block. */
MM_FN uint32_t mm_class_block_of(struct mm_class k, uint32_t place, uint32_t *slice) {
    uint32_t block = mm_mulhi(place, k.slices_reciprocal); /* or one more */
    *slice = place - block * k.slices;
    if ((int32_t)*slice < 0) block--, *slice += k.slices;
    return block;
}

/* The number of slices that word `word` of a block describes, and their bits. */
MM_FN uint32_t mm_class_word_slices(struct mm_class k, uint32_t word) { return mm_at_most(k.slices - (word << MM_WORD_SHIFT), 1u << MM_WORD_SHIFT); }
MM_FN uint32_t mm_class_word_mask(struct mm_class k, uint32_t word) { return (uint32_t)mm_bits_low(mm_class_word_slices(k, word)); }

#endif
