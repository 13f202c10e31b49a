/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The names by which PTX in a program calls the allocator.
 *
 * PTX that mmnvcc leaves in a program calls malloc, free and __cuda_syscall_aligned_malloc by names that only mm knows. libmm names them
 * back when it sees the text on its way into the driver, and links mm's machine code to it. If libmm does not see it, the driver says
 * that these functions are unresolved, instead of providing CUDA's own in silence.
 */
#ifndef MM_LOAD_NAMES_H
#define MM_LOAD_NAMES_H

#include "interpose/load/ptx/text.h"

/* In front of all of them. */
#define MM_NAMES_PREFIX "mm_call_"

/* The functions of device-side allocation that are declared .extern: malloc 1, free 2, __cuda_syscall_aligned_malloc 4, mm_usable_size 8; as far as the
 * text can be read: what follows may be anything. */
int mm_names_declared(const char *text, size_t bytes);

/* Write into `out` a copy of the text in which the services that it declares .extern have mm's names; or, the opposite, CUDA's. Return
 * the number of names that were changed, and -1 without memory. With 0, out is empty. What is no PTX is left alone from there on. */
int mm_names_hide(const char *text, size_t bytes, struct mm_text *out);
int mm_names_show(const char *text, size_t bytes, struct mm_text *out);

#endif
