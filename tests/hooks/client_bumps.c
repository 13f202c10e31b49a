/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define MM_ALLOCATOR regeff
#define MM_REGEFF_FACE MM_REGEFF_ATOMIC
#include "client_sibling.h"

void client_use_bumps(const struct mm_heap_ref *ref) { client_use_sibling(ref); }
