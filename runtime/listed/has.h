/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What allocators of listed segments have beyond malloc and free (gallatin/has.h). */
#ifndef MM_LISTED_HAS_H
#define MM_LISTED_HAS_H

#define MM_ALLOCATOR_CHECKED 0
#define MM_ALLOCATOR_WARPS 0
#ifndef MM_ALLOCATOR_LEAF
#define MM_ALLOCATOR_LEAF 1
#endif

#define MM_LISTED_OWNER 1u /* of the pages of listed segments */
/* The low half of a word that describes nothing that can be claimed (list.h). */
#define MM_LISTED_FULL 0x00000000ffffffffull

#endif
