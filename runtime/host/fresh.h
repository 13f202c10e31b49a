/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Initialises a heap's metadata (layout.h): the image of a fresh heap, and zeros, unless chunks.h has zeroed what it mapped. */
#ifndef MM_HOST_FRESH_H
#define MM_HOST_FRESH_H

#include <stdint.h>

#include "runtime/host/driver.h"

struct mm_host_heap;

/* Writes the image of a heap whose first `segments` segments are free, and sets heap->ref. mailbox: its device address, or 0 if the heap does not grow. */
bool mm_fresh_try_first(const struct mm_driver *d, struct mm_host_heap *heap, CUdeviceptr metadata_base, CUdeviceptr user_base, uint64_t segments,
                        CUdeviceptr mailbox, struct mm_driver_error *error);
/* Writes the image again, with all chunks of the heap free. heap->ref stays as it is. */
bool mm_fresh_try_again(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_driver_error *error);

#endif
