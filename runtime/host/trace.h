/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Traces and profiles (MM_TRACE, MM_PROFILE): the host's part of runtime/checked/trace.h. The events stay in device memory until the heap ends; then they become
 * a file (docs/reference/traces.md), which tools/mmbench reads, and a profile (docs/how-to/profiling.md). */
#ifndef MM_HOST_TRACE_H
#define MM_HOST_TRACE_H

#include "runtime/host/driver.h"
#include "runtime/host/profile.h"
#include "runtime/host/trace_write.h"

struct mm_host_heap;

/* Allocates the memory of the events in the current context, unless it exists, and zeroes it. If that fails, or in a checked run, prints a line, and the heap is
 * not traced. */
void mm_trace_begin(const struct mm_driver *d, struct mm_host_heap *heap);

/* Records that mm_reset freed all that was live. No kernel runs in the heap's context, which is current. */
void mm_trace_reset(const struct mm_driver *d, const struct mm_host_heap *heap);

/* Where the contents of files go; NULL: not wanted. title: of the heap. has_trace, has_profile: whether each is complete. sum: what was recorded. */
struct mm_trace_out {
    FILE *trace, *profile;
    const char *title;
    bool has_trace, has_profile;
    struct mm_trace_sum sum;
};
/* Reads the events, and appends the files' contents. If only one file's contents fail, the other's are complete. error: why something is missing. */
void mm_trace_take(const struct mm_driver *d, const struct mm_host_heap *heap, struct mm_trace_out *out, struct mm_driver_error *error);

#endif
