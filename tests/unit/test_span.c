/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Spans: four lengths to a doubling, or a power of two of pages if aligned. */
#include "tests/unit/runs.h"

/* Spans of every length, at every alignment: exactly as many pages, or up to a quarter more, or the next power of two, in one segment; and again at once in a
 * segment that is full of them. */
START_TEST(spans) {
    unit_create(&heap, 2);
    for (uint32_t n = 1; n <= 56; n++)
        for (uint64_t align = MM_PAGE_BYTES; align < MM_SEGMENT_BYTES; align *= 2) {
            const uint64_t bytes = n * MM_PAGE_BYTES;
            uint64_t taken = align; /* the next power of two, at that alignment */
            while (taken < bytes) taken *= 2;
            if (align == MM_PAGE_BYTES) taken = unit_span_pages(n) * MM_PAGE_BYTES;
            if (bytes <= MM_SLICE_BYTES_MAX && align <= MM_SLICE_BYTES_MAX) continue;
            char *p = (char *)mm_cpu_aligned_malloc(&heap, bytes - n % 3, align), *q = (char *)mm_cpu_aligned_malloc(&heap, bytes, align);
            unit_holds(p != NULL && q != NULL && (uint64_t)p % align == 0 && (uint64_t)q % align == 0, "%u pages aligned to %llu: %p, %p", n,
                       (unsigned long long)align, (void *)p, (void *)q);
            unit_holds(p + taken <= q || q + taken <= p, "%u pages overlap", n);
            for (int k = 0; k < 2; k++) {
                const uint64_t off = (uint64_t)((k ? q : p) - (char *)run_at(0));
                unit_eq(off / MM_SEGMENT_BYTES, (off + taken - 1) / MM_SEGMENT_BYTES);
                unit_eq(mm_cpu_usable_size(&heap, k ? q : p), taken);
            }
            unit_sound(&heap, 2 * taken);
            unit_free(&heap, p, 0, taken, "a span");
            unit_free(&heap, q, 0, 0, "a span");
            unit_eq(mm_cpu_heap_free_segments(&heap), 2);
            void *held[2 * MM_SEGMENT_PAGES];
            uint32_t count = 0;
            while ((held[count] = mm_cpu_aligned_malloc(&heap, bytes, align)) != NULL) count++;
            unit_eq(count, 2 * (MM_SEGMENT_BYTES / taken));
            for (uint32_t i = 0; i < count; i += 2) mm_cpu_free(&heap, held[i]);
            for (uint32_t i = 0; i < count; i += 2)
                unit_holds((held[i] = mm_cpu_aligned_malloc(&heap, bytes, align)) != NULL, "%u pages came back, and NULL", n);
            for (uint32_t i = 0; i < count; i++) mm_cpu_free(&heap, held[i]);
        }
    unit_fresh(&heap, 2);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* A segment is filled with spans to its last page; freed pages are handed out again. */
START_TEST(spans_fill_a_segment) {
    static const uint32_t lengths[] = {5, 7, 8, 16, 21, 31, 32};
    unit_create(&heap, 1);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        const uint32_t n = lengths[k];
        const uint32_t taken = unit_span_pages(n);
        uint32_t got = 0;
        void *held[MM_SEGMENT_PAGES];
        while ((held[got] = mm_cpu_malloc(&heap, n * MM_PAGE_BYTES)) != NULL) got++;
        unit_eq(got, MM_SEGMENT_PAGES / taken);
        unit_sound(&heap, (uint64_t)got * taken * MM_PAGE_BYTES);
        uint32_t left = MM_SEGMENT_PAGES - got * taken, more = 0;
        void *page[MM_SEGMENT_PAGES]; /* the rest, page by page, by the class that has such blocks */
        while ((page[more] = mm_cpu_malloc(&heap, 512)) != NULL && ++more < MM_SEGMENT_PAGES) continue;
        if (left < 2) unit_eq(more, left * 32);
        else unit_le(32, more);
        for (uint32_t i = 0; i < more; i++) mm_cpu_free(&heap, page[i]);
        for (uint32_t i = 0; i < got; i++) {
            mm_cpu_free(&heap, held[i]);
            void *p = mm_cpu_malloc(&heap, n * MM_PAGE_BYTES);
            unit_holds(p != NULL, "%u pages came back, and NULL", n);
            mm_cpu_free(&heap, p);
        }
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, 1);
    }
    mm_cpu_heap_destroy(&heap);
}
END_TEST

/* Misuse of spans: each counted as its kind, and nothing changes. */
START_TEST(misuse_of_spans) {
    const uint64_t bytes = 24 * MM_PAGE_BYTES;
    unit_create(&heap, 2);
    char *p = (char *)mm_cpu_malloc(&heap, bytes), *other = (char *)mm_cpu_malloc(&heap, bytes);
    unit_free(&heap, p + 16, MM_MISUSE_INTERIOR, 2 * bytes, "the first page's middle");
    unit_free(&heap, p + MM_PAGE_BYTES, MM_MISUSE_INTERIOR, 2 * bytes, "the second page");
    unit_free(&heap, p + bytes - 1, MM_MISUSE_INTERIOR, 2 * bytes, "the last byte");
    unit_free(&heap, p, 0, bytes, "the span");
    unit_free(&heap, p, MM_MISUSE_NOT_ALLOCATED, bytes, "the span again");
    unit_eq(mm_cpu_usable_size(&heap, p), 0);
    uint64_t *word = mm_page_words(&heap.ref, (uint32_t)((uint64_t)(other - (char *)run_at(0)) / MM_PAGE_BYTES));
    const uint64_t was = *word;
    *word = mm_word_make(mm_generation_end(mm_word_generation(was)), 0); /* as if another free were under way */
    mm_cpu_free(&heap, other);
    unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_DOUBLE_FREE), 1);
    *word = was;
    unit_free(&heap, other, 0, 0, "the other one");
    unit_fresh(&heap, 2);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("span");
    TCase *tests = tcase_create("spans");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, spans);
    tcase_add_test(tests, spans_fill_a_segment);
    tcase_add_test(tests, misuse_of_spans);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
