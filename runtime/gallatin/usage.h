/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The usage walk's part for blocks (runtime/usage.h). */
#ifndef MM_GALLATIN_USAGE_H
#define MM_GALLATIN_USAGE_H

/* Whether a block of this shape begins at a page, of which a slice may be live. */
MM_FN int mm_usage_is_block(const struct mm_heap_ref *ref, uint32_t page, uint32_t shape) {
    return shape < MM_SHAPES && (page & ((1u << ref->classes[shape].page_shift) - 1)) == 0 && !mm_word_is_dead(mm_load_relaxed_u64(mm_page_words(ref, page)));
}

/* Whether slice i of that block is live. */
MM_FN int mm_usage_is_live(const struct mm_heap_ref *ref, uint32_t page, uint32_t i) {
    const uint64_t word = mm_load_relaxed_u64(mm_page_words(ref, page) + (i >> MM_WORD_SHIFT));
    return !mm_word_is_dead(word) && !(mm_word_free(word) >> (i & ((1u << MM_WORD_SHIFT) - 1)) & 1);
}

/* How many of its slices are. */
MM_FN_RARE uint32_t mm_usage_block(const struct mm_heap_ref *ref, uint32_t page, uint32_t shape) {
    const struct mm_class k = ref->classes[shape];
    uint32_t live = 0;
    MM_ROLLED
    for (uint32_t i = 0; i < k.words; i++) {
        const uint64_t word = mm_load_relaxed_u64(mm_page_words(ref, page) + i);
        if (!mm_word_is_dead(word)) live += mm_popcount(~mm_word_free(word) & mm_class_word_mask(k, i));
    }
    return live;
}

MM_FN_RARE uint32_t mm_small_usage(const struct mm_heap_ref *ref, uint32_t page, uint32_t owner, struct mm_usage *usage) {
    const uint32_t shape = owner - 1, c = mm_shape_class(shape);
    if (!mm_usage_is_block(ref, page, shape)) return 0;
    struct mm_class_usage *of = &usage->classes[c];
    const uint32_t live = mm_usage_block(ref, page, shape), n = 1u << ref->classes[shape].page_shift;
    of->pages += n, of->blocks++, of->free_blocks += live == 0, usage->small_pages += n;
    mm_usage_add(usage, mm_class_bytes(c), live);
    return n;
}

#endif
