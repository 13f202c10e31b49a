/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* CHECK: ends the program with one line if a condition does not hold. For programs that run under libmm.so; the suites themselves use Check. */
#ifndef MM_TESTS_HOOKS_PROGRAM_CHECK_H
#define MM_TESTS_HOOKS_PROGRAM_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                   \
    do {                                                                   \
        if (!(condition)) {                                                \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

#endif
