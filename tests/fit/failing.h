/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Included before the sources of the books: their host memory comes from test_memory.c, where it fails. */
#ifndef MM_TESTS_POOL_FAILING_H
#define MM_TESTS_POOL_FAILING_H

#include <stdlib.h>

void *failing_realloc(void *old, size_t bytes);
void *failing_calloc(size_t count, size_t bytes);

#define malloc(bytes) failing_realloc(NULL, bytes)
#define realloc failing_realloc
#define calloc failing_calloc

#endif
