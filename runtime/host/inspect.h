/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the user asked to see of each heap, when it ends: MM_STATS, MM_STATS_FILE, MM_HEAP_MAP, and
 * what a checked run found (MM_CHECK).
 *
 * A file's name is a pattern: "%p" becomes the process, "%d" the device, "%l" the number of the launch, "%%" a "%". It is written anew by
 * a process's first heap, and added to by later ones of the same name.
 */
#ifndef MM_HOST_INSPECT_H
#define MM_HOST_INSPECT_H

#include "runtime/host/heap.h"

/* The context may be about to end, and is there, perhaps not current: what is wanted is worked out, and kept. In place of what was before. */
void mm_inspect_take(const struct mm_driver *d, struct mm_host_heap *heap);
/* The heap ends: what was taken last is written. The driver may be gone. */
void mm_inspect_write(struct mm_host_heap *heap);

/* Whether there is to be a picture after each launch; and that. The context is current, and nothing runs there. */
bool mm_inspect_wants_launches(void);
void mm_inspect_launch(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t launch);

/* Whether a checked run of a heap that has ended found anything. */
extern bool mm_inspect_has_found;

/* Writes into `path` (path_bytes) what `pattern` means. Returns false if it does not fit. */
bool mm_inspect_try_path(const char *pattern, CUdevice device, uint64_t launch, char *path, size_t path_bytes);

#endif
