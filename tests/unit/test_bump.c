/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* AtomicMalloc and AWMalloc (runtime/regeff/bump.h): all of the heap once, in order, and what follows then. */
#include <pthread.h>

#include "tests/unit/steps.h"

#include "tests/unit/eight.h"

#define ALL (SEGMENTS << (MM_SEGMENT_SHIFT - MM_ALIGN_SHIFT))
/* 16 bytes each, one behind the other; free changes nothing. Then NULL, or all of it again. */
START_TEST(all_of_the_heap) {
    uint8_t *last = NULL;
    uint32_t jumps = 0;
    for (uint32_t i = 0; i < ALL; i++) {
        uint8_t *p = take(i % 17);
        unit_holds(p != NULL, "%u of %u", i, ALL);
        jumps += p != last + 16;
        last = p;
        mm_heap_free(ref, p);
        mm_heap_free(ref, p);
    }
    unit_le(jumps, SEGMENTS);
    unit_eq(unit_misuses(&heap), 0);
    unit_sound(&heap, 0);
    const int is_aw = MM_REGEFF_FACE == MM_REGEFF_AW;
    last = NULL;
    for (int i = 0; i < 3; i++) {
        uint8_t *p = take(16);
        unit_eq(p != NULL, is_aw);
        if (is_aw && i > 0) unit_holds(p == last + 16, "it began anew twice");
        last = p;
    }
    if (is_aw) { /* callers that all found the end */
        const uint64_t first = mm_listed_claim(ref, 0, 1);
        unit_eq(mm_listed_claim(ref, 0, 1), first + 16);
    }
    unit_eq(mm_cpu_null_count(&heap), is_aw ? 0 : 3);
    unit_eq(take(MM_SMALL_BYTES_MAX) != NULL, is_aw);
}
END_TEST

/* No request goes beyond the heap; larger ones are spans and runs, which are freed. */
START_TEST(sizes) {
    uint64_t seed = 1;
    for (int i = 0; i < 200; i++) {
        const uint64_t bytes = unit_random(&seed) % (MM_SMALL_BYTES_MAX + 1);
        uint8_t *p = take(bytes);
        if (p == NULL) break;
        unit_eq((uint64_t)p % 16, 0);
        unit_le((uint64_t)p + bytes - ref->user_base, SEGMENTS * MM_SEGMENT_BYTES);
        unit_eq(mm_heap_usable_size(ref, p), 0);
    }
    tear_down(), set_up();
    uint8_t *small = take(100), *span = take(MM_SMALL_BYTES_MAX + 1), *run = take(3 * MM_SEGMENT_BYTES);
    unit_holds(small != NULL && span != NULL && run != NULL, "one of each");
    unit_free(&heap, span, 0, 3 * MM_SEGMENT_BYTES, "a span");
    unit_free(&heap, span, MM_MISUSE_NOT_ALLOCATED, 3 * MM_SEGMENT_BYTES, "a span, again");
    unit_free(&heap, run, 0, 0, "a run");
    unit_free(&heap, small + 1, MM_MISUSE_INTERIOR, 0, "not aligned");
    unit_free(&heap, &heap, MM_MISUSE_FOREIGN, 0, "a variable");
    mm_cpu_heap_drain_quiescent(&heap);
    unit_holds(take(100) == small + 112, "its segment has stayed");
}
END_TEST

/* Two requests for the last bytes of a segment, one at each step of the other: they get different memory, none of it across the end. */
static uint8_t *first_got, *second_got;
static void at_the_end(void) {
    tear_down(), set_up();
    mm_list_add(ref, 1, MM_LISTED_ANY), mm_list_add(ref, 1, MM_LISTED_ANY);
    *mm_bump_word(ref) = MM_SEGMENT_BYTES - 64;
}
static void take_first(void) { first_got = take(48); }
static void take_second(void) { second_got = take(48); }
static void look(void) {
    const uint64_t a = (uint64_t)first_got - ref->user_base, b = (uint64_t)second_got - ref->user_base;
    unit_holds(a + 48 <= b || b + 48 <= a, "the same memory: %llu, %llu", (unsigned long long)a, (unsigned long long)b);
    unit_eq(a / MM_SEGMENT_BYTES, (a + 47) / MM_SEGMENT_BYTES);
    unit_eq(b / MM_SEGMENT_BYTES, (b + 47) / MM_SEGMENT_BYTES);
}
START_TEST(at_a_segments_end) { unit_lt(3, unit_at_each_step(at_the_end, take_first, take_second, look)); }
END_TEST

/* Threads together get all of the heap, each byte once. */
#define THREADS 8
static uint32_t owners[ALL];
static void *take_all(void *arg) {
    uint64_t seed = (uint64_t)(uintptr_t)arg, bytes = 0;
    for (uint32_t misses = 0; misses < 3 && bytes < 2 * SEGMENTS * MM_SEGMENT_BYTES;) {
        const uint64_t n = 1 + unit_random(&seed) % 512, at = (uint64_t)take(n) - ref->user_base;
        if (at > SEGMENTS * MM_SEGMENT_BYTES) {
            misses++;
            continue;
        }
        bytes += n;
        for (uint64_t i = 0; i < (n + 15) / 16; i++) __atomic_fetch_add(&owners[at / 16 + i], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}
START_TEST(threads) {
    pthread_t thread[THREADS];
    uint64_t had = 0;
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, take_all, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < ALL; i++) {
        had += owners[i] != 0;
        if (MM_REGEFF_FACE == MM_REGEFF_ATOMIC) unit_le(owners[i], 1);
    }
    unit_holds((double)had > 0.98 * ALL, "%llu of %u", (unsigned long long)had, ALL);
    unit_sound(&heap, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("bump");
    TCase *tests = tcase_create("bump");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {all_of_the_heap, sizes, at_a_segments_end, threads};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
