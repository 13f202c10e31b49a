/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The usage walk of the rings; all faces have the same metadata. */
#define MM_ALLOCATOR regeff
#define MM_REGEFF_FACE MM_REGEFF_CIRCULAR
#include "runtime/host/usage.h"

void mm_usage_of_rings(const struct mm_heap_ref *ref, uint32_t first, uint32_t end, struct mm_usage *usage) { mm_usage_walk(ref, first, end, usage); }
