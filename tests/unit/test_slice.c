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
 * the start of its block and seen once. */
static uint32_t fill(uint32_t c, void **held, char *seen) {
    const uint64_t bytes = mm_class_bytes(c), block = 1ull << mm_class_block_shift(c);
    uint32_t n = 0;
    memset(seen, 0, BYTES / 16);
    for (char *p; (p = (char *)mm_cpu_malloc(&heap, bytes)) != NULL; n++) {
        const uint64_t off = (uint64_t)(p - user);
        unit_holds(off < BYTES && off % block % bytes == 0 && off % block + bytes <= block, "class %u: slice at %llu", c, (unsigned long long)off);
        unit_holds(!seen[off / 16], "class %u: handed out twice", c);
        seen[off / 16] = 1;
        held[n] = p;
    }
    return n;
}

START_TEST(fill_and_empty) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c);
    const uint32_t all = mm_class_capacity(c) * (SEGMENTS * MM_SEGMENT_GRANULES / mm_class_block_granules(c));
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
        unit_eq(n, mm_class_capacity(c) * (SEGMENTS * MM_SEGMENT_GRANULES / mm_class_block_granules(c)));
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

/* The published code counts frees: two frees of one slice make up for a live one, and its block is recycled. */
START_TEST(defect_double_free_recycles_a_live_block) {
    const uint32_t bytes = 64, capacity = mm_class_capacity(mm_class_of(bytes));
    void *live = mm_cpu_malloc(&heap, bytes), *p = NULL;
    for (uint32_t i = 1; i < capacity; i++) {
        p = mm_cpu_malloc(&heap, bytes);
        mm_cpu_free(&heap, p);
    }
    for (uint32_t i = 0; i < capacity; i++) unit_free(&heap, p, MM_MISUSE_DOUBLE_FREE, bytes, "again");
    for (uint32_t i = 0; i < BYTES / bytes; i++) unit_holds(mm_cpu_malloc(&heap, bytes) != live, "a live slice handed out");
    unit_free(&heap, live, 0, UNIT_ANY, "the live one");
}
END_TEST

/* The published code frees the slice that a pointer into its middle lies in. */
START_TEST(defect_interior_pointer_frees_the_slice_around_it) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c);
    char *first = (char *)mm_cpu_malloc(&heap, bytes), *last = first;
    const uint32_t capacity = mm_class_capacity(c), n = capacity < 3000 ? capacity - 1 : 3000;
    for (uint32_t i = 1; i < n; i++) last = (char *)mm_cpu_malloc(&heap, bytes);
    unit_eq(last - first, (uint64_t)(n - 1) * bytes); /* one block, its other granules too */
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

START_TEST(never_handed_out) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c), capacity = mm_class_capacity(c);
    char *p = (char *)mm_cpu_malloc(&heap, bytes);
    for (uint32_t at = 1; at < capacity; at += 1 + capacity / 50)
        unit_free(&heap, p + (uint64_t)at * bytes, MM_MISUSE_NEVER, bytes, "a slice never handed out");
    unit_free(&heap, p + (uint64_t)(capacity - 1) * bytes, MM_MISUSE_NEVER, bytes, "the last slice");
    const uint64_t behind = (uint64_t)capacity * bytes;
    if (behind + bytes / 2 < 1ull << mm_class_block_shift(c))
        unit_free(&heap, p + behind, MM_MISUSE_NEVER, bytes, "where the next slice would be");
    for (uint32_t at = 1; at < capacity; at++) unit_eq((char *)mm_cpu_malloc(&heap, bytes) - p, (uint64_t)at * bytes);
    unit_sound(&heap, (uint64_t)capacity * bytes);
}
END_TEST

/* Once all slices of a block are out, what lies behind the last one is still none. */
START_TEST(behind_the_last_slice) {
    const uint32_t c = (uint32_t)_i, bytes = mm_class_bytes(c), capacity = mm_class_capacity(c);
    char *p = (char *)mm_cpu_malloc(&heap, bytes);
    for (uint32_t at = 1; at < capacity; at++) mm_cpu_malloc(&heap, bytes);
    const uint64_t live = (uint64_t)capacity * bytes;
    uint64_t counted = unit_misuses(&heap);
    for (uint64_t in = live; in < 1ull << mm_class_block_shift(c); in += 16 + bytes / 64 * 16) {
        mm_cpu_free(&heap, p + in);
        unit_eq(unit_misuses(&heap), ++counted);
        unit_sound(&heap, live);
    }
}
END_TEST

/* The body of a block of long ago: its granule now belongs to a block of another class, or to none. */
START_TEST(granule_of_a_former_block) {
    char *p = (char *)mm_cpu_malloc(&heap, MM_SLICE_BYTES_MAX); /* the whole segment */
    mm_cpu_free(&heap, p);
    mm_cpu_heap_drain_quiescent(&heap);
    unit_free(&heap, p + 5 * MM_GRANULE_BYTES, MM_MISUSE_NOT_ALLOCATED, 0, "a granule of a free segment");
    unit_free(&heap, p + MM_SLICE_BYTES_MAX, MM_MISUSE_NOT_ALLOCATED, 0, "a slice of a free segment");
    char *q = (char *)mm_cpu_malloc(&heap, 16);
    unit_holds(q == p, "another place");
    unit_free(&heap, p + 5 * MM_GRANULE_BYTES, MM_MISUSE_NOT_ALLOCATED, 16, "a granule of no block");
    unit_free(&heap, p + MM_SLICE_BYTES_MAX, MM_MISUSE_NOT_ALLOCATED, 16, "a granule of no block");
    unit_free(&heap, q, 0, 0, "the slice");
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* A few live slices hold their blocks, not the segment's others: those come back for more. */
START_TEST(one_live_slice_holds_one_block) {
    const uint32_t bytes = 16, capacity = mm_class_capacity(0), blocks = SEGMENTS * MM_SEGMENT_GRANULES;
    void **held = (void **)malloc(BYTES / 16 * sizeof(void *));
    char *seen = (char *)malloc(BYTES / 16);
    const uint32_t n = fill(0, held, seen);
    for (uint32_t i = 0; i < n; i++)
        if (i != 5) mm_cpu_free(&heap, held[i]);
    unit_sound(&heap, bytes);
    uint32_t got = 0;
    while (mm_cpu_malloc(&heap, bytes) != NULL) got++;
    unit_le((blocks - 1) * capacity, got);
    free(held), free(seen);
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
    tcase_add_test(tests, defect_double_free_recycles_a_live_block);
    tcase_add_loop_test(tests, defect_interior_pointer_frees_the_slice_around_it, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, never_handed_out, 0, MM_CLASS_COUNT);
    tcase_add_loop_test(tests, behind_the_last_slice, 0, MM_CLASS_COUNT);
    tcase_add_test(tests, granule_of_a_former_block);
    tcase_add_test(tests, one_live_slice_holds_one_block);
    suite_add_tcase(suite, tests);
    return unit_main(suite);
}
