/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Links code with the allocator's machine code by the driver's linker, when the code is loaded.
 *
 * PTX: the driver's compiler puts YIELD in front of atomics and at the head of loops. When some lanes of a warp execute a YIELD, lanes that wait for them at a
 * convergence barrier continue alone. If the driver compiled the allocator, it would therefore split its callers' warps. mm's machine code has no YIELD, and
 * the driver's linker accepts it together with the program's PTX, which is not changed. The linker compiles the PTX as relocatable code. That can fail where a
 * whole program compiles: if a kernel with a limit on registers calls a function that needs more. The PTX is then compiled with such a limit for all functions,
 * and for the kernels without a limit.
 *
 * Machine code that lacks a function of the allocator: load/cubin.h. The program's code does not change.
 */
#ifndef MM_INTERPOSE_LINK_H
#define MM_INTERPOSE_LINK_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include "interpose/load/cubin.h"
#include "mmconfig.h"

/* Options by which a loader resolves symbols, the only ones that matter for machine code. */
#define MM_LINK_LOADER_OPTIONS 3

/* The program's options and ours: a target, a limit on registers, a log and its size. */
#define MM_LINK_OPTIONS_MAX (MM_JIT_OPTIONS_MAX + 4)
#define MM_LINK_OURS (~0u)

/* One link. All zero: nothing was linked. */
struct mm_link {
    void *image; /* machine code; NULL if there is none */
    size_t image_bytes;
    /* The program's options for loading the image. */
    CUjit_option options[MM_LINK_LOADER_OPTIONS];
    void *values[MM_LINK_LOADER_OPTIONS];
    unsigned count;
    /* The linker's options. The linker writes into their values and logs, so these are copies: a failed link or load
     * leaves the program's unchanged. */
    CUjit_option linker_options[MM_LINK_OPTIONS_MAX];
    void *linker_values[MM_LINK_OPTIONS_MAX];
    unsigned from[MM_LINK_OPTIONS_MAX];     /* index of the program's option, or MM_LINK_OURS */
    unsigned log_room[MM_LINK_OPTIONS_MAX]; /* bytes of the program's log; 0: the option is not a log */
    unsigned linker_count;
};

/* The input of a link. */
struct mm_link_input {
    enum mm_cubin_kind kind; /* of machine code, MM_CUBIN_WHOLE or MM_CUBIN_EXTENSIBLE; MM_CUBIN_NONE: PTX */
    const void *data;
    size_t bytes;  /* of PTX: without the terminating zero */
    int allocator; /* which one it was compiled for (load/ptx/names.h); 0: that of the run, the default or the one that MM_RUN_ALLOCATOR names */
};

/* Links the input with the allocator's machine code for devices of architecture `arch` (90). is_foreign: it may differ from the current device's. options,
 * values, count: the program's, for loading it; at most MM_JIT_OPTIONS_MAX. On success, the caller frees the link with mm_link_drop. On failure, returns
 * false without an image, and the reason in `why`. */
bool mm_link_try(struct mm_link *l, const struct mm_link_input *in, int arch, bool is_foreign, const CUjit_option *options, void *const *values, unsigned count,
                 char *why, size_t why_bytes);

/* The architectures (90) that an image is loaded for: the current device's, or for a library those of all devices, each once, oldest first. Returns
 * their number; 0: unknown. */
unsigned mm_link_archs(bool is_library, int archs[MM_LINK_ARCHS_MAX]);

/* Copies the linker's output, logs and values of options, to the program. values: the program's. */
void mm_link_give(const struct mm_link *l, void **values);

/* Frees what the link holds. */
void mm_link_drop(struct mm_link *l);

/* Whether the allocator that MM_RUN_ALLOCATOR names is there. If not, the default is linked instead. */
bool mm_link_has_asked(void);

#endif
