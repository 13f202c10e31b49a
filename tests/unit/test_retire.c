/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Growing, staying and retiring blocks, with any interference. */
#include "tests/unit/steps.h"

#include "tests/unit/blocks.h"

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
            mm_class_raise(ref, c);
            unit_eq(of(c)->until - of(c)->tickets, blocks * slices);
            of(c)->until = of(c)->tickets - (blocks * slices + 7); /* callers that were not told to have grown it by more */
            mm_class_raise(ref, c);
            unit_eq(of(c)->until - of(c)->tickets, blocks == n ? n * slices : blocks * slices + 7);
            of(c)->until = of(c)->tickets - (n * slices + 1);
            mm_class_raise(ref, c);
            unit_eq(of(c)->until - of(c)->tickets, n * slices);
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
    const struct mm_seen quarter = {MM_GROW_SEEN, MM_GROW_SEEN / MM_GROW_SHARE_AMPLE, 16}, more = {MM_GROW_SEEN, MM_GROW_SEEN / MM_GROW_SHARE_AMPLE + 1, 16};
    int is_low;
    unit_eq(mm_class_should_grow(ref, c, 100, quarter, 1, 0, &is_low), 0);
    mm_heap_of(ref)->free_count += MM_AMPLE_SEGMENTS; /* in an ample heap it grows earlier */
    unit_eq(mm_class_should_grow(ref, c, 100, quarter, 1, 0, &is_low), 1);
    unit_eq(is_low, 1);
    unit_eq(mm_class_should_grow(ref, c, 100, more, 1, 0, &is_low), 0);
    mm_heap_of(ref)->free_count -= MM_AMPLE_SEGMENTS;
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

static uint32_t c_, page_;
static void *p_, *q_;
static void empty(void) {
    new_heap();
    p_ = q_ = NULL, page_ = 0;
}
static void one_block(void) {
    empty();
    page_ = make(c_);
}
static void make_first(void) { mm_blocks_make(ref, 1, c_, first_ticket(c_), MM_FIRST_SOME, 0); }
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
    Suite *suite = suite_create("retire");
    TCase *tests = tcase_create("blocks");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {
        growing, samples_say_grow, poor_for_a_while, who_draws_tickets, retires_full_blocks_only, generations_begin_again, retires_all_and_some};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    tcase_add_loop_test(tests, meetings, 0, 4);
    tcase_add_loop_test(tests, another_class_there, 0, 25);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
