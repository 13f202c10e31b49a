/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Books of a pool (runtime/host/fit/fit.h) and an exact oracle of them: an array of blocks, sorted by address, in which everything is searched from the
 * beginning. It predicts each address, of each kind: for tlsf and segregated it knows in which order free blocks were put into their lists.
 *
 * Each function calls the books and the oracle, and compares. It returns NULL, or how they differ.
 */
#ifndef MM_TESTS_POOL_PAIR_H
#define MM_TESTS_POOL_PAIR_H

#include <stddef.h>

#include "runtime/host/fit/fit.h"

struct pair_block {
    uint64_t base, bytes;
    uint64_t put; /* of a free block: when it was put into a list, later is more */
    bool is_live, is_first;
};

/* Calls for memory by the books, and how many of these failed. While one fails, a function must fail and change nothing. */
struct host_memory {
    unsigned calls, failed;
};

struct pair {
    struct mm_fit *fit;
    enum mm_fit_kind kind;
    uint64_t grain;
    struct pair_block *block;
    size_t count, room;
    uint64_t cursor; /* end of the last allocation */
    uint64_t puts;
    const struct host_memory *memory; /* NULL: the host has enough */
};

const char *pair_begin(struct pair *p, enum mm_fit_kind kind, uint64_t grain);
void pair_end(struct pair *p);
/* *is_added: whether it was accepted; may be NULL. */
const char *pair_add(struct pair *p, uint64_t base, uint64_t bytes, bool *is_added);
const char *pair_allocate(struct pair *p, uint64_t bytes, uint64_t *address);
const char *pair_free(struct pair *p, uint64_t address);
/* mm_fit_live and mm_fit_find. */
const char *pair_look(struct pair *p, uint64_t address);
const char *pair_shrink(struct pair *p, uint64_t keep_bytes);
/* All blocks, sums, the largest block, and mm_fit_check. */
const char *pair_compare(struct pair *p);
/* The address of live allocation i, counted modulo how many there are; 0 if there is none. */
uint64_t pair_live(const struct pair *p, size_t i);

#endif
