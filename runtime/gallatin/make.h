/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Making blocks: a size class grows by what is requested; a large class at least by a share of itself, up to a segment.
 *
 * Tickets. Each lane for which its class must grow draws a ticket. With S slices in a block, ticket t stands for slice t % S of the block with number t / S.
 *   The lane with a block's first ticket makes the block, and the following blocks for which tickets are drawn already, up to a segment. The other lanes wait
 *   for that with a bound, and then draw anew, so no lane depends on a maker. Tickets are numbers: an unused ticket costs nothing, except that the rest of its
 *   block's tickets is skipped.
 * Leaders. In a large class the blocks of a segment would have as many makers, each of which searches for pages. So numbers form aligned groups, of
 *   1/MM_MAKE_SHARE of the number, at most a segment's blocks. The lane with the first ticket of a group's first block makes all blocks of the group, also
 *   those for which no tickets are drawn yet. The lanes with the first tickets of the others make their blocks only if that one is done and has not made them.
 * Making. Become one of few makers (so that each makes many blocks); claim numbers by compare-and-swap of made; take pages; write their owners, then the words
 *   (release); then write the blocks' entries into the table. From then on any lane may claim their slices, also slices for which tickets were drawn: a lane
 *   that comes late draws anew. If there are fewer pages than numbers, the last numbers are given up.
 *   The first block is made with the slices of its maker's warp in the first word allocated. So no other thread can retire the block before its maker has its
 *   slice, and of several warps that make blocks and retire each other's, one always makes progress.
 * made. A ring of MM_MADE words for each class: the number and place of a block that is being made or was made. If a later block uses the word, the
 *   awaited block was made, and may be full by now.
 * Stale. Only a thread with an entry of an earlier block reads words before they are published. It sees another generation, before and after (word.h).
 */
#ifndef MM_GALLATIN_MAKE_H
#define MM_GALLATIN_MAKE_H

#include "runtime/gallatin/cursor.h"

/* The lanes of `need` draw tickets of class c: the number of a block, and a slice of it. All lanes of `here` call. */
MM_FN void mm_tickets_draw(const struct mm_heap_ref *ref, uint32_t here, uint32_t need, uint32_t c, uint32_t *number, uint32_t *slice) {
    const uint32_t lane = mm_warp_lane(), first = need != 0 ? mm_ctz(need) : mm_ctz(here);
    uint32_t drawn = 0;
    if (need != 0 && lane == first) drawn = mm_add_relaxed_u32(&mm_class_at(ref, c)->tickets, mm_popcount(need));
    drawn = mm_warp_shuffle(here, drawn, first) + mm_popcount(need & mm_bits_low(lane));
    *number = mm_class_block_of(ref->classes[c], drawn, slice);
}

/* A ticket of that block cannot be served: skips the block's tickets that are not drawn yet. */
MM_FN void mm_tickets_skip(const struct mm_heap_ref *ref, uint32_t c, uint32_t number) {
    uint32_t *tickets = &mm_class_at(ref, c)->tickets;
    const uint32_t slices = ref->classes[c].slices, seen = mm_load_relaxed_u32(tickets), used = seen - number * slices;
    if (used != 0 && used < slices) mm_cas_relaxed_u32(tickets, seen, seen + slices - used);
}

MM_FN uint64_t *mm_made_at(const struct mm_heap_ref *ref, uint32_t c, uint32_t number) { return (uint64_t *)ref->made + (c * MM_MADE + number % MM_MADE); }

/* The number of warps that may make blocks of class c at the same time, less one. */
MM_FN uint32_t mm_makers_most(const struct mm_heap_ref *ref, uint32_t c) {
    return (mm_load_relaxed_u32(&mm_class_at(ref, c)->count) << ref->classes[c].page_shift) / MM_MAKER_PAGES;
}
/* Whether one more warp may. */
MM_FN int mm_maker_may(const struct mm_heap_ref *ref, uint32_t c) { return mm_load_relaxed_u32(&mm_class_at(ref, c)->makers) <= mm_makers_most(ref, c); }
MM_FN void mm_maker_end(const struct mm_heap_ref *ref, uint32_t c) { mm_add_relaxed_u32(&mm_class_at(ref, c)->makers, ~0u); }
/* The caller has seen that it may. is_late: it has waited long enough, and need not be one of few. */
MM_FN int mm_maker_begin(const struct mm_heap_ref *ref, uint32_t c, int is_late) {
    const uint32_t most = mm_makers_most(ref, c);
    if (mm_add_relaxed_u32(&mm_class_at(ref, c)->makers, 1) <= most || is_late) return 1;
    mm_maker_end(ref, c);
    return 0;
}

/* The number of blocks that are made from `number` on, for the first of which the caller has a ticket: a segment's while the heap has MM_MAKE_FREE_SEGMENTS;
 * else those for which tickets are drawn, and at least 1/MM_MAKE_SHARE of the class, at most a segment's. */
MM_FN uint32_t mm_make_unit(const struct mm_heap_ref *ref, uint32_t c, uint32_t number) {
    const struct mm_class k = ref->classes[c];
    struct mm_class_state *of = mm_class_at(ref, c);
    const uint32_t drawn = mm_load_relaxed_u32(&of->tickets) - number * k.slices, most = MM_SEGMENT_PAGES >> k.page_shift;
    const uint32_t share = mm_load_relaxed_u32(&of->count) / MM_MAKE_SHARE;
    uint32_t slice;
    if (share >= most || drawn - 1 >= k.slices << MM_PAGES_SHIFT || mm_load_relaxed_u64(&mm_heap_of(ref)->free_count) >= MM_MAKE_FREE_SEGMENTS) return most;
    const uint32_t unit = mm_class_block_of(k, drawn - 1, &slice) + 1;
    return mm_at_most(unit > share ? unit : share, most);
}
/* The block whose maker is expected to make this one, too: the first of an aligned group, at most a segment's. It depends on the number alone, so all lanes
 * agree. */
MM_FN uint32_t mm_make_leader(const struct mm_heap_ref *ref, uint32_t c, uint32_t number) {
    const uint32_t most = MM_SEGMENT_PAGES >> ref->classes[c].page_shift, share = number / MM_MAKE_SHARE;
    return number & ~((share >= most ? most : share == 0 ? 1 : 1u << (31 - mm_clz_u32(share))) - 1);
}
/* Whether the lane with the first ticket of a block need not wait for the block's leader: it is the leader, or the leader is made without it. */
MM_FN int mm_make_is_alone(const struct mm_heap_ref *ref, uint32_t c, uint32_t number) {
    const uint32_t leader = mm_make_leader(ref, c, number);
    if (leader == number) return 1;
    const uint64_t made = mm_load_relaxed_u64(mm_made_at(ref, c, leader));
    return (mm_made_is_of(made, leader) && mm_made_index(made) != MM_MADE_BUSY) || mm_made_is_later(made, leader, ref->classes[c].slices);
}

/* Claims a number for the caller. Returns whether it succeeded. */
MM_FN int mm_made_claim(const struct mm_heap_ref *ref, uint32_t c, uint32_t number) {
    uint64_t *made = mm_made_at(ref, c, number);
    const uint64_t seen = mm_load_relaxed_u64(made);
    return !mm_made_is_of(seen, number) && !mm_made_is_later(seen, number, ref->classes[c].slices) &&
           mm_cas_relaxed_u64(made, seen, mm_made_make(number, MM_MADE_BUSY));
}

/* Makes a block of class c at a page, with the slices `taken` of its first word allocated. Returns its entry, which no other thread knows yet. */
MM_FN uint64_t mm_block_make(const struct mm_heap_ref *ref, uint32_t c, uint32_t page, uint32_t taken) {
    const struct mm_class k = ref->classes[c];
    uint64_t *word = mm_page_words(ref, page);
    const uint64_t was = mm_load_relaxed_u64(word);
    const uint32_t generation = mm_generation_next(was);
    if (!mm_word_is_dead(was)) { /* garbage (layout.h) must not look like a block once the page has an owner */
        mm_store_published_u64(word, mm_word_make(mm_generation_end(mm_word_generation(was)), 0));
        mm_publish_fence();
    }
    mm_pages_own(ref, page, 1u << k.page_shift, c + 1);
    mm_publish_fence();
    MM_ROLLED
    for (uint32_t i = 0; i < k.words; i++) mm_store_published_u64(word + i, mm_word_make(generation, mm_class_word_mask(k, i) & ~(i == 0 ? taken : 0)));
    return mm_entry_make(generation, page, c);
}

/* Makes the block of class c with this number, and perhaps the following ones. All lanes of `here` call, with the same arguments; each makes up to
 * MM_MAKE_EACH. is_late: do not be one of few. taken: slices of the first block's first word, for which lanes of `here` have tickets; they are allocated on
 * return. Returns the first page of the block, or MM_MADE_NO_PAGES, or MM_MADE_BUSY: another warp makes it. */
#define MM_MAKE_EACH 2
MM_FN_RARE uint32_t mm_blocks_make(const struct mm_heap_ref *ref, uint32_t here, uint32_t c, uint32_t number, int is_late, uint32_t taken) {
    const uint32_t lane = mm_warp_lane(), rank = mm_popcount(here & mm_bits_low(lane)), leader = mm_ctz(here), many = mm_popcount(here);
    uint32_t unit = 0, claimed[MM_MAKE_EACH], all = 0, segment = MM_TREE_NONE, base = 0, first = MM_MADE_NO_PAGES;
    uint64_t groups = 0;
    if (lane == leader && mm_maker_begin(ref, c, is_late)) {
        if (mm_made_claim(ref, c, number)) unit = mm_at_most(mm_make_unit(ref, c, number), MM_MAKE_EACH * many);
        else mm_maker_end(ref, c);
    }
    mm_warp_sync(here);
    unit = mm_warp_shuffle(here, unit, leader);
    if (unit == 0) return MM_MADE_BUSY;
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) {
        const uint32_t n = rank + i * many;
        claimed[i] = mm_warp_ballot(here, n == 0 || (n < unit && mm_made_claim(ref, c, number + n)));
        all += mm_popcount(claimed[i]);
    }
    if (lane == leader) {
        segment = mm_pages_take(ref, ref->classes[c].page_shift, all, &groups);
        if (segment != MM_TREE_NONE) base = mm_table_add(ref, c, mm_popcount(groups));
    }
    mm_warp_sync(here);
    segment = mm_warp_shuffle(here, segment, leader), base = mm_warp_shuffle(here, base, leader);
    groups = mm_warp_shuffle_u64(here, groups, leader);
    const uint32_t got = segment == MM_TREE_NONE ? 0 : mm_popcount(groups);
    all = 0;
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) {
        const uint32_t mine = number + rank + i * many, n = all + mm_popcount(claimed[i] & mm_bits_low(lane));
        if (claimed[i] >> lane & 1) {
            uint64_t made = mine == number ? mm_made_make(mine, MM_MADE_NO_PAGES) : mm_made_none(mine);
            if (n < got) {
                const uint32_t page = segment * MM_SEGMENT_PAGES + mm_bits_select(groups, n);
                mm_table_put(ref, c, base + n, page, mm_block_make(ref, c, page, mine == number ? taken : 0));
                made = mm_made_make(mine, base + n);
                if (mine == number) first = page;
            }
            mm_store_release_u64(mm_made_at(ref, c, mine), made);
        }
        all += mm_popcount(claimed[i]);
    }
    if (lane == leader) mm_maker_end(ref, c);
    mm_warp_sync(here);
    return mm_warp_shuffle(here, first, leader);
}

#endif
