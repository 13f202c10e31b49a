/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Making blocks: how a class grows by what is asked for, and no more.
 *
 * Representation. The frontier of a shard counts slices, as its cursor does: slice f is slice f % slices of entry f / slices. Each lane for which
 *   the class is to grow draws one; the entries that it has passed are there, or are being made, or will be by whoever comes.
 * Making. Whoever finds nothing in the entry of a slice that it has drawn makes it MM_ENTRY_BUSY by compare-and-swap, and those after it
 *   that are nothing, up to 1/MM_UNIT_SHARE of the class; takes pages; writes owners, index, then the words (release), raises the count, then writes the entry. If
 *   there are fewer pages than that, entries become nothing again. Others wait for an entry that is busy, with a bound, after which they draw
 *   another slice and make that: nobody depends on a maker.
 * Stale. Nobody reads the words of a block before they are published, but who has an entry of an earlier block there: he sees another
 *   generation, before and after (word.h).
 * When there are no pages, the frontier goes back to what is there, or the entries passed in vain would be holes.
 */
#ifndef MM_GALLATIN_MAKE_H
#define MM_GALLATIN_MAKE_H

#include "runtime/gallatin/cursor.h"

enum mm_made { MM_MADE_SOME, MM_MADE_BY_OTHER, MM_MADE_NO_PAGES };

/* Makes the block for entry `index` of class c, and perhaps others after it; the same for all lanes of `here`, which all call. */
MM_FN_RARE enum mm_made mm_blocks_make(const struct mm_heap_ref *ref, uint32_t here, uint32_t c, uint32_t index) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const struct mm_class k = ref->classes[c];
    const uint32_t lane = mm_warp_lane(), rank = mm_popcount(here & mm_bits_low(lane)), leader = mm_ctz(here);
    const uint32_t mine = index + rank * MM_SHARDS, s = index % MM_SHARDS;
    uint32_t unit = 0;
    uint64_t *entry = NULL, groups = 0;
    if (lane == leader) unit = mm_load_relaxed_u32(&of->count[s]) / MM_UNIT_SHARE + 1;
    unit = mm_warp_shuffle(here, unit, leader);
    if (rank < unit && rank << k.page_shift < MM_SEGMENT_PAGES) entry = mm_table_at(ref, c, mine);
    if (entry != NULL && !mm_cas_acquire_u64(entry, MM_ENTRY_NONE, MM_ENTRY_BUSY)) entry = NULL;
    const uint32_t claimed = mm_warp_ballot(here, entry != NULL);
    if (!(claimed >> leader & 1)) { /* the one that is wanted: another makes it, or there is no place for it */
        if (entry != NULL) mm_store_relaxed_u64(entry, MM_ENTRY_NONE);
        return mm_table_at(ref, c, index) != NULL ? MM_MADE_BY_OTHER : MM_MADE_NO_PAGES;
    }
    uint32_t segment = MM_TREE_NONE;
    if (lane == leader) segment = mm_pages_take(ref, k.page_shift, mm_popcount(claimed), mm_home(), &groups);
    mm_warp_sync(here);
    segment = mm_warp_shuffle(here, segment, leader);
    groups = segment == MM_TREE_NONE ? 0 : mm_warp_shuffle_u64(here, groups, leader);
    const uint32_t number = mm_popcount(claimed & mm_bits_low(lane));
    if (entry != NULL && number < mm_popcount(groups)) {
        const uint32_t page = segment * MM_SEGMENT_PAGES + mm_bits_select(groups, number);
        uint64_t *word = mm_page_words(ref, page);
        const uint32_t generation = mm_generation_next(mm_load_relaxed_u64(word));
        mm_pages_own(ref, page, 1u << k.page_shift, c + 1);
        mm_store_relaxed_u32(mm_table_index(ref, page), mine);
        mm_publish_fence();
        MM_ROLLED
        for (uint32_t i = 0; i < k.words; i++) mm_store_published_u64(word + i, mm_word_make(generation, mm_class_word_mask(k, i)));
        mm_max_relaxed_u32(&of->count[s], mine / MM_SHARDS + 1);
        mm_store_release_u64(entry, mm_entry_make(generation, page, c));
    } else if (entry != NULL) {
        mm_store_relaxed_u64(entry, MM_ENTRY_NONE);
    }
    mm_warp_sync(here);
    return groups != 0 ? MM_MADE_SOME : MM_MADE_NO_PAGES;
}

/* There are no pages for slices that were drawn: they can be drawn again. */
MM_FN void mm_frontier_undo(const struct mm_heap_ref *ref, uint32_t c, uint32_t s) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const uint64_t low = (uint64_t)mm_load_relaxed_u32(&of->count[s]) * ref->classes[c].slices;
    const uint64_t frontier = mm_load_relaxed_u64(&of->shard[s].frontier);
    if (frontier > low) mm_cas_relaxed_u64(&of->shard[s].frontier, frontier, low);
}

#endif
