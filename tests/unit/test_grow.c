/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Growing (grow.h) and giving memory back, step by step: the test plays the host. Concurrent threads: the model
 * (tests/model/grow_model.c); a real host: tests/hooks/client_grow.c.
 */
#include "tests/unit/support.h"

#define SEGMENTS 200
#define FIRST 4

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;
static struct mm_heap *h;
static struct mm_mailbox box;

static void set_up(void) {
    unit_holds(mm_cpu_heap_create(&heap, SEGMENTS, FIRST, MM_SEGMENT_BYTES) == 0, "a heap");
    memset(&box, 0, sizeof box);
    mm_heap_of(&heap.ref)->ref.mailbox = (uint64_t)(uintptr_t)&box, mm_heap_of(&heap.ref)->ref.grow_polls = 3;
    h = mm_heap_of(&heap.ref);
    heap.ref = h->ref;
    ref = &heap.ref;
    unit_rubbish(&heap); /* fresh memory */
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static uint64_t wanted_number(void) { return box.wanted >> 32; }
static void answer(uint64_t first, uint64_t count) { box.answer = mm_answer_make(wanted_number(), first, count); }
static enum mm_grown look(uint32_t segments, int is_late) { return mm_grow_look(ref, segments, is_late); }

START_TEST(asks_once_and_takes_once) {
    unit_eq(look(1, 0), MM_GROWN_WAIT);
    unit_eq(box.wanted, 1ull << 32 | 1);
    unit_eq(look(5, 0), MM_GROWN_WAIT); /* one is under way */
    unit_eq(box.wanted, 1ull << 32 | 1);
    answer(FIRST, 10);
    unit_eq(look(5, 0), MM_GROWN_MORE);
    unit_eq(h->grow.mapped, FIRST + 10);
    unit_eq(mm_cpu_heap_free_segments(&heap), FIRST + 10);
    unit_eq(h->free_count, FIRST + 10);
    unit_eq(look(5, 0), MM_GROWN_WAIT); /* the answer was taken: this is a new request */
    unit_eq(box.wanted, 2ull << 32 | 5);
    unit_eq(h->grow.mapped, FIRST + 10);
    unit_sound(&heap, 0);
}
END_TEST

static void grow_by(uint64_t first, uint64_t count) {
    look(1, 0);
    answer(first, count);
    unit_eq(look(1, 0), MM_GROWN_MORE);
}

/* The highest segment that was ever mapped: what describes segments is mapped that far. The table keeps its share of them for good. */
START_TEST(reached_is_kept) {
    unit_eq(h->grow.reached, FIRST);
    const uint64_t extents = mm_table_extents(ref);
    grow_by(64, 3);
    unit_eq(h->grow.reached, 67);
    grow_by(FIRST, 10); /* the gap */
    unit_eq(h->grow.reached, 67);
    unit_eq(unit_chunk_claim(ref, 64, 3), 1);
    unit_eq(h->grow.mapped, FIRST + 10);
    unit_eq(h->grow.reached, 67);
    unit_eq(mm_table_extents(ref), extents + 67 * MM_TABLE_SHARE * MM_SEGMENT_PAGES / MM_EXTENT - FIRST * MM_TABLE_SHARE * MM_SEGMENT_PAGES / MM_EXTENT);
    grow_by(SEGMENTS - 1, 1); /* the last of all */
    unit_eq(h->grow.reached, SEGMENTS);
    unit_sound(&heap, 0);
}
END_TEST

/* What describes new segments is new memory: it is zeroed before they are in the free tree, also that of segments that are left out. Owners that free reads at any
 * time, and what describes segments that were there before, stay as they are. */
#define OPEN 50
static void zeroed_up_to(uint32_t end) {
    for (uint32_t s = FIRST; s < SEGMENTS; s++) {
        unit_holds(mm_segment_at(ref, s)->pages == (s < end ? 0 : s), "segment %u", s);
        unit_holds(mm_segment_at(ref, s)->run == (s < end ? MM_RUN_NONE : mm_run_make(s)), "segment %u", s);
        for (uint32_t page = 0; page < MM_SEGMENT_PAGES; page++) unit_eq(*mm_page_owner(ref, s * MM_SEGMENT_PAGES + page), s < OPEN || s >= end);
    }
}
START_TEST(zeroed_as_it_comes) {
    heap.ref.open_bytes = OPEN * MM_SEGMENT_BYTES;
    for (uint32_t s = FIRST; s < SEGMENTS; s++) {
        mm_segment_at(ref, s)->pages = s, mm_segment_at(ref, s)->run = mm_run_make(s);
        memset(mm_page_owner(ref, s * MM_SEGMENT_PAGES), 1, MM_SEGMENT_PAGES);
    }
    grow_by(60, 3);
    zeroed_up_to(63);
    grow_by(100, 3);
    zeroed_up_to(103);
    mm_segment_at(ref, 55)->run = mm_run_make(1); /* somebody has it */
    mm_segment_at(ref, 102)->run = mm_run_make(1);
    grow_by(55, 2);
    unit_eq(mm_segment_at(ref, 55)->run, mm_run_make(1));
    unit_eq(mm_segment_at(ref, 102)->run, mm_run_make(1));
}
END_TEST

/* Beyond open_bytes all is freed, measured and told apart as before, by lanes of a full warp, or by one; and nothing is read of what was never mapped. */
START_TEST(far_from_the_beginning) {
    static const uint64_t sizes[] = {16, 1000, 3 * MM_PAGE_BYTES, 2 * MM_SEGMENT_BYTES};
    const uint64_t near = FIRST * MM_SEGMENT_BYTES;
    unit_eq((uint64_t)(uintptr_t)mm_cpu_malloc(&heap, near), ref->user_base); /* all that is free later is far */
    grow_by(100, 20);
    heap.ref.open_bytes = OPEN * MM_SEGMENT_BYTES;
    heap.ref.mailbox = 0;
    for (uint32_t s = 120; s < SEGMENTS; s++) memset(mm_page_owner(ref, s * MM_SEGMENT_PAGES), 1, MM_SEGMENT_PAGES); /* new memory, whatever is there */
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *p = (char *)mm_cpu_malloc(&heap, sizes[i]);
        unit_holds(p >= (char *)ref->user_base + 100 * MM_SEGMENT_BYTES, "%llu bytes are far", (unsigned long long)sizes[i]);
        unit_le(sizes[i], mm_cpu_usable_size(&heap, p));
        unit_free(&heap, p + 1, MM_MISUSE_INTERIOR, near + mm_cpu_usable_size(&heap, p), "within");
        unit_free(&heap, p, 0, near, "far");
        p = (char *)mm_cpu_malloc(&heap, sizes[i]); /* what the fast path took for foreign, since the heap has grown */
        mm_heap_free_other(ref, mm_deferred_foreign((uint64_t)(uintptr_t)p));
        unit_sound(&heap, near);
        unit_free(&heap, p, i < 3 ? MM_MISUSE_DOUBLE_FREE : MM_MISUSE_NOT_ALLOCATED, near, "twice");
        unit_eq(mm_cpu_usable_size(&heap, p), 0);
    }
    mm_segment_at(ref, 150)->run = mm_run_make(3); /* of segments below open_bytes owners are 0, but the rest is new memory, too */
    heap.ref.open_bytes = SEGMENTS * MM_SEGMENT_BYTES;
    memset(mm_page_owner(ref, 150 * MM_SEGMENT_PAGES), 0, MM_SEGMENT_PAGES);
    unit_free(&heap, (char *)ref->user_base + 150 * MM_SEGMENT_BYTES, MM_MISUSE_NOT_ALLOCATED, near, "owners are there, the segment is not");
    memset(mm_page_owner(ref, 150 * MM_SEGMENT_PAGES), 1, MM_SEGMENT_PAGES);
    heap.ref.open_bytes = OPEN * MM_SEGMENT_BYTES;
    unit_free(&heap, (char *)ref->user_base + 150 * MM_SEGMENT_BYTES, MM_MISUSE_NOT_ALLOCATED, near, "never mapped");
    unit_free(&heap, (char *)ref->user_base + 150 * MM_SEGMENT_BYTES + 8, MM_MISUSE_NOT_ALLOCATED, near, "never mapped");
    unit_eq(mm_cpu_usable_size(&heap, (char *)ref->user_base + 150 * MM_SEGMENT_BYTES), 0);
}
END_TEST

/* New memory serves slices, spans and runs, although its metadata holds rubbish. */
START_TEST(rubbish_in_metadata) {
    static void *held[100000];
    uint32_t n = 0;
    uint64_t seed = 1;
    grow_by(FIRST, 40);
    heap.ref.mailbox = 0;
    while (n < 100000 && (held[n] = mm_cpu_malloc(&heap, 16ull << unit_random(&seed) % 14)) != NULL) n++;
    unit_lt(1000, n);
    unit_sound(&heap, UNIT_ANY);
    while (n > 0) mm_cpu_free(&heap, held[--n]);
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, FIRST + 40);
}
END_TEST

/* Memory from a class's peak serves another class before the host is asked. */
START_TEST(peaks_serve_others_before_the_host_is_asked) {
    static void *held[FIRST * MM_SEGMENT_PAGES * 64 + 1];
    uint32_t n = 0;
    heap.ref.mailbox = 0;
    while ((held[n] = mm_cpu_malloc(&heap, 256)) != NULL) n++;
    unit_eq(n, FIRST * MM_SEGMENT_PAGES * 64);
    while (n > 0) mm_cpu_free(&heap, held[--n]);
    heap.ref.mailbox = (uint64_t)(uintptr_t)&box;
    void *other = mm_cpu_malloc(&heap, 64);
    unit_holds(other != NULL, "another class");
    unit_eq(box.wanted, 0);
    mm_cpu_free(&heap, other);
    unit_sound(&heap, 0);
}
END_TEST

START_TEST(refused_by_size) {
    look(8, 0);
    answer(0, 0);
    unit_eq(look(8, 0), MM_GROWN_NO);
    const uint64_t asked = box.wanted;
    unit_eq(look(8, 0), MM_GROWN_NO); /* without asking */
    unit_eq(look(100, 0), MM_GROWN_NO);
    unit_eq(box.wanted, asked);
    unit_eq(look(7, 0), MM_GROWN_WAIT); /* fewer may be available */
    unit_eq(box.wanted, ((asked >> 32) + 1) << 32 | 7);
    answer(FIRST, 7);
    unit_eq(look(7, 0), MM_GROWN_MORE);
    unit_eq(look(8, 0), MM_GROWN_WAIT); /* and then perhaps more */
}
END_TEST

START_TEST(refusal_ends) {
    look(1, 0);
    answer(0, 0);
    unit_eq(look(1, 0), MM_GROWN_NO);
    h->grow.refused_at -= MM_GROW_REFUSAL_NS / 2;
    unit_eq(look(1, 0), MM_GROWN_NO);
    h->grow.refused_at -= MM_GROW_REFUSAL_NS;
    unit_eq(look(1, 0), MM_GROWN_WAIT);
    unit_eq(box.wanted, 2ull << 32 | 1);
}
END_TEST

/* The caller that asked has gone, and the answer was a refusal: too old to apply now. */
START_TEST(refusal_of_long_ago) {
    look(1, 0);
    answer(0, 0);
    h->grow.looked_at -= 2 * MM_GROW_REFUSAL_NS;
    unit_eq(look(1, 0), MM_GROWN_WAIT);
    unit_eq(box.wanted, 2ull << 32 | 1);
    answer(0, 0);
    unit_eq(look(1, 0), MM_GROWN_NO);
    unit_eq(look(1, 0), MM_GROWN_NO); /* without asking */
    unit_eq(box.wanted, 2ull << 32 | 1);
}
END_TEST

START_TEST(late_for_all_until_the_answer) {
    unit_eq(look(1, 0), MM_GROWN_WAIT);
    unit_eq(look(1, 1), MM_GROWN_NO); /* waited long enough */
    unit_eq(look(1, 0), MM_GROWN_NO); /* and later callers, at once */
    unit_eq(box.wanted, 1ull << 32 | 1);
    answer(FIRST, 1);
    unit_eq(look(1, 0), MM_GROWN_MORE);
    unit_eq(look(1, 0), MM_GROWN_WAIT);
    unit_eq(box.wanted, 2ull << 32 | 1);
}
END_TEST

START_TEST(closed) {
    look(1, 0);
    box.answer = MM_ANSWER_CLOSED;
    unit_eq(look(1, 0), MM_GROWN_NO);
    unit_eq(h->grow.mapped, FIRST);
    unit_eq(look(1, 0), MM_GROWN_NO);
    unit_eq(h->grow.lock, 0);
}
END_TEST

START_TEST(opened_again) {
    look(1, 0);
    const uint64_t before = box.answer;
    box.answer = MM_ANSWER_CLOSED;
    unit_eq(look(1, 0), MM_GROWN_NO);
    box.answer = before;
    h->grow.refused_at -= 2 * MM_GROW_REFUSAL_NS;
    unit_eq(look(1, 0), MM_GROWN_WAIT);
    answer(FIRST, 1); /* what was asked for before */
    unit_eq(look(1, 0), MM_GROWN_MORE);
}
END_TEST

START_TEST(numbers_begin_again) {
    h->grow.asked = (uint64_t)(MM_ANSWER_NUMBERS - 1) << 32, h->grow.taken = MM_ANSWER_NUMBERS - 1;
    uint64_t first = FIRST, numbers[3];
    for (int i = 0; i < 3; i++) {
        unit_eq(look(1, 0), MM_GROWN_WAIT);
        numbers[i] = wanted_number();
        answer(first++, 1);
        unit_holds(box.answer != MM_ANSWER_CLOSED, "an answer means closed");
        unit_eq(look(1, 0), MM_GROWN_MORE);
    }
    unit_eq(numbers[0], MM_ANSWER_NUMBERS);
    unit_eq(numbers[1], 1);
    unit_eq(numbers[2], 2);
    box.answer = mm_answer_make(MM_ANSWER_NUMBERS, MM_ANSWER_SEGMENTS - 1, MM_ANSWER_SEGMENTS - 1);
    unit_holds(box.answer != MM_ANSWER_CLOSED, "the largest answer means closed");
}
END_TEST

START_TEST(locked) {
    look(1, 0);
    answer(FIRST, 1);
    h->grow.lock = 1;
    unit_eq(look(1, 0), MM_GROWN_WAIT); /* another caller holds it */
    unit_eq(h->grow.mapped, FIRST);
    h->grow.lock = 0;
    unit_eq(look(1, 0), MM_GROWN_MORE);
}
END_TEST

START_TEST(only_looks) { /* takes an answer, and asks for nothing */
    unit_eq(look(0, 0), MM_GROWN_WAIT);
    unit_eq(box.wanted, 0);
    look(1, 0);
    answer(FIRST, 3);
    unit_eq(look(0, 0), MM_GROWN_MORE);
    unit_eq(h->grow.mapped, FIRST + 3);
}
END_TEST

START_TEST(fixed_heap_never_asks) {
    heap.ref.mailbox = 0;
    unit_eq(look(1, 0), MM_GROWN_NO);
    unit_eq(unit_grow_await(ref, 1, h->grow.mapped), 0);
    unit_eq(box.wanted, 0);
}
END_TEST

START_TEST(waits_no_longer_than_said) {
    unit_eq(unit_grow_await(ref, 1, h->grow.mapped), 0); /* no answer comes */
    unit_eq(h->grow.late, 1ull << 32 | 1);
    unit_eq(unit_grow_await(ref, 1, h->grow.mapped + 1), 1); /* more is mapped than when it looked */
}
END_TEST

START_TEST(null_when_refused) {
    void *p[FIRST + 1];
    for (int i = 0; i < FIRST; i++) unit_holds((p[i] = mm_cpu_malloc(&heap, MM_SEGMENT_BYTES)) != NULL, "segment %d", i);
    h->ref.mailbox = (uint64_t)(uintptr_t)&box, h->ref.grow_polls = 0; /* waits for no time at all */
    heap.ref.grow_polls = 0;
    unit_holds(mm_cpu_malloc(&heap, MM_SEGMENT_BYTES) == NULL, "there is none");
    unit_eq(box.null_bytes, MM_SEGMENT_BYTES + 1);
    unit_holds(mm_cpu_malloc(&heap, 3 * MM_SEGMENT_BYTES) == NULL, "there is none");
    unit_eq(box.null_bytes, MM_SEGMENT_BYTES + 1); /* of the first NULL */
    answer(FIRST, 2);
    unit_holds((p[FIRST] = mm_cpu_malloc(&heap, MM_SEGMENT_BYTES)) != NULL, "the answer, late");
    for (int i = 0; i <= FIRST; i++) mm_cpu_free(&heap, p[i]);
    unit_sound(&heap, 0);
}
END_TEST

/* A chunk goes back if all of its blocks are free, whatever class had them; a stale pointer into it is misuse. */
START_TEST(chunks_come_back) {
    void *p = mm_cpu_malloc(&heap, 64);
    const uint32_t at = (uint32_t)(((uint64_t)p - ref->user_base) >> MM_SEGMENT_SHIFT);
    unit_eq(unit_chunk_claim(ref, 0, FIRST), 0);
    unit_eq(h->grow.mapped, FIRST);
    unit_sound(&heap, 64);
    mm_cpu_free(&heap, p);
    unit_eq(unit_chunk_claim(ref, at, 1), 1); /* its block is free */
    unit_eq(h->grow.mapped, FIRST - 1);
    unit_eq(h->free_count, FIRST - 1);
    unit_eq(mm_cpu_heap_free_segments(&heap), FIRST - 1);
    unit_sound(&heap, 0);
    mm_cpu_free(&heap, p); /* a stale pointer */
    unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_NOT_ALLOCATED), 1);
    grow_by(at, 1); /* it is mapped again */
    unit_holds((p = mm_cpu_malloc(&heap, FIRST * MM_SEGMENT_BYTES)) != NULL, "all of it");
    mm_cpu_free(&heap, p);
    unit_sound(&heap, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("grow");
    TCase *one = tcase_create("grow");
    tcase_add_checked_fixture(one, set_up, tear_down);
    tcase_add_test(one, asks_once_and_takes_once);
    tcase_add_test(one, reached_is_kept);
    tcase_add_test(one, rubbish_in_metadata);
    tcase_add_test(one, peaks_serve_others_before_the_host_is_asked);
    tcase_add_test(one, refused_by_size);
    tcase_add_test(one, refusal_ends);
    tcase_add_test(one, refusal_of_long_ago);
    tcase_add_test(one, late_for_all_until_the_answer);
    tcase_add_test(one, zeroed_as_it_comes);
    tcase_add_test(one, far_from_the_beginning);
    tcase_add_test(one, closed);
    tcase_add_test(one, opened_again);
    tcase_add_test(one, numbers_begin_again);
    tcase_add_test(one, locked);
    tcase_add_test(one, only_looks);
    tcase_add_test(one, fixed_heap_never_asks);
    tcase_add_test(one, waits_no_longer_than_said);
    tcase_add_test(one, null_when_refused);
    tcase_add_test(one, chunks_come_back);
    suite_add_tcase(suite, one);
    return suite_run(suite);
}
