/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A text that grows; inside the splicer. */
#ifndef MM_SPLICE_TEXT_H
#define MM_SPLICE_TEXT_H

#include "interpose/load/ptx/splice.h"

/* Appends; keeps the text zero-terminated. Returns 0, or -1 without memory. */
int mm_text_add(struct mm_splice_text *t, const char *data, size_t bytes);
int mm_text_add_string(struct mm_splice_text *t, const char *string);

#endif
