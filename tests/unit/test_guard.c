/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The checked run: what it finds, what it must not find, and that it hands out all memory. */
#include <pthread.h>

#include "runtime/checked/guarded.h"
#include "tests/unit/support.h"

#define SEGMENTS 24

static struct mm_cpu_heap heap;
static struct mm_heap_ref ref;

static void set_up_of(uint64_t segments) {
    ck_assert_int_eq(mm_cpu_heap_create(&heap, segments, segments, 2 * MM_SEGMENT_BYTES), 0);
    mm_heap_image_guard(mm_heap_of(&heap.ref));
    heap.ref = mm_heap_of(&heap.ref)->ref;
    ref = heap.ref;
    ref.guard = (uint64_t)(uintptr_t)calloc(1, mm_guard_bytes(segments));
    ref.open_bytes = 0;
    ref.fill = MM_FILL_JUNK; /* the default of a checked run */
    mm_cpu_grid = 7;
}
static void set_up(void) { set_up_of(SEGMENTS); }
static void tear_down(void) {
    free((void *)(uintptr_t)ref.guard);
    mm_cpu_heap_destroy(&heap);
}

static uint64_t counted(enum mm_misuse kind) { return mm_cpu_misuse_count(&heap, kind); }
static uint64_t all_counted(void) { return unit_misuses(&heap); }

static char *get(uint64_t bytes) {
    char *p = (char *)mm_guard_malloc(&ref, bytes);
    unit_holds(p != NULL, "no %llu bytes", (unsigned long long)bytes);
    return p;
}
/* As on the device: the first part of free leaves a word, which leads the rest to the address. */
static void give(void *p) {
    const uint64_t left = mm_heap_release(&ref, p);
    if (left != 0) mm_guard_free(&ref, (void *)mm_deferred_address(left));
}
static uint64_t usable(const void *p) { return mm_guard_usable_size(&ref, p); }

/* Of small slices, large ones, spans, and runs. */
/* clang-format off */
static const uint64_t kinds_of_size[] = {1,     8,     15,    16,    17,                               31,                 32,     33,
                                         64,    100,   1000,  4096 - MM_GUARD_MORE, 4096,              5000,               8193,   20000,
                                         40000, MM_SLICE_BYTES_MAX - MM_GUARD_MORE, MM_SLICE_BYTES_MAX, 300000, 600000, 3 * MM_SEGMENT_BYTES};
/* clang-format on */
#define SIZES ((int)(sizeof kinds_of_size / sizeof *kinds_of_size))

/* Classes whose blocks have tags have the parts of the directory and of made that they have without. */
START_TEST(places_stay) {
    uint32_t directory = 0, made = 0;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        const struct mm_class k = ref.classes[c];
        unit_eq(k.directory, directory);
        unit_eq(k.directory_length, mm_layout_extents(SEGMENTS, c));
        unit_eq(k.made, made);
        unit_eq(k.made_shift, mm_class_make(c).made_shift);
        directory += k.directory_length, made += 1u << k.made_shift;
    }
}
END_TEST

/* Correct use of every size: nothing is found, and the usable size is the requested one. */
START_TEST(right_use) {
    const uint64_t n = kinds_of_size[_i];
    for (int i = 0; i < 200; i++) {
        char *p = get(n), *q = get(n);
        ck_assert(p != q && usable(p) == n && usable(q) == n);
        memset(p, i, n), memset(q, -i, n);
        for (uint64_t k = 0; k < n; k += n / 7 + 1) ck_assert(p[k] == (char)i);
        give(q), give(p);
        unit_eq(usable(p), 0);
    }
    give(NULL);
    while (mm_guard_empty(&ref)) continue;
    unit_eq(all_counted(), 0);
    unit_sound(&heap, 0);
}
END_TEST

/* An overrun of one byte is found by free, and so are 15 more; a byte before the end is no overrun. */
START_TEST(overruns) {
    const uint64_t n = kinds_of_size[_i];
    uint64_t found = 0;
    for (uint64_t at = n > 3 ? n - 3 : 0; at < n + 16; at++) {
        char *p = get(n);
        p[at] ^= 0x55;
        give(p);
        found += at >= n;
        unit_eq(counted(MM_MISUSE_OVERRUN), found);
    }
    char *far = get(n), *other = get(n);
    const uint64_t granted = mm_heap_usable_size(&heap.ref, far);
    memset(far, 1, granted); /* for large ones, over the tag as well */
    char *tag = far + granted;
    if (mm_guard_is_small(granted)) { /* the tag is at the end of the block */
        const uint64_t block = MM_PAGE_BYTES << mm_class_page_shift(mm_class_of((uint32_t)granted)), at = (uintptr_t)far % block;
        unit_eq(usable(far), n);
        tag = far - at + block - at / granted * sizeof(struct mm_guard_tag);
    }
    for (uint32_t k = 1; k <= sizeof(struct mm_guard_tag); k++) {
        tag[-(int)k] ^= 1;
        unit_eq(usable(far), granted - (mm_guard_is_small(granted) ? MM_GUARD_MORE_SMALL : MM_GUARD_MORE));
        tag[-(int)k] ^= (char)(mm_guard_is_small(granted) ? 1 : 0);
    }
    tag[-1] ^= 1;
    give(far);
    unit_eq(counted(MM_MISUSE_OVERRUN), found + 1);
    unit_eq(usable(other), n);
    give(other);
    while (mm_guard_empty(&ref)) continue;
    unit_eq(all_counted(), found + 1);
    unit_sound(&heap, 0);
}
END_TEST

/* Writes after free: into quarantine, or into memory that is handed out again. Each is reported once. */
START_TEST(after_free) {
    const uint64_t n = kinds_of_size[_i];
    const uint64_t step = n + MM_GUARD_MORE > MM_GUARD_KEPT_BYTES ? 15 : 1; /* large sizes take longer */
    uint64_t found = 0;
    for (uint64_t at = 0; at < n && at < MM_GUARD_BYTES; at += step) {
        char *p = get(n);
        give(p);
        p[at] ^= 0x10;
        found++;
        if (mm_heap_usable_size(&heap.ref, p) != 0) { /* kept */
            ck_assert(mm_guard_empty(&ref));
        } else {
            static void *held[SEGMENTS * MM_SEGMENT_BYTES / MM_GUARD_KEPT_BYTES];
            int count = 0;
            do held[count] = mm_guard_malloc(&ref, n);
            while (held[count] != p && held[count++] != NULL);
            ck_assert_msg(held[count] == p, "it did not come back");
            do give(held[count]);
            while (count-- > 0);
        }
        unit_eq(counted(MM_MISUSE_AFTER_FREE), found);
    }
    unit_eq(all_counted(), found);
    while (mm_guard_empty(&ref)) continue;
    unit_sound(&heap, 0);
}
END_TEST

START_TEST(twice) {
    const uint64_t n = kinds_of_size[_i];
    char *keeps_the_block = get(n), *p = get(n);
    give(p);
    const int is_kept = mm_heap_usable_size(&heap.ref, p) != 0;
    give(p), give(p);
    unit_eq(all_counted(), 2);
    if (is_kept) unit_eq(counted(MM_MISUSE_DOUBLE_FREE), 2);
    while (mm_guard_empty(&ref)) continue;
    give(p);
    unit_eq(all_counted(), 3);
    give(keeps_the_block + 1);
    unit_eq(counted(MM_MISUSE_INTERIOR), 1);
    give(keeps_the_block);
    unit_eq(all_counted(), 4);
}
END_TEST

/* A copy of a whole allocation over another one, including what follows it, is a write past the end. */
START_TEST(copies) {
    static const uint64_t sizes[] = {20000, 300000, 3 * MM_SEGMENT_BYTES};
    char *p = get(sizes[_i]), *q = get(sizes[_i]);
    memcpy(q, p, mm_heap_usable_size(&heap.ref, p));
    give(q);
    unit_eq(counted(MM_MISUSE_OVERRUN), 1);
    give(p);
    unit_eq(all_counted(), 1);
}
END_TEST

/* Memory that went through other classes, spans and runs, and was written to there, raises no report. */
START_TEST(classes_change) {
    static const uint64_t sizes[] = {300000, 5000, 1 << 20, 20000, 3 * MM_SEGMENT_BYTES, 70000, 2 * MM_SEGMENT_BYTES, 20000, 300000};
    static char *held[100000];
    for (int round = 0; round < 36; round++) {
        const uint64_t n = sizes[round % 9];
        int count = 0;
        char *p;
        while (count < 100000 && (p = (char *)mm_guard_malloc(&ref, n)) != NULL) memset(p, round, n), held[count++] = p;
        ck_assert_int_gt(count, 3);
        while (count > 0) give(held[--count]);
        mm_cpu_heap_drain_quiescent(&heap);
    }
    unit_eq(all_counted(), 0);
}
END_TEST

/* Takes all memory as pieces of n bytes, writes to their first bytes only, and gives it back: old tags stay. */
static void write_patches(uint64_t n) {
    static char *held[SEGMENTS * MM_SEGMENT_BYTES / 1000];
    int count = 0;
    while ((held[count] = (char *)mm_guard_malloc(&ref, n)) != NULL) memset(held[count++], 1, n < 100 ? n : 100);
    ck_assert_int_gt(count, 3);
    while (count > 0) give(held[--count]);
    mm_cpu_heap_drain_quiescent(&heap);
}
/* Nor does memory with its old tag still in place. */
START_TEST(tags_outlive) {
    static const uint64_t sizes[] = {20000, 100000, 300000, 2 * MM_SEGMENT_BYTES - MM_GUARD_MORE};
    static const uint64_t others[] = {1000, 12000, 40000, 70000, 500000, MM_SEGMENT_BYTES, 3 * MM_SEGMENT_BYTES};
    const uint64_t n = sizes[_i];
    ref.fill = MM_FILL_NONE; /* a fill would overwrite the tag */
    write_patches(n);
    for (unsigned k = 0; k < sizeof others / sizeof *others; k++) {
        write_patches(others[k]);
        write_patches(n);
        unit_eq(all_counted(), 0);
    }
}
END_TEST

/* Allocates n bytes at p again, as before; other allocations on the way are given back. */
static void get_again(uint64_t n, char *p) {
    static char *held[1000];
    int count = 0;
    while (count < 1000 && (held[count] = (char *)mm_guard_malloc(&ref, n)) != p && held[count]) count++;
    unit_holds(count < 1000 && held[count] == p, "%llu bytes did not come back", (unsigned long long)n);
    do give(held[count]);
    while (count-- > 0);
}
/* Fills memory with allocations of `bytes` bytes; writes 100 bytes at p (freed, of n bytes) if one covers them; gives all back. Returns whether one did. */
static int write_over(char *p, uint64_t bytes) {
    static char *held[1000];
    int count = 0, is_over = 0;
    while (count < 1000 && (held[count] = (char *)mm_guard_malloc(&ref, bytes)) != NULL) {
        if (held[count] <= p && p + 100 <= held[count] + bytes) memset(p, 1, 100), is_over = 1;
        count++;
    }
    while (count > 0) give(held[--count]);
    mm_cpu_heap_drain_quiescent(&heap);
    return is_over;
}
static void set_up_small(uint64_t segments) {
    tear_down();
    set_up_of(segments);
    ref.fill = MM_FILL_NONE;
}
/* Nor does a segment that stays in use all the time; or an allocation that began elsewhere. */
START_TEST(pages_change) {
    static const uint64_t pairs[][2] = {{400000, 100000}, {100000, 400000}, {400000, 12000}, {12000, 400000}};
    const uint64_t n = pairs[_i][0], other = pairs[_i][1];
    set_up_small(1);
    get(70000);
    static char *all[1000];
    int count = 0, overs = 0;
    while ((all[count] = (char *)mm_guard_malloc(&ref, n)) != NULL) count++;
    for (int i = 0; i < count; i++) give(all[i]);
    mm_cpu_heap_drain_quiescent(&heap);
    for (int i = 0; i < count; i++) {
        if (!write_over(all[i], other)) continue;
        get_again(n, all[i]);
        mm_cpu_heap_drain_quiescent(&heap);
        unit_eq(all_counted(), 0);
        overs++;
    }
    ck_assert_int_gt(overs, 0);
}
END_TEST

/* Nor do overlapping runs. */
START_TEST(runs_overlap) {
    set_up_small(3);
    char *const base = (char *)(uintptr_t)ref.user_base;
    for (int round = 0; round < 3; round++) {
        char *p = get(2 * MM_SEGMENT_BYTES - MM_GUARD_MORE); /* taken from the back */
        ck_assert(p == base + MM_SEGMENT_BYTES);
        give(p);
        char *q = (char *)mm_guard_aligned_malloc(&ref, 2 * MM_SEGMENT_BYTES - MM_GUARD_MORE, 2 * MM_SEGMENT_BYTES);
        ck_assert(q == base);
        memset(p, 1, 100);
        give(q);
        unit_eq(all_counted(), 0);
    }
}
END_TEST

/* Memory in quarantine causes no NULL; a NULL is counted once, with the size requested. */
START_TEST(all_memory) {
    static char *held[200000];
    uint64_t first = 0;
    for (int round = 0; round < 3; round++) {
        uint64_t n = 0;
        char *p;
        while ((p = (char *)mm_guard_malloc(&ref, 1000)) != NULL) held[n++] = p;
        if (round == 0) first = n;
        unit_holds(n + n / 16 >= first, "round %d: %llu, %llu at first", round, (unsigned long long)n, (unsigned long long)first);
        unit_eq(mm_cpu_null_count(&heap), (uint64_t)round + 1);
        while (n > 0) give(held[--n]);
    }
    unit_eq(mm_heap_of(&heap.ref)->null_first_bytes, 1001);
    unit_eq(mm_heap_of(&heap.ref)->null_first_grid, 8);
    ck_assert(mm_guard_aligned_malloc(&ref, 100, 0) == NULL && mm_guard_aligned_malloc(&ref, 100, 24) == NULL);
    unit_eq(mm_cpu_null_count(&heap), 3);
    ck_assert(mm_guard_malloc(&ref, ~0ull) == NULL && mm_guard_aligned_malloc(&ref, ~0ull - 20, 64) == NULL);
    unit_eq(mm_cpu_null_count(&heap), 5);
    char *p = (char *)mm_guard_aligned_malloc(&ref, 100, 4096);
    ck_assert(p && (uintptr_t)p % 4096 == 0 && usable(p) == 100);
    give(p);
    unit_eq(all_counted(), 0);
}
END_TEST

/* The contents of a report. */
START_TEST(reports) {
    struct mm_mailbox box;
    memset(&box, 0, sizeof box);
    char *p = get(40);
    ref.mailbox = (uint64_t)(uintptr_t)&box;
    mm_cpu_grid = 9;
    p[40] = 1;
    give(p), give(p);
    p[1] = 1;
    ck_assert(mm_guard_empty(&ref));
    const struct mm_report *r = box.reports;
    const uint32_t kinds[] = {MM_MISUSE_OVERRUN, MM_MISUSE_DOUBLE_FREE, MM_MISUSE_AFTER_FREE};
    for (int i = 0; i < 3; i++) {
        unit_eq(r[i].number, i + 1);
        unit_eq(r[i].kind, kinds[i]);
        unit_eq(r[i].address, (uintptr_t)p);
        unit_eq(r[i].bytes, 40);
        unit_eq(r[i].made_by, 8);
        unit_eq(r[i].freed_by, i == 0 ? 0 : 10);
        unit_eq(r[i].grid, 10);
    }
    unit_eq(r[3].number, 0);
}
END_TEST

#ifdef UNIT_FEW
#define ROUNDS 3000
#else
#define ROUNDS 40000
#endif
static void *work(void *seed_at) {
    uint64_t seed = *(uint64_t *)seed_at;
    char *held[64] = {NULL};
    uint64_t bytes[64];
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t k = (uint32_t)(unit_random(&seed) % 64);
        if (held[k]) {
            for (uint64_t at = 0; at < bytes[k]; at += 61)
                unit_holds(held[k][at] == (char)(k + 1), "byte %llu of %llu", (unsigned long long)at, (unsigned long long)bytes[k]);
            give(held[k]);
            held[k] = NULL;
        } else {
            bytes[k] = 1 + unit_random(&seed) % (unit_random(&seed) % 50 ? 700 : unit_random(&seed) % 10 ? 20000 : 300000);
            held[k] = (char *)mm_guard_malloc(&ref, bytes[k]);
            if (held[k]) memset(held[k], (int)k + 1, bytes[k]);
        }
    }
    for (int k = 0; k < 64; k++) give(held[k]);
    return NULL;
}
START_TEST(threads) {
    pthread_t thread[6];
    uint64_t seeds[6];
    for (int i = 0; i < 6; i++) seeds[i] = (uint64_t)i + 1, pthread_create(&thread[i], NULL, work, &seeds[i]);
    for (int i = 0; i < 6; i++) pthread_join(thread[i], NULL);
    unit_eq(all_counted(), 0);
    while (mm_guard_empty(&ref)) continue;
    unit_eq(all_counted(), 0);
    unit_sound(&heap, 0);
}
END_TEST

/* Threads free random pointers, for long enough that each of the live objects is hit in every way: none of them is
 * harmed, and each such free is counted once. */
#define LIVE 512
#define LIVE_BYTES 112
static char *live[LIVE];
static uint64_t garbage(uint64_t r, uint32_t kind) {
    static char elsewhere[4096];
    const uint64_t at = (uint64_t)(uintptr_t)live[r % LIVE], some = r >> 16, end = ref.user_base + ref.user_bytes;
    switch (kind) {
    case 0: return at + 1 + some % 15;
    case 1: return at + 16 * (1 + some % 7);
    case 2: return at | 1ull << (57 + some % 7);
    case 3: return at | (1 + some % 127) << 57;
    case 4: return 1ull << (57 + some % 7); /* NULL except for that bit */
    case 5: return ref.user_base + some % (ref.user_bytes / 16) * 16 + 8;
    case 6: return end + some;
    case 7: return ref.user_base - 1 - some % ref.user_base;
    case 8: return ~some;
    case 9: return some % 4096 + 1;
    case 10: return r | 1ull << 57;
    default: return (uint64_t)(uintptr_t)(elsewhere + some % sizeof elsewhere);
    }
}
#define KINDS_OF_GARBAGE 12
#define STORMERS 4
static void *storm(void *seed_at) {
    uint64_t seed = *(uint64_t *)seed_at;
    for (uint32_t i = 0; i < ROUNDS; i++) give((void *)(uintptr_t)garbage(unit_random(&seed), i % KINDS_OF_GARBAGE));
    return NULL;
}
START_TEST(garbage_storm) {
    pthread_t thread[STORMERS];
    uint64_t seeds[STORMERS];
    for (int i = 0; i < LIVE; i++) live[i] = get(LIVE_BYTES), memset(live[i], i, LIVE_BYTES);
    for (int i = 0; i < STORMERS; i++) seeds[i] = (uint64_t)i + 1, pthread_create(&thread[i], NULL, storm, &seeds[i]);
    for (int i = 0; i < STORMERS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < LIVE; i++) {
        unit_eq(usable(live[i]), LIVE_BYTES);
        for (int k = 0; k < LIVE_BYTES; k++) unit_holds(live[i][k] == (char)i, "byte %d of object %d", k, i);
    }
    unit_eq(all_counted(), STORMERS * ROUNDS);
    unit_eq(counted(MM_MISUSE_DOUBLE_FREE) + counted(MM_MISUSE_OVERRUN) + counted(MM_MISUSE_AFTER_FREE), 0);
    for (int i = 0; i < LIVE; i++) give(live[i]);
    while (mm_guard_empty(&ref)) continue;
    unit_eq(all_counted(), STORMERS * ROUNDS);
    unit_sound(&heap, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("guard");
    TCase *tests = tcase_create("guard");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, right_use, 0, SIZES);
    tcase_add_loop_test(tests, overruns, 0, SIZES);
    tcase_add_loop_test(tests, after_free, 0, SIZES);
    tcase_add_loop_test(tests, twice, 0, SIZES);
    tcase_add_loop_test(tests, copies, 0, 3);
    tcase_add_test(tests, places_stay);
    tcase_add_test(tests, classes_change);
    tcase_add_loop_test(tests, tags_outlive, 0, 4);
    tcase_add_loop_test(tests, pages_change, 0, 4);
    tcase_add_test(tests, runs_overlap);
    tcase_add_test(tests, all_memory);
    tcase_add_test(tests, reports);
    tcase_add_test(tests, threads);
    suite_add_tcase(suite, tests);
    TCase *races = tcase_create("races");
    tcase_set_timeout(races, 120);
    tcase_add_checked_fixture(races, set_up, tear_down);
    tcase_add_test(races, garbage_storm);
    suite_add_tcase(suite, races);
    return suite_run(suite);
}
