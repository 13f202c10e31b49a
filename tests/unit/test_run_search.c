/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Searches for runs, against a plain search through all places; and for several at once, and single segments. */
#include "tests/unit/runs.h"

static char is_free[5000];
static uint64_t seed;

/* The backmost place that fits, by trying all of them; for single segments the first one. */
static uint32_t search(uint32_t n, uint32_t count, uint32_t align, uint32_t skew) {
    const char *one = count == 1 && align == 1 ? (const char *)memchr(is_free, 1, n) : NULL;
    if (count == 1 && align == 1) return one == NULL ? MM_TREE_NONE : (uint32_t)(one - is_free);
    for (uint32_t first = n; first-- > 0;) {
        uint32_t s = first;
        while (s < n && s < first + count && is_free[s]) s++;
        if (s == first + count && (first - skew) % align == 0) return first;
    }
    return MM_TREE_NONE;
}

static uint32_t take(uint32_t count, uint32_t align, uint32_t skew, uint32_t most, uint32_t *runs) {
    const struct mm_run want = {count, align, skew, most};
    return unit_run_take(&heap.ref, want, runs);
}

/* A heap of n segments with random stretches of free ones, different after each change; is_free follows. */
static void make_rows(uint32_t n) {
    seed = n;
    unit_create(&heap, n);
    memset(is_free, 1, sizeof is_free);
}
static void change_rows(uint32_t n) {
    const struct mm_tree t = mm_segment_free_tree(&heap.ref);
    const uint32_t s = (uint32_t)(unit_random(&seed) % n), length = (uint32_t)(unit_random(&seed) % 40);
    const int now = unit_random(&seed) % 3 != 0; /* mostly free */
    for (uint32_t i = s; i < s + length && i < n; i++) {
        if (is_free[i] && !now) unit_eq(mm_tree_erase(t, i), 1);
        if (!is_free[i] && now) mm_tree_insert(t, i);
        is_free[i] = (char)now;
    }
}

START_TEST(aligned_against_a_plain_search) {
    const uint32_t n = sizes[_i];
    make_rows(n);
    for (uint32_t round = 0; round < 20000; round++) {
        change_rows(n);
        const uint32_t count = 1 + (uint32_t)(unit_random(&seed) % (round % 2 ? n : 6));
        const uint32_t align = 1u << unit_random(&seed) % 8, skew = (uint32_t)unit_random(&seed) & (align - 1);
        uint32_t runs;
        const uint32_t want = search(n, count, align, skew), got = take(count, align, skew, 1, &runs);
        unit_holds(got == want, "%u of %u segments, %u modulo %u: %d, not %d", count, n, skew, align, (int)got, (int)want);
        if (got != MM_TREE_NONE) mm_segments_put(mm_segment_free_tree(&heap.ref), got, got + count);
    }
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Nobody is on the way: a leaf has its bit above if it has segments, and only then; a mid, too. */
static void bits_above_are_exact(uint32_t n) {
    const struct mm_tree t = mm_segment_free_tree(&heap.ref);
    for (uint32_t s = 0; s < n; s += 64) unit_eq(*mm_tree_mid(t, s) >> s / 64 % 64 & 1, *mm_tree_leaf(t, s) != 0);
    for (uint32_t s = 0; s < n; s += MM_TREE_MID_SEGMENTS) unit_eq((*mm_tree_root(t, s) & mm_tree_root_bit(s)) != 0, *mm_tree_mid(t, s) != 0);
}
/* Runs of many leaves between a few holes: the search reads several leaves at once. */
START_TEST(long_ones_against_a_plain_search) {
    const uint32_t n = sizeof is_free;
    uint32_t found = 0, none = 0;
    make_rows(n);
    for (uint32_t round = 0; round < 200; round++) {
        const uint32_t hole = (uint32_t)(unit_random(&seed) % n), is_new = is_free[hole] && round % 8 < 3;
        const struct mm_tree t = mm_segment_free_tree(&heap.ref);
        if (is_new) mm_tree_erase(t, hole), is_free[hole] = 0;
        for (uint32_t i = 0; i < n && round % 8 == 7; i++) /* at times all are filled */
            if (!is_free[i]) mm_tree_insert(t, i), is_free[i] = 1;
        const uint32_t most = round % 2 ? 1 : 1 + round % 5, align = most == 1 ? 1u << unit_random(&seed) % 8 : 1,
                       skew = (uint32_t)unit_random(&seed) & (align - 1), count = 64 + (uint32_t)(unit_random(&seed) % (n / most - 64));
        uint32_t runs;
        const uint32_t want = search(n, count, align, skew), got = take(count, align, skew, most, &runs),
                       last = got == MM_TREE_NONE ? got : got + (runs - 1) * count;
        unit_holds(last == want, "%u times %u segments, %u modulo %u: %u, the last one at %d, not %d", most, count, skew, align, runs, (int)last, (int)want);
        bits_above_are_exact(n);
        found += got != MM_TREE_NONE, none += got == MM_TREE_NONE;
        if (got != MM_TREE_NONE) mm_segments_put(t, got, got + runs * count);
    }
    unit_lt(50, found);
    unit_lt(5, none);
    mm_cpu_heap_destroy(&heap);
}
END_TEST
/* Requests by the lanes of a warp: as many adjacent runs as wanted, or as fit where the first one does. */
START_TEST(several_against_a_plain_search) {
    const uint32_t n = sizes[_i];
    make_rows(n);
    for (uint32_t round = 0; round < 20000; round++) {
        change_rows(n);
        const uint32_t count = 2 + (uint32_t)(unit_random(&seed) % (round % 4 ? 6 : n)), most = 1 + (uint32_t)(unit_random(&seed) % 32);
        uint32_t first = search(n, count, 1, 0), runs, want = first != MM_TREE_NONE;
        while (want > 0 && want < most && first >= count && search(first, count, 1, 0) == first - count) want++, first -= count;
        const uint32_t got = take(count, 1, 0, most, &runs);
        unit_holds(got == first && runs == want, "%u times %u of %u segments: %u at %d, not %u at %d", most, count, n, runs, (int)got, want, (int)first);
        if (got != MM_TREE_NONE) mm_segments_put(mm_segment_free_tree(&heap.ref), got, got + runs * count);
    }
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Single segments: the first free ones of one leaf, as many as wanted, adjacent or not. */
START_TEST(single_segments) {
    const uint32_t n = sizes[_i];
    make_rows(n);
    for (uint32_t round = 0; round < 20000; round++) {
        change_rows(n);
        struct mm_run_search s = {MM_SHORTAGE_NONE, 0, 0, 0, 0, MM_SHORT_WAIT};
        const struct mm_run want = {1, 1, 0, 1 + (uint32_t)(unit_random(&seed) % 32)};
        const uint32_t first = search(n, 1, 1, 0);
        uint32_t at = 0, runs = 0;
        uint64_t bits = 0, expected = 0;
        for (uint32_t i = first; i < n && i / 64 == first / 64 && mm_popcount(expected) < want.most; i++) expected |= (uint64_t)is_free[i] << i % 64;
        if (first == MM_TREE_NONE) continue;
        unit_eq(mm_run_take(&heap.ref, want, &s, &at, &runs, &bits), MM_STEP_DONE);
        unit_eq(at, first / 64 * 64);
        unit_eq(bits, expected);
        unit_eq(runs, mm_popcount(expected));
        mm_tree_insert_bits(mm_segment_free_tree(&heap.ref), at, bits);
    }
    unit_eq(mm_heap_of(&heap.ref)->run_searches, 0);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* For runs no scattered blocks are retired: first the host is asked, then all blocks are retired. For single segments scattered ones are. */
START_TEST(some_are_retired_for_single_segments) {
    unit_create(&heap, 4);
    uint32_t at, runs;
    uint64_t bits;
    struct mm_run want = {4, 1, 0, 1};
    struct mm_run_search s = {MM_SHORTAGE_NONE, 0, 0, 0, 0, MM_SHORT_WAIT};
    unit_eq(mm_run_take(&heap.ref, want, &s, &at, &runs, &bits), MM_STEP_DONE);
    unit_eq(mm_heap_of(&heap.ref)->retired++, 0); /* as if others gave pages back */
    for (want.count = 1; want.count <= 2; want.count++) {
        mm_shortage_end(&s.shortage);
        unit_eq(mm_run_take(&heap.ref, want, &s, &at, &runs, &bits), MM_STEP_WAIT);
        unit_eq(s.is, want.count == 1 ? MM_SHORT_SOME : MM_SHORT_ALL);
        if (want.count == 2) mm_flight_end((uint64_t *)heap.ref.giving_up, 0);
    }
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Concurrent searches: each skips as many places as there are searches before it, but finds the last place. */
START_TEST(searches_beside_others) {
    const uint32_t n = 200;
    unit_create(&heap, n);
    for (uint32_t others = 0; others < 40; others++) {
        uint32_t runs;
        mm_heap_of(&heap.ref)->run_searches = others;
        const uint32_t got = take(3, 1, 0, 1, &runs);
        unit_eq(got, n - 3 * (others % (1u << MM_RUN_SPREAD_SHIFT) + 1));
        unit_eq(mm_heap_of(&heap.ref)->run_searches, others);
        mm_segments_put(mm_segment_free_tree(&heap.ref), got, got + 3);
    }
    mm_heap_of(&heap.ref)->run_searches = 7; /* there are fewer places */
    uint32_t runs;
    unit_eq(take(64, 1, 0, 1, &runs), n - 64);
    unit_eq(runs, 1);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* The same where some segments are in use, and for aligned runs: places are counted from the first one on, whether the others fit or not. */
START_TEST(searches_beside_others_in_rows) {
    const uint32_t n = sizes[_i];
    make_rows(n);
    for (uint32_t round = 0; round < 20000; round++) {
        change_rows(n);
        const uint32_t count = 2 + (uint32_t)(unit_random(&seed) % 6), others = (uint32_t)(unit_random(&seed) % (1u << MM_RUN_SPREAD_SHIFT));
        const uint32_t align = round % 2 ? 1u << unit_random(&seed) % 6 : 1, skew = (uint32_t)unit_random(&seed) & (align - 1);
        const uint32_t back = search(n, count, align, skew), skip = others > 0 ? (others - 1) * ((count + align - 1) / align * align) : 0;
        uint32_t runs, first = back;
        if (back != MM_TREE_NONE && others > 0) first = back >= skip ? search(back - skip, count, align, skew) : MM_TREE_NONE;
        if (first == MM_TREE_NONE) first = back;
        mm_heap_of(&heap.ref)->run_searches = others;
        const uint32_t got = take(count, align, skew, 1, &runs);
        unit_holds(got == first, "%u of %u segments, %u modulo %u, %u searches: at %d, not %d", count, n, skew, align, others, (int)got, (int)first);
        if (got != MM_TREE_NONE) mm_segments_put(mm_segment_free_tree(&heap.ref), got, got + count);
    }
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Lanes of a warp that do not find room in one place: the search goes on below the last place, and comes back to what was freed above when it has come to the front. */
START_TEST(goes_on_below) {
    const uint32_t n = 200, count = 3, apart = 5;
    const struct mm_run want = {count, 1, 0, 32};
    struct mm_run_search s = {MM_SHORTAGE_NONE, 0, 0, 0, 0, MM_SHORT_WAIT};
    uint32_t runs, at = n - apart;
    unit_create(&heap, n);
    const struct mm_tree t = mm_segment_free_tree(&heap.ref);
    for (uint32_t i = 0; i < n; i++)
        if (i % apart >= count) unit_eq(mm_tree_erase(t, i), 1);
    mm_heap_of(&heap.ref)->run_searches = 1; /* the first search skips a place; those that go on do not */
    for (uint32_t i = 0; i < 6; i++) {
        at -= apart;
        unit_eq(mm_runs_take(&heap.ref, want, &s, &runs), at);
        unit_eq(runs, 1);
    }
    mm_heap_of(&heap.ref)->run_searches = 0;
    const uint32_t back[] = {n - apart, at + apart, at}; /* skipped; and freed: above the last place, and the last place */
    mm_segments_put(t, back[1], back[1] + count);
    mm_segments_put(t, back[2], back[2] + count);
    while (at > 0) {
        at -= apart;
        unit_eq(mm_runs_take(&heap.ref, want, &s, &runs), at);
    }
    for (uint32_t i = 0; i < 3; i++) unit_eq(mm_runs_take(&heap.ref, want, &s, &runs), back[i]);
    mm_segments_put(t, back[0], back[0] + count);
    unit_eq(mm_runs_take(&heap.ref, want, &s, &runs), back[0]); /* nothing is free below */
    unit_eq(mm_runs_take(&heap.ref, want, &s, &runs), MM_TREE_NONE);
    unit_eq(s.tries, 0);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("run_search");
    TCase *tests = tcase_create("searches");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, aligned_against_a_plain_search, 0, SIZES);
    tcase_add_loop_test(tests, several_against_a_plain_search, 0, SIZES);
    tcase_add_loop_test(tests, single_segments, 0, SIZES);
    tcase_add_test(tests, some_are_retired_for_single_segments);
    tcase_add_test(tests, searches_beside_others);
    tcase_add_loop_test(tests, searches_beside_others_in_rows, 0, SIZES);
    tcase_add_test(tests, long_ones_against_a_plain_search);
    tcase_add_test(tests, goes_on_below);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
