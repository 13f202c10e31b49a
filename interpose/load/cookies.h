/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Machine code that stores in front of what malloc returned, as nvcc 13 makes it of `new T[n]` (docs/explanation/array-counts.md), and what it calls
 * instead of malloc (runtime/checked/cookie.h). A text is mended by interpose/load/ptx/counts.h; finished code stays what it is. */
#ifndef MM_LOAD_COOKIES_H
#define MM_LOAD_COOKIES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the code of a cubin may have such a store: one of 8 bytes, to global memory or a generic address, with a negative offset; or, compiled
 * with -G, an addition of -8. It need not be the count of an array; of an array's count it is certain. False for what is no cubin. */
bool mm_cookies_may_be_stored(const void *cubin, size_t bytes);

/* Gives the undefined malloc and __cuda_syscall_aligned_malloc of a cubin the names MM_LINKED_NEW and MM_LINKED_ALIGNED_NEW, in place. Returns false,
 * with the cubin as it was, if it is damaged, or has other names in the same bytes. */
bool mm_cookies_try_make_room(void *cubin, size_t bytes);

#endif
