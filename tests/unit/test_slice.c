/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Slices: each class filled to NULL and emptied, and every misuse of a slice. */
#include "tests/unit/support.h"

#define SEGMENTS 3
#define BYTES (SEGMENTS * MM_SEGMENT_BYTES)

static struct mm_cpu_heap heap;
static char *user;

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    user = (char *)(uintptr_t)heap.ref.user_base;
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

/* Fills the heap with slices of the class; returns how many. Each is a multiple of the slice's size away from
 * the start of its segment and seen once. */
static uint32_t fill(uint32_t c, void **held, char *seen) {
    const uint64_t bytes = mm_class_bytes(c);
    uint32_t n = 0;
    memset(seen, 0, BYTES / 16);
    for (char *p; (p = (char *)mm_cpu_malloc(&heap, bytes)) != NULL; n++) {
        const uint64_t off = (uint64_t)(p - user);
        unit_holds(off < BYTES && off % MM_SEGMENT_BYTES % bytes == 0 && off % MM_SEGMENT_BYTES + bytes <= MM_SEGMENT_BYTES, "class %u: slice at %llu", c, (unsigned long long)off);
        unit_holds(!seen[off / 16], "class %u: handed out twice", c);
        seen[off / 16] = 1;
        held[n] = p;
    }
    return n;
}

START_TEST(fill_and_empty) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c);
    const uint32_t all = mm_class_slices(c) * SEGMENTS;
    void **held = (void **)malloc(BYTES / 16 * sizeof(void *));
    char *seen = (char *)malloc(BYTES / 16);
    uint64_t seed = c + 1;
    for (int round = 0; round < 3; round++) {
        const uint64_t nulls = mm_cpu_null_count(&heap);
        const uint32_t n = fill(c, held, seen);
        unit_eq(n, all); /* every slice there is */
        if ((bytes & (bytes - 1)) == 0 && bytes <= 8192)
            unit_holds((double)n * bytes >= 0.98 * (double)BYTES, "%u slices of %u bytes in %u segments", n, bytes, SEGMENTS);
        unit_eq(mm_cpu_null_count(&heap), nulls + 1);
        unit_eq(mm_heap_of(&heap.ref)->null_first_bytes, bytes + 1);
        unit_sound(&heap, (uint64_t)n * bytes);
        for (uint32_t i = 0; i < n; i++) { /* in order, from the back, in any order */
            const uint32_t left = n - i, at = round == 0 ? i : round == 1 ? left - 1 : (uint32_t)(unit_random(&seed) % left);
            mm_cpu_free(&heap, held[at]);
            if (round == 2) held[at] = held[left - 1];
            if (i == n / 2) unit_sound(&heap, (uint64_t)(n - i - 1) * bytes);
        }
        unit_fresh(&heap, SEGMENTS); /* and so the next fill, of the same class, works again */
    }
    unit_eq(unit_misuses(&heap), 0);
    free(held), free(seen);
}
END_TEST

/* What one class gave back serves any other. */
START_TEST(class_after_class) {
    void **held = (void **)malloc(BYTES / 16 * sizeof(void *));
    char *seen = (char *)malloc(BYTES / 16);
    for (uint32_t i = 0; i < 2 * MM_CLASS_COUNT; i++) {
        const uint32_t c = i * 29 % MM_CLASS_COUNT, n = fill(c, held, seen);
        unit_eq(n, mm_class_slices(c) * SEGMENTS);
        for (uint32_t k = 0; k < n; k++) mm_cpu_free(&heap, held[k]);
        unit_fresh(&heap, SEGMENTS);
    }
    free(held), free(seen);
}
END_TEST

START_TEST(free_twice) {
    const uint32_t bytes = mm_class_bytes((uint32_t)_i);
    void *p = mm_cpu_malloc(&heap, bytes), *q = mm_cpu_malloc(&heap, bytes);
    unit_free(&heap, p, 0, bytes, "the first time");
    for (int i = 0; i < 3; i++) unit_free(&heap, p, MM_MISUSE_DOUBLE_FREE, bytes, "a slice again");
    unit_free(&heap, q, 0, 0, "the other");
    unit_fresh(&heap, SEGMENTS);
    unit_free(&heap, p, MM_MISUSE_NOT_ALLOCATED, 0, "a slice of a block that was given back");
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Pointers into slices are told, and free nothing. */
START_TEST(interior) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c), slices = mm_class_slices(c);
    char *first = (char *)mm_cpu_malloc(&heap, bytes), *last = first;
    const uint32_t n = slices < 3000 ? slices - 1 : 3000;
    for (uint32_t i = 1; i < n; i++) last = (char *)mm_cpu_malloc(&heap, bytes);
    unit_eq(last - first, (uint64_t)(n - 1) * bytes); /* in order, whatever blocks they are of */
    const uint64_t live = (uint64_t)n * bytes;
    uint64_t seed = c + 1;
    for (int i = 0; i < 40; i++) {
        const uint32_t in[] = {1, 15, bytes - 1, bytes / 2, bytes < 32 ? 8 : bytes - 16, 1 + (uint32_t)(unit_random(&seed) % (bytes - 1))};
        char *p = (i % 2 ? last : first + unit_random(&seed) % n * bytes) + in[i % 6];
        unit_free(&heap, p, MM_MISUSE_INTERIOR, live, "the middle of a slice");
    }
    unit_free(&heap, last, 0, live - bytes, "a slice");
}
END_TEST

/* Behind the cursor of the open region: never handed out. Of a block that is in a reserve: not allocated. */
START_TEST(never_handed_out) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c), slices = mm_class_slices(c);
    const uint32_t per = 1u << mm_class_block_shift(c), open = per < slices ? per : slices;
    char *p = (char *)mm_cpu_malloc(&heap, bytes);
    unit_holds(p == user, "not the first slice");
    for (uint32_t at = 1; at < slices; at += 1 + slices / 50)
        unit_free(&heap, p + (uint64_t)at * bytes, at < open ? MM_MISUSE_NEVER : MM_MISUSE_NOT_ALLOCATED, bytes, "a slice never handed out");
    unit_free(&heap, p + (uint64_t)(open - 1) * bytes, MM_MISUSE_NEVER, bytes, "the last slice of the block");
    if (open < slices) unit_free(&heap, p + (uint64_t)open * bytes, MM_MISUSE_NOT_ALLOCATED, bytes, "the first slice of the next block");
    unit_free(&heap, p + (uint64_t)(slices - 1) * bytes, open < slices ? MM_MISUSE_NOT_ALLOCATED : MM_MISUSE_NEVER, bytes, "the last slice");
    const uint64_t behind = (uint64_t)slices * bytes;
    if (behind < MM_SEGMENT_BYTES) unit_free(&heap, p + behind, MM_MISUSE_NEVER, bytes, "where the next slice would be");
    for (uint32_t at = 1; at < slices; at++) { /* what was freed in error is handed out none the less, once */
        unit_eq((char *)mm_cpu_malloc(&heap, bytes) - p, (uint64_t)at * bytes);
        if (at % per == per / 2 && (at + 1) % per != 0 && at + 1 < slices)
            unit_free(&heap, p + (uint64_t)(at + 1) * bytes, MM_MISUSE_NEVER, (uint64_t)(at + 1) * bytes, "the next slice");
    }
    unit_sound(&heap, (uint64_t)slices * bytes);
}
END_TEST

/* Once all slices of a segment are out, what lies behind the last one is still none. */
START_TEST(behind_the_last_slice) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c), slices = mm_class_slices(c);
    char *p = (char *)mm_cpu_malloc(&heap, bytes);
    for (uint32_t at = 1; at < slices; at++) mm_cpu_malloc(&heap, bytes);
    const uint64_t live = (uint64_t)slices * bytes;
    uint64_t counted = unit_misuses(&heap);
    for (uint64_t in = live; in < MM_SEGMENT_BYTES; in += 16 + bytes / 64 * 16) {
        const uint64_t never = mm_cpu_misuse_count(&heap, MM_MISUSE_NEVER);
        mm_cpu_free(&heap, p + in);
        unit_eq(unit_misuses(&heap), ++counted);
        unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_NEVER) - never, in == live);
        unit_sound(&heap, live);
    }
}
END_TEST

/* Free once more after the whole block was free: told, whether it is whole, in another stripe, or another's segment. */
START_TEST(free_again_after_all_were_free) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c), per = 1u << mm_class_block_shift(c);
    const uint32_t n = per < mm_class_slices(c) ? per : mm_class_slices(c);
    char *p = (char *)mm_cpu_malloc(&heap, bytes);
    for (uint32_t i = 1; i < n; i++) unit_holds(mm_cpu_malloc(&heap, bytes) == p + (uint64_t)i * bytes, "not in order");
    const uint64_t live = mm_class_blocks(c) > 1 ? bytes : 0; /* of the next block, so that the segment stays */
    if (live) unit_holds(mm_cpu_malloc(&heap, bytes) == p + (uint64_t)n * bytes, "not in order");
    for (uint32_t i = 0; i < n; i++) mm_cpu_free(&heap, p + (uint64_t)i * bytes);
    unit_sound(&heap, live);
    unit_eq(mm_segment_at(&heap.ref, 0)->owner, live ? c + 1 : MM_OWNER_NOBODY);
    for (uint32_t i = 0; i < n; i += 1 + n / 70)
        unit_free(&heap, p + (uint64_t)i * bytes, MM_MISUSE_NOT_ALLOCATED, live, "a slice of a whole block");
    mm_cpu_heap_drain_quiescent(&heap);
    for (uint32_t i = 0; i < n; i += 1 + n / 70)
        unit_free(&heap, p + (uint64_t)i * bytes, MM_MISUSE_NOT_ALLOCATED, live, "a slice of a whole block");
}
END_TEST

/* What is left of former owners: a segment is nobody's, then another class's. */
START_TEST(pointers_of_a_former_owner) {
    char *p = (char *)mm_cpu_malloc(&heap, MM_SLICE_BYTES_MAX); /* the whole segment */
    const uint64_t block = 1u << MM_BLOCK_BYTES_MIN_SHIFT;
    mm_cpu_free(&heap, p);
    mm_cpu_heap_drain_quiescent(&heap);
    unit_free(&heap, p + 5 * block, MM_MISUSE_NOT_ALLOCATED, 0, "a place in a free segment");
    unit_free(&heap, p + MM_SLICE_BYTES_MAX, MM_MISUSE_NOT_ALLOCATED, 0, "a slice of a free segment");
    char *q = (char *)mm_cpu_malloc(&heap, 16);
    unit_holds(q == p, "another place");
    unit_free(&heap, p + 5 * block, MM_MISUSE_NOT_ALLOCATED, 16, "a block in the reserve");
    unit_free(&heap, p + MM_SLICE_BYTES_MAX, MM_MISUSE_NOT_ALLOCATED, 16, "a block in the reserve");
    unit_free(&heap, p + MM_SLICE_BYTES_MAX + 8, MM_MISUSE_INTERIOR, 16, "the middle of nothing");
    unit_free(&heap, q, 0, 0, "the slice");
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Slices that came back one by one are used again, all of them: whatever of a full heap is freed can be had again. */
START_TEST(all_that_came_back_is_used_again) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c);
    void **held = (void **)malloc(BYTES / 16 * sizeof(void *));
    char *seen = (char *)malloc(BYTES / 16);
    static const uint32_t keep[] = {2, 3, 64, 65, 1000, ~0u};
    uint64_t seed = c + 1;
    const uint32_t n = fill(c, held, seen);
    for (int k = 0; k < 6; k++) {
        uint32_t freed = 0, got = 0;
        for (uint32_t i = 0; i < n; i++) { /* one in every so many stays */
            const int stays = k % 2 ? i % keep[k] == 1 : unit_random(&seed) % keep[k] == 0;
            if (!stays) mm_cpu_free(&heap, held[i]), seen[((char *)held[i] - user) / 16] = 0, held[i] = NULL, freed++;
        }
        unit_sound(&heap, (uint64_t)(n - freed) * bytes);
        for (uint32_t i = 0; i < n; i++) {
            if (held[i] != NULL) continue;
            held[i] = mm_cpu_malloc(&heap, bytes);
            unit_holds(held[i] != NULL, "class %u: NULL after %u of %u that came back (one in %u stayed)", c, got, freed, keep[k]);
            char *mark = &seen[((uintptr_t)held[i] - (uintptr_t)user) / 16];
            unit_holds(!*mark, "class %u: handed out twice", c);
            *mark = 1, got++;
        }
        unit_eq(unit_misuses(&heap), 0);
        unit_sound(&heap, (uint64_t)n * bytes);
        unit_holds(mm_cpu_malloc(&heap, bytes) == NULL, "more than there was");
    }
    for (uint32_t i = 0; i < n; i++) mm_cpu_free(&heap, held[i]);
    unit_fresh(&heap, SEGMENTS);
    free(held), free(seen);
}
END_TEST

#define GROWTH_FACTOR 2 /* MM_REUSE_SHARE: 4/3, but for what the guess costs */

/* Random lives at a constant number: the heap does not take ever more segments, the longer it goes on. Slices are used
 * again before fresh segments are taken if they are more than 1 / MM_REUSE_SHARE of what there is, as it is guessed. */
START_TEST(bounded_growth) {
    static const uint32_t sizes[] = {16, 48, 64, 256, 1024, 4096, 65536, 1 << 20};
    const uint32_t c = mm_class_of(sizes[_i % 8]), bytes = mm_class_bytes(c), order = (uint32_t)_i / 8, segments = 160, live = 6;
    const uint32_t most = live * GROWTH_FACTOR;
    struct mm_cpu_heap large;
    unit_le(most, segments / 2);
    unit_create(&large, segments);
    const uint32_t n = (uint32_t)(live * MM_SEGMENT_BYTES / bytes), steps = n * 40 < 600000 ? n * 40 + 2000 : 600000;
    void **held = (void **)calloc(n, sizeof(void *));
    uint64_t seed = c + 1, used = 0;
    for (uint32_t i = 0; i < n; i++) held[i] = mm_cpu_malloc(&large, bytes);
    for (uint32_t i = 0; i < steps; i++) {
        const uint32_t k = order == 0 ? (uint32_t)(unit_random(&seed) % n)                /* any */
                         : order == 1 ? (uint32_t)(i * 64u % n + i * 64u / n % 64) % n /* one in 64, then its neighbours */
                                      : (uint32_t)((uint64_t)i * i % n);
        mm_cpu_free(&large, held[k]);
        held[k] = mm_cpu_malloc(&large, bytes);
        unit_holds(held[k] != NULL, "NULL with hardly anything live");
        if (i % 64 == 0 && segments - mm_cpu_heap_free_segments(&large) > used) used = segments - mm_cpu_heap_free_segments(&large);
    }
    unit_holds(used <= most, "%llu segments for %u live ones, not %u", (unsigned long long)used, live, most);
    unit_sound(&large, (uint64_t)n * bytes);
    for (uint32_t i = 0; i < n; i++) mm_cpu_free(&large, held[i]);
    unit_eq(unit_misuses(&large), 0);
    unit_fresh(&large, segments);
    mm_cpu_heap_destroy(&large);
    free(held);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("slice");
    TCase *tests = tcase_create("slices");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, fill_and_empty, 0, MM_CLASS_COUNT);
    tcase_add_test(tests, class_after_class);
    tcase_add_loop_test(tests, free_twice, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, interior, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, never_handed_out, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, behind_the_last_slice, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, free_again_after_all_were_free, 0, MM_CLASS_COUNT);
    tcase_add_test(tests, pointers_of_a_former_owner);
    tcase_add_loop_test(tests, all_that_came_back_is_used_again, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, bounded_growth, 0, 24);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
