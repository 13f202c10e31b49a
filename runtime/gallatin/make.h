/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Making blocks: how a class grows by what is asked for, and no more.
 *
 * Representation. The frontier of a class counts slices: slice f is slice f % slices of entry f / slices. Each lane for which
 *   the class is to grow draws one; the entries that it has passed are there, or are being made, or will be by whoever comes.
 * Making. Whoever finds nothing in the entry of a slice that it has drawn makes it MM_ENTRY_BUSY by compare-and-swap, and those after it
 *   that are nothing, as many as have been drawn from by now, or 1/MM_UNIT_SHARE of the class, up to a segment; takes pages; writes owners,
 *   index, then the words (release), raises the count, then writes the entry. If there are fewer pages than that, entries become nothing
 *   again. Others wait for an entry that is busy, with a bound, after which they draw another slice and make that: nobody depends on a maker.
 * Stale. Nobody reads the words of a block before they are published, but who has an entry of an earlier block there: he sees another
 *   generation, before and after (word.h).
 * When there are no pages, the frontier goes back to what is there, or the entries passed in vain would be holes.
 */
#ifndef MM_GALLATIN_MAKE_H
#define MM_GALLATIN_MAKE_H

#include "runtime/gallatin/cursor.h"

enum mm_made { MM_MADE_SOME, MM_MADE_BY_OTHER, MM_MADE_NO_PAGES };

/* How many blocks are to be made from entry `index` of class c on. */
MM_FN uint32_t mm_make_unit(const struct mm_heap_ref *ref, uint32_t c, uint32_t index, uint32_t most) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const struct mm_class k = ref->classes[c];
    uint32_t slice;
    const uint32_t last = mm_class_block_of(k, (uint32_t)mm_load_relaxed_u64(&of->frontier) - 1, &slice);
    const uint32_t wanted = last >= index ? last - index + 1 : 1, more = mm_load_relaxed_u32(&of->count) / MM_UNIT_SHARE;
    return mm_at_most(mm_at_most(wanted > more ? wanted : more, most), MM_SEGMENT_PAGES >> k.page_shift);
}

/* The block of entry `mine`, made at a page. */
MM_FN void mm_block_make(const struct mm_heap_ref *ref, uint32_t c, uint32_t mine, uint64_t *entry, uint32_t page) {
    const struct mm_class k = ref->classes[c];
    uint64_t *word = mm_page_words(ref, page);
    const uint64_t was = mm_load_relaxed_u64(word);
    const uint32_t generation = mm_generation_next(was);
    if (!mm_word_is_dead(was)) { /* rubbish (layout.h), which must not look like a block once the page has an owner */
        mm_store_published_u64(word, mm_word_make(mm_generation_end(mm_word_generation(was)), 0));
        mm_publish_fence();
    }
    mm_pages_own(ref, page, 1u << k.page_shift, c + 1);
    mm_store_relaxed_u32(mm_table_index(ref, page), mine);
    mm_publish_fence();
    MM_ROLLED
    for (uint32_t i = 0; i < k.words; i++) mm_store_published_u64(word + i, mm_word_make(generation, mm_class_word_mask(k, i)));
    mm_max_relaxed_u32(&mm_class_at(ref, c)->count, mine + 1);
    mm_store_release_u64(entry, mm_entry_make(generation, page, c));
}

/* Makes the block for entry `index` of class c, and perhaps others after it; the same for all lanes of `here`, which all call. Each makes up
 * to MM_MAKE_EACH. */
#define MM_MAKE_EACH 2
MM_FN_RARE enum mm_made mm_blocks_make(const struct mm_heap_ref *ref, uint32_t here, uint32_t c, uint32_t index) {
    const uint32_t lane = mm_warp_lane(), rank = mm_popcount(here & mm_bits_low(lane)), leader = mm_ctz(here), many = mm_popcount(here);
    const uint32_t shift = ref->classes[c].page_shift;
    uint32_t unit = 0, claimed[MM_MAKE_EACH], all = 0;
    if (lane == leader && mm_table_at(ref, c, index) != NULL) unit = mm_make_unit(ref, c, index, MM_MAKE_EACH * many);
    mm_warp_sync(here);
    unit = mm_warp_shuffle(here, unit, leader);
    if (unit == 0) return MM_MADE_NO_PAGES;
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) { /* the first is the one that is wanted */
        const uint32_t number = rank + i * many;
        uint64_t *entry = number < unit && (all != 0 || i == 0) ? mm_table_find(ref, c, index + number) : NULL;
        claimed[i] = mm_warp_ballot(here, entry != NULL && mm_cas_acquire_u64(entry, MM_ENTRY_NONE, MM_ENTRY_BUSY));
        if (i == 0 && !(claimed[0] >> leader & 1)) {
            if (claimed[0] >> lane & 1) mm_store_relaxed_u64(entry, MM_ENTRY_NONE);
            return MM_MADE_BY_OTHER;
        }
        all += mm_popcount(claimed[i]);
    }
    uint32_t segment = MM_TREE_NONE, before = 0;
    uint64_t groups = 0;
    if (lane == leader) segment = mm_pages_take(ref, shift, all, &groups);
    mm_warp_sync(here);
    segment = mm_warp_shuffle(here, segment, leader);
    groups = mm_warp_shuffle_u64(here, groups, leader);
    if (segment == MM_TREE_NONE) groups = 0;
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) {
        const uint32_t number = before + mm_popcount(claimed[i] & mm_bits_low(lane)), mine = index + rank + i * many;
        uint64_t *entry = claimed[i] >> lane & 1 ? mm_table_find(ref, c, mine) : NULL;
        if (entry != NULL && number < mm_popcount(groups))
            mm_block_make(ref, c, mine, entry, segment * MM_SEGMENT_PAGES + mm_bits_select(groups, number));
        else if (entry != NULL) mm_store_relaxed_u64(entry, MM_ENTRY_NONE);
        before += mm_popcount(claimed[i]);
    }
    mm_warp_sync(here);
    return groups != 0 ? MM_MADE_SOME : MM_MADE_NO_PAGES;
}

/* There are no pages for slices that were drawn: they can be drawn again. */
MM_FN void mm_frontier_undo(const struct mm_heap_ref *ref, uint32_t c) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const uint64_t low = (uint64_t)mm_load_relaxed_u32(&of->count) * ref->classes[c].slices, frontier = mm_load_relaxed_u64(&of->frontier);
    if (frontier > low) mm_cas_relaxed_u64(&of->frontier, frontier, low);
    mm_store_relaxed_u32(&of->limit, 0); /* or who comes would ask for pages, and not look for slices that have come back */
}

#endif
