/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The usage walk of random walk; all faces have the same metadata. */
#define MM_ALLOCATOR random_walk
#include "runtime/host/usage.h"

void mm_usage_of_walks(const struct mm_heap_ref *ref, uint32_t first, uint32_t end, struct mm_usage *usage) { mm_usage_walk(ref, first, end, usage); }
