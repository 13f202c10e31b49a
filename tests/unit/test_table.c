/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tables of classes: extents, where a block's entry is, what moves when one goes, how a table becomes shorter, and what meets at each step. */
#include "tests/unit/steps.h"

#include "tests/unit/blocks.h"

/* A class gets an extent when it needs one, cleared, whatever was there; as many as there are, and not one more; but its first one in any case. */
START_TEST(extents) {
    struct mm_heap *h = mm_heap_of(ref);
    const uint64_t most = mm_table_extents(ref) - MM_CLASS_COUNT;
    uint64_t n = 0;
    unit_eq(most, SEGMENTS * MM_SEGMENT_PAGES * MM_TABLE_SHARE / MM_EXTENT);
    for (uint32_t c = MM_CLASS_COUNT; c-- > 0;)
        for (uint32_t i = ref->classes[c].directory_length + 1; i-- > 0;) {
            const uint32_t index = i * MM_EXTENT + c;
            unit_eq(mm_table_find(ref, c, index) == NULL, 1);
            uint64_t *at = mm_table_at(ref, c, index);
            if (i == ref->classes[c].directory_length || (i != 0 && n == most)) {
                unit_holds(at == NULL, "class %u: an extent too many", c);
                continue;
            }
            n += i != 0;
            unit_eq(h->extents, n);
            unit_holds(at != NULL && at == mm_table_find(ref, c, index) && at == mm_table_at(ref, c, index), "class %u: entry %u", c, index);
            for (uint32_t k = 0; k < MM_EXTENT; k++) unit_eq(*mm_table_at(ref, c, i * MM_EXTENT + k), MM_ENTRY_NONE);
            for (uint32_t k = 0; k < MM_EXTENT; k++) *mm_table_at(ref, c, i * MM_EXTENT + k) = mm_entry_make(2, k, c); /* nobody else's */
        }
    unit_eq(n, most);
    unit_eq(h->extents, n);
}
END_TEST

/* Who waits for an extent that nobody attaches gives up, and gets one when it is there. */
START_TEST(waiting_for_an_extent_is_bounded) {
    *mm_table_directory(ref, 3, 0) = MM_EXTENT_BUSY;
    unit_eq(mm_table_at(ref, 3, 5) == NULL, 1);
    unit_eq(mm_table_find(ref, 3, 5) == NULL, 1);
    unit_eq(mm_table_look(ref, 3, 5), MM_ENTRY_NONE);
    unit_eq(mm_blocks_make(ref, 1, 3, 5), MM_MADE_NO_PAGES);
    *mm_table_directory(ref, 3, 0) = MM_EXTENT_NONE;
    unit_eq(mm_table_at(ref, 3, 5) != NULL, 1);
}
END_TEST

/* Entries are [0, n), each where its block says. */
static void dense(uint32_t c, uint32_t n) {
    unit_eq(of(c)->count, n);
    unit_eq(of(c)->frontier, (uint64_t)n * mm_class_slices(c));
    for (uint32_t i = 0; i < n; i++) {
        unit_holds(mm_entry_is_of(entry_at(c, i), c), "entry %u of %u is nothing", i, n);
        unit_eq(*mm_table_index(ref, mm_entry_page(entry_at(c, i))), i);
    }
    unit_eq(entry_at(c, n), MM_ENTRY_NONE);
    unit_eq(of(c)->lock, 0);
    unit_sound(&heap, 0);
}

/* Whichever block goes, the last one moves to its place: no holes, and the frontier goes down. */
START_TEST(the_last_one_moves) {
    static const uint32_t sizes[] = {16, 512, 4096, 65536};
    const uint32_t c = mm_class_of(sizes[_i]), all = _i < 2 ? 200 : _i < 3 ? 30 : 4;
    uint64_t seed = 7;
    for (uint32_t i = 0; i < all; i++) make(c, i);
    dense(c, all);
    for (uint32_t n = all; n > 0;) {
        const uint32_t i = (uint32_t)(unit_random(&seed) % n), page = mm_entry_page(entry_at(c, i));
        unit_eq(mm_blocks_retire(ref, 1, page), 1u << mm_class_page_shift(c));
        dense(c, --n);
        if (n > 0 && unit_random(&seed) % 4 == 0) make(c, n), dense(c, ++n);
    }
    unit_eq(mm_heap_of(ref)->extents, 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Slices that somebody has drawn beyond keep the table as it is: a hole, which whoever drew there fills. */
START_TEST(drawn_beyond) {
    const uint32_t c = mm_class_of(512), slices = mm_class_slices(c);
    for (uint32_t i = 0; i < 5; i++) make(c, i);
    of(c)->frontier += 1; /* somebody is to make entry 5 */
    mm_blocks_retire(ref, 1, mm_entry_page(entry_at(c, 2)));
    unit_eq(of(c)->count, 5);
    unit_eq(of(c)->frontier, 5ull * slices + 1);
    unit_eq(entry_at(c, 4), MM_ENTRY_NONE);
    unit_holds(mm_entry_is_of(entry_at(c, 2), c), "the last one has not moved");
    unit_sound(&heap, 0);
    make(c, 5);
    unit_eq(of(c)->count, 6);
    unit_sound(&heap, 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* The last one is being made: it does not move, and stays. */
START_TEST(last_is_being_made) {
    const uint32_t c = mm_class_of(512);
    for (uint32_t i = 0; i < 5; i++) make(c, i);
    *mm_table_at(ref, c, 5) = MM_ENTRY_BUSY;
    of(c)->count = 6;
    mm_blocks_retire(ref, 1, mm_entry_page(entry_at(c, 2)));
    unit_eq(entry_at(c, 5), MM_ENTRY_BUSY);
    unit_eq(of(c)->count, 6);
    unit_eq(entry_at(c, 2), MM_ENTRY_NONE);
    *mm_table_at(ref, c, 5) = MM_ENTRY_NONE;
    unit_sound(&heap, 0);
}
END_TEST

/* Who does not get the lock is not stopped: the block stays as it is. */
START_TEST(locked) {
    const uint32_t c = mm_class_of(512);
    for (uint32_t i = 0; i < 3; i++) make(c, i);
    of(c)->lock = 1;
    unit_eq(mm_blocks_retire(ref, 1, mm_entry_page(entry_at(c, 0))), 0);
    unit_eq(of(c)->lock, 1);
    of(c)->lock = 0;
    dense(c, 3);
    unit_lt(0, mm_blocks_retire(ref, 1, mm_entry_page(entry_at(c, 0))));
    dense(c, 2);
}
END_TEST

/* ---- What meets at each step ---- */

static const uint32_t c_ = 15; /* 512 bytes: one word */
static uint32_t first_, last_;
static void three_blocks(void) {
    new_heap();
    first_ = make(c_, 0), make(c_, 1), last_ = make(c_, 2);
}
static void retire_first(void) { (void)mm_blocks_retire(ref, 1, first_); }
static void retire_last(void) { (void)mm_blocks_retire(ref, 1, last_); }
static void make_last(void) {
    uint32_t index, slice;
    (void)mm_frontier_draw(ref, 1, 1, c_, &index, &slice);
    (void)mm_blocks_make(ref, 1, c_, index);
}
static void *got_;
static void take_slice(void) { got_ = mm_slice_malloc(ref, MM_TOKEN | c_); }
static void all_found(void) { /* the checker knows no block without an entry below the count */
    unit_sound(&heap, UNIT_ANY);
    if (got_) mm_cpu_free(&heap, got_), got_ = NULL;
    unit_fresh(&heap, SEGMENTS);
}
START_TEST(meetings) {
    unit_at_each_step(three_blocks, retire_first, retire_last, all_found);
    unit_at_each_step(three_blocks, retire_last, retire_first, all_found);
    unit_at_each_step(three_blocks, retire_first, retire_first, all_found);
    unit_at_each_step(three_blocks, retire_last, make_last, all_found);
    unit_at_each_step(three_blocks, make_last, retire_last, all_found);
    unit_at_each_step(three_blocks, retire_first, make_last, all_found);
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
    const TTest *const all[] = {extents, waiting_for_an_extent_is_bounded, drawn_beyond, last_is_being_made, locked, meetings};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    tcase_add_loop_test(tests, the_last_one_moves, 0, 4);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
