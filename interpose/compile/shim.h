/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Functions shared by the stand-ins for the toolkit's programs. */
#ifndef MM_INTERPOSE_SHIM_H
#define MM_INTERPOSE_SHIM_H

#include "interpose/load/ptx/text.h"

/* Prints one line for the user. Returns 1, for use as the exit status. */
int mm_shim_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes VIEW/name to path. VIEW is the toolkit view (see mmview) through which this program was called: the
 * parent of the folder in the path it was executed by. Returns 0, or an exit status. */
int mm_shim_path(char *path, size_t bytes, const char *name);

/* Runs a program with argv and waits for it. Returns its exit status. */
int mm_shim_run(const char *program, char **argv);

/* The same, with stdout and stderr redirected to out and err, unless negative. */
int mm_shim_run_into(const char *program, char **argv, int out, int err);

/* Reads a whole file, zero-terminated. Returns 0, or -1 with errno; text needs mm_text_free. */
int mm_shim_read(const char *path, struct mm_text *text);

#endif
