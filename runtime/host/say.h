/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Messages of the host side: lines on standard error that begin with "mm: ". */
#ifndef MM_HOST_SAY_H
#define MM_HOST_SAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints one line with one write, whatever standard error is. Prints nothing if standard error is closed, or was closed when the program began. Raises no
 * SIGPIPE for a pipe without a reader. Waits at most MM_HOST_SAY_MS for room in a pipe, socket or terminal that no process reads. `format` has no prefix
 * and no newline. Keeps errno. */
void mm_host_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a text as it is, in the same way. Returns whether all of it was written. */
bool mm_host_say_text(const char *text, size_t bytes);

struct mm_host_size_text {
    char text[32];
};

/* A size as text, such as "64.0 MiB". */
struct mm_host_size_text mm_host_size(uint64_t bytes);

#endif
