/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the kinds of books (fit.h) implement. All addresses and lengths are in grains here. */
#ifndef MM_HOST_FIT_BOOKS_H
#define MM_HOST_FIT_BOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range that was added. */
struct mm_fit_range {
    uint64_t base, length;
    uint64_t *bits; /* bitmask: of its grains */
};

struct mm_fit;
struct mm_fit_lists; /* hash.h */

typedef void mm_fit_visit(void *arg, uint64_t base, uint64_t length, bool is_live);

struct mm_fit_ops {
    size_t bytes;                     /* of its struct, which begins with struct mm_fit; all zero: empty books */
    const struct mm_fit_lists *lists; /* of tlsf and segregated */
    /* Frees what the struct points to. */
    void (*drop)(struct mm_fit *fit);
    /* Adds a range, which is not in fit->range yet; may set bits. False: the host has no memory. */
    bool (*add)(struct mm_fit *fit, struct mm_fit_range *range);
    /* Whether nothing in the range is live. */
    bool (*is_unused)(struct mm_fit *fit, const struct mm_fit_range *range);
    /* Removes a range in which nothing is live. */
    void (*remove)(struct mm_fit *fit, struct mm_fit_range *range);
    /* Returns the address, or 0. */
    uint64_t (*allocate)(struct mm_fit *fit, uint64_t length);
    /* These return the length, or 0. */
    uint64_t (*free)(struct mm_fit *fit, uint64_t base);
    uint64_t (*live)(struct mm_fit *fit, uint64_t base);
    uint64_t (*largest)(struct mm_fit *fit);
    /* Calls `visit` for the blocks of a range, by address. */
    void (*walk)(struct mm_fit *fit, const struct mm_fit_range *range, mm_fit_visit *visit, void *arg);
    /* Checks what only this kind keeps. */
    const char *(*check)(struct mm_fit *fit);
};

extern const struct mm_fit_ops mm_fit_tlsf, mm_fit_segregated, mm_fit_bitmask, mm_fit_first, mm_fit_next, mm_fit_best;

struct mm_fit {
    const struct mm_fit_ops *ops;
    unsigned grain_shift;
    uint64_t free_length, live_length;
    struct mm_fit_range *range; /* sorted by address */
    size_t range_count, range_room;
};

/* Returns the first range that ends above the address, or range_count. */
size_t mm_fit_range_from(const struct mm_fit *fit, uint64_t unit);
/* Returns the range that contains the address, or NULL. */
struct mm_fit_range *mm_fit_range_of(const struct mm_fit *fit, uint64_t unit);

/* The complexity test counts steps: entries, nodes and words that are looked at or moved. */
#ifdef MM_FIT_COUNTS
extern uint64_t mm_fit_steps;
#define MM_FIT_STEPS(n) (mm_fit_steps += (n))
#else
#define MM_FIT_STEPS(n) ((void)0)
#endif

#endif
