/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tickets for blocks: as many blocks as are wanted, nothing left behind when there are no pages, and what a ticket's holder finds. */
#include "tests/unit/steps.h"

#include "tests/unit/blocks.h"

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
    mm_blocks_make(ref, 1, c, 0, MM_FIRST_SOME, 0);
    unit_eq(of(c)->count, MM_MAKE_EACH);
    for (uint32_t i = 0; i < MM_MAKE_EACH; i++) {
        unit_eq(made_at(c, i), mm_made_make(i, i));
        unit_holds(mm_entry_is_of(entry_at(c, i), c), "entry %u", i);
    }
    unit_eq(made_at(c, MM_MAKE_EACH), 0);
    unit_sound(&heap, 0);
    /* a number that another caller has claimed is skipped and stays with that caller */
    of(c)->tickets = 20 * slices;
    unit_eq(claim(c, 11), 1);
    mm_blocks_make(ref, 1, c, 10, MM_FIRST_SOME, 0);
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
    mm_blocks_make(ref, 1, c, 0, MM_FIRST_SOME, 0);
    unit_eq(of(c)->count, 1);
    unit_eq(made_at(c, 0), mm_made_make(0, 0));
    unit_eq(made_at(c, 1), mm_made_none(1));
    unit_eq(of(c)->makers, 0);
    mm_blocks_make(ref, 1, c, 1, MM_FIRST_SOME, 0);
    unit_eq(made_at(c, 1), mm_made_make(1, MM_MADE_NO_PAGES));
    unit_eq(of(c)->count, 1);
    unit_eq(of(c)->makers, 0);
    unit_sound(&heap, UNIT_ANY);
    of(c)->tickets = 5 * slices;
    mm_blocks_make(ref, 1, c, 3, MM_FIRST_SOME, 0);
    unit_eq(made_at(c, 3), mm_made_make(3, MM_MADE_NO_PAGES));
    unit_eq(made_at(c, 4), mm_made_none(4)); /* not "no pages": its maker may find some */
    room_again();
    mm_blocks_make(ref, 1, c, 4, MM_FIRST_SOME, 0);
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
    *mm_made_at(ref, c, 5) = mm_made_make(5 + unit_made(ref, c), 0);
    of(c)->tickets = (5 + unit_made(ref, c)) * slices + 1;
    for (uint32_t i = 0; i < 2; i++) {
        unit_eq((uint64_t)(uintptr_t)by_ticket(c, 5 * slices + i), (uint64_t)(uintptr_t)slice_at(page, c, i));
        unit_eq(of(c)->tickets, (5 + unit_made(ref, c)) * slices + 1);
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
    for (uint32_t i = 0; i < unit_made(ref, c); i++) { /* as if all had been drawn */
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

/* The numbers of a group in an ample heap: a share of a segment's, but no fewer slices than MM_MAKE_LEAST, if the segment has as many. */
START_TEST(groups) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const struct mm_class k = ref->classes[c];
        const uint32_t most = MM_SEGMENT_PAGES >> k.page_shift, group = mm_make_group(k), share = most / MM_MAKE_AHEAD;
        unit_eq(most % group, 0);
        unit_holds(group * k.slices >= MM_MAKE_LEAST || group == most, "class %u: a group of %u", c, group);
        unit_holds(group == (share == 0 ? 1 : share) || group / 2 * k.slices < MM_MAKE_LEAST, "class %u: a group of %u", c, group);
    }
    unit_eq(mm_make_group(ref->classes[0]), MM_SEGMENT_PAGES / MM_MAKE_AHEAD);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tickets");
    TCase *tests = tcase_create("blocks");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {several_at_once, fewer_pages, no_pages, ticket_of_a_block_that_is_there, ticket_of_long_ago, nobody_depends_on_a_maker, groups};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    tcase_add_loop_test(tests, tickets_begin_again, 0, 5);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
