/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The usage walk's part for units (runtime/usage.h). A segment that is just entering or leaving the list has all units taken (units.h, I2), and is counted
 * so. */
#ifndef MM_WALK_USAGE_H
#define MM_WALK_USAGE_H

MM_FN_RARE void mm_listed_usage(const struct mm_heap_ref *ref, uint32_t s, struct mm_usage *usage) {
    uint32_t before = 0; /* whether the last unit of the word before continues */
    MM_ROLLED
    for (uint32_t w = s * MM_WALK_WORDS; w < (s + 1) * MM_WALK_WORDS; w++) {
        const uint64_t word = mm_load_relaxed_u64(mm_units_word(ref, w));
        const uint32_t continues = mm_units_continue(word), firsts = mm_units_taken(word) & ~(continues << 1 | before);
        mm_usage_add(usage, MM_WALK_UNIT_BYTES, mm_popcount(firsts & ~continues));
        MM_ROLLED
        for (uint32_t longs = firsts & continues; longs != 0; longs &= longs - 1)
            mm_usage_add(usage, (uint64_t)mm_at_most(mm_units_length(ref, w * 32 + mm_ctz(longs), word), MM_WALK_UNITS) << MM_WALK_UNIT_SHIFT, 1);
        before = continues >> 31;
    }
}
#include "runtime/listed/usage.h"

#endif
