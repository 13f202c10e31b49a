/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/pool/ranges.h"

#include <stdlib.h>
#include <string.h>

bool mm_pool_ranges_try_reserve(struct mm_pool_ranges *r, uint64_t count) {
    if (count <= r->room) return true;
    const uint64_t room = count < 16 ? 16 : 2 * count;
    struct mm_pool_range *const list = (struct mm_pool_range *)realloc(r->list, room * sizeof *list);
    if (!list) return false;
    r->list = list, r->room = room;
    return true;
}

static void insert(struct mm_pool_ranges *r, uint64_t i, struct mm_pool_range range) {
    memmove(&r->list[i + 1], &r->list[i], (r->count - i) * sizeof *r->list);
    r->list[i] = range;
    r->count++;
}

/* The number of ranges whose base is at most `address`. */
static uint64_t up_to(const struct mm_pool_ranges *r, uint64_t address) {
    uint64_t from = 0, end = r->count;
    while (from < end) {
        const uint64_t middle = from + (end - from) / 2;
        if (r->list[middle].base <= address) from = middle + 1;
        else end = middle;
    }
    return from;
}

/* The number of ranges shorter than `bytes`. */
static uint64_t shorter(const struct mm_pool_ranges *r, uint64_t bytes) {
    uint64_t from = 0, end = r->count;
    while (from < end) {
        const uint64_t middle = from + (end - from) / 2;
        if (r->list[middle].bytes < bytes) from = middle + 1;
        else end = middle;
    }
    return from;
}

void mm_pool_ranges_add_by_base(struct mm_pool_ranges *r, struct mm_pool_range range) { insert(r, up_to(r, range.base), range); }
void mm_pool_ranges_add_by_bytes(struct mm_pool_ranges *r, struct mm_pool_range range) { insert(r, shorter(r, range.bytes), range); }

struct mm_pool_range *mm_pool_ranges_containing(const struct mm_pool_ranges *r, uint64_t address) {
    const uint64_t i = up_to(r, address);
    return i != 0 && address - r->list[i - 1].base < r->list[i - 1].bytes ? &r->list[i - 1] : NULL;
}

struct mm_pool_range *mm_pool_ranges_best(const struct mm_pool_ranges *r, uint64_t bytes) {
    const uint64_t i = shorter(r, bytes);
    return i < r->count ? &r->list[i] : NULL;
}

void mm_pool_ranges_remove(struct mm_pool_ranges *r, struct mm_pool_range *at) {
    const uint64_t i = (uint64_t)(at - r->list);
    r->count--;
    memmove(at, at + 1, (r->count - i) * sizeof *at);
}
