/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Writes a trace (trace.h) as the contents of a file. Plain C, without the driver. */
#ifndef MM_HOST_TRACE_WRITE_H
#define MM_HOST_TRACE_WRITE_H

#include <stdio.h>

#include "runtime/host/events.h"

/* Writes `count` events, after which `dropped` events are missing. Returns false if the host has no memory. */
bool mm_trace_try_write(const struct mm_trace_event *events, uint64_t count, uint64_t dropped, FILE *out, struct mm_trace_sum *sum);

#endif
