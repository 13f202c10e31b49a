/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The walk over memory in use, compared with an account of the calls. */
#include "runtime/usage.h"
#include "tests/unit/support.h"

#define SEGMENTS 200
#define MAPPED 160
#define HELD 3000

static struct mm_cpu_heap heap;

static void set_up(void) { ck_assert_int_eq(mm_cpu_heap_create(&heap, SEGMENTS, MAPPED, MM_SEGMENT_BYTES), 0); }
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static struct mm_usage usage(uint32_t parts) {
    struct mm_usage u;
    memset(&u, 0, sizeof u);
    for (uint32_t part = 0; part < parts; part++) mm_usage_walk(&heap.ref, part * SEGMENTS / parts, (part + 1) * SEGMENTS / parts, &u);
    return u;
}

static struct account { uint64_t live[MM_CLASS_COUNT], spans, span_pages, runs, run_segments; } account;

static void note(uint64_t bytes, int64_t sign) {
    if (bytes <= MM_SMALL_BYTES_MAX) {
        account.live[mm_class_spaced((uint32_t)bytes, (uint32_t)heap.ref.spacing_mask)] += (uint64_t)sign;
    } else if (bytes <= 56 * MM_PAGE_BYTES) {
        account.spans += (uint64_t)sign;
        account.span_pages += (uint64_t)(sign * (int64_t)unit_span_pages((bytes + MM_PAGE_BYTES - 1) / MM_PAGE_BYTES));
    } else {
        account.runs += (uint64_t)sign;
        account.run_segments += (uint64_t)(sign * (int64_t)((bytes + MM_SEGMENT_BYTES - 1) / MM_SEGMENT_BYTES));
    }
}

/* Compares with the account, and with owners and segments. */
static void agrees(void) {
    const struct mm_usage u = usage(1), parts = usage(7);
    uint64_t class_pages = 0, free_pages = 0, owned[256] = {0}, live_bytes = u.run_segments * MM_SEGMENT_BYTES + u.span_pages * MM_PAGE_BYTES;
    for (uint32_t page = 0; page < SEGMENTS * MM_SEGMENT_PAGES; page++) owned[*mm_page_owner(&heap.ref, page)]++;
    for (uint32_t s = 0; s < SEGMENTS; s++) free_pages += mm_popcount(mm_segment_at(&heap.ref, s)->pages);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        unit_holds(u.classes[c].live == account.live[c], "class %u: %llu live, not %llu", c, (unsigned long long)u.classes[c].live,
                   (unsigned long long)account.live[c]);
        unit_eq(parts.classes[c].live, u.classes[c].live);
        const uint64_t narrow = mm_class_has_narrow(c) ? owned[mm_shape_narrow(c) + 1] : 0;
        unit_eq(u.classes[c].pages, owned[c + 1] + narrow);
        unit_eq(((u.classes[c].blocks - narrow) << heap.ref.classes[c].page_shift) + narrow, u.classes[c].pages);
        unit_le(u.classes[c].live, (u.classes[c].blocks - u.classes[c].free_blocks) * heap.ref.classes[c].slices);
        unit_le(u.classes[c].blocks - u.classes[c].free_blocks, u.classes[c].live);
        class_pages += u.classes[c].pages;
        live_bytes += u.classes[c].live * mm_class_bytes(c);
        unit_eq(u.classes[c].bytes, u.classes[c].live * mm_class_bytes(c));
    }
    unit_eq(u.spans, account.spans);
    unit_eq(u.span_pages, account.span_pages);
    unit_eq(u.runs, account.runs);
    unit_eq(u.run_segments, account.run_segments);
    unit_eq(u.free_pages, free_pages);
    unit_eq(u.small_pages, class_pages);
    unit_eq(u.small_bytes + u.run_segments * MM_SEGMENT_BYTES + u.span_pages * MM_PAGE_BYTES, live_bytes);
    unit_eq(u.uncounted_pages, 0);
    unit_eq(class_pages + u.span_pages + u.free_pages, u.paged_segments * MM_SEGMENT_PAGES);
    unit_eq(u.free_segments, mm_cpu_heap_free_segments(&heap));
    unit_eq(u.free_segments + u.paged_segments + u.run_segments, MAPPED);
    unit_sound(&heap, live_bytes);
    uint64_t row = 0, largest = 0;
    for (uint32_t s = 0; s < SEGMENTS; s++) {
        row = *mm_tree_leaf(mm_segment_free_tree(&heap.ref), s) >> (s % 64) & 1 ? row + 1 : 0;
        if (row > largest) largest = row;
    }
    unit_eq(u.largest_free, largest);
}

/* Sizes with few slices to a segment, and with many; up and down. */
START_TEST(at_random) {
    static struct {
        void *p;
        uint64_t bytes;
    } held[HELD];
    static const uint64_t most[] = {64, 1000, 20000, MM_SEGMENT_BYTES, 3 * MM_SEGMENT_BYTES};
    uint64_t seed = (uint64_t)_i + 1;
    memset(&account, 0, sizeof account), memset(held, 0, sizeof held);
    agrees();
    for (int phase = 0; phase < 40; phase++) {
        const uint64_t limit = most[unit_random(&seed) % 5], give = unit_random(&seed) % 100;
        for (int n = 0; n < 2000; n++) {
            const uint32_t i = (uint32_t)(unit_random(&seed) % HELD);
            if (held[i].p && unit_random(&seed) % 100 < give) {
                mm_cpu_free(&heap, held[i].p);
                note(held[i].bytes, -1);
                held[i].p = NULL;
            } else if (!held[i].p) {
                held[i].bytes = unit_random(&seed) % limit;
                held[i].p = mm_cpu_malloc(&heap, held[i].bytes);
                if (held[i].p) note(held[i].bytes, 1);
            }
        }
        agrees();
    }
    for (int i = 0; i < HELD; i++)
        if (held[i].p) mm_cpu_free(&heap, held[i].p), note(held[i].bytes, -1);
    agrees();
    mm_cpu_heap_drain_quiescent(&heap);
    agrees();
}
END_TEST

/* Each class, slice by slice, over the borders of words and blocks; blocks become free one by one. */
START_TEST(of_every_class) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c), slices = heap.ref.classes[c].slices;
    static void *held[5000];
    uint32_t n = 0;
    memset(&account, 0, sizeof account);
    if (mm_class_spaced(bytes, (uint32_t)heap.ref.spacing_mask) != c) return;
    for (; n < 3 * slices && n < 5000 && (held[n] = mm_cpu_malloc(&heap, bytes)) != NULL; n++) {
        note(bytes, 1);
        if (n % (slices / 7 + 1) == 0) agrees();
    }
    agrees();
    for (uint32_t i = 0; i < n; i += 3) mm_cpu_free(&heap, held[i]), note(bytes, -1);
    agrees();
    for (uint32_t i = 0; i < n; i++)
        if (i % 3) mm_cpu_free(&heap, held[i]), note(bytes, -1);
    agrees();
    unit_eq(usage(1).classes[c].free_blocks, usage(1).classes[c].blocks);
    unit_lt(0, usage(1).classes[c].blocks);
}
END_TEST

/* The walk over a copy made during changes: owners that fit nothing, words of no block. It counts what it can, and stays in bounds. */
START_TEST(rubbish) {
    uint64_t seed = 7;
    struct mm_usage u;
    const uint32_t first = 3, end = 5; /* segments */
    for (int round = 0; round < 2000; round++) {
        for (uint32_t page = 0; page < SEGMENTS * MM_SEGMENT_PAGES; page++) {
            const int in = page / MM_SEGMENT_PAGES >= first && page / MM_SEGMENT_PAGES < end;
            if (page / MM_SEGMENT_PAGES > end) break;
            *mm_page_owner(&heap.ref, page) = in ? (uint8_t)unit_random(&seed) : 1;
            for (uint32_t i = 0; in && i < 1u << heap.ref.word_shift; i++) mm_page_words(&heap.ref, page)[i] = unit_random(&seed);
        }
        for (uint32_t s = first; s < end; s++) mm_tree_erase(mm_segment_free_tree(&heap.ref), s), mm_segment_at(&heap.ref, s)->pages = unit_random(&seed);
        memset(&u, 0, sizeof u);
        mm_usage_walk(&heap.ref, first, end, &u);
        uint64_t pages = u.span_pages;
        for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
            pages += u.classes[c].pages;
            unit_le(u.classes[c].live, u.classes[c].blocks * heap.ref.classes[c].slices);
        }
        unit_le(pages, (end - first) * MM_SEGMENT_PAGES);
        unit_le(u.paged_segments, end - first);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("usage");
    TCase *tests = tcase_create("usage");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, at_random, 0, 5);
    tcase_add_loop_test(tests, of_every_class, 0, MM_CLASS_COUNT);
    tcase_add_test(tests, rubbish);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
