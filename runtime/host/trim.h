/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Trimming: gives chunks whose segments are all free back to the driver.
 *
 * Spare chunks (chunks.h) are unmapped at once. For other chunks the device does its part (runtime/maintain.h): kernels of ours, on a stream of the
 * highest priority, retire the free blocks of all size classes, and then take the chunks' segments out of the heap by the same atomics as malloc, so that no
 * other thread gets them. If all multiprocessors are full for longer than MM_HOST_TRIM_MS, nothing is given back. Chunks that are claimed later become
 * spare.
 */
#ifndef MM_HOST_TRIM_H
#define MM_HOST_TRIM_H

#include <stdint.h>

#include "runtime/host/driver.h"

struct mm_host_heap;

/* The fatbin of runtime/maintain.cu. */
extern const char mm_kernels_fatbin[];

/* Loads the kernels into the current context, if they are not loaded yet. heap->ref is set. The caller holds the heap's lock, or no other thread knows the
 * heap. Loading a module may wait for running kernels, so it is not done at the first launch, but after the program has synchronised the context, or at the
 * latest when memory must be given back. With MM_TRIM=idle it is done at the first launch, since otherwise the heap's thread would have to do it, and that
 * thread must not wait for a kernel. */
void mm_trim_load(const struct mm_driver *d, struct mm_host_heap *heap);

/* Gives back about `bytes` bytes, but leaves `keep` segments mapped. Returns the bytes given back. The caller holds the heap's lock, and its context is
 * current. */
uint64_t mm_trim(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t bytes, uint64_t keep);

/* The action of MM_TRIM=idle or MM_TRIM=SECONDS after that time without a launch or a request. The caller holds the heap's lock, and its context is current.
 * idle gives back all free chunks. SECONDS must cost a running kernel nothing, so it looks twice: the first look hashes the metadata that
 * every malloc changes. If the hash is the same at the second look, no kernel allocates, and free chunks beyond the promised segments are given back.
 * SECONDS does not load the kernels that it needs. */
enum mm_trim_unused { MM_TRIM_UNUSED_DONE, MM_TRIM_UNUSED_AGAIN, MM_TRIM_UNUSED_IN_USE };
enum mm_trim_unused mm_trim_unused(const struct mm_driver *d, struct mm_host_heap *heap);

#endif
