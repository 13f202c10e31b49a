/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The heap checker's part for blocks and tables (runtime/check.h): invariants of word.h and table.h. */
#ifndef MM_GALLATIN_CHECK_H
#define MM_GALLATIN_CHECK_H

/* A block of this shape that begins at a page. */
MM_FN_RARE void mm_check_block(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t page, uint32_t shape) {
    const struct mm_class class_ = ref->classes[shape];
    const uint64_t *word = mm_page_words(ref, page);
    const uint32_t s = page / MM_SEGMENT_PAGES, c = mm_shape_class(shape), generation = mm_word_generation(word[0]), index = *mm_page_index(ref, page);
    uint64_t live = 0;
    if (generation & 1 || generation == 0) mm_check_fault(k, MM_FAULT_BLOCK_DEAD, s, page, generation);
    for (uint32_t i = 0; i < class_.words; i++) {
        const uint32_t all = mm_class_word_mask(class_, i), free = mm_word_free(word[i]);
        if (mm_word_generation(word[i]) != generation) mm_check_fault(k, MM_FAULT_WORD_GENERATION, page, i, mm_word_generation(word[i]));
        if (free & ~all) mm_check_fault(k, MM_FAULT_WORD_BEYOND, page, i, free);
        live += mm_popcount(all & ~free);
    }
    for (uint32_t i = 0; i < 1u << class_.page_shift; i++)
        if (*mm_page_owner(ref, page + i) != shape + 1) mm_check_fault(k, MM_FAULT_BLOCK, s, page + i, c);
    const uint64_t *const entry = index < mm_class_at(ref, c)->count ? mm_table_find(ref, c, index) : NULL;
    if (entry == NULL || *entry != mm_entry_make(generation, page, shape)) mm_check_fault(k, MM_FAULT_ENTRY, page, c, index);
    mm_add_relaxed_u64(&k->live_bytes, live * class_.bytes);
}

MM_FN_RARE uint32_t mm_small_check_pages(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t page, uint32_t owner) {
    const uint32_t n = 1u << ref->classes[owner - 1].page_shift;
    if (page % n != 0) return 0;
    mm_check_block(k, ref, page, owner - 1);
    return n;
}

/* The table of class c. */
MM_FN_RARE void mm_check_class(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t c) {
    const struct mm_class_state *of = mm_class_at(ref, c);
    for (uint32_t i = 1; i < ref->classes[c].directory_length; i++) {
        const uint32_t extent = *mm_table_directory(ref, c, i << MM_EXTENT_SHIFT);
        if (extent == MM_EXTENT_BUSY) mm_check_fault(k, MM_FAULT_EXTENT_BUSY, c, i, 0);
        else if (extent > mm_heap_of(ref)->extents) mm_check_fault(k, MM_FAULT_EXTENT_TWICE, c, i, extent);
    }
    if (of->lock != 0) mm_check_fault(k, MM_FAULT_TABLE_LOCK, c, 0, 0);
    uint32_t narrow = 0;
    for (uint32_t i = 0; i < of->count; i++) {
        const uint64_t *const at = mm_table_find(ref, c, i), entry = at != NULL ? *at : MM_ENTRY_NONE;
        narrow += mm_entry_shape(entry) >= MM_CLASS_COUNT;
        if (entry == MM_ENTRY_NONE) mm_check_fault(k, MM_FAULT_ENTRY_HOLE, c, i, 0);
        else if (mm_entry_has(entry, c, 0) && *mm_page_index(ref, mm_entry_page(entry)) != i &&
                 mm_word_generation(*mm_page_words(ref, mm_entry_page(entry))) == mm_entry_generation(entry))
            mm_check_fault(k, MM_FAULT_ENTRY_STRAY, c, i, mm_entry_page(entry));
    }
    if (narrow != of->narrow) mm_check_fault(k, MM_FAULT_NARROW, c, of->narrow, narrow);
}

MM_FN_RARE void mm_small_check_rest(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t part, uint32_t parts) {
    for (uint32_t c = part; c < MM_CLASS_COUNT; c += parts) mm_check_class(k, ref, c);
}

#endif
