/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The CUDA driver as a table of functions, so that nothing here links with libcuda. */
#ifndef MM_HOST_DRIVER_H
#define MM_HOST_DRIVER_H

#include <cuda.h>
#include <stdbool.h>

/* cuda.h replaces many of these names by versioned ones, with macros. The members have the versioned names, so driver->cuMemAlloc means cuMemAlloc_v2,
 * as in any program. */
/* clang-format off */
#define MM_DRIVER_FUNCTIONS(X)                                                                            \
    X(cuCtxGetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxGetDevice) X(cuCtxGetLimit)          \
    X(cuDeviceGetAttribute) X(cuDeviceTotalMem) X(cuMemGetInfo) X(cuMemGetAllocationGranularity)          \
    X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) X(cuMemMap) X(cuMemUnmap)   \
    X(cuMemSetAccess) X(cuMemAlloc) X(cuMemFree) X(cuMemcpyHtoDAsync)                  \
    X(cuMemcpyDtoHAsync) X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamGetCtx)    \
    X(cuThreadExchangeStreamCaptureMode) X(cuModuleGetGlobal) X(cuDevicePrimaryCtxGetState)               \
    X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuMemHostRegister) X(cuMemHostUnregister)  \
    X(cuMemHostGetDevicePointer) X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel)             \
    X(cuStreamQuery) X(cuStreamCreateWithPriority) X(cuCtxGetStreamPriorityRange) X(cuCtxSynchronize)
/* clang-format on */

/* Not in every driver that mm supports, or not needed for a heap: cuFuncGetModule 11.0, cuLibraryGetGlobal 12.0, cuFuncGetName 12.3,
 * cuCtxFromGreenCtx 12.4, cuKernelGetLibrary, cuStreamGetCtx_v2 and cuCtxRecordEvent 12.5. */
/* clang-format off */
#define MM_DRIVER_FUNCTIONS_OPTIONAL(X)                                                                   \
    X(cuGetErrorName) X(cuFuncGetModule) X(cuLibraryGetGlobal) X(cuKernelGetLibrary) X(cuFuncGetName)     \
    X(cuKernelGetName) X(cuStreamIsCapturing) X(cuDeviceGet) X(cuDeviceGetCount)             \
    X(cuStreamGetCtx_v2) X(cuCtxFromGreenCtx) X(cuLinkCreate) X(cuLinkAddData) X(cuLinkComplete)          \
    X(cuLinkDestroy) X(cuCtxRecordEvent) X(cuEventCreate) X(cuEventQuery) X(cuEventSynchronize)
/* clang-format on */

struct mm_driver {
#define MM_DRIVER_MEMBER(name) __typeof__(&name) name;
    MM_DRIVER_FUNCTIONS(MM_DRIVER_MEMBER)
    MM_DRIVER_FUNCTIONS_OPTIONAL(MM_DRIVER_MEMBER)
#undef MM_DRIVER_MEMBER
};

/* Fills the table from find(name). Returns NULL, or the name of the first required function that is missing. Not thread-safe. */
const char *mm_driver_try_load(struct mm_driver *driver, void *(*find)(const char *symbol));

/* An error: the call that failed (NULL: none), and its result. */
struct mm_driver_error {
    const char *call;
    CUresult code;
};

/* Name of an error code, "CUDA_ERROR_…" or "error 123". */
struct mm_driver_error_text {
    char text[64];
};
struct mm_driver_error_text mm_driver_error_name(const struct mm_driver *driver, CUresult code);

/* The mangled name of a kernel (CUfunction or CUkernel); NULL: unknown. */
const char *mm_driver_kernel_name(const struct mm_driver *driver, CUfunction kernel);

/* Runs driver->call(...). True if it succeeded; otherwise records the failure in *(error). */
#define MM_DRIVER_TRY(driver, error, call, ...) mm_driver_succeeded((error), #call, (driver)->call(__VA_ARGS__))

/* Records a failure. Returns false. */
static inline bool mm_driver_failed(struct mm_driver_error *error, const char *call, CUresult code) {
    *error = (struct mm_driver_error){call, code};
    return false;
}
static inline bool mm_driver_succeeded(struct mm_driver_error *error, const char *call, CUresult code) {
    return code == CUDA_SUCCESS || mm_driver_failed(error, call, code);
}
/* The host has no memory: records that. Returns false. */
static inline bool mm_driver_lacks_memory(struct mm_driver_error *error) { return mm_driver_failed(error, "malloc", CUDA_ERROR_OUT_OF_MEMORY); }

/* Makes a context current for the calling thread, with a relaxed capture mode, until mm_driver_leave restores both. */
struct mm_driver_visit {
    CUstreamCaptureMode mode;
};
bool mm_driver_try_enter(const struct mm_driver *driver, CUcontext context, struct mm_driver_visit *visit);
void mm_driver_leave(const struct mm_driver *driver, struct mm_driver_visit *visit);

/* Whether the error means that the driver is gone or that the context failed earlier. mm does not report such errors. */
bool mm_driver_error_is_foreign(CUresult code);

#endif
