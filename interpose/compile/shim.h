/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the stand-ins for the toolkit's programs have in common. */
#ifndef MM_INTERPOSE_SHIM_H
#define MM_INTERPOSE_SHIM_H

#include "interpose/load/ptx/text.h"

/* One line to the user. Returns 1, the exit status that goes with it. */
int mm_shim_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* VIEW/name in path, VIEW being the folder of links (see mmview) through which we were called: the
 * parent of the folder of the name we were executed by. Returns 0, or an exit status. */
int mm_shim_path(char *path, size_t bytes, const char *name);

/* Runs a program with our arguments and waits. Returns its exit status. */
int mm_shim_run(const char *program, char **argv);

/* The same with its output in the files out and err, where not negative. */
int mm_shim_run_into(const char *program, char **argv, int out, int err);

/* Reads a whole file, zero-terminated. Returns 0, or -1 with errno; text needs mm_text_free. */
int mm_shim_read(const char *path, struct mm_text *text);

#endif
