/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The allocator: malloc, aligned malloc, free and usable size over one heap. The room's front door.
 *
 * Sizes up to half a segment are slices (slice.h, stripe.h, block.h), larger ones runs of segments (run.h);
 * who owns a segment, and which are free, is in segment.h on the bitmap trees of tree.h. The owner of the segment
 * tells free what a pointer is. After Gallatin (McCoy & Pandey, "Gallatin: A General-Purpose GPU Memory
 * Manager", PPoPP'24); what differs, and why, is in docs/design.md.
 */
#ifndef MM_CORE_HEAP_H
#define MM_CORE_HEAP_H

#include "runtime/core/run.h"
#include "runtime/core/slice.h"

/* Whether mm_heap_malloc makes a slice of it. */
MM_FN int mm_heap_is_slice(uint64_t bytes) { return bytes <= MM_SLICE_BYTES_MAX; }

/* malloc, first part: an address, or a token for mm_heap_malloc_other, with MM_TOKEN set. No two slices have a sector of a cache in
 * common if the spacing is that (MM_SPACING_DEFAULT): programs that race, or forget a fence, and are lucky with CUDA's malloc,
 * whose allocations are 80 bytes apart and more, would read their neighbours' stale bytes (docs/notes/real-programs.md). */
#define MM_TOKEN_RUN (3ull << 62)
MM_FN uint64_t mm_token_run(uint64_t bytes) { return MM_TOKEN_RUN | (bytes < ~MM_TOKEN_RUN ? bytes : ~MM_TOKEN_RUN); }
MM_FN uint64_t mm_heap_draw(const struct mm_heap_ref *ref, uint64_t bytes) {
    if (MM_LIKELY(mm_heap_is_slice(bytes)))
        return mm_slice_draw(ref, mm_class_spaced((uint32_t)bytes, (uint32_t)ref->spacing_mask));
    return mm_token_run(bytes);
}
/* The rest of it. Lanes that want slices come first: other warps may wait for lots that they make ready, and a run waits for the host. A
 * function of its own: who is here is asked where it begins (docs/notes/lanes-that-leave.md). */
MM_FN_RARE void *mm_heap_malloc_other(const struct mm_heap_ref *ref, uint64_t token) {
    const uint32_t here = mm_warp_group(token >> 63), runs = mm_warp_ballot(here, token >= MM_TOKEN_RUN), mine = 1u << mm_warp_lane();
    const struct mm_inside in = mm_inside_enter(ref, here);
    mm_warp_sync(here); /* counted twice for a moment, and not for none */
    if (!(runs & mine) && token & MM_TOKEN) {
        mm_inside_count_apart(ref, MM_TOKEN_APART(token), ~0u);
        token &= ~((uint64_t)MM_TOKEN_APART(~0ull) << MM_TOKEN_APART_SHIFT);
    }
    if (!(runs & mine) && token & MM_TOKEN_SHORT) token = mm_slice_redraw(ref, token);
    const uint32_t slices = mm_warp_ballot(here, token & MM_TOKEN ? 1 : 0) & ~runs;
    void *p = (void *)token;
    if (slices & mine) p = mm_slice_malloc_slow(ref, token, slices, in);
    mm_warp_sync(here);
    if (runs & mine) p = mm_run_malloc(ref, token & ~MM_TOKEN_RUN, MM_SEGMENT_BYTES, runs, in);
    mm_warp_sync(here);
    mm_inside_leave(ref, in, here);
    return p;
}

/* Allocates `bytes` (0 counts as 1), aligned to 1 << MM_ALIGN_SHIFT. Returns NULL if that cannot be had. */
MM_FN void *mm_heap_malloc(const struct mm_heap_ref *ref, uint64_t bytes) {
    const uint64_t at = mm_heap_draw(ref, bytes);
    return MM_LIKELY(!(at & MM_TOKEN)) ? (void *)at : mm_heap_malloc_other(ref, at);
}

/* Of neither more than MM_SLICE_BYTES_MAX: what to ask for. */
MM_FN uint32_t mm_heap_aligned_bytes(uint64_t bytes, uint64_t align) {
    uint32_t c = mm_class_of((uint32_t)(bytes > align ? bytes : align));
    MM_ROLLED
    while (mm_class_bytes(c) & (align - 1)) c++;
    return mm_class_bytes(c);
}

/* `bytes` aligned to `align`, a power of two up to the size of the heap. NULL if it is none, or no memory.
 * Blocks begin at multiples of their size, so a class whose slice size is a multiple of `align` will do; every
 * fourth class is a power of two. */
MM_FN void *mm_heap_aligned_malloc(const struct mm_heap_ref *ref, uint64_t bytes, uint64_t align) {
    const int is_power = align != 0 && (align & (align - 1)) == 0, is_run = bytes > MM_SLICE_BYTES_MAX || align > MM_SLICE_BYTES_MAX;
    const uint32_t here = mm_warp_group(align >> 63), runs = mm_warp_ballot(here, is_power && is_run);
    void *p = NULL;
    if (is_power && !is_run) p = mm_heap_malloc(ref, mm_heap_aligned_bytes(bytes, align));
    mm_warp_sync(here); /* slices first: mm_heap_malloc_other */
    if (is_power && is_run) {
        const struct mm_inside in = mm_inside_enter(ref, runs);
        p = mm_run_malloc(ref, bytes, align, runs, in);
        mm_warp_sync(runs);
        mm_inside_leave(ref, in, runs);
    }
    return p;
}

/* free, first part: returns what is left (slice.h) for mm_heap_free_other, 0 if nothing. */
MM_FN uint64_t mm_heap_release(const struct mm_heap_ref *ref, void *p) { return mm_slice_mark(ref, mm_slice_locate(ref, p)); }

/* What is no slice that has been handed out: a run, or misuse. */
MM_FN_RARE void mm_heap_free_odd(const struct mm_heap_ref *ref, uint64_t left) {
    struct mm_misused what = {MM_MISUSE_FOREIGN, mm_left_address(left), 0, 0, 0, 0};
    if (left < MM_LEFT_MARK) {
        const uint32_t c = mm_left_class(left), s = (uint32_t)(left >> MM_SLICE_BITS) & (MM_TREE_BITS_MAX - 1);
        what.kind = (enum mm_misuse)(left >> MM_LEFT_NOT_SHIFT), what.bytes = ref->classes[c].bytes;
        what.address = ref->user_base + ((uint64_t)s << MM_SEGMENT_SHIFT) + (left & ((1u << MM_SLICE_BITS) - 1)) * what.bytes;
    } else if (left < MM_LEFT_FOREIGN) {
        const uint64_t off = left & ((1ull << MM_LEFT_MISUSE_SHIFT) - 1);
        int misuse = (int)(left >> MM_LEFT_MISUSE_SHIFT & 7);
        const uint64_t owner = mm_load_relaxed_u64(&mm_segment_at(ref, (uint32_t)(off >> MM_SEGMENT_SHIFT))->owner);
        const uint32_t kind = MM_OWNER_KIND(owner);
        if (misuse == 0)
            misuse = kind == MM_OWNER_RUN        ? mm_run_try_free(ref, off)
                     : kind == MM_OWNER_RUN_BODY ? (int)MM_MISUSE_INTERIOR
                                                 : (int)MM_MISUSE_NOT_ALLOCATED; /* when it was looked at first */
        if (misuse == 0) return;
        what.kind = (enum mm_misuse)misuse, what.address = ref->user_base + off;
        what.bytes = kind - 1 < MM_CLASS_COUNT ? ref->classes[kind - 1].bytes
                     : kind == MM_OWNER_RUN    ? owner >> MM_OWNER_LENGTH_SHIFT << MM_SEGMENT_SHIFT
                                               : 0;
    }
    mm_misuse_count(ref, what.kind, 1);
    mm_misuse_tell(ref, what);
}

/* free, the rest of it. */
MM_FN void mm_heap_free_other(const struct mm_heap_ref *ref, uint64_t left) {
    if (mm_left_kind(left) == MM_LEFT_DUE) mm_slice_do(ref, left);
    else if (left < MM_LEFT_MARK && left >= MM_LEFT_TWICE) mm_slice_twice(ref, left);
    else mm_heap_free_odd(ref, left);
}

/* Frees what malloc or aligned malloc gave; NULL is fine. Anything else is counted as misuse and changes
 * nothing. Releases. */
MM_FN void mm_heap_free(const struct mm_heap_ref *ref, void *p) {
    const uint64_t left = mm_heap_release(ref, p);
    if (!MM_LIKELY(left == 0)) mm_heap_free_other(ref, left);
}

/* Bytes that the caller may use of what malloc or aligned malloc gave at p: all of the slice, or of the run's segments. 0 for NULL
 * and for what is not live and from the beginning: nothing is counted. Of an allocation that another thread frees meanwhile, either. */
MM_FN_RARE uint64_t mm_heap_usable_size(const struct mm_heap_ref *ref, const void *p) {
    const uint64_t off = (uint64_t)p - ref->user_base;
    if (off >= ref->user_bytes) return 0;
    const uint32_t s = (uint32_t)(off >> MM_SEGMENT_SHIFT), in = (uint32_t)off & (uint32_t)(MM_SEGMENT_BYTES - 1);
    struct mm_segment *at = mm_segment_at(ref, s);
    const uint64_t owner = mm_load_acquire_u64(&at->owner), unissued = mm_load_relaxed_u64(&at->unissued);
    const uint32_t c = MM_OWNER_KIND(owner) - 1;
    if (MM_OWNER_KIND(owner) == MM_OWNER_RUN && in == 0) return (owner >> MM_OWNER_LENGTH_SHIFT) * MM_SEGMENT_BYTES;
    if (c >= MM_CLASS_COUNT) return 0;
    const uint32_t i = mm_class_number(ref->classes[c], in);
    /* No ||: of two neighbours of which one may not be wanted nvcc loads both, with a pragma that PTX has from 8.3 on only. */
    if ((in != i * ref->classes[c].bytes) | (i >= ref->classes[c].slices)) return 0;
    if (unissued >> (i >> ref->classes[c].block_shift) & 1 && mm_stripe_misuse(ref, s, c, i) != 0) return 0;
    return mm_load_relaxed_u64(mm_segment_bits(ref, s) + (i >> MM_WORD_SHIFT)) >> (i % (1u << MM_WORD_SHIFT)) & 1 ? 0 : ref->classes[c].bytes;
}

#endif
