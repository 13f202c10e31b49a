/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A growable text. */
#ifndef MM_LOAD_TEXT_H
#define MM_LOAD_TEXT_H

#include <stddef.h>

/* Empty if all zero. Needs mm_text_free. */
struct mm_text {
    char *data; /* zero-terminated; NULL if nothing was added */
    size_t bytes;
    size_t room;
};

/* Appends; keeps the text zero-terminated. Returns 0, or -1 if out of memory. */
int mm_text_add(struct mm_text *t, const char *data, size_t bytes);
int mm_text_add_string(struct mm_text *t, const char *string);

void mm_text_free(struct mm_text *t);

#endif
