/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The heap as users see it: every size, every alignment, misuse, NULL. */
#include "tests/unit/support.h"

#define SEGMENTS 70         /* one for each class, and some more */
#define PLACE MM_PAGE_BYTES /* offset in a segment: its second page */

static struct mm_cpu_heap heap;
static char *user;

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    user = (char *)(uintptr_t)heap.ref.user_base;
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static int inside(const void *p, uint64_t bytes) {
    const uint64_t off = (uint64_t)(uintptr_t)p - heap.ref.user_base;
    return off < heap.ref.user_bytes && bytes <= heap.ref.user_bytes - off;
}

START_TEST(every_size) {
    for (uint64_t bytes = 0; bytes <= 1u << 16; bytes++) {
        void *p = mm_cpu_malloc(&heap, bytes), *q = mm_cpu_malloc(&heap, bytes);
        unit_holds(p && inside(p, bytes) && q && inside(q, bytes), "%llu bytes at %p and %p", (unsigned long long)bytes, p, q);
        unit_holds((uintptr_t)p % 16 == 0 && (uintptr_t)q % 16 == 0, "%llu bytes not aligned", (unsigned long long)bytes);
        const uint64_t apart = (uint64_t)(p < q ? (char *)q - (char *)p : (char *)p - (char *)q);
        unit_holds(apart >= bytes && apart > 0, "%llu bytes overlap", (unsigned long long)bytes);
        mm_cpu_free(&heap, p), mm_cpu_free(&heap, q);
    }
    for (uint64_t bytes = 1u << 16; bytes <= SEGMENTS * MM_SEGMENT_BYTES; bytes += bytes / 4099 + 1) {
        void *p = mm_cpu_malloc(&heap, bytes); /* classes hold blocks open, so drain for the largest */
        if (p == NULL) mm_cpu_heap_drain_quiescent(&heap), p = mm_cpu_malloc(&heap, bytes);
        unit_holds(p && inside(p, bytes), "%llu bytes at %p", (unsigned long long)bytes, p);
        unit_eq((uintptr_t)p % 16, 0);
        mm_cpu_free(&heap, p);
    }
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
    unit_holds(mm_cpu_malloc(&heap, SEGMENTS * MM_SEGMENT_BYTES + 1) == NULL, "more than the heap");
}
END_TEST

/* With a spacing, requests get slices of its multiples, large enough, and of the smallest such class. */
START_TEST(spacing) {
    for (uint64_t apart = 16; apart <= MM_SPACING_MAX; apart *= 2) {
        heap.ref.spacing_mask = apart - 1;
        for (uint64_t bytes = 0; bytes <= MM_SLICE_BYTES_MAX; bytes += bytes < 4096 ? 1 : bytes / 31) {
            void *p = mm_cpu_malloc(&heap, bytes), *q = mm_cpu_malloc(&heap, bytes);
            unit_holds(p && q, "%llu bytes: NULL", (unsigned long long)bytes);
            unit_eq((uintptr_t)p % apart, 0);
            unit_eq((uintptr_t)q % apart, 0);
            mm_cpu_free(&heap, p), mm_cpu_free(&heap, q);
            const uint64_t most = mm_round_up(bytes ? bytes : 1, apart);
            const uint32_t c = mm_class_spaced((uint32_t)bytes, (uint32_t)(apart - 1));
            unit_eq(c, mm_class_of((uint32_t)most));
            unit_eq(mm_class_bytes(c) % apart, 0);
            void *r = mm_cpu_aligned_malloc(&heap, bytes, 64);
            unit_eq((uintptr_t)r % 64, 0);
            mm_cpu_free(&heap, r);
        }
        unit_sound(&heap, 0);
    }
    unit_eq(unit_misuses(&heap), 0);
}
END_TEST

/* The first and last byte of each allocation are its own. */
START_TEST(payload_is_ones_own) {
    static unsigned char *held[4000];
    static uint32_t size[4000];
    uint64_t seed = 7;
    for (uint32_t i = 0; i < 4000; i++) {
        size[i] = 1 + (uint32_t)(unit_random(&seed) % (1u << unit_random(&seed) % 16));
        held[i] = (unsigned char *)mm_cpu_malloc(&heap, size[i]);
        unit_holds(held[i] != NULL, "NULL");
        memset(held[i], (int)(i % 251), size[i]);
    }
    for (uint32_t i = 0; i < 4000; i++) {
        for (uint32_t k = 0; k < size[i]; k++) unit_holds(held[i][k] == i % 251, "%u bytes written over", size[i]);
        mm_cpu_free(&heap, held[i]);
    }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(every_alignment) {
    for (uint64_t align = 1; align <= SEGMENTS * MM_SEGMENT_BYTES; align *= 2) {
        const uint64_t sizes[] = {1, 16, 17, 80, align / 2 + 1, align - 1, align, align + 1, align / 4 * 5, 3 * align};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            void *p = mm_cpu_aligned_malloc(&heap, sizes[i], align), *q = mm_cpu_aligned_malloc(&heap, sizes[i], align);
            if (align <= MM_SLICE_BYTES_MAX) unit_holds(p && q, "%llu bytes aligned to %llu: NULL", (unsigned long long)sizes[i], (unsigned long long)align);
            unit_holds((uintptr_t)p % align == 0 && (uintptr_t)q % align == 0, "not aligned to %llu", (unsigned long long)align);
            unit_holds(p == NULL || (p != q && inside(p, sizes[i])), "%llu bytes at %p", (unsigned long long)sizes[i], p);
            mm_cpu_free(&heap, p), mm_cpu_free(&heap, q);
        }
        if (align < MM_SEGMENT_BYTES) { /* larger ones: test_run */
            void *p = mm_cpu_aligned_malloc(&heap, 0, align), *q = mm_cpu_aligned_malloc(&heap, 0, align);
            unit_holds(p && p != q && (uintptr_t)p % align == 0, "0 bytes aligned to %llu", (unsigned long long)align);
            mm_cpu_free(&heap, p), mm_cpu_free(&heap, q);
        }
        mm_cpu_heap_drain_quiescent(&heap);
    }
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(alignment_that_is_none) {
    static const uint64_t align[] = {0, 3, 24, 4097, (1u << 22) + 1, ~0ull};
    for (int i = 0; i < 6; i++) unit_holds(mm_cpu_aligned_malloc(&heap, 16, align[i]) == NULL, "aligned to %llu", (unsigned long long)align[i]);
    unit_holds(mm_cpu_aligned_malloc(&heap, 16, 1ull << 63) == NULL, "aligned to 2^63");
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* The usable size is everything up to the next allocation, and free takes all of it; no misuse is counted. */
START_TEST(usable_size_of_slices) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const uint64_t bytes = mm_class_bytes(c), less = c == 0 ? 0 : mm_class_bytes(c - 1) + 1;
        char *p = (char *)mm_cpu_malloc(&heap, bytes), *q = (char *)mm_cpu_malloc(&heap, less);
        unit_eq(mm_cpu_usable_size(&heap, p), bytes);
        unit_eq(mm_cpu_usable_size(&heap, q), bytes);
        unit_eq(mm_cpu_usable_size(&heap, p + 1), 0);
        unit_eq(mm_cpu_usable_size(&heap, p + bytes - 1), 0);
        memset(p, 1, bytes), memset(q, 2, bytes);
        unit_holds(p[bytes - 1] == 1 && *q == 2 && q[bytes - 1] == 2, "%llu bytes overlap", (unsigned long long)bytes);
        mm_cpu_free(&heap, p);
        unit_eq(mm_cpu_usable_size(&heap, p), 0); /* freed; the other is not */
        unit_eq(mm_cpu_usable_size(&heap, q), bytes);
        mm_cpu_free(&heap, q);
        unit_eq(mm_cpu_usable_size(&heap, q), 0);
    }
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* One by one, until blocks are fully handed out, and used again. */
START_TEST(usable_size_of_many) {
    static char *held[30000];
    uint64_t seed = 11;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 30000; i++)
            if (!held[i]) held[i] = (char *)mm_cpu_malloc(&heap, i % 2 ? 64 : 1000);
        for (int i = 0; i < 30000; i++) {
            const uint64_t bytes = mm_class_bytes(mm_class_of(i % 2 ? 64 : 1000));
            unit_eq(mm_cpu_usable_size(&heap, held[i]), bytes);
            unit_eq(mm_cpu_usable_size(&heap, held[i] + 16), 0);
        }
        for (int i = 0; i < 30000; i++) {
            if (unit_random(&seed) % 3 == 0 && round < 2) continue;
            mm_cpu_free(&heap, held[i]);
            unit_eq(mm_cpu_usable_size(&heap, held[i]), 0);
            held[i] = NULL;
        }
    }
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(usable_size_of_runs_and_aligned) {
    for (uint64_t bytes = MM_SLICE_BYTES_MAX + 1; bytes <= 60 * MM_SEGMENT_BYTES; bytes = bytes * 6 / 5) {
        char *p = (char *)mm_cpu_malloc(&heap, bytes);
        unit_eq(mm_cpu_usable_size(&heap, p), unit_taken(bytes));
        unit_eq(mm_cpu_usable_size(&heap, p + 16), 0);
        unit_eq(mm_cpu_usable_size(&heap, p + MM_SEGMENT_BYTES), 0); /* its body, or an unowned segment */
        mm_cpu_free(&heap, p);
        unit_eq(mm_cpu_usable_size(&heap, p), 0);
    }
    for (uint64_t align = 16; align <= 4 * MM_SEGMENT_BYTES; align *= 2)
        for (uint64_t bytes = 0; bytes <= 2 * align; bytes += align / 2 + 3) {
            void *p = mm_cpu_aligned_malloc(&heap, bytes, align);
            unit_holds(p && mm_cpu_usable_size(&heap, p) >= bytes && mm_cpu_usable_size(&heap, p) >= 16, "%llu aligned to %llu", (unsigned long long)bytes,
                       (unsigned long long)align);
            mm_cpu_free(&heap, p);
            unit_eq(mm_cpu_usable_size(&heap, p), 0);
        }
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(usable_size_of_nothing) {
    static char here[64];
    char *end = user + SEGMENTS * MM_SEGMENT_BYTES, *p = (char *)mm_cpu_malloc(&heap, 32);
    unit_eq(mm_cpu_usable_size(&heap, NULL), 0);
    unit_eq(mm_cpu_usable_size(&heap, here), 0);
    unit_eq(mm_cpu_usable_size(&heap, user - 16), 0);
    unit_eq(mm_cpu_usable_size(&heap, end), 0);
    unit_eq(mm_cpu_usable_size(&heap, (void *)~(uintptr_t)0), 0);
    unit_eq(mm_cpu_usable_size(&heap, p + 32), 0);                               /* never handed out */
    unit_eq(mm_cpu_usable_size(&heap, p + MM_SEGMENT_BYTES - MM_PAGE_BYTES), 0); /* an unowned page, or a free slice */
    unit_eq(mm_cpu_usable_size(&heap, end - MM_SEGMENT_BYTES), 0);               /* an unowned segment */
    char *last = (char *)mm_cpu_malloc(&heap, 1000);
    const uint64_t page = (uint64_t)(last - user) & ~((2 * MM_PAGE_BYTES) - 1);
    unit_eq(mm_cpu_usable_size(&heap, user + page + 2 * MM_PAGE_BYTES / 1024 * 1024 - 1024 + 1024 % 896), 0); /* the middle of a slice, or after the last one */
    mm_cpu_free(&heap, p), mm_cpu_free(&heap, last);
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(no_bytes) {
    static void *held[5000];
    char *seen = (char *)calloc(1, MM_SEGMENT_BYTES);
    for (int i = 0; i < 5000; i++) {
        held[i] = mm_cpu_malloc(&heap, 0);
        unit_holds(held[i] && !seen[(char *)held[i] - user], "malloc(0) is not unique");
        seen[(char *)held[i] - user] = 1;
    }
    for (int i = 0; i < 5000; i++) mm_cpu_free(&heap, held[i]);
    unit_fresh(&heap, SEGMENTS);
    free(seen);
}
END_TEST

START_TEST(null_and_foreign_pointers) {
    static char here[64];
    void *p = mm_cpu_malloc(&heap, 16);
    char *end = user + SEGMENTS * MM_SEGMENT_BYTES;
    void *const foreign[] = {here, user - 1, user - MM_SEGMENT_BYTES, end, end + MM_SEGMENT_BYTES, (void *)1, (void *)~(uintptr_t)0};
    uint8_t *behind = mm_page_owner(&heap.ref, SEGMENTS * MM_SEGMENT_PAGES); /* not ours, whatever is there */
    unit_lt((char *)behind - (char *)heap.metadata, heap.layout.total_bytes);
    const uint8_t was = *behind;
    *behind = 1;
    unit_free(&heap, NULL, 0, 16, "NULL");
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) unit_free(&heap, foreign[i], MM_MISUSE_FOREIGN, 16, "a foreign pointer");
    *behind = was;
    mm_cpu_free(&heap, p);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(free_segments) {
    char *p = (char *)mm_cpu_malloc(&heap, 16);
    uint64_t seed = 3;
    unit_free(&heap, p + MM_MAKE_EACH * PLACE, MM_MISUSE_NOT_ALLOCATED, 16, "a page that is nobody's");
    for (int i = 0; i < 100; i++)
        unit_free(&heap,
                  user + (uint64_t)(p - user + MM_SEGMENT_BYTES + (int64_t)(unit_random(&seed) % ((SEGMENTS - 2) * MM_SEGMENT_BYTES))) %
                             (SEGMENTS * MM_SEGMENT_BYTES),
                  MM_MISUSE_NOT_ALLOCATED, 16, "a free segment");
    unit_free(&heap, user + SEGMENTS * MM_SEGMENT_BYTES - 1, MM_MISUSE_NOT_ALLOCATED, 16, "the last byte");
}
END_TEST

START_TEST(misuse_of_runs) {
    const uint64_t three = 3 * MM_SEGMENT_BYTES;
    char *p = (char *)mm_cpu_malloc(&heap, three);
    unit_free(&heap, p + 16, MM_MISUSE_INTERIOR, three, "near the beginning of a run");
    unit_free(&heap, p + PLACE - 1, MM_MISUSE_INTERIOR, three, "near the beginning of a run");
    unit_free(&heap, p, 0, 0, "the run");
    for (int i = 0; i < 3; i++) unit_free(&heap, p, MM_MISUSE_NOT_ALLOCATED, 0, "the run again");
    void *two = mm_cpu_malloc(&heap, 2 * MM_SEGMENT_BYTES); /* over its rear: p is no longer a run */
    unit_free(&heap, p, MM_MISUSE_NOT_ALLOCATED, 2 * MM_SEGMENT_BYTES, "a run that is gone");
    unit_free(&heap, two, 0, 0, "the other run");
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* In the middle of a run, whatever its segments were before. */
START_TEST(interior_of_a_run) {
    const uint64_t all = SEGMENTS * MM_SEGMENT_BYTES;
    static void *held[MM_SEGMENT_PAGES * SEGMENTS];
    for (int former = 0; former < 2; former++) {
        int n = 0;
        while (former && (held[n] = mm_cpu_malloc(&heap, MM_SLICE_BYTES_MAX)) != NULL) n++;
        while (n > 0) mm_cpu_free(&heap, held[--n]);
        unit_fresh(&heap, SEGMENTS);
        char *p = (char *)mm_cpu_malloc(&heap, all);
        const uint64_t in[] = {
            PLACE,  PLACE + 16, MM_SLICE_BYTES_MAX, MM_SEGMENT_BYTES - 1, MM_SEGMENT_BYTES, MM_SEGMENT_BYTES + 1, 9 * MM_SEGMENT_BYTES + MM_SLICE_BYTES_MAX,
            all - 1};
        for (size_t i = 0; i < sizeof in / sizeof *in; i++) unit_free(&heap, p + in[i], MM_MISUSE_INTERIOR, all, "the middle of a run");
        unit_free(&heap, p, 0, 0, "the run");
    }
}
END_TEST

/* Open blocks without a live slice keep no segment from another class or a run; those with one do. */
START_TEST(idle_open_blocks_are_reclaimed) {
    const uint64_t all = SEGMENTS * MM_SEGMENT_BYTES;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        void *p = mm_cpu_malloc(&heap, mm_class_bytes(c)), *q = mm_cpu_malloc(&heap, mm_class_bytes(c));
        unit_holds(p != NULL && q != NULL, "class %u: NULL in an empty heap", c);
        mm_cpu_free(&heap, q);
        unit_holds(mm_cpu_malloc(&heap, all) == NULL, "class %u: the whole heap, with a live slice in it", c);
        mm_cpu_free(&heap, p);
        void *run = mm_cpu_malloc(&heap, all);
        unit_holds(run != NULL, "class %u: not the whole heap, although nothing is live", c);
        unit_holds(mm_cpu_malloc(&heap, 1) == NULL, "a slice beside a run over the whole heap");
        mm_cpu_free(&heap, run);
        unit_sound(&heap, 0);
    }
    uint32_t n = 0; /* and for the largest slices: one class after the other has opened a block */
    for (uint32_t c = 0; c < MM_CLASS_COUNT - 1; c++) mm_cpu_free(&heap, mm_cpu_malloc(&heap, mm_class_bytes(c)));
    static void *held[MM_SEGMENT_PAGES * SEGMENTS + 1];
    while ((held[n] = mm_cpu_malloc(&heap, MM_SLICE_BYTES_MAX)) != NULL) n++;
    unit_eq(n, unit_slices(MM_CLASS_COUNT - 1) * SEGMENTS);
    while (n > 0) mm_cpu_free(&heap, held[--n]);
    unit_sound(&heap, 0);
}
END_TEST

/* After a NULL, any memory freed is available at once, to the class that filled the heap, to another class, to a span, to a run. */
START_TEST(null_then_free_then_success_at_once) {
    enum { SMALL = 2 };
    static void *held[SMALL * (1 << 16) + 1];
    struct mm_cpu_heap small;
    unit_create(&small, SMALL);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c += c < 40 ? 3 : 1) {
        const uint64_t bytes = mm_class_bytes(c);
        const uint32_t all = SMALL * unit_slices(c), slices = mm_class_slices(c);
        uint32_t n = 0;
        while ((held[n] = mm_cpu_malloc(&small, bytes)) != NULL) n++;
        unit_eq(n, all);
        for (uint32_t i = 0; i < 40; i++) { /* any one of them */
            const uint32_t k = i < 4 ? i * (n - 1) / 3 : (uint32_t)((uint64_t)i * i * 7919 % n);
            unit_holds(mm_cpu_malloc(&small, bytes) == NULL, "more than there is");
            mm_cpu_free(&small, held[k]);
            void *p = mm_cpu_malloc(&small, bytes);
            unit_holds(p == held[k], "class %u: slice %u came back, and %p was given, not %p", c, k, p, held[k]);
        }
        for (uint32_t d = 0; d < MM_CLASS_COUNT + 2; d += 5) { /* a segment's slices are freed: for another class, a span, a run */
            const uint64_t want = d < MM_CLASS_COUNT ? mm_class_bytes(d) : d % 2 ? MM_SEGMENT_BYTES / 2 + 1 : MM_SEGMENT_BYTES;
            unit_holds(mm_cpu_malloc(&small, want) == NULL, "%llu bytes: more than there is", (unsigned long long)want);
            uint32_t back = 0, rest = 0;
            for (uint32_t i = 0; i < n; i++) {
                if (((uint64_t)held[i] - small.ref.user_base) / MM_SEGMENT_BYTES == 1) mm_cpu_free(&small, held[i]), back++;
                else held[rest++] = held[i];
            }
            unit_eq(back, all / SMALL);
            void *p = mm_cpu_malloc(&small, want);
            unit_holds(p != NULL, "class %u: a segment of class %u came back, and NULL for %llu", d, c, (unsigned long long)want);
            mm_cpu_free(&small, p);
            while (rest < n) unit_holds((held[rest++] = mm_cpu_malloc(&small, bytes)) != NULL, "NULL");
        }
        unit_holds(mm_cpu_malloc(&small, bytes) == NULL, "more than there is");
        for (uint32_t i = 0; i < n; i++) mm_cpu_free(&small, held[i]);
        unit_eq(unit_misuses(&small), 0);
        unit_fresh(&small, SMALL);
        (void)slices;
    }
    void *run = mm_cpu_malloc(&small, 2 * MM_SEGMENT_BYTES);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        unit_holds(mm_cpu_malloc(&small, mm_class_bytes(c)) == NULL, "more than there is");
        mm_cpu_free(&small, run);
        void *p = mm_cpu_malloc(&small, mm_class_bytes(c));
        unit_holds(p != NULL, "class %u: a run came back, and NULL", c);
        unit_holds(mm_cpu_malloc(&small, 2 * MM_SEGMENT_BYTES) == NULL, "more than there is");
        mm_cpu_free(&small, p);
        run = mm_cpu_malloc(&small, 2 * MM_SEGMENT_BYTES);
        unit_holds(run != NULL, "class %u: a slice came back, and NULL", c);
    }
    mm_cpu_heap_destroy(&small);
}
END_TEST

/* The same with blocks of every class in the way, without live slices. */
START_TEST(null_while_blocks_are_idle) {
    struct mm_cpu_heap small;
    for (uint32_t n = 1; n < 5; n++) {
        unit_create(&small, n);
        for (uint32_t c = 0; c < MM_CLASS_COUNT; c++)
            for (uint32_t d = 0; d < MM_CLASS_COUNT; d++) {
                void *p = mm_cpu_malloc(&small, mm_class_bytes(c));
                unit_holds(p != NULL, "class %u after %u: NULL in an empty heap", c, d);
                mm_cpu_free(&small, p);
                p = mm_cpu_malloc(&small, mm_class_bytes(d));
                unit_holds(p != NULL, "class %u after %u: NULL in an empty heap", d, c);
                mm_cpu_free(&small, p);
            }
        void *all = mm_cpu_malloc(&small, n * MM_SEGMENT_BYTES);
        unit_holds(all != NULL, "not the whole heap");
        mm_cpu_free(&small, all);
        unit_eq(unit_misuses(&small), 0);
        unit_fresh(&small, n);
        mm_cpu_heap_destroy(&small);
    }
}
END_TEST

START_TEST(null_is_counted) {
    for (int i = 1; i < 4; i++) {
        unit_holds(mm_cpu_malloc(&heap, (SEGMENTS + (uint64_t)i) * MM_SEGMENT_BYTES) == NULL, "more than the heap");
        unit_eq(mm_cpu_null_count(&heap), i);
        unit_eq(mm_heap_of(&heap.ref)->null_first_bytes, (SEGMENTS + 1) * MM_SEGMENT_BYTES + 1);
    }
    unit_holds(mm_cpu_aligned_malloc(&heap, (SEGMENTS + 1) * MM_SEGMENT_BYTES, 16) == NULL, "more than the heap");
    unit_eq(mm_cpu_null_count(&heap), 4);
}
END_TEST

START_TEST(heaps_that_cannot_be) {
    struct mm_cpu_heap none;
    unit_holds(mm_cpu_heap_create(&none, 0, 0, MM_SEGMENT_BYTES) != 0, "no segments");
    unit_holds(mm_cpu_heap_create(&none, MM_TREE_BITS_MAX + 1, 1, MM_SEGMENT_BYTES) != 0, "more than a tree has");
    unit_holds(mm_cpu_heap_create(&none, 1, 1, MM_SEGMENT_BYTES / 2) != 0, "aligned to less than a segment");
    unit_holds(mm_cpu_heap_create(&none, 1, 1, 3 * MM_SEGMENT_BYTES) != 0, "aligned to no power of two");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("heap");
    TCase *tests = tcase_create("heap");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {every_size,
                                spacing,
                                payload_is_ones_own,
                                every_alignment,
                                alignment_that_is_none,
                                no_bytes,
                                free_segments,
                                misuse_of_runs,
                                interior_of_a_run,
                                idle_open_blocks_are_reclaimed,
                                null_is_counted,
                                heaps_that_cannot_be,
                                null_and_foreign_pointers,
                                null_then_free_then_success_at_once,
                                null_while_blocks_are_idle,
                                usable_size_of_slices,
                                usable_size_of_many,
                                usable_size_of_runs_and_aligned,
                                usable_size_of_nothing};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
