/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The walk over what is in use, against an account kept beside the calls. */
#include "runtime/gallatin/usage.h"
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
    for (uint32_t part = 0; part < parts; part++)
        mm_usage_walk(&heap.ref, part * SEGMENTS / parts, (part + 1) * SEGMENTS / parts, &u);
    return u;
}

static struct account {
    uint64_t live[MM_CLASS_COUNT], runs, run_segments, spans, span_pages;
} account;

static void note(uint64_t bytes, int64_t sign) {
    if (mm_heap_is_slice(bytes)) {
        account.live[mm_class_of((uint32_t)bytes)] += (uint64_t)sign;
    } else if (bytes <= MM_SEGMENT_BYTES - MM_PAGE_BYTES) {
        account.spans += (uint64_t)sign;
        account.span_pages += (uint64_t)(sign * (int64_t)((bytes + MM_PAGE_BYTES - 1) / MM_PAGE_BYTES));
    } else {
        account.runs += (uint64_t)sign;
        account.run_segments += (uint64_t)(sign * (int64_t)((bytes + MM_SEGMENT_BYTES - 1) / MM_SEGMENT_BYTES));
    }
}

static void agrees(void) {
    const struct mm_usage u = usage(1), parts = usage(7);
    uint64_t pages = u.span_pages + u.free_pages, live_bytes = u.run_segments * MM_SEGMENT_BYTES + u.span_pages * MM_PAGE_BYTES;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        unit_holds(u.classes[c].live == account.live[c], "class %u: %llu live, not %llu", c, (unsigned long long)u.classes[c].live,
                   (unsigned long long)account.live[c]);
        unit_eq(parts.classes[c].live, u.classes[c].live);
        uint64_t owned = 0, blocks = 0, idle = 0;
        for (uint32_t page = 0; page < MAPPED * MM_SEGMENT_PAGES; page++) owned += *mm_page_owner(&heap.ref, page) == c + 1;
        for (uint32_t i = 0; i < mm_class_at(&heap.ref, c)->count; i++) { /* by the table, not by pages */
            const uint64_t entry = mm_table_look(&heap.ref, c, i);
            uint32_t free = 0;
            if (!mm_entry_is_of(entry, c)) continue;
            for (uint32_t w = 0; w < heap.ref.classes[c].words; w++) free += mm_popcount(mm_word_free(mm_page_words(&heap.ref, mm_entry_page(entry))[w]));
            blocks++, idle += free == mm_class_slices(c);
        }
        unit_eq(u.classes[c].pages, owned);
        unit_eq(u.classes[c].blocks, blocks);
        unit_eq(u.classes[c].free_blocks, idle);
        pages += u.classes[c].pages;
        live_bytes += u.classes[c].live * mm_class_bytes(c);
    }
    unit_eq(u.runs, account.runs);
    unit_eq(u.run_segments, account.run_segments);
    unit_eq(u.spans, account.spans);
    unit_eq(u.span_pages, account.span_pages);
    unit_eq(u.paged_segments * MM_SEGMENT_PAGES, pages);
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

/* Sizes that have few slices to a segment, and many; up and down. */
START_TEST(at_random) {
    static struct {
        void *p;
        uint64_t bytes;
    } held[HELD];
    static const uint64_t most[] = {64, 1000, 20000, MM_SLICE_BYTES_MAX, 3 * MM_SEGMENT_BYTES};
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

/* Each class, slice by slice, over the borders of words and blocks. */
START_TEST(of_every_class) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c);
    static void *held[5000];
    uint32_t n = 0;
    memset(&account, 0, sizeof account);
    const uint32_t step = mm_class_slices(c) / 7 + 1;
    for (; n < 3 * step * 7 && n < 5000 && (held[n] = mm_cpu_malloc(&heap, bytes)) != NULL; n++) {
        note(bytes, 1);
        if (n % step == 0) agrees();
    }
    agrees();
    for (uint32_t i = 0; i < n; i += 3) mm_cpu_free(&heap, held[i]), note(bytes, -1);
    agrees();
    for (uint32_t i = 0; i < n; i++)
        if (i % 3) mm_cpu_free(&heap, held[i]), note(bytes, -1);
    agrees();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("usage");
    TCase *tests = tcase_create("usage");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, at_random, 0, 5);
    tcase_add_loop_test(tests, of_every_class, 0, MM_CLASS_COUNT);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
