#!/bin/sh
# Writes mmconfig.h with tiny sizes: config.sh MMCONFIG BLOCK_SLICES_SHIFT. A segment of 64 KiB, granules of 1 KiB,
# so that blocks of a half, a quarter or all of a segment have one or two slices and one word of bits each.
set -eu
sed -e 's/^\(#define MM_SEGMENT_SHIFT\) .*/\1 16/' \
    -e 's/^\(#define MM_GRANULE_SHIFT\) .*/\1 10/' \
    -e "s/^\(#define MM_BLOCK_SLICES_SHIFT\) .*/\1 $2/" \
    -e 's/^\(#define MM_STRIPES_SHIFT\) .*/\1 1/' \
    -e 's/^\(#define MM_SPLIT_MAX\) .*/\1 2/' \
    -e 's/^\(#define MM_STEAL_POLLS\) .*/\1 2/' \
    -e 's/^\(#define MM_FETCH_POLLS\) .*/\1 2/' \
    -e 's/^\(#define MM_CLASS_COUNT\) .*/\1 40/' \
    -e 's/^#define MM_STATIC_ASSERT.*/#define MM_STATIC_ASSERT(cond, why) _Static_assert(1, why)/' "$1"
