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

/* The class whose slices serve `bytes` (0 is served as 1); bytes <= MM_SLICE_BYTES_MAX. */
MM_FN uint32_t mm_class_of(uint32_t bytes) {
    const uint32_t x = bytes ? bytes - 1 : 0;
    if (x < 64) return x >> MM_ALIGN_SHIFT;
    const uint32_t log = 31 - mm_clz_u32(x); /* >= 6 */
    return (log - 5) * 4 + ((x >> (log - 2)) & 3);
}

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

/* How many of them there are at least, as a shift: a segment of few slices is less than one block. */
MM_FN uint32_t mm_class_block_fill_shift(uint32_t c) {
    const uint32_t all = 31 - mm_clz_u32(mm_class_slices(c)), block = mm_class_block_shift(c);
    return all < block ? all : block;
}

/* Blocks of a segment, and a bit for each. */
MM_FN uint32_t mm_class_blocks(uint32_t c) {
    return ((mm_class_slices(c) - 1) >> mm_class_block_shift(c)) + 1;
}
MM_FN uint64_t mm_class_blocks_mask(uint32_t c) { return mm_bits_low(mm_class_blocks(c)); }

/* Stripes of the class, and reserves: powers of two. Memory that they hold and do not use grows with the slice, and so
 * does what is in use when they are needed. hold_shift: of the heap (layout.h). */
MM_FN uint32_t mm_class_stripes(uint32_t c, uint32_t hold_shift) {
    const uint32_t block = 31 - mm_clz_u32(mm_class_bytes(c)) + mm_class_block_shift(c);
    const uint32_t most = MM_STRIPES_SHIFT - (mm_class_bytes(c) < MM_STRIPES_ALL_BYTES);
    const uint32_t may = hold_shift > block ? hold_shift - block : 0;
    return 1u << (may < most ? may : most);
}
MM_FN uint32_t mm_class_reserves(uint32_t c, uint32_t hold_shift) {
    const uint32_t some = mm_class_bytes(c) / MM_RESERVE_BYTES;
    const uint32_t most = some == 0 ? 0 : some >= MM_RESERVES ? MM_RESERVES_SHIFT : 31 - mm_clz_u32(some);
    const uint32_t may = hold_shift > MM_SEGMENT_SHIFT ? hold_shift - MM_SEGMENT_SHIFT : 0;
    return 1u << (may < most ? may : most);
}

/* Segments that a reserve may hold beyond what is waited for. */
MM_FN uint32_t mm_class_reserve_segments(uint32_t c, uint32_t hold_shift) {
    if (mm_class_bytes(c) < MM_RESERVE_AHEAD_BYTES || hold_shift < MM_SEGMENT_SHIFT) return 0;
    return hold_shift < MM_SEGMENT_SHIFT + 16 ? 1u << (hold_shift - MM_SEGMENT_SHIFT) : 1u << 16;
}

/* All that malloc and free want to know of a class in a given heap, worked out once: it lies in constant memory. */
struct mm_class {
    uint32_t bytes, slices, reciprocal;
    uint8_t shift, block_shift, blocks, stripe_mask;
};
MM_STATIC_ASSERT(sizeof(struct mm_class) == 16, "one access");
MM_STATIC_ASSERT(MM_STRIPES - 1 < 256 && MM_SEGMENT_BLOCKS_MAX < 256, "bytes will do");
MM_FN struct mm_class mm_class_make(uint32_t c, uint32_t hold_shift) {
    struct mm_class k;
    k.bytes = mm_class_bytes(c), k.slices = mm_class_slices(c), k.reciprocal = mm_class_reciprocal(c);
    k.shift = (uint8_t)mm_class_shift(c), k.block_shift = (uint8_t)mm_class_block_shift(c);
    k.blocks = (uint8_t)mm_class_blocks(c), k.stripe_mask = (uint8_t)(mm_class_stripes(c, hold_shift) - 1);
    return k;
}

/* Words of slice bits of block j. */
MM_FN uint32_t mm_class_block_words(struct mm_class k, uint32_t j) {
    const uint32_t left = k.slices - (j << k.block_shift), most = 1u << k.block_shift;
    return ((left < most ? left : most) + (1u << MM_WORD_SHIFT) - 1) >> MM_WORD_SHIFT;
}

/* The bits of word `word` of a segment that stand for a slice. */
MM_FN uint64_t mm_class_word_mask(struct mm_class k, uint32_t word) {
    const uint32_t left = k.slices - (word << MM_WORD_SHIFT);
    return mm_bits_low(left < 1u << MM_WORD_SHIFT ? left : 1u << MM_WORD_SHIFT);
}

#endif
