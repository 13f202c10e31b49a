/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Code and the allocator's machine code, linked by the driver when the code is loaded.
 *
 * PTX: the driver's compiler puts YIELD in front of atomics and at the head of loops: of a warp that runs one, lanes that wait at a convergence barrier go
 * on alone. The allocator compiled by the driver would therefore split the warps of its callers. mm's machine code has no YIELD, and the driver's linker
 * takes it together with the program's text, which stays as it is. It compiles the text as relocatable code. That can fail where a whole program compiles,
 * if a kernel with a limit on registers calls a function that needs more: the text is then compiled with such a limit for all functions, and for the
 * kernels that have none.
 *
 * Finished machine code that lacks a service: load/cubin.h. Nothing of the program's changes.
 */
#ifndef MM_INTERPOSE_LINK_H
#define MM_INTERPOSE_LINK_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include "interpose/load/cubin.h"
#include "mmconfig.h"

/* Options by which a loader resolves symbols: the only ones that mean anything for machine code. */
#define MM_LINK_LOADER_OPTIONS 3

/* The program's and ours: a target, a limit on registers, a log and its size. */
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
    /* The linker's options. Their values and logs, into which the linker writes, are copies: if the link or the load fails, the
     * program's own have not changed. */
    CUjit_option linker_options[MM_LINK_OPTIONS_MAX];
    void *linker_values[MM_LINK_OPTIONS_MAX];
    unsigned from[MM_LINK_OPTIONS_MAX];     /* index of the program's option, or MM_LINK_OURS */
    unsigned log_room[MM_LINK_OPTIONS_MAX]; /* bytes of the program's log; 0: the option is no log */
    unsigned linker_count;
};

/* What is linked. */
struct mm_link_input {
    enum mm_cubin_kind kind; /* of machine code, MM_CUBIN_WHOLE or MM_CUBIN_EXTENSIBLE; MM_CUBIN_NONE: PTX */
    const void *data;
    size_t bytes; /* of PTX, behind which there is a zero, without that */
};

/* Links the input with the allocator's machine code for devices of architecture `arch` (90). is_foreign: which need not be the current device's. options,
 * values, count: the program's, for loading it; at most MM_JIT_OPTIONS_MAX. On success the link needs mm_link_drop. Returns false without an image if it
 * cannot be linked; then `why` says what stood in the way. */
bool mm_link_try(struct mm_link *l, const struct mm_link_input *in, int arch, bool is_foreign, const CUjit_option *options, void *const *values,
                 unsigned count, char *why, size_t why_bytes);

/* The architectures (90) that an image is loaded for: the current device's, or, of a library, those of all devices, each once, the oldest first. Returns
 * how many they are; 0: not known. */
unsigned mm_link_archs(bool is_library, int archs[MM_LINK_ARCHS_MAX]);

/* Gives the program what the linker wrote: logs, and values of options. values: the program's. */
void mm_link_give(const struct mm_link *l, void **values);

/* Frees what the link holds. */
void mm_link_drop(struct mm_link *l);

#endif
