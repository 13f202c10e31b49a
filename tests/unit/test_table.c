/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tables of classes: extents, where a block's entry is, what moves when one is retired, and interference at each step. Several retired at
 * once: test_lanes.c. */
#include "tests/unit/steps.h"

#include "tests/unit/blocks.h"

/* A class gets an extent when it needs one, cleared, whatever was there; no more than there are in all. It has its first one from the beginning. */
START_TEST(extents) {
    struct mm_heap *h = mm_heap_of(ref);
    const uint64_t most = mm_table_extents(ref);
    uint64_t n = 0;
    unit_eq(most, SEGMENTS * MM_SEGMENT_PAGES * MM_TABLE_SHARE / MM_EXTENT);
    for (uint32_t c = MM_CLASS_COUNT; c-- > 0;)
        for (uint32_t i = ref->classes[c].directory_length + 1; i-- > 0;) {
            const uint32_t index = i * MM_EXTENT + c;
            unit_eq(mm_table_find(ref, c, index) == NULL, i != 0);
            uint64_t *at = mm_table_at(ref, c, index);
            if (i == ref->classes[c].directory_length || (i != 0 && n == most)) {
                unit_holds(at == NULL, "class %u: an extent too many", c);
                continue;
            }
            n += i != 0;
            unit_eq(h->extents, n);
            unit_holds(at != NULL && at == mm_table_find(ref, c, index) && at == mm_table_at(ref, c, index), "class %u: entry %u", c, index);
            for (uint32_t k = 0; k < MM_EXTENT; k++) unit_eq(*mm_table_at(ref, c, i * MM_EXTENT + k), MM_ENTRY_NONE);
            for (uint32_t k = 0; k < MM_EXTENT; k++) *mm_table_at(ref, c, i * MM_EXTENT + k) = mm_entry_make(2, k, c); /* belongs to this class only */
        }
    unit_eq(n, most);
    unit_eq(h->extents, n);
}
END_TEST

/* A wait for an extent that no caller attaches gives up; the class gets one when it is there. */
START_TEST(waiting_for_an_extent_is_bounded) {
    *mm_table_directory(ref, 3, MM_EXTENT) = MM_EXTENT_BUSY;
    unit_eq(mm_table_at(ref, 3, MM_EXTENT + 5) == NULL, 1);
    unit_eq(mm_table_find(ref, 3, MM_EXTENT + 5) == NULL, 1);
    for (int is_cached = 0; is_cached < 2; is_cached++) unit_eq(mm_table_load(ref, 3, MM_EXTENT + 5, is_cached), MM_ENTRY_NONE);
    *mm_page_index(ref, 0) = MM_EXTENT + 5;
    unit_eq(mm_table_has(ref, 3, mm_entry_make(2, 0, 3)), 0);
    of(3)->count = MM_EXTENT;
    unit_eq(mm_table_add(ref, 3, 1), MM_EXTENT); /* and the block is lost */
    write_block(3, MM_EXTENT, 0);
    *mm_table_directory(ref, 3, MM_EXTENT) = MM_EXTENT_NONE;
    unit_eq(mm_table_at(ref, 3, MM_EXTENT + 5) != NULL, 1);
    unit_eq(entry_at(3, MM_EXTENT), MM_ENTRY_NONE);
}
END_TEST

/* Indexes of entries are given once, and have their extents by then: those of several blocks may lie in two. */
START_TEST(numbers_of_entries) {
    const uint32_t c = mm_class_of(16);
    unit_eq(mm_table_add(ref, c, 1), 0);
    unit_eq(mm_table_add(ref, c, 2), 1);
    unit_eq(of(c)->count, 3);
    unit_eq(mm_heap_of(ref)->extents, 0);
    of(c)->count = MM_EXTENT - 2;
    unit_eq(mm_table_add(ref, c, 5), MM_EXTENT - 2);
    unit_eq(of(c)->count, MM_EXTENT + 3);
    unit_eq(mm_heap_of(ref)->extents, 1);
    for (uint32_t i = MM_EXTENT - 2; i < MM_EXTENT + 3; i++) unit_eq(mm_table_find(ref, c, i) != NULL, 1);
    const uint64_t entry = mm_entry_make(8, 7, c);
    *mm_page_words(ref, 7) = mm_word_make(7, 0); /* the block before it had generation 6 */
    write_block(c, MM_EXTENT + 2, 7);
    unit_eq(entry_at(c, MM_EXTENT + 2), entry);
    unit_eq(*mm_page_index(ref, 7), MM_EXTENT + 2);
    for (int is_cached = 0; is_cached < 2; is_cached++) unit_eq(mm_table_load(ref, c, MM_EXTENT + 2, is_cached), entry);
    unit_eq(mm_table_has(ref, c, entry), 1);
    unit_eq(mm_table_has(ref, c, mm_entry_make(10, 7, c)), 0); /* a later block there */
    unit_eq(mm_table_has(ref, c, mm_entry_make(8, 6, c)), 0);  /* a page whose index is rubbish */
    *mm_page_index(ref, 6) = MM_EXTENT + 2;
    unit_eq(mm_table_has(ref, c, mm_entry_make(8, 6, c)), 0);
}
END_TEST

/* Entries are [0, n), each where its block says. */
static void dense(uint32_t c, uint32_t n) {
    unit_eq(of(c)->count, n);
    for (uint32_t i = 0; i < n; i++) {
        unit_holds(mm_entry_is_of(entry_at(c, i), c), "entry %u of %u is nothing", i, n);
        unit_eq(*mm_page_index(ref, mm_entry_page(entry_at(c, i))), i);
    }
    unit_eq(entry_at(c, n), MM_ENTRY_NONE);
    unit_eq(of(c)->lock, 0);
    unit_sound(&heap, 0);
}

/* Whichever block is retired, the last one moves to its place, and no other moves: no holes. */
START_TEST(the_last_one_moves) {
    static const uint32_t sizes[] = {16, 512, 4096, 65536};
    const uint32_t c = mm_class_of(sizes[_i]), all = _i < 2 ? 200 : _i < 3 ? 30 : 4;
    uint64_t seed = 7;
    for (uint32_t i = 0; i < all; i++) make(c);
    dense(c, all);
    for (uint32_t n = all; n > 0;) {
        static uint64_t was[200];
        const uint32_t i = (uint32_t)(unit_random(&seed) % n), page = mm_entry_page(entry_at(c, i));
        for (uint32_t k = 0; k < n; k++) was[k] = entry_at(c, k);
        unit_eq(mm_blocks_retire(ref, 1, page), 1u << mm_class_page_shift(c));
        dense(c, --n);
        for (uint32_t k = 0; k < n; k++) unit_eq(entry_at(c, k), was[k == i ? n : k]);
        if (n > 0 && unit_random(&seed) % 4 == 0) make(c), dense(c, ++n);
    }
    unit_eq(mm_heap_of(ref)->extents, 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* The last index is taken, but its block is not there yet: no block is retired meanwhile, and all blocks stay free afterwards. */
START_TEST(last_is_on_its_way) {
    const uint32_t c = mm_class_of(48);
    for (uint32_t i = 0; i < 5; i++) make(c);
    uint64_t groups;
    const uint32_t page = mm_pages_take(ref, mm_class_page_shift(c), 1, &groups) * MM_SEGMENT_PAGES + mm_ctz(groups), index = mm_table_add(ref, c, 1);
    unit_eq(index, 5);
    for (uint32_t i = 0; i < 5; i++) unit_eq(mm_blocks_retire(ref, 1, mm_entry_page(entry_at(c, i))), 0);
    unit_eq(of(c)->count, 6);
    unit_eq(of(c)->lock, 0);
    write_block(c, index, page);
    dense(c, 6);
    const uint64_t last = entry_at(c, 5);
    unit_eq(mm_blocks_retire(ref, 1, mm_entry_page(entry_at(c, 2))), 1u << mm_class_page_shift(c));
    dense(c, 5);
    unit_eq(entry_at(c, 2), last);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* A caller that does not get the lock goes on: the block stays as it is. */
START_TEST(locked) {
    static const uint32_t sizes[] = {48, 512};
    const uint32_t c = mm_class_of(sizes[_i]);
    for (uint32_t i = 0; i < 3; i++) make(c);
    of(c)->lock = 1;
    unit_eq(mm_blocks_retire(ref, 1, mm_entry_page(entry_at(c, 0))), 0);
    unit_eq(of(c)->lock, 1);
    of(c)->lock = 0;
    dense(c, 3);
    unit_lt(0, mm_blocks_retire(ref, 1, mm_entry_page(entry_at(c, 0))));
    dense(c, 2);
}
END_TEST

/* ---- Interference at each step ---- */

static const uint32_t c_ = 15; /* 512 bytes: one word */
static uint32_t first_, last_;
static void three_blocks(void) {
    new_heap();
    first_ = make(c_), make(c_), last_ = make(c_);
}
static void retire_first(void) { (void)mm_blocks_retire(ref, 1, first_); }
static void retire_last(void) { (void)mm_blocks_retire(ref, 1, last_); }
static void make_last(void) { mm_blocks_make(ref, 1, c_, first_ticket(c_), MM_FIRST_LATE, 0); }
static void *got_;
static void take_slice(void) { got_ = mm_slice_malloc(ref, MM_TOKEN | c_); }
static void all_found(void) { /* the checker accepts no block without an entry below the count, and no empty entry there */
    unit_sound(&heap, UNIT_ANY);
    if (got_) mm_cpu_free(&heap, got_), got_ = NULL;
    unit_fresh(&heap, SEGMENTS);
}
static uint64_t locked_;
static void retire_first_too(void) { locked_ = of(c_)->lock, retire_first(); }
static void one_left(void) { /* although it was moved; a caller that finds the table locked leaves its block */
    unit_eq(of(c_)->count, locked_ ? 2 : 1);
    all_found();
}
static void two_left(void) {
    unit_eq(of(c_)->count, 2);
    all_found();
}
static void three_left(void) {
    unit_eq(of(c_)->count, 3);
    all_found();
}
START_TEST(meetings) {
    unit_at_each_step(three_blocks, retire_first, retire_last, all_found);
    unit_at_each_step(three_blocks, retire_last, retire_first_too, one_left);
    unit_at_each_step(three_blocks, retire_first, retire_first, two_left);
    unit_at_each_step(three_blocks, retire_last, make_last, three_left);
    unit_at_each_step(three_blocks, make_last, retire_last, all_found);
    unit_at_each_step(three_blocks, retire_first, make_last, three_left);
    unit_at_each_step(three_blocks, make_last, retire_first, all_found);
    unit_at_each_step(three_blocks, retire_first, take_slice, all_found);
    unit_at_each_step(three_blocks, take_slice, retire_first, all_found);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("table");
    TCase *tests = tcase_create("tables");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {extents, waiting_for_an_extent_is_bounded, numbers_of_entries, last_is_on_its_way, meetings};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    tcase_add_loop_test(tests, the_last_one_moves, 0, 4);
    tcase_add_loop_test(tests, locked, 0, 2);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
