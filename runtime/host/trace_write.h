/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Writes a trace (trace.h) as the contents of a file. Plain C, without the driver. */
#ifndef MM_HOST_TRACE_WRITE_H
#define MM_HOST_TRACE_WRITE_H

#include <stdbool.h>
#include <stdio.h>

#include "runtime/core/layout.h"

/* What a file holds. */
struct mm_trace_sum {
    uint64_t mallocs, nulls, frees; /* nulls: requests that got NULL */
    uint64_t dropped;               /* events for which the device had no room: the last ones */
    uint64_t left_out;              /* frees of what was not live, and events that a stopped kernel left incomplete */
};

/* Writes `count` events, after which `dropped` events are missing. Returns false if the host has no memory. */
bool mm_trace_try_write(const struct mm_trace_event *events, uint64_t count, uint64_t dropped, FILE *out, struct mm_trace_sum *sum);

#endif
