/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A text that grows. */
#ifndef MM_LOAD_TEXT_H
#define MM_LOAD_TEXT_H

#include <stddef.h>

/* All zero: empty. It needs mm_text_free. */
struct mm_text {
    char *data; /* zero-terminated; NULL if nothing was added */
    size_t bytes;
    size_t room;
};

/* Appends; keeps the text zero-terminated. Returns 0, or -1 without memory. */
int mm_text_add(struct mm_text *t, const char *data, size_t bytes);
int mm_text_add_string(struct mm_text *t, const char *string);

void mm_text_free(struct mm_text *t);

#endif
