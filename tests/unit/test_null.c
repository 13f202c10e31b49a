/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* When malloc returns NULL (shortage.h, malloc.h): not before everything has been searched; and how long that takes. */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define SEGMENTS 8

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    ref = &heap.ref;
    unit_home = 0;
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }
static void *take(uint32_t c) { return mm_heap_malloc(ref, mm_class_bytes(c)); }

#define MOST (SEGMENTS * 65536u)
static void *held[MOST + 1];
static uint32_t fill(uint32_t c) {
    uint32_t n = 0;
    while (n < MOST && (held[n] = take(c)) != NULL) n++;
    return n;
}

/* Every slice of the heap is handed out, for every class, one class after the other; and all of it is free again afterwards. */
START_TEST(to_the_last_slice) {
    for (uint32_t k = 0; k < MM_CLASS_COUNT; k++) {
        const uint32_t c = _i ? MM_CLASS_COUNT - 1 - k : k, all = SEGMENTS * unit_slices(c), n = fill(c);
        uint8_t *seen = (uint8_t *)calloc(SEGMENTS * MM_SEGMENT_BYTES / 16, 1);
        unit_holds(n == all, "class %u: %u slices of %u", c, n, all);
        for (uint32_t i = 0; i < n; i++) {
            uint8_t *at = &seen[((uint64_t)held[i] - ref->user_base) / 16];
            unit_holds(*at == 0, "class %u: a slice twice", c);
            *at = 1;
        }
        unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
        for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, held[(uint64_t)i * 7919 % n]), held[(uint64_t)i * 7919 % n] = NULL;
        for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, held[i]); /* the ones that steps of 7919 missed */
        free(seen);
        unit_eq(unit_misuses(&heap), 0);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Two classes share a heap to its last slice: what one frees in between serves the other, block by block. */
START_TEST(two_classes) {
    static const uint32_t sizes[][2] = {{64, 256}, {16, 65536}, {512, 48}, {4096, 640}, {1000, 1024}};
    const uint32_t c = mm_class_of(sizes[_i][0]), d = mm_class_of(sizes[_i][1]);
    const uint64_t block = MM_PAGE_BYTES << mm_class_page_shift(c), user = ref->user_base;
    uint64_t seed = 3;
    for (int round = 0; round < 4; round++) {
        uint32_t n = fill(c), rest = 0;
        unit_eq(n, SEGMENTS * unit_slices(c));
        uint8_t *goes = (uint8_t *)calloc(SEGMENTS * MM_SEGMENT_BYTES / block, 1);
        for (uint64_t b = 0; b < SEGMENTS * MM_SEGMENT_BYTES / block; b++) goes[b] = unit_random(&seed) % 2;
        uint64_t pages = 0;
        for (uint32_t i = 0; i < n; i++) {
            if (goes[((uint64_t)held[i] - user) / block]) mm_heap_free(ref, held[i]);
            else held[rest++] = held[i];
        }
        const uint32_t room = 1u << mm_class_page_shift(d);
        for (uint32_t at = 0; at < SEGMENTS * MM_SEGMENT_PAGES; at += room) { /* groups of pages that are freed completely */
            uint32_t k = 0;
            while (k < room && goes[((uint64_t)(at + k) << MM_PAGE_SHIFT) / block]) k++;
            pages += k == room ? room : 0;
        }
        const uint64_t others = pages / room * mm_class_slices(d);
        uint64_t got = 0;
        void *chain = NULL; /* each of the other slices holds the address of the one before */
        for (void *p; (p = take(d)) != NULL; got++) *(void **)p = chain, chain = p;
        unit_eq(got, others);
        while (chain != NULL) {
            void *next = *(void **)chain;
            mm_heap_free(ref, chain);
            chain = next;
        }
        for (uint32_t i = 0; i < rest; i++) mm_heap_free(ref, held[i]);
        free(goes);
        unit_eq(unit_misuses(&heap), 0);
        unit_sound(&heap, 0);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* NULL comes after a fixed number of rounds of retiring all that is free, and two complete sweeps of the class. */
START_TEST(what_comes_before_null) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c += 7) {
        const uint32_t n = fill(c);
        const uint64_t retired = mm_heap_of(ref)->giving_up / MM_FLIGHT_WORD_ONE, swept = mm_class_at(ref, c)->round / MM_FLIGHT_WORD_ONE;
        unit_holds(take(c) == NULL, "there is none");
        unit_eq(mm_heap_of(ref)->giving_up / MM_FLIGHT_WORD_ONE - retired, MM_NULL_TRIES);
        unit_eq(mm_class_at(ref, c)->round / MM_FLIGHT_WORD_ONE - swept, 2);
        unit_eq((mm_heap_of(ref)->giving_up | mm_class_at(ref, c)->round) & (MM_FLIGHT_WORD_BUSY | MM_FLIGHT_WORD_FOUND), 0);
        for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, held[i]);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* One round at a time; a caller that comes during a round waits for the next one, but not for the one after; and learns what that found. */
START_TEST(rounds) {
    uint64_t word = 0, a = 0, b = 0, c = 0, d = 0;
    unit_eq(mm_flight_begin(&word, &a), MM_FLIGHT_MINE);
    unit_eq(mm_flight_begin(&word, &b), MM_FLIGHT_WAIT);
    unit_eq(mm_flight_end(&word, 1), MM_FLIGHT_FOUND);
    unit_eq(mm_flight_begin(&word, &b), MM_FLIGHT_MINE); /* a's began before b came */
    unit_eq(mm_flight_begin(&word, &c), MM_FLIGHT_WAIT);
    unit_eq(mm_flight_begin(&word, &d), MM_FLIGHT_WAIT);
    unit_eq(mm_flight_end(&word, 0), MM_FLIGHT_NOTHING);
    unit_eq(mm_flight_begin(&word, &d), MM_FLIGHT_MINE);
    unit_eq(mm_flight_begin(&word, &c), MM_FLIGHT_WAIT);
    unit_eq(mm_flight_end(&word, 1), MM_FLIGHT_FOUND);
    unit_eq(mm_flight_begin(&word, &a), MM_FLIGHT_MINE);
    unit_eq(mm_flight_begin(&word, &c), MM_FLIGHT_FOUND); /* the result of d's, although a's has begun */
    unit_eq(mm_flight_begin(&word, &c), MM_FLIGHT_WAIT);
    unit_eq(mm_flight_end(&word, 0), MM_FLIGHT_NOTHING);
    unit_eq(mm_flight_begin(&word, &b), MM_FLIGHT_MINE); /* b has had its answer, and comes again */
    unit_eq(mm_flight_end(&word, 0), MM_FLIGHT_NOTHING);
    unit_eq(mm_flight_begin(&word, &c), MM_FLIGHT_NOTHING);
    unit_eq(a | b | c | d, 0);
}
END_TEST

/* A round that has found some memory so far says so to the waiters for it or the next, which go on waiting; the next round says so when it has, too. */
START_TEST(rounds_say_some) {
    uint64_t word = 0, a = 0, b = 0, c = 0;
    mm_flight_found_some(&word); /* no round is running */
    unit_eq(mm_flight_begin(&word, &a), MM_FLIGHT_MINE);
    unit_eq(mm_flight_begin(&word, &b), MM_FLIGHT_WAIT);
    mm_flight_found_some(&word);
    unit_eq(mm_flight_begin(&word, &b), MM_FLIGHT_SOME);
    unit_eq(mm_flight_begin(&word, &c), MM_FLIGHT_SOME);
    unit_eq(mm_flight_end(&word, 1), MM_FLIGHT_FOUND);
    unit_eq(mm_flight_begin(&word, &b), MM_FLIGHT_MINE);
    unit_eq(mm_flight_begin(&word, &c), MM_FLIGHT_WAIT);
    unit_eq(mm_flight_end(&word, 0), MM_FLIGHT_NOTHING);
    unit_eq(mm_flight_begin(&word, &c), MM_FLIGHT_NOTHING);
    unit_eq(a | b | c, 0);
}
END_TEST

/* A waiter for a round that finds some memory searches without limit: this is none of the searches that end in NULL. */
START_TEST(searches_while_some_are_found) {
    uint64_t *word = (uint64_t *)ref->giving_up, others = 0;
    struct mm_shortage s;
    uint32_t searches = 0;
    mm_shortage_end(&s);
    unit_eq(mm_shortage_step(ref, 1, SEGMENTS, &s), MM_SHORT_SOME);
    unit_eq(mm_flight_begin(word, &others), MM_FLIGHT_MINE);
    mm_flight_found_some(word);
    for (int i = 0; i < 100; i++) {
        const enum mm_short is = mm_shortage_step(ref, 1, SEGMENTS, &s);
        unit_holds(is == MM_SHORT_WAIT || is == MM_SHORT_SEARCH, "step %d: %d", i, is);
        searches += is == MM_SHORT_SEARCH;
    }
    unit_lt(2 * MM_NULL_TRIES, searches);
    mm_flight_end(word, 1);
}
END_TEST

/* A warp that found no pages searches again if others gave pages back, or are about to; a bounded number of times, and not once it has gone on. */
START_TEST(searches_while_others_give_back) {
    uint64_t *retired = &mm_heap_of(ref)->retired;
    struct mm_shortage s = MM_SHORTAGE_NONE;
    for (int i = 0; i < MM_SHORT_AGAIN; i++) {
        unit_eq(mm_shortage_step(ref, 1, SEGMENTS, &s), MM_SHORT_SOME);
        if (i % 2) ++*retired;
        else s.retired = ~0ull;
        unit_eq(mm_shortage_step(ref, 1, SEGMENTS, &s), MM_SHORT_SEARCH);
    }
    unit_eq(mm_shortage_step(ref, 1, SEGMENTS, &s), MM_SHORT_SOME);
    ++*retired;
    unit_eq(mm_shortage_step(ref, 1, SEGMENTS, &s), MM_SHORT_ALL);
    s.flight = mm_flight_end((uint64_t *)ref->giving_up, 0);
    mm_shortage_end(&s);
    unit_eq(mm_shortage_step(ref, 1, SEGMENTS, &s), MM_SHORT_SOME);
    unit_eq(mm_shortage_step(ref, 1, SEGMENTS, &s), MM_SHORT_ALL); /* nobody gave any back */
    mm_flight_end((uint64_t *)ref->giving_up, 0);
    mm_shortage_end(&s);
    s.has_looked = 1, s.growth.polls = 1; /* it has asked the host */
    ++*retired;
    unit_eq(mm_shortage_step(ref, 1, SEGMENTS, &s), MM_SHORT_ALL);
    mm_flight_end((uint64_t *)ref->giving_up, 0);
}
END_TEST

/* A round that never ends: waiting ends after a bound; then NULL. */
START_TEST(waiting_is_bounded) {
    const uint32_t c = mm_class_of(256), d = mm_class_of(48);
    fill(c);
    mm_heap_of(ref)->giving_up |= MM_FLIGHT_WORD_BUSY;
    unit_holds(take(c) == NULL, "there is none");
    mm_heap_of(ref)->giving_up &= ~MM_FLIGHT_WORD_BUSY;
    mm_class_at(ref, c)->round |= MM_FLIGHT_WORD_BUSY;
    unit_holds(take(c) == NULL, "there is none");
    mm_class_at(ref, c)->round &= ~MM_FLIGHT_WORD_BUSY;
    mm_heap_free(ref, held[5]);
    unit_holds(take(c) == held[5], "the one that has come back");
    unit_holds(take(d) == NULL, "there is none");
}
END_TEST

/* However long it waited for another caller's retiring, it sweeps its class. */
START_TEST(sweeps_after_a_long_wait) {
    const uint32_t c = mm_class_of(256);
    const uint32_t n = fill(c);
    mm_heap_of(ref)->giving_up |= MM_FLIGHT_WORD_BUSY;
    for (uint32_t i = 0; i < 4; i++) {
        void *one = held[n / 5 * (i + 1)];
        mm_heap_free(ref, one);
        unit_holds(take(c) == one, "the one that has come back");
    }
    mm_heap_of(ref)->giving_up &= ~MM_FLIGHT_WORD_BUSY;
}
END_TEST

static uint64_t steps, give_at;
static int given;
static uint32_t of_which;
static void give_at_step(void) {
    if (steps++ != give_at) return;
    unit_each_step = NULL;
    given = 1;
    mm_heap_free(ref, held[of_which]);
    unit_each_step = give_at_step;
}

/* Memory is freed at any step of a search that is about to find nothing: that search gets it, or the next one does. */
START_TEST(supply_in_the_middle_of_a_search) {
    const uint32_t c = mm_class_of(MM_SLICE_BYTES_MAX), n = fill(c);
    uint32_t nulls = 0, searches = 0;
    for (give_at = 0;; give_at += 1 + give_at / 64, searches++) {
        steps = 0, given = 0, of_which = searches * 7 % n;
        unit_each_step = give_at_step;
        void *p = take(c);
        unit_each_step = NULL;
        if (!given) break;
        nulls += p == NULL;
        if (p == NULL) p = take(c);
        unit_holds(p == held[of_which], "came back at step %u, still %p", (unsigned)give_at, p);
        unit_holds(take(c) == NULL, "more than there is");
    }
    unit_lt(30, searches);
    unit_holds(nulls * 3 < searches, "%u of %u NULL", nulls, searches);
}
END_TEST

/* A small version of mmbench's endurance: 512 MiB, three quarters of them requested in 28 classes (81 % with the rounding), from as many
 * multiprocessors as an H200 has; every round, half is freed and allocated anew. No NULL, and after two rounds hardly more segments from
 * round to round. */
START_TEST(three_quarters_live) {
    const uint32_t segments = 512, n = (uint32_t)(segments * MM_SEGMENT_BYTES / 4 * 3 / 2056);
    struct mm_cpu_heap large;
    void **held = (void **)calloc(n, sizeof *held);
    uint64_t seed = 1, live = 0, was_free = 0;
    unit_eq(mm_cpu_heap_create(&large, 8 * segments, segments, MM_SEGMENT_BYTES), 0); /* most of it is not mapped */
    for (int round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < n; i++) {
            if (round > 0 && unit_random(&seed) & 1) {
                mm_heap_free(&large.ref, held[i]);
                held[i] = NULL;
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            if (held[i] != NULL) continue;
            unit_home = i / 256 % 132;
            held[i] = mm_heap_malloc(&large.ref, 16 + unit_random(&seed) % 4081);
            unit_holds(held[i] != NULL, "NULL in round %d", round);
        }
        if (round > 2) unit_le(was_free, mm_cpu_heap_free_segments(&large) + segments / 32);
        was_free = mm_cpu_heap_free_segments(&large);
    }
    char why[200];
    const char *wrong = mm_cpu_heap_check_quiescent(&large, why, sizeof why, &live);
    unit_holds(wrong == NULL, "%s", wrong);
    unit_le(segments * MM_SEGMENT_BYTES / 4 * 3, live);
    for (uint32_t i = 0; i < n; i++) mm_heap_free(&large.ref, held[i]);
    unit_fresh(&large, segments);
    mm_cpu_heap_destroy(&large);
    free(held);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("null");
    TCase *tests = tcase_create("null");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, to_the_last_slice, 0, 2);
    tcase_add_loop_test(tests, two_classes, 0, 5);
    const TTest *const all[] = {what_comes_before_null,
                                rounds,
                                rounds_say_some,
                                searches_while_some_are_found,
                                searches_while_others_give_back,
                                waiting_is_bounded,
                                sweeps_after_a_long_wait,
                                supply_in_the_middle_of_a_search,
                                three_quarters_live};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
