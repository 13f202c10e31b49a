/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* free of units: the owner of the page says that there are units, and their words what the pointer is (units.h). Each lane frees for itself. */
#ifndef MM_WALK_FREE_H
#define MM_WALK_FREE_H

#include "runtime/random_walk/units.h"
#include "runtime/listed/free.h"

/* What is left of a free (core/handles.h): MM_DEFERRED_SLICE or MM_DEFERRED_TWICE, and the unit. */
MM_FN uint32_t mm_deferred_unit(uint64_t left) { return (uint32_t)left; }

MM_FN uint64_t mm_units_locate(const struct mm_heap_ref *ref, const void *p, uint64_t bytes) {
    const uint64_t left = mm_listed_locate(ref, p, bytes, MM_WALK_UNIT_BYTES, 0);
    return mm_deferred_kind(left) == MM_DEFERRED_SLICE ? MM_DEFERRED_SLICE | (left & ~MM_DEFERRED_SLICE) >> MM_WALK_UNIT_SHIFT : left;
}

MM_FN uint64_t mm_units_mark(const struct mm_heap_ref *ref, uint64_t left) {
    if (!MM_LIKELY(mm_deferred_kind(left) == MM_DEFERRED_SLICE)) return left;
    const uint32_t unit = mm_deferred_unit(left);
    const enum mm_unit_is was = mm_units_free(ref, unit);
    if (MM_LIKELY(was == MM_UNIT_FIRST)) return 0;
    return was == MM_UNIT_FREE ? MM_DEFERRED_TWICE | unit : mm_deferred_odd(MM_MISUSE_INTERIOR, (uint64_t)unit << MM_WALK_UNIT_SHIFT);
}

/* Bytes of the allocation that begins at a unit; 0: none does. */
MM_FN_RARE uint64_t mm_units_size(const struct mm_heap_ref *ref, uint32_t unit) {
    uint64_t seen;
    if (mm_unit_look(ref, unit, &seen) != MM_UNIT_FIRST) return 0;
    return (uint64_t)mm_units_length(ref, unit, seen) << MM_WALK_UNIT_SHIFT;
}

#endif
