/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The usage walk of allocators of listed segments (runtime/usage.h), compared with an account of the calls. */
#include "tests/unit/steps.h"

#include "runtime/usage.h"
#include "tests/unit/eight.h"

#define HELD 600

/* The live objects of the test. bytes: as granted. */
static struct {
    uint8_t *p;
    uint64_t asked, bytes;
} held[HELD];

/* Of the walk in so many parts. */
static struct mm_usage walked(uint32_t parts) {
    struct mm_usage u;
    memset(&u, 0, sizeof u);
    for (uint32_t part = 0; part < parts; part++) mm_usage_walk(ref, part * SEGMENTS / parts, (part + 1) * SEGMENTS / parts, &u);
    return u;
}

/* What a request is granted; found without the words that the walk reads. */
static uint64_t granted(const uint8_t *p, uint64_t bytes) {
    (void)p;
#ifdef MM_RING_UNIT_BYTES
    if (bytes <= MM_SMALL_BYTES_MAX) {
        const uint64_t unit = ((uint64_t)p - MM_RING_HEADER_BYTES - ref->user_base) / MM_RING_UNIT_BYTES;
        const uint32_t units = mm_ring_header(ref, unit)->end - (uint32_t)unit % MM_RING_UNITS;
        unit_holds(units >= mm_listed_units(bytes) && units <= mm_listed_units(bytes) * 9 / 8, "%u units for %u bytes", units, (unsigned)bytes);
        return (uint64_t)units * MM_RING_UNIT_BYTES - MM_RING_HEADER_BYTES;
    }
#endif
    return unit_taken(bytes);
}

static int hold(uint32_t i, uint64_t bytes) {
    held[i].p = take(bytes);
    if (held[i].p == NULL) return 0;
    const uint32_t owner = *mm_page_owner(ref, (uint32_t)(((uint64_t)held[i].p - ref->user_base) >> MM_PAGE_SHIFT));
    if (bytes <= MM_SMALL_BYTES_MAX && mm_owner_is_span(owner))
        held[i].asked = MM_SMALL_BYTES_MAX + 1, held[i].bytes = mm_owner_span_pages(owner) * MM_PAGE_BYTES;
    else held[i].asked = bytes, held[i].bytes = granted(held[i].p, bytes);
    return 1;
}
static void drop(uint32_t i) {
    mm_heap_free(ref, held[i].p);
    held[i].p = NULL;
}

#ifndef MM_BUMP_PLACE_SHIFT
/* The smallest class for an object, by a search. */
static uint32_t class_for(uint64_t bytes) {
    uint32_t c = 0;
    while (mm_class_bytes(c) < bytes) c++;
    return c;
}
/* Compares with `held` and with the heap. */
static void agrees(void) {
    static uint64_t live[MM_USAGE_CLASSES], bytes[MM_USAGE_CLASSES];
    const struct mm_usage u = walked(1), parts = walked(3);
    uint64_t spans = 0, span_bytes = 0, runs = 0, run_bytes = 0, small = 0;
    memset(live, 0, sizeof live), memset(bytes, 0, sizeof bytes);
    for (uint32_t i = 0; i < HELD; i++) {
        const uint64_t has = held[i].bytes;
        if (held[i].p == NULL) continue;
        if (held[i].asked <= MM_SMALL_BYTES_MAX) live[class_for(has)]++, bytes[class_for(has)] += has, small += has;
        else if (held[i].asked <= 56 * MM_PAGE_BYTES) spans++, span_bytes += has;
        else runs++, run_bytes += has;
    }
    for (uint32_t c = 0; c < MM_USAGE_CLASSES; c++) {
        unit_holds(u.classes[c].live == live[c], "class %u: %llu live, not %llu", c, (unsigned long long)u.classes[c].live, (unsigned long long)live[c]);
        unit_eq(u.classes[c].bytes, bytes[c]);
        unit_eq(parts.classes[c].live, live[c]);
        unit_eq(u.classes[c].pages + u.classes[c].blocks + u.classes[c].free_blocks, 0);
    }
    unit_eq(u.small_bytes, small);
    unit_eq(u.small_pages, mm_list_count(ref) * MM_SEGMENT_PAGES);
    unit_eq(u.uncounted_pages, 0);
    unit_eq(u.spans, spans);
    unit_eq(u.span_pages * MM_PAGE_BYTES, span_bytes);
    unit_eq(u.runs, runs);
    unit_eq(u.run_segments * MM_SEGMENT_BYTES, run_bytes);
    unit_eq(u.small_pages + u.span_pages + u.free_pages, u.paged_segments * MM_SEGMENT_PAGES);
    unit_eq(u.free_segments, mm_cpu_heap_free_segments(&heap));
    unit_eq(u.free_segments + u.paged_segments + u.run_segments, SEGMENTS);
}

/* One of each of these sizes, then less and less of them. */
START_TEST(known_sizes) {
    static const uint64_t sizes[] = {0,      1,      16, 100, 240, 256, 257, 512, 513, 1000, 5000, 8192, 8193, 60000, 65536, 65537, 100000, MM_SMALL_BYTES_MAX,
                                     600000, 3 << 20};
    const uint32_t n = sizeof sizes / sizeof *sizes;
    memset(held, 0, sizeof held);
    agrees();
    for (uint32_t i = 0; i < n; i++) {
        unit_holds(hold(i, sizes[i]), "%llu bytes", (unsigned long long)sizes[i]);
        agrees();
    }
    for (uint32_t i = 0; i < n; i += 2) drop(i), agrees();
    for (uint32_t i = 1; i < n; i += 2) drop(i), agrees();
    mm_cpu_heap_drain_quiescent(&heap);
    agrees();
    if (!UNIT_KEEPS) unit_eq(walked(1).free_segments, SEGMENTS);
}
END_TEST

/* Any sizes, until the heap is full, and back. */
START_TEST(at_random) {
    uint64_t seed = (uint64_t)_i + 1;
    memset(held, 0, sizeof held);
    for (int step = 0; step < 20000; step++) {
        const uint32_t i = (uint32_t)(unit_random(&seed) % (step % 4000 < 2000 ? HELD : HELD / 4));
        if (held[i].p != NULL) drop(i);
        else hold(i, unit_random(&seed) % (1ull << unit_random(&seed) % 20));
        if (step % 200 == 0) agrees();
    }
    for (uint32_t i = 0; i < HELD; i++)
        if (held[i].p != NULL) drop(i);
    agrees();
}
END_TEST

/* A walk at each step of malloc and of free: it counts the other objects, and at most as many bytes as there are with this one. */
static uint64_t other_bytes, most_bytes, others;
static struct mm_usage meanwhile;
static void begin(void) {
    tear_down(), set_up();
    memset(held, 0, sizeof held);
    for (uint32_t i = 0; i < 4; i++) hold(i, 5000);
    other_bytes = walked(1).small_bytes, others = 4;
    hold(4, 9000);
    most_bytes = other_bytes + held[4].bytes;
}
static void begin_to_take(void) { begin(), drop(4); }
static void take_one(void) { hold(4, 9000); }
static void free_one(void) { drop(4); }
static void walk(void) { meanwhile = walked(1); }
static void look(void) {
    uint64_t live = 0;
    for (uint32_t c = 0; c < MM_USAGE_CLASSES; c++) live += meanwhile.classes[c].live;
    unit_le(others, live);
    unit_le(live, others + 2); /* units are claimed word by word */
    unit_le(other_bytes, meanwhile.small_bytes);
    unit_le(meanwhile.small_bytes, most_bytes);
}
START_TEST(at_each_step) {
    unit_lt(3, unit_at_each_step(begin_to_take, take_one, walk, look));
    unit_lt(2, unit_at_each_step(begin, free_one, walk, look));
}
END_TEST

#else
/* What was added up, whatever is freed, to the last byte of the heap; then nothing, or all of it anew. _i: whether the list has several segments from the
 * beginning. */
START_TEST(all_of_the_heap) {
    const uint64_t all = SEGMENTS * MM_SEGMENT_BYTES;
    for (int i = 0; i < 4 * _i; i++) mm_list_add(ref, 1, MM_LISTED_ANY);
    for (uint64_t bytes = 16; bytes <= all; bytes += 16) {
        mm_heap_free(ref, take(bytes % 17));
        if (bytes % 65536 > 32 && bytes != all) continue;
        const struct mm_usage u = walked(1), parts = walked(3);
        unit_eq(u.small_bytes, bytes);
        unit_eq(parts.small_bytes, bytes);
        unit_eq(u.small_pages, mm_list_count(ref) * MM_SEGMENT_PAGES);
        unit_eq(u.uncounted_pages, u.small_pages);
        for (uint32_t c = 0; c < MM_USAGE_CLASSES; c++) unit_eq(u.classes[c].live, 0);
        unit_eq(u.free_segments + u.paged_segments, SEGMENTS);
    }
    take(32);
    unit_eq(walked(1).small_bytes, MM_REGEFF_FACE == MM_REGEFF_AW ? 32 : all);
}
END_TEST

/* Spans and runs are counted one by one. What is left over at a segment's end counts as used. */
START_TEST(larger_ones) {
    memset(held, 0, sizeof held);
    unit_holds(take(100) != NULL && hold(0, MM_SMALL_BYTES_MAX + 1) && hold(1, 3 << 20), "one of each");
    struct mm_usage u = walked(1);
    unit_eq(u.small_bytes, 112);
    unit_eq(u.spans, 1);
    unit_eq(u.runs, 1);
    unit_eq(u.span_pages * MM_PAGE_BYTES, unit_taken(MM_SMALL_BYTES_MAX + 1));
    unit_eq(u.run_segments, 3);
    drop(0), drop(1);
    while (mm_list_count(ref) == 1) unit_holds(take(MM_SMALL_BYTES_MAX) != NULL, "one more");
    u = walked(1);
    unit_eq(u.small_bytes, MM_SEGMENT_BYTES + mm_round_up(MM_SMALL_BYTES_MAX, 16));
    unit_eq(u.spans + u.runs, 0);
}
END_TEST

/* Callers have added in vain, and nobody has gone on to the next segment yet. */
START_TEST(beyond_the_end) {
    mm_list_add(ref, 1, MM_LISTED_ANY), mm_list_add(ref, 1, MM_LISTED_ANY);
    *mm_bump_word(ref) = MM_SEGMENT_BYTES + 4096;
    unit_eq(walked(1).small_bytes, MM_SEGMENT_BYTES);
}
END_TEST
#endif

/* The walk over a copy that was made during changes: it counts what it can, and stays in bounds. */
START_TEST(rubbish) {
    uint64_t seed = 7;
    const uint32_t first = 3, end = 5; /* segments */
    mm_list_add(ref, 1, MM_LISTED_ANY);
    for (int round = 0; round < 300; round++) {
        for (uint32_t page = first * MM_SEGMENT_PAGES; page < end * MM_SEGMENT_PAGES; page++) {
            *mm_page_owner(ref, page) = unit_random(&seed) % 4 ? MM_LISTED_OWNER : (uint8_t)unit_random(&seed);
            if (page % MM_SEGMENT_PAGES == 0)
                *mm_page_owner(ref, page) = MM_LISTED_OWNER, *mm_list_index(ref, page / MM_SEGMENT_PAGES) = (uint32_t)unit_random(&seed);
            for (uint32_t i = 0; i < 1u << ref->word_shift; i++)
                mm_page_words(ref, page)[i] = unit_random(&seed) | (round % 2 ? unit_random(&seed) | unit_random(&seed) : round % 4 ? ~0ull : 0);
        }
        for (uint32_t s = first; s < end; s++) mm_tree_erase(mm_segment_free_tree(ref), s), mm_segment_at(ref, s)->pages = unit_random(&seed);
#ifdef MM_BUMP_PLACE_SHIFT
        *mm_bump_word(ref) = unit_random(&seed);
#endif
        struct mm_usage u;
        memset(&u, 0, sizeof u);
        mm_usage_walk(ref, first, end, &u);
        unit_eq(u.small_pages, (end - first) * MM_SEGMENT_PAGES);
        unit_le(u.small_bytes, (end - first) * MM_SEGMENT_BYTES);
        unit_eq(u.paged_segments, end - first);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("listed_usage");
    TCase *tests = tcase_create("listed_usage");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, rubbish);
#ifndef MM_BUMP_PLACE_SHIFT
    tcase_add_test(tests, known_sizes);
    tcase_add_loop_test(tests, at_random, 0, 3);
    tcase_add_test(tests, at_each_step);
#else
    tcase_add_loop_test(tests, all_of_the_heap, 0, 2);
    tcase_add_test(tests, larger_ones);
    tcase_add_test(tests, beyond_the_end);
#endif
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
