/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Making blocks (make.h) under the explorer: by several at once, by one who stands still, and when there are no pages. Blocks have two slices. */
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
static void make_0(void) {
    mm_blocks_make(&ref, 1, A, 0);
    model_progress();
}
/* Looks into a block through whatever entry is there. */
static void look_0(void) {
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t entry = mm_table_look(&ref, A, 0);
        if (mm_entry_is_of(entry, A)) world_got(mm_slices_claim(&ref, 1, 1, entry, 0, A), A);
    }
    model_progress();
}
static void free_b(void) {
    world_free(keep[0]);
    mm_block_retire(&ref, 0);
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
/* The first entry has been drawn by one who stands still: it is busy for good. */
static void busy(void) {
    pages(3);
    model_require(mm_table_at(&ref, A, 0) != NULL, "no extent");
    mm_cas_acquire_u64(mm_table_at(&ref, A, 0), MM_ENTRY_NONE, MM_ENTRY_BUSY);
}
/* Class B has the page. */
static void b_has_it(void) {
    pages(1);
    keep[0] = world_malloc(32, 1);
}

static void check_busy(void) {
    *mm_table_at(&ref, A, 0) = MM_ENTRY_NONE;
    world_check_drained();
    *mm_table_at(&ref, A, 0) = MM_ENTRY_BUSY;
}
/* Then there is memory, in another segment: the class gets as much of it as it needs, in the next entries. Who found no page may have left a hole
 * where others have made blocks behind it. */
static uint32_t holes_most;
static void a_page_more(void) {
    mm_tree_insert(mm_segment_free_tree(&ref), 1);
    mm_add_relaxed_u64(&HEAP->free_count, 1);
    const uint32_t before = mm_class_at(&ref, A)->count;
    for (uint32_t i = 0; i < 6; i++) model_require(mm_heap_malloc(&ref, 16) != NULL, "NULL, though there is a segment");
    uint32_t holes = 0;
    const uint32_t n = mm_class_at(&ref, A)->count;
    for (uint32_t i = 0; i < n; i++) holes += !mm_entry_is_of(mm_table_look(&ref, A, i), A);
    model_require(holes <= holes_most && n <= before + 4 + holes_most, "%u entries, of which %u are holes", n, holes);
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
    holes_most = 0;
}
static void one_page_then_more(void) {
    pages_then_more(1);
    holes_most = 2;
}
/* world_check asks for the second segment: nobody has it, and it is not there. */
static void check_more(void) {
    world_map(1, 1, 0);
    world_check();
    world_map(1, 1, 1);
    model_scratch(a_page_more);
}

static const struct model_scenario scenarios[] = {
    {"make-by-two", two_pages, {a_must, a_must}, world_check_drained, 0, 1},
    {"make-by-two-one-page", one_page, {a_must, a_must}, world_check_drained, 0, 1},
    {"make-by-three", two_pages, {a_must, a_must, a_must}, world_check_drained, 2, 1},
    {"make-two-classes", two_pages, {a_two, b_must}, world_check_drained, 0, 1},
    {"make-same-entry", two_pages, {make_0, make_0, look_0}, world_check_drained, 0, 0},
    {"make-look-at-once", one_page, {make_0, look_0, look_0}, world_check_drained, 0, 0},
    {"make-of-two-pages", three_pages, {two_keep, two_keep, a_keep}, world_check_drained, 2, 0},
    {"make-beside-one-who-stands", busy, {a_must, a_must}, check_busy, 0, 0},
    {"make-no-pages", no_page, {a_keep, a_keep}, world_check_drained, 0, 0},
    {"make-no-pages-then-more", no_page_then_more, {a_keep, a_keep}, check_more, 3, 0},
    {"make-few-pages-then-more", one_page_then_more, {a_keep_two, a_keep}, check_more, 2, 0},
    {"make-last-page", one_page, {a_keep, b_keep}, world_check_drained, 3, 0},
    {"make-when-a-page-comes", no_page, {a_once, free_b}, world_check_drained, 2, 0},
    {"make-when-b-ends", b_has_it, {a_once, free_b, a_keep}, world_check_drained, 2, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
