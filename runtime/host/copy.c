/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/copy.h"

#include "mmconfig.h"

static char some_zeros[MM_HOST_ZEROS_FEW_BYTES];

bool mm_copy_try_fresh(const struct mm_driver *d, CUdeviceptr to, uint64_t zero_bytes, struct mm_copy_zeros zeros, const void *from, uint64_t bytes,
                       struct mm_driver_error *error) {
    CUstream stream;
    if (!zeros.at) zeros = (struct mm_copy_zeros){some_zeros, sizeof some_zeros};
    if (!MM_DRIVER_TRY(d, error, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING)) return false;
    bool done = MM_DRIVER_TRY(d, error, cuMemcpyHtoDAsync, to, from, bytes, stream);
    for (uint64_t at = bytes; done && at < zero_bytes; at += zeros.bytes) {
        const uint64_t left = zero_bytes - at;
        const uint64_t piece = left < zeros.bytes ? left : zeros.bytes;
        done = MM_DRIVER_TRY(d, error, cuMemcpyHtoDAsync, to + at, zeros.at, piece, stream);
    }
    if (done) done = MM_DRIVER_TRY(d, error, cuStreamSynchronize, stream);
    d->cuStreamDestroy(stream);
    return done;
}

bool mm_copy_try_zero(const struct mm_driver *d, CUdeviceptr to, uint64_t bytes, struct mm_copy_zeros zeros, struct mm_driver_error *error) {
    const uint64_t zero = 0;
    return mm_copy_try_fresh(d, to, bytes, zeros, &zero, sizeof zero, error);
}

bool mm_copy_try_to_device(const struct mm_driver *d, CUdeviceptr to, const void *from, uint64_t bytes, struct mm_driver_error *error) {
    return mm_copy_try_fresh(d, to, 0, (struct mm_copy_zeros){NULL, 0}, from, bytes, error);
}

bool mm_copy_try_from_device(const struct mm_driver *d, void *to, CUdeviceptr from, uint64_t bytes, struct mm_driver_error *error) {
    CUstream stream;
    if (!MM_DRIVER_TRY(d, error, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING)) return false;
    bool done = MM_DRIVER_TRY(d, error, cuMemcpyDtoHAsync, to, from, bytes, stream) && MM_DRIVER_TRY(d, error, cuStreamSynchronize, stream);
    d->cuStreamDestroy(stream);
    return done;
}
