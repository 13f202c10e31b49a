/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Making blocks: what a block that was made has, claims of numbers, units, leaders, and who makes. Others: test_tickets.c, test_retire.c. */
#include "tests/unit/steps.h"

#undef MM_MAKE_LEAST /* few, so that one lane makes blocks ahead, too */
#define MM_MAKE_LEAST 32

#include "tests/unit/blocks.h"

/* A block that has been made: owners, index, words, entry; and its index for holders of tickets. */
START_TEST(made_whole) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t page = make(c), pages = 1u << mm_class_page_shift(c);
        const struct mm_class k = ref->classes[c];
        unit_eq(page % pages, 0);
        for (uint32_t i = 0; i < pages; i++) unit_eq(*mm_page_owner(ref, page + i), c + 1);
        unit_eq(*mm_page_index(ref, page), 0);
        const uint32_t generation = mm_entry_generation(entry_at(c, 0));
        unit_eq(generation % 2, 0);
        for (uint32_t i = 0; i < k.words; i++) unit_eq(word_at(page, i), mm_word_make(generation, mm_class_word_mask(k, i)));
        unit_eq(of(c)->count, 1);
        unit_eq(of(c)->makers, 0);
        unit_sound(&heap, 0);
        mm_blocks_make(ref, 1, c, 0, MM_FIRST_SOME, 0); /* already made, even for another ticket of it */
        mm_blocks_make(ref, 1, c, 0, MM_FIRST_LATE, 0);
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
        uint32_t slice;
        for (uint32_t i = 0; i < 2 * slices + 3; i++) {
            unit_eq(draw_ticket(c, &slice), i / slices);
            unit_eq(slice, i % slices);
        }
        mm_tickets_skip(ref, c, 0), mm_tickets_skip(ref, c, 1), mm_tickets_skip(ref, c, 3);
        unit_eq(of(c)->tickets, 2 * slices + 3);
        mm_tickets_skip(ref, c, 2);
        unit_eq(of(c)->tickets, 3 * slices);
        mm_tickets_skip(ref, c, 2), mm_tickets_skip(ref, c, 3);
        unit_eq(of(c)->tickets, 3 * slices);
        unit_eq(draw_ticket(c, &slice), 3);
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
        const uint32_t words = 1u << ref->classes[c].made_shift, slices = ref->classes[c].slices;
        unit_eq(mm_made_at(ref, c, words + 3), mm_made_at(ref, c, 3));
        unit_eq(mm_made_at(ref, c, words - 1) - mm_made_at(ref, c, 0), words - 1);
        if (c > 0) unit_eq(mm_made_at(ref, c, 0), mm_made_at(ref, c - 1, (1u << ref->classes[c - 1].made_shift) - 1) + 1);
        const uint32_t most = 1u << (MM_MADE_SHIFT - (ref->classes[c].bytes > 2 * MM_PAGE_BYTES));
        unit_holds(words == most || (words * slices >= MM_MADE_WORDS && words / 2 * slices < MM_MADE_WORDS && words < most), "class %u: %u words", c, words);
    }
    unit_le((uint64_t)(uintptr_t)(mm_made_at(ref, MM_CLASS_COUNT - 1, ~0u) + 1), ref->owners);
}
END_TEST

static uint32_t make_unit(uint32_t c, uint32_t number) { return mm_make_unit(ref, c, number, mm_make_look(ref, c), MM_FIRST_SOME); }

/* A number is claimed once; not if a later block uses the word, but in place of an earlier block, even one being made. */
START_TEST(claims_of_numbers) {
    const uint32_t c = mm_class_of(512);
    unit_eq(claim(c, 7), 1);
    unit_eq(made_at(c, 7), mm_made_make(7, MM_MADE_BUSY));
    unit_eq(claim(c, 7), 0);
    *mm_made_at(ref, c, 7) = mm_made_make(7, 12);
    unit_eq(claim(c, 7), 0);
    *mm_made_at(ref, c, 7) = mm_made_make(7, MM_MADE_NO_PAGES);
    unit_eq(claim(c, 7), 0);
    *mm_made_at(ref, c, 7) = mm_made_none(7);
    unit_eq(claim(c, 7), 1);
    unit_eq(claim(c, 7 + unit_made(ref, c)), 1);
    unit_eq(made_at(c, 7), mm_made_make(7 + unit_made(ref, c), MM_MADE_BUSY));
    unit_eq(claim(c, 7), 0);
    unit_eq(made_at(c, 7), mm_made_make(7 + unit_made(ref, c), MM_MADE_BUSY));
    unit_eq(claim(c, 8), 1);
    unit_eq(claim(c + 1, 7), 1); /* of another class */
}
END_TEST

/* Two claim a number at the same time: one of them gets it. */
static int claimed_, others_claimed_;
static void no_claims(void) {
    *mm_made_at(ref, 15, 7) = mm_made_none(7);
    claimed_ = others_claimed_ = 0;
}
static void claim_one(void) { claimed_ = claim(15, 7); }
static void claim_other(void) { others_claimed_ = claim(15, 7); }
static void claim_later(void) { others_claimed_ = claim(15, 7 + unit_made(ref, 15)); }
static void one_has_it(void) { unit_eq(claimed_ + others_claimed_, 1); }
static void later_has_it(void) {
    unit_eq(others_claimed_, 1);
    unit_eq(made_at(15, 7), mm_made_make(7 + unit_made(ref, 15), MM_MADE_BUSY));
}
/* A later block takes the word of one that is being made: when this is done, the word is still the later one's, so who waits for that finds it. */
static uint32_t late_;
static void two_laps(void) {
    new_heap();
    late_ = first_ticket(15);
}
static void make_early(void) { mm_blocks_make(ref, 1, 15, late_, MM_FIRST_LATE, 0); }
static void make_later(void) { mm_blocks_make(ref, 1, 15, late_ + unit_made(ref, 15), MM_FIRST_LATE, 0); }
static void later_stands(void) {
    unit_eq(mm_made_is_of(made_at(15, late_), late_ + unit_made(ref, 15)), 1);
    unit_lt(mm_made_index(made_at(15, late_)), of(15)->count);
}
START_TEST(a_later_block_meanwhile) { unit_lt(10, unit_at_each_step(two_laps, make_early, make_later, later_stands)); }
END_TEST
START_TEST(claims_meet) {
    unit_lt(1, unit_at_each_step(no_claims, claim_one, claim_other, one_has_it));
    unit_lt(1, unit_at_each_step(no_claims, claim_one, claim_later, later_has_it));
}
END_TEST

/* As many as there are tickets for, no more than a segment has. */
START_TEST(unit) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c);
    of(c)->tickets = 1;
    unit_eq(make_unit(c, 0), 1);
    of(c)->tickets = slices;
    unit_eq(make_unit(c, 0), 1);
    of(c)->tickets = slices + 1;
    unit_eq(make_unit(c, 0), 2);
    of(c)->tickets = 40 * slices;
    unit_eq(make_unit(c, 0), 40);
    unit_eq(make_unit(c, 30), 10);
    unit_eq(make_unit(c, 39), 1);
    of(c)->tickets = 64 * slices + 1;
    unit_eq(make_unit(c, 0), 64);
    unit_eq(make_unit(c, 1), 64);
    of(c)->tickets = ~0u - 5;
    unit_eq(make_unit(c, 0), 64);
    const uint32_t largest = MM_CLASS_COUNT - 1;
    of(largest)->tickets = 100 * mm_class_slices(largest);
    unit_eq(make_unit(largest, 0), 1);
    const uint32_t wide = mm_class_of(2048);
    of(wide)->tickets = 100 * mm_class_slices(wide);
    unit_eq(make_unit(wide, 0), MM_SEGMENT_PAGES >> mm_class_page_shift(wide));
}
END_TEST

/* A large class makes at least a share of itself, at most a segment. */
START_TEST(unit_of_large) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c);
    of(c)->tickets = 3 * slices;
    of(c)->count = 2 * MM_MAKE_SHARE - 1;
    unit_eq(make_unit(c, 2), 1);
    of(c)->count = 2 * MM_MAKE_SHARE;
    unit_eq(make_unit(c, 2), 2);
    unit_eq(make_unit(c, 0), 3);
    of(c)->count = 63 * MM_MAKE_SHARE;
    unit_eq(make_unit(c, 2), 63);
    of(c)->count = 1000 * MM_MAKE_SHARE;
    unit_eq(make_unit(c, 2), 64);
    const uint32_t wide = mm_class_of(2048), most = MM_SEGMENT_PAGES >> mm_class_page_shift(wide);
    of(wide)->tickets = 1;
    of(wide)->count = 100 * most * MM_MAKE_SHARE;
    unit_eq(make_unit(wide, 0), most);
    of(c)->count = of(wide)->count = 0;
}
END_TEST

/* A heap is ample with so many free segments that are so large a share of what is mapped. */
START_TEST(ample) {
    const uint64_t least = MM_AMPLE_SEGMENTS, was = mm_heap_of(ref)->free_count, is_mapped = mm_heap_of(ref)->grow.mapped;
    const struct {
        uint64_t free_count, mapped;
        int is_ample;
    } cases[] = {{least, least, 1},
                 {least - 1, least - 1, 0},
                 {least, least * MM_AMPLE_SHARE, 1},
                 {least, (least + 1) * MM_AMPLE_SHARE, 0},
                 {2 * least, 2 * least * MM_AMPLE_SHARE, 1},
                 {2 * least - 1, 2 * least * MM_AMPLE_SHARE, 0},
                 {~0ull, 8, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mm_heap_of(ref)->free_count = cases[i].free_count, mm_heap_of(ref)->grow.mapped = cases[i].mapped;
        unit_eq(mm_heap_is_ample(ref), cases[i].is_ample);
        unit_eq(mm_make_look(ref, 3).is_ample, cases[i].is_ample);
    }
    mm_heap_of(ref)->free_count = was, mm_heap_of(ref)->grow.mapped = is_mapped;
}
END_TEST

/* In an ample heap a segment's blocks are made for one ticket; for callers that want one class, a group's. */
START_TEST(unit_while_ample) {
    uint64_t *free_count = &mm_heap_of(ref)->free_count;
    const uint64_t was = *free_count;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const struct mm_class k = ref->classes[c];
        const uint32_t most = MM_SEGMENT_PAGES >> k.page_shift, group = mm_make_group(k);
        of(c)->tickets = 1;
        *free_count = MM_AMPLE_SEGMENTS - 1;
        unit_eq(make_unit(c, 0), 1);
        unit_eq(mm_make_unit(ref, c, 0, mm_make_look(ref, c), MM_FIRST_ONE), 1);
        *free_count = MM_AMPLE_SEGMENTS;
        unit_eq(make_unit(c, 0), most);
        unit_eq(mm_make_unit(ref, c, 0, mm_make_look(ref, c), MM_FIRST_ONE), group);
        *free_count = 1u << 30;
        unit_eq(make_unit(c, 0), most);
    }
    *free_count = was;
}
END_TEST

/* The blocks of a segment that have no numbers: nobody has tickets for them, and no word of made names them. Only the leader of a group makes any, in an ample
 * heap, if no other class is wanted; others make the rest of their group. A lane makes at most MM_MAKE_EACH. */
START_TEST(made_ahead) {
    int is_any = 0;
    for (uint32_t n = 0; n < 8 * MM_CLASS_COUNT; n++) {
        new_heap();
        const uint32_t c = n / 8, number = n % 2, is_one = n / 2 % 2, is_ample = n / 4 % 2;
        const struct mm_class k = ref->classes[c];
        const uint32_t most = mm_at_most(MM_SEGMENT_PAGES >> k.page_shift, MM_MAKE_EACH), group = mm_make_group(k);
        const uint32_t numbered = !is_ample ? 1 : is_one ? mm_at_most(group - number % group, most) : most;
        const uint32_t all = is_ample && is_one && number % group == 0 ? most : numbered;
        of(c)->tickets = number * k.slices;
        unit_eq(first_ticket(c), number);
        const int others = all > numbered; /* others make the following numbers */
        for (uint32_t i = numbered; others && i <= most; i++) claim(c, number + i);
        if (is_ample) mm_heap_of(ref)->free_count += MM_AMPLE_SEGMENTS;
        mm_blocks_make(ref, 1, c, number, is_one ? MM_FIRST_ONE : MM_FIRST_SOME, 0);
        if (is_ample) mm_heap_of(ref)->free_count -= MM_AMPLE_SEGMENTS;
        unit_eq(of(c)->count, all);
        for (uint32_t i = 0; i < numbered; i++) unit_eq(made_at(c, number + i), mm_made_make(number + i, i));
        for (uint32_t i = numbered; i <= most; i++) unit_eq(made_at(c, number + i), others ? mm_made_make(number + i, MM_MADE_BUSY) : 0);
        is_any |= numbered < all;
        unit_sound(&heap, 0);
        unit_fresh(&heap, SEGMENTS);
    }
    unit_eq(is_any, 1);
}
END_TEST

/* One lane makes each aligned group of blocks: the one with the first ticket of the first block. The others make theirs if it finished without them. */
START_TEST(leaders) {
    const uint32_t c = mm_class_of(512), most = MM_SEGMENT_PAGES, group = mm_make_group(ref->classes[c]);
    for (uint32_t n = 0, leader = 0, unit = 1; n < 4 * MM_MAKE_SHARE * most; n++) {
        if (n == leader + unit) {
            leader = n;
            while (2 * unit <= n / MM_MAKE_SHARE && 2 * unit <= most) unit *= 2;
        }
        unit_eq(mm_make_leader(ref, c, n, 0), leader);
        if (n == leader) unit_eq(mm_make_is_alone(ref, c, n, 0), 1);
        unit_eq(mm_make_leader(ref, c, n, 1), n / group * group); /* an ample heap, one class */
        unit_eq(mm_make_leader(ref, c, n / most * most, 0), n / most * most);
    }
    unit_eq(mm_make_leader(ref, MM_CLASS_COUNT - 1, 12345, 0), 12345);
    const uint32_t number = 2 * MM_MAKE_SHARE + 1;
    uint64_t *made = mm_made_at(ref, c, number - 1);
    unit_eq(mm_make_is_alone(ref, c, number, 0), 0);
    *made = mm_made_none(number - 1);
    unit_eq(mm_make_is_alone(ref, c, number, 0), 0);
    *made = mm_made_make(number - 1, MM_MADE_BUSY);
    unit_eq(mm_make_is_alone(ref, c, number, 0), 0);
    *made = mm_made_make(number - 1, 5);
    unit_eq(mm_make_is_alone(ref, c, number, 0), 1);
    *made = mm_made_make(number - 1, MM_MADE_NO_PAGES);
    unit_eq(mm_make_is_alone(ref, c, number, 0), 1);
    *made = mm_made_make(number - 1 + unit_made(ref, c), MM_MADE_BUSY); /* a later block uses the word */
    unit_eq(mm_make_is_alone(ref, c, number, 0), 1);
    *made = 0;
}
END_TEST

/* The lane with a block's first ticket makes it, unless that is expected of the maker of an earlier one: of the first of a group if the heap is ample, and nobody
 * in the warp wants another class. */
START_TEST(who_makes) {
    const uint32_t c = mm_class_of(512), number = MM_SEGMENT_PAGES + 1;
    unit_holds(mm_make_group(ref->classes[c]) > 3, "block 3 is in the first group");
    uint64_t *free_count = &mm_heap_of(ref)->free_count, made;
    const uint64_t was = *free_count;
    for (uint64_t free = MM_AMPLE_SEGMENTS - 1; free <= MM_AMPLE_SEGMENTS; free++) {
        const int is_ample = free == MM_AMPLE_SEGMENTS;
        *free_count = free;
        unit_eq(mm_ticket_look(ref, c, 3, MM_FIRST_ONE, &made), is_ample ? MM_TICKET_WAITS : MM_TICKET_MAKE); /* a narrow leader */
        unit_eq(mm_ticket_look(ref, c, 3, MM_FIRST_SOME, &made), MM_TICKET_MAKE);
        unit_eq(mm_ticket_look(ref, c, 3, MM_FIRST_LATE, &made), MM_TICKET_MAKE);
        unit_eq(mm_ticket_look(ref, c, 3, MM_FIRST_NOT, &made), MM_TICKET_WAITS);
        unit_eq(mm_ticket_look(ref, c, number - 1, MM_FIRST_ONE, &made), MM_TICKET_MAKE);
        unit_eq(mm_ticket_look(ref, c, number, MM_FIRST_ONE, &made), MM_TICKET_WAITS);
        *mm_made_at(ref, c, number - 1) = mm_made_make(number - 1, 5); /* made, without this one */
        unit_eq(mm_ticket_look(ref, c, number, MM_FIRST_ONE, &made), MM_TICKET_MAKE);
        *mm_made_at(ref, c, number - 1) = 0;
    }
    *free_count = was;
}
END_TEST

/* Few make blocks at the same time: one, and one more for each MM_MAKER_PAGES pages of the class; a caller that has waited long is always let in. */
START_TEST(makers) {
    int is_ample;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c += 5) {
        const uint32_t share = MM_MAKER_PAGES >> mm_class_page_shift(c);
        for (uint32_t more = 0; more < 4; more++) {
            of(c)->count = more * (share > 1 ? share : 1);
            const uint32_t most = 1 + (of(c)->count << mm_class_page_shift(c)) / MM_MAKER_PAGES;
            for (uint32_t i = 0; i < most; i++) {
                unit_eq(mm_maker_may(ref, c, &is_ample), 1);
                unit_eq(mm_maker_begin(ref, c, mm_make_look(ref, c), 0), 1);
                unit_eq(of(c)->makers, i + 1);
            }
            unit_eq(mm_maker_may(ref, c, &is_ample), 0);
            unit_eq(mm_maker_begin(ref, c, mm_make_look(ref, c), 0), 0);
            unit_eq(of(c)->makers, most);
            unit_eq(mm_maker_begin(ref, c, mm_make_look(ref, c), 1), 1);
            unit_eq(of(c)->makers, most + 1);
            const uint64_t was = mm_heap_of(ref)->free_count;
            unit_eq(is_ample, 0);
            mm_heap_of(ref)->free_count = MM_AMPLE_SEGMENTS; /* no limit while so many are free */
            unit_eq(mm_maker_may(ref, c, &is_ample), 1);
            unit_eq(is_ample, 1);
            unit_eq(mm_maker_begin(ref, c, mm_make_look(ref, c), 0), 1);
            mm_maker_end(ref, c);
            mm_heap_of(ref)->free_count = was;
            for (uint32_t i = 0; i < most + 1; i++) mm_maker_end(ref, c);
            unit_eq(of(c)->makers, 0);
        }
        of(c)->count = 0;
    }
    const uint32_t c = mm_class_of(512), number = first_ticket(c);
    of(c)->makers = 1;
    mm_blocks_make(ref, 1, c, number, MM_FIRST_SOME, 0); /* another maker is at work */
    unit_eq(of(c)->makers, 1);
    unit_eq(of(c)->count, 0);
    unit_eq(made_at(c, number), 0);
    mm_blocks_make(ref, 1, c, number, MM_FIRST_LATE, 0);
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
static void begin_one(void) { begun_ = mm_maker_begin(ref, c_, mm_make_look(ref, c_), 0); }
static void begin_other(void) { others_ = mm_maker_begin(ref, c_, mm_make_look(ref, c_), 0); }
static void one_has_begun(void) {
    unit_eq(begun_ + others_, 1);
    unit_eq(of(c_)->makers, 1);
}
START_TEST(makers_meet) {
    c_ = mm_class_of(512);
    unit_lt(1, unit_at_each_step(nobody_makes, begin_one, begin_other, one_has_begun));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("make");
    TCase *tests = tcase_create("blocks");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {
        made_whole, tickets, made_words, claims_of_numbers, claims_meet, a_later_block_meanwhile, unit, unit_of_large, unit_while_ample, ample,
        made_ahead, leaders, makers,     makers_meet,       who_makes};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
