/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define MM_ALLOCATOR ouroboros
#include "client_sibling.h"

void client_use_chunks(const struct mm_heap_ref *ref) { client_use_sibling(ref); }
