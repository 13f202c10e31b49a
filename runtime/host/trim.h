/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Giving memory back to the driver: chunks all of whose segments are free.
 *
 * What is spare (chunks.h) is unmapped at once. For the rest the device does its part (runtime/maintain.h): kernels of ours,
 * on a stream of the highest priority, retire what is free in size classes, then take the chunks' segments from the heap by the
 * same atomics as any malloc, so that nobody can have them. If all multiprocessors are full for longer than
 * MM_HOST_TRIM_MS nothing is given back; chunks that are claimed later become spare.
 */
#ifndef MM_HOST_TRIM_H
#define MM_HOST_TRIM_H

#include "runtime/host/heap.h"

/* The fatbin of runtime/maintain.cu. */
extern const char mm_kernels_fatbin[];

/* Loads the kernels into the current context, unless they are there. heap->ref is set; the caller holds the heap's lock, or nobody else
 * has the heap. Loading a module may wait for the kernels that run, so it is not done at a first launch, but when the program has
 * synchronised the context, and else when memory is to be given back. With MM_TRIM=idle at the first launch after all: later
 * the heap's thread would have to, which must not wait for a kernel. */
void mm_trim_load(const struct mm_driver *d, struct mm_host_heap *heap);

/* Gives back about `bytes`, but leaves `keep` segments mapped. Returns how many bytes it were. Under the heap's lock, its context current. */
uint64_t mm_trim(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t bytes, uint64_t keep);

/* What MM_TRIM=idle or MM_TRIM=SECONDS does once nothing has been launched or requested for that long; under the heap's lock, its context
 * current. idle gives back all that is free. SECONDS must cost a running kernel nothing, so it looks twice: at the first look it
 * hashes the metadata that every malloc changes; if they are the same at the next look, no kernel allocates, and what is free beyond the promised
 * segments goes back. It does not load the kernels it needs. */
enum mm_trim_unused { MM_TRIM_UNUSED_DONE, MM_TRIM_UNUSED_AGAIN, MM_TRIM_UNUSED_IN_USE };
enum mm_trim_unused mm_trim_unused(const struct mm_driver *d, struct mm_host_heap *heap);

#endif
