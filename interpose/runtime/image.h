/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What an image is that a program hands to the driver. Its size is mostly not known: it says itself where it ends. */
#ifndef MM_INTERPOSE_IMAGE_H
#define MM_INTERPOSE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "interpose/splice/splice.h"

/* Whether it begins as PTX text does: white space and comments, then .version. Reads no further than that. */
bool mm_image_is_ptx(const char *image);

/* Reads a whole file, zero-terminated, if it is a regular one; of what begins like neither PTX nor a cubin, nothing. Returns
 * false without a trace if it cannot be had: the driver will say so. text needs mm_splice_text_free. */
bool mm_image_try_read(const char *path, struct mm_splice_text *text);

/* Whether it is a fat binary, or what refers to one. */
bool mm_image_is_fatbin(const void *image);

/* Whether these bytes, those of a file, are one, and all of it. */
bool mm_image_holds_fatbin(const void *image, size_t bytes);

/* The PTX that the driver would compile for a device of architecture `arch` (90) from a fat binary, the newest that the device can run,
 * if there is no machine code for the device in it, or CUDA_FORCE_PTX_JIT=1 forbids that: zero-terminated, for free(). NULL: there is
 * machine code, or no such text, or the image is none. */
char *mm_image_try_ptx(const void *image, int arch);

#endif
