#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Writes mmconfig.h with tiny sizes: config.sh MMCONFIG CURSORS ITERATIONS MAKERS [PAGE MADE STORE EXTENT SHORT]. PAGE: log2 of a page, by default 10: a page
# of 1 KiB, that is 64 slices of 16 bytes and two words; a segment of 64 pages; slices of 256 bytes at most, so that anything larger is a span.
# CURSORS: slices of a class for each cursor (a shift); ITERATIONS: looks of a waiting loop; MAKERS: pages of a class for each maker of blocks after the first.
# MADE: log2 of the blocks whose places are remembered, by default 1, in each class, and a waiter for one looks twice, without pauses, which would only add steps. STORE: log2 of the
# slots of a queue chunk of Ouroboros. EXTENT: log2 of the entries of an extent, by default 1; Ouroboros has its first queue chunks, or slots, where
# the first extents are. SHORT: looks of a caller of Ouroboros while nobody cuts a chunk, by default none. A scenario sets how many slices a block has (world_cut).
set -eu
sed -e 's/^\(#define MM_PAGE_SHIFT\) .*/\1 '"${5:-10}/" \
    -e 's/^\(#define MM_SEGMENT_SHIFT\) .*/\1 '"$((${5:-10} + 6))/" \
    -e 's/^\(#define MM_SLICE_SHIFT_MAX\) .*/\1 8/' \
    -e 's/^\(#define MM_EXTENT_SHIFT\) .*/\1 '"${8:-1}/" \
    -e 's/^\(#define MM_SAMPLE_ROUNDS\) .*/\1 2/' \
    -e 's/^\(#define MM_SAMPLE_POOR\) .*/\1 2/' \
    -e 's/^\(#define MM_OPEN_POLLS\) .*/\1 2/' \
    -e 's/^\(#define MM_RUN_AT_ONCE\) .*/\1 1/' \
    -e 's/^\(#define MM_MADE_SHIFT\) .*/\1 '"${6:-1}/" \
    -e 's/^\(#define MM_MADE_WORDS\) .*/\1 (1024u << MM_MADE_SHIFT)/' \
    -e 's/^\(#define MM_MAKE_LOOKS\) .*/\1 1/' \
    -e 's/^\(#define MM_MAKE_PAUSE\) .*/\1 0/' \
    -e 's/^\(#define MM_OURO_PAUSE\) .*/\1 0/' \
    -e 's/^\(#define MM_MAKE_POLLS\) .*/\1 2/' \
    -e 's/^\(#define MM_TICKET_LOOKS\) .*/\1 1/' \
    -e 's/^\(#define MM_RETIRE_SEGMENTS\) .*/\1 2/' \
    -e 's/^\(#define MM_RETIRE_AT_ONCE\) .*/\1 2/' \
    -e 's/^\(#define MM_SWEEP_BLOCKS\) .*/\1 1/' \
    -e 's/^\(#define MM_ENTRY_LOOKS\) .*/\1 2/' \
    -e 's/^\(#define MM_WAIT_PAUSE\) .*/\1 1/' \
    -e 's/^\(#define MM_NULL_TRIES\) .*/\1 2/' \
    -e 's/^\(#define MM_WALK_UNIT_SHIFT\) .*/\1 5/' \
    -e 's/^\(#define MM_WALK_PROBES\) .*/\1 2/' \
    -e 's/^\(#define MM_WALK_FULL_PROBES\) .*/\1 3/' \
    -e 's/^\(#define MM_WALK_UNIT_PROBES\) .*/\1 2/' \
    -e 's/^\(#define MM_WALK_WINDOW\) .*/\1 2/' \
    -e 's/^\(#define MM_RING_UNIT_SHIFT\) .*/\1 6/' \
    -e 's/^\(#define MM_RING_UNITS_MAX\) .*/\1 60u/' \
    -e 's/^\(#define MM_RING_HOPS\) .*/\1 3/' \
    -e 's/^\(#define MM_RING_PATIENCE\) .*/\1 2/' \
    -e 's/^\(#define MM_OURO_CHUNK_SHIFT\) .*/\1 11/' \
    -e 's/^\(#define MM_OURO_STORE_SHIFT\) .*/\1 '"${7:-6}/" \
    -e 's/^\(#define MM_OURO_RING_SHIFT\) .*/\1 3/' \
    -e 's/^\(#define MM_OURO_STACKS\) .*/\1 2/' \
    -e 's/^\(#define MM_OURO_CELLS\) .*/\1 2u/' \
    -e 's/^\(#define MM_OURO_CELL_LOOKS\) .*/\1 2/' \
    -e 's/^\(#define MM_OURO_CELL_TRIES\) .*/\1 1/' \
    -e 's/^\(#define MM_OURO_LIST_SHIFT\) .*/\1 4/' \
    -e 's/^\(#define MM_OURO_LOOKS\) .*/\1 2/' \
    -e 's/^\(#define MM_OURO_AGAIN\) .*/\1 2/' \
    -e 's/^\(#define MM_OURO_SHORT_LOOKS\) .*/\1 '"${9:-0}/" \
    -e 's/^\(#define MM_OURO_LONG_LOOKS\) .*/\1 3/' \
    -e 's/^\(#define MM_OURO_LOCK_LOOKS\) .*/\1 1/' \
    -e 's/^\(#define MM_OURO_TRIES\) .*/\1 3/' \
    -e 's/^\(#define MM_OURO_LEAST\) .*/\1 1/' \
    -e 's/^\(#define MM_LISTED_AT_ONCE\) .*/\1 2/' \
    -e 's/^\(#define MM_LISTED_BATCH\) .*/\1 1/' \
    -e 's/^\(#define MM_LISTED_PAUSE\) .*/\1 1/' \
    -e 's/^\(#define MM_LISTED_LOOKS\) .*/\1 1/' \
    -e 's/^\(#define MM_LISTED_BUSY_LOOKS\) .*/\1 16/' \
    -e 's/^\(#define MM_LISTED_PLACES\) .*/\1 1u/' \
    -e 's/^\(#define MM_OURO_AT_ONCE\) .*/\1 2/' \
    -e "s/^\(#define MM_LISTED_BUSY_POLLS\) .*/\1 $(($3 * 6))/" \
    -e "s/^\(#define MM_CURSOR_SLICES_SHIFT\) .*/\1 $2/" \
    -e "s/^\(#define MM_WAIT_ITERATIONS\) .*/\1 $3/" \
    -e "s/^\(#define MM_LOCK_POLLS\) .*/\1 $3/" \
    -e "s/^\(#define MM_MAKER_PAGES\) .*/\1 $4/" \
    -e 's/^#define MM_STATIC_ASSERT.*/#define MM_STATIC_ASSERT(cond, why) _Static_assert(1, why)/' "$1"
