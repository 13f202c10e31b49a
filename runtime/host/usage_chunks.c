/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The usage walk of Ouroboros; all of its allocators have the same chunks. */
#define MM_ALLOCATOR ouroboros
#include "runtime/host/usage.h"

void mm_usage_of_chunks(const struct mm_heap_ref *ref, uint32_t first, uint32_t end, struct mm_usage *usage) { mm_usage_walk(ref, first, end, usage); }
