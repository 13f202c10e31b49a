/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* PTX text and the allocator's machine code, linked by the driver when the text is loaded.
 *
 * The driver's compiler puts YIELD in front of atomics and at the head of loops: of a warp that runs one, lanes that wait at a
 * convergence barrier go on alone. The allocator's text, compiled by the driver, would therefore split the warps of its callers. mm's
 * machine code has no YIELD, and the driver's linker takes it together with the program's text, which stays as it is.
 *
 * The linker compiles the text as relocatable code. That can fail where a whole program compiles, if a kernel with a limit on registers
 * calls a function that needs more. A text that does not link is spliced instead (jit.h).
 */
#ifndef MM_INTERPOSE_LINK_H
#define MM_INTERPOSE_LINK_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include "mmconfig.h"

/* Options by which a loader resolves symbols: the only ones that mean anything for machine code. */
#define MM_LINK_LOADER_OPTIONS 3

/* The program's and ours: a target, a log and its size. */
#define MM_LINK_OPTIONS_MAX (MM_JIT_OPTIONS_MAX + 3)
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

/* Links a text of `bytes` bytes and a zero with the allocator. options, values, count: the program's, for loading the text; at most
 * MM_JIT_OPTIONS_MAX. is_library: the image is for every device, so all devices must be of one architecture. Returns false if there is
 * no image: the driver does not link it, of which only MM_VERBOSE=1 tells, or the text holds what has not been tried in relocatable code
 * (managed variables, texture and surface references). On success the link needs mm_link_drop. */
bool mm_link_try(struct mm_link *l, const char *text, size_t bytes, const CUjit_option *options, void *const *values, unsigned count,
                 bool is_library);

/* The same for finished machine code that lacks a service (load/cubin.h), `bytes` of it: nothing of the program's changes. On failure `why` says what stood in
 * the way. */
bool mm_link_try_cubin(struct mm_link *l, const void *image, size_t bytes, const CUjit_option *options, void *const *values, unsigned count,
                       bool is_library, char *why, size_t why_bytes);

/* The architecture (90) of the current device, or, for a library, of all devices. Returns false if there is no such. */
bool mm_link_try_arch(bool is_library, int *arch);

/* Gives the program what the linker wrote: logs, and values of options. values: the program's. */
void mm_link_give(const struct mm_link *l, void **values);

/* Frees what the link holds. */
void mm_link_drop(struct mm_link *l);

#endif
