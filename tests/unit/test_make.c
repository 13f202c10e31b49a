/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Making blocks and retiring them: as many as are wanted, nothing left behind when there are no pages, with any interference. */
#include "tests/unit/steps.h"

#include "tests/unit/blocks.h"

/* A block that has been made: owners, index, words, entry; and its index for holders of tickets. */
START_TEST(made_whole) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t page = make(c), pages = 1u << mm_class_page_shift(c);
        const struct mm_class k = ref->classes[c];
        unit_eq(page % pages, 0);
        for (uint32_t i = 0; i < pages; i++) unit_eq(*mm_page_owner(ref, page + i), c + 1);
        unit_eq(*mm_table_index(ref, page), 0);
        const uint32_t generation = mm_entry_generation(entry_at(c, 0));
        unit_eq(generation % 2, 0);
        for (uint32_t i = 0; i < k.words; i++) unit_eq(word_at(page, i), mm_word_make(generation, mm_class_word_mask(k, i)));
        unit_eq(of(c)->count, 1);
        unit_eq(of(c)->makers, 0);
        unit_sound(&heap, 0);
        mm_blocks_make(ref, 1, c, 0, 0, 0); /* already made, even for another ticket of it */
        mm_blocks_make(ref, 1, c, 0, 1, 0);
        unit_eq(of(c)->count, 1);
        unit_eq(of(c)->makers, 0);
        unit_eq(made_at(c, 0), mm_made_make(0, 0));
        unit_sound(&heap, 0);
        unit_eq(mm_blocks_retire(ref, 1, page), pages);
        for (uint32_t i = 0; i < k.words; i++) unit_eq(word_at(page, i), mm_word_make(generation + 1, 0));
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

/* Each ticket is for another slice, block after block, from 0 on. A caller that found a block full skips its remaining tickets, if they are the next ones;
 * but not those of a block for which no ticket was drawn, nor those that others have skipped. */
START_TEST(tickets) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t slices = mm_class_slices(c);
        uint32_t number, slice;
        for (uint32_t i = 0; i < 2 * slices + 3; i++) {
            mm_tickets_draw(ref, 1, 1, c, &number, &slice);
            unit_eq(number, i / slices);
            unit_eq(slice, i % slices);
        }
        mm_tickets_skip(ref, c, 0), mm_tickets_skip(ref, c, 1), mm_tickets_skip(ref, c, 3);
        unit_eq(of(c)->tickets, 2 * slices + 3);
        mm_tickets_skip(ref, c, 2);
        unit_eq(of(c)->tickets, 3 * slices);
        mm_tickets_skip(ref, c, 2), mm_tickets_skip(ref, c, 3);
        unit_eq(of(c)->tickets, 3 * slices);
        mm_tickets_draw(ref, 1, 1, c, &number, &slice);
        unit_eq(number, 3);
        unit_eq(slice, 0);
        mm_tickets_skip(ref, c, 3);
        unit_eq(of(c)->tickets, 4 * slices);
        unit_eq(of(c)->count, 0); /* drawing changes nothing else */
    }
}
END_TEST

/* What a word of made says: its block's number, whether that block is a later one, and its index. */
START_TEST(made_words) {
    static const uint32_t numbers[] = {0, 1, 2, 4095, 8191, 8192, 1u << 20, (1u << 28) - 1};
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t n = numbers[i], m = numbers[k];
            const uint64_t words[] = {mm_made_make(m, 0), mm_made_make(m, 77), mm_made_make(m, MM_MADE_NO_PAGES), mm_made_make(m, MM_MADE_BUSY)};
            for (uint32_t w = 0; w < 4; w++) {
                unit_eq(mm_made_is_of(words[w], n), n == m);
                unit_eq(mm_made_is_later(words[w], n, 2), m > n);
            }
            unit_eq(mm_made_is_of(mm_made_none(m), m), 0);
            unit_eq(mm_made_is_later(mm_made_none(m), m, 2), 0);
        }
    unit_eq(mm_made_index(mm_made_make(5, 0)), 0);
    unit_eq(mm_made_index(mm_made_make(5, 1u << 26)), 1u << 26);
    unit_eq(mm_made_index(mm_made_make(5, MM_MADE_NO_PAGES)), MM_MADE_NO_PAGES);
    unit_eq(mm_made_index(mm_made_make(5, MM_MADE_BUSY)), MM_MADE_BUSY);
    unit_holds(MM_MADE_NO_PAGES != MM_MADE_BUSY, "no pages, or being made?");
    /* each class has its own words; the blocks of a class use them in turn */
    unit_eq(mm_made_at(ref, 0, 0), ref->made);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        unit_eq(mm_made_at(ref, c, MM_MADE + 3), mm_made_at(ref, c, 3));
        unit_eq(mm_made_at(ref, c, MM_MADE - 1) - mm_made_at(ref, c, 0), MM_MADE - 1);
        if (c > 0) unit_eq(mm_made_at(ref, c, 0) - mm_made_at(ref, c - 1, 0), MM_MADE);
    }
    unit_le((uint64_t)(uintptr_t)(mm_made_at(ref, MM_CLASS_COUNT - 1, MM_MADE - 1) + 1), ref->heap + heap.layout.fixed_bytes);
}
END_TEST

/* A number is claimed once; not if a later block uses the word, but in place of an earlier block, even one being made. */
START_TEST(claims_of_numbers) {
    const uint32_t c = mm_class_of(512);
    unit_eq(mm_made_claim(ref, c, 7), 1);
    unit_eq(made_at(c, 7), mm_made_make(7, MM_MADE_BUSY));
    unit_eq(mm_made_claim(ref, c, 7), 0);
    *mm_made_at(ref, c, 7) = mm_made_make(7, 12);
    unit_eq(mm_made_claim(ref, c, 7), 0);
    *mm_made_at(ref, c, 7) = mm_made_make(7, MM_MADE_NO_PAGES);
    unit_eq(mm_made_claim(ref, c, 7), 0);
    *mm_made_at(ref, c, 7) = mm_made_none(7);
    unit_eq(mm_made_claim(ref, c, 7), 1);
    unit_eq(mm_made_claim(ref, c, 7 + MM_MADE), 1);
    unit_eq(made_at(c, 7), mm_made_make(7 + MM_MADE, MM_MADE_BUSY));
    unit_eq(mm_made_claim(ref, c, 7), 0);
    unit_eq(made_at(c, 7), mm_made_make(7 + MM_MADE, MM_MADE_BUSY));
    unit_eq(mm_made_claim(ref, c, 8), 1);
    unit_eq(mm_made_claim(ref, c + 1, 7), 1); /* of another class */
}
END_TEST

/* Two claim a number at the same time: one of them gets it. */
static int claimed_, others_claimed_;
static void no_claims(void) {
    *mm_made_at(ref, 15, 7) = mm_made_none(7);
    claimed_ = others_claimed_ = 0;
}
static void claim_one(void) { claimed_ = mm_made_claim(ref, 15, 7); }
static void claim_other(void) { others_claimed_ = mm_made_claim(ref, 15, 7); }
static void claim_later(void) { others_claimed_ = mm_made_claim(ref, 15, 7 + MM_MADE); }
static void one_has_it(void) { unit_eq(claimed_ + others_claimed_, 1); }
static void later_has_it(void) {
    unit_eq(others_claimed_, 1);
    unit_eq(made_at(15, 7), mm_made_make(7 + MM_MADE, MM_MADE_BUSY));
}
START_TEST(claims_meet) {
    unit_lt(1, unit_at_each_step(no_claims, claim_one, claim_other, one_has_it));
    unit_lt(1, unit_at_each_step(no_claims, claim_one, claim_later, later_has_it));
}
END_TEST

/* As many as there are tickets for, no more than a segment has. */
START_TEST(unit) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c);
    of(c)->tickets = 1;
    unit_eq(mm_make_unit(ref, c, 0), 1);
    of(c)->tickets = slices;
    unit_eq(mm_make_unit(ref, c, 0), 1);
    of(c)->tickets = slices + 1;
    unit_eq(mm_make_unit(ref, c, 0), 2);
    of(c)->tickets = 40 * slices;
    unit_eq(mm_make_unit(ref, c, 0), 40);
    unit_eq(mm_make_unit(ref, c, 30), 10);
    unit_eq(mm_make_unit(ref, c, 39), 1);
    of(c)->tickets = 64 * slices + 1;
    unit_eq(mm_make_unit(ref, c, 0), 64);
    unit_eq(mm_make_unit(ref, c, 1), 64);
    of(c)->tickets = ~0u - 5;
    unit_eq(mm_make_unit(ref, c, 0), 64);
    const uint32_t largest = MM_CLASS_COUNT - 1;
    of(largest)->tickets = 100 * mm_class_slices(largest);
    unit_eq(mm_make_unit(ref, largest, 0), 1);
    const uint32_t wide = mm_class_of(2048);
    of(wide)->tickets = 100 * mm_class_slices(wide);
    unit_eq(mm_make_unit(ref, wide, 0), MM_SEGMENT_PAGES >> mm_class_page_shift(wide));
}
END_TEST

/* A large class makes at least a share of itself, at most a segment. */
START_TEST(unit_of_large) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c);
    of(c)->tickets = 3 * slices;
    of(c)->count = 2 * MM_MAKE_SHARE - 1;
    unit_eq(mm_make_unit(ref, c, 2), 1);
    of(c)->count = 2 * MM_MAKE_SHARE;
    unit_eq(mm_make_unit(ref, c, 2), 2);
    unit_eq(mm_make_unit(ref, c, 0), 3);
    of(c)->count = 63 * MM_MAKE_SHARE;
    unit_eq(mm_make_unit(ref, c, 2), 63);
    of(c)->count = 1000 * MM_MAKE_SHARE;
    unit_eq(mm_make_unit(ref, c, 2), 64);
    const uint32_t wide = mm_class_of(2048), most = MM_SEGMENT_PAGES >> mm_class_page_shift(wide);
    of(wide)->tickets = 1;
    of(wide)->count = 100 * most * MM_MAKE_SHARE;
    unit_eq(mm_make_unit(ref, wide, 0), most);
    of(c)->count = of(wide)->count = 0;
}
END_TEST

/* While the heap has many free segments, a segment's blocks are made for one ticket. */
START_TEST(unit_while_much_is_free) {
    uint64_t *free_count = &mm_heap_of(ref)->free_count;
    const uint64_t was = *free_count;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        of(c)->tickets = 1;
        *free_count = MM_MAKE_FREE_SEGMENTS - 1;
        unit_eq(mm_make_unit(ref, c, 0), 1);
        *free_count = MM_MAKE_FREE_SEGMENTS;
        unit_eq(mm_make_unit(ref, c, 0), MM_SEGMENT_PAGES >> mm_class_page_shift(c));
        *free_count = 1u << 20;
        unit_eq(mm_make_unit(ref, c, 0), MM_SEGMENT_PAGES >> mm_class_page_shift(c));
    }
    *free_count = was;
}
END_TEST

/* One lane makes each aligned group of blocks: the one with the first ticket of the first block. The others make theirs if it finished without them. */
START_TEST(leaders) {
    const uint32_t c = mm_class_of(512), most = MM_SEGMENT_PAGES;
    for (uint32_t n = 0, leader = 0, unit = 1; n < 4 * MM_MAKE_SHARE * most; n++) {
        if (n == leader + unit) {
            leader = n;
            while (2 * unit <= n / MM_MAKE_SHARE && 2 * unit <= most) unit *= 2;
        }
        unit_eq(mm_make_leader(ref, c, n), leader);
        if (n == leader) unit_eq(mm_make_is_alone(ref, c, n), 1);
    }
    unit_eq(mm_make_leader(ref, MM_CLASS_COUNT - 1, 12345), 12345);
    const uint32_t number = 2 * MM_MAKE_SHARE + 1;
    uint64_t *made = mm_made_at(ref, c, number - 1);
    unit_eq(mm_make_is_alone(ref, c, number), 0);
    *made = mm_made_none(number - 1);
    unit_eq(mm_make_is_alone(ref, c, number), 0);
    *made = mm_made_make(number - 1, MM_MADE_BUSY);
    unit_eq(mm_make_is_alone(ref, c, number), 0);
    *made = mm_made_make(number - 1, 5);
    unit_eq(mm_make_is_alone(ref, c, number), 1);
    *made = mm_made_make(number - 1, MM_MADE_NO_PAGES);
    unit_eq(mm_make_is_alone(ref, c, number), 1);
    *made = mm_made_make(number - 1 + MM_MADE, MM_MADE_BUSY); /* a later block uses the word */
    unit_eq(mm_make_is_alone(ref, c, number), 1);
    *made = 0;
}
END_TEST

/* Few make blocks at the same time: one, and one more for each MM_MAKER_PAGES pages of the class; a caller that has waited long is always let in. */
START_TEST(makers) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c += 5) {
        const uint32_t share = MM_MAKER_PAGES >> mm_class_page_shift(c);
        for (uint32_t more = 0; more < 4; more++) {
            of(c)->count = more * (share > 1 ? share : 1);
            const uint32_t most = 1 + (of(c)->count << mm_class_page_shift(c)) / MM_MAKER_PAGES;
            for (uint32_t i = 0; i < most; i++) {
                unit_eq(mm_maker_may(ref, c), 1);
                unit_eq(mm_maker_begin(ref, c, 0), 1);
                unit_eq(of(c)->makers, i + 1);
            }
            unit_eq(mm_maker_may(ref, c), 0);
            unit_eq(mm_maker_begin(ref, c, 0), 0);
            unit_eq(of(c)->makers, most);
            unit_eq(mm_maker_begin(ref, c, 1), 1);
            unit_eq(of(c)->makers, most + 1);
            for (uint32_t i = 0; i < most + 1; i++) mm_maker_end(ref, c);
            unit_eq(of(c)->makers, 0);
        }
        of(c)->count = 0;
    }
    const uint32_t c = mm_class_of(512), number = first_ticket(c);
    of(c)->makers = 1;
    mm_blocks_make(ref, 1, c, number, 0, 0); /* another maker is at work */
    unit_eq(of(c)->makers, 1);
    unit_eq(of(c)->count, 0);
    unit_eq(made_at(c, number), 0);
    mm_blocks_make(ref, 1, c, number, 1, 0);
    unit_eq(of(c)->makers, 1);
    unit_eq(of(c)->count, 1);
    unit_eq(made_at(c, number), mm_made_make(number, 0));
    of(c)->makers = 0;
    unit_fresh(&heap, SEGMENTS);
}
END_TEST
/* Two want to become makers where there is room for one: one of them does. */
static uint32_t c_;
static int begun_, others_;
static void nobody_makes(void) {
    new_heap();
    begun_ = others_ = 0;
}
static void begin_one(void) { begun_ = mm_maker_begin(ref, c_, 0); }
static void begin_other(void) { others_ = mm_maker_begin(ref, c_, 0); }
static void one_has_begun(void) {
    unit_eq(begun_ + others_, 1);
    unit_eq(of(c_)->makers, 1);
}
START_TEST(makers_meet) {
    c_ = mm_class_of(512);
    unit_lt(1, unit_at_each_step(nobody_makes, begin_one, begin_other, one_has_begun));
}
END_TEST

static void *rest_[3];
/* Leaves one page, or none. */
static void little_room(int pages) {
    rest_[0] = mm_cpu_malloc(&heap, (SEGMENTS - (pages != 0)) * MM_SEGMENT_BYTES);
    rest_[1] = pages == 0 ? NULL : mm_cpu_malloc(&heap, 56 * MM_PAGE_BYTES);
    rest_[2] = pages == 0 ? NULL : mm_cpu_malloc(&heap, (8 - (uint32_t)pages) * MM_PAGE_BYTES);
    unit_holds(rest_[0] != NULL && (pages == 0 || (rest_[1] != NULL && rest_[2] != NULL)), "NULL in an empty heap");
}
static void room_again(void) { mm_cpu_free(&heap, rest_[0]), mm_cpu_free(&heap, rest_[1]), mm_cpu_free(&heap, rest_[2]); }

/* The maker of a block also makes the next ones for which there are tickets, as many as a lane makes; each number has its own entry. */
START_TEST(several_at_once) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c);
    of(c)->tickets = 3 * slices;
    mm_blocks_make(ref, 1, c, 0, 0, 0);
    unit_eq(of(c)->count, MM_MAKE_EACH);
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) {
        unit_eq(made_at(c, i), mm_made_make(i, i));
        unit_holds(mm_entry_is_of(entry_at(c, i), c), "entry %u", i);
    }
    unit_eq(made_at(c, MM_MAKE_EACH), 0);
    unit_sound(&heap, 0);
    /* a number that another caller has claimed is skipped and stays with that caller */
    of(c)->tickets = 20 * slices;
    unit_eq(mm_made_claim(ref, c, 11), 1);
    mm_blocks_make(ref, 1, c, 10, 0, 0);
    unit_eq(of(c)->count, MM_MAKE_EACH + 1);
    unit_eq(made_at(c, 10), mm_made_make(10, MM_MAKE_EACH));
    unit_eq(made_at(c, 11), mm_made_make(11, MM_MADE_BUSY));
    unit_eq(of(c)->makers, 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Fewer pages than numbers: the first one gets them, and the others are unclaimed again; the holders of their tickets make them, or find no pages. */
START_TEST(fewer_pages) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c);
    little_room(1);
    of(c)->tickets = 2 * slices;
    mm_blocks_make(ref, 1, c, 0, 0, 0);
    unit_eq(of(c)->count, 1);
    unit_eq(made_at(c, 0), mm_made_make(0, 0));
    unit_eq(made_at(c, 1), mm_made_none(1));
    unit_eq(of(c)->makers, 0);
    mm_blocks_make(ref, 1, c, 1, 0, 0);
    unit_eq(made_at(c, 1), mm_made_make(1, MM_MADE_NO_PAGES));
    unit_eq(of(c)->count, 1);
    unit_eq(of(c)->makers, 0);
    unit_sound(&heap, UNIT_ANY);
    of(c)->tickets = 5 * slices;
    mm_blocks_make(ref, 1, c, 3, 0, 0);
    unit_eq(made_at(c, 3), mm_made_make(3, MM_MADE_NO_PAGES));
    unit_eq(made_at(c, 4), mm_made_none(4)); /* not "no pages": its maker may find some */
    room_again();
    mm_blocks_make(ref, 1, c, 4, 0, 0);
    unit_eq(made_at(c, 4), mm_made_make(4, 1));
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* No pages: no entries, no maker left over, the rest of the block's tickets are skipped, and callers look for slices that came back. */
START_TEST(no_pages) {
    little_room(0);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t slices = mm_class_slices(c);
        for (int i = 0; i < 5; i++) {
            unit_holds(mm_cpu_malloc(&heap, mm_class_bytes(c)) == NULL, "a slice while a run has all");
            unit_eq(of(c)->tickets % slices, 0);
            unit_eq(mm_class_is_growing(of(c), 0), 0);
        }
        unit_lt(0, of(c)->tickets);
        of(c)->until = of(c)->tickets + 100 * slices;
        unit_holds(mm_cpu_malloc(&heap, mm_class_bytes(c)) == NULL, "a slice while a run has all");
        unit_eq(mm_class_is_growing(of(c), 0), 0);
        unit_eq(of(c)->count, 0);
        unit_eq(of(c)->makers, 0);
        unit_eq(entry_at(c, 0), MM_ENTRY_NONE);
    }
    room_again();
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        void *p = mm_cpu_malloc(&heap, mm_class_bytes(c));
        unit_holds(p != NULL, "NULL in an empty heap");
        unit_eq(of(c)->count, 1);
        mm_cpu_free(&heap, p);
        mm_cpu_heap_drain_quiescent(&heap);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* ---- What a ticket's holder finds ---- */

/* malloc for that ticket. */
static void *by_ticket(uint32_t c, uint32_t ticket) { return mm_slice_malloc(ref, mm_token_grow(c, ticket)); }

/* The block of the ticket is there: malloc returns its slice. If the block is full: a new ticket, and the rest of its tickets are skipped. */
START_TEST(ticket_of_a_block_that_is_there) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c), page = make(c);
    of(c)->tickets = 7;
    unit_eq((uint64_t)(uintptr_t)by_ticket(c, 6), (uint64_t)(uintptr_t)slice_at(page, c, 6));
    unit_eq(of(c)->tickets, 7);
    unit_eq(of(c)->count, 1);
    for (uint32_t i = 0; i < slices; i++)
        if (i != 6) unit_lt(0, mm_slices_claim(ref, 1, 1, entry_at(c, 0), i, c));
    void *p = by_ticket(c, 3);
    unit_eq(of(c)->count, 2);
    unit_eq((uint64_t)(uintptr_t)p, (uint64_t)(uintptr_t)slice_at(mm_entry_page(entry_at(c, 1)), c, 0));
    unit_eq(of(c)->tickets, slices + 1);
    unit_eq(made_at(c, 1), mm_made_make(1, 1));
    unit_sound(&heap, (slices + 1) * 512ull);
}
END_TEST

/* A later block uses the word: the ticket's holder draws from the cursors, and makes nothing. */
START_TEST(ticket_of_long_ago) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c), page = make(c);
    *mm_made_at(ref, c, 5) = mm_made_make(5 + MM_MADE, 0);
    of(c)->tickets = (5 + MM_MADE) * slices + 1;
    for (uint32_t i = 0; i < 2; i++) {
        unit_eq((uint64_t)(uintptr_t)by_ticket(c, 5 * slices + i), (uint64_t)(uintptr_t)slice_at(page, c, i));
        unit_eq(of(c)->tickets, (5 + MM_MADE) * slices + 1);
    }
    unit_eq(of(c)->count, 1);
    unit_sound(&heap, 2 * 512);
}
END_TEST

/* The block's maker never comes, or never ends: after a bounded number of looks the others draw new tickets, and make their own blocks. */
START_TEST(nobody_depends_on_a_maker) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c);
    of(c)->tickets = 2; /* the holder of the first one is gone */
    unit_holds(by_ticket(c, 1) != NULL, "NULL");
    unit_eq(of(c)->count, 1);
    unit_lt(slices, of(c)->tickets + 1);
    const uint32_t count = of(c)->count, number = first_ticket(c);
    *mm_made_at(ref, c, number) = mm_made_make(number, MM_MADE_BUSY);
    for (uint32_t i = 0; i < 2; i++) unit_holds(by_ticket(c, number * slices + i) != NULL, "NULL");
    unit_lt(count, of(c)->count);
    unit_eq(made_at(c, number), mm_made_make(number, MM_MADE_BUSY));
    unit_sound(&heap, 3 * 512);
    const uint32_t late = first_ticket(c); /* the makers are all stopped */
    of(c)->makers = 1;
    unit_holds(by_ticket(c, late * slices) != NULL, "NULL");
    unit_eq(of(c)->makers, 1);
    of(c)->makers = 0;
    unit_holds(mm_made_is_of(made_at(c, late), late) && mm_made_index(made_at(c, late)) == of(c)->count - 1, "it has not been made");
    unit_sound(&heap, 4 * 512);
    unit_eq(mm_cpu_null_count(&heap), 0);
}
END_TEST

/* Ticket numbers wrap around after 2^32: no caller takes an old block for a later one, or waits for ever. */
START_TEST(tickets_begin_again) {
    static const uint32_t sizes[] = {16, 48, 512, 640, 65536};
    const uint32_t c = mm_class_of(sizes[_i]), slices = mm_class_slices(c);
    static void *held[12000];
    uint32_t n = 0;
    for (uint32_t i = 0; i < MM_MADE; i++) { /* as if all had been drawn */
        const uint32_t number = ~0u / slices - i;
        *mm_made_at(ref, c, number) = mm_made_make(number, 0);
    }
    of(c)->tickets = ~0u / slices * slices;
    *mm_made_at(ref, c, ~0u / slices) = mm_made_none(~0u / slices);
    const uint32_t most = unit_slices(c) * SEGMENTS;
    uint64_t steps = 0;
    for (; n < 12000 && n < most / 2; n++) {
        held[n] = mm_cpu_malloc(&heap, mm_class_bytes(c));
        unit_holds(held[n] != NULL, "NULL while there is memory");
    }
    (void)steps;
    unit_lt(of(c)->tickets, 1u << 31);
    unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
    unit_le((of(c)->count - 1) * slices, n + n / 4 + 2 * slices); /* no needless growth */
    for (uint32_t i = 0; i < n; i++) mm_cpu_free(&heap, held[i]);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* ---- Growing and staying ---- */

/* A class that grows becomes twice as large, up to a segment, or grows by 2/MM_GROW_SHARE; callers meanwhile draw that many tickets, then none.
 * Growth ends if there are no pages. */
START_TEST(growing) {
    static const uint32_t counts[] = {1, 3, 63, 64, 100, 511, 512, 2000};
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c += 3)
        for (uint32_t i = 0; i < 8; i++) {
            const uint32_t slices = mm_class_slices(c), segment = MM_SEGMENT_PAGES >> mm_class_page_shift(c), n = counts[i];
            const uint32_t few = n < segment ? n : segment, share = 2 * n / MM_GROW_SHARE, blocks = few > share ? few : share;
            of(c)->count = n, of(c)->tickets = of(c)->until = ~0u - 3; /* numbers wrap around */
            unit_eq(mm_class_is_growing(of(c), 0) + mm_class_is_growing(of(c), 1), 0);
            mm_class_raise(ref, c);
            unit_eq(of(c)->until - of(c)->tickets, blocks * slices);
            unit_eq(mm_class_is_growing(of(c), 0) + mm_class_is_growing(of(c), 1), 2);
            of(c)->tickets += 5;
            mm_class_raise(ref, c); /* it is growing already */
            unit_eq(of(c)->until - of(c)->tickets, blocks * slices - 5);
            mm_class_stay(ref, c);
            unit_eq(mm_class_is_growing(of(c), 0) + mm_class_is_growing(of(c), 1), 0);
            of(c)->until = of(c)->tickets - 1;
            unit_eq(mm_class_is_growing(of(c), 0), 0);
            of(c)->count = 0;
        }
}
END_TEST

/* Which samples make a class grow: few free slices of many, or of all there are; many rounds. If the class got no pages lately: a sample of all words,
 * or of many, whatever was free in them. */
START_TEST(samples_say_grow) {
    static const struct {
        uint32_t entries;
        struct mm_seen seen;
        uint32_t rounds;
        int is_poor, grows, is_low;
    } cases[] = {
        {100, {MM_GROW_SEEN, MM_GROW_SEEN / MM_GROW_SHARE, 16}, 1, 0, 1, 1},
        {100, {MM_GROW_SEEN, MM_GROW_SEEN / MM_GROW_SHARE + 1, 16}, 1, 0, 0, 0},
        {100, {MM_GROW_SEEN - 1, 1, 15}, 1, 0, 0, 0}, /* too few */
        {100, {MM_GROW_SEEN_FULL, 0, 15}, 1, 0, 1, 1},
        {100, {MM_GROW_SEEN_FULL, 1, 15}, 1, 0, 0, 0},
        {100, {MM_GROW_SEEN_FULL - 1, 0, 15}, 1, 0, 0, 0},
        {15, {MM_GROW_SEEN - 1, 0, 15}, 1, 0, 1, 1}, /* all of it */
        {15, {MM_GROW_SEEN - 1, MM_GROW_SEEN / 2, 15}, 1, 0, 0, 0},
        {100, {64, 64, 2}, MM_SAMPLE_ROUNDS - 1, 0, 0, 0},
        {100, {64, 64, 2}, MM_SAMPLE_ROUNDS, 0, 1, 0},
        {1000, {32 * (MM_SAMPLE_POOR - 1), 0, MM_SAMPLE_POOR - 1}, MM_SAMPLE_ROUNDS, 1, 0, 0},
        {1000, {32 * MM_SAMPLE_POOR, 0, MM_SAMPLE_POOR}, 8, 1, 1, 0},
        {40, {32 * 40, 0, 40}, 2, 1, 0, 0}, /* 40 random looks do not cover all of 40 words */
        {1000, {0, 0, 0}, MM_SAMPLE_POOR - 1, 1, 0, 0},
        {1000, {0, 0, 0}, MM_SAMPLE_POOR, 1, 1, 0},
        {15, {32 * 15, 32 * 15, 15}, 1, 1, 1, 0},
        {0, {0, 0, 0}, 1, 0, 1, 1},
        {0, {0, 0, 0}, 1, 1, 1, 0},
    };
    const uint32_t c = mm_class_of(512); /* one word per block */
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int is_low = -1;
        unit_eq(mm_class_should_grow(ref, c, cases[i].entries, cases[i].seen, cases[i].rounds, cases[i].is_poor, &is_low), cases[i].grows);
        unit_eq(is_low, cases[i].is_low);
    }
}
END_TEST

/* A class is poor for a while after it got no pages, unless there are free segments by now. */
START_TEST(poor_for_a_while) {
    const uint64_t segments = mm_heap_of(ref)->free_count;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        uint64_t began_ns;
        int is_poor;
        mm_heap_of(ref)->free_count = 0;
        unit_eq(mm_class_is_poor(ref, c), 0);
        do { /* repeated if this thread was stopped for that long */
            began_ns = mm_now_ns();
            mm_class_stay(ref, c);
            is_poor = mm_class_is_poor(ref, c);
        } while (mm_now_ns() - began_ns >= MM_GROW_REFUSAL_NS);
        unit_eq(is_poor, 1);
        of(c)->stays_ns = mm_now_ns() + 1000000000; /* another multiprocessor's clock */
        unit_eq(mm_class_is_poor(ref, c), 1);
        mm_heap_of(ref)->free_count = segments;
        unit_eq(mm_class_is_poor(ref, c), 0);
        mm_heap_of(ref)->free_count = 0;
        of(c)->stays_ns = mm_now_ns() - MM_GROW_REFUSAL_NS;
        unit_eq(mm_class_is_poor(ref, c), 0);
    }
    mm_heap_of(ref)->free_count = segments;
}
END_TEST

/* malloc's first part: tickets for a class that has nothing or is growing; else slices. */
START_TEST(who_draws_tickets) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c);
    unit_eq(mm_slice_draw(ref, c), mm_token_grow(c, 0));
    unit_eq(mm_slice_draw(ref, c), mm_token_grow(c, 1));
    unit_eq(mm_token_class(mm_token_grow(c, 1)), c);
    unit_eq(mm_token_ticket(mm_token_grow(c, ~0u)), ~0u);
    const uint32_t page = make(c);
    unit_eq(of(c)->tickets, slices + 1);
    for (uint32_t turn = 0; turn < 2; turn++) unit_eq(mm_cursor_draw(ref, 1, 1, 1, c, turn), (uint64_t)(uintptr_t)slice_at(page, c, turn));
    unit_eq(of(c)->tickets, slices + 1);
    mm_class_raise(ref, c);
    for (uint32_t i = 0; i < slices; i++) unit_eq(mm_cursor_draw(ref, 1, 1, 1, c, i % 3), mm_token_grow(c, slices + 1 + i));
    unit_eq(mm_cursor_draw(ref, 1, 1, 1, c, 0), (uint64_t)(uintptr_t)slice_at(page, c, 2));
    unit_eq(mm_cursor_draw(ref, 1, 1, 0, c, 0), 0); /* a lane that does not take part draws nothing */
    unit_eq(of(c)->tickets, 2 * slices + 1);
    mm_class_raise(ref, c);
    mm_class_stay(ref, c);
    unit_eq(mm_cursor_draw(ref, 1, 1, 1, c, 0), (uint64_t)(uintptr_t)slice_at(page, c, 3));
    unit_sound(&heap, 4 * 512);
}
END_TEST

/* Only blocks that are completely free, from their first page on; and each only once. */
START_TEST(retires_full_blocks_only) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t page = make(c), slices = mm_class_slices(c), pages = 1u << mm_class_page_shift(c);
        for (uint32_t i = 0; i < slices; i += i < 40 ? 1 : 61) {
            unit_lt(0, mm_slices_claim(ref, 1, 1, entry_at(c, 0), i, c));
            const uint64_t generation = mm_word_generation(word_at(page, 0));
            unit_eq(mm_blocks_retire(ref, 1, page), 0);
            unit_eq(mm_word_generation(word_at(page, 0)), generation);
            unit_sound(&heap, mm_class_bytes(c)); /* it gave back all that it took */
            mm_cpu_free(&heap, slice_at(page, c, i));
        }
        for (uint32_t i = 1; i < pages; i++) unit_eq(mm_blocks_retire(ref, 1, page + i), 0);
        unit_eq(mm_blocks_retire(ref, 1, page), pages);
        unit_eq(mm_blocks_retire(ref, 1, page), 0);
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, SEGMENTS);
    }
    unit_eq(mm_blocks_retire(ref, 1, 5), 0);
    void *span = mm_cpu_malloc(&heap, 9 * MM_PAGE_BYTES), *run = mm_cpu_malloc(&heap, MM_SEGMENT_BYTES);
    for (uint32_t page = 0; page < SEGMENTS * MM_SEGMENT_PAGES; page++) unit_eq(mm_blocks_retire(ref, 1, page), 0);
    mm_cpu_free(&heap, span), mm_cpu_free(&heap, run);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* A page's generations wrap around, and never equal that of an entry. */
START_TEST(generations_begin_again) {
    const uint32_t c = mm_class_of(512);
    const uint32_t page = make(c);
    mm_blocks_retire(ref, 1, page);
    mm_page_words(ref, page)[0] = mm_word_make(~0u - 4, 0);
    uint32_t before = 0;
    for (int i = 0; i < 6; i++) {
        unit_eq(make(c), page);
        const uint32_t now = mm_entry_generation(entry_at(c, 0));
        unit_holds(now % 2 == 0 && now != 0 && now != before, "generation %u after %u", now, before);
        before = now;
        void *p = mm_cpu_malloc(&heap, 512);
        unit_holds(p == slice_at(page, c, (uint32_t)((uint64_t)p - (uint64_t)slice_at(page, c, 0)) / 512), "elsewhere");
        mm_cpu_free(&heap, p);
        unit_sound(&heap, 0);
        unit_lt(0, mm_blocks_retire(ref, 1, page));
    }
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Retires the free blocks of all classes: some at random, or all; nothing else changes. */
START_TEST(retires_all_and_some) {
    static void *held[4000];
    uint64_t live = 0;
    for (uint32_t i = 0; i < 4000; i++) held[i] = mm_cpu_malloc(&heap, 16u << i % 10);
    for (uint32_t i = 0; i < 4000; i++) {
        if (i % 500 == 7) live += mm_cpu_usable_size(&heap, held[i]);
        else mm_cpu_free(&heap, held[i]);
    }
    uint32_t got = 0;
    int is_busy = 0;
    for (int i = 0; i < 1000; i++) got += mm_slices_retire_some(ref, 1, &is_busy);
    unit_eq(is_busy, 0);
    unit_lt(0, got);
    unit_sound(&heap, live);
    mm_slices_retire_all(ref, 1);
    unit_eq(mm_slices_retire_all(ref, 1), 0);
    unit_sound(&heap, live);
    for (uint32_t i = 7; i < 4000; i += 500) mm_cpu_free(&heap, held[i]);
    unit_eq(mm_slices_retire_all(ref, 1), 1);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* ---- Interference at each step ---- */

static uint32_t page_;
static void *p_, *q_;
static void empty(void) {
    new_heap();
    p_ = q_ = NULL, page_ = 0;
    (void)mm_table_at(ref, c_, 0); /* attach the extent now: a caller at an intermediate step would wait for it in vain */
}
static void one_block(void) {
    empty();
    page_ = make(c_);
}
static void make_first(void) { mm_blocks_make(ref, 1, c_, first_ticket(c_), 0, 0); }
static void retire(void) { (void)mm_blocks_retire(ref, 1, page_); }
static void retire_any(void) { /* whichever page it has */
    for (uint32_t page = 0; page < SEGMENTS * MM_SEGMENT_PAGES; page++) (void)mm_blocks_retire(ref, 1, page);
}
static void take_p(void) { p_ = mm_cpu_malloc(&heap, mm_class_bytes(c_)); }
static void take_q(void) { q_ = mm_cpu_malloc(&heap, mm_class_bytes(c_)); }
static void take_other(void) { q_ = mm_cpu_malloc(&heap, 20 * MM_PAGE_BYTES); }
static void put_p(void) { mm_cpu_free(&heap, p_), p_ = NULL; }
static void sound(void) {
    unit_sound(&heap, mm_cpu_usable_size(&heap, p_) + mm_cpu_usable_size(&heap, q_));
    unit_holds(p_ == NULL || p_ != q_, "a slice was handed out twice");
    unit_eq(mm_cpu_null_count(&heap), 0);
    mm_cpu_free(&heap, p_), mm_cpu_free(&heap, q_);
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
static void one_slice(void) {
    one_block();
    take_p();
}
START_TEST(meetings) {
    static const uint32_t sizes[] = {48, 512, 4096, 65536};
    c_ = mm_class_of(sizes[_i]);
    unit_at_each_step(empty, make_first, retire, sound);
    unit_at_each_step(empty, make_first, retire_any, sound);
    unit_at_each_step(empty, take_p, retire_any, sound);
    unit_at_each_step(empty, make_first, take_p, sound);
    unit_at_each_step(empty, take_p, retire, sound);
    unit_at_each_step(empty, take_p, take_q, sound);
    unit_at_each_step(empty, take_p, make_first, sound);
    unit_at_each_step(one_block, retire, take_p, sound);
    unit_at_each_step(one_block, take_p, retire, sound);
    unit_at_each_step(one_block, retire, retire, sound);
    unit_at_each_step(one_slice, retire, put_p, sound);
    unit_at_each_step(one_slice, put_p, retire, sound);
    unit_at_each_step(one_block, retire, take_other, sound);
    unit_at_each_step(one_block, take_other, retire, sound);
}
END_TEST

/* A block is retired, and its page goes to another class, during retire or malloc: the other class's block is intact, or gone. */
static uint32_t d_;
static void other_class_there(void) { /* the block is retired, and another class takes its page */
    if (mm_blocks_retire(ref, 1, page_) == 0) return;
    make(d_);
    q_ = mm_cpu_malloc(&heap, mm_class_bytes(d_));
}
START_TEST(another_class_there) {
    static const uint32_t sizes[] = {48, 64, 512, 1024, 4096};
    c_ = mm_class_of(sizes[_i / 5]), d_ = mm_class_of(sizes[_i % 5]);
    unit_at_each_step(one_block, retire, other_class_there, sound);
    unit_at_each_step(one_block, take_p, other_class_there, sound);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("make");
    TCase *tests = tcase_create("blocks");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {made_whole,
                                tickets,
                                made_words,
                                claims_of_numbers,
                                claims_meet,
                                unit,
                                unit_of_large,
                                unit_while_much_is_free,
                                leaders,
                                makers,
                                makers_meet,
                                several_at_once,
                                fewer_pages,
                                no_pages,
                                ticket_of_a_block_that_is_there,
                                ticket_of_long_ago,
                                nobody_depends_on_a_maker,
                                growing,
                                samples_say_grow,
                                poor_for_a_while,
                                who_draws_tickets,
                                retires_full_blocks_only,
                                generations_begin_again,
                                retires_all_and_some};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    tcase_add_loop_test(tests, tickets_begin_again, 0, 5);
    tcase_add_loop_test(tests, meetings, 0, 4);
    tcase_add_loop_test(tests, another_class_there, 0, 25);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
