/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The usage walk (runtime/usage.h) over a copy of a heap's metadata, for any allocator: usage.c is compiled for the default one, usage_*.c for one kind of the
 * others each. */
#ifndef MM_HOST_USAGE_H
#define MM_HOST_USAGE_H

#include "runtime/usage.h"

typedef void mm_usage_walk_fn(const struct mm_heap_ref *ref, uint32_t first, uint32_t end, struct mm_usage *usage);
mm_usage_walk_fn mm_usage_of_walks, mm_usage_of_rings, mm_usage_of_bumps, mm_usage_of_chunks;

/* The walk of the allocator of this name; NULL: of the default. */
mm_usage_walk_fn *mm_usage_walk_of(const char *sibling);

#endif
