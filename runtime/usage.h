/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Usage of a heap, by a walk over the owners of pages. malloc and free count nothing for it.
 *
 * While other threads allocate it is a snapshot of each segment at a different moment: a count lies between its values at the beginning and at the end of the
 * walk, give or take what was allocated and freed in between. In a quiescent heap it is exact. Whatever it reads, it stays within the segment's metadata.
 */
#ifndef MM_USAGE_H
#define MM_USAGE_H

#include "runtime/heap.h"

/* Small objects by size: class c has those that are larger than the slices of class c - 1, and not larger than its own (core/class.h). Sizes up to a segment,
 * since an allocator may give an object more than was requested. */
#define MM_USAGE_CLASSES (4 * (MM_SEGMENT_SHIFT - 6) + 4)
struct mm_class_usage {
    uint64_t live, bytes;                /* objects handed out, that have not come back; their granted bytes */
    uint64_t pages, blocks, free_blocks; /* it has; free: of which nothing is handed out. 0 if a page has objects of all sizes */
};
/* Zero before. */
struct mm_usage {
    uint64_t free_segments, paged_segments, run_segments; /* paged: given away page by page. The others are not mapped, or on their way */
    uint64_t runs, spans;
    uint64_t span_pages, free_pages;   /* free: of paged segments */
    uint64_t largest_free;             /* free segments in a row, within one part of the walk */
    uint64_t small_pages, small_bytes; /* pages with small objects; granted bytes of these objects */
    uint64_t uncounted_pages;          /* of small_pages: pages whose objects are not in classes, only in small_bytes, since nobody knows where one ends */
    struct mm_class_usage classes[MM_USAGE_CLASSES];
};

/* Adds n small objects of so many bytes each, at most a segment's. */
MM_FN void mm_usage_add(struct mm_usage *usage, uint64_t bytes, uint64_t n) {
    struct mm_class_usage *of = &usage->classes[mm_class_of((uint32_t)bytes)];
    of->live += n, of->bytes += n * bytes, usage->small_bytes += n * bytes;
}

/* The allocator's part: mm_small_usage adds what begins at a page that it owns. Returns its number of pages, all of one segment, or 0 if nothing begins
 * there. */
#include MM_ALLOCATOR_FILE(usage.h)

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
        const uint32_t owner = mm_load_relaxed_u8(mm_page_owner(ref, page)), span = mm_usage_span(ref, page);
        uint32_t n = mm_owner_is_block(owner) ? mm_small_usage(ref, page, owner, usage) : 0;
        if (owner != MM_OWNER_NOBODY) any = 1;
        if (span != 0) {
            n = span;
            usage->spans++, usage->span_pages += n;
        }
        page += n != 0 ? n : 1;
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
