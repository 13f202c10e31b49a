/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Size classes: which slice serves a request, and how a class cuts its blocks. Arithmetic; what comes of it is worked out once
 * for each heap (struct mm_class) and lies in the variable that each device image has anyway.
 *
 * Classes 0..3 are 16, 32, 48, 64 bytes; from there four per doubling: 80, 96, 112, 128, 160, ... to half a
 * segment. Every slice size is unit << shift with unit in 5..8, so that one small table of reciprocals in
 * the code divides by all of them.
 */
#ifndef MM_CORE_CLASS_H
#define MM_CORE_CLASS_H

#include "runtime/port.h"

/* The class whose slices have more than x bytes, x < MM_SLICE_BYTES_MAX. If x + 1 is a multiple of a power of two, so are they. */
MM_FN uint32_t mm_class_above(uint32_t x) {
    if (x < 64) return x >> MM_ALIGN_SHIFT;
    const uint32_t log = 31 - mm_clz_u32(x); /* >= 6 */
    return (log - 5) * 4 + ((x >> (log - 2)) & 3);
}
/* The class whose slices serve `bytes` (0 is served as 1) and are multiples of mask + 1, a power of two; bytes <= MM_SLICE_BYTES_MAX. */
MM_FN uint32_t mm_class_spaced(uint32_t bytes, uint32_t mask) { return mm_class_above((bytes ? bytes - 1 : 0) | mask); }
MM_FN uint32_t mm_class_of(uint32_t bytes) { return mm_class_spaced(bytes, 0); }

/* Slice size of a class as unit << shift, unit in 5..8. */
MM_FN uint32_t mm_class_shift(uint32_t c) {
    if (c >= 4) return (c >> 2) + 3;
    return c == 0 ? 1 : c == 1 ? 2 : 3;
}
MM_FN uint32_t mm_class_unit(uint32_t c) { return c >= 4 ? 5 + (c & 3) : c == 2 ? 6 : 8; }
MM_FN uint32_t mm_class_bytes(uint32_t c) { return mm_class_unit(c) << mm_class_shift(c); }

/* ceil(2^32 / unit). mm_mulhi(x, this) is floor(x / unit) for x < 2^29: the error of the reciprocal is
 * below 1/2^32 per unit of x, and x % unit is at most unit - 1. */
MM_FN uint32_t mm_class_reciprocal(uint32_t c) {
    const uint32_t unit = mm_class_unit(c);
    return unit == 5 ? 0x33333334u : unit == 6 ? 0x2aaaaaabu : unit == 7 ? 0x24924925u : 0x20000000u;
}

/* Slices of a segment. */
MM_FN uint32_t mm_class_slices(uint32_t c) {
    return mm_mulhi((uint32_t)MM_SEGMENT_BYTES >> mm_class_shift(c), mm_class_reciprocal(c));
}

/* Slices of a block, as a shift (mmconfig.h). Slice i belongs to block i >> this; the last block of a segment may be
 * shorter. */
MM_FN uint32_t mm_class_block_shift(uint32_t c) {
    const uint32_t log = 31 - mm_clz_u32(mm_class_bytes(c));
    const uint32_t small = MM_BLOCK_BYTES_MIN_SHIFT > log + MM_BLOCK_SLICES_SHIFT ? MM_BLOCK_BYTES_MIN_SHIFT - log : MM_BLOCK_SLICES_SHIFT;
    const uint32_t large = MM_BLOCK_BYTES_MAX_SHIFT > log + MM_WORD_SHIFT ? MM_BLOCK_BYTES_MAX_SHIFT - log : MM_WORD_SHIFT;
    return small < large ? small : large;
}

/* Blocks of a segment, and a bit for each. */
MM_FN uint32_t mm_class_blocks(uint32_t c) {
    return ((mm_class_slices(c) - 1) >> mm_class_block_shift(c)) + 1;
}
MM_FN uint64_t mm_class_blocks_mask(uint32_t c) { return mm_bits_low(mm_class_blocks(c)); }

/* All that malloc and free want to know of a class in a given heap, worked out once: it lies in constant memory. */
struct mm_class {
    uint32_t bytes, slices, reciprocal;
    uint8_t shift, block_shift, blocks, stripe_mask;
    uint8_t lot_shift;   /* tickets of a lot of a stripe: one block */
    uint8_t ahead;       /* lots of a stripe that are ready ahead of need */
    uint8_t row_shift;   /* segments of a lot of the reserve */
    uint8_t row_lot_shift;   /* tickets of it */
    uint8_t reserve_ahead;
    uint8_t spare[5];
    uint16_t row_reciprocal; /* ceil(2^MM_ROW_RECIPROCAL_SHIFT / blocks): divides places of a reserve's lot by blocks */
    uint32_t short_slices; /* of the last block of a segment, if it has fewer than the lot has tickets; else 0 */
};
MM_STATIC_ASSERT(sizeof(struct mm_class) == 32, "found by a shift");
MM_STATIC_ASSERT(MM_STRIPES - 1 < 256 && MM_SEGMENT_BLOCKS_MAX < 256, "bytes will do");

#define MM_ROW_RECIPROCAL_SHIFT 15 /* exact: the reciprocal is too large by less than 1, and places * blocks are below 2^15 */
MM_STATIC_ASSERT(MM_SEGMENT_BLOCKS_MAX * MM_SEGMENT_BLOCKS_MAX < 1u << MM_ROW_RECIPROCAL_SHIFT,
                 "a lot has as many tickets as a segment blocks, at most");

MM_FN uint32_t mm_class_at_most(uint32_t a, uint32_t b) { return a < b ? a : b; }
/* log2 of n, which is not 0, rounded up. */
MM_FN uint32_t mm_class_log_up(uint32_t n) { return n == 1 ? 0 : 32 - mm_clz_u32(n - 1); }

/* Slices of block j. */
MM_FN uint32_t mm_class_block_slices(struct mm_class k, uint32_t j) {
    return mm_class_at_most(k.slices - (j << k.block_shift), 1u << k.block_shift);
}

/* Stripes and reserves, and what is made ready for them ahead of need, are as many as hold_shift (of the heap, layout.h) allows:
 * memory that they hold and do not use grows with the slice. slices: of a segment, mm_class_slices(c) or some less. */
MM_FN struct mm_class mm_class_cut(uint32_t c, uint32_t hold_shift, uint32_t slices) {
    struct mm_class k = {0};
    k.bytes = mm_class_bytes(c), k.slices = slices, k.reciprocal = mm_class_reciprocal(c);
    k.shift = (uint8_t)mm_class_shift(c), k.block_shift = (uint8_t)mm_class_block_shift(c);
    k.blocks = (uint8_t)(((slices - 1) >> k.block_shift) + 1);
    k.lot_shift = (uint8_t)mm_class_at_most(k.block_shift, mm_class_log_up(k.slices));
    const uint32_t last = mm_class_block_slices(k, k.blocks - 1u);
    k.short_slices = last < 1u << k.lot_shift ? last : 0;
    const uint32_t block = mm_class_at_most(31 - mm_clz_u32(k.bytes) + k.block_shift, MM_SEGMENT_SHIFT);
    const uint32_t hold = hold_shift > block ? hold_shift - block : 0; /* so many blocks */
    const uint32_t stripes = mm_class_at_most(MM_STRIPES_SHIFT, hold - (hold > 0));
    k.stripe_mask = (uint8_t)((1u << stripes) - 1);
    /* the more slices a block has, the fewer are ahead */
    const uint32_t many = k.block_shift > MM_BLOCK_SLICES_SHIFT ? k.block_shift - MM_BLOCK_SLICES_SHIFT : 0;
    const uint32_t each = hold < stripes + 2 ? hold - stripes : 1u << mm_class_at_most(hold - stripes - 2, 16);
    k.ahead = (uint8_t)mm_class_at_most(MM_AHEAD_MAX >> many, each);
    const uint32_t segments = hold_shift > MM_SEGMENT_SHIFT + 1 ? hold_shift - MM_SEGMENT_SHIFT - 1 : 0;
    const uint32_t blocks = mm_class_log_up(k.blocks), room = mm_class_log_up(MM_SEGMENT_BLOCKS_MAX) - blocks;
    const uint32_t row = mm_class_at_most(mm_class_at_most(room, MM_RESERVE_ROW_SHIFT), segments - (segments > 0));
    const uint32_t spare = mm_class_at_most(segments - row, 16);
    k.reserve_ahead = (uint8_t)mm_class_at_most(MM_RESERVE_AHEAD >> many, (1u << spare) - 1);
    k.row_shift = (uint8_t)row;
    k.row_lot_shift = (uint8_t)(k.row_shift + blocks);
    k.row_reciprocal = (uint16_t)(((1u << MM_ROW_RECIPROCAL_SHIFT) - 1) / k.blocks + 1);
    return k;
}
MM_FN struct mm_class mm_class_make(uint32_t c, uint32_t hold_shift) { return mm_class_cut(c, hold_shift, mm_class_slices(c)); }

/* Number of the slice in which byte `in` of a segment lies. */
MM_FN uint32_t mm_class_number(struct mm_class k, uint32_t in) { return mm_mulhi(in >> k.shift, k.reciprocal); }

/* Words of slice bits of block j. */
MM_FN uint32_t mm_class_block_words(struct mm_class k, uint32_t j) {
    return (mm_class_block_slices(k, j) + (1u << MM_WORD_SHIFT) - 1) >> MM_WORD_SHIFT;
}

/* How many bits of word `word` of a segment stand for a slice; those bits. */
MM_FN uint32_t mm_class_word_slices(struct mm_class k, uint32_t word) {
    return mm_class_at_most(k.slices - (word << MM_WORD_SHIFT), 1u << MM_WORD_SHIFT);
}
MM_FN uint64_t mm_class_word_mask(struct mm_class k, uint32_t word) { return mm_bits_low(mm_class_word_slices(k, word)); }

#endif
