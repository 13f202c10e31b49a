/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reports of misuse: each kind, for slices, spans and runs, with address and size; only the first ones; and with reports off. */
#include <pthread.h>
#include <signal.h>

#include "tests/unit/support.h"

#define SEGMENTS 8
#define LARGE (3 * MM_SEGMENT_BYTES)

static struct mm_cpu_heap heap;
static struct mm_mailbox box;

/* A mailbox that no host answers: requests do not use it. */
static void telling_free(void *p) {
    struct mm_cpu_heap told = heap;
    told.ref.mailbox = (uint64_t)(uintptr_t)&box;
    mm_cpu_free(&told, p);
}

static void set_up(void) {
    ck_assert_int_eq(mm_cpu_heap_create(&heap, SEGMENTS, SEGMENTS, MM_SEGMENT_BYTES), 0);
    memset(&box, 0, sizeof box);
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static uint32_t reports(void) {
    uint32_t n = 0;
    while (n < MM_REPORTS && box.reports[n].number != 0) n++;
    for (uint32_t i = n; i < MM_REPORTS; i++) unit_eq(box.reports[i].number, 0);
    return n;
}

/* Frees p: adds exactly this report. */
static void told(void *p, enum mm_misuse kind, uint64_t bytes, const char *what) {
    const uint32_t n = reports();
    const uint64_t counted = mm_cpu_misuse_count(&heap, kind), all = unit_misuses(&heap);
    telling_free(p);
    unit_holds(reports() == n + 1, "%s: %u reports, not one", what, reports() - n);
    const struct mm_report *r = &box.reports[n];
    unit_holds(r->number == n + 1 && r->kind == (uint32_t)kind && r->address == (uint64_t)(uintptr_t)p && r->bytes == bytes && !r->is_of_warp,
               "%s: number %llu, kind %u, %#llx, %llu bytes", what, (unsigned long long)r->number, r->kind, (unsigned long long)r->address,
               (unsigned long long)r->bytes);
    unit_holds(r->thread[0] == mm_home() && (r->thread[1] | r->thread[2] | r->block[0] | r->block[1] | r->block[2]) == 0, "%s: by %u", what, r->thread[0]);
    unit_holds(mm_cpu_misuse_count(&heap, kind) == counted + 1 && unit_misuses(&heap) == all + 1, "%s: not counted once", what);
}

START_TEST(of_slices) {
    const uint32_t c = (uint32_t)_i * 7, bytes = mm_class_bytes(c);
    char *before = (char *)mm_cpu_malloc(&heap, bytes), *p = (char *)mm_cpu_malloc(&heap, bytes), *q = (char *)mm_cpu_malloc(&heap, bytes);
    ck_assert(before && p && q);
    told(p + 1, MM_MISUSE_INTERIOR, bytes, "a slice's middle");
    told(q + bytes - 1, MM_MISUSE_INTERIOR, bytes, "a slice's end");
    const uint64_t block = MM_PAGE_BYTES << mm_class_page_shift(c);
    char *first = (char *)(uintptr_t)heap.ref.user_base + (uint64_t)(p - (char *)(uintptr_t)heap.ref.user_base) / block * block;
    char *last = first + (uint64_t)(mm_class_slices(c) - 1) * bytes;
    if (last != p && last != q && last != before) told(last, MM_MISUSE_DOUBLE_FREE, bytes, "the block's last slice");
    if (block % bytes >= 16) told(last + bytes, MM_MISUSE_NEVER, bytes, "behind the last slice");
    telling_free(p);
    told(p, MM_MISUSE_DOUBLE_FREE, bytes, "a slice again");
    told(p, MM_MISUSE_DOUBLE_FREE, bytes, "and again");
    telling_free(q), telling_free(before);
    unit_fresh(&heap, SEGMENTS);
    told(p, MM_MISUSE_NOT_ALLOCATED, 0, "a slice of a block that is gone");
}
END_TEST

START_TEST(of_what_is_free_and_of_runs) {
    char *p = (char *)mm_cpu_malloc(&heap, LARGE), *user = (char *)(uintptr_t)heap.ref.user_base;
    ck_assert(p == user + (SEGMENTS - 3) * MM_SEGMENT_BYTES);
    told(p + 16, MM_MISUSE_INTERIOR, LARGE, "a run's first segment");
    told(p + MM_SEGMENT_BYTES, MM_MISUSE_INTERIOR, 0, "a run's second segment");
    told(user, MM_MISUSE_NOT_ALLOCATED, 0, "a free segment");
    told(user + MM_SEGMENT_BYTES + 48, MM_MISUSE_NOT_ALLOCATED, 0, "the middle of one");
    telling_free(p);
    told(p, MM_MISUSE_NOT_ALLOCATED, 0, "a run again");
    unit_eq(reports(), 5);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(of_spans) {
    const uint64_t bytes = 10 * MM_PAGE_BYTES;
    char *p = (char *)mm_cpu_malloc(&heap, bytes);
    told(p + 16, MM_MISUSE_INTERIOR, bytes, "a span's first page");
    told(p + MM_PAGE_BYTES, MM_MISUSE_INTERIOR, 0, "a span's second page");
    telling_free(p);
    told(p, MM_MISUSE_NOT_ALLOCATED, 0, "a span again");
    unit_eq(reports(), 3);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(of_foreign_pointers) {
    char *user = (char *)(uintptr_t)heap.ref.user_base;
    const uint64_t odd[] = {1,
                            16,
                            0x7fffffffffffull,
                            0xdeadbeefdeadbeefull,
                            ~0ull,
                            ~0ull << 62,
                            1ull << 63,
                            1ull << 63 | (uint64_t)(uintptr_t)user,
                            1ull << 62 | (uint64_t)(uintptr_t)user,
                            (uint64_t)(uintptr_t)&box,
                            (uint64_t)(uintptr_t)user - 1,
                            (uint64_t)(uintptr_t)user + heap.ref.user_bytes};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) told((void *)(uintptr_t)odd[i], MM_MISUSE_FOREIGN, 0, "a foreign pointer");
    telling_free(NULL);
    unit_eq(reports(), sizeof odd / sizeof *odd);
}
END_TEST

START_TEST(the_first_ones_only) {
    int here;
    for (uint32_t i = 0; i < 3 * MM_REPORTS; i++) telling_free((char *)&here + i);
    unit_eq(reports(), MM_REPORTS);
    for (uint32_t i = 0; i < MM_REPORTS; i++) unit_eq(box.reports[i].address, (uint64_t)(uintptr_t)((char *)&here + i));
    unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_FOREIGN), 3 * MM_REPORTS);
}
END_TEST

START_TEST(ignored) {
    int here;
    heap.ref.on_misuse = MM_ON_MISUSE_IGNORE;
    for (uint32_t i = 0; i < 3; i++) telling_free(&here);
    unit_eq(reports(), 0);
    unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_FOREIGN), 3);
    heap.ref.on_misuse = MM_ON_MISUSE_REPORT;
    told(&here, MM_MISUSE_FOREIGN, 0, "not ignored any more");
}
END_TEST

/* The report is complete before the process ends. */
static void trapped(int signal) {
    (void)signal;
    _exit(reports() == 1 && box.reports[0].kind == MM_MISUSE_FOREIGN && unit_misuses(&heap) == 1 ? 3 : 4);
}
START_TEST(trap) {
    int here;
    heap.ref.on_misuse = MM_ON_MISUSE_TRAP;
    signal(SIGILL, trapped), signal(SIGTRAP, trapped);
    telling_free(mm_cpu_malloc(&heap, 100)), telling_free(NULL); /* none */
    telling_free(&here);
}
END_TEST

#define OFTEN 20000
static void *free_often(void *first) {
    for (int i = 0; i < OFTEN; i++) telling_free((char *)first + i % 128);
    return NULL;
}
START_TEST(of_many_at_once) {
    enum { THREADS = 8 };
    static char there[THREADS][128];
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_create(&thread[i], NULL, free_often, there[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    unit_eq(reports(), MM_REPORTS);
    for (uint32_t i = 0; i < MM_REPORTS; i++) {
        const struct mm_report *r = &box.reports[i];
        unit_eq(r->number, i + 1);
        unit_holds(r->kind == MM_MISUSE_FOREIGN && r->address - (uint64_t)(uintptr_t)there < sizeof there, "report %u is of %#llx", i,
                   (unsigned long long)r->address);
    }
    unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_FOREIGN), THREADS * OFTEN);
    unit_eq(mm_heap_of(&heap.ref)->reports, THREADS * OFTEN);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("report");
    TCase *tests = tcase_create("report");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, of_slices, 0, (MM_CLASS_COUNT + 6) / 7);
    tcase_add_test(tests, of_what_is_free_and_of_runs);
    tcase_add_test(tests, of_spans);
    tcase_add_test(tests, of_foreign_pointers);
    tcase_add_test(tests, the_first_ones_only);
    tcase_add_test(tests, ignored);
    tcase_add_exit_test(tests, trap, 3);
    tcase_add_test(tests, of_many_at_once);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
