/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Heaps of some segments, for test_run.c, test_run_search.c and test_span.c. */
#ifndef MM_TESTS_UNIT_RUNS_H
#define MM_TESTS_UNIT_RUNS_H

#include "tests/unit/support.h"

static const uint32_t sizes[] = {1, 2, 63, 64, 65, 200};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))
#define SEGMENT(n) ((uint64_t)(n)*MM_SEGMENT_BYTES)

static struct mm_cpu_heap heap;

static inline void *run_at(uint32_t s) { return (void *)(uintptr_t)(heap.ref.user_base + SEGMENT(s)); }

#endif
