/* The heap as its user sees it: every size, every alignment, misuse; and the defects of the published code that
 * are not of one room (test_slice.c and test_run.c have the others). */
#include "tests/unit/support.h"

#define SEGMENTS 70 /* one for each class, and some */

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

/* The first and last byte of what a request gets are its own. */
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

/* The published code tests neither for NULL nor for the range, and a guard that is always true lets all pass. */
START_TEST(defect_free_tests_neither_null_nor_range) {
    static char here[64];
    void *p = mm_cpu_malloc(&heap, 16);
    char *end = user + SEGMENTS * MM_SEGMENT_BYTES;
    void *const foreign[] = {here, user - 1, user - MM_SEGMENT_BYTES, end, end + MM_SEGMENT_BYTES, (void *)1, (void *)~(uintptr_t)0};
    unit_free(&heap, NULL, 0, 16, "NULL");
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) unit_free(&heap, foreign[i], MM_MISUSE_FOREIGN, 16, "a foreign pointer");
    mm_cpu_free(&heap, p);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(free_segments) {
    char *p = (char *)mm_cpu_malloc(&heap, 16);
    uint64_t seed = 3;
    unit_free(&heap, p + MM_GRANULE_BYTES, MM_MISUSE_NOT_ALLOCATED, 16, "a block that is not open");
    for (int i = 0; i < 100; i++)
        unit_free(&heap, user + MM_SEGMENT_BYTES + unit_random(&seed) % ((SEGMENTS - 1) * MM_SEGMENT_BYTES), MM_MISUSE_NOT_ALLOCATED, 16, "a free segment");
    unit_free(&heap, user + SEGMENTS * MM_SEGMENT_BYTES - 1, MM_MISUSE_NOT_ALLOCATED, 16, "the last byte");
}
END_TEST

START_TEST(misuse_of_runs) {
    const uint64_t three = 3 * MM_SEGMENT_BYTES;
    char *p = (char *)mm_cpu_malloc(&heap, three);
    unit_free(&heap, p + 16, MM_MISUSE_INTERIOR, three, "in the first granule of a run");
    unit_free(&heap, p + MM_GRANULE_BYTES - 1, MM_MISUSE_INTERIOR, three, "in the first granule of a run");
    unit_free(&heap, p, 0, 0, "the run");
    for (int i = 0; i < 3; i++) unit_free(&heap, p, MM_MISUSE_NOT_ALLOCATED, 0, "the run again");
    void *two = mm_cpu_malloc(&heap, 2 * MM_SEGMENT_BYTES); /* over its rear: p is no run any more */
    unit_free(&heap, p, MM_MISUSE_NOT_ALLOCATED, 2 * MM_SEGMENT_BYTES, "a run that is gone");
    unit_free(&heap, two, 0, 0, "the other run");
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* In the middle of a run, whatever its segments were before. */
START_TEST(interior_of_a_run) {
    const uint64_t all = SEGMENTS * MM_SEGMENT_BYTES;
    static void *held[4 * SEGMENTS];
    for (int former = 0; former < 2; former++) {
        int n = 0;
        while (former && (held[n] = mm_cpu_malloc(&heap, MM_SLICE_BYTES_MAX)) != NULL) n++; /* leaves bodies */
        while (n > 0) mm_cpu_free(&heap, held[--n]);
        unit_fresh(&heap, SEGMENTS);
        char *p = (char *)mm_cpu_malloc(&heap, all);
        const uint64_t in[] = {MM_GRANULE_BYTES, MM_GRANULE_BYTES + 16, MM_SLICE_BYTES_MAX, MM_SEGMENT_BYTES - 1,
                               MM_SEGMENT_BYTES, MM_SEGMENT_BYTES + 1, 9 * MM_SEGMENT_BYTES + MM_SLICE_BYTES_MAX, all - 1};
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
    void *held[2 * SEGMENTS + 1];
    while ((held[n] = mm_cpu_malloc(&heap, MM_SLICE_BYTES_MAX)) != NULL) n++;
    unit_eq(n, 2 * SEGMENTS);
    while (n > 0) mm_cpu_free(&heap, held[--n]);
    unit_sound(&heap, 0);
}
END_TEST

/* The published code finds no run in the first word of the tree: heaps below 64 segments serve none. */
START_TEST(defect_no_runs_in_the_first_word) {
    static const uint32_t sizes[] = {1, 2, 3, 16, 63, 64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct mm_cpu_heap small;
        unit_create(&small, sizes[i]);
        void *p = mm_cpu_malloc(&small, sizes[i] * MM_SEGMENT_BYTES);
        unit_holds(p == (void *)(uintptr_t)small.ref.user_base, "no run in a heap of %u segments", sizes[i]);
        mm_cpu_free(&small, p);
        mm_cpu_heap_destroy(&small);
    }
}
END_TEST

/* The published code compares the index of a word with the number of segments: whole words behind the last
 * segment must neither be searched nor written. */
START_TEST(defect_word_index_against_the_universe) {
    struct mm_cpu_heap small;
    unit_create(&small, 65);
    struct mm_heap *h = mm_heap_of(&small.ref);
    unit_eq(h->tree_leaves, 2);
    uint64_t *behind = mm_tree_leaf(mm_segment_free_tree(h), 128);
    unit_lt((uint64_t)(uintptr_t)behind, h->class_trees + 8); /* padding, or the first class tree's root */
    unit_holds(mm_cpu_malloc(&small, 66 * MM_SEGMENT_BYTES) == NULL, "more than there is");
    void *p = mm_cpu_malloc(&small, 65 * MM_SEGMENT_BYTES);
    unit_holds(p == (void *)(uintptr_t)small.ref.user_base, "no run of all");
    mm_cpu_free(&small, p);
    unit_eq(*behind, 0);
    unit_eq(*mm_tree_leaf(mm_segment_free_tree(h), 64), 1);
    unit_fresh(&small, 65);
    mm_cpu_heap_destroy(&small);
}
END_TEST

/* The published code opens blocks of every class at the start: here nothing is taken before it is asked for. */
START_TEST(defect_prefill_of_every_class) {
    struct mm_heap *h = mm_heap_of(&heap.ref);
    void *all = mm_cpu_malloc(&heap, SEGMENTS * MM_SEGMENT_BYTES);
    unit_holds(all == user, "a fresh heap is not whole");
    mm_cpu_free(&heap, all);
    void *p = mm_cpu_malloc(&heap, 40);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        uint32_t open = 0;
        for (uint32_t i = 0; i < MM_STRIPES; i++) open += h->classes[c].stripe[i] != 0;
        unit_eq(open, c == mm_class_of(40) ? MM_STRIPES : 0); /* one class */
        unit_eq(h->classes[c].opened, c == mm_class_of(40)); /* one block */
    }
    unit_eq(mm_popcount(*mm_tree_leaf(mm_segment_free_tree(h), 0)) + mm_popcount(*mm_tree_leaf(mm_segment_free_tree(h), 64)), SEGMENTS - 1);
    mm_cpu_free(&heap, p);
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
    const TTest *const all[] = {every_size, payload_is_ones_own, every_alignment, alignment_that_is_none, no_bytes, free_segments,
                                misuse_of_runs, interior_of_a_run, idle_open_blocks_are_reclaimed, null_is_counted, heaps_that_cannot_be,
                                defect_free_tests_neither_null_nor_range, defect_no_runs_in_the_first_word,
                                defect_word_index_against_the_universe, defect_prefill_of_every_class};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return unit_main(suite);
}
