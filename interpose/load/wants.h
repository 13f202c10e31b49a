/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Finds which of the allocator's functions an image leaves undefined. */
#ifndef MM_LOAD_WANTS_H
#define MM_LOAD_WANTS_H

#include <stddef.h>

/* A set of these. */
enum {
    MM_WANTS_MALLOC = 1,
    MM_WANTS_FREE = 2,
    MM_WANTS_ALIGNED = 4,     /* __cuda_syscall_aligned_malloc */
    MM_WANTS_USABLE_SIZE = 8, /* mm_usable_size */
    MM_WANTS_UNREADABLE = 16  /* no 64-bit ELF file for CUDA, or a damaged one: not known */
};

/* What the cubin of `bytes` bytes leaves undefined, from its symbol table alone; any alignment. A cubin without symbols wants nothing. */
unsigned mm_wants_of_elf(const void *cubin, size_t bytes);

/* The name of the first function in such a set; NULL if there is none. */
const char *mm_wants_name(unsigned wanted);

#endif
