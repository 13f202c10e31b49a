/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Making blocks: a size class grows by what is requested; a large class at least by a share of itself, up to a segment.
 *
 * Tickets. Each lane for which its class must grow draws a ticket. With S slices in a block, ticket t stands for slice t % S of the block with number t / S.
 *   The lane with a block's first ticket makes the block, and the following blocks for which tickets are drawn already, up to a segment. The other lanes wait
 *   for that with a bound, and then draw anew, so no lane depends on a maker. A lane with a block's first ticket keeps it until the block is made, or until a
 *   later block has the word of made: until then nobody else would make it. If a block is full, the rest of its tickets is skipped.
 * Leaders. In a large class the blocks of a segment would have as many makers, each of which searches for pages. So numbers form aligned groups, of
 *   1/MM_MAKE_SHARE of the number, at most a segment's blocks. The lane with the first ticket of a group's first block makes all blocks of the group, also
 *   those for which no tickets are drawn yet. The lanes with the first tickets of the others make their blocks only if that one is done and has not made them.
 *   While the heap is ample, the leader of a group takes a whole segment, for warps that want one class: lanes that want several would wait for each other's
 *   leaders. (With several makers of one segment each took one, and had to list what it did not use: 131,072 requests of 16 B in a fresh heap took 75 us, and
 *   take 32.) The group is 1/MM_MAKE_AHEAD of the segment's blocks if these have MM_MAKE_LEAST slices, else a larger part. The other blocks have no numbers, and
 *   nobody waits for them: cursors come to them, so that the class need not grow again soon.
 * Making. Become one of few makers (so that each makes many blocks); claim numbers by compare-and-swap of made; take pages; write their owners; then the words;
 *   then the blocks' entries in the table; then made. One fence stands before each of the last three, for all blocks. As soon as an entry is there any lane
 *   may claim the slices, also slices for which tickets were drawn: a lane that comes late draws anew. If there are fewer pages than blocks, those
 *   without numbers are given up first, then the last numbers.
 *   The first block is made with the slices of its maker's warp in the first word allocated. So no other thread can retire the block before its maker has its
 *   slice, and of several warps that make blocks and retire each other's, one always makes progress.
 * made. A ring of words for each class: the number and place of a block that is being made or was made. A later block may take the word at any time.
 *   Who waits for the earlier one draws anew then, and its maker, if it is not done, leaves the word alone.
 * Stale. Only a thread with an entry of an earlier block reads words before they are published. It sees another generation, before and after (word.h).
 */
#ifndef MM_GALLATIN_MAKE_H
#define MM_GALLATIN_MAKE_H

#include "runtime/gallatin/cursor.h"

/* The lanes of `need` draw tickets of class c. Returns the caller's. All lanes of `here` call. */
MM_FN uint32_t mm_tickets_draw(const struct mm_heap_ref *ref, uint32_t here, uint32_t need, uint32_t c) {
    const uint32_t lane = mm_warp_lane(), first = need != 0 ? mm_ctz(need) : mm_ctz(here);
    uint32_t drawn = 0;
    if (need != 0 && lane == first) drawn = mm_add_relaxed_u32(&mm_class_at(ref, c)->tickets, mm_popcount(need));
    return mm_warp_shuffle(here, drawn, first) + mm_popcount(need & mm_bits_low(lane));
}

/* A ticket of that block cannot be served: skips the block's tickets that are not drawn yet. */
MM_FN void mm_tickets_skip(const struct mm_heap_ref *ref, uint32_t c, uint32_t number) {
    uint32_t *tickets = &mm_class_at(ref, c)->tickets;
    const uint32_t slices = ref->classes[c].slices, seen = mm_load_relaxed_u32(tickets), used = seen - number * slices;
    if (used != 0 && used < slices) mm_cas_relaxed_u32(tickets, seen, seen + slices - used);
}

MM_FN uint64_t *mm_made_at(const struct mm_heap_ref *ref, uint32_t c, uint32_t number) {
    return (uint64_t *)ref->made + (ref->classes[c].made + (number & ((1u << ref->classes[c].made_shift) - 1)));
}

/* Whether the heap has so much free memory that nobody need be sparing with it: MM_AMPLE_SEGMENTS, and 1/MM_AMPLE_SHARE of all that is mapped. */
MM_FN int mm_heap_is_ample(const struct mm_heap_ref *ref) {
    const int32_t mapped = (int32_t)mm_grow_mapped(ref), free_count = (int32_t)mm_load_relaxed_u64(&mm_heap_of(ref)->free_count); /* below 0 while it lags */
    return free_count >= (int32_t)MM_AMPLE_SEGMENTS && free_count >= mapped / MM_AMPLE_SHARE;
}

/* What a maker looks at. All loads are under way together, since everybody who waits for the block waits for them. */
struct mm_make_view {
    uint32_t tickets, count;
    int is_ample;
};
MM_FN struct mm_make_view mm_make_look(const struct mm_heap_ref *ref, uint32_t c) {
    struct mm_class_state *of = mm_class_at(ref, c);
    const struct mm_make_view view = {mm_load_relaxed_u32(&of->tickets), mm_class_wide(ref, c), mm_heap_is_ample(ref)};
    return view;
}
/* The number of warps that may make blocks of class c at the same time, less one. */
MM_FN uint32_t mm_makers_most(const struct mm_heap_ref *ref, uint32_t c, struct mm_make_view view) {
    return view.is_ample ? MM_MAKERS_ALL : (view.count << ref->classes[c].page_shift) / MM_MAKER_PAGES;
}
/* Whether one more warp may; *is_ample: whether the heap is. */
MM_FN int mm_maker_may(const struct mm_heap_ref *ref, uint32_t c, int *is_ample) {
    const uint32_t makers = mm_load_relaxed_u32(&mm_class_at(ref, c)->makers);
    struct mm_make_view view = {0, 0, mm_heap_is_ample(ref)}; /* thousands look: no more than they need */
    *is_ample = view.is_ample;
    if (!view.is_ample) view.count = mm_class_wide(ref, c);
    return makers <= mm_makers_most(ref, c, view);
}
MM_FN void mm_maker_end(const struct mm_heap_ref *ref, uint32_t c) { mm_add_relaxed_u32(&mm_class_at(ref, c)->makers, ~0u); }
/* The caller has seen that it may. is_late: it has waited long enough, and need not be one of few. */
MM_FN int mm_maker_begin(const struct mm_heap_ref *ref, uint32_t c, struct mm_make_view view, int is_late) {
    if (mm_add_relaxed_u32(&mm_class_at(ref, c)->makers, 1) <= mm_makers_most(ref, c, view) || is_late) return 1;
    mm_maker_end(ref, c);
    return 0;
}

/* For whom a block is to be made. */
enum mm_first {
    MM_FIRST_NOT,  /* the lane does not have the block's first ticket */
    MM_FIRST_ONE,  /* it has, and all lanes that called want this class */
    MM_FIRST_SOME, /* it has, and others want other classes: they would wait for the leader, too */
    MM_FIRST_LATE  /* it has, and has waited long enough for others to make it */
};
/* The numbers of a group of class k in an ample heap, for warps that want one class: 1/MM_MAKE_AHEAD of a segment's blocks; more if these have fewer than
 * MM_MAKE_LEAST slices. */
MM_FN uint32_t mm_make_group(struct mm_class k) {
    uint32_t n = MM_SEGMENT_PAGES >> k.page_shift;
    MM_ROLLED
    for (uint32_t share = 1; share < MM_MAKE_AHEAD && n > 1 && n / 2 * k.slices >= MM_MAKE_LEAST; share *= 2) n /= 2;
    return n;
}
/* The block whose maker is expected to make this one, too: the first of an aligned group, of mm_make_group (is_wide) or of a share of the number. Sizes of
 * groups are powers of two: who leads a wide group leads all narrower ones of the other kind, too. A lane may wait for a leader that waits for a wider one's. */
MM_FN uint32_t mm_make_leader(const struct mm_heap_ref *ref, uint32_t c, uint32_t number, int is_wide) {
    const uint32_t most = MM_SEGMENT_PAGES >> ref->classes[c].page_shift, share = number / MM_MAKE_SHARE;
    if (is_wide) return number & ~(mm_make_group(ref->classes[c]) - 1);
    return number & ~((share >= most ? most : share == 0 ? 1 : 1u << (31 - mm_clz_u32(share))) - 1);
}
/* How many numbers, from `number` on, of which the caller has the first ticket, are claimed: in an ample heap the rest of its group for MM_FIRST_ONE, else as many
 * as a segment has blocks; else those for which tickets are drawn, and at least 1/MM_MAKE_SHARE of the class, at most a segment's. */
MM_FN uint32_t mm_make_unit(const struct mm_heap_ref *ref, uint32_t c, uint32_t number, struct mm_make_view view, enum mm_first first) {
    const struct mm_class k = ref->classes[c];
    const uint32_t drawn = view.tickets - number * k.slices, most = MM_SEGMENT_PAGES >> k.page_shift, share = view.count / MM_MAKE_SHARE;
    uint32_t slice;
    if (view.is_ample) return first == MM_FIRST_ONE ? mm_make_leader(ref, c, number, 1) + mm_make_group(k) - number : most;
    if (share >= most || drawn - 1 >= k.slices << MM_PAGES_SHIFT) return most;
    const uint32_t unit = mm_class_block_of(k, drawn - 1, &slice) + 1;
    return mm_at_most(unit > share ? unit : share, most);
}
/* Whether the lane with the first ticket of a block need not wait for the block's leader: it is the leader, or the leader is made without it. */
MM_FN int mm_make_is_alone(const struct mm_heap_ref *ref, uint32_t c, uint32_t number, int is_wide) {
    const uint32_t leader = mm_make_leader(ref, c, number, is_wide);
    if (leader == number) return 1;
    const uint64_t made = mm_load_relaxed_u64(mm_made_at(ref, c, leader));
    return (mm_made_is_of(made, leader) && mm_made_index(made) != MM_MADE_BUSY) || mm_made_is_later(made, leader, ref->classes[c].slices);
}

/* Claims a number for the caller, which has seen its word. Returns whether it succeeded. */
MM_FN int mm_made_claim(const struct mm_heap_ref *ref, uint32_t c, uint32_t number, uint64_t seen) {
    return !mm_made_is_of(seen, number) && !mm_made_is_later(seen, number, ref->classes[c].slices) &&
           mm_cas_relaxed_u64(mm_made_at(ref, c, number), seen, mm_made_make(number, MM_MADE_BUSY));
}

/* A lane makes up to so many blocks at a time: at pages; MM_MADE_NO_PAGES: none. index: of its entry; taken: slices of its first word that are allocated. */
#define MM_MAKE_EACH 2
MM_STATIC_ASSERT(MM_TICKET_LOOKS <= 32 && MM_MAKE_LOOKS <= 32, "1u << looks");
struct mm_blocks {
    uint32_t page[MM_MAKE_EACH], index[MM_MAKE_EACH], taken[MM_MAKE_EACH];
};
/* Writes the words of a block, of which the slices `taken` of the first one are allocated. Few instructions for each word: others wait. */
MM_FN void mm_block_words(const struct mm_heap_ref *ref, struct mm_class k, uint32_t page, uint32_t generation, uint32_t taken) {
    uint64_t *const at = mm_page_words(ref, page);
    const uint64_t full = mm_word_make(generation, ~0u), last = mm_word_make(generation, mm_class_word_mask(k, k.words - 1));
    mm_store_published_u64(at, mm_word_make(generation, mm_class_word_mask(k, 0) & ~taken));
    if (k.words == 1) return;
    mm_store_published_u64(at + 1, k.words == 2 ? last : full);
    MM_ROLLED
    for (uint32_t w = 2; w < k.words; w += 2) {
        if (w + 1 == k.words) mm_store_published_u64(at + w, last);
        else mm_store_two_published(at + w, full, w + 2 == k.words ? last : full);
    }
}
/* Writes blocks of this shape, and their entries. All lanes of `here` call. */
MM_FN_RARE void mm_blocks_write(const struct mm_heap_ref *ref, uint32_t here, uint32_t shape, struct mm_blocks mine) {
    const struct mm_class k = ref->classes[shape];
    uint32_t generation[MM_MAKE_EACH], garbage = 0;
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) {
        if (mine.page[i] == MM_MADE_NO_PAGES) continue;
        uint64_t *word = mm_page_words(ref, mine.page[i]);
        const uint64_t was = mm_load_relaxed_u64(word);
        generation[i] = mm_generation_next(was);
        if (mm_word_is_dead(was)) continue;
        mm_store_published_u64(word, mm_word_make(mm_generation_end(mm_word_generation(was)), 0)); /* garbage (layout.h) must not look like a block */
        garbage = 1;
    }
    if (mm_warp_ballot(here, garbage != 0) != 0) mm_publish_fence();
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++)
        if (mine.page[i] != MM_MADE_NO_PAGES) mm_pages_own(ref, mine.page[i], 1u << k.page_shift, shape + 1);
    mm_publish_fence();
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++)
        if (mine.page[i] != MM_MADE_NO_PAGES) mm_block_words(ref, k, mine.page[i], generation[i], mine.taken[i]);
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++)
        if (mine.page[i] != MM_MADE_NO_PAGES) mm_store_relaxed_u32(mm_page_index(ref, mine.page[i]), mine.index[i]);
    mm_publish_fence();
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) {
        uint64_t *at = mine.page[i] != MM_MADE_NO_PAGES ? mm_table_find(ref, mm_shape_class(shape), mine.index[i]) : NULL;
        /* NULL: a debugger stopped the thread that attaches the extent, and the block is lost */
        if (at != NULL) mm_store_published_u64(at, mm_entry_make(generation[i], mine.page[i], shape));
    }
}

/* Makes the block of class c with this number, and perhaps the following ones. All lanes of `here` call, with the same arguments. first: not MM_FIRST_NOT;
 * MM_FIRST_LATE need not be one of few. taken: slices of the first block's first word, for which lanes of `here` have tickets; they are allocated on return.
 * Returns the first page of the block, or MM_MADE_NO_PAGES, or MM_MADE_BUSY: another warp makes it. */
MM_FN_RARE uint32_t mm_blocks_make(const struct mm_heap_ref *ref, uint32_t here, uint32_t c, uint32_t number, enum mm_first first, uint32_t taken) {
    const uint32_t lane = mm_warp_lane(), rank = mm_popcount(here & mm_bits_low(lane)), leader = mm_ctz(here), many = mm_popcount(here);
    uint32_t unit = 0, ahead = 0, claimed[MM_MAKE_EACH], all = 0, segment = MM_TREE_NONE, base = 0;
    uint64_t groups = 0;
    if (lane == leader) {
        const uint64_t seen = mm_load_relaxed_u64(mm_made_at(ref, c, number));
        const struct mm_make_view view = mm_make_look(ref, c);
        if (mm_maker_begin(ref, c, view, first == MM_FIRST_LATE)) {
            if (mm_made_claim(ref, c, number, seen)) unit = mm_at_most(mm_make_unit(ref, c, number, view, first), MM_MAKE_EACH * many);
            else mm_maker_end(ref, c);
            if (first == MM_FIRST_ONE && view.is_ample && mm_make_leader(ref, c, number, 1) == number) ahead = MM_SEGMENT_PAGES >> ref->classes[c].page_shift;
        }
    }
    mm_warp_sync(here);
    unit = mm_warp_shuffle(here, unit, leader), ahead = mm_warp_shuffle(here, ahead, leader);
    if (unit == 0) return MM_MADE_BUSY;
    uint64_t seen[MM_MAKE_EACH];
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) seen[i] = mm_load_relaxed_u64(mm_made_at(ref, c, number + rank + i * many));
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) {
        const uint32_t n = rank + i * many;
        claimed[i] = mm_warp_ballot(here, n == 0 || (n < unit ? mm_made_claim(ref, c, number + n, seen[i]) : n < ahead)); /* these have no numbers */
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
    struct mm_blocks mine;
    all = 0;
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) {
        const uint32_t n = all + mm_popcount(claimed[i] & mm_bits_low(lane));
        const int is_mine = claimed[i] >> lane & 1 && n < got;
        mine.page[i] = is_mine ? segment * MM_SEGMENT_PAGES + mm_bits_select(groups, n) : MM_MADE_NO_PAGES, mine.index[i] = base + n;
        mine.taken[i] = rank == 0 && i == 0 ? taken : 0;
        all += mm_popcount(claimed[i]);
    }
    mm_blocks_write(ref, here, c, mine);
    mm_publish_fence();
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) {
        const uint32_t n = rank + i * many;
        if (!(claimed[i] >> lane & 1) || n >= unit) continue;
        uint64_t made = n == 0 ? mm_made_make(number, MM_MADE_NO_PAGES) : mm_made_none(number + n);
        if (mine.page[i] != MM_MADE_NO_PAGES) made = mm_made_make(number + n, mine.index[i]);
        mm_cas_published_u64(mm_made_at(ref, c, number + n), mm_made_make(number + n, MM_MADE_BUSY), made);
    }
    if (lane == leader) mm_maker_end(ref, c);
    mm_warp_sync(here);
    return mm_warp_shuffle(here, mine.page[0], leader);
}

/* What a lane sees that has a ticket of block `number`. From MM_TICKET_MADE on it need not wait. */
enum mm_ticket {
    MM_TICKET_WAITS,
    MM_TICKET_BUSY, /* the block is being made */
    MM_TICKET_MADE, /* or there were no pages for it */
    MM_TICKET_GONE, /* a later block has its word of made: there is nothing to wait for */
    MM_TICKET_MAKE  /* the lane is to make it */
};
/* *made: the word. */
MM_FN enum mm_ticket mm_ticket_look(const struct mm_heap_ref *ref, uint32_t c, uint32_t number, enum mm_first first, uint64_t *made) {
    int is_ample;
    *made = mm_load_relaxed_u64(mm_made_at(ref, c, number));
    if (mm_made_is_of(*made, number)) return mm_made_index(*made) != MM_MADE_BUSY ? MM_TICKET_MADE : MM_TICKET_BUSY;
    if (mm_made_is_later(*made, number, ref->classes[c].slices)) return MM_TICKET_GONE;
    if (first == MM_FIRST_NOT) return MM_TICKET_WAITS;
    if (first == MM_FIRST_LATE) return MM_TICKET_MAKE;
    return mm_maker_may(ref, c, &is_ample) && mm_make_is_alone(ref, c, number, is_ample && first == MM_FIRST_ONE) ? MM_TICKET_MAKE : MM_TICKET_WAITS;
}

/* Lanes with `go` have tickets of class c. They wait for the blocks for a while, and claim the slices; but if one of them has the first ticket of a group's
 * blocks, for which others wait, they do not wait here. Returns the address, or 0: to mm_slice_malloc with the ticket. All lanes of `here` call. */
MM_FN_RARE uint64_t mm_ticket_claim(const struct mm_heap_ref *ref, uint32_t here, int go, uint32_t c, uint32_t ticket) {
    uint32_t slice;
    const uint32_t number = mm_class_block_of(ref->classes[c], ticket, &slice);
    enum mm_ticket sees = MM_TICKET_WAITS;
    uint64_t made = 0, entry = MM_ENTRY_NONE;
    if (mm_warp_ballot(here, go && slice == 0 && mm_make_leader(ref, c, number, 1) == number) != 0) return 0;
    MM_ROLLED
    for (uint32_t looks = 0; looks < MM_TICKET_LOOKS; looks++) {
        if (go) sees = mm_ticket_look(ref, c, number, slice == 0 ? MM_FIRST_ONE : MM_FIRST_NOT, &made);
        if (mm_warp_ballot(here, sees >= MM_TICKET_MADE) != 0) break;
        mm_pause(ref, mm_at_most(1u << looks, MM_MAKE_PAUSE));
    }
    if (sees == MM_TICKET_MADE && mm_made_index(made) != MM_MADE_NO_PAGES) entry = mm_table_load(ref, c, mm_made_index(made), 0);
    return mm_slices_claim(ref, here, mm_entry_is_of(entry, c), entry, slice, c);
}

#endif
