/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What is known about handles of kernels: the API that they belong to, and their library or module.
 *
 * cuLaunchKernel takes a CUkernel of the library API and a CUfunction alike, but the functions that ask a
 * handle for its module do not: cuKernelGetFunction of a CUfunction dereferences it and crashes. So libmm
 * records the handles that the program gets. All functions: one caller at a time (mm_contexts_lock).
 */
#ifndef MM_INTERPOSE_HANDLES_H
#define MM_INTERPOSE_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

enum mm_handle_kind {
    MM_HANDLE_UNKNOWN,
    MM_HANDLE_KERNEL,   /* CUkernel; owner is its CUlibrary */
    MM_HANDLE_FUNCTION, /* CUfunction; owner is its CUmodule */
    MM_HANDLE_INSTANCE, /* CUfunction of a module that a library was turned into; owner is the CUlibrary */
    MM_HANDLE_MODULE    /* no kernel: a CUmodule that a library was turned into; owner is the CUlibrary */
};

struct mm_handle {
    uintptr_t handle, owner, context;
    enum mm_handle_kind kind;
};

/* Records a handle, and replaces an older record. context: the handle ends with this context; NULL: with none. */
void mm_handle_record(const void *handle, enum mm_handle_kind kind, const void *owner, const void *context);
/* The record of a handle; its kind is MM_HANDLE_UNKNOWN if there is none. */
struct mm_handle mm_handle_find(const void *handle);
void mm_handle_forget_owner(const void *owner);
void mm_handle_forget_context(const void *context);

#endif
