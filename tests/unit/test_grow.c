/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Growing (grow.h) and giving back (maintain.h), step by step: the test is the host. What threads do at the same time the model
 * explores (tests/model/grow_model.c), and with a real host, tests/hooks/client_grow.c.
 */
#include "tests/unit/support.h"

#include "runtime/core/maintain.h"

#define SEGMENTS 200
#define FIRST 4
#define RUBBISH 0xa5

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;
static struct mm_heap *h;
static struct mm_mailbox box;

static void set_up(void) {
    unit_holds(mm_cpu_heap_create(&heap, SEGMENTS, FIRST, MM_SEGMENT_BYTES) == 0, "a heap");
    memset(&box, 0, sizeof box);
    mm_heap_image_grows(heap.metadata, SEGMENTS, (uint64_t)(uintptr_t)&box, 3);
    h = (struct mm_heap *)heap.metadata;
    heap.ref = h->ref;
    ref = &heap.ref;
    memset(mm_segment_blocks(ref, FIRST), RUBBISH, (SEGMENTS - FIRST) * sizeof(struct mm_blocks)); /* memory that has just come */
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

static uint64_t wanted_number(void) { return box.wanted >> 32; }
static void answer(uint64_t first, uint64_t count) { box.answer = mm_answer_make(wanted_number(), first, count); }
static enum mm_grown look(uint32_t segments, int is_late) { return mm_grow_look(ref, segments, MM_PATIENCE_CALLER, is_late); }

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

/* How many segments from the front on have blocks that are all zero; the others have rubbish. */
static uint32_t cleared(void) {
    struct mm_blocks zero, rubbish;
    uint32_t n = 0;
    memset(&zero, 0, sizeof zero), memset(&rubbish, RUBBISH, sizeof rubbish);
    while (n < SEGMENTS && memcmp(mm_segment_blocks(ref, n), &zero, sizeof zero) == 0) n++;
    for (uint32_t s = n; s < SEGMENTS; s++) unit_eq(memcmp(mm_segment_blocks(ref, s), &rubbish, sizeof rubbish), 0);
    return n;
}
static void grow_by(uint64_t first, uint64_t count) {
    look(1, 0);
    answer(first, count);
    unit_eq(look(1, 0), MM_GROWN_MORE);
}

/* Blocks of segments are cleared once, when the first segment behind them comes; those of segments that go, and come back, are not. */
START_TEST(blocks_are_cleared_when_segments_come) {
    unit_eq(cleared(), FIRST);
    grow_by(FIRST, 10);
    unit_eq(cleared(), FIRST + 10);
    grow_by(64, 3); /* aligned: what lies between has no memory, and may get some */
    unit_eq(cleared(), 67);
    grow_by(FIRST + 10, 20);
    unit_eq(cleared(), 67);
    uint64_t *words = &mm_segment_blocks(ref, 70)->words[0];
    grow_by(67, 7);
    unit_eq(cleared(), 74);
    *words = MM_WORDS_LIFE; /* as a block that was whole once leaves it */
    struct mm_wanted_chunk chunk = {67, 7, 0, 0};
    mm_maintain_claim(ref, &chunk);
    unit_eq(chunk.is_claimed, 1);
    grow_by(67, 8);
    unit_eq(*words, MM_WORDS_LIFE);
    *words = 0;
    unit_eq(cleared(), 75);
    grow_by(SEGMENTS - 1, 1); /* the last of all */
    unit_eq(cleared(), SEGMENTS);
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
    unit_eq(h->grow.scarce, mm_grow_scarce(FIRST));
    unit_eq(look(7, 0), MM_GROWN_WAIT); /* less may be had */
    unit_eq(box.wanted, ((asked >> 32) + 1) << 32 | 7);
    answer(FIRST, 7);
    unit_eq(look(7, 0), MM_GROWN_MORE);
    unit_eq(h->grow.scarce, 0);
    unit_eq(look(8, 0), MM_GROWN_WAIT); /* and then more, perhaps */
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

START_TEST(late_for_all_until_the_answer) {
    unit_eq(look(1, 0), MM_GROWN_WAIT);
    unit_eq(look(1, 1), MM_GROWN_NO); /* who waited long enough */
    unit_eq(look(1, 0), MM_GROWN_NO); /* and those after him, at once */
    unit_eq(mm_grow_look(ref, 1, MM_PATIENCE_TICKET, 0), MM_GROWN_WAIT); /* with less patience, but not out of it yet */
    unit_eq(mm_grow_look(ref, 1, MM_PATIENCE_TICKET, 1), MM_GROWN_NO);
    unit_eq(mm_grow_look(ref, 1, MM_PATIENCE_TICKET, 0), MM_GROWN_NO);
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
    answer(FIRST, 1); /* what was asked before */
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
    unit_eq(look(1, 0), MM_GROWN_WAIT); /* somebody else is at it */
    unit_eq(h->grow.mapped, FIRST);
    h->grow.lock = 0;
    unit_eq(look(1, 0), MM_GROWN_MORE);
}
END_TEST

START_TEST(only_looks) { /* takes what was answered, and asks for nothing */
    unit_eq(mm_grow_look(ref, 0, MM_PATIENCE_NONE, 0), MM_GROWN_WAIT);
    unit_eq(box.wanted, 0);
    look(1, 0);
    answer(FIRST, 3);
    unit_eq(mm_grow_look(ref, 0, MM_PATIENCE_NONE, 0), MM_GROWN_MORE);
    unit_eq(h->grow.mapped, FIRST + 3);
}
END_TEST

START_TEST(ahead_of_need) {
    mm_grow_ahead(ref, 1); /* an eighth of four is less than one */
    unit_eq(box.wanted, 0);
    mm_grow_ahead(ref, 0);
    unit_eq(box.wanted, 1ull << 32 | 1);
    answer(FIRST, 96);
    mm_grow_ahead(ref, 0);
    unit_eq(h->grow.mapped, FIRST + 96);
    mm_grow_ahead(ref, 13);
    unit_eq(wanted_number(), 1);
    mm_grow_ahead(ref, 12);
    unit_eq(wanted_number(), 2);
}
END_TEST

START_TEST(fixed_heap_never_asks) {
    heap.ref.mailbox = 0;
    unit_eq(look(1, 0), MM_GROWN_NO);
    unit_eq(unit_grow_await(ref, 1, h->grow.mapped, MM_PATIENCE_CALLER), 0);
    mm_grow_ahead(ref, 0);
    unit_eq(box.wanted, 0);
}
END_TEST

START_TEST(waits_no_longer_than_said) {
    unit_eq(unit_grow_await(ref, 1, h->grow.mapped, MM_PATIENCE_CALLER), 0); /* nobody answers */
    unit_eq(h->grow.late[MM_PATIENCE_CALLER], 1ull << 32 | 1);
    unit_eq(unit_grow_await(ref, 1, h->grow.mapped + 1, MM_PATIENCE_CALLER), 1); /* there is more than when it looked */
}
END_TEST

START_TEST(null_when_refused) {
    void *p[FIRST + 1];
    for (int i = 0; i < FIRST; i++) unit_holds((p[i] = mm_cpu_malloc(&heap, MM_SEGMENT_BYTES)) != NULL, "segment %d", i);
    mm_heap_image_grows(heap.metadata, SEGMENTS, (uint64_t)(uintptr_t)&box, 0); /* nobody is patient */
    heap.ref.grow_polls = 0;
    unit_holds(mm_cpu_malloc(&heap, MM_SEGMENT_BYTES) == NULL, "there is none");
    unit_eq(box.null_bytes, MM_SEGMENT_BYTES + 1);
    unit_holds(mm_cpu_malloc(&heap, 3 * MM_SEGMENT_BYTES) == NULL, "there is none");
    unit_eq(box.null_bytes, MM_SEGMENT_BYTES + 1); /* of the first */
    answer(FIRST, 2);
    unit_holds((p[FIRST] = mm_cpu_malloc(&heap, MM_SEGMENT_BYTES)) != NULL, "the answer, late");
    for (int i = 0; i <= FIRST; i++) mm_cpu_free(&heap, p[i]);
    unit_sound(&heap, 0);
}
END_TEST

START_TEST(lots_are_as_large_as_what_is_there_allows) {
    const uint32_t c = mm_class_of(1 << 20);
    heap.ref.classes[c] = mm_class_make(c, 40); /* as in the largest heap */
    const uint32_t row = 1u << ref->classes[c].row_shift;
    unit_lt(2, row);
    unit_eq(mm_reserve_lot(ref, c, 0), 1);
    unit_eq(mm_reserve_lot(ref, c, (2ull << MM_GROW_LOT_SHIFT) - 1), 1);
    unit_eq(mm_reserve_lot(ref, c, 2ull << MM_GROW_LOT_SHIFT), 2);
    unit_eq(mm_reserve_lot(ref, c, 1ull << 30), row);
    heap.ref.mailbox = 0;
    unit_eq(mm_reserve_lot(ref, c, 0), row);
}
END_TEST

START_TEST(chunks_come_back) {
    uint32_t c = mm_class_of(64);
    struct mm_wanted_chunk chunk = {0, FIRST, 0, 0};
    void *p = mm_cpu_malloc(&heap, 64);
    mm_maintain_claim(ref, &chunk);
    unit_eq(chunk.is_claimed, 0);
    unit_eq(h->grow.mapped, FIRST);
    mm_cpu_free(&heap, p);
    mm_maintain_claim(ref, &chunk); /* its stripe has the segment */
    unit_eq(chunk.is_claimed, 0);
    unit_sound(&heap, 0);
    for (uint32_t part = 0; part < MM_MAINTAIN_PARTS; part++) mm_maintain_flush(ref, part);
    unit_sound(&heap, 0);
    unit_eq(mm_cpu_heap_free_segments(&heap), FIRST);
    chunk.first = 1, chunk.count = 2;
    mm_maintain_claim(ref, &chunk);
    unit_eq(chunk.is_claimed, 1);
    unit_eq(h->grow.mapped, FIRST - 2);
    unit_eq(h->free_count, FIRST - 2);
    unit_eq(mm_cpu_heap_free_segments(&heap), FIRST - 2);
    unit_sound(&heap, 0);
    mm_cpu_free(&heap, (void *)(ref->user_base + MM_SEGMENT_BYTES + 64)); /* a stale pointer */
    unit_eq(mm_cpu_misuse_count(&heap, MM_MISUSE_NOT_ALLOCATED), 1);
    unit_holds(mm_cpu_malloc(&heap, 2 * MM_SEGMENT_BYTES) == NULL, "the two that are left are no neighbours");
    answer(1, 2); /* they come back */
    unit_holds((p = mm_cpu_malloc(&heap, 3 * MM_SEGMENT_BYTES)) != NULL, "all of it");
    mm_cpu_free(&heap, p);
    unit_sound(&heap, 0);
    (void)c;
}
END_TEST

START_TEST(flush_takes_answers) {
    look(1, 0);
    answer(FIRST, 5);
    for (uint32_t part = 0; part < MM_MAINTAIN_PARTS; part++) mm_maintain_flush(ref, part);
    unit_eq(mm_cpu_heap_free_segments(&heap), FIRST + 5);
    unit_eq(wanted_number(), 1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("grow");
    TCase *one = tcase_create("grow");
    tcase_add_checked_fixture(one, set_up, tear_down);
    tcase_add_test(one, asks_once_and_takes_once);
    tcase_add_test(one, blocks_are_cleared_when_segments_come);
    tcase_add_test(one, refused_by_size);
    tcase_add_test(one, refusal_ends);
    tcase_add_test(one, late_for_all_until_the_answer);
    tcase_add_test(one, closed);
    tcase_add_test(one, opened_again);
    tcase_add_test(one, numbers_begin_again);
    tcase_add_test(one, locked);
    tcase_add_test(one, only_looks);
    tcase_add_test(one, ahead_of_need);
    tcase_add_test(one, fixed_heap_never_asks);
    tcase_add_test(one, waits_no_longer_than_said);
    tcase_add_test(one, null_when_refused);
    tcase_add_test(one, lots_are_as_large_as_what_is_there_allows);
    tcase_add_test(one, chunks_come_back);
    tcase_add_test(one, flush_takes_answers);
    suite_add_tcase(suite, one);
    return suite_run(suite);
}
