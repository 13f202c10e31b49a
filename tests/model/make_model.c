/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tickets and making blocks (make.h) under the explorer: by several at once, by a stalled maker, with too few pages and with none. Blocks have
 * two slices, so ticket t is for slice t % 2 of block t / 2; the places of two blocks are remembered (config.sh). */
#include "world.h"

static void *keep[16];

static void a_must(void) { world_malloc(16, 1); }
static void a_two(void) { world_malloc(16, 1), world_malloc(16, 1); }
static void a_keep(void) { world_malloc(16, 0); }
static void a_once(void) { world_free(world_malloc(16, 0)); }
static void a_keep_two(void) { a_keep(), a_keep(); }
static void b_must(void) { world_malloc(32, 1); }
static void b_keep(void) { world_malloc(32, 0); }
static void two_keep(void) { world_malloc(48, 0); }
/* malloc's second part, for a caller that drew that ticket, however long ago. */
static void *ticket(uint32_t t) { return world_got((uint64_t)mm_slice_malloc(&ref, mm_token_grow(A, t)), A); }
static void ticket_must(uint32_t t) { model_require(ticket(t), "NULL though memory was there all the time"); }
static void ticket_0(void) { ticket(0); }
static void ticket_1(void) { ticket(1); }
static void ticket_2(void) { ticket(2); }
static void ticket_3(void) { ticket(3); }
static void must_0(void) { ticket_must(0); }
static void must_1(void) { ticket_must(1); }
static void must_2(void) { ticket_must(2); }
static void must_4(void) { ticket_must(4); }
/* Makes the first block, whatever others do. */
static void make_0(void) {
    mm_blocks_make(&ref, 1, A, 0, MM_FIRST_LATE, 0);
    model_progress();
}
/* The block that uses the same word of made. Its maker comes again if the word changed meanwhile. */
static void make_2(void) {
    for (uint32_t i = 0; i < 3 && mm_blocks_make(&ref, 1, A, 2, MM_FIRST_LATE, 0) == MM_MADE_BUSY; i++) continue;
    model_progress();
}
static void make_1(void) {
    mm_blocks_make(&ref, 1, A, 1, MM_FIRST_LATE, 0);
    model_progress();
}
/* A warp makes the first block, and the one after it. */
static void make_lane(void) {
    mm_blocks_make(&ref, 3, A, 0, MM_FIRST_LATE, 0);
    model_progress();
}
/* Claims a slice through whatever entry is there. */
static void look_0(void) {
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t entry = mm_table_load(&ref, A, 0, 0);
        if (mm_entry_is_of(entry, A)) world_got(mm_slices_claim(&ref, 1, 1, entry, 0, A), A);
    }
    model_progress();
}
static void free_b(void) {
    world_free(keep[0]);
    mm_blocks_retire(&ref, 1, 0);
    model_progress();
}
/* One of few makers of a class that has no pages: the only one, except for those that are late. */
static void maker(void) {
    int is_free;
    for (uint32_t i = 0; i < 2; i++) {
        if (!mm_maker_begin(&ref, A, mm_make_look(&ref, A), 0)) continue;
        cell_set(0, cell[0] + 1);
        model_require(cell[0] == 1, "%u make blocks, of whom none is late", (uint32_t)cell[0]);
        mm_maker_may(&ref, A, &is_free); /* a step */
        cell_set(0, cell[0] - 1);
        mm_maker_end(&ref, A);
    }
    model_progress();
}
static void maker_late(void) {
    model_require(mm_maker_begin(&ref, A, mm_make_look(&ref, A), 1), "who is late may not make a block");
    mm_maker_end(&ref, A);
    model_progress();
}
/* Draws n tickets and records them; blocks have four slices. */
static void draws(uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slice;
        const uint32_t block = mm_class_block_of(ref.classes[A], mm_tickets_draw(&ref, 1, 1, A), &slice);
        const uint64_t bit = 1ull << (block * 4 + slice);
        model_require(!(cell[0] & bit), "ticket %u was drawn twice", block * 4 + slice);
        cell_set(0, cell[0] | bit);
    }
    model_progress();
}
static void draws_three(void) { draws(3); }
static void draws_four(void) { draws(4); }
static void skip_0(void) {
    mm_tickets_skip(&ref, A, 0);
    model_progress();
}

static void pages(uint32_t n) {
    world_make(1);
    world_pages(0, n);
    world_cut(A, 2), world_cut(B, 2), world_cut(TWO, 2);
}
static void no_page(void) {
    pages(1);
    keep[0] = world_malloc(PAGE, 1); /* a span */
}
static void one_page(void) { pages(1); }
static void two_pages(void) { pages(2); }
static void three_pages(void) { pages(3); }
/* That many tickets have been drawn, by callers of the scenario or by stalled ones. */
static void drawn(uint32_t tickets, uint32_t n) {
    pages(n);
    mm_class_at(&ref, A)->tickets = tickets;
}
static void two_drawn(void) { drawn(2, 2); }
static void two_drawn_four(void) { drawn(2, 4); }
static void four_drawn(void) { drawn(4, 2); }
static void four_drawn_one(void) { drawn(4, 1); }
static void six_drawn(void) { drawn(6, 3); }
/* Threads 0 and 1 are the lanes of a warp. */
static void warp_four_drawn(void) { drawn(4, 3), world_warp(0, 2); }
static void warp_four_drawn_one(void) { four_drawn_one(), world_warp(0, 2); }
static void warp_three_pages(void) { pages(3), world_warp(0, 2); }
/* Enough pages for all, whatever they make. */
static void warp_six_pages(void) { pages(6), world_warp(0, 2); }
static void warp_no_page(void) { no_page(), world_warp(0, 2); }
static void one_of_four_drawn(void) {
    drawn(1, 1);
    world_cut(A, 4);
    cell[0] = 1;
}
/* The caller that drew the first ticket has stalled while making the block: it stays "being made" for good. */
static void stands(void) {
    drawn(1, 3);
    mm_class_at(&ref, A)->makers = 1;
    *mm_made_at(&ref, A, 0) = mm_made_make(0, MM_MADE_BUSY);
}
/* The same before it claims its number. */
static void stands_early(void) {
    pages(3);
    mm_class_at(&ref, A)->makers = 1;
}
static void warp_stands_early(void) { stands_early(), world_warp(0, 2); }
/* No pages, and the class was about to grow. */
static void no_page_growing(void) {
    no_page();
    mm_class_at(&ref, A)->until = 200;
}
/* Class B has the page. */
static void b_has_it(void) {
    pages(1);
    keep[0] = world_malloc(32, 1);
}
/* All tickets have been drawn except that of one slice: the next one wraps around to the first. */
static void wraps(void) {
    drawn(~0u, 3);
    const uint32_t last = ~0u / 2;
    *mm_made_at(&ref, A, last) = mm_made_make(last, MM_MADE_NO_PAGES), *mm_made_at(&ref, A, last - 1) = mm_made_make(last - 1, 0);
}

static void check_stands(void) {
    struct mm_class_state *of = mm_class_at(&ref, A);
    uint64_t *made = mm_made_at(&ref, A, 0);
    const uint64_t was = *made;
    of->makers--;
    if (was == mm_made_make(0, MM_MADE_BUSY)) *made = 0;
    world_check_drained();
    of->makers++;
    *made = was;
}
static uint32_t blocks_of(uint32_t c) { return mm_class_at(&ref, c)->count; }
static void check_stands_early(void) {
    mm_class_at(&ref, A)->makers--;
    world_check_drained();
    mm_class_at(&ref, A)->makers++;
}
/* The one block that was wanted was made, and no more. */
static void check_one(void) {
    world_check_drained();
    model_require(blocks_of(A) == 1, "%u blocks were made, and one was wanted", blocks_of(A));
}
/* Whoever waits for block 2, or for its maker, finds it. */
static void check_later(void) {
    world_check_drained();
    const uint64_t made = *mm_made_at(&ref, A, 2);
    model_require(mm_made_is_of(made, 2) && mm_made_index(made) < blocks_of(A), "the word of block 2 is %#llx", (unsigned long long)made);
}
static void check_two(void) {
    world_check_drained();
    model_require(blocks_of(A) == 2, "%u blocks were made, and there were tickets for two", blocks_of(A));
}
/* All pages are in use: callers that got nothing got NULL. */
static void check_two_null(void) {
    world_check_drained();
    model_require(blocks_of(A) == 1 && HEAP->null_count == 2, "%u blocks, %u calls got NULL", blocks_of(A), (uint32_t)HEAP->null_count);
}
static void check_stays(void) {
    world_check_drained();
    model_require(!mm_class_is_growing(mm_class_at(&ref, A), 0), "there are no pages, and who comes draws tickets");
}
/* No ticket was drawn twice (draws), and of each block begun the first ticket was drawn. */
static void check_draws(void) {
    const uint32_t tickets = mm_class_at(&ref, A)->tickets;
    for (uint32_t t = 0; t < 20; t++)
        if (cell[0] >> t & 1) model_require(t < tickets && cell[0] >> t / 4 * 4 & 1, "ticket %u was drawn, and not the first one of its block", t);
}
/* The same, and if no ticket was drawn meanwhile, the rest of the block's are skipped. */
static void check_skipped(void) {
    check_draws();
    model_require(mm_class_at(&ref, A)->tickets == 4, "%u tickets", mm_class_at(&ref, A)->tickets);
}

/* Then memory appears, in another segment: the class gets as much of it as it needs. */
static void a_page_more(void) {
    mm_tree_insert(mm_segment_free_tree(&ref), 1);
    mm_add_relaxed_u64(&HEAP->free_count, 1);
    const uint32_t before = blocks_of(A);
    for (uint32_t i = 0; i < 6; i++) model_require(mm_heap_malloc(&ref, 16) != NULL, "NULL, though there is a segment");
    model_require(blocks_of(A) <= before + 3, "%u blocks for six slices", blocks_of(A) - before);
}
static void later(void) { /* the second segment is not there yet */
    mm_tree_erase(mm_segment_free_tree(&ref), 1);
    HEAP->free_count--;
}
static void pages_then_more(uint32_t n) {
    world_make(2);
    world_pages(0, n);
    world_cut(A, 2), world_cut(B, 2);
    later();
}
static void no_page_then_more(void) {
    pages_then_more(1);
    keep[0] = world_malloc(PAGE, 1);
}
/* The block that was not made would have had eight slices: its undrawn tickets are wasted. */
static void no_page_for_eight_then_more(void) {
    no_page_then_more();
    world_cut(A, 8);
}
static void one_page_then_more(void) { pages_then_more(1); }
/* world_check asks for the second segment: it is unowned, and not there. */
static void check_more(void) {
    world_map(1, 1, 0);
    world_check();
    world_map(1, 1, 1);
    model_scratch(a_page_more);
}

static const struct model_scenario scenarios[] = {
    {"make-one", two_pages, {a_keep}, check_one, 0, 0},
    {"make-by-two", two_pages, {a_must, a_must}, world_check_drained, 0, 1},
    {"make-by-two-one-page", one_page, {a_must, a_must}, world_check_drained, 0, 1},
    {"make-by-three", two_pages, {a_must, a_must, a_must}, world_check_drained, 2, 1},
    {"make-by-four", three_pages, {a_must, a_must, a_must, a_must}, world_check_drained, 1, 1},
    {"make-two-classes", two_pages, {a_two, b_must}, world_check_drained, 0, 1},
    {"make-same-number", two_drawn, {make_0, make_0, look_0}, check_one, 0, 0},
    {"make-look-at-once", two_drawn, {make_0, look_0, look_0}, world_check_drained, 0, 0},
    {"make-of-two-pages", three_pages, {two_keep, two_keep, a_keep}, world_check_drained, 2, 0},
    {"make-word-taken", six_drawn, {make_0, make_2}, check_later, 0, 0},
    {"make-waited-for", two_drawn, {must_0, must_1}, world_check_drained, 0, 1},
    {"make-two-numbers", four_drawn, {must_0, must_2}, world_check_drained, 0, 1},
    {"make-three-numbers", six_drawn, {must_0, must_2, must_4}, world_check_drained, 2, 1},
    {"make-first-stands", two_drawn, {must_1, a_must}, world_check_drained, 0, 1},
    {"make-maker-stands", stands, {a_must, a_must}, check_stands, 0, 0},
    {"make-overwritten-first", two_drawn_four, {must_0, a_two, a_two}, world_check_drained, 2, 1},
    {"make-overwritten-second", two_drawn_four, {must_1, a_two, a_two}, world_check_drained, 2, 1},
    {"make-few-makers", one_page, {maker, maker, maker}, world_check_drained, 0, 0},
    {"make-few-makers-late", one_page, {maker_late, maker_late, maker}, world_check_drained, 0, 0},
    {"make-skip", one_of_four_drawn, {skip_0, skip_0}, check_skipped, 0, 0},
    {"make-skip-beside-draws", one_of_four_drawn, {skip_0, draws_three, draws_four}, check_draws, 0, 0},
    {"make-no-pages", no_page, {a_keep, a_keep}, world_check_drained, 3, 0},
    {"make-no-pages-growing", no_page_growing, {a_keep, a_keep}, check_stays, 2, 0},
    {"make-no-pages-then-more", no_page_then_more, {a_keep, a_keep}, check_more, 3, 0},
    {"make-no-pages-for-many-then-more", no_page_for_eight_then_more, {a_keep}, check_more, 0, 0},
    {"make-few-pages-for-one", four_drawn_one, {make_0, look_0}, check_one, 0, 0},
    {"make-few-pages", four_drawn_one, {ticket_0, ticket_1, ticket_2, ticket_3}, check_two_null, 1, 1},
    {"make-few-pages-then-more", one_page_then_more, {a_keep_two, a_keep}, check_more, 0, 0},
    {"make-last-page", one_page, {a_keep, b_keep}, world_check_drained, 0, 0},
    {"make-when-a-page-comes", no_page, {a_once, free_b}, world_check_drained, 0, 0},
    {"make-when-b-ends", b_has_it, {a_once, free_b, a_keep}, world_check_drained, 2, 0},
    {"make-tickets-begin-again", wraps, {a_two, a_must}, world_check_drained, 0, 1},
    {"make-warp", warp_four_drawn, {make_lane, make_lane, look_0}, check_two, 0, 0},
    {"make-warp-against-one", warp_four_drawn, {make_lane, make_lane, make_0}, world_check_drained, 0, 0},
    {"make-warp-against-second", warp_four_drawn, {make_lane, make_lane, make_1}, check_two, 0, 0},
    {"make-warp-few-pages", warp_four_drawn_one, {make_lane, make_lane, look_0}, check_one, 0, 0},
    {"make-maker-stands-early", stands_early, {a_must, a_must}, check_stands_early, 0, 0},
    {"make-warp-maker-stands", warp_stands_early, {a_must, b_must}, check_stands_early, 0, 0},
    {"make-warp-mallocs", warp_three_pages, {a_must, a_must}, check_one, 0, 1},
    {"make-warp-mallocs-two", warp_three_pages, {a_two, a_two, a_must}, world_check_drained, 2, 1},
    {"make-warp-two-classes", warp_six_pages, {a_must, b_must, a_must}, world_check_drained, 0, 1},
    {"make-warp-of-two-pages", warp_three_pages, {two_keep, a_must, a_keep}, world_check_drained, 0, 1},
    {"make-warp-no-pages", warp_no_page, {a_keep, a_keep}, world_check_drained, 0, 0},
    {"make-warp-no-pages-two-classes", warp_no_page, {a_keep, b_keep}, world_check_drained, 0, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
