/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What is in use, by a walk over what the allocator keeps anyway: malloc and free count nothing for it.
 *
 * Beside callers it is a snapshot of each segment at another moment: what is counted then lies between what was there at the
 * beginning and at the end, give or take what went to and fro. Of a heap in which nobody is at work it is exact.
 */
#ifndef MM_CORE_USAGE_H
#define MM_CORE_USAGE_H

#include "runtime/core/stripe.h"

struct mm_class_usage {
    uint64_t segments;
    uint64_t blocks, whole_blocks; /* of those segments; of which nothing is handed out */
    uint64_t live;                 /* slices handed out, that have not come back */
};
/* Zero before. */
struct mm_usage {
    uint64_t free_segments, class_segments, run_segments; /* the others are not mapped, or on their way */
    uint64_t runs;
    uint64_t largest_free; /* free segments in a row, within one part of the walk */
    struct mm_class_usage classes[MM_CLASS_COUNT];
};

/* How many slices of block j of segment s, class c, have been handed out at least once since it was whole. */
MM_FN_RARE uint32_t mm_usage_issued(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j) {
    const uint32_t first = j << ref->classes[c].block_shift;
    uint32_t low = 0, high = mm_class_block_slices(ref->classes[c], j); /* [0, low) have been, [high, ...) have not */
    if (!(mm_load_relaxed_u64(&mm_segment_at(ref, s)->unissued) >> j & 1)) return high;
    MM_ROLLED
    while (low < high) {
        const uint32_t i = (low + high) / 2;
        if (mm_stripe_misuse(ref, s, c, first + i) == 0) low = i + 1;
        else high = i;
    }
    return low;
}

/* Block j of segment s, class c, of which so many slices have been issued: whether slice i of the segment, in that block, is live. */
MM_FN int mm_usage_is_live(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j, uint32_t issued, uint32_t i) {
    const uint64_t word = mm_load_relaxed_u64(mm_segment_bits(ref, s) + (i >> MM_WORD_SHIFT));
    return i - (j << ref->classes[c].block_shift) < issued && !(word >> (i % (1u << MM_WORD_SHIFT)) & 1);
}

/* Block j of segment s, class c, which is not whole: how many of its slices are live. */
MM_FN_RARE uint32_t mm_usage_block(const struct mm_heap_ref *ref, uint32_t s, uint32_t c, uint32_t j) {
    const uint32_t issued = mm_usage_issued(ref, s, c, j);
    uint64_t *bits = mm_segment_bits(ref, s) + mm_block_first_word(ref->classes[c], j);
    uint32_t back = 0;
    MM_ROLLED
    for (uint32_t i = 0; i < issued; i += 1u << MM_WORD_SHIFT)
        back += mm_popcount(mm_load_relaxed_u64(&bits[i >> MM_WORD_SHIFT]) & mm_bits_low(issued - i));
    return issued - back;
}

/* Adds what is in segments [first, end). */
MM_FN_RARE void mm_usage_walk(const struct mm_heap_ref *ref, uint32_t first, uint32_t end, struct mm_usage *usage) {
    const struct mm_tree t = mm_segment_free_tree(ref);
    uint64_t row = 0;
    MM_ROLLED
    for (uint32_t s = first; s < end; s++) {
        struct mm_segment *at = mm_segment_at(ref, s);
        const uint64_t owner = mm_load_relaxed_u64(&at->owner), whole = mm_load_relaxed_u64(&at->whole);
        const uint32_t c = MM_OWNER_KIND(owner) - 1;
        const int is_free = (int)(mm_load_relaxed_u64(mm_tree_leaf(t, s)) >> (s % 64) & 1);
        row = is_free ? row + 1 : 0;
        if (row > usage->largest_free) usage->largest_free = row;
        usage->free_segments += (uint64_t)is_free;
        if (is_free) continue;
        if (c >= MM_CLASS_COUNT) {
            usage->run_segments += c + 1 == MM_OWNER_RUN || c + 1 == MM_OWNER_RUN_BODY;
            usage->runs += c + 1 == MM_OWNER_RUN;
            continue;
        }
        struct mm_class_usage *of = &usage->classes[c];
        usage->class_segments++, of->segments++;
        of->blocks += ref->classes[c].blocks, of->whole_blocks += mm_popcount(whole & mm_bits_low(ref->classes[c].blocks));
        MM_ROLLED
        for (uint32_t j = 0; j < ref->classes[c].blocks; j++)
            if (!(whole >> j & 1)) of->live += mm_usage_block(ref, s, c, j);
    }
}

#endif
