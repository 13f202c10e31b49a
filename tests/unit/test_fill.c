/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* MM_FILL: malloc fills memory of every kind that it hands out; nothing else changes. */
#include <pthread.h>

#include "runtime/checked/closed.h"
#include "tests/unit/support.h"

#define SEGMENTS 24

static struct mm_cpu_heap heap;
static struct mm_heap_ref ref;

static void set_up_with(enum mm_fill fill, int is_checked) {
    ck_assert_int_eq(mm_cpu_heap_create(&heap, SEGMENTS, SEGMENTS, MM_SEGMENT_BYTES), 0);
    if (is_checked) mm_heap_image_guard(mm_heap_of(&heap.ref));
    heap.ref = mm_heap_of(&heap.ref)->ref;
    ref = heap.ref;
    if (is_checked) ref.guard = (uint64_t)(uintptr_t)calloc(1, mm_guard_bytes(SEGMENTS));
    ref.open_bytes = 0;
    ref.fill = fill;
}
static void tear_down(void) {
    free((void *)(uintptr_t)ref.guard);
    mm_cpu_heap_destroy(&heap);
}

/* Sizes of slices, with and without a remainder of 16 bytes, of spans and of runs. */
/* clang-format off */
static const uint64_t kinds_of_size[] = {0,    1,    7,    8,    9,     15,     16,    17,   24,     31,     32,    33, 40, 64, 100, 1000, 4096 - MM_GUARD_MORE,
                                         4096, 5000, 8191, 8192, 20001, 300001, MM_SLICE_BYTES_MAX, MM_SLICE_BYTES_MAX + 1, 3 * MM_SEGMENT_BYTES - 5};
/* clang-format on */
#define SIZES ((int)(sizeof kinds_of_size / sizeof *kinds_of_size))

/* Every byte of [p, p + n) is `byte`: compares the first one, then each with the one before it. */
static void all_are(const unsigned char *p, uint64_t n, unsigned byte) {
    if (n == 0 || (p[0] == byte && memcmp(p, p + 1, n - 1) == 0)) return;
    uint64_t k = 0;
    while (p[k] == byte) k++;
    ck_abort_msg("byte %llu of %llu is %02x, not %02x", (unsigned long long)k, (unsigned long long)n, p[k], byte);
}
static unsigned byte_of(enum mm_fill fill) { return fill == MM_FILL_JUNK ? MM_FILL_JUNK_WORD & 0xff : 0; }

/* Eight at a time, three times, so that memory with old bytes in it comes back; align 0: malloc. */
static void filled(uint64_t n, uint64_t align) {
    static unsigned char *held[8];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++) {
            unsigned char *p = held[i] = (unsigned char *)(align ? mm_closed_aligned_malloc(&ref, n, align) : mm_closed_malloc(&ref, n));
            if (p == NULL && n >= MM_SEGMENT_BYTES) continue; /* there is no room for eight */
            unit_holds(p != NULL, "no %llu bytes", (unsigned long long)n);
            ck_assert(align == 0 || (uintptr_t)p % align == 0);
            const uint64_t usable = mm_closed_usable_size(&ref, p);
            unit_le(n, usable);
            all_are(p, usable, byte_of((enum mm_fill)ref.fill));
            memset(p, 0x5a + i, usable);
        }
        for (int i = 0; i < 8; i++) {
            if (held[i]) all_are(held[i], mm_closed_usable_size(&ref, held[i]), 0x5a + (unsigned)i); /* no write into a neighbour */
            mm_closed_free(&ref, held[i]);
        }
        if (ref.guard) {
            while (mm_guard_empty(&ref)) continue; /* else quarantine keeps it */
        }
    }
    unit_eq(unit_misuses(&heap), 0);
    unit_sound(&heap, 0);
}

START_TEST(every_size) {
    for (int is_checked = 0; is_checked < 2; is_checked++)
        for (int fill = MM_FILL_ZERO; fill <= MM_FILL_JUNK; fill++) {
            set_up_with((enum mm_fill)fill, is_checked);
            filled(kinds_of_size[_i], 0);
            tear_down();
        }
}
END_TEST

START_TEST(every_alignment) {
    for (int is_checked = 0; is_checked < 2; is_checked++)
        for (int fill = MM_FILL_ZERO; fill <= MM_FILL_JUNK; fill++) {
            set_up_with((enum mm_fill)fill, is_checked);
            for (uint64_t align = 1; align <= 2 * MM_SEGMENT_BYTES; align *= 8) filled(kinds_of_size[3 * _i], align);
            tear_down();
        }
}
END_TEST

/* A checked run that does not fill leaves the memory as it was, except for poison and redzone. */
START_TEST(checked_and_unfilled) {
    set_up_with(MM_FILL_NONE, 1);
    unsigned char *p = (unsigned char *)mm_closed_malloc(&ref, 1000);
    memset(p, 0x5a, 1000);
    mm_closed_free(&ref, p);
    while (mm_guard_empty(&ref)) continue;
    unsigned char *q = NULL;
    for (int i = 0; i < 100000 && q != p; i++) q = (unsigned char *)mm_closed_malloc(&ref, 1000);
    ck_assert_msg(q == p, "it did not come back");
    all_are(p + MM_GUARD_BYTES, 1000 / 16 * 16 - MM_GUARD_BYTES, 0x5a);
    tear_down();
}
END_TEST

/* NULL, misuse of free and usable sizes behave as in an open heap. */
START_TEST(misuse) {
    set_up_with(MM_FILL_JUNK, 0);
    char here[64];
    ck_assert(mm_closed_malloc(&ref, ~0ull) == NULL && mm_closed_malloc(&ref, (SEGMENTS + 1) * MM_SEGMENT_BYTES) == NULL);
    ck_assert(mm_closed_aligned_malloc(&ref, 100, 0) == NULL && mm_closed_aligned_malloc(&ref, 100, 24) == NULL);
    unit_eq(mm_cpu_null_count(&heap), 2);
    mm_closed_free(&ref, NULL);
    unit_eq(unit_misuses(&heap), 0);
    char *p = (char *)mm_closed_malloc(&ref, 100), *keeps_the_block = (char *)mm_closed_malloc(&ref, 100);
    char *run = (char *)mm_closed_malloc(&ref, 3 * MM_SEGMENT_BYTES);
    unit_eq(mm_closed_usable_size(&ref, run), 3 * MM_SEGMENT_BYTES);
    unit_eq(mm_closed_usable_size(&ref, run + 16), 0);
    mm_closed_free(&ref, here);
    unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_FOREIGN), 1);
    mm_closed_free(&ref, keeps_the_block + 1);
    unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_INTERIOR), 1);
    mm_closed_free(&ref, p), mm_closed_free(&ref, p);
    unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_DOUBLE_FREE), 1);
    mm_closed_free(&ref, run), mm_closed_free(&ref, run);
    unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_NOT_ALLOCATED), 1);
    mm_closed_free(&ref, keeps_the_block);
    unit_eq(unit_misuses(&heap), 4);
    unit_sound(&heap, 0);
    tear_down();
}
END_TEST

#ifdef UNIT_FEW
#define ROUNDS 3000
#else
#define ROUNDS 20000
#endif
/* Each thread finds its memory filled, writes to all of it, and later finds its own bytes there. */
static void *work(void *seed_at) {
    uint64_t seed = *(uint64_t *)seed_at;
    unsigned char *held[32] = {NULL};
    uint64_t bytes[32];
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t k = (uint32_t)(unit_random(&seed) % 32);
        if (held[k]) {
            all_are(held[k], bytes[k], k + 1);
            mm_closed_free(&ref, held[k]);
            held[k] = NULL;
        } else {
            held[k] = (unsigned char *)mm_closed_malloc(&ref, 1 + unit_random(&seed) % (unit_random(&seed) % 50 ? 700 : 20000));
            bytes[k] = held[k] ? mm_closed_usable_size(&ref, held[k]) : 0;
            all_are(held[k], bytes[k], byte_of(MM_FILL_JUNK));
            if (held[k]) memset(held[k], (int)k + 1, bytes[k]);
        }
    }
    for (int k = 0; k < 32; k++) mm_closed_free(&ref, held[k]);
    return NULL;
}
START_TEST(threads) {
    pthread_t thread[4];
    uint64_t seeds[4];
    set_up_with(MM_FILL_JUNK, _i);
    for (int i = 0; i < 4; i++) seeds[i] = (uint64_t)i + 1, pthread_create(&thread[i], NULL, work, &seeds[i]);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    while (ref.guard && mm_guard_empty(&ref)) continue;
    unit_eq(unit_misuses(&heap), 0);
    unit_sound(&heap, 0);
    tear_down();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fill");
    TCase *tests = tcase_create("fill");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, every_size, 0, SIZES);
    tcase_add_loop_test(tests, every_alignment, 0, SIZES / 3);
    tcase_add_test(tests, checked_and_unfilled);
    tcase_add_test(tests, misuse);
    tcase_add_loop_test(tests, threads, 0, 2);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
