/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Traces (MM_TRACE): the host's part of runtime/checked/trace.h. The events stay in device memory until the heap ends; then they become a file
 * (docs/reference/traces.md), which tools/mmbench reads. */
#ifndef MM_HOST_TRACE_H
#define MM_HOST_TRACE_H

#include <stdio.h>

#include "runtime/core/layout.h"
#include "runtime/host/driver.h"

struct mm_host_heap;

/* What a file holds. */
struct mm_trace_sum {
    uint64_t mallocs, nulls, frees; /* nulls: requests that got NULL */
    uint64_t dropped;               /* events for which the device had no room: the last ones */
    uint64_t left_out;              /* frees of what was not live, and events that a stopped kernel left incomplete */
};

/* Allocates the memory of the events in the current context, unless it exists, and zeroes it. If that fails, prints a line, and the heap is not traced. */
void mm_trace_begin(const struct mm_driver *d, struct mm_host_heap *heap);

/* Reads the events, and appends the file's contents to `out`. */
bool mm_trace_try_take(const struct mm_driver *d, const struct mm_host_heap *heap, FILE *out, struct mm_trace_sum *sum, struct mm_driver_error *error);

/* Writes `count` events, after which `dropped` events are missing, as the contents of a file (trace_write.c). Returns false if the host has no memory. */
bool mm_trace_try_write(const struct mm_trace_event *events, uint64_t count, uint64_t dropped, FILE *out, struct mm_trace_sum *sum);

#endif
