/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Output when a heap ends: statistics (MM_STATS, MM_STATS_FILE), a picture (MM_HEAP_MAP), and the findings of a checked run (MM_CHECK).
 *
 * The name of a file is a pattern: "%p" becomes the process, "%d" the device, "%l" the number of the launch, "%%" a "%". The first heap of a process
 * that writes statistics to a file replaces its contents; later heaps append to it. A picture always replaces them.
 */
#ifndef MM_HOST_INSPECT_H
#define MM_HOST_INSPECT_H

#include <stdint.h>
#include <stdio.h>

#include "runtime/host/driver.h"

struct mm_host_heap;

/* Collects the output and keeps it in heap->seen, in place of any earlier output. The context may be about to end; it exists, but may not be current. */
void mm_inspect_take(const struct mm_driver *d, struct mm_host_heap *heap);
/* The heap has ended: writes the output that was collected last. The driver may be gone. */
void mm_inspect_write(struct mm_host_heap *heap);

/* Has `writer` write statistics, and puts them where MM_STATS_FILE says. is_first: nothing was written there before. */
typedef void mm_inspect_writer(void *argument, bool is_first, FILE *out);
void mm_inspect_statistics(CUdevice device, mm_inspect_writer *writer, void *argument);

/* Writes a picture where MM_HEAP_MAP says; name (NULL: none) comes before the file's suffix. */
void mm_inspect_picture(CUdevice device, const char *name, uint64_t launch, const char *text, size_t bytes);

/* Whether launches are looked at. */
bool mm_inspect_wants_launches(void);
/* Counts a launch in the heap's context. Returns whether the heap is looked at after it; `frame`: the number of its frame in the series of maps, 0: none. The
 * caller excludes other calls for the heap, and keeps the number: other threads may launch before it looks. */
bool mm_inspect_wants_launch(struct mm_host_heap *heap, uint64_t *frame);
/* Looks at the heap after a launch of that number and frame. The context is current, and the launch has ended. The caller excludes other calls for the heap. */
void mm_inspect_launch(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t launch, uint64_t frame);

/* Whether the checked run of any heap that has ended found an error. */
extern bool mm_inspect_has_found;

/* Expands `pattern` into `path` (path_bytes: its size). Returns false if it does not fit. */
bool mm_inspect_try_path(const char *pattern, CUdevice device, uint64_t launch, char *path, size_t path_bytes);

#endif
