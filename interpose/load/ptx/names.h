/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The names by which PTX in a program calls the allocator.
 *
 * PTX that mmnvcc leaves in a program calls malloc, free and __cuda_syscall_aligned_malloc by names that only mm knows. When the program
 * passes the text to the driver, libmm restores CUDA's names and links mm's machine code to it. If libmm does not see the text, the driver
 * reports these functions as unresolved, instead of silently providing CUDA's own. The names also say which allocator the text was compiled
 * for: mm_call_malloc the default, mm_call_random_walk_malloc that one. Allocators are numbered as in MM_ALLOCATORS (mmconfig.h).
 */
#ifndef MM_LOAD_NAMES_H
#define MM_LOAD_NAMES_H

#include "interpose/load/ptx/text.h"

/* Prefix of all these names. The allocator's suffix (mmconfig.h) follows it. */
#define MM_NAMES_PREFIX "mm_call"

/* The number of the allocator with this name; "" is the default. -1: there is none. */
int mm_names_allocator(const char *name);

/* The set of device-side allocation functions that are declared .extern: malloc 1, free 2, __cuda_syscall_aligned_malloc 4, mm_usable_size 8. Stops
 * where the text is not PTX. */
int mm_names_declared(const char *text, size_t bytes);

/* Write into `out` a copy of the text in which the functions that it declares .extern have mm's names for this allocator; or, the opposite,
 * CUDA's. Return the number of names changed, or -1 if out of memory. If 0, out is empty. From where the text is not PTX, the copy is unchanged.
 * mm_names_show: *allocator becomes the allocator of the first such name, or 0 if there is none; NULL: not wanted. */
int mm_names_hide(const char *text, size_t bytes, int allocator, struct mm_text *out);
int mm_names_show(const char *text, size_t bytes, int *allocator, struct mm_text *out);

#endif
