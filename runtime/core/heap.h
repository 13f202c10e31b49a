/* The allocator: malloc, aligned malloc and free over one heap. The room's front door.
 *
 * Sizes up to half a segment are slices (slice.h, block.h), larger ones runs of segments (run.h); who owns a
 * segment, and which are free, is in segment.h on the bitmap trees of tree.h. The control word of the granule
 * tells free what a pointer is. After Gallatin (McCoy & Pandey, "Gallatin: A General-Purpose GPU Memory
 * Manager", PPoPP'24); what differs, and why, is in docs/design.md.
 */
#ifndef MM_CORE_HEAP_H
#define MM_CORE_HEAP_H

#include "runtime/core/run.h"
#include "runtime/core/slice.h"

/* Counts a request that could not be served. */
MM_FN_RARE void mm_heap_count_null(const struct mm_heap_ref *ref, uint64_t bytes) {
    struct mm_heap *h = mm_heap_of(ref);
    if (mm_add_relaxed_u64(&h->null_count, 1) == 0) mm_store_relaxed_u64(&h->null_first_bytes, bytes + 1);
}

/* Allocates `bytes` (0 counts as 1), aligned to 1 << MM_ALIGN_SHIFT. Returns NULL if that cannot be had. */
MM_FN void *mm_heap_malloc(const struct mm_heap_ref *ref, uint64_t bytes) {
    void *p = MM_LIKELY(bytes <= MM_SLICE_BYTES_MAX) ? mm_slice_malloc(ref, mm_class_of((uint32_t)bytes))
                                                      : mm_run_malloc(ref, bytes, MM_SEGMENT_BYTES);
    if (p == NULL) mm_heap_count_null(ref, bytes);
    return p;
}

/* `bytes` aligned to `align`, a power of two up to the size of the heap. NULL if it is none, or no memory.
 * Blocks begin at multiples of their size, so a class whose slice size is a multiple of `align` will do; every
 * fourth class is a power of two. */
MM_FN void *mm_heap_aligned_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align) {
    if (align == 0 || (align & (align - 1)) != 0) return NULL;
    if (bytes > MM_SLICE_BYTES_MAX || align > MM_SLICE_BYTES_MAX) {
        void *p = mm_run_malloc(ref, bytes, align);
        if (p == NULL) mm_heap_count_null(ref, bytes);
        return p;
    }
    uint32_t c = mm_class_of((uint32_t)(bytes > align ? bytes : align));
    MM_ROLLED
    while (mm_class_bytes(c) & (align - 1)) c++;
    return mm_heap_malloc(ref, mm_class_bytes(c));
}

/* Frees what malloc or aligned malloc gave; NULL is fine. Anything else is counted as misuse and changes
 * nothing. Releases. */
MM_FN void mm_heap_free(const struct mm_heap_ref *ref, void *p) {
    if (p == NULL) return;
    const uint64_t off = (uint64_t)p - ref->user_base;
    int misuse = MM_MISUSE_FOREIGN;
    if (MM_LIKELY(off < ref->user_bytes)) {
        const uint64_t ctrl = mm_load_relaxed_u64(mm_block_ctrl(ref, (uint32_t)(off >> MM_GRANULE_SHIFT)));
        const uint32_t kind = mm_ctrl_kind(ctrl);
        if (MM_LIKELY(kind != MM_KIND_CLOSED && kind != MM_KIND_RUN)) {
            mm_slice_free(ref, off, ctrl);
            return;
        }
        misuse = kind == MM_KIND_RUN ? mm_run_try_free(ref, off) : (int)mm_misuse_outside(ref, off);
        if (misuse == 0) return;
    }
    mm_misuse_count(ref, (enum mm_misuse)misuse, 1);
}

#endif
