/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Device links: runs of the toolkit's programs, and whether a linked image needs the driver's allocator.
 *
 * Behind a call stands a function that must not use more registers than its caller is capped at, or nvlink
 * refuses the link. device/mm32.a is made with at most 32, which __launch_bounds__(1024,2) leaves; programs
 * capped lower (-maxrregcount 24) get device/mm24.a, and 24 is the least there is.
 */
#ifndef MM_INTERPOSE_DEVLINK_H
#define MM_INTERPOSE_DEVLINK_H

#include <stdio.h>

/* One run of a program, and what it said. */
struct mm_attempt {
    int status;
    FILE *said[2]; /* stdout, stderr */
};

/* Runs `program` with argv[0..argc-1] and, unless NULL, one argument more; its output is kept. */
struct mm_attempt mm_attempt_run(const char *program, int argc, char **argv, char *more);

/* Passes on what it said, but that our own library is machine code (-dlto), that it is linked to a whole program, and, with of_stacks 0, warnings that a stack's
 * size is not known. */
void mm_attempt_repeat(const struct mm_attempt *a, int of_stacks);

/* The first line that would be passed on, or its status. */
void mm_attempt_first_line(const struct mm_attempt *a, char *line, size_t bytes);

/* Whether it failed, and said that it lacks a service that only mm has: of the others nvlink knows that the driver has them. */
int mm_attempt_lacks(const struct mm_attempt *a);

/* The service of device-side allocation that a linked cubin leaves undefined; NULL if none. */
const char *mm_devlink_lacks(const char *path);

/* Tells the user of it. Returns 1. */
int mm_devlink_complain(const char *missing);

#endif
