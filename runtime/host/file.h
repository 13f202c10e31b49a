/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Files that this process writes. Pictures and statistics have files of their own; each kind is written by one thread at a time. */
#ifndef MM_HOST_FILE_H
#define MM_HOST_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether this process has noted that it wrote the file; notes it. "" is standard error. The caller excludes others. */
bool mm_file_was_written(const char *path);
void mm_file_note(const char *path);

/* Writes a file. If that fails, prints a message, in which `what` names the contents, and returns false. is_more: append. */
bool mm_file_try_write(const char *what, const char *path, const char *text, size_t bytes, bool is_more);

#endif
