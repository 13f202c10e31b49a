/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* MM_TRACE: what is noted, and that the events of one address have the order of the calls. */
#include "tests/unit/jitter.h" /* first; threads meet between two accesses even on a busy machine */

#include <pthread.h>

#include "runtime/checked/closed.h"
#include "tests/unit/support.h"

#define SEGMENTS 24

static struct mm_cpu_heap heap;
static struct mm_heap_ref ref;
static struct mm_trace *trace;

static void set_up_with(uint64_t room) {
    ck_assert_int_eq(mm_cpu_heap_create(&heap, SEGMENTS, SEGMENTS, MM_SEGMENT_BYTES), 0);
    ref = heap.ref;
    ref.open_bytes = 0;
    trace = (struct mm_trace *)calloc(1, sizeof *trace + (room + 1) * sizeof *trace->events);
    trace->room = room;
    ref.trace = (uint64_t)(uintptr_t)trace;
}
static void tear_down(void) {
    free(trace);
    mm_cpu_heap_destroy(&heap);
}

/* Event n is this. */
static void is(uint64_t n, uint32_t kind, const void *p, uint64_t bytes, uint32_t align_shift) {
    const struct mm_trace_event *e = &trace->events[n];
    unit_eq(e->what & 0xff, kind);
    unit_eq(e->address, (uint64_t)(uintptr_t)p);
    unit_eq(e->bytes, bytes);
    unit_eq(e->what >> MM_TRACE_ALIGN_SHIFT & 0xff, align_shift);
    unit_eq(e->what >> MM_TRACE_GRID_SHIFT, mm_cpu_grid);
}

START_TEST(each_call) {
    set_up_with(100);
    mm_cpu_grid = 0xabcdef;
    void *a = mm_closed_malloc(&ref, 100), *b = mm_closed_aligned_malloc(&ref, 5000, 256), *c = mm_closed_malloc(&ref, 3 * MM_SEGMENT_BYTES);
    void *d = mm_closed_malloc(&ref, 0);
    ck_assert(a && b && c && d);
    ck_assert(mm_closed_malloc(&ref, 1ull << 63) == NULL && mm_closed_aligned_malloc(&ref, 100, 0) == NULL);
    mm_closed_free(&ref, b), mm_closed_free(&ref, NULL), mm_closed_free(&ref, c);
    is(0, MM_TRACE_MALLOC, a, 100, 0);
    is(1, MM_TRACE_MALLOC, b, 5000, 8);
    is(2, MM_TRACE_MALLOC, c, 3 * MM_SEGMENT_BYTES, 0);
    is(3, MM_TRACE_MALLOC, d, 0, 0);
    is(4, MM_TRACE_MALLOC, NULL, 1ull << 63, 0);
    is(5, MM_TRACE_MALLOC, NULL, 100, 0);
    is(6, MM_TRACE_FREE, b, 0, 0);
    is(7, MM_TRACE_FREE, c, 0, 0);
    unit_eq(trace->count, 8);
    mm_closed_free(&ref, a), mm_closed_free(&ref, d);
    unit_sound(&heap, 0);
    unit_eq(unit_misuses(&heap), 0);
    mm_cpu_grid = 0;
    tear_down();
}
END_TEST

/* What MM_FILL and MM_FAIL do, a traced run does, too. */
START_TEST(with_others) {
    set_up_with(100);
    ref.fill = MM_FILL_JUNK, ref.fail = MM_FAIL_NUMBER, mm_heap_of(&ref)->fail.number = 2;
    unsigned char *p = (unsigned char *)mm_closed_malloc(&ref, 100);
    ck_assert(p && p[0] == (MM_FILL_JUNK_WORD & 0xff) && p[99] == p[0]);
    ck_assert(mm_closed_aligned_malloc(&ref, 64, 64) == NULL);
    is(1, MM_TRACE_MALLOC, NULL, 64, 6);
    mm_closed_free(&ref, p);
    unit_eq(trace->count, 3);
    unit_sound(&heap, 0);
    tear_down();
}
END_TEST

/* What comes after the last place is counted only. */
START_TEST(full) {
    set_up_with(5);
    for (int i = 0; i < 10; i++) mm_closed_free(&ref, mm_closed_malloc(&ref, 64));
    unit_eq(trace->count, 20);
    unit_eq(trace->events[4].what & 0xff, MM_TRACE_MALLOC);
    unit_eq(trace->events[5].what, 0); /* behind the end */
    tear_down();
}
END_TEST

/* Four threads in a small heap, so that an address goes from one to another: of each address malloc and free alternate. */
#ifdef UNIT_FEW
#define ROUNDS 10000
#else
#define ROUNDS 50000
#endif
static void *work(void *seed_at) {
    uint64_t seed = *(uint64_t *)seed_at;
    void *held[8] = {NULL};
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t k = (uint32_t)(unit_random(&seed) % 8);
        mm_closed_free(&ref, held[k]);
        held[k] = mm_closed_malloc(&ref, 4000);
    }
    for (int k = 0; k < 8; k++) mm_closed_free(&ref, held[k]);
    return NULL;
}
START_TEST(order) {
    pthread_t thread[4];
    uint64_t seeds[4];
    set_up_with(4ull * 2 * ROUNDS);
    char *live = (char *)calloc(SEGMENTS * MM_SEGMENT_BYTES / 16, 1);
    for (int i = 0; i < 4; i++) seeds[i] = (uint64_t)i + 1, pthread_create(&thread[i], NULL, work, &seeds[i]);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    unit_eq(trace->count, 4ull * 2 * ROUNDS);
    for (uint64_t i = 0; i < trace->count; i++) {
        const struct mm_trace_event *e = &trace->events[i];
        const int is_malloc = (e->what & 0xff) == MM_TRACE_MALLOC;
        char *at = &live[(e->address - ref.user_base) / 16];
        unit_holds(e->address && *at == !is_malloc, "event %llu: %s of what is %s", (unsigned long long)i, is_malloc ? "malloc" : "free",
                   *at ? "live" : "free");
        *at = (char)is_malloc;
    }
    free(live);
    unit_sound(&heap, 0);
    tear_down();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("trace");
    TCase *tests = tcase_create("trace");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, each_call);
    tcase_add_test(tests, with_others);
    tcase_add_test(tests, full);
    tcase_add_test(tests, order);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
