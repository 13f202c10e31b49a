/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The one way in which the host side speaks: a line on standard error that begins with "mm: ". */
#ifndef MM_HOST_SAY_H
#define MM_HOST_SAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One line, one write, whatever standard error is: nothing if it is closed, or was when the program began; no SIGPIPE for a pipe
 * without a reader; a pipe, socket or terminal that nobody reads is waited for, MM_HOST_SAY_MS in all. Without the prefix and the newline in `format`. Keeps errno. */
void mm_host_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A text as it is, in the same way. Returns whether all of it was written. */
bool mm_host_say_text(const char *text, size_t bytes);

/* Room for the text of a size. */
struct mm_host_size_text {
    char text[32];
};

/* Size as a person would write it: "64.0 MiB". */
struct mm_host_size_text mm_host_size(uint64_t bytes);

#endif
