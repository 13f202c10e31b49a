/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the suites of allocators of listed segments have in common: the lock of the list (runtime/listed), and the last segment of the largest heap. Include
 * after steps.h. */
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

static struct mm_listed_swept sweep_for(const struct mm_heap_ref *of, uint32_t n) { return mm_listed_sweep(of, 1, n, 1); }

/* A sweep proves nothing while a segment may be on its way into the list or out of it; or if one entered and another one left meanwhile. */
static void enter_once(void) { unit_each_step = NULL, mm_list_state(ref)->entered++; }
static void enter_soon(void) { unit_each_step = enter_once; }
START_TEST(a_sweep_while_the_list_changes) {
    take_the_rest();
    unit_eq(sweep_for(ref, 1).most, 0);
    unit_each_step = enter_soon;
    unit_eq(sweep_for(ref, 1).most, MM_LISTED_UNITS_MAX);
    unit_eq(mm_list_lock(ref), 1);
    unit_eq(sweep_for(ref, 1).most, MM_LISTED_UNITS_MAX);
    mm_list_unlock(ref, 1);
    unit_eq(sweep_for(ref, 1).most, 0);
}
END_TEST

/* In a heap of units that are all live: frees n in a row, somewhere in segment k of the list. */
static uint64_t each_bytes, begin_bytes; /* of a unit; where memory begins in it */
static void fill_it(void) {
    each_bytes = unit_taken(1), begin_bytes = (uint64_t)take(1) % each_bytes;
    take_the_rest();
}
static uint64_t place_of(uint32_t k) { return ref->user_base + (uint64_t)mm_list_segment(ref, k) * MM_SEGMENT_BYTES; }
static void make_room(uint32_t k, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, (void *)(place_of(k) + (7 + i) * each_bytes + begin_bytes));
}
static int is_in(uint64_t address, uint32_t k) { return address - place_of(k) < MM_SEGMENT_BYTES; }
static uint32_t k_of(uint64_t address) { return *mm_list_index(ref, (uint32_t)((address - ref->user_base) >> MM_SEGMENT_SHIFT)); }
static void no_more_than(const uint32_t *most) {
    for (uint32_t k = 0; k < SEGMENTS; k++) unit_eq(*mm_list_most(ref, mm_list_segment(ref, k)), most[k]);
}

/* A round finds the longest free memory, in each segment and in all; a visit looks where there was enough. */
START_TEST(rounds_and_visits) {
    const uint32_t rooms[SEGMENTS] = {0, 3, 0, 0, 1, 0, 5, 0};
    fill_it();
    for (uint32_t k = 0; k < SEGMENTS; k++) make_room(k, rooms[k]);
    struct mm_listed_swept swept = sweep_for(ref, 6);
    unit_eq(swept.address, 0);
    unit_eq(swept.most, 5);
    no_more_than(rooms);
    swept = mm_listed_sweep(ref, 1, 6, 0);
    unit_eq(swept.address + swept.most, 0);
    swept = mm_listed_sweep(ref, 1, 4, 0);
    unit_holds(is_in(swept.address, 6), "four units of the five");
    swept = mm_listed_sweep(ref, 1, 4, 0);
    unit_eq(swept.address, 0);
    unit_eq(swept.most, 1); /* it has looked there */
    no_more_than(rooms);
    make_room(2, 2); /* since the round */
    swept = mm_listed_sweep(ref, 1, 3, 0);
    unit_holds(is_in(swept.address, 1), "three units of the three");
    swept = mm_listed_sweep(ref, 1, 2, 0);
    unit_eq(swept.address, 0);
    swept = sweep_for(ref, 2);
    unit_holds(is_in(swept.address, 2), "a round looks everywhere");
}
END_TEST

/* A round for which others wait goes on when its caller has memory, and its result holds for them; another one ends then, and says nothing. */
START_TEST(a_round_that_ends_early) {
    const uint32_t rooms[SEGMENTS] = {0, 5, 0, 2, 0, 0, 1, 0}, after[SEGMENTS] = {0, 4, 0, 2, 0, 0, 1, 0};
    fill_it();
    for (uint32_t k = 0; k < SEGMENTS; k++) make_room(k, rooms[k]);
    for (uint32_t is_awaited = 0; is_awaited < 2; is_awaited++) {
        mm_list_state(ref)->swept = 0, mm_list_state(ref)->is_awaited = is_awaited;
        for (uint32_t k = 0; k < SEGMENTS; k++) *mm_list_most(ref, mm_list_segment(ref, k)) = 77;
        const struct mm_listed_swept swept = sweep_for(ref, 1);
        unit_holds(is_in(swept.address, 1), "segment %u", k_of(swept.address));
        unit_eq(swept.most, is_awaited ? 4 : MM_LISTED_UNKNOWN);
        unit_eq(*mm_list_most(ref, mm_list_segment(ref, 5)), is_awaited ? 0 : 77);
        if (is_awaited) no_more_than(after);
        else make_room(1, 1);
    }
}
END_TEST

/* What a round's result means to those who waited for it. */
START_TEST(what_a_round_says) {
    static const uint32_t n[] = {1, 3, 4, MM_LISTED_UNITS_MAX};
    struct mm_class_state *of = mm_list_state(ref);
    for (uint32_t most = 0; most < 5; most++) {
        uint64_t mine = 0, awaited[4] = {0, 0, 0, 0};
        int has_none;
        unit_eq(mm_listed_ask(ref, 9, &mine, &has_none), MM_LISTED_ROUND);
        unit_eq(of->is_awaited, 0);
        for (uint32_t i = 0; i < 4; i++) { /* wait for the next one */
            unit_eq(mm_listed_ask(ref, n[i], &awaited[i], &has_none), MM_LISTED_STAYS);
            unit_eq(has_none, 0);
        }
        mm_listed_end(ref, 0);
        unit_eq(mm_listed_ask(ref, 9, &mine, &has_none), MM_LISTED_ROUND);
        unit_eq(of->is_awaited, 0);
        unit_eq(mm_listed_ask(ref, n[0], &awaited[0], &has_none), MM_LISTED_STAYS);
        unit_eq(of->is_awaited, 1);
        mm_listed_end(ref, most < 4 ? most : MM_LISTED_UNKNOWN);
        for (uint32_t i = 0; i < 4; i++) {
            unit_eq(mm_listed_ask(ref, n[i], &awaited[i], &has_none), most < 4 && n[i] <= most ? MM_LISTED_VISITS : MM_LISTED_STAYS);
            unit_eq(has_none, most < 4 && n[i] > most);
            unit_eq(awaited[i], 0);
        }
    }
}
END_TEST

/* A segment that entered the list after the last round is looked at by visits, whatever was seen in its last life. */
START_TEST(a_visit_to_a_new_segment) {
    mm_list_add(ref, 1, MM_LISTED_ANY);
    const uint32_t s = mm_list_segment(ref, 0);
    unit_eq(mm_segment_retire(ref, 1, s), 1);
    *mm_list_most(ref, s) = 0;
    mm_list_add(ref, 1, MM_LISTED_ANY);
    unit_eq(mm_list_segment(ref, 0), s);
    unit_holds(mm_listed_sweep(ref, 1, 1, 0).address != 0, "it is free");
}
END_TEST

/* Two callers that get NULL share rounds, although they want different numbers of units. */
static void get_null(void *units) { unit_holds(take(*(uint64_t *)units * each_bytes) == NULL, "more than there is"); }
START_TEST(one_round_for_all) {
    uint64_t units[2] = {2, 40};
    void *args[2] = {&units[0], &units[1]};
    fill_it();
    make_room(3, 1);
    for (long a = 0; a < 2000; a += 97) {
        const uint64_t before = mm_list_state(ref)->round / MM_FLIGHT_WORD_ONE;
        unit_interleave(get_null, args, a, a, 1);
        unit_le(mm_list_state(ref)->round / MM_FLIGHT_WORD_ONE - before, 3);
    }
}
END_TEST

/* When the list has nothing, the free pages of segments with spans are used: all of the heap. */
START_TEST(pages_next_to_a_span) {
    uint8_t **held = (uint8_t **)calloc(SEGMENTS * MM_SEGMENT_BYTES / unit_taken(1), sizeof *held), *const span = take(MM_SMALL_BYTES_MAX + 1);
    const uint64_t begin = (uint64_t)span & ~(MM_SEGMENT_BYTES - 1);
    uint32_t n = 0, there = 0;
    unit_holds(mm_heap_usable_size(ref, span) < MM_SEGMENT_BYTES, "a span");
    const uint32_t pages = MM_SEGMENT_PAGES - (uint32_t)(mm_heap_usable_size(ref, span) >> MM_PAGE_SHIFT);
    while ((held[n] = take(1)) != NULL) {
        const int is_there = (uint64_t)held[n] - begin < MM_SEGMENT_BYTES;
        if (is_there) unit_eq(mm_heap_usable_size(ref, held[n]), MM_PAGE_BYTES);
        there += (uint32_t)is_there, n++;
    }
    unit_eq(there, pages);
    unit_eq(mm_list_count(ref), SEGMENTS - 1);
    unit_eq(mm_cpu_null_count(&heap), 1);
    while (n > 0) mm_heap_free(ref, held[--n]);
    mm_heap_free(ref, span);
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
    free(held);
}
END_TEST

/* At each step a segment is in the list or in the free tree, or else it is counted as coming, or the list is locked. */
static uint32_t on_its_way;
#define OTHER_WARP 1000u
static void look_for_it(void) {
    int is_found =
        (mm_list_state(ref)->lock | mm_list_state(ref)->coming) != 0 || (*mm_tree_leaf(mm_segment_free_tree(ref), on_its_way) >> on_its_way % 64 & 1);
    for (uint32_t k = 0; k < mm_list_state(ref)->count; k++) is_found |= *mm_list_entry(ref, k) == on_its_way;
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

/* A caller sweeps the list while another warp takes the only free segment out of it. It stays in the free tree, or it comes back _i - 1 steps after the sweeps
 * have ended. Nothing is live in it, so the caller gets memory. */
static uint64_t rounds_before;
static int comes_back, comes_in;
#define COMES_IN_MOST 12
static void come_and_go(void) {
    struct mm_class_state *of = mm_list_state(ref);
    unit_each_step = NULL;
    if (of->coming != 0 && of->round & MM_FLIGHT_WORD_BUSY) {
        mm_tree_insert(mm_segment_free_tree(ref), on_its_way);
        of->coming = 0;
    } else if (comes_back && of->round / MM_FLIGHT_WORD_ONE >= rounds_before + 2 && comes_in-- == 0) {
        comes_back = 0;
        mm_list_add(ref, 1, MM_LISTED_ANY);
    }
    unit_each_step = come_and_go;
}
START_TEST(a_segment_that_comes_and_goes) {
    uint32_t leaf;
    on_its_way = mm_ctz(mm_segments_take(ref, 1, &leaf));
    take_the_rest();
    mm_list_state(ref)->coming = 1;
    rounds_before = mm_list_state(ref)->round / MM_FLIGHT_WORD_ONE, comes_back = _i != 0, comes_in = _i - 1;
    busy_polls = 64, unit_each_step = come_and_go;
    const uint8_t *const p = take(1);
    unit_each_step = NULL, busy_polls = BUSY_POLLS;
    unit_eq(mm_list_state(ref)->coming, 0);
    if (_i <= 1) unit_eq((uint64_t)comes_back, 0);
    unit_eq(((uint64_t)p - ref->user_base) >> MM_SEGMENT_SHIFT, on_its_way);
}
END_TEST

/* A segment enters, and is put into the place of another one that leaves, which a sweep has passed: the sweep has seen all, or it proves nothing. */
static void add_any(void *arg) { (void)arg, mm_list_add(ref, 1, MM_LISTED_ANY); }
static struct mm_listed_swept swept_behind;
static void sweep_largest(void *arg) { (void)arg, swept_behind = mm_listed_sweep(ref, 1, MM_LISTED_UNITS_MAX, 1); }
START_TEST(a_segment_in_place_of_another) {
    int done = 0;
    for (long steps = 0; !done; steps++) {
        uint32_t leaf;
        const uint32_t enters = mm_ctz(mm_segments_take(ref, 1, &leaf));
        while (mm_list_count(ref) < SEGMENTS - 1) mm_list_add(ref, 1, MM_LISTED_ANY);
        uint8_t *held;
        for (uint32_t n = 0; (held = take(MM_SMALL_BYTES_MAX)) != NULL; n++) unit_lt(n, SEGMENTS * MM_SEGMENT_BYTES / 16);
        const uint32_t leaves = mm_list_segment(ref, 0);
        mm_tree_insert(mm_segment_free_tree(ref), enters);
        mm_list_state(ref)->swept = 0, *mm_list_most(ref, leaves) = 77;
        unit_actor_make(0, add_any, NULL), unit_actor_home[0] = OTHER_WARP;
        unit_go(0, steps);
        done = unit_actor[0].done;
        unit_actor_make(1, sweep_largest, NULL), unit_actor_home[1] = OTHER_WARP + 1;
        while (!unit_actor[1].done && *mm_list_most(ref, leaves) == 77) unit_go(1, 0);
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        /* it leaves as if nothing were live in it; the last one comes to its place */
        if (mm_list_lock(ref)) mm_list_remove(ref, leaves), mm_list_unlock(ref, 1);
        while (!unit_actor[1].done) unit_go(1, UNIT_TURN_STEPS);
        unit_holds(swept_behind.address != 0 || swept_behind.most >= MM_LISTED_UNITS_MAX, "%ld steps: nothing, and most %u", steps, swept_behind.most);
        tear_down(), set_up();
    }
}
END_TEST

/* While lanes of its own warp bring segments, a caller gets pages at once. */
static long waited_steps;
static void count_step(void) { waited_steps++; }
START_TEST(a_list_that_its_own_warp_has) {
    const uint32_t slot = mm_warp_slot();
    mm_list_state(ref)->coming = SEGMENTS, *mm_list_bringing(ref, slot) = 1ull << slot % 64;
    unit_waits = 0;
    uint8_t *const p = take(100);
    unit_holds(p != NULL && mm_list_count(ref) == 0, "%p, with %u segments in the list", (void *)p, mm_list_count(ref));
    unit_lt((uint64_t)unit_waits, 16);
    unit_eq(mm_list_state(ref)->wanted, 0);
    unit_holds(mm_heap_usable_size(ref, p) >= 100, "usable: %llu", (unsigned long long)mm_heap_usable_size(ref, p));
    mm_heap_free(ref, p);
    mm_list_state(ref)->coming = *mm_list_bringing(ref, slot) = 0;
    mm_heap_free(ref, take(100));
    unit_eq(mm_list_count(ref), 1);
    /* of the same warp, retiring does not wait either */
    unit_eq(mm_list_lock(ref), 1);
    waited_steps = 0, unit_each_step = count_step;
    unit_eq(mm_segment_retire(ref, 1, mm_list_segment(ref, 0)), 0);
    unit_each_step = NULL;
    unit_lt((uint64_t)waited_steps, MM_LISTED_WORDS + 100);
    mm_list_unlock(ref, 1);
    unit_eq(mm_segment_retire(ref, 1, mm_list_segment(ref, 0)), 1);
}
END_TEST

/* A caller that waits for segments that others bring looks at the list, and searches again only now and then. */
START_TEST(a_wait_for_the_list) {
    take_the_rest();
    mm_list_state(ref)->coming = SEGMENTS;
    busy_polls = 4096, waited_steps = unit_waits = 0, unit_each_step = count_step;
    unit_holds(take(1) == NULL, "there is nothing");
    unit_each_step = NULL, busy_polls = BUSY_POLLS;
    unit_lt(4096, unit_waits);
    unit_holds(waited_steps < 16 * unit_waits, "%ld steps for %ld waits", waited_steps, unit_waits);
    mm_list_state(ref)->coming = 0;
}
END_TEST

/* A segment on its way has its owner already, and no list has it: it is not retired. */
START_TEST(a_segment_that_comes_is_not_retired) {
    mm_list_add(ref, 1, MM_LISTED_ANY);
    const uint32_t s = mm_list_segment(ref, 0);
    mm_list_state(ref)->count = 0;
    unit_eq(mm_segment_retire(ref, 1, s), 0);
    unit_eq(mm_list_state(ref)->lock, 0);
    mm_list_state(ref)->count = 1;
    unit_eq(mm_segment_retire(ref, 1, s), 1);
}
END_TEST

/* A heap of the largest size, of which only the last segment is there. */
static struct mm_cpu_heap end_heap;
static struct mm_heap_ref end_ref;
static uint64_t at_the_end(void) {
    const uint32_t last = MM_TREE_BITS_MAX - 1;
    unit_holds(mm_cpu_heap_create(&end_heap, MM_TREE_BITS_MAX, 0, MM_SEGMENT_BYTES) == 0, "a heap of the largest size");
    end_ref = end_heap.ref;
    mm_grow_insert(&end_ref, last, 1);
    mm_list_add(&end_ref, 1, MM_LISTED_ANY);
    unit_eq(mm_list_count(&end_ref), 1);
    unit_eq(mm_list_segment(&end_ref, 0), last);
    return end_ref.user_base + ((uint64_t)last << MM_SEGMENT_SHIFT);
}
/* Each unit of it is handed out by draws and sweeps, once, and freed. */
#define END_UNITS (1u << (MM_SEGMENT_SHIFT - 5))
START_TEST(the_last_segment) {
    static uint64_t held[END_UNITS];
    static uint8_t is_held[END_UNITS];
    const uint64_t begin = at_the_end(), each = unit_taken(1), all = MM_SEGMENT_BYTES / each;
    uint32_t n = 0;
    for (uint32_t i = 0; n < all; i++) {
        uint64_t p = i < 64 ? mm_listed_draw(&end_ref, 1, 1, 1, 1, ~(i * 0x9e3779b1u)) : sweep_for(&end_ref, 1).address;
        if (p == 0 && i < 64) continue;
        unit_holds(p != 0, "%u units of %llu are had", n, (unsigned long long)all);
        unit_holds(p >= begin && p < begin + MM_SEGMENT_BYTES && !is_held[(p - begin) / each], "unit %llu", (unsigned long long)((p - begin) / each));
        is_held[(p - begin) / each] = 1, held[n++] = p;
    }
    unit_eq(sweep_for(&end_ref, 1).address, 0);
    while (n-- > 0) unit_eq(mm_small_mark(&end_ref, mm_small_locate(&end_ref, (void *)held[n], end_ref.user_bytes)), 0);
    const uint64_t most = sweep_for(&end_ref, MM_LISTED_UNITS_MAX).address;
    unit_holds(most >= begin && most + MM_SMALL_BYTES_MAX <= begin + MM_SEGMENT_BYTES, "the largest one");
    mm_cpu_heap_destroy(&end_heap);
}
END_TEST

#include "tests/unit/list_growth.h"

UNIT_SOME void listed_tests(TCase *tests) {
    const TTest *const all[] = {a_sweep_while_the_list_changes,
                                rounds_and_visits,
                                a_round_that_ends_early,
                                what_a_round_says,
                                a_visit_to_a_new_segment,
                                one_round_for_all,
                                pages_next_to_a_span,
                                a_segment_on_its_way,
                                a_list_that_its_own_warp_has,
                                a_wait_for_the_list,
                                the_last_segment,
                                as_many_as_are_wanted,
                                batches_that_wait,
                                a_segment_that_comes_is_not_retired,
                                what_a_caller_wants,
                                a_share_or_what_is_wanted,
                                others_reserve_meanwhile,
                                looks_of_a_wait};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    tcase_add_loop_test(tests, a_segment_that_comes_and_goes, 0, COMES_IN_MOST);
    tcase_add_test(tests, a_segment_in_place_of_another);
}

#endif
