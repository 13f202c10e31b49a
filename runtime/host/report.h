/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Prints what kernels have told of misuse (runtime/core/report.h): a line each, in fixed wording (docs/reference/contract.md). */
#ifndef MM_HOST_REPORT_H
#define MM_HOST_REPORT_H

#include "runtime/host/heap.h"

/* Prints one. is_seen_at_end: not by a kernel. */
void mm_report_line(const struct mm_host_heap *heap, const struct mm_report *report, bool is_seen_at_end);

/* Prints those that are new. Does not take the heap's lock, which is held while the driver is asked for memory: whoever synchronises or
 * ends the context comes here. */
void mm_report_say(struct mm_host_heap *heap);

#endif
