/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The known defects of the published code (McCoy & Pandey's own), one test each, named after the defect. */
#include "tests/unit/support.h"

#define SEGMENTS 3

static struct mm_cpu_heap heap;
static char *user;

static void set_up(uint32_t segments) {
    unit_create(&heap, segments);
    user = (char *)(uintptr_t)heap.ref.user_base;
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

/* Runs of segments are never found in word 0 of the tree: heaps below 1 GiB cannot serve large requests. */
START_TEST(runs_in_the_first_word) {
    static const uint32_t sizes[] = {1, 2, 3, 16, 63, 64};
    const uint32_t n = sizes[_i];
    set_up(n);
    for (uint32_t count = n; count > 0; count--) {
        char *p = (char *)mm_cpu_malloc(&heap, count * MM_SEGMENT_BYTES);
        unit_holds(p == user + (n - count) * MM_SEGMENT_BYTES, "%u of %u segments: %p", count, n, (void *)p);
        mm_cpu_free(&heap, p);
    }
    unit_fresh(&heap, n);
    tear_down();
}
END_TEST

/* The search for a run wraps around: the end of the heap and its beginning are taken for neighbours, or those of a word. */
START_TEST(wrap_around_in_the_run_search) {
    static const uint32_t sizes[] = {2, 64, 65, 128, 130};
    const uint32_t n = sizes[_i];
    set_up(n);
    for (uint32_t s = 0; s < n; s++) mm_cpu_malloc(&heap, MM_SEGMENT_BYTES);
    mm_cpu_free(&heap, user);
    mm_cpu_free(&heap, user + (n - 1) * MM_SEGMENT_BYTES);
    unit_holds((mm_cpu_malloc(&heap, 2 * MM_SEGMENT_BYTES) != NULL) == (n == 2), "a run around the end of the heap");
    if (n > 66) {
        mm_cpu_free(&heap, user + 63 * MM_SEGMENT_BYTES);
        unit_holds(mm_cpu_malloc(&heap, 2 * MM_SEGMENT_BYTES) == NULL, "a run around the end of a word");
    }
    unit_sound(&heap, UNIT_ANY);
    tear_down();
}
END_TEST

/* The index of a word is compared with the number of segments: words behind the last one are searched and written. */
START_TEST(word_index_against_the_universe) {
    static const uint32_t sizes[] = {65, 896}; /* 896: the first word behind is another tree's root */
    const uint32_t n = sizes[_i];
    set_up(n);
    struct mm_heap *h = mm_heap_of(&heap.ref);
    unit_eq(h->tree_leaves, (n + 63) / 64);
    uint64_t *behind = mm_tree_leaf(mm_segment_free_tree(&h->ref), (n + 63) / 64 * 64);
    unit_eq((uint64_t)(uintptr_t)behind == h->ref.class_trees, n == 896);
    unit_holds(mm_cpu_malloc(&heap, (n + 1) * MM_SEGMENT_BYTES) == NULL, "more than there is");
    void *p = mm_cpu_malloc(&heap, n * MM_SEGMENT_BYTES);
    unit_holds(p == user, "no run of all");
    mm_cpu_free(&heap, p);
    unit_eq(*behind, 0);
    *behind = n == 896 ? 0 : ~0ull; /* padding that is not 0 is not searched */
    unit_holds(mm_cpu_malloc(&heap, (n + 1) * MM_SEGMENT_BYTES) == NULL, "more than there is");
    p = mm_cpu_malloc(&heap, n * MM_SEGMENT_BYTES);
    unit_holds(p == user, "no run of all");
    mm_cpu_free(&heap, p);
    *behind = 0;
    unit_fresh(&heap, n);
    tear_down();
}
END_TEST

/* free tests neither for NULL nor for the range. */
START_TEST(free_of_null_and_out_of_range) {
    static char here[64];
    set_up(SEGMENTS);
    void *p = mm_cpu_malloc(&heap, 16);
    char *end = user + SEGMENTS * MM_SEGMENT_BYTES;
    void *const foreign[] = {here, user - 1, user - MM_SEGMENT_BYTES, end, end + 1, end + MM_SEGMENT_BYTES, (void *)1, (void *)~(uintptr_t)0};
    unit_free(&heap, NULL, 0, 16, "NULL");
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) unit_free(&heap, foreign[i], MM_MISUSE_FOREIGN, 16, "a foreign pointer");
    unit_free(&heap, end - 16, MM_MISUSE_NOT_ALLOCATED, 16, "the last slice");
    mm_cpu_free(&heap, p);
    unit_fresh(&heap, SEGMENTS);
    tear_down();
}
END_TEST

/* A guard in free that integer promotion makes always true: every bit of the distance counts. */
START_TEST(guard_that_is_always_true) {
    set_up(SEGMENTS);
    void *p = mm_cpu_malloc(&heap, 16);
    for (uint32_t bit = 0; bit < 64; bit++)
        for (int sign = -1; sign <= 1; sign += 2) {
            const uint64_t off = sign < 0 ? 0 - (1ull << bit) : 1ull << bit;
            const int kind = off >= SEGMENTS * MM_SEGMENT_BYTES   ? MM_MISUSE_FOREIGN
                             : off >= MM_SEGMENT_BYTES            ? MM_MISUSE_NOT_ALLOCATED
                             : off % 16 != 0                      ? MM_MISUSE_INTERIOR
                             : off < 1u << MM_BLOCK_BYTES_MIN_SHIFT ? MM_MISUSE_NEVER
                                                                  : MM_MISUSE_NOT_ALLOCATED;
            unit_free(&heap, (void *)((uintptr_t)p + off), kind, 16, "a power of two away");
        }
    mm_cpu_free(&heap, p);
    unit_fresh(&heap, SEGMENTS);
    tear_down();
}
END_TEST

/* Frees are counted: two frees of one slice make up for a live one, and its block is recycled. */
START_TEST(double_free_recycles_a_live_block) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c), slices = mm_class_slices(c), per = 1u << mm_class_block_shift(c);
    const uint32_t n = per < slices ? per : slices;
    set_up(SEGMENTS);
    void *live = mm_cpu_malloc(&heap, bytes), *p = NULL;
    for (uint32_t i = 1; i < n; i++) {
        p = mm_cpu_malloc(&heap, bytes);
        if (i + 1 < n) mm_cpu_free(&heap, p);
    }
    unit_free(&heap, p, 0, bytes, "the last slice of the block");
    for (uint32_t i = 0; i < n && i < 200; i++) unit_free(&heap, p, MM_MISUSE_DOUBLE_FREE, bytes, "again");
    for (uint32_t i = 0; i <= SEGMENTS * slices; i++) {
        void *q = mm_cpu_malloc(&heap, bytes);
        unit_holds(q != live, "a live slice handed out");
        unit_eq(q == NULL, i >= SEGMENTS * slices - 1);
    }
    unit_free(&heap, live, 0, UNIT_ANY, "the live one");
    tear_down();
}
END_TEST

/* A pointer into the middle of a slice silently frees the slice around it. */
START_TEST(interior_pointer_frees_the_slice_around_it) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c);
    set_up(SEGMENTS);
    char *p = (char *)mm_cpu_malloc(&heap, bytes), *q = (char *)mm_cpu_malloc(&heap, bytes);
    for (uint32_t in = 1; in < bytes; in += 1 + bytes / 100) {
        unit_free(&heap, p + in, MM_MISUSE_INTERIOR, 2 * bytes, "the middle of a slice");
        unit_free(&heap, q + bytes - in, MM_MISUSE_INTERIOR, 2 * bytes, "the middle of a slice");
    }
    unit_free(&heap, p, 0, bytes, "the slice");
    unit_free(&heap, q, 0, 0, "the slice");
    unit_fresh(&heap, SEGMENTS);
    tear_down();
}
END_TEST

/* 2^20 failed additions carry into what is packed beside the count. Here no addition fails, and the count is alone: tickets drawn
 * before any of their lots is ready, as many as the ring has room for, are all good for a slice. */
START_TEST(failed_additions_carry) {
    enum { MANY = 80 };
    set_up(MANY);
    const uint32_t c = (uint32_t)_i * 9, k = mm_home() & heap.ref.classes[c].stripe_mask, most = MANY * mm_class_slices(c);
    const uint32_t n = (MM_RING - 2 * MM_AHEAD_MAX) << heap.ref.classes[c].lot_shift;
    struct mm_ring *ring = mm_ring_at(&heap.ref, c, k);
    uint32_t slice[31];
    char *seen = (char *)calloc(most, 1);
    for (uint32_t i = 0; i < n; i += 31) unit_eq(mm_ring_draw(ring, n - i < 31 ? n - i : 31), i);
    unit_eq(ring->tickets, n);
    for (uint32_t t = 0; t < n; t += 31) {
        const uint32_t some = n - t < 31 ? n - t : 31;
        unit_eq(unit_serve(&heap.ref, c, some, k, t, slice), some);
        for (uint32_t i = 0; i < some; i++) {
            unit_holds(slice[i] < most && !seen[slice[i]], "slice %u twice", slice[i]);
            seen[slice[i]] = 1;
        }
    }
    unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
    free(seen);
    tear_down();
}
END_TEST

/* Blocks of every class are opened at the start: here nothing is taken before it is asked for. */
START_TEST(prefill_of_every_class) {
    set_up(70);
    struct mm_heap *h = mm_heap_of(&heap.ref);
    void *all = mm_cpu_malloc(&heap, 70 * MM_SEGMENT_BYTES);
    unit_holds(all == user, "a fresh heap is not whole");
    mm_cpu_free(&heap, all);
    for (uint32_t used = 0; used < MM_CLASS_COUNT; used++) {
        void *p = mm_cpu_malloc(&heap, mm_class_bytes(used));
        for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
            uint32_t open = 0, reserves = 0;
            for (uint32_t i = 0; i < MM_RINGS; i++) *(i < MM_STRIPES ? &open : &reserves) += mm_ring_at(&heap.ref, c, i)->tickets != 0;
            unit_eq(open, c == used); /* one stripe of one class */
            unit_eq(reserves, c == used);
        }
        unit_eq(h->classes_used, 1ull << used);
        unit_eq(mm_cpu_heap_free_segments(&heap), 69);
        mm_cpu_free(&heap, p);
        unit_fresh(&heap, 70);
    }
    tear_down();
}
END_TEST

/* One live slice keeps its block from being used again: here only that slice is not available. */
START_TEST(block_pinned_by_one_live_slice) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c), n = SEGMENTS * mm_class_slices(c), per = 1u << mm_class_block_shift(c);
    set_up(SEGMENTS);
    void **held = (void **)malloc(n * sizeof(void *));
    for (uint32_t i = 0; i < n; i++) held[i] = mm_cpu_malloc(&heap, bytes);
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t live = 0, kept = round ? n - 1 - round : per / 2; /* one slice of each block, in each round another */
        for (uint32_t i = 0; i < n; i++) {
            if (i % per == kept % per % (mm_class_slices(c) < per ? mm_class_slices(c) : per) || i == n - 1) live++;
            else mm_cpu_free(&heap, held[i]), held[i] = NULL;
        }
        unit_sound(&heap, (uint64_t)live * bytes);
        for (uint32_t i = 0; i < n; i++)
            if (held[i] == NULL) {
                held[i] = mm_cpu_malloc(&heap, bytes);
                unit_holds(held[i] != NULL, "class %u: NULL at slice %u, although there are more", c, i);
            }
        unit_holds(mm_cpu_malloc(&heap, bytes) == NULL, "more than there is");
        unit_sound(&heap, (uint64_t)n * bytes);
    }
    for (uint32_t i = 0; i < n; i++) mm_cpu_free(&heap, held[i]);
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
    free(held);
    tear_down();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("known");
    TCase *tests = tcase_create("defects of the published code");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, runs_in_the_first_word, 0, 6);
    tcase_add_loop_test(tests, wrap_around_in_the_run_search, 0, 5);
    tcase_add_loop_test(tests, word_index_against_the_universe, 0, 2);
    tcase_add_test(tests, free_of_null_and_out_of_range);
    tcase_add_test(tests, guard_that_is_always_true);
    tcase_add_loop_test(tests, double_free_recycles_a_live_block, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, interior_pointer_frees_the_slice_around_it, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, failed_additions_carry, 0, 7);
    tcase_add_test(tests, prefill_of_every_class);
    tcase_add_loop_test(tests, block_pinned_by_one_live_slice, 0, MM_CLASS_COUNT);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
