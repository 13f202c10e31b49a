/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/copy.h"

bool mm_copy_try_to_device(const struct mm_driver *d, CUdeviceptr to, uint64_t zero_bytes, const void *from,
                           uint64_t bytes, struct mm_driver_error *error) {
    CUstream stream;
    if (!MM_DRIVER_TRY(d, error, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING)) return false;
    bool done = (!zero_bytes || MM_DRIVER_TRY(d, error, cuMemsetD8Async, to, 0, zero_bytes, stream)) &&
                MM_DRIVER_TRY(d, error, cuMemcpyHtoDAsync, to, from, bytes, stream) &&
                MM_DRIVER_TRY(d, error, cuStreamSynchronize, stream);
    d->cuStreamDestroy(stream);
    return done;
}

bool mm_copy_try_from_device(const struct mm_driver *d, void *to, CUdeviceptr from, uint64_t bytes,
                             struct mm_driver_error *error) {
    CUstream stream;
    if (!MM_DRIVER_TRY(d, error, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING)) return false;
    bool done = MM_DRIVER_TRY(d, error, cuMemcpyDtoHAsync, to, from, bytes, stream) &&
                MM_DRIVER_TRY(d, error, cuStreamSynchronize, stream);
    d->cuStreamDestroy(stream);
    return done;
}
