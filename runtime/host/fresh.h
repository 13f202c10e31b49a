/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a heap's metadata hold before any kernel sees them: the image of a fresh heap, and zeros behind it, as far as they are fixed (layout.h). */
#ifndef MM_HOST_FRESH_H
#define MM_HOST_FRESH_H

#include "runtime/host/heap.h"

/* Zeroes them before there is an image. */
bool mm_fresh_try_zero(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_driver_error *error);
/* Writes the image of a heap with these segments, which becomes *heap's: its ref is set. mailbox: 0 if it does not grow. */
bool mm_fresh_try_first(const struct mm_driver *d, struct mm_host_heap *heap, CUdeviceptr metadata_base, CUdeviceptr user_base,
                        uint64_t segments, CUdeviceptr mailbox, struct mm_driver_error *error);
/* Once more, with all chunks there are; its ref stays as it is. */
bool mm_fresh_try_again(const struct mm_driver *d, struct mm_host_heap *heap, struct mm_driver_error *error);

#endif
