/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the hooks (hook_*.c): functions that are called instead of the driver's. Each does its part, calls the driver's function, and returns the
 * driver's result unchanged. They are written as mmh_<symbol> and exported as <symbol>, since macros of cuda.h would rename half of them. names.h lists
 * them.
 */
#ifndef MM_INTERPOSE_HOOKS_H
#define MM_INTERPOSE_HOOKS_H

#include <stddef.h>

#include "interpose/preload/attach.h"
#include "interpose/preload/resolve.h"

/* Begins the definition of a hook. */
#define HOOK(symbol)                                                                                  \
    __asm__(".globl " #symbol "\n.type " #symbol ", %function\n.set " #symbol ", mmh_" #symbol "\n"); \
    __attribute__((used, visibility("hidden"))) CUresult mmh_##symbol

/* Calls the driver's function behind a hook of the same file. */
#define REAL(symbol, ...) \
    (mm_hook_real(MM_HOOK_##symbol) ? ((__typeof__(&mmh_##symbol))mm_hook_real(MM_HOOK_##symbol))(__VA_ARGS__) : CUDA_ERROR_NOT_INITIALIZED)

/* Whether a call that failed with r for lack of memory should be repeated, since memory was given back: first by pools, all that is free in them; then by heaps,
 * about as much as the call wants; then by heaps, all they can. */
__attribute__((cold)) bool mm_hook_has_more(CUresult r, uint64_t bytes, int *times);
/* The result of a call that wants `bytes` of device memory (0: unknown), repeated as long as memory is given back. */
#define WITH_MEMORY(bytes, call)                                                                                            \
    ({                                                                                                                      \
        int times_ = 0;                                                                                                     \
        CUresult r_;                                                                                                        \
        do r_ = (call);                                                                                                     \
        while (__builtin_expect(r_ == CUDA_ERROR_OUT_OF_MEMORY || times_ != 0, 0) && mm_hook_has_more(r_, bytes, &times_)); \
        r_;                                                                                                                 \
    })

/* NULL: no context is current. */
static inline CUcontext current_context(void) {
    const struct mm_driver *d = mm_driver_get();
    CUcontext context = NULL;
    return d && d->cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

#endif
