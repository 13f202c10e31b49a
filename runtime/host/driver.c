/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/driver.h"

#include <stdio.h>
#include <string.h>

#include "mmconfig.h"

const char *mm_driver_try_load(struct mm_driver *driver, void *(*find)(const char *symbol)) {
    /* memcpy: C has no cast from an object pointer to a function pointer. MM_STR expands cuda.h's macros in the name; # alone would not. */
#define MM_DRIVER_LOAD(name)                             \
    {                                                    \
        void *address = find(MM_STR(name));              \
        memcpy(&driver->name, &address, sizeof address); \
    }
    MM_DRIVER_FUNCTIONS_OPTIONAL(MM_DRIVER_LOAD)
#define MM_DRIVER_LOAD_REQUIRED(name) \
    MM_DRIVER_LOAD(name)              \
    if (!driver->name) return MM_STR(name);
    MM_DRIVER_FUNCTIONS(MM_DRIVER_LOAD_REQUIRED)
    return NULL;
}

struct mm_driver_error_text mm_driver_error_name(const struct mm_driver *driver, CUresult code) {
    struct mm_driver_error_text t;
    const char *name = NULL;
    if (driver->cuGetErrorName && driver->cuGetErrorName(code, &name) == CUDA_SUCCESS && name) snprintf(t.text, sizeof t.text, "%s", name);
    else snprintf(t.text, sizeof t.text, "error %d", (int)code);
    return t;
}

const char *mm_driver_kernel_name(const struct mm_driver *d, CUfunction kernel) {
    const char *name = NULL;
    if (d->cuFuncGetName && d->cuFuncGetName(&name, kernel) == CUDA_SUCCESS) return name; /* first: cuKernelGetName crashes if it is a CUfunction */
    if (d->cuKernelGetName && d->cuKernelGetName(&name, (CUkernel)kernel) == CUDA_SUCCESS) return name;
    return NULL;
}

bool mm_driver_try_enter(const struct mm_driver *d, CUcontext context, struct mm_driver_visit *visit) {
    CUcontext popped;
    visit->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (d->cuCtxPushCurrent(context) != CUDA_SUCCESS) return false;
    if (d->cuThreadExchangeStreamCaptureMode(&visit->mode) == CUDA_SUCCESS) return true;
    d->cuCtxPopCurrent(&popped);
    return false;
}

void mm_driver_leave(const struct mm_driver *d, struct mm_driver_visit *visit) {
    CUcontext popped;
    d->cuThreadExchangeStreamCaptureMode(&visit->mode);
    d->cuCtxPopCurrent(&popped);
}

bool mm_driver_error_is_foreign(CUresult code) {
    switch (code) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT: return true;
    default: return false;
    }
}
