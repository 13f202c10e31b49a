/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Making blocks and retiring them: as many as are wanted, nothing left behind when there are no pages, whoever comes in between. */
#include "tests/unit/steps.h"

#include "tests/unit/blocks.h"

/* What a block is when it has been made: owners, index, words, entry. */
START_TEST(made_whole) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t page = make(c, 0), pages = 1u << mm_class_page_shift(c);
        const struct mm_class k = ref->classes[c];
        unit_eq(page % pages, 0);
        for (uint32_t i = 0; i < pages; i++) unit_eq(*mm_page_owner(ref, page + i), c + 1);
        unit_eq(*mm_table_index(ref, page), 0);
        const uint32_t generation = mm_entry_generation(entry_at(c, 0));
        unit_eq(generation % 2, 0);
        for (uint32_t i = 0; i < k.words; i++) unit_eq(word_at(page, i), mm_word_make(generation, mm_class_word_mask(k, i)));
        unit_eq(of(c)->count, 1);
        unit_sound(&heap, 0);
        unit_eq(mm_blocks_make(ref, 1, c, 0), MM_MADE_BY_OTHER); /* it is there */
        unit_sound(&heap, 0);
        unit_eq(mm_block_retire(ref, page), pages);
        for (uint32_t i = 0; i < k.words; i++) unit_eq(word_at(page, i), mm_word_make(generation + 1, 0));
        unit_fresh(&heap, SEGMENTS);
    }
}
END_TEST

/* As many as have been drawn from, or a part of what the class has; no more than a warp makes, and a segment has. */
START_TEST(unit) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c);
    of(c)->frontier = 1;
    unit_eq(mm_make_unit(ref, c, 0, 64), 1);
    of(c)->frontier = slices;
    unit_eq(mm_make_unit(ref, c, 0, 64), 1);
    of(c)->frontier = slices + 1;
    unit_eq(mm_make_unit(ref, c, 0, 64), 2);
    of(c)->frontier = 40 * slices;
    unit_eq(mm_make_unit(ref, c, 0, 64), 40);
    unit_eq(mm_make_unit(ref, c, 30, 64), 10);
    unit_eq(mm_make_unit(ref, c, 39, 64), 1);
    unit_eq(mm_make_unit(ref, c, 50, 64), 1); /* it has gone back */
    unit_eq(mm_make_unit(ref, c, 0, 16), 16);
    unit_share = 8, of(c)->count = 160;
    unit_eq(mm_make_unit(ref, c, 39, 64), 20);
    of(c)->count = 16000;
    unit_eq(mm_make_unit(ref, c, 39, 64), 64);
    of(c)->count = 0;
    const uint32_t largest = MM_CLASS_COUNT - 1;
    of(largest)->frontier = 100 * mm_class_slices(largest);
    unit_eq(mm_make_unit(ref, largest, 0, 64), 1);
}
END_TEST

/* No pages: the entries are nothing again, and the frontier goes back, so that none of them becomes a hole. */
START_TEST(no_pages) {
    void *all = mm_cpu_malloc(&heap, SEGMENTS * MM_SEGMENT_BYTES);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        of(c)->frontier = 3;
        unit_eq(mm_blocks_make(ref, 1, c, 0), MM_MADE_NO_PAGES);
        unit_eq(entry_at(c, 0), MM_ENTRY_NONE);
        unit_eq(of(c)->count, 0);
        mm_frontier_undo(ref, c);
        unit_eq(of(c)->frontier, 0);
        for (int i = 0; i < 5; i++) unit_holds(mm_cpu_malloc(&heap, mm_class_bytes(c)) == NULL, "a slice while a run has all");
        unit_eq(of(c)->frontier, 0);
        unit_eq(of(c)->count, 0);
        unit_eq(entry_at(c, 0), MM_ENTRY_NONE);
    }
    mm_cpu_free(&heap, all);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        void *p = mm_cpu_malloc(&heap, mm_class_bytes(c));
        unit_holds(p != NULL, "NULL in an empty heap");
        unit_eq(of(c)->count, 1); /* the first entry, not one behind holes */
        mm_cpu_free(&heap, p);
        mm_cpu_heap_drain_quiescent(&heap);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Only blocks of which all is free, from their first page on; and each only once. */
START_TEST(retires_full_blocks_only) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint32_t page = make(c, 0), slices = mm_class_slices(c), pages = 1u << mm_class_page_shift(c);
        for (uint32_t i = 0; i < slices; i += i < 40 ? 1 : 61) {
            unit_lt(0, mm_slices_claim(ref, 1, 1, entry_at(c, 0), i, c));
            const uint64_t generation = mm_word_generation(word_at(page, 0));
            unit_eq(mm_block_retire(ref, page), 0);
            unit_eq(mm_word_generation(word_at(page, 0)), generation);
            unit_sound(&heap, mm_class_bytes(c)); /* all that it took is back */
            mm_cpu_free(&heap, slice_at(page, c, i));
        }
        for (uint32_t i = 1; i < pages; i++) unit_eq(mm_block_retire(ref, page + i), 0);
        unit_eq(mm_block_retire(ref, page), pages);
        unit_eq(mm_block_retire(ref, page), 0);
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, SEGMENTS);
    }
    unit_eq(mm_block_retire(ref, 5), 0);
    void *span = mm_cpu_malloc(&heap, 9 * MM_PAGE_BYTES), *run = mm_cpu_malloc(&heap, MM_SEGMENT_BYTES);
    for (uint32_t page = 0; page < SEGMENTS * MM_SEGMENT_PAGES; page++) unit_eq(mm_block_retire(ref, page), 0);
    mm_cpu_free(&heap, span), mm_cpu_free(&heap, run);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* A page's generations go on, past the last one, and never become that of an entry. */
START_TEST(generations_begin_again) {
    const uint32_t c = mm_class_of(512);
    const uint32_t page = make(c, 0);
    mm_block_retire(ref, page);
    mm_page_words(ref, page)[0] = mm_word_make(~0u - 4, 0);
    uint32_t before = 0;
    for (int i = 0; i < 6; i++) {
        unit_eq(make(c, 0), page);
        const uint32_t now = mm_entry_generation(entry_at(c, 0));
        unit_holds(now % 2 == 0 && now != 0 && now != before, "generation %u after %u", now, before);
        before = now;
        void *p = mm_cpu_malloc(&heap, 512);
        unit_holds(p == slice_at(page, c, (uint32_t)((uint64_t)p - (uint64_t)slice_at(page, c, 0)) / 512), "elsewhere");
        mm_cpu_free(&heap, p);
        unit_sound(&heap, 0);
        unit_lt(0, mm_block_retire(ref, page));
    }
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* All that a class has retired, by a walk: some at random, or all; nothing else changes. */
START_TEST(retires_all_and_some) {
    static void *held[4000];
    uint64_t live = 0;
    for (uint32_t i = 0; i < 4000; i++) held[i] = mm_cpu_malloc(&heap, 16u << i % 10);
    for (uint32_t i = 0; i < 4000; i++) {
        if (i % 500 == 7) live += mm_cpu_usable_size(&heap, held[i]);
        else mm_cpu_free(&heap, held[i]);
    }
    uint32_t got = 0;
    for (int i = 0; i < 1000; i++) got += mm_slices_retire_some(ref, 1);
    unit_lt(0, got);
    unit_sound(&heap, live);
    mm_slices_retire_all(ref);
    unit_eq(mm_slices_retire_all(ref), 0);
    unit_sound(&heap, live);
    for (uint32_t i = 7; i < 4000; i += 500) mm_cpu_free(&heap, held[i]);
    unit_eq(mm_slices_retire_all(ref), 1);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* ---- What meets at each step ---- */

static uint32_t c_, page_;
static void *p_, *q_;
static void empty(void) {
    new_heap();
    p_ = q_ = NULL, page_ = 0;
    (void)mm_table_at(ref, c_, 0); /* who comes in between would wait for it in vain */
}
static void one_block(void) {
    empty();
    page_ = make(c_, 0);
}
static void make_first(void) {
    if (of(c_)->frontier == 0) of(c_)->frontier = 1;
    (void)mm_blocks_make(ref, 1, c_, 0);
}
static void retire(void) { (void)mm_block_retire(ref, page_); }
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

/* Two retire a block that the one's class has no more, and the other's has: the block of the other class is whole, or gone. */
static uint32_t d_;
static void other_class_there(void) { /* the block goes, and its page is one of another class */
    if (mm_block_retire(ref, page_) == 0) return;
    make(d_, 0);
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
    const TTest *const all[] = {made_whole, unit, no_pages, retires_full_blocks_only, generations_begin_again, retires_all_and_some};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    tcase_add_loop_test(tests, meetings, 0, 4);
    tcase_add_loop_test(tests, another_class_there, 0, 25);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
