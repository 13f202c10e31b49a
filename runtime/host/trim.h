/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Giving memory back to the driver: chunks all of whose segments are free.
 *
 * What is spare (chunks.h) is unmapped at once. For the rest the device does its part (runtime/core/maintain.h): kernels of ours,
 * on a stream of the highest priority, give up what was made ready ahead of need, then take the chunks' segments from the heap by the
 * same atomics as any malloc, so that nobody can have them. If all multiprocessors are full for longer than
 * MM_HOST_TRIM_MS nothing is given back; chunks that are claimed later become spare.
 */
#ifndef MM_HOST_TRIM_H
#define MM_HOST_TRIM_H

#include "runtime/host/heap.h"

/* The fatbin of runtime/maintain.cu. */
extern const char mm_kernels_fatbin[];

/* Loads the kernels into the current context. heap->ref is set. */
bool mm_trim_try_load(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_driver_error *error);

/* Gives back about `bytes`. Returns how many it were. Under the heap's lock, its context current. */
uint64_t mm_trim(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t bytes);

#endif
