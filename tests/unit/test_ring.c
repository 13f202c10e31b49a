/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The ring of chunks (runtime/regeff), built once for each face that has one: lives, splitting and merging, what free tells apart, NULL, giving back. */
#include "tests/unit/steps.h"

#include "tests/unit/listed.h"

#define LIVES_LOG 19
#define LIVES_HEADER_BYTES MM_RING_HEADER_BYTES
static uint64_t lives_align(uint64_t bytes) { return (void)bytes, 1u << MM_ALIGN_SHIFT; }
static int lives_is_usable(uint64_t bytes, uint64_t usable) { return usable + (bytes <= MM_SMALL_BYTES_MAX ? MM_RING_HEADER_BYTES : 0) == unit_taken(bytes); }
#include "tests/unit/lives.h"

static uint64_t unit_of(const void *p) { return ((uint64_t)p - ref->user_base) >> MM_RING_UNIT_SHIFT; }

/* ---- chunks ------------------------------------------------------------------------------------ */

/* A new segment has, of each power of two from 32 units up to R, as many chunks as fit in R, and one with the rest. */
START_TEST(a_new_segment) {
    uint32_t of[MM_RING_LOG + 1] = {0}, in = 0, rest = MM_RING_UNITS == MM_RING_LEVELS_END;
    mm_list_add(ref, 1, MM_LISTED_ANY);
    const uint64_t first = (uint64_t)mm_list_segment(ref, 0) * MM_RING_UNITS;
    while (in < MM_RING_UNITS) {
        const uint32_t units = mm_ring_end(ref, first + in) - in, log = mm_ctz(units);
        if (in < MM_RING_LEVELS_END) of[log]++;
        else rest++;
        unit_holds(units == 1u << log, "a chunk of %u units", units);
        in += units;
    }
    unit_eq(rest, 1);
    for (uint32_t log = 5; log <= MM_RING_LOG; log++) unit_eq(of[log], 1u << (MM_RING_LOG - log));
    unit_sound(&heap, 0);
}
END_TEST

/* A chunk is split if more than an eighth would be left over, and not else; a caller merges what is too small. */
START_TEST(splits_and_merges) {
    uint64_t next;
    mm_list_add(ref, 1, MM_LISTED_ANY);
    const uint64_t first = (uint64_t)mm_list_segment(ref, 0) * MM_RING_UNITS, all = MM_RING_UNITS;
    unit_holds(mm_ring_claim(ref, first, 3, &next) != 0 && next == first + 3, "of R units, 3");
    unit_sound(&heap, 3 * MM_RING_UNIT_BYTES);
    unit_eq(mm_ring_claim(ref, first, 1, &next), 0);
    unit_eq(mm_ring_claim(ref, first + 1, 1, &next), 0);
    unit_eq(mm_ring_free(ref, first + 1), 0);
    unit_eq(mm_ring_free(ref, first), 1);
    unit_eq(mm_ring_end(ref, first), 1u << MM_RING_LOG); /* merged again */
    unit_eq(mm_ring_free(ref, first), 0);
    unit_holds(mm_ring_claim(ref, first, MM_RING_UNITS_MAX, &next) != 0, "merges what follows");
    unit_le(first + MM_RING_UNITS_MAX, next);
    unit_lt(next, first + 2 * MM_RING_UNITS_MAX);
    unit_sound(&heap, (uint64_t)MM_RING_UNITS_MAX * MM_RING_UNIT_BYTES);
    unit_eq(mm_ring_free(ref, first), 1);
    uint32_t end = mm_ring_end(ref, first);
    unit_eq(mm_ring_lock(ref, first), 1);
    while (mm_ring_merge(ref, first, &end)) {
    }
    mm_ring_unlock(ref, first);
    unit_eq(end, all);
    unit_sound(&heap, 0);
    unit_holds(mm_ring_claim(ref, first, 8, &next) != 0 && next == first + 8, "split");
    unit_holds(mm_ring_claim(ref, next, 9, &next) != 0 && next == first + 17, "split");
    unit_eq(mm_ring_free(ref, first), 1);
    unit_holds(mm_ring_claim(ref, first, 7, &next) != 0 && next == first + 7, "split, since more than an eighth would be left over");
    unit_eq(mm_ring_free(ref, first), 1);
    unit_holds(mm_ring_claim(ref, first, 8, &next) != 0 && next == first + 8, "all of it");
    unit_eq(mm_ring_free(ref, first + 8), 1);
    unit_holds(mm_ring_claim(ref, first + 8, (uint32_t)all - 8 - (uint32_t)all / 10, &next) != 0 && next == first + all,
               "not split: hardly any would be left over");
    unit_eq(mm_ring_free(ref, first + 8), 1);
    unit_eq(mm_ring_free(ref, first), 1);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* find returns the first free chunks in a row that are long enough; if there are none, how long those in a row are that are free or held. */
static uint64_t find_by_headers(uint64_t first, uint32_t n, int is_any) {
    uint32_t begin = 0, longest = 0;
    for (uint32_t in = 0, end; in < MM_RING_UNITS; in = end) {
        const int is_bad = is_any ? mm_ring_is_live(ref, first + in) : !mm_ring_is_free(ref, first + in);
        end = mm_ring_end(ref, first + in);
        if (is_bad) begin = end;
        else if (end - begin >= n) return first + begin;
        if (end - begin > longest) longest = end - begin;
    }
    return MM_LISTED_NONE + longest;
}
START_TEST(finds_the_first) {
    uint64_t seed = (uint64_t)_i + 1, kinds[3] = {0, 0, 0};
    mm_list_add(ref, 1, MM_LISTED_ANY);
    const uint64_t first = (uint64_t)mm_list_segment(ref, 0) * MM_RING_UNITS;
    for (uint64_t unit = first, next; unit < first + MM_RING_UNITS; unit = next) { /* all live, in pieces */
        const uint32_t most = mm_ring_end(ref, unit) - (uint32_t)(unit - first), n = 1 + (uint32_t)(unit_random(&seed) % (_i % 2 ? 300 : 20));
        unit_holds(mm_ring_claim(ref, unit, n < most ? n : most, &next) != 0, "a piece");
    }
    for (uint64_t unit = first, next; unit < first + MM_RING_UNITS; unit = next) { /* some of them free, or held; not merged */
        const uint32_t kind = (uint32_t)(unit_random(&seed) % 4);
        next = first + mm_ring_end(ref, unit);
        if (kind < 2) mm_and_relaxed_u64(mm_ring_live(ref, unit), ~(1ull << unit % 64));
        if (kind == 0) mm_ring_unlock(ref, unit);
    }
    for (uint32_t n = 1; n <= MM_RING_UNITS_MAX; n += 1 + n / 8) {
        const uint64_t is = find_by_headers(first, n, 0);
        const uint64_t expected = is < MM_LISTED_NONE ? is : find_by_headers(first, MM_LISTED_NEVER, 1);
        unit_eq(mm_listed_find(ref, (uint32_t)(first / MM_RING_UNITS), n), expected);
        kinds[is < MM_LISTED_NONE ? 0 : expected >= MM_LISTED_NONE + n ? 1 : 2]++;
    }
    unit_holds(kinds[0] != 0 && kinds[1] != 0 && kinds[2] != 0, "all three answers");
}
END_TEST

/* A lock of a unit at which nothing begins is given back, whenever the chunk there comes or goes. */
static uint64_t at_unit;
static void free_or_claim(void *got) {
    uint64_t next;
    if (got == NULL) mm_ring_free(ref, at_unit - 1);
    else *(int *)got = mm_ring_claim(ref, at_unit, 1, &next) != 0;
}
START_TEST(a_claim_while_a_merge) {
    int ended = 0;
    for (long a = 0; !(ended & 1); a++)
        for (long b = 0; b < 12; b++) {
            uint64_t next;
            int got = 0;
            void *args[2] = {NULL, &got};
            mm_list_add(ref, 1, MM_LISTED_ANY);
            at_unit = (uint64_t)mm_list_segment(ref, 0) * MM_RING_UNITS + 1;
            unit_holds(mm_ring_claim(ref, at_unit - 1, 1, &next) != 0, "the first unit");
            ended = unit_interleave(free_or_claim, args, a, b, b);
            unit_sound(&heap, got ? MM_RING_UNIT_BYTES : 0);
            if (got) unit_eq(mm_ring_free(ref, at_unit), 1);
            mm_cpu_heap_drain_quiescent(&heap);
        }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* A sweep claims what it found, and if another thread has that by then, no other chunk of the word. */
START_TEST(a_sweep_claims_what_it_found) {
    uint8_t *one = take(1), *next = take(1);
    const uint64_t at = unit_of(one);
    unit_eq(unit_of(next), at + 1);
    mm_heap_free(ref, next);
    unit_eq(mm_listed_claim(ref, at, 1), 0);
    unit_eq(mm_listed_claim(ref, at + 1, 1), (uint64_t)next);
    mm_heap_free(ref, one), mm_heap_free(ref, next);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* ---- misuse ------------------------------------------------------------------------------------ */

START_TEST(misuses) {
    uint8_t *one = take(100), *many = take(5000), *span = take(MM_SMALL_BYTES_MAX + 1), *run = take(3 * MM_SEGMENT_BYTES);
    const uint64_t others = unit_taken(MM_SMALL_BYTES_MAX + 1) + 3 * MM_SEGMENT_BYTES, live = unit_taken(100) + unit_taken(5000) + others;
    unit_free(&heap, NULL, 0, live, "NULL");
    unit_free(&heap, &heap, MM_MISUSE_FOREIGN, live, "a variable");
    unit_free(&heap, one + 1, MM_MISUSE_INTERIOR, live, "not aligned");
    for (uint32_t k = 16; k < 4900; k += 16) unit_free(&heap, many + k, MM_MISUSE_INTERIOR, live, "an interior pointer");
    unit_free(&heap, span + MM_PAGE_BYTES, MM_MISUSE_INTERIOR, live, "inside a span");
    unit_free(&heap, run + MM_SEGMENT_BYTES, MM_MISUSE_INTERIOR, live, "inside a run");
    unit_eq(mm_heap_usable_size(ref, one + 32) + mm_heap_usable_size(ref, many + 64), 0);
    unit_free(&heap, one, 0, live - unit_taken(100), "one");
    unit_free(&heap, one, MM_MISUSE_DOUBLE_FREE, live - unit_taken(100), "one, again");
    unit_eq(mm_heap_usable_size(ref, one), 0);
    unit_free(&heap, many, 0, others, "many");
    unit_free(&heap, many, MM_MISUSE_DOUBLE_FREE, others, "many, again");
    uint8_t *first = take(16), *next = take(16);
    const uint64_t two = 2 * unit_taken(16) + others;
    unit_eq(unit_of(next), unit_of(first) + 1);
    unit_free(&heap, next, 0, two - unit_taken(16), "the second of two neighbours");
    unit_free(&heap, first, 0, others, "the first one, which is merged with it");
    unit_free(&heap, next, MM_MISUSE_INTERIOR, others, "the second one, again: nothing begins there any more");
    unit_free(&heap, first, MM_MISUSE_DOUBLE_FREE, others, "the first one, again");
    unit_free(&heap, span, 0, 3 * MM_SEGMENT_BYTES, "a span");
    unit_free(&heap, run, 0, 0, "a run");
    mm_cpu_heap_drain_quiescent(&heap);
    unit_free(&heap, one, MM_MISUSE_NOT_ALLOCATED, 0, "of a segment that was given back");
}
END_TEST

START_TEST(two_frees_at_once) {
    static const uint32_t sizes[] = {1, 100, 3000};
    two_frees(sizes[_i], 100);
}
END_TEST

/* ---- NULL and giving back ---------------------------------------------------------------------- */

#define ALL (SEGMENTS * MM_RING_UNITS)
static uint8_t *all_held[ALL + 1];
static uint32_t take_all(void) {
    uint32_t n = 0;
    while (n <= ALL && (all_held[n] = take(1)) != NULL) n++;
    return n;
}
/* Every unit of the heap is handed out, then NULL; a unit that comes back is found. */
START_TEST(to_the_last_unit) {
    unit_eq(take_all(), ALL);
    unit_sound(&heap, (uint64_t)ALL << MM_RING_UNIT_SHIFT);
    for (uint32_t i = 0; i < 20; i++) {
        const uint32_t k = i * 7919 % ALL;
        mm_heap_free(ref, all_held[k]);
        unit_holds(take(MM_RING_UNIT_BYTES) == NULL, "two units where one is free");
        unit_holds(take(1) == all_held[k], "the one that came back");
        unit_holds(take(1) == NULL, "more than there is");
    }
    for (uint32_t i = 0; i < ALL; i++) mm_heap_free(ref, all_held[i]);
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* After small memory that was freed in the order of its addresses, so that free merged nothing, and in the other order, large memory is had: three quarters of
 * what fits at least, since callers begin anywhere. */
static int by_address(const void *a, const void *b) { return *(uint8_t *const *)a < *(uint8_t *const *)b ? -1 : 1; }
START_TEST(small_then_large) {
    const uint32_t n = take_all(), most = SEGMENTS * (uint32_t)(MM_SEGMENT_BYTES / unit_taken(MM_SMALL_BYTES_MAX));
    qsort(all_held, n, sizeof *all_held, by_address);
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, all_held[_i ? n - 1 - i : i]);
    unit_sound(&heap, 0);
    uint32_t got = 0;
    while ((all_held[got] = take(MM_SMALL_BYTES_MAX)) != NULL) got++;
    unit_holds(got >= most * 3 / 4, "%u of %u", got, most);
    for (uint32_t i = 0; i < got; i++) mm_heap_free(ref, all_held[i]);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Segments without live chunks serve spans and runs, and come back. */
START_TEST(segments_go_and_come) {
    for (int round = 0; round < 3; round++) {
        const uint32_t n = take_all();
        unit_eq(n, ALL);
        for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, all_held[i]);
        uint8_t *run = take((SEGMENTS - 1) * MM_SEGMENT_BYTES), *span = take(MM_SMALL_BYTES_MAX + 1);
        unit_holds(run != NULL && span != NULL, "round %d: NULL while all is free", round);
        void *const rest = take(256); /* a page of the span's segment */
        unit_holds(rest != NULL && mm_list_count(ref) == 0, "no more segments than there are");
        mm_heap_free(ref, rest);
        memset(run, 0xff, (SEGMENTS - 1) * MM_SEGMENT_BYTES);
        mm_heap_free(ref, run), mm_heap_free(ref, span);
    }
    unit_eq(mm_cpu_null_count(&heap) > 2, 1);
}
END_TEST

/* A caller that is on its way in a segment that leaves the list takes nothing there, whoever has the segment, and whatever it holds. */
static uint64_t late_got, late_at;
static void walk_late(void *arg) { (void)arg, late_got = mm_ring_walk(ref, 1, late_at, MM_RING_HOPS).got; }
START_TEST(walks_in_a_segment_that_left) {
    for (long steps = 0; steps < 40; steps++) {
        mm_list_add(ref, 1, MM_LISTED_ANY);
        const uint32_t s = mm_list_segment(ref, 0);
        late_at = (uint64_t)s * MM_RING_UNITS + (uint64_t)(steps * 997) % MM_RING_UNITS, late_got = 0;
        unit_actor_make(0, walk_late, NULL);
        unit_go(0, steps);
        if (!unit_actor[0].done && mm_segment_retire(ref, 1, s)) {
            uint8_t *run = take(SEGMENTS * MM_SEGMENT_BYTES);
            unit_holds(run != NULL, "all segments");
            memset(run, steps % 3 == 0 ? 0xff : steps % 3 == 1 ? 0x01 : 0x40, SEGMENTS * MM_SEGMENT_BYTES);
            while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
            unit_eq(late_got, 0);
            unit_sound(&heap, SEGMENTS * MM_SEGMENT_BYTES);
            mm_heap_free(ref, run);
        } else {
            while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
            if (late_got != 0) mm_heap_free(ref, (void *)late_got);
        }
        mm_cpu_heap_drain_quiescent(&heap);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ring");
    TCase *tests = tcase_create("ring");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, lives, 0, 4);
    tcase_add_loop_test(tests, two_frees_at_once, 0, 3);
    tcase_add_loop_test(tests, finds_the_first, 0, 8);
    tcase_add_loop_test(tests, small_then_large, 0, 2);
    const TTest *const all[] = {
        a_sweep_claims_what_it_found, a_new_segment, splits_and_merges, a_claim_while_a_merge, misuses, to_the_last_unit, segments_go_and_come,
        walks_in_a_segment_that_left};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    listed_tests(tests);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
