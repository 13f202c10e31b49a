/* Size classes: which slice serves a request, and how a class cuts its blocks. Pure arithmetic, no tables:
 * a table would be one more symbol in every device image.
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

/* Bytes of a block of the class, as a shift: MM_BLOCK_SLICES_SHIFT slices of the largest class of the same
 * doubling, at least a granule, at most a segment. */
MM_FN uint32_t mm_class_block_shift(uint32_t c) {
    const uint32_t shift = mm_class_shift(c) + 3 + MM_BLOCK_SLICES_SHIFT;
    return shift < MM_GRANULE_SHIFT ? MM_GRANULE_SHIFT : shift > MM_SEGMENT_SHIFT ? MM_SEGMENT_SHIFT : shift;
}
MM_FN uint32_t mm_class_block_granules(uint32_t c) { return 1u << (mm_class_block_shift(c) - MM_GRANULE_SHIFT); }

/* Slices of a block. */
MM_FN uint32_t mm_class_capacity(uint32_t c) {
    return mm_mulhi(1u << (mm_class_block_shift(c) - mm_class_shift(c)), mm_class_reciprocal(c));
}
/* Words of slice bits of a block. */
MM_FN uint32_t mm_class_words(uint32_t c) { return (mm_class_capacity(c) + 63) / 64; }

/* The blocks of a fresh segment: bit i stands for the block that begins at granule i. */
MM_FN uint64_t mm_class_segment_mask(uint32_t c) {
    const uint32_t granules = mm_class_block_granules(c);
    uint64_t mask = 1;
    for (uint32_t shift = 32; shift >= granules; shift >>= 1) mask |= mask << shift;
    return mask;
}

/* How many callers may fetch a segment for the class at the same time: everybody where a segment is a few blocks,
 * which the fetcher and its like will use up, down to one or two where it is many. */
MM_FN uint32_t mm_class_fetchers(uint32_t c) {
    const uint32_t granules = mm_class_block_granules(c);
    return granules >= MM_FETCH_FREELY_GRANULES ? MM_STRIPES : 1 + granules * MM_STRIPES / MM_SEGMENT_GRANULES;
}

#endif
