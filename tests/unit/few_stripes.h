/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Included before everything else (-include): a heap in small, so that all schedules of two callers who change its words can
 * be run: segments of 64 KiB with blocks of 64 and 128 slices, two stripes for each class, rings of four lots,
 * one of them ready ahead, rows of two segments.
 */
#ifndef MM_UNIT_FEW_STRIPES_H
#define MM_UNIT_FEW_STRIPES_H
#include "mmconfig.h"
#undef MM_SEGMENT_SHIFT
#define MM_SEGMENT_SHIFT 16
#undef MM_BLOCK_BYTES_MIN_SHIFT
#define MM_BLOCK_BYTES_MIN_SHIFT 10
#undef MM_BLOCK_SLICES_SHIFT
#define MM_BLOCK_SLICES_SHIFT 7
#undef MM_BLOCK_BYTES_MAX_SHIFT
#define MM_BLOCK_BYTES_MAX_SHIFT 13
#undef MM_STRIPES_SHIFT
#define MM_STRIPES_SHIFT 1
#undef MM_HOLD_SHIFT
#define MM_HOLD_SHIFT (-32)
#undef MM_HOLD_PART_SHIFT
#define MM_HOLD_PART_SHIFT (-32)
#undef MM_RESERVE_ROW_SHIFT
#define MM_RESERVE_ROW_SHIFT 1
#undef MM_RING_SHIFT /* a warp has one lane here */
#define MM_RING_SHIFT 2
#undef MM_AHEAD_MAX
#define MM_AHEAD_MAX 1
#undef MM_RESERVE_AHEAD
#define MM_RESERVE_AHEAD 2
#undef MM_VERSIONS_SHIFT
#define MM_VERSIONS_SHIFT 1
#undef MM_STATIC_ASSERT /* such a heap does not reach 1 TiB */
#define MM_STATIC_ASSERT(cond, why) _Static_assert(1, why)
#endif
