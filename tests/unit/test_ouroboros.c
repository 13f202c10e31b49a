/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Ouroboros (runtime/ouroboros), built once for each of its allocators: lives of pages, what free tells apart, NULL, use of chunks for another size,
 * and the faults of the published code. Queues alone: test_queues.c; that are full: test_full_queues.c; hints: test_hints.c. */
#include "tests/unit/steps.h"

#include "tests/unit/listed.h"
#include "tests/unit/ouro.h"

#define LIVES_LOG 16
#define LIVES_HEADER_BYTES 0
static uint64_t lives_align(uint64_t bytes) { return bytes <= MM_SMALL_BYTES_MAX ? unit_taken(bytes) : MM_PAGE_BYTES; }
/* A page of the heap, if the list has nothing left. */
static int lives_is_usable(uint64_t bytes, uint64_t usable) { return usable == MM_PAGE_BYTES || usable == unit_taken(bytes); }
#include "tests/unit/lives.h"

static void shuffle(uint32_t n) {
    uint64_t seed = 7;
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t k = (uint32_t)(unit_random(&seed) % i);
        uint8_t *const p = all_held[i - 1];
        all_held[i - 1] = all_held[k], all_held[k] = p;
    }
}
static long accesses;
static void count_access(void) { accesses++; }

/* ---- misuse ------------------------------------------------------------------------------------ */

/* A request's class, and alignment up to a chunk. */
START_TEST(sizes_and_alignment) {
    for (uint32_t q = 0; q < MM_OURO_CLASSES; q++) {
        unit_eq(mm_listed_units(16ull << q), q + 1);
        unit_eq(mm_listed_units((16ull << q) - 1), q + 1);
        if (q != 0) unit_eq(mm_listed_units((8ull << q) + 1), q + 1);
        uint8_t *p = (uint8_t *)mm_heap_aligned_malloc(ref, 1, 16ull << q);
        unit_eq((uint64_t)p % (16u << q), 0);
        unit_eq(mm_heap_usable_size(ref, p), 16ull << q);
        mm_heap_free(ref, p);
    }
    unit_eq(mm_listed_units(0), 1);
    uint8_t *p = (uint8_t *)mm_heap_aligned_malloc(ref, 1, 2 * MM_OURO_CHUNK_BYTES);
    unit_eq((uint64_t)p % (2 * MM_OURO_CHUNK_BYTES), 0);
    mm_heap_free(ref, p);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

START_TEST(misuses) {
    uint8_t *one = take(16), *next = take(16), *large = take(8192), *span = take(MM_SMALL_BYTES_MAX + 1), *run = take(3 * MM_SEGMENT_BYTES);
    const uint64_t others = 8192 + unit_taken(MM_SMALL_BYTES_MAX + 1) + 3 * MM_SEGMENT_BYTES, live = 32 + others;
    unit_free(&heap, NULL, 0, live, "NULL");
    unit_free(&heap, &heap, MM_MISUSE_FOREIGN, live, "a variable");
    unit_free(&heap, one + 8, MM_MISUSE_INTERIOR, live, "inside a page");
    unit_free(&heap, large + 16, MM_MISUSE_INTERIOR, live, "inside a large page");
    unit_free(&heap, large + 4096, MM_MISUSE_INTERIOR, live, "in the middle of a large page");
    unit_free(&heap, span + MM_PAGE_BYTES - 8192, MM_MISUSE_INTERIOR, live, "inside a span");
    unit_free(&heap, run + MM_SEGMENT_BYTES, MM_MISUSE_INTERIOR, live, "inside a run");
    unit_free(&heap, one + 64, MM_MISUSE_DOUBLE_FREE, live, "a page that is free");
    for (uint32_t bit = 0; bit < 64; bit++) /* whatever its masks hold */
        unit_free(&heap, large + 8192 + 16 * bit, MM_MISUSE_DOUBLE_FREE, live, "a chunk that is free");
    unit_eq(mm_heap_usable_size(ref, one + 64) + mm_heap_usable_size(ref, one + 8) + mm_heap_usable_size(ref, large + 16), 0);
    unit_free(&heap, one, 0, live - 16, "a page");
    unit_free(&heap, one, MM_MISUSE_DOUBLE_FREE, live - 16, "a page, again");
    unit_eq(mm_heap_usable_size(ref, one), 0);
    unit_free(&heap, next, 0, others, "the last page of a chunk");
    unit_free(&heap, next, MM_MISUSE_DOUBLE_FREE, others, "the last page of a chunk, again");
    unit_free(&heap, large, 0, others - 8192, "a large page");
    unit_free(&heap, large, MM_MISUSE_DOUBLE_FREE, others - 8192, "a large page, again");
    unit_free(&heap, span, 0, 3 * MM_SEGMENT_BYTES, "a span");
    unit_free(&heap, run, 0, 0, "a run");
    mm_cpu_heap_drain_quiescent(&heap);
    unit_free(&heap, one, UNIT_KEEPS ? MM_MISUSE_DOUBLE_FREE : MM_MISUSE_NOT_ALLOCATED, 0, "of a segment that was given back");
}
END_TEST

START_TEST(two_frees_at_once) {
    static const uint32_t sizes[] = {16, 1024, 8192};
    two_frees(sizes[_i], 16);
}
END_TEST

/* ---- NULL and chunks ---------------------------------------------------------------------------- */

/* Every page of the heap is handed out, then NULL; a page that comes back is found. The published code ignores that there is no chunk, and overruns the heap. */
START_TEST(to_the_last_page) {
    static const uint64_t sizes[] = {16, 64, 512, 4096, 8192};
    const uint64_t bytes = sizes[_i];
    const uint32_t n = take_all(bytes);
    unit_eq(n, SEGMENTS * MM_SEGMENT_BYTES / bytes);
    unit_sound(&heap, n * bytes);
    for (uint32_t i = 0; i < n; i++) unit_holds((uint64_t)all_held[i] - ref->user_base <= SEGMENTS * MM_SEGMENT_BYTES - bytes, "beyond the heap");
    for (uint32_t i = 0; i < 20; i++) {
        const uint32_t k = i * 7919 % n;
        mm_heap_free(ref, all_held[k]);
        if (bytes < 8192) unit_holds(take(2 * bytes) == NULL, "two pages where one is free");
        unit_holds(take(bytes) == all_held[k], "the one that came back");
        unit_holds(take(bytes) == NULL, "more than there is");
    }
    free_all(n);
    unit_eq(unit_misuses(&heap), 0);
    unit_eq(refused(), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Memory that was freed is had again: of the same size by all; of another size by chunk allocators, for which all of it is. */
START_TEST(another_size) {
    static const uint64_t sizes[][2] = {{16, 4096}, {4096, 16}, {8192, 128}, {1024, 8192}};
    const uint64_t before = sizes[_i][0], after = sizes[_i][1];
    uint32_t n = take_all(before);
    unit_eq(n, SEGMENTS * MM_SEGMENT_BYTES / before);
    shuffle(n);
    free_all(n);
    unit_sound(&heap, 0);
    n = take_all(after);
    unit_eq(n, IS_CHUNKS ? SEGMENTS * MM_SEGMENT_BYTES / after : 0);
    unit_sound(&heap, n * after);
    free_all(n);
    n = take_all(before);
    unit_eq(n, SEGMENTS * MM_SEGMENT_BYTES / before);
    shuffle(n);
    free_all(n);
    unit_eq(refused(), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Churn, with which all six published allocators crash or hang: half of the memory is freed and allocated again, many times. It never needs more memory, and a
 * queue gets no more entries than there are masks or chunks. */
START_TEST(churn) {
    const uint32_t n = ALL / 4;
    uint64_t seed = 3;
    for (uint32_t i = 0; i < n; i++) all_held[i] = take(16);
    const uint32_t count = mm_list_count(ref);
    for (int round = 0; round < 20; round++) {
        shuffle(n);
        for (uint32_t i = 0; i < n / 2; i++) mm_heap_free(ref, all_held[i]);
        for (uint32_t i = 0; i < n / 2; i++) unit_holds((all_held[i] = take(1 + unit_random(&seed) % 16)) != NULL, "NULL");
        unit_sound(&heap, n * 16);
        for (uint32_t q = 0; q < MM_OURO_QUEUES; q++) unit_le(mm_queue_of(ref, q)->count, count * MM_OURO_SEGMENT_CHUNKS * (IS_CHUNKS ? 1 : MM_OURO_MASKS));
    }
    unit_eq(mm_list_count(ref), count);
    free_all(n);
    unit_eq(refused(), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

#define ONE_ROUNDS 20000
/* One object again and again, of each size in turn: the chunk is cut anew each time by chunk allocators. No queue fills with entries of old classes. */
START_TEST(one_object) {
    accesses = 0, unit_each_step = count_access;
    for (uint32_t i = 0; i < ONE_ROUNDS; i++) {
        const uint64_t bytes = 16ull << (_i ? 0 : i % MM_OURO_CLASSES);
        uint8_t *const p = take(bytes);
        unit_holds(p != NULL, "NULL");
        mm_heap_free(ref, p);
    }
    unit_each_step = NULL;
    if (getenv("UNIT_VERBOSE")) printf("one object, %s: %.1f accesses\n", _i ? "of 16 bytes" : "of any size", (double)accesses / ONE_ROUNDS);
    unit_le(accesses, ONE_ROUNDS * (IS_CHUNKS ? 40 : 80));
    if (IS_CHUNKS) unit_le(mm_queue_of(ref, MM_OURO_FREE)->back, MM_OURO_CLASSES); /* its free chunk stays in the cell */
    for (uint32_t q = 0; q < MM_OURO_CLASSES; q++) unit_le(mm_queue_of(ref, q)->count, MM_OURO_SEGMENT_CHUNKS);
    unit_eq(mm_list_count(ref), 1);
    unit_sound(&heap, 0);
    unit_eq(refused(), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

#if IS_CHUNKS
/* Segments without live pages serve spans and runs, and come back; the queue of free chunks keeps entries for them, one each. */
START_TEST(segments_go_and_come) {
    for (int round = 0; round < 3; round++) {
        const uint32_t n = take_all(256);
        unit_eq(n, SEGMENTS * MM_SEGMENT_BYTES / 256);
        free_all(n);
        uint8_t *run = take((SEGMENTS - 1) * MM_SEGMENT_BYTES), *span = take(MM_SMALL_BYTES_MAX + 1);
        unit_holds(run != NULL && span != NULL, "round %d: NULL while all is free", round);
        void *const rest = take(256); /* a page of the span's segment */
        unit_holds(rest != NULL && mm_list_count(ref) == 0, "no more segments than there are");
        memset(run, 0xff, (SEGMENTS - 1) * MM_SEGMENT_BYTES);
        mm_heap_free(ref, rest);
        mm_heap_free(ref, run), mm_heap_free(ref, span);
        unit_le(mm_queue_of(ref, MM_OURO_FREE)->count, SEGMENTS * MM_OURO_SEGMENT_CHUNKS);
    }
    unit_eq(refused(), 0);
}
END_TEST
#endif

#if IS_CHUNKS
/* A segment that comes back is known: queues have entries for its chunks still, or not any more, and no chunk gets a second one. */
START_TEST(a_segment_that_comes_back) {
    static uint8_t entries[MM_OURO_QUEUES][SEGMENTS * MM_OURO_SEGMENT_CHUNKS];
    const struct mm_queue *const fresh = mm_queue_of(ref, MM_OURO_FRESH);
    memset(entries, 0, sizeof entries);
    free_all(take_all(256));
    unit_eq(fresh->back, SEGMENTS * MM_OURO_SEGMENT_CHUNKS);
    uint8_t *run = take(SEGMENTS * MM_SEGMENT_BYTES);
    unit_holds(run != NULL && mm_list_count(ref) == 0, "a segment stays");
    for (uint32_t i = 0; i < 8; i++) unit_holds(take(256) == NULL, "more than there is"); /* entries of the queue are dropped */
    mm_heap_free(ref, run);
    unit_holds(take(256) != NULL, "NULL");
    unit_sound(&heap, 256);
    unit_eq(fresh->back, SEGMENTS * MM_OURO_SEGMENT_CHUNKS);
    for (uint32_t q = 0; q < MM_OURO_QUEUES; q++)
        for (uint64_t i = 0; i < mm_queue_check_many(ref, q); i++) {
            const uint32_t entry = mm_queue_check_slot(ref, q, i);
            if (mm_slot_has_entry(entry)) unit_eq(entries[q][entry - 1]++, 0);
        }
}
END_TEST
#endif

/* The last page of a chunk is freed while another caller wants memory of any size, at each step: the chunk is used for one size at a time, and nothing is lost. */
static uint8_t *last_page, *got_page;
static uint64_t wanted_bytes;
static void free_last(void *arg) { (void)arg, mm_heap_free(ref, last_page); }
static void want(void *arg) { (void)arg, got_page = take(wanted_bytes); }
static void free_or_want(void *arg) { (arg != NULL ? want : free_last)(NULL); }
START_TEST(a_chunk_that_becomes_free) {
    static const uint64_t sizes[] = {16, 4096, 8192};
    void *args[2] = {NULL, &got_page};
    int ended = 0;
    for (long a = 0; !(ended & 1); a++)
        for (long b = 0; b < 60; b += 1 + b / 8) {
            last_page = take(16), wanted_bytes = sizes[_i];
            ended = unit_interleave(free_or_want, args, a, b, 1);
            unit_holds(got_page != NULL, "NULL");
            unit_sound(&heap, wanted_bytes);
            mm_heap_free(ref, got_page);
            unit_sound(&heap, 0);
        }
    unit_eq(refused(), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

#if IS_CHUNKS
/* A caller that reserves more pages than the mask has that it comes to gives the others back. */
START_TEST(pages_of_two_masks) {
    const uint32_t n = take_all(16), chunk = mm_list_segment(ref, 0) * MM_OURO_SEGMENT_CHUNKS + 5;
    uint8_t *const begin = (uint8_t *)mm_chunk_address(ref, chunk * MM_OURO_MASKS, 0, 0);
    unit_eq(n, ALL);
    mm_heap_free(ref, begin), mm_heap_free(ref, begin + 200 * 16);
    uint64_t seen = 0;
    for (uint32_t left = 2; left-- > 0;) {
        const struct mm_pages_got got = mm_chunk_take(ref, chunk, 0, 2, 1);
        unit_eq(mm_popcount(got.bits), 1);
        unit_eq(mm_chunk_count(*mm_chunk_header(ref, chunk)), left);
        seen += mm_chunk_address(ref, got.mask, mm_ctz(got.bits), 0) - (uint64_t)begin;
    }
    unit_eq(seen, 200 * 16);
    unit_eq(mm_chunk_take(ref, chunk, 0, 2, 1).bits, 0);
    unit_sound(&heap, (uint64_t)n * 16);
}
END_TEST
#endif

#if IS_CHUNKS
/* A page is freed a second time when its chunk has another class, and another caller reserves a page of the chunk at any step, or takes one while another is
 * free: the second free is undone, or it counts, but no page is counted that is not free. */
static uint32_t again_mask;
static int again_misuse;
static void free_again(void *arg) {
    (void)arg;
    mm_or_release_u64(mm_chunk_mask(ref, again_mask), 4);
    uint32_t q = 0, entry = MM_QUEUE_NONE;
    again_misuse = mm_chunk_count_free(ref, again_mask / MM_OURO_MASKS, again_mask, 4, &q, &entry);
    mm_entries_put(ref, 1, q, entry, 1, MM_OURO_LONG_LOOKS);
}
START_TEST(a_second_free_in_another_class) {
    const uint64_t live = (uint64_t)take_all(32) * 32;
    uint32_t seen[2] = {0, 0};
    again_mask = (mm_list_segment(ref, 0) * MM_OURO_SEGMENT_CHUNKS + 5) * MM_OURO_MASKS;
    uint64_t *const header = mm_chunk_header(ref, again_mask / MM_OURO_MASKS), before = *header;
    int done = 0;
    for (long steps = 0; !done; steps++) {
        if (_i) mm_heap_free(ref, (void *)mm_chunk_address(ref, again_mask, 5, 1));
        unit_actor_make(0, free_again, NULL);
        unit_go(0, steps);
        done = unit_actor[0].done;
        const uint32_t reserved = !_i && mm_chunk_count(*header) != 0,
                       taken = _i ? mm_popcount(mm_chunk_take(ref, again_mask / MM_OURO_MASKS, 1, 1, 1).bits) : 0;
        *header -= reserved;
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        *header += reserved;
        seen[again_misuse != 0]++;
        const uint32_t free = (uint32_t)_i + (again_misuse == 0) - taken;
        unit_sound(&heap, live - 32 * free);
        for (uint32_t i = 0; i < free; i++) unit_holds(take(32) != NULL, "a page is lost");
        unit_eq((uint32_t)*header, (uint32_t)before);
    }
    unit_holds(seen[0] != 0 && seen[1] != 0, "undone %u times, %u times not", seen[1], seen[0]);
}
END_TEST
#endif

/* ---- accesses ----------------------------------------------------------------------------------- */

static double each(uint64_t bytes, uint32_t n, int frees) {
    accesses = 0, unit_each_step = count_access;
    for (uint32_t i = 0; i < n; i++) {
        if (frees) mm_heap_free(ref, all_held[i]);
        else unit_holds((all_held[i] = take(bytes)) != NULL, "NULL");
    }
    unit_each_step = NULL;
    return (double)accesses / n;
}
/* Accesses to memory of a call, on average, in a heap that is fresh; that is warm; in which a tenth of the pages is free, here and there. */
START_TEST(few_accesses) {
    const uint64_t bytes = _i ? 1024 : 16;
    const uint32_t n = (uint32_t)(SEGMENTS * MM_SEGMENT_BYTES / bytes), few = n / 10;
    const double fresh = each(bytes, n, 0);
    shuffle(n);
    const double back = each(bytes, n, 1), warm = each(bytes, n, 0);
    shuffle(n);
    const double some = each(bytes, few, 1), full = each(bytes, few, 0);
    if (getenv("UNIT_VERBOSE"))
        printf("%d bytes: malloc %.1f fresh, %.1f warm, %.1f nearly full; free %.1f, %.1f\n", (int)bytes, fresh, warm, full, back, some);
    const int is_soon = bytes == 16; /* nearly all calls end with the first draw */
    unit_holds(fresh <= (is_soon ? 6 : 26) && warm <= (is_soon ? 6 : 24) && full <= (is_soon ? 9 : 24), "malloc: %.1f fresh, %.1f warm, %.1f nearly full",
               fresh, warm, full);
    unit_holds(back <= 10 && some <= 10, "free: %.1f, %.1f", back, some);
}
END_TEST

/* Of two rows the later one enters first: its chunks can be taken when the earlier one has entered, too. */
START_TEST(rows_in_another_order) {
    mm_list_add(ref, 1, MM_LISTED_ANY);
    const struct mm_queue *fresh = mm_queue_of(ref, MM_OURO_FRESH);
    const uint64_t back = fresh->back;
    const uint32_t row = mm_fresh_rows(ref, 2);
    mm_fresh_enters(ref, SEGMENTS - 1, row + 1);
    unit_eq(mm_fresh_entered(ref, 1), 0);
    unit_eq(fresh->back, back);
    mm_fresh_enters(ref, SEGMENTS - 2, row);
    unit_eq(mm_fresh_entered(ref, 1), 2 * MM_OURO_SEGMENT_CHUNKS);
    unit_eq(fresh->back, back + 2 * MM_OURO_SEGMENT_CHUNKS);
}
END_TEST

/* The more lanes call, the more segments come at once; of a small heap a quarter. */
START_TEST(lanes_that_let_the_list_grow) {
    uint64_t *mapped = &mm_heap_of(ref)->grow.mapped;
    unit_eq(*mapped, SEGMENTS);
    unit_eq(mm_list_wanted(ref, 0, 32), SEGMENTS / 4);
    *mapped = 1000;
    unit_eq(mm_list_wanted(ref, 0, 1), 1);
    unit_eq(mm_list_wanted(ref, 0, 16), MM_LISTED_FULL_WARP / 2);
    unit_eq(mm_list_wanted(ref, 0, 32), MM_LISTED_FULL_WARP);
    unit_eq(mm_list_wanted(ref, 3 * MM_LISTED_SHARE, 32), MM_LISTED_FULL_WARP + 3);
    unit_eq(mm_list_wanted(ref, 3 * MM_LISTED_SHARE, 1), MM_LISTED_LEAST + 3);
    *mapped = SEGMENTS;
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ouroboros");
    TCase *tests = tcase_create("ouroboros");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, lives, 0, 4);
    tcase_add_loop_test(tests, two_frees_at_once, 0, 3);
    tcase_add_loop_test(tests, to_the_last_page, 0, 5);
    tcase_add_loop_test(tests, another_size, 0, 4);
    tcase_add_loop_test(tests, one_object, 0, 2);
    tcase_add_loop_test(tests, a_chunk_that_becomes_free, 0, 3);
    tcase_add_loop_test(tests, few_accesses, 0, 2);
    tcase_add_loop_test(tests, a_segment_that_comes_and_goes, 0, COMES_IN_MOST);
    tcase_add_test(tests, a_segment_in_place_of_another);
    tcase_add_test(tests, lanes_that_let_the_list_grow);
#if IS_CHUNKS
    tcase_add_loop_test(tests, a_second_free_in_another_class, 0, 2);
#endif
    const TTest *const all[] = {sizes_and_alignment, misuses, churn, rows_in_another_order,
                                /* of listed.h: those that need no lengths of units */
                                a_sweep_while_the_list_changes, what_a_round_says, a_visit_to_a_new_segment, pages_next_to_a_span, a_segment_on_its_way,
                                a_wait_for_the_list, as_many_as_are_wanted, batches_that_wait, a_segment_that_comes_is_not_retired, what_a_caller_wants};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
#if IS_CHUNKS
    const TTest *const more[] = {segments_go_and_come, a_segment_that_comes_back, a_list_that_its_own_warp_has, pages_of_two_masks};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) tcase_add_test(tests, more[i]);
#endif
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
