/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MM_HOST_MIN_H
#define MM_HOST_MIN_H

#include <stdint.h>

static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

#endif
