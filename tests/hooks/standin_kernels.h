/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MM_STANDIN_KERNELS_H
#define MM_STANDIN_KERNELS_H
#include "runtime/core/layout.h"
/* Thread i of the kernels of these names. */
void standin_kernel_retire(const struct mm_heap_ref *ref, unsigned i, unsigned parts);
void standin_kernel_claim(const struct mm_heap_ref *ref, unsigned i, struct mm_wanted_chunk *chunks, unsigned n);
#endif
