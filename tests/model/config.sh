#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Writes mmconfig.h with tiny sizes: config.sh MMCONFIG SLICES WORD VERSIONS TRIES RING. A segment of 64 KiB, so that a
# half, a quarter, an eighth of it are slices of their own class. Shifts: SLICES of a block, slices of a WORD of bits,
# VERSIONS, lots of a RING; and how often NULL is searched for (TRIES). Memory is always scarce: whole blocks are used
# before fresh segments. A lot's content is short, so that it shows whether lots begin again when tickets do. Lots ahead, and
# rows of segments, are what a scenario asks for (world_lots).
set -eu
sed -e 's/^\(#define MM_SEGMENT_SHIFT\) .*/\1 16/' \
    -e 's/^\(#define MM_BLOCK_BYTES_MIN_SHIFT\) .*/\1 10/' \
    -e 's/^\(#define MM_BLOCK_BYTES_MAX_SHIFT\) .*/\1 16/' \
    -e 's/^\(#define MM_STRIPES_SHIFT\) .*/\1 1/' \
    -e 's/^\(#define MM_AHEAD_MAX\) .*/\1 2/' \
    -e 's/^\(#define MM_RESERVE_ROW_SHIFT\) .*/\1 1/' \
    -e 's/^\(#define MM_HOLD_SHIFT\) .*/\1 -32/' \
    -e 's/^\(#define MM_HOLD_PART_SHIFT\) .*/\1 -32/' \
    -e 's/^\(#define MM_SCARCE\) .*/\1 1/' \
    -e 's/^\(#define MM_LOT_CONTENT_BITS\) .*/\1 32/' \
    -e 's/^\(#define MM_REUSE_TRIES\) .*/\1 2/' \
    -e "s/^\(#define MM_BLOCK_SLICES_SHIFT\) .*/\1 $2/" \
    -e "s/^\(#define MM_WORD_SHIFT\) .*/\1 $3/" \
    -e "s/^\(#define MM_VERSIONS_SHIFT\) .*/\1 $4/" \
    -e "s/^\(#define MM_NULL_TRIES\) .*/\1 $5/" \
    -e "s/^\(#define MM_RING_SHIFT\) .*/\1 $6/" \
    -e 's/^#define MM_STATIC_ASSERT.*/#define MM_STATIC_ASSERT(cond, why) _Static_assert(1, why)/' "$1"
