/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the hooks have in common: the functions that stand in front of the driver's (hook_*.c). Each does what it must, then the
 * driver's own answer goes back unchanged. They are written under the name mmh_<symbol> and exported as <symbol>, since cuda.h's
 * macros would rename half of them; names.h lists them all.
 */
#ifndef MM_INTERPOSE_HOOKS_H
#define MM_INTERPOSE_HOOKS_H

#include <stddef.h>

#include "interpose/preload/attach.h"
#include "interpose/preload/resolve.h"

/* Begins the definition of a hook. */
#define HOOK(symbol)                                                                                      \
    __asm__(".globl " #symbol "\n.type " #symbol ", %function\n.set " #symbol ", mmh_" #symbol "\n");     \
    __attribute__((used, visibility("hidden"))) CUresult mmh_##symbol

/* Calls the driver's function behind a hook of the same file. */
#define REAL(symbol, ...)                                                                                 \
    (mm_hook_real(MM_HOOK_##symbol) ? ((__typeof__(&mmh_##symbol))mm_hook_real(MM_HOOK_##symbol))(__VA_ARGS__) \
                                    : CUDA_ERROR_NOT_INITIALIZED)

/* Whether a call that answered r for lack of memory, now or before, is to be made again: heaps gave some back, the first time about
 * as much as it wants, the second time all they could. */
__attribute__((cold)) bool mm_hook_has_more(CUresult r, uint64_t bytes, int *times);
/* The answer of a call that wants `bytes` of the device's memory (0: not known), made again as long as that helps. */
#define WITH_MEMORY(bytes, call)                                                                          \
    ({                                                                                                    \
        int times_ = 0;                                                                                   \
        CUresult r_;                                                                                      \
        do r_ = (call);                                                                                   \
        while (__builtin_expect(r_ == CUDA_ERROR_OUT_OF_MEMORY || times_ != 0, 0) && mm_hook_has_more(r_, bytes, &times_)); \
        r_;                                                                                               \
    })

/* NULL: there is none. */
static inline CUcontext current_context(void) {
    const struct mm_driver *d = mm_driver_get();
    CUcontext context = NULL;
    return d && d->cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

#endif
