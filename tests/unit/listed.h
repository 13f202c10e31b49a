/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the suites of allocators of listed segments have in common: the lock of the list (runtime/listed), and the last segment of the largest heap. Include after steps.h. */
#ifndef MM_UNIT_LISTED_H
#define MM_UNIT_LISTED_H

#include "mmconfig.h"

enum { BUSY_POLLS = MM_LISTED_BUSY_POLLS };
#undef MM_LISTED_BUSY_POLLS
#define MM_LISTED_BUSY_POLLS busy_polls
static unsigned busy_polls = BUSY_POLLS;

#include "tests/unit/eight.h"

static void take_the_rest(void) {
    while (take(1) != NULL) {
    }
}

/* A sweep proves nothing while a segment may be on its way into the list or out of it. */
START_TEST(a_sweep_while_the_list_changes) {
    take_the_rest();
    unit_eq(mm_listed_sweep(ref, 1, 0, 1), 0);
    unit_eq(mm_list_lock(ref), 1);
    unit_eq(mm_listed_sweep(ref, 1, 0, 1), MM_LISTED_HELD);
    mm_list_unlock(ref);
    unit_eq(mm_listed_sweep(ref, 1, 0, 1), 0);
}
END_TEST

/* At each step a segment is in the list or in the free tree, or else the list is locked. */
static uint32_t on_its_way;
static void look_for_it(void) {
    int is_found = mm_list_state(ref)->lock != 0 || (*mm_tree_leaf(mm_segment_free_tree(ref), on_its_way) >> on_its_way % 64 & 1);
    for (uint32_t k = 0; k < mm_list_state(ref)->count; k++) is_found |= mm_list_entries(ref)[k] == on_its_way;
    unit_holds(is_found, "segment %u is in no place", on_its_way);
}
START_TEST(a_segment_on_its_way) {
    mm_list_add(ref, 1, MM_LISTED_ANY);
    on_its_way = mm_list_segment(ref, 0), unit_each_step = look_for_it;
    unit_eq(mm_segment_retire(ref, 1, on_its_way), 1);
    unit_eq(mm_list_add(ref, 1, MM_LISTED_ANY), MM_LISTED_MORE);
    unit_each_step = NULL;
    unit_eq(mm_list_segment(ref, 0), on_its_way);
}
END_TEST

/* While lanes of its own warp have the list's lock, a caller gets pages at once. */
#define OTHER_WARP 1000u
static long waited_steps;
static void count_step(void) { waited_steps++; }
START_TEST(a_list_that_its_own_warp_has) {
    unit_eq(mm_list_lock(ref), 1);
    unit_waits = 0;
    uint8_t *const p = take(100);
    unit_holds(p != NULL && mm_list_count(ref) == 0, "%p, with %u segments in the list", (void *)p, mm_list_count(ref));
    unit_lt((uint64_t)unit_waits, 16);
    unit_holds(mm_heap_usable_size(ref, p) >= 100, "usable: %llu", (unsigned long long)mm_heap_usable_size(ref, p));
    mm_heap_free(ref, p);
    mm_list_unlock(ref);
    mm_heap_free(ref, take(100));
    unit_eq(mm_list_count(ref), 1);
    /* of the same warp, retiring does not wait either */
    unit_eq(mm_list_lock(ref), 1);
    waited_steps = 0, unit_each_step = count_step;
    unit_eq(mm_segment_retire(ref, 1, mm_list_segment(ref, 0)), 0);
    unit_each_step = NULL;
    unit_lt((uint64_t)waited_steps, MM_LISTED_WORDS + 100);
    mm_list_unlock(ref);
    unit_eq(mm_segment_retire(ref, 1, mm_list_segment(ref, 0)), 1);
}
END_TEST

/* A caller that waits for the list looks at its lock, and searches again only now and then. */
START_TEST(a_wait_for_the_list) {
    take_the_rest();
    mm_list_state(ref)->lock = OTHER_WARP;
    busy_polls = 4096, waited_steps = unit_waits = 0, unit_each_step = count_step;
    unit_holds(take(1) == NULL, "there is nothing");
    unit_each_step = NULL, busy_polls = BUSY_POLLS;
    unit_lt(4096, unit_waits);
    unit_holds(waited_steps < 16 * unit_waits, "%ld steps for %ld waits", waited_steps, unit_waits);
    mm_list_unlock(ref);
}
END_TEST

/* The same heap with so large numbers of segments that the one that is listed is the last one of a heap of the largest size. */
static struct mm_heap_ref end_ref;
static uint64_t at_the_end(void) {
    mm_list_add(ref, 1, MM_LISTED_ANY);
    const uint64_t shift = MM_TREE_BITS_MAX - 1 - mm_list_segment(ref, 0), pages = shift * MM_SEGMENT_PAGES;
    end_ref = *ref;
    end_ref.user_bytes = end_ref.open_bytes = (uint64_t)MM_TREE_BITS_MAX << MM_SEGMENT_SHIFT;
    end_ref.user_base -= shift << MM_SEGMENT_SHIFT, end_ref.owners -= pages, end_ref.indexes -= pages * sizeof(uint32_t);
    end_ref.words -= pages * sizeof(uint64_t) << ref->word_shift;
    mm_list_entries(ref)[0] = MM_TREE_BITS_MAX - 1;
    return end_ref.user_base + ((uint64_t)(MM_TREE_BITS_MAX - 1) << MM_SEGMENT_SHIFT);
}
/* Each unit of it is handed out by draws and sweeps, once, and freed. */
#define END_UNITS (1u << (MM_SEGMENT_SHIFT - 5))
START_TEST(the_last_segment) {
    static uint64_t held[END_UNITS];
    static uint8_t is_held[END_UNITS];
    const uint64_t begin = at_the_end(), each = unit_taken(1), all = MM_SEGMENT_BYTES / each;
    uint32_t n = 0;
    for (uint32_t i = 0; n < all; i++) {
        uint64_t p = i < 64 ? mm_listed_draw(&end_ref, 1, 1, 1, 1, ~(i * 0x9e3779b1u)) : mm_listed_sweep(&end_ref, 1, 0, 1);
        if (p == 0 && i < 64) continue;
        unit_holds(p != 0, "%u units of %llu are had", n, (unsigned long long)all);
        unit_holds(p >= begin && p < begin + MM_SEGMENT_BYTES && !is_held[(p - begin) / each], "unit %llu", (unsigned long long)((p - begin) / each));
        is_held[(p - begin) / each] = 1, held[n++] = p;
    }
    unit_eq(mm_listed_sweep(&end_ref, 1, 0, 1), 0);
    while (n-- > 0) unit_eq(mm_small_mark(&end_ref, mm_small_locate(&end_ref, (void *)held[n], end_ref.user_bytes)), 0);
    const uint64_t most = mm_listed_sweep(&end_ref, 1, 0, MM_LISTED_UNITS_MAX);
    unit_holds(most >= begin && most + MM_SMALL_BYTES_MAX <= begin + MM_SEGMENT_BYTES, "the largest one");
}
END_TEST

static void listed_tests(TCase *tests) {
    const TTest *const all[] = {a_sweep_while_the_list_changes, a_segment_on_its_way, a_list_that_its_own_warp_has, a_wait_for_the_list, the_last_segment};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
}

#endif
