/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Copies between host and device that do not interfere with the program: each uses a separate stream, which is not ordered with the legacy stream, and
 * is complete on return. They are allowed during a stream capture if the thread's capture mode is relaxed.
 *
 * Copy engines copy between host and device, so no copy here waits for a kernel that occupies all multiprocessors. cuMemset*, and copies from device to
 * device, are kernels of the driver. Memory is therefore zeroed by copying zeros from the host.
 */
#ifndef MM_HOST_COPY_H
#define MM_HOST_COPY_H

#include <stdint.h>

#include "runtime/host/driver.h"

/* Zeros in host memory to copy from, page-locked if possible. at == NULL: none; then copy.c uses its own buffer. */
struct mm_copy_zeros {
    const void *at;
    uint64_t bytes;
};

/* Copies `bytes` bytes from `from` to `to`, and zeros behind them, up to `to` + zero_bytes. */
bool mm_copy_try_fresh(const struct mm_driver *d, CUdeviceptr to, uint64_t zero_bytes, struct mm_copy_zeros zeros, const void *from, uint64_t bytes,
                       struct mm_driver_error *error);
/* Copies `bytes` zeros to `to`. bytes: a multiple of 8. */
bool mm_copy_try_zero(const struct mm_driver *d, CUdeviceptr to, uint64_t bytes, struct mm_copy_zeros zeros, struct mm_driver_error *error);
bool mm_copy_try_to_device(const struct mm_driver *d, CUdeviceptr to, const void *from, uint64_t bytes, struct mm_driver_error *error);
bool mm_copy_try_from_device(const struct mm_driver *d, void *to, CUdeviceptr from, uint64_t bytes, struct mm_driver_error *error);

#endif
