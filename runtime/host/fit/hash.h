/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Blocks with boundary tags outside the memory, for the kinds with lists: tlsf and segregated (Bell et al., section on segregated fit over a hash table).
 *
 * Representation: a node for each block, free or live; a hash table from addresses to nodes; links to the blocks next to it in its range; free blocks
 * are also in a list of the kind's. Nodes are numbers, so that the array of nodes can move; node 0 is none. The paper finds the upper neighbour by its
 * address. Here it is a link, which saves a look-up and ends at the range's end.
 *
 * Memory: an allocation that leaves a rest needs a node, which is there before anything is changed. A free only merges, so it needs none. The array
 * doubles when it is full, with the buckets, and does not shrink.
 */
#ifndef MM_HOST_FIT_HASH_H
#define MM_HOST_FIT_HASH_H

#include "runtime/host/fit/books.h"

struct mm_fit_node {
    uint64_t base, length;
    uint32_t lower, upper;   /* neighbours in the range */
    uint32_t next, previous; /* of a free block: in its list; next of an unused node: another one */
    uint32_t chain;          /* the next node of the same bucket */
    bool is_free;
};

struct mm_fit_hash;

/* The lists of a kind. */
struct mm_fit_lists {
    void (*put)(struct mm_fit_hash *h, uint32_t node);
    void (*take)(struct mm_fit_hash *h, uint32_t node);
    /* Returns a free block of at least that length, or 0. */
    uint32_t (*search)(const struct mm_fit_hash *h, uint64_t length);
};

struct mm_fit_hash {
    struct mm_fit fit;
    struct mm_fit_node *node;
    uint32_t *bucket; /* as many as nodes */
    uint32_t room;    /* nodes, with number 0; a power of two */
    uint32_t used;    /* nodes below this number were used */
    uint32_t unused;  /* list of those that are not used any more */
};

/* The functions of struct mm_fit_ops. */
void mm_fit_hash_drop(struct mm_fit *fit);
bool mm_fit_hash_add(struct mm_fit *fit, struct mm_fit_range *range);
bool mm_fit_hash_is_unused(struct mm_fit *fit, const struct mm_fit_range *range);
void mm_fit_hash_remove(struct mm_fit *fit, struct mm_fit_range *range);
uint64_t mm_fit_hash_allocate(struct mm_fit *fit, uint64_t length);
uint64_t mm_fit_hash_free(struct mm_fit *fit, uint64_t base);
uint64_t mm_fit_hash_live(struct mm_fit *fit, uint64_t base);
void mm_fit_hash_walk(struct mm_fit *fit, const struct mm_fit_range *range, mm_fit_visit *visit, void *arg);

/* Lists: *head is the first node, or 0. */
void mm_fit_list_put(struct mm_fit_hash *h, uint32_t *head, uint32_t node);
void mm_fit_list_take(struct mm_fit_hash *h, uint32_t *head, uint32_t node);
/* Returns the first of the first MM_FIT_LOOKS nodes with at least that length, or 0. */
uint32_t mm_fit_list_look(const struct mm_fit_hash *h, uint32_t head, uint64_t length);
/* Returns the largest length in a list; 0 if it is empty. */
uint64_t mm_fit_list_largest(const struct mm_fit_hash *h, uint32_t head);
/* Checks a list, whose blocks have lengths of least to most, and adds the number of its nodes to *count. Returns NULL, or what is wrong. */
const char *mm_fit_list_check(const struct mm_fit_hash *h, uint32_t head, uint64_t least, uint64_t most, uint64_t *count);
/* Checks the nodes, of which `listed` were in lists. Returns NULL, or what is wrong. */
const char *mm_fit_hash_check(struct mm_fit *fit, uint64_t listed);

#endif
