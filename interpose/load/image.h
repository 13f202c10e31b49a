/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Identifies an image that a program passes to the driver. Its size is mostly unknown: its contents determine where it ends. */
#ifndef MM_INTERPOSE_IMAGE_H
#define MM_INTERPOSE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "interpose/load/fatbin.h"
#include "interpose/load/ptx/text.h"

/* Whether it begins like PTX text: white space and comments, then .version. Reads no further than that. */
bool mm_image_is_ptx(const char *image);

/* Reads a regular file whole, zero-terminated; leaves the text empty if the file begins like neither PTX, a cubin nor a fat binary. Returns
 * false without a message if it cannot be read: the driver will report this. text needs mm_text_free. */
bool mm_image_try_read(const char *path, struct mm_text *text);

/* Whether it is a fat binary, or a wrapper that refers to one. */
bool mm_image_is_fatbin(const void *image);

/* Whether these bytes of a file contain a complete fat binary. */
bool mm_image_holds_fatbin(const void *image, size_t bytes);

enum mm_image_kind { MM_IMAGE_NONE, MM_IMAGE_PTX, MM_IMAGE_CUBIN };

/* Chooses and decompresses what the driver would take from a fat binary for a device of architecture `arch` (90): the newest machine code that the
 * device can run, or, if there is none or `is_ptx_forced` (CUDA_FORCE_PTX_JIT=1), the newest PTX. Never chooses the PTX of a device link: several
 * texts that the driver combines into one. `chosen` needs mm_fatbin_payload_free whatever the result; PTX may lack a terminating zero. */
enum mm_image_kind mm_image_choose(const void *image, int arch, bool is_ptx_forced, struct mm_fatbin_payload *chosen);

#endif
