/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The counts that nvcc 13 stores in front of arrays (docs/explanation/array-counts.md), removed from PTX.
 *
 * `new T[n]`, T with a constructor and no destructor, stores n in the 8 bytes in front of what malloc returned. Nothing reads them, and
 * they belong to the neighbour in the heap.
 */
#ifndef MM_LOAD_COUNTS_H
#define MM_LOAD_COUNTS_H

#include "interpose/load/ptx/text.h"

/* Writes into `out` a copy of the text with every such store blanked out by spaces: all else stays where it is. Removes a store only if it
 * is 8 bytes wide, 8 bytes in front of the return value of malloc or __cuda_syscall_aligned_malloc, both .extern in this text, on every
 * path; or of a function of this text that does nothing but return one of these values. Returns how many stores were removed, and -1
 * without memory. With 0, out is empty: so too if the text is no PTX module. */
int mm_counts_remove(const char *text, size_t bytes, struct mm_text *out);

#endif
