/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define MM_ALLOCATOR_LEAF 0
#include "runtime/listed/has.h"
