/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Device links: runs the toolkit's programs, and checks whether a linked image needs the driver's allocator.
 *
 * nvlink refuses a link if a called function uses more registers than its caller's cap. device/mm32.a uses at
 * most 32, which __launch_bounds__(1024,2) leaves; programs with a lower cap (-maxrregcount 24) get
 * device/mm24.a. There is no lower cap than 24.
 */
#ifndef MM_INTERPOSE_DEVLINK_H
#define MM_INTERPOSE_DEVLINK_H

#include <stdio.h>

/* One run of a program, and its output. */
struct mm_attempt {
    int status;
    FILE *said[2]; /* stdout, stderr */
};

/* Runs `program` with argv[0..argc-1] and then, unless NULL, `more`; keeps its output. */
struct mm_attempt mm_attempt_run(const char *program, int argc, char **argv, char *more);

/* Prints the output, without the warnings that mm's library is machine code (-dlto), that it is linked to a whole program, and, with of_stacks 0, that a
 * stack's size is unknown. */
void mm_attempt_repeat(const struct mm_attempt *a, int of_stacks);

/* The first line that mm_attempt_repeat would print; if none, the exit status. */
void mm_attempt_first_line(const struct mm_attempt *a, char *line, size_t bytes);

/* Whether it failed and reported mm_usable_size undefined. nvlink accepts the other functions undefined, because the driver has them. */
int mm_attempt_lacks(const struct mm_attempt *a);

/* The device-side allocation function that a linked cubin leaves undefined; NULL if none. */
const char *mm_devlink_lacks(const char *path);

/* Reports it to the user. arch: "sm_90"; NULL if unknown. Returns 1. */
int mm_devlink_complain(const char *missing, const char *arch);

#endif
