/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Finds machine code that stores in front of the address that malloc returned, as nvcc 13 compiles `new T[n]` (docs/explanation/array-counts.md), and
 * makes it call other functions instead of malloc (runtime/checked/cookie.h). interpose/load/ptx/counts.h removes the stores from PTX; finished code
 * keeps them. */
#ifndef MM_LOAD_COOKIES_H
#define MM_LOAD_COOKIES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the code of a cubin may have such a store: one of 8 bytes, to global memory or a generic address, with a negative offset; or, compiled
 * with -G, an addition of -8. True for every store of an array's count, and for some other stores. False if this is no cubin. */
bool mm_cookies_may_be_stored(const void *cubin, size_t bytes);

/* Renames the undefined malloc and __cuda_syscall_aligned_malloc of a cubin to MM_LINKED_NEW and MM_LINKED_ALIGNED_NEW, in place. Returns false, with
 * the cubin unchanged, if it is damaged or other names share the same bytes. */
bool mm_cookies_try_make_room(void *cubin, size_t bytes);

#endif
