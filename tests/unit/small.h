/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Included before everything else (-include): a tiny heap, in which pages, segments, entries and extents run out all the time and few steps
 * separate one from the next: pages of 512 bytes, segments of 32 KiB, slices up to 2 KiB, two cursors, four entries to an extent,
 * eight made blocks remembered.
 */
#ifndef MM_UNIT_SMALL_H
#define MM_UNIT_SMALL_H
#include "mmconfig.h"
#undef MM_PAGE_SHIFT
#define MM_PAGE_SHIFT 9
#undef MM_SEGMENT_SHIFT
#define MM_SEGMENT_SHIFT 15
#undef MM_SLICE_SHIFT_MAX
#define MM_SLICE_SHIFT_MAX 11
#undef MM_CURSORS_SHIFT
#define MM_CURSORS_SHIFT 1
#undef MM_CURSOR_SLICES_SHIFT
#define MM_CURSOR_SLICES_SHIFT 6
#undef MM_EXTENT_SHIFT
#define MM_EXTENT_SHIFT 2
#undef MM_GROW_SEEN
#define MM_GROW_SEEN 64
#undef MM_GROW_SEEN_FULL
#define MM_GROW_SEEN_FULL 64
#undef MM_MADE_SHIFT
#define MM_MADE_SHIFT 3
#undef MM_MAKER_PAGES
#define MM_MAKER_PAGES 8
#undef MM_AMPLE_SEGMENTS /* never: a segment's blocks do not fit in an extent */
#define MM_AMPLE_SEGMENTS (1u << 30)
#undef MM_MAKE_LEAST
#define MM_MAKE_LEAST 32
#undef MM_MAKE_LOOKS
#define MM_MAKE_LOOKS 2
#undef MM_MAKE_PAUSE
#define MM_MAKE_PAUSE 1
#undef MM_OURO_PAUSE
#define MM_OURO_PAUSE 1
#undef MM_MAKE_POLLS
#define MM_MAKE_POLLS 8
#undef MM_WAIT_ITERATIONS
#define MM_WAIT_ITERATIONS (1u << 14)
#undef MM_STATIC_ASSERT /* this heap does not reach 1 TiB */
#define MM_STATIC_ASSERT(cond, why) _Static_assert(1, why)
#endif
