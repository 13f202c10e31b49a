/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Heap checker, for a heap in which nobody else is at work: the same code on the GPU (one thread for each part, say) and on the CPU. It
 * reads the metadata as the comments of the other files describe it.
 */
#ifndef MM_CHECK_H
#define MM_CHECK_H

#include "runtime/heap.h"

/* What can be wrong: name, text. The text's numbers are mm_check.at[0..2]. */
#define MM_FAULTS(X)                                                                      \
    X(TREE_LEAF, "a tree's leaf %u is not announced (tree %u)")                           \
    X(TREE_MID, "a tree's middle word %u is not announced (tree %u)")                     \
    X(FREE_COUNT, "%u segments are in the free tree, %u are counted")                     \
    X(FREE_PAGES, "segment %u is nobody's, but has free pages")                           \
    X(FREE_RUN, "segment %u is nobody's, but of a run")                                   \
    X(FREE_OWNER, "segment %u is nobody's, but page %u has owner %u")                     \
    X(LOST_SEGMENT, "all pages of segment %u are free, but it is not in the free tree")   \
    X(ROOM_UNLISTED, "segment %u has room %u, but is not in that tree")                   \
    X(PAGE_FREE, "segment %u: page %u is free, but has owner %u")                         \
    X(PAGE_LOST, "segment %u: page %u is neither free nor anybody's")                     \
    X(SPAN, "segment %u: page %u begins a span of %u pages, which is not whole")          \
    X(BLOCK, "segment %u: page %u is of a block of class %u, which is not whole")         \
    X(BLOCK_DEAD, "segment %u: page %u begins a block whose generation is %u")            \
    X(WORD_GENERATION, "page %u: word %u has generation %u, not that of its block")       \
    X(WORD_BEYOND, "page %u: word %u has bits beyond the last slice (%#x)")               \
    X(ENTRY, "page %u: its block is not in the table of class %u, at %u")                 \
    X(ENTRY_STRAY, "class %u: entry %u is of page %u, whose block has another entry")     \
    X(NARROW, "class %u: %u narrow blocks are counted, and %u are there")                 \
    X(ENTRY_HOLE, "class %u: entry %u is nothing")                                        \
    X(EXTENT_BUSY, "class %u: extent %u is being made, by nobody")                        \
    X(EXTENT_TWICE, "class %u: extent %u of the directory is beyond what was given (%u)") \
    X(TABLE_LOCK, "class %u: its table is locked, by nobody")                             \
    X(UNITS_OWNER, "segment %u has units, but page %u has owner %u")                      \
    X(UNITS_LIST, "segment %u has units, but is not in the list, at %u")                  \
    X(UNITS_WORD, "segment %u: word %u has units that continue nowhere (%#x)")            \
    X(CHUNK_END, "segment %u: the chunk at unit %u ends at %u, where none begins")        \
    X(CHUNK_LOCK, "segment %u: the chunk at unit %u is not both locked and live (%u)")    \
    X(CHUNK_STRAY, "segment %u: %u more chunks, locks or live units than words say (%u)") \
    X(CHUNK_STATE, "segment %u: chunk %u has state %#x")                                  \
    X(CHUNK_COUNT, "chunk %u counts %u free pages, and has %u")                           \
    X(CHUNK_BEYOND, "chunk %u: mask %u has pages beyond the last one (class %u)")         \
    X(QUEUE_ENTRY, "queue %u has an entry for chunk %u, which does not say so")           \
    X(QUEUE_COUNT, "queue %u has %u entries, and counts %u")                              \
    X(QUEUE_LOST, "queue %u has %u of the %u entries that it must have")                  \
    X(QUEUE_AWAITED, "queue %u expects %u pages for %u lanes, and nobody is there")       \
    X(UNITS_STRAY, "entry %u of the list is segment %u, which does not say so")           \
    X(RUN_LENGTH, "segment %u begins a run of %u segments")                               \
    X(RUN_SEGMENT, "segment %u is of a run, but says it is %u")                           \
    X(RUN_FREE, "segment %u is of a run, but can be had")                                 \
    X(RUN_BODY, "segment %u says it is of a run, and is of none")
#define MM_FAULT_ENUM(name, text) MM_FAULT_##name,
enum mm_fault { MM_FAULT_NONE, MM_FAULTS(MM_FAULT_ENUM) MM_FAULT_KINDS };

/* Zero before. */
struct mm_check {
    uint64_t fault; /* the first one found */
    uint64_t at[3];
    uint64_t live_bytes; /* of slices, spans and runs handed out */
};

MM_FN_RARE void mm_check_fault(struct mm_check *k, enum mm_fault what, uint64_t a, uint64_t b, uint64_t c) {
    if (!mm_cas_acq_rel_u64(&k->fault, MM_FAULT_NONE, what)) return;
    k->at[0] = a, k->at[1] = b, k->at[2] = c;
}

/* The allocator's part: mm_small_check_pages checks what begins at a page that it owns, and returns its number of pages, or 0 if nothing begins there;
 * mm_small_check_rest, the rest, as one of several parts. */
#include MM_ALLOCATOR_FILE(check.h)

MM_FN int mm_check_in_tree(struct mm_tree t, uint32_t s) { return (int)(*mm_tree_leaf(t, s) >> (s % 64) & 1); }

/* tree.h I1, upwards from the leaves. */
MM_FN_RARE void mm_check_tree(struct mm_check *k, const struct mm_heap *h, struct mm_tree t, uint32_t number) {
    for (uint32_t leaf = 0; leaf < h->tree_leaves; leaf++) {
        if (*mm_tree_leaf(t, leaf * 64) == 0) continue;
        if (!(*mm_tree_mid(t, leaf * 64) >> (leaf % 64) & 1)) mm_check_fault(k, MM_FAULT_TREE_LEAF, leaf, number, 0);
        if (!(*mm_tree_root(t, leaf * 64) & mm_tree_root_bit(leaf * 64))) mm_check_fault(k, MM_FAULT_TREE_MID, leaf / 64, number, 0);
    }
}

/* A segment whose pages are given away one by one. */
MM_FN_RARE void mm_check_pages(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t s) {
    const uint64_t free = mm_segment_at(ref, s)->pages;
    if (free == ~0ull) mm_check_fault(k, MM_FAULT_LOST_SEGMENT, s, 0, 0);
    for (uint32_t r = 0; r < MM_ROOMS; r++)
        if (mm_cut_starts(mm_room_cut(r), free) != 0 && !mm_check_in_tree(mm_segment_room_tree(ref, r), s)) mm_check_fault(k, MM_FAULT_ROOM_UNLISTED, s, r, 0);
    for (uint32_t i = 0, n; i < MM_SEGMENT_PAGES; i += n) {
        const uint32_t page = s * MM_SEGMENT_PAGES + i, owner = *mm_page_owner(ref, page), is_free = (uint32_t)(free >> i & 1);
        n = 1;
        if (is_free && owner != MM_OWNER_NOBODY) mm_check_fault(k, MM_FAULT_PAGE_FREE, s, page, owner);
        if (is_free) continue;
        const uint32_t small = mm_owner_is_block(owner) ? mm_small_check_pages(k, ref, page, owner) : 0;
        if (small != 0) {
            n = small;
        } else if (mm_owner_is_span(owner) && i + mm_owner_span_pages(owner) <= MM_SEGMENT_PAGES) {
            n = mm_owner_span_pages(owner);
            if (mm_word_is_dead(*mm_page_words(ref, page))) mm_check_fault(k, MM_FAULT_SPAN, s, page, n);
            for (uint32_t j = 1; j < n; j++)
                if (*mm_page_owner(ref, page + j) != MM_OWNER_SPAN_BODY) mm_check_fault(k, MM_FAULT_SPAN, s, page, n);
            mm_add_relaxed_u64(&k->live_bytes, (uint64_t)n << MM_PAGE_SHIFT);
        } else {
            mm_check_fault(k, MM_FAULT_PAGE_LOST, s, page, 0);
        }
        if (n > 1 && mm_bits_low(n) << i & free) mm_check_fault(k, MM_FAULT_PAGE_FREE, s, page, owner);
    }
}

/* A run that begins at segment s. */
MM_FN_RARE void mm_check_run(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t s) {
    const uint64_t n = mm_run_segments(mm_segment_at(ref, s)->run);
    if (n == 0 || s + n > mm_heap_of(ref)->grow.reached) {
        mm_check_fault(k, MM_FAULT_RUN_LENGTH, s, n, 0);
        return;
    }
    for (uint32_t i = s; i < s + n; i++) {
        const struct mm_segment *at = mm_segment_at(ref, i);
        if (i != s && at->run != MM_RUN_BODY) mm_check_fault(k, MM_FAULT_RUN_SEGMENT, i, at->run, 0);
        if (mm_check_in_tree(mm_segment_free_tree(ref), i) || at->pages != 0) mm_check_fault(k, MM_FAULT_RUN_FREE, i, 0, 0);
    }
    mm_add_relaxed_u64(&k->live_bytes, n << MM_SEGMENT_SHIFT);
}

MM_FN_RARE void mm_check_segment(struct mm_check *k, const struct mm_heap_ref *ref, uint32_t s) {
    const struct mm_segment *at = mm_segment_at(ref, s);
    if (at->run == MM_RUN_BODY) {
        uint32_t first = s;
        while (first > 0 && mm_segment_at(ref, first)->run == MM_RUN_BODY) first--;
        if (first + mm_run_segments(mm_segment_at(ref, first)->run) <= s) mm_check_fault(k, MM_FAULT_RUN_BODY, s, 0, 0);
    } else if (at->run != MM_RUN_NONE) {
        mm_check_run(k, ref, s);
    } else if (mm_check_in_tree(mm_segment_free_tree(ref), s)) {
        if (at->pages != 0) mm_check_fault(k, MM_FAULT_FREE_PAGES, s, 0, 0);
        for (uint32_t i = s * MM_SEGMENT_PAGES; i < (s + 1) * MM_SEGMENT_PAGES; i++)
            if (*mm_page_owner(ref, i) != MM_OWNER_NOBODY) mm_check_fault(k, MM_FAULT_FREE_OWNER, s, i, *mm_page_owner(ref, i));
        return;
    } else {
        if (at->pages != 0 || mm_segment_is_owned(ref, s)) mm_check_pages(k, ref, s); /* else it is not mapped */
        return;
    }
    if (mm_check_in_tree(mm_segment_free_tree(ref), s)) mm_check_fault(k, MM_FAULT_FREE_RUN, s, 0, 0);
}

/* Checks part `part` of `parts` of a heap: invariants of tree.h, segment.h, run.h, and of the allocator. */
MM_FN_RARE void mm_heap_check_quiescent(const struct mm_heap_ref *ref, uint32_t part, uint32_t parts, struct mm_check *k) {
    struct mm_heap *h = mm_heap_of(ref);
    if (part == 0) {
        uint32_t count = 0;
        mm_check_tree(k, h, mm_segment_free_tree(ref), 0);
        for (uint32_t r = 0; r < MM_ROOMS; r++) mm_check_tree(k, h, mm_segment_room_tree(ref, r), r + 1);
        for (uint32_t leaf = 0; leaf < h->tree_leaves; leaf++) count += mm_popcount(*mm_tree_leaf(mm_segment_free_tree(ref), leaf * 64));
        if (count != h->free_count) mm_check_fault(k, MM_FAULT_FREE_COUNT, count, h->free_count, 0);
    }
    mm_small_check_rest(k, ref, part, parts);
    for (uint32_t s = part; s < h->grow.reached; s += parts) mm_check_segment(k, ref, s);
}

#endif
