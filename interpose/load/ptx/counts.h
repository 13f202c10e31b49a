/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Removes the counts that nvcc 13 stores in front of arrays (docs/explanation/array-counts.md) from PTX.
 *
 * `new T[n]`, where T has a constructor and no destructor, stores n in the 8 bytes in front of the address that malloc returned. Nothing reads
 * them, and they belong to the neighbouring allocation.
 */
#ifndef MM_LOAD_COUNTS_H
#define MM_LOAD_COUNTS_H

#include "interpose/load/ptx/text.h"

/* Writes into `out` a copy of the text with every such store overwritten by spaces: all else keeps its position. Removes a store only if it is 8
 * bytes wide and, on every path, 8 bytes in front of the return value of malloc or __cuda_syscall_aligned_malloc, both .extern in this text,
 * or of a function of this text that always returns one of these values. Returns the number of stores removed, or -1 if out of memory. If
 * 0, out is empty; 0 also if the text is no PTX module. */
int mm_counts_remove(const char *text, size_t bytes, struct mm_text *out);

#endif
