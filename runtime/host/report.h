/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Prints the misuse that kernels have reported (runtime/core/report.h), one line each, in fixed wording (docs/reference/contract.md). */
#ifndef MM_HOST_REPORT_H
#define MM_HOST_REPORT_H

#include "runtime/core/layout.h"
#include "runtime/host/driver.h"

struct mm_host_heap;

/* Prints one report. is_seen_at_end: it was found at the end of the heap, not by a kernel. */
void mm_report_line(const struct mm_host_heap *heap, const struct mm_report *report, bool is_seen_at_end);

/* Prints the new reports. Does not take the heap's lock, since that is held during driver calls for memory, and threads that synchronise or end the
 * context call this function. */
void mm_report_say(struct mm_host_heap *heap);

/* The heap is about to end: prints the new reports, and the number of misuses if not all of them were reported. The context
 * exists, but may not be current. */
void mm_report_sum_up(const struct mm_driver *d, struct mm_host_heap *heap);

/* The context has ended. Says so if misuse was reported and not summed up. */
void mm_report_end(const struct mm_host_heap *heap);

#endif
