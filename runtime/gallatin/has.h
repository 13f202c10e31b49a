/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What an allocator has beyond malloc and free: its part of the interface (allocator.h) that the core reads. No code. */
#ifndef MM_GALLATIN_HAS_H
#define MM_GALLATIN_HAS_H

/* Whether it has checked runs (runtime/checked); the code of an allocator without them has none for them. */
#define MM_ALLOCATOR_CHECKED 1
/* Whether malloc's first part calls no function. */
#define MM_ALLOCATOR_LEAF 0
/* Whether malloc and free have code for full warps of their own (mm_small_draw_warp, mm_small_mark_warp). */
#define MM_ALLOCATOR_WARPS 1

#endif
