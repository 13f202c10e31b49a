/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Random walk (runtime/random_walk), built once for each face: lives of one and of several units, what free tells apart, NULL, giving back. */
#include "tests/unit/steps.h"

#include "tests/unit/listed.h"

#define LIVES_LOG 19
#define LIVES_HEADER_BYTES 0
static uint64_t lives_align(uint64_t bytes) { return (void)bytes, MM_WALK_UNIT_BYTES; }
static int lives_is_usable(uint64_t bytes, uint64_t usable) { return usable == unit_taken(bytes); }
#include "tests/unit/lives.h"

static uint64_t units(uint64_t n) { return n * MM_WALK_UNIT_BYTES; }

/* ---- units ------------------------------------------------------------------------------------- */

/* Units across a word's end, across several words, and at the end of a segment. */
START_TEST(at_the_edges) {
    mm_list_add(ref, 1, MM_LISTED_ANY);
    static const uint32_t places[][2] = {{0, 1}, {31, 2}, {30, 70}, {MM_WALK_UNITS - 33, 33}, {MM_WALK_UNITS - 1, 1}, {0, MM_WALK_UNITS}, {64, 32}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const uint32_t s = mm_list_segment(ref, 0) * MM_WALK_UNITS, first = s + places[i][0], n = places[i][1];
        uint64_t seen;
        unit_eq(mm_units_claim(ref, first, n), 1);
        unit_sound(&heap, units(n));
        unit_eq(mm_units_size(ref, first), units(n));
        for (uint32_t k = 1; k < n; k++) unit_eq(mm_unit_look(ref, first + k, &seen), MM_UNIT_INTERIOR);
        if (places[i][0] > 0) unit_eq(mm_units_claim(ref, first - 1, n + 1), 0); /* and leaves nothing behind */
        if (places[i][0] + n < MM_WALK_UNITS) unit_eq(mm_units_claim(ref, first, n + 1), 0);
        unit_sound(&heap, units(n));
        unit_eq(mm_units_find(ref, s / 32, MM_WALK_UNITS - n + 1, MM_WALK_WORDS) & MM_WALK_NONE, MM_WALK_NONE);
        unit_eq(mm_units_free(ref, first), MM_UNIT_FIRST);
        unit_eq(mm_units_free(ref, first), MM_UNIT_FREE);
        unit_sound(&heap, 0);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* find returns the first place with enough consecutive free units, from its word on, whatever is taken around it; or else how many there are at most. */
START_TEST(finds_the_first) {
    mm_list_add(ref, 1, MM_LISTED_ANY);
    const uint32_t s = mm_list_segment(ref, 0) * MM_WALK_UNITS;
    static uint8_t is_taken[MM_WALK_UNITS];
    uint64_t seed = (uint64_t)_i + 1;
    for (uint32_t unit = 0; unit < MM_WALK_UNITS;) { /* stretches of taken and of free units */
        const uint32_t stretch = 1 + (uint32_t)(unit_random(&seed) % (_i % 2 ? 90 : 9)), taken = (uint32_t)(unit_random(&seed) % 2);
        for (uint32_t k = 0; k < stretch && unit < MM_WALK_UNITS; k++, unit++)
            if ((is_taken[unit] = (uint8_t)taken) != 0) mm_unit_claim(ref, s + unit);
    }
    for (uint32_t n = 1; n <= 300; n += 1 + n / 4)
        for (uint32_t w = 0; w < MM_WALK_WORDS; w += 7) {
            uint64_t expected = MM_WALK_NONE, longest = 0;
            for (uint32_t pass = 0; pass < 2 && expected == MM_WALK_NONE; pass++) { /* to the segment's end; then from its begin up to word w */
                const uint32_t end = pass ? w * 32 : MM_WALK_UNITS;
                for (uint32_t unit = pass ? 0 : w * 32, have = 0; unit < end && expected == MM_WALK_NONE; unit++) {
                    have = is_taken[unit] ? 0 : have + 1;
                    if (have == n) expected = s + unit + 1 - n;
                    if (have > longest) longest = have;
                }
            }
            if (expected == MM_WALK_NONE) expected += longest;
            unit_eq(mm_units_find(ref, s / 32 + w, n, MM_WALK_WORDS), expected);
        }
}
END_TEST

/* ---- misuse ------------------------------------------------------------------------------------ */

START_TEST(misuses) {
    uint8_t *one = take(100), *many = take(units(70)), *span = take(MM_SMALL_BYTES_MAX + 1), *run = take(3 * MM_SEGMENT_BYTES);
    const uint64_t live = unit_taken(100) + units(70) + unit_taken(MM_SMALL_BYTES_MAX + 1) + 3 * MM_SEGMENT_BYTES;
    unit_free(&heap, NULL, 0, live, "NULL");
    unit_free(&heap, &heap, MM_MISUSE_FOREIGN, live, "a variable");
    unit_free(&heap, one + 16, MM_MISUSE_INTERIOR, live, "inside a unit");
    for (uint32_t k = 1; k < 70; k++) unit_free(&heap, many + units(k), MM_MISUSE_INTERIOR, live, "a later unit");
    unit_free(&heap, span + MM_PAGE_BYTES, MM_MISUSE_INTERIOR, live, "inside a span");
    unit_free(&heap, run + MM_SEGMENT_BYTES, MM_MISUSE_INTERIOR, live, "inside a run");
    unit_eq(mm_heap_usable_size(ref, one + 16) + mm_heap_usable_size(ref, many + units(1)), 0);
    unit_free(&heap, one, 0, live - units(1), "one unit");
    unit_free(&heap, one, MM_MISUSE_DOUBLE_FREE, live - units(1), "one unit, again");
    unit_eq(mm_heap_usable_size(ref, one), 0);
    unit_free(&heap, many, 0, live - units(71), "units");
    for (uint32_t k = 0; k < 70; k++) unit_free(&heap, many + units(k), MM_MISUSE_DOUBLE_FREE, live - units(71), "units, again");
    unit_free(&heap, span, 0, 3 * MM_SEGMENT_BYTES, "a span");
    unit_free(&heap, run, 0, 0, "a run");
    mm_cpu_heap_drain_quiescent(&heap);
    unit_free(&heap, one, MM_MISUSE_NOT_ALLOCATED, 0, "of a segment that was given back");
}
END_TEST

START_TEST(two_frees_at_once) {
    static const uint32_t sizes[] = {1, 2, 33, 100};
    two_frees(units(sizes[_i]), 256);
}
END_TEST

/* ---- NULL and giving back ---------------------------------------------------------------------- */

/* Every unit of the heap is handed out, then NULL; a unit that comes back is found. */
START_TEST(to_the_last_unit) {
    const uint32_t all = SEGMENTS * MM_WALK_UNITS;
    uint8_t **held = (uint8_t **)calloc(all + 1, sizeof *held);
    uint32_t n = 0;
    while (n <= all && (held[n] = take(1)) != NULL) n++;
    unit_eq(n, all);
    unit_sound(&heap, units(all));
    for (uint32_t i = 0; i < 50; i++) {
        const uint32_t k = i * 7919 % all;
        mm_heap_free(ref, held[k]);
        unit_holds(take(MM_WALK_UNIT_BYTES + 1) == NULL, "two units where one is free");
        unit_holds(take(200) == held[k], "the one that came back");
        unit_holds(take(1) == NULL, "more than there is");
    }
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, held[i]);
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
    free(held);
}
END_TEST

/* Of a heap that allocations of one length fill, 97 % are had if the length is a power of two; else, and of mixed lengths, gaps remain. */
START_TEST(most_of_the_heap) {
    static const uint32_t most[] = {2, 5, 16, 64};
    uint64_t seed = (uint64_t)_i + 1, bytes = 0;
    static uint8_t *held[SEGMENTS * MM_WALK_UNITS];
    uint32_t n = 0, misses = 0;
    while (misses < 20) { /* a shorter one may still fit */
        const uint64_t length = _i % 2 ? most[_i / 2] : 1 + unit_random(&seed) % most[_i / 2];
        if ((held[n] = take(units(length))) != NULL) bytes += units(length), n++;
        else misses++;
    }
    unit_sound(&heap, bytes);
    unit_holds((double)bytes >= (_i % 2 && _i != 3 ? 0.97 : 0.92) * (double)(SEGMENTS * MM_SEGMENT_BYTES), "%llu bytes of %llu", (unsigned long long)bytes,
               SEGMENTS * MM_SEGMENT_BYTES);
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, held[i]);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Of a full heap one object comes back, again and again: most callers find it by draws, few sweep: 5. (With 16 draws 109 did.) */
START_TEST(draws_in_a_full_heap) {
    static uint8_t *held[SEGMENTS * MM_WALK_UNITS];
    const uint64_t bytes = 8192, rounds = 400;
    uint32_t n = 0;
    while ((held[n] = take(bytes)) != NULL) n++;
    unit_eq(n, SEGMENTS * MM_SEGMENT_BYTES / bytes);
    const uint64_t before = mm_list_state(ref)->round / MM_FLIGHT_WORD_ONE;
    for (uint64_t i = 0; i < rounds; i++) {
        const uint32_t k = (uint32_t)(i * 7919 % n);
        mm_heap_free(ref, held[k]);
        unit_holds(take(bytes) == held[k], "the one that came back");
    }
    const uint64_t swept = (mm_list_state(ref)->round / MM_FLIGHT_WORD_ONE) - before;
    unit_holds(swept <= rounds / 10, "%llu of %llu callers swept", (unsigned long long)swept, (unsigned long long)rounds);
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, held[i]);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Segments without live units serve spans and runs, and come back to units. */
START_TEST(segments_go_and_come) {
    static uint8_t *held[SEGMENTS * MM_WALK_UNITS];
    for (int round = 0; round < 3; round++) {
        uint32_t n = 0;
        while ((held[n] = take(256)) != NULL) n++;
        unit_eq(n, SEGMENTS * MM_WALK_UNITS);
        for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, held[i]);
        uint8_t *run = take((SEGMENTS - 1) * MM_SEGMENT_BYTES), *span = take(MM_SMALL_BYTES_MAX + 1);
        unit_holds(run != NULL && span != NULL, "round %d: NULL while all is free", round);
        void *const rest = take(256); /* a page of the span's segment */
        unit_holds(rest != NULL && mm_list_count(ref) == 0, "no more segments than there are");
        mm_heap_free(ref, rest);
        mm_heap_free(ref, run), mm_heap_free(ref, span);
    }
    unit_eq(mm_cpu_null_count(&heap) > 2, 1);
}
END_TEST

/* A caller that drew from the list before a segment left it takes nothing there, whoever has the segment. */
static uint32_t stale_count, stale_random;
static uint64_t stale_unit;
static void draw_late(void *arg) { (void)arg, stale_unit = mm_walk_draw(ref, MM_WALK_FACE == MM_WALK_BM, stale_count, stale_random); }
START_TEST(draws_from_an_old_list) {
    mm_list_add(ref, 1, MM_LISTED_ANY);
    stale_count = mm_list_count(ref);
    for (long steps = 0; steps < 8; steps++) {
        const uint32_t s = mm_list_segment(ref, 0);
        stale_random = (uint32_t)steps * 0x12345677u;
        unit_actor_make(0, draw_late, NULL);
        unit_go(0, steps);
        if (!unit_actor[0].done) {
            unit_eq(mm_segment_retire(ref, 1, s), 1);
            uint8_t *run = take(SEGMENTS * MM_SEGMENT_BYTES);
            unit_holds(run != NULL, "all segments");
            while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
            unit_eq(stale_unit, MM_WALK_NONE);
            unit_sound(&heap, SEGMENTS * MM_SEGMENT_BYTES);
            mm_heap_free(ref, run);
            mm_list_add(ref, 1, MM_LISTED_ANY);
        } else {
            unit_eq(mm_units_free(ref, (uint32_t)stale_unit), MM_UNIT_FIRST);
        }
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("walk");
    TCase *tests = tcase_create("walk");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, lives, 0, 4);
    tcase_add_loop_test(tests, finds_the_first, 0, 8);
    tcase_add_loop_test(tests, two_frees_at_once, 0, 4);
    tcase_add_loop_test(tests, most_of_the_heap, 0, 8);
    const TTest *const all[] = {at_the_edges, misuses, to_the_last_unit, draws_in_a_full_heap, segments_go_and_come, draws_from_an_old_list};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    listed_tests(tests);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
