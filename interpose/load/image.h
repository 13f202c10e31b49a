/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What an image is that a program hands to the driver. Its size is mostly not known: it says itself where it ends. */
#ifndef MM_INTERPOSE_IMAGE_H
#define MM_INTERPOSE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "interpose/load/fatbin.h"
#include "interpose/load/ptx/text.h"

/* Whether it begins as PTX text does: white space and comments, then .version. Reads no further than that. */
bool mm_image_is_ptx(const char *image);

/* Reads a whole file, zero-terminated, if it is a regular one; of what begins like neither PTX nor a cubin, nothing. Returns
 * false without a trace if it cannot be had: the driver will say so. text needs mm_text_free. */
bool mm_image_try_read(const char *path, struct mm_text *text);

/* Whether it is a fat binary, or what refers to one. */
bool mm_image_is_fatbin(const void *image);

/* Whether these bytes, those of a file, are one, and all of it. */
bool mm_image_holds_fatbin(const void *image, size_t bytes);

enum mm_image_kind { MM_IMAGE_NONE, MM_IMAGE_PTX, MM_IMAGE_CUBIN };

/* What the driver would take from a fat binary for a device of architecture `arch` (90), decompressed: the newest machine code that the
 * device can run, or, if there is none, or `is_ptx_forced` (CUDA_FORCE_PTX_JIT=1) forbids it, the newest PTX. Not the PTX of a device link, several
 * texts of which the driver makes one. `chosen` needs mm_fatbin_payload_free, whatever the answer; PTX may end without a zero. */
enum mm_image_kind mm_image_choose(const void *image, int arch, bool is_ptx_forced, struct mm_fatbin_payload *chosen);

#endif
