/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The image of a fresh heap (layout.h): how large its arrays are, where they lie, and what the host writes before it is published. C, for the host. */
#ifndef MM_CORE_IMAGE_H
#define MM_CORE_IMAGE_H

#include <string.h>

#include "runtime/core/layout.h"

#ifndef __CUDACC__ /* the host's side is C */
/* Most extents of a class's table: enough if all pages are its blocks, and some spare. */
static inline uint32_t mm_layout_extents(uint64_t segment_count, uint32_t c) {
    const uint64_t blocks = segment_count * MM_SEGMENT_PAGES >> mm_class_page_shift(c);
    return (uint32_t)(2 + (blocks + blocks / 8) / MM_EXTENT);
}

/* Where something begins behind a part that grows towards `from`, a multiple of page_bytes, and has `bytes` at most, the first `near` of them in its own page. */
static inline uint64_t mm_layout_behind(uint64_t from, uint64_t bytes, uint64_t near, uint64_t page_bytes) {
    return from + mm_round_up(bytes > near ? bytes - near : 0, page_bytes) + near;
}

/* Computes the layout of a heap of so many segments whose slices begin at multiples of `spacing` bytes (a power of two, at least 16). page_bytes: unit
 * of mapping, a power of two. Returns 0, or -1 if there is no such heap. */
static inline int mm_layout_make(struct mm_layout *l, uint64_t segment_count, uint64_t page_bytes, uint64_t spacing) {
    const uint64_t line = 256, pages = segment_count * MM_SEGMENT_PAGES;
    if (segment_count == 0 || segment_count > MM_TREE_BITS_MAX || spacing < 16 || (spacing & (spacing - 1)) != 0) return -1;
    l->segment_count = segment_count;
    l->word_shift = spacing == 16 ? MM_PAGE_SHIFT - MM_ALIGN_SHIFT - MM_WORD_SHIFT : MM_PAGE_SHIFT - MM_ALIGN_SHIFT - MM_WORD_SHIFT - 1;
    l->tree_leaves = (segment_count + 63) / 64;
    l->tree_mids = (l->tree_leaves + 63) / 64;
    l->tree_roots = (l->tree_mids + 63) / 64;
    l->tree_bytes = mm_round_up(8 * (l->tree_roots + l->tree_mids + l->tree_leaves), line);
    l->words_each = MM_SEGMENT_PAGES * sizeof(uint64_t) << l->word_shift;
    l->table_each = MM_TABLE_SHARE * MM_SEGMENT_PAGES * sizeof(uint64_t);
    const uint64_t near = MM_NEAR_BYTES < page_bytes ? MM_NEAR_BYTES : 0, each = l->words_each + l->table_each;
    l->heap = mm_layout_behind(0, segment_count * sizeof(struct mm_segment), near, page_bytes);
    l->segments = l->heap - sizeof(struct mm_segment);
    l->free_tree = mm_round_up(l->heap + sizeof(struct mm_heap), line);
    l->classes = l->free_tree + l->tree_bytes;
    l->image_bytes = l->classes - l->heap;
    l->room_trees = mm_round_up(l->classes + MM_CLASS_COUNT * sizeof(struct mm_class_state), line);
    l->directory = l->room_trees + MM_ROOMS * l->tree_bytes;
    uint64_t extents = 0, made = 0;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) extents += mm_layout_extents(segment_count, c), made += 1ull << mm_class_make(c).made_shift;
    l->made = mm_round_up(l->directory + sizeof(uint32_t) * extents, line);
    l->firsts = mm_round_up(l->made + sizeof(uint64_t) * made, line);
    l->owners = l->firsts + MM_FIRSTS_BYTES;
    l->zero_bytes = mm_round_up(l->owners + pages, page_bytes);
    const uint64_t few =
        page_bytes / each / 4 * 3; /* words of so many segments, and the table of more, so that the two do not take a second page at the same time */
    l->words = mm_layout_behind(l->zero_bytes, segment_count * l->table_each, (page_bytes - few * l->words_each) / line * line % page_bytes, page_bytes);
    l->total_bytes = mm_round_up(l->words + segment_count * l->words_each, page_bytes);
    return 0;
}

/* Marks segments [first, first + count) as free in an image. */
static inline void mm_heap_image_put(void *image, const struct mm_layout *l, uint64_t first, uint64_t count) {
    uint64_t *tree = (uint64_t *)((char *)image + (l->free_tree - l->heap));
    for (uint64_t s = first; s < first + count; s++) {
        tree[l->tree_roots + l->tree_mids + s / 64] |= 1ull << (s % 64);
        tree[l->tree_roots + s / MM_TREE_MID_SEGMENTS] |= 1ull << (s / 64 % 64);
        tree[s / MM_TREE_ROOT_SEGMENTS] |= 1ull << (s / MM_TREE_MID_SEGMENTS % 64);
    }
    ((struct mm_heap *)image)->free_count += count;
}

/* Writes the addresses of a heap whose metadata are at `base`. */
static inline void mm_heap_ref_place(struct mm_heap_ref *ref, const struct mm_layout *l, uint64_t base) {
    ref->heap = base + l->heap;
    ref->classes_at = base + l->classes, ref->giving_up = ref->heap + offsetof(struct mm_heap, giving_up);
    ref->segments = base + l->segments, ref->owners = base + l->owners, ref->words = base + l->words;
    ref->free_tree = base + l->free_tree, ref->room_trees = base + l->room_trees;
    ref->directory = base + l->directory, ref->made = base + l->made, ref->firsts = base + l->firsts;
}

/* Writes the image of a fresh heap to `image` (l->image_bytes, any memory of the caller), with the addresses that the device uses: the first
 * mapped_segments segments are free, the others are not mapped. */
static inline void mm_heap_image(void *image, const struct mm_layout *l, uint64_t metadata_base, uint64_t user_base, uint64_t mapped_segments) {
    struct mm_heap *h = (struct mm_heap *)image;
    memset(image, 0, l->image_bytes);
    h->abi = MM_ABI_VERSION;
    h->segment_count = l->segment_count;
    h->tree_leaves = l->tree_leaves;
    struct mm_heap_ref *ref = &h->ref;
    mm_heap_ref_place(ref, l, metadata_base);
    ref->user_base = user_base;
    ref->user_bytes = ref->open_bytes = l->segment_count * MM_SEGMENT_BYTES;
    ref->word_shift = l->word_shift, ref->tree_bytes = l->tree_bytes, ref->tree_roots = l->tree_roots, ref->tree_mids = l->tree_mids;
    for (uint32_t shape = 0; shape < MM_SHAPES; shape++) ref->classes[shape] = mm_shape_make(shape);
    for (uint32_t c = 0, at = 0, made = 0; c < MM_CLASS_COUNT; c++) {
        ref->classes[c].directory = at, ref->classes[c].directory_length = mm_layout_extents(l->segment_count, c);
        ref->classes[c].made = made;
        at += ref->classes[c].directory_length, made += 1u << ref->classes[c].made_shift;
    }
    h->grow.mapped = h->grow.reached = mapped_segments;
    mm_heap_image_put(image, l, 0, mapped_segments < l->segment_count ? mapped_segments : l->segment_count);
}

/* Makes a fresh heap of metadata that the caller can write, which have l->total_bytes: zeros what must be zero, and writes the image. See mm_heap_image. */
static inline void mm_heap_image_in_place(void *metadata, const struct mm_layout *l, uint64_t user_base, uint64_t mapped_segments) {
    memset(metadata, 0, l->zero_bytes);
    mm_heap_image((char *)metadata + l->heap, l, (uint64_t)(uintptr_t)metadata, user_base, mapped_segments);
}

#endif

#endif
