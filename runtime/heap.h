/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The allocator's interface: malloc, aligned malloc, free and usable size over one heap.
 *
 * Sizes up to MM_SMALL_BYTES_MAX are for an allocator of small memory (its allocator.h says what one must provide), sizes up to MM_SPAN_PAGES_MAX pages are
 * spans (core/span.h), larger ones runs (core/run.h). The owner of its page tells free what a pointer is. After Gallatin (McCoy & Pandey, "Gallatin: A
 * General-Purpose GPU Memory Manager", PPoPP'24); docs/explanation/design.md says what differs, and why.
 */
#ifndef MM_HEAP_H
#define MM_HEAP_H

#include "runtime/core/span.h"
#include MM_ALLOCATOR_FILE(allocator.h)

#if !MM_ALLOCATOR_WARPS
MM_FN uint64_t mm_small_draw_warp(const struct mm_heap_ref *ref, uint64_t bytes) { return mm_small_draw(ref, bytes); }
MM_FN uint64_t mm_small_mark_warp(const struct mm_heap_ref *ref, uint64_t left) { return mm_small_mark(ref, left); }
#endif

/* malloc, first part: returns an address, or a token (MM_TOKEN is set) for mm_heap_malloc_other. With the default spacing (MM_SPACING_DEFAULT) no two slices
 * share a cache sector. Programs with a race or a missing fence may work with CUDA's malloc, whose allocations are at least 80 bytes apart; if slices shared a
 * sector they would read stale bytes of their neighbours (docs/explanation/real-programs.md). */
MM_FN uint64_t mm_heap_draw(const struct mm_heap_ref *ref, uint64_t bytes) {
    return bytes <= MM_SMALL_BYTES_MAX ? mm_small_draw(ref, bytes) : mm_token_large(bytes);
}
/* The same for malloc itself: full warps do not share the code with others. */
MM_FN uint64_t mm_heap_draw_warp(const struct mm_heap_ref *ref, uint64_t bytes) {
    if (!MM_LIKELY(ref->open_bytes != 0 && bytes <= MM_SMALL_BYTES_MAX)) return mm_token_large(bytes);
    return MM_LIKELY(!MM_ALLOCATOR_WARPS || mm_warp_here() == MM_WARP_ALL) ? mm_small_draw_warp(ref, bytes) : mm_small_draw(ref, bytes);
}

/* malloc of spans and runs: first the lanes that want spans, then those that want runs. All present lanes call. */
MM_FN_RARE void *mm_heap_malloc_large(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align) {
    const uint32_t here = mm_warp_group(bytes >> 63);
    const int is_span = bytes <= MM_SPAN_PAGES_MAX * MM_PAGE_BYTES && align < MM_SEGMENT_BYTES;
    const uint32_t spans = mm_warp_ballot(here, is_span);
    void *p = NULL;
    if (is_span) p = mm_span_malloc(ref, bytes, align, spans);
    mm_warp_sync(here);
    if (!is_span) p = mm_run_malloc(ref, bytes, align > MM_SEGMENT_BYTES ? align : MM_SEGMENT_BYTES, here & ~spans);
    mm_warp_sync(here);
    return p;
}

/* malloc, second part. A separate function: it reads the active mask where it begins (docs/explanation/lanes-that-leave.md). */
MM_FN_RARE void *mm_heap_malloc_other(const struct mm_heap_ref *ref, uint64_t token) {
    const uint32_t here = mm_warp_group(token >> 63);
    const int is_large = token >= MM_TOKEN_LARGE;
    void *p = NULL;
    if (!is_large) p = mm_small_malloc(ref, token);
    mm_warp_sync(here);
    if (is_large) p = mm_heap_malloc_large(ref, token & ~MM_TOKEN_LARGE, MM_PAGE_BYTES);
    mm_warp_sync(here);
    return p;
}

/* Allocates `bytes` (0 counts as 1), aligned to 1 << MM_ALIGN_SHIFT. Returns NULL if there is no memory. */
MM_FN_RARE void *mm_heap_malloc(const struct mm_heap_ref *ref, uint64_t bytes) {
    const uint64_t at = mm_heap_draw(ref, bytes);
    return MM_LIKELY(!(at & MM_TOKEN)) ? (void *)at : mm_heap_malloc_other(ref, at);
}

/* `bytes` aligned to `align`, a power of two up to the size of the heap. NULL if it is none, or no memory. */
MM_FN_RARE void *mm_heap_aligned_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align) {
    const int is_power = align != 0 && (align & (align - 1)) == 0, is_large = bytes > MM_SMALL_BYTES_MAX || align > MM_SMALL_ALIGN_MAX;
    const uint32_t here = mm_warp_group(align >> 63);
    void *p = NULL;
    if (is_power && !is_large) p = mm_heap_malloc(ref, mm_small_aligned(bytes, align));
    mm_warp_sync(here);
    if (is_power && is_large) p = mm_heap_malloc_large(ref, bytes, align);
    return p;
}

/* How many bytes from the heap's beginning on have owners that may be read, if the caller may see as few as there were when its kernel began. 0 in a closed heap. */
MM_FN uint64_t mm_heap_open_bytes(const struct mm_heap_ref *ref, const void *p) {
    const uint64_t open_bytes = ref->open_bytes;
    if (MM_LIKELY((uint64_t)p - ref->user_base < open_bytes) || open_bytes == 0) return open_bytes;
    return mm_load_cached_u64(&mm_heap_of(ref)->grow.reached) << MM_SEGMENT_SHIFT;
}

/* free, first part: returns what is left (core/handles.h), 0 if nothing. Full warps do not share the code with others, whose slices are left. */
MM_FN uint64_t mm_heap_release_warp(const struct mm_heap_ref *ref, const void *p) {
    return mm_small_mark_warp(ref, mm_small_locate(ref, p, mm_heap_open_bytes(ref, p)));
}
/* Frees a slice that is left. Returns what is left for mm_heap_free_other. */
MM_FN uint64_t mm_heap_release_left(const struct mm_heap_ref *ref, uint64_t left) { return MM_ALLOCATOR_WARPS ? mm_small_mark(ref, left) : left; }

/* Both: for any lanes. */
MM_FN uint64_t mm_heap_release(const struct mm_heap_ref *ref, const void *p) { return mm_heap_release_left(ref, mm_heap_release_warp(ref, p)); }

/* The same outside of the fast path, for all memory that was mapped once. */
MM_FN_RARE uint64_t mm_heap_release_any(const struct mm_heap_ref *ref, const void *p) {
    return mm_small_mark(ref, mm_small_locate(ref, p, mm_heap_reached(ref)));
}
/* The same for what the fast path took for foreign, since the heap has grown. All else is left. */
MM_FN uint64_t mm_heap_release_far(const struct mm_heap_ref *ref, uint64_t left) {
    if (mm_deferred_kind(left) != MM_DEFERRED_FOREIGN || mm_deferred_address(left) - ref->user_base >= mm_heap_reached(ref)) return left;
    return mm_heap_release_any(ref, (const void *)mm_deferred_address(left));
}

/* What is no slice: a span, a run, or misuse. */
MM_FN_RARE void mm_heap_free_odd(const struct mm_heap_ref *ref, uint64_t left) {
    struct mm_misused what = {MM_MISUSE_FOREIGN, 0, 0, 0, 0, 0};
    if (mm_deferred_kind(left) == MM_DEFERRED_ODD) {
        const uint64_t off = mm_deferred_offset(left);
        const uint32_t page = (uint32_t)(off >> MM_PAGE_SHIFT), owner = mm_load_relaxed_u8(mm_page_owner(ref, page));
        const int is_there = off < mm_heap_reached(ref); /* else what describes its segment may not be mapped, or not be zeroed yet */
        uint32_t misuse = is_there ? mm_deferred_misuse(left) : (uint32_t)MM_MISUSE_NOT_ALLOCATED;
        if (misuse == 0) {
            if (mm_owner_is_span(owner)) misuse = off & (MM_PAGE_BYTES - 1) ? MM_MISUSE_INTERIOR : (uint32_t)mm_span_try_free(ref, page, owner);
            else if (owner == MM_OWNER_SPAN_BODY) misuse = MM_MISUSE_INTERIOR;
            else if (owner == MM_OWNER_NOBODY) misuse = (uint32_t)mm_run_try_free(ref, off);
            else misuse = MM_MISUSE_NOT_ALLOCATED; /* when it was looked at first */
        }
        if (misuse == 0) return;
        what.kind = (enum mm_misuse)misuse, what.address = ref->user_base + off;
        if (mm_owner_is_block(owner)) what.bytes = mm_small_owner_size(ref, owner);
        else if (mm_owner_is_span(owner)) what.bytes = (uint64_t)mm_owner_span_pages(owner) << MM_PAGE_SHIFT;
        else if (owner == MM_OWNER_NOBODY && is_there)
            what.bytes = mm_run_segments(mm_load_relaxed_u64(&mm_segment_at(ref, (uint32_t)(off >> MM_SEGMENT_SHIFT))->run)) << MM_SEGMENT_SHIFT;
    } else {
        what.address = mm_deferred_address(left);
        if (what.address - ref->user_base < ref->user_bytes) what.kind = MM_MISUSE_NOT_ALLOCATED; /* never mapped so far */
    }
    mm_misuse_count(ref, what.kind, 1);
    mm_misuse_report(ref, what);
}

/* free, the rest of it. */
MM_FN void mm_heap_free_other(const struct mm_heap_ref *ref, uint64_t left) {
    left = mm_heap_release_far(ref, left);
    if (left == 0) return;
    if (mm_deferred_kind(left) == MM_DEFERRED_TWICE) mm_small_twice(ref, left);
    else mm_heap_free_odd(ref, left);
}

/* Frees what malloc or aligned malloc gave; NULL is fine. Anything else is counted as misuse and changes
 * nothing. Releases. */
MM_FN void mm_heap_free(const struct mm_heap_ref *ref, void *p) {
    const uint64_t left = mm_heap_release(ref, p);
    if (!MM_LIKELY(left == 0)) mm_heap_free_other(ref, left);
}

/* Bytes of the span, or run, that begins at byte offset `off` of the heap; 0 if none does. */
MM_FN uint64_t mm_heap_odd_bytes(const struct mm_heap_ref *ref, uint64_t off) {
    if ((off & (MM_PAGE_BYTES - 1)) != 0) return 0;
    const uint32_t owner = mm_load_relaxed_u8(mm_page_owner(ref, (uint32_t)(off >> MM_PAGE_SHIFT)));
    if (mm_owner_is_span(owner)) return (uint64_t)mm_owner_span_pages(owner) << MM_PAGE_SHIFT;
    if (owner != MM_OWNER_NOBODY || (off & (MM_SEGMENT_BYTES - 1)) != 0) return 0;
    return mm_run_segments(mm_load_relaxed_u64(&mm_segment_at(ref, (uint32_t)(off >> MM_SEGMENT_SHIFT))->run)) << MM_SEGMENT_SHIFT;
}

/* Bytes that the caller may use of what malloc or aligned malloc gave at p: all of the slice, or of the span's pages or the run's segments. 0 for
 * NULL and for what is not live and from the beginning: nothing is counted. Of an allocation that another thread frees meanwhile, either. */
MM_FN_RARE uint64_t mm_heap_usable_size(const struct mm_heap_ref *ref, const void *p) {
    const uint64_t left = mm_small_locate(ref, p, mm_heap_reached(ref));
    if (mm_deferred_kind(left) == MM_DEFERRED_SLICE) return mm_small_size(ref, left);
    return mm_deferred_kind(left) == MM_DEFERRED_ODD && mm_deferred_misuse(left) == 0 ? mm_heap_odd_bytes(ref, mm_deferred_offset(left)) : 0;
}

#endif
