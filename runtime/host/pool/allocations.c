/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "runtime/host/pool/allocations.h"

#include <stdlib.h>

#include "mmconfig.h"

/* Fibonacci hashing: the low bits of an address are zero, the middle ones differ. */
static uint64_t place_of(const struct mm_allocations *t, uint64_t address) {
    return ((address >> MM_POOL_GRAIN_SHIFT) * 0x9e3779b97f4a7c15ull >> 20) & t->mask;
}

static struct mm_allocation *first_empty(struct mm_allocations *t, uint64_t address) {
    uint64_t i = place_of(t, address);
    while (t->places[i].address != 0) i = (i + 1) & t->mask;
    return &t->places[i];
}

/* Makes room for one more: at most half of the places are taken. */
static bool try_grow(struct mm_allocations *t) {
    const uint64_t places = t->places ? t->mask + 1 : 0;
    if (places != 0 && (t->count + 1) * 2 <= places) return true;
    struct mm_allocations larger = {NULL, t->count, places ? 2 * places - 1 : MM_POOL_FIRST_PLACES - 1};
    larger.places = (struct mm_allocation *)calloc(larger.mask + 1, sizeof *larger.places);
    if (!larger.places) return false;
    for (uint64_t i = 0; i < places; i++)
        if (t->places[i].address != 0) *first_empty(&larger, t->places[i].address) = t->places[i];
    free(t->places);
    *t = larger;
    return true;
}

struct mm_allocation *mm_allocations_add(struct mm_allocations *t, const struct mm_allocation *a) {
    if (!try_grow(t)) return NULL;
    struct mm_allocation *const at = first_empty(t, a->address);
    *at = *a;
    t->count++;
    return at;
}

struct mm_allocation *mm_allocations_find(const struct mm_allocations *t, uint64_t address) {
    if (!t->places || address == 0) return NULL;
    for (uint64_t i = place_of(t, address); t->places[i].address != 0; i = (i + 1) & t->mask)
        if (t->places[i].address == address) return &t->places[i];
    return NULL;
}

/* Fills the gap with a later entry that would be found from there, and goes on with that one's gap. */
void mm_allocations_remove(struct mm_allocations *t, struct mm_allocation *at) {
    uint64_t gap = (uint64_t)(at - t->places);
    for (uint64_t i = (gap + 1) & t->mask; t->places[i].address != 0; i = (i + 1) & t->mask) {
        const uint64_t home = place_of(t, t->places[i].address);
        if (((i - home) & t->mask) < ((i - gap) & t->mask)) continue; /* its home lies behind the gap */
        t->places[gap] = t->places[i];
        gap = i;
    }
    t->places[gap].address = 0;
    t->count--;
}

void mm_allocations_forget(struct mm_allocations *t, const struct mm_pool *pool) {
    for (uint64_t i = 0; t->places && i <= t->mask;)
        if (t->places[i].address != 0 && t->places[i].pool == pool) mm_allocations_remove(t, &t->places[i]); /* another one may have come here */
        else i++;
}
