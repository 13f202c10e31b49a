/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Two sorted lists of ranges of device memory: by address, the ranges that pools have from the driver; by length, those of one pool that are free. A list is
 * an array, since a range is added or removed as rarely as the driver is called, or moves a few entries. Not thread-safe: the caller locks.
 */
#ifndef MM_HOST_POOL_RANGES_H
#define MM_HOST_POOL_RANGES_H

#include <stdbool.h>
#include <stdint.h>

struct mm_pool;

struct mm_pool_range {
    uint64_t base, bytes;
    struct mm_pool *pool;
    bool is_slab; /* allocations are carved from it; else it is one allocation, or free */
};

struct mm_pool_ranges {
    struct mm_pool_range *list;
    uint64_t count, room;
};

/* Makes room for `count` ranges in all. Returns false if the host has no memory. */
bool mm_pool_ranges_try_reserve(struct mm_pool_ranges *r, uint64_t count);
/* Adds a range; there is room. */
void mm_pool_ranges_add_by_base(struct mm_pool_ranges *r, struct mm_pool_range range);
void mm_pool_ranges_add_by_bytes(struct mm_pool_ranges *r, struct mm_pool_range range);
/* Returns the range that contains the address, or NULL. The list is sorted by address. */
struct mm_pool_range *mm_pool_ranges_containing(const struct mm_pool_ranges *r, uint64_t address);
/* Returns the shortest range of at least `bytes` bytes, the last one added of several (it may still be in a cache), or NULL. The list is sorted by length. */
struct mm_pool_range *mm_pool_ranges_best(const struct mm_pool_ranges *r, uint64_t bytes);
/* Removes one that a function above returned. */
void mm_pool_ranges_remove(struct mm_pool_ranges *r, struct mm_pool_range *at);

#endif
