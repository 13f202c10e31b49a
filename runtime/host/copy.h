/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Copies between host and device that disturb nobody: each on a stream of its own that is not ordered
 * with the legacy stream, finished on return. Right during a stream capture too, if the thread's capture
 * mode is relaxed.
 *
 * They need no multiprocessor, so that none waits for a kernel that holds them all: copy engines copy between host and device.
 * cuMemset*, and copies from device to device, are kernels of the driver's; zeros are therefore copied from the host.
 */
#ifndef MM_HOST_COPY_H
#define MM_HOST_COPY_H

#include <stdint.h>

#include "runtime/host/driver.h"

/* Zeros of the host to copy from, page-locked if that could be had; at == NULL: there are none, and copy.c has some. */
struct mm_copy_zeros {
    const void *at;
    uint64_t bytes;
};

/* Writes `bytes` from `from` to `to`, and zeros from there on: zero_bytes in all, counted from `to`. */
bool mm_copy_try_fresh(const struct mm_driver *d, CUdeviceptr to, uint64_t zero_bytes, struct mm_copy_zeros zeros, const void *from,
                       uint64_t bytes, struct mm_driver_error *error);
bool mm_copy_try_to_device(const struct mm_driver *d, CUdeviceptr to, const void *from, uint64_t bytes, struct mm_driver_error *error);
bool mm_copy_try_from_device(const struct mm_driver *d, void *to, CUdeviceptr from, uint64_t bytes,
                             struct mm_driver_error *error);

#endif
