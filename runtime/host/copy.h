/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Copies between host and device that disturb nobody: each on a stream of its own that is not ordered
 * with the legacy stream, finished on return. Right during a stream capture too, if the thread's capture
 * mode is relaxed. */
#ifndef MM_HOST_COPY_H
#define MM_HOST_COPY_H

#include <stdint.h>

#include "runtime/host/driver.h"

/* Zeroes zero_bytes at `to` (0: none), then writes `bytes` from `from` there. */
bool mm_copy_try_to_device(const struct mm_driver *d, CUdeviceptr to, uint64_t zero_bytes, const void *from,
                           uint64_t bytes, struct mm_driver_error *error);
bool mm_copy_try_from_device(const struct mm_driver *d, void *to, CUdeviceptr from, uint64_t bytes,
                             struct mm_driver_error *error);

#endif
