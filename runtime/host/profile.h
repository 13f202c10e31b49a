/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A profile (MM_PROFILE): the requests of each kernel, counted from the events of a trace (runtime/checked/trace.h). Plain C, without the driver.
 *
 * A kernel is known by its name: kernels of the same name, in one image or two, are one row. What a kernel allocated stays its own when another one frees it. */
#ifndef MM_HOST_PROFILE_H
#define MM_HOST_PROFILE_H

#include <stddef.h>
#include <stdio.h>

#include "runtime/host/events.h"

/* Requested sizes: the size classes, then powers of two up to the largest of a trace. */
#define MM_PROFILE_POWERS (40 - MM_SLICE_SHIFT_MAX)
#define MM_PROFILE_SIZES (MM_CLASS_COUNT + MM_PROFILE_POWERS)
MM_STATIC_ASSERT(1ull << (MM_SLICE_SHIFT_MAX + MM_PROFILE_POWERS) == MM_TRACE_BYTES_MAX, "the last power is the largest size");

/* Requests that got memory, and those of them that were not freed; bytes as requested. */
struct mm_profile_counts {
    uint64_t mallocs, bytes, live, live_bytes;
};

struct mm_profile_kernel {
    const char *name;
    uint64_t nulls, frees; /* requests that got NULL; frees by this kernel */
    uint64_t most_bytes;   /* most bytes that were live at once, of what it allocated */
    struct mm_profile_counts all, sizes[MM_PROFILE_SIZES];
};

struct mm_profile {
    struct mm_profile_kernel *kernels; /* the one with most bytes first */
    size_t count;
    struct mm_trace_sum sum;
    struct mm_profile_counts all;
    uint64_t most_bytes;
};

/* The name of the kernel with the launch number `grid` (mm_event_grid). The same name is the same pointer. */
typedef const char *mm_profile_namer(void *argument, uint32_t grid);

/* Counts `count` events, after which `dropped` events are missing. Returns false if the host has no memory; mm_profile_drop in any case. */
bool mm_profile_try_count(struct mm_profile *profile, const struct mm_trace_event *events, uint64_t count, uint64_t dropped, mm_profile_namer *namer,
                          void *argument);
void mm_profile_drop(struct mm_profile *profile);

/* The largest request of a size, an index of mm_profile_kernel.sizes. */
uint64_t mm_profile_size(uint32_t size);

/* Writes it in the form that the ending of the file's name means: .folded, .svg, .pprof, .pb and .pb.gz; text for any other. title: of a heap, plain text.
 * Returns false if the host has no memory. */
bool mm_profile_try_write(const struct mm_profile *profile, const char *path, const char *title, FILE *out);

/* The forms. Only the one with a copy in memory may fail. */
void mm_profile_write_text(const struct mm_profile *profile, const char *title, FILE *out);
void mm_profile_write_folded(const struct mm_profile *profile, FILE *out);
void mm_profile_write_svg(const struct mm_profile *profile, const char *title, FILE *out);
bool mm_profile_try_write_pprof(const struct mm_profile *profile, const char *title, bool is_gzip, FILE *out);

#endif
