/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Usage of a heap, by a walk over the owners of pages. malloc and free count nothing for it.
 *
 * While other threads allocate it is a snapshot of each segment at a different moment: a count lies between its values at the beginning and at the end of the
 * walk, give or take what was allocated and freed in between. In a quiescent heap it is exact. Whatever it reads, it stays within the segment's metadata.
 */
#ifndef MM_GALLATIN_USAGE_H
#define MM_GALLATIN_USAGE_H

#include "runtime/core/segment.h"

struct mm_class_usage {
    uint64_t pages, blocks; /* it has */
    uint64_t free_blocks;   /* of those blocks, of which nothing is handed out */
    uint64_t live;          /* slices handed out, that have not come back */
};
/* Zero before. */
struct mm_usage {
    uint64_t free_segments, paged_segments, run_segments; /* paged: given away page by page. The others are not mapped, or on their way */
    uint64_t runs, spans;
    uint64_t span_pages, free_pages; /* free: of paged segments */
    uint64_t largest_free;           /* free segments in a row, within one part of the walk */
    struct mm_class_usage classes[MM_CLASS_COUNT];
};

/* Whether a block of class c begins at a page, of which a slice may be live. */
MM_FN int mm_usage_is_block(const struct mm_heap_ref *ref, uint32_t page, uint32_t c) {
    return c < MM_CLASS_COUNT && (page & ((1u << ref->classes[c].page_shift) - 1)) == 0 && !mm_word_is_dead(mm_load_relaxed_u64(mm_page_words(ref, page)));
}

/* Whether slice i of that block is live. */
MM_FN int mm_usage_is_live(const struct mm_heap_ref *ref, uint32_t page, uint32_t i) {
    const uint64_t word = mm_load_relaxed_u64(mm_page_words(ref, page) + (i >> MM_WORD_SHIFT));
    return !mm_word_is_dead(word) && !(mm_word_free(word) >> (i & ((1u << MM_WORD_SHIFT) - 1)) & 1);
}

/* How many of its slices are. */
MM_FN_RARE uint32_t mm_usage_block(const struct mm_heap_ref *ref, uint32_t page, uint32_t c) {
    const struct mm_class k = ref->classes[c];
    uint32_t live = 0;
    MM_ROLLED
    for (uint32_t i = 0; i < k.words; i++) {
        const uint64_t word = mm_load_relaxed_u64(mm_page_words(ref, page) + i);
        if (!mm_word_is_dead(word)) live += mm_popcount(~mm_word_free(word) & mm_class_word_mask(k, i));
    }
    return live;
}

/* Pages of the span that begins at a page; 0: no live one does. */
MM_FN uint32_t mm_usage_span(const struct mm_heap_ref *ref, uint32_t page) {
    const uint32_t owner = mm_load_relaxed_u8(mm_page_owner(ref, page)), n = mm_owner_span_pages(owner);
    if (!mm_owner_is_span(owner) || mm_word_is_dead(mm_load_relaxed_u64(mm_page_words(ref, page)))) return 0;
    return mm_at_most(n, MM_SEGMENT_PAGES - page % MM_SEGMENT_PAGES);
}

/* Adds what the pages of a segment hold that is neither free nor a run's. Returns whether that is anything. */
MM_FN_RARE int mm_usage_pages(const struct mm_heap_ref *ref, uint32_t s, struct mm_usage *usage) {
    int any = 0;
    MM_ROLLED
    for (uint32_t page = s * MM_SEGMENT_PAGES, end = page + MM_SEGMENT_PAGES; page < end;) {
        const uint32_t owner = mm_load_relaxed_u8(mm_page_owner(ref, page)), c = owner - 1, span = mm_usage_span(ref, page);
        uint32_t n = 1;
        if (owner != MM_OWNER_NOBODY) any = 1;
        if (span != 0) {
            n = span;
            usage->spans++, usage->span_pages += n;
        } else if (mm_usage_is_block(ref, page, c)) {
            struct mm_class_usage *of = &usage->classes[c];
            const uint32_t live = mm_usage_block(ref, page, c);
            n = 1u << ref->classes[c].page_shift;
            of->pages += n, of->blocks++, of->free_blocks += live == 0, of->live += live;
        }
        page += n;
    }
    return any;
}

/* Adds what is in segments [first, end). */
MM_FN_RARE void mm_usage_walk(const struct mm_heap_ref *ref, uint32_t first, uint32_t end, struct mm_usage *usage) {
    const struct mm_tree t = mm_segment_free_tree(ref);
    uint64_t row = 0;
    MM_ROLLED
    for (uint32_t s = first; s < end; s++) {
        struct mm_segment *at = mm_segment_at(ref, s);
        const uint64_t run = mm_load_relaxed_u64(&at->run), free = mm_load_relaxed_u64(&at->pages);
        const int is_free = (int)(mm_load_relaxed_u64(mm_tree_leaf(t, s)) >> (s % 64) & 1);
        row = is_free ? row + 1 : 0;
        if (row > usage->largest_free) usage->largest_free = row;
        usage->free_segments += (uint64_t)is_free;
        if (is_free) continue;
        usage->run_segments += run != MM_RUN_NONE;
        usage->runs += mm_run_segments(run) != 0;
        if (run != MM_RUN_NONE) continue;
        usage->paged_segments += mm_usage_pages(ref, s, usage) || free != 0;
        usage->free_pages += mm_popcount(free);
    }
}

#endif
