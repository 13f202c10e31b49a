/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Queues of Ouroboros without room for an entry: puts are refused, no page is lost, and callers find and enqueue what was refused (runtime/ouroboros/malloc.h). */
#include "tests/unit/steps.h"

#include "tests/unit/eight.h"
#include "tests/unit/ouro.h"

#if MM_OURO_QUEUE != MM_OURO_S
/* The next positions of a queue are in a queue chunk that is n after the last one. */
static void go_on_in(uint32_t q, uint64_t n) {
    struct mm_queue *of = mm_queue_of(ref, q);
    of->back = of->front = (of->back / MM_STORE_SLOTS + n) * MM_STORE_SLOTS;
}
static void go_on(uint64_t n) { go_on_in(0, n); }
#endif
/* A queue without room for an entry loses no page: malloc finds it, and enqueues what else there is. The published code traps, or spins for ever. */
static void make_full(void) {
#if MM_OURO_QUEUE == MM_OURO_S
    struct mm_queue *of = mm_queue_of(ref, 0);
    for (uint32_t i = 0; i < SEGMENTS; i++) of->front = of->back = 0, mm_queue_reserve(ref, 0, SEGMENTS * MM_OURO_SEGMENT_CHUNKS); /* the array has all rows */
    for (uint64_t i = 0; i < mm_array_slots(0, of->shape >> 32); i++) *mm_array_slot(ref, 0, i) = MM_SLOT_MARK - 1;
#else
    while (mm_store_take(ref, 0) != 0) {
    }
    go_on(2); /* where no queue chunk is */
#endif
}
/* Room again. */
static void make_usable(void) {
#if MM_OURO_QUEUE == MM_OURO_S
    for (uint64_t i = 0; i < mm_array_slots(0, mm_queue_of(ref, 0)->shape >> 32); i++) *mm_array_slot(ref, 0, i) = 0;
#else
    go_on(1);
    for (uint32_t i = 0; i < 8; i++) mm_store_give(ref, i + 1 + (uint32_t)mm_queue_of(ref, MM_OURO_FREE)->pool_fresh / 2);
#endif
}
START_TEST(a_full_queue) {
    const uint32_t n = take_all(16);
    unit_eq(n, ALL);
    unit_eq(mm_queue_of(ref, 0)->count, 0);
    make_full();
    for (uint32_t i = 0; i < 300; i++) mm_heap_free(ref, all_held[i * 1001]);
    unit_lt(0, refused());
    for (uint32_t i = 0; i < 300; i++) unit_holds(take(16) != NULL, "page %u is lost", i);
    unit_holds(take(16) == NULL, "more than there is");
}
END_TEST

/* What a queue refused comes back into it as soon as there is room: malloc finds all of it, and not by a sweep for each page. */
START_TEST(what_was_refused) {
    const uint32_t per = IS_CHUNKS ? MM_OURO_CHUNK_BYTES / 16 : 64, n = take_all(16) / 64;
    unit_eq(n, ALL / 64);
    make_full();
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, all_held[i]);
    unit_lt(0, refused());
    make_usable();
    const uint64_t rounds = mm_list_state(ref)->round / MM_FLIGHT_WORD_ONE;
    for (uint32_t i = 0; i < n; i++) unit_holds(take(16) != NULL, "page %u is lost", i);
    unit_lt(n / per / 2, mm_queue_of(ref, 0)->front); /* through the queue */
    /* and not by a sweep for each; takers of -s-c first come to positions that were drawn in vain */
    unit_le(mm_list_state(ref)->round / MM_FLIGHT_WORD_ONE, rounds + n / (MM_OURO_QUEUE == MM_OURO_S && IS_CHUNKS ? 16 : 4 * per));
    unit_holds(take(16) == NULL, "more than there is");
    if (!IS_CHUNKS || MM_OURO_QUEUE != MM_OURO_S) unit_eq(refused(), 0); /* there positions that were drawn in vain are before what is in the queue */
}
END_TEST

/* A lap that begins in the middle of the list has not looked at all that was refused before. */
START_TEST(laps) {
    struct mm_queue *const of = mm_queue_of(ref, 0);
    unit_eq(take_all(16), ALL);
    of->refused = 3, of->visits = SEGMENTS / 2;
    for (uint32_t i = 0; i < SEGMENTS / 2; i++) unit_eq(mm_queue_recover(ref, 1, 0), 0);
    of->refused = 5; /* more */
    for (uint32_t i = 0; i <= SEGMENTS; i++) {
        unit_eq(of->refused, 5);
        unit_eq(mm_queue_recover(ref, 1, 0), 0);
    }
    unit_eq(of->refused, 0);
    of->refused = 5; /* as many as before */
    for (uint32_t i = 0; i < 3; i++) unit_eq(mm_queue_recover(ref, 1, 0), 0);
    mm_list_state(ref)->count--; /* a segment goes */
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        unit_eq(of->refused, 5);
        unit_eq(mm_queue_recover(ref, 1, 0), 0);
    }
    unit_eq(of->refused, 0);
    mm_list_state(ref)->count = 0;
    unit_eq(mm_queue_recover(ref, 1, 0), 0);
    mm_list_state(ref)->count = SEGMENTS;
    unit_eq(of->count, 0);
}
END_TEST

#if IS_CHUNKS && MM_OURO_QUEUE != MM_OURO_S
/* Segments come back, and the queue of free chunks gets no room: all their chunks wait about as long as one. _i: every second one seems to have an entry. */
START_TEST(one_wait_for_a_segment) {
    struct mm_queue *const of = mm_queue_of(ref, MM_OURO_FREE);
    free_all(take_all(256));
    uint8_t *run = take(SEGMENTS * MM_SEGMENT_BYTES);
    while (mm_semaphore_take(ref, MM_OURO_FREE, 1) != 0) unit_eq(mm_chunk_cut(ref, take_at(MM_OURO_FREE, mm_add_acq_rel_u64(&of->front, 1)), 0, 1, 1).bits, 0);
    while (mm_store_take(ref, 0) != 0) continue;
    go_on_in(MM_OURO_FREE, 2);
    mm_heap_free(ref, run);
    for (uint32_t c = 1; _i == 1 && c < SEGMENTS * MM_OURO_SEGMENT_CHUNKS; c += 2) *mm_chunk_header(ref, c) |= mm_chunk_queued(MM_OURO_FREE);
    unit_waits = 0;
    unit_holds(mm_list_add(ref, 1, MM_LISTED_ANY) == MM_LISTED_MORE, "no segment came");
    unit_eq(refused(), mm_list_count(ref) * MM_OURO_SEGMENT_CHUNKS / (1 + _i) - 1); /* a cell has one */
    unit_le(unit_waits, MM_OURO_LONG_LOOKS + 2 * (long)refused());
    unit_holds(take(256) != NULL, "NULL");
    if (_i == 0) unit_sound(&heap, 256);
}
END_TEST
#endif

#if IS_CHUNKS
/* The next free in a chunk that was refused enqueues it. */
START_TEST(room_again) {
    const uint32_t n = take_all(16), chunk = mm_list_segment(ref, 0) * MM_OURO_SEGMENT_CHUNKS + 5;
    uint8_t *const begin = (uint8_t *)mm_chunk_address(ref, chunk * MM_OURO_MASKS, 0, 0);
    unit_eq(n, ALL);
    make_full();
    mm_heap_free(ref, begin);
    unit_eq(refused(), 1);
    make_usable();
    mm_heap_free(ref, begin + 16);
    unit_eq(refused(), 1);
    unit_eq(mm_queue_of(ref, 0)->count, 1);
    uint8_t *const p = take(16);
    unit_holds(p == begin || p == begin + 16, "another page");
}
END_TEST
#else
/* A mask that is not in its queue comes back into it when a sweep takes a page of it. */
START_TEST(a_mask_outside) {
    const uint32_t n = take_all(16);
    unit_eq(n, ALL);
    mm_heap_free(ref, all_held[0]), mm_heap_free(ref, all_held[1]);
    while (mm_semaphore_take(ref, 0, 1) != 0) take_at(0, mm_add_acq_rel_u64(&mm_queue_of(ref, 0)->front, 1));
    const struct mm_listed_swept swept = mm_listed_sweep(ref, 1, 1, 1);
    unit_holds(swept.address == (uint64_t)all_held[0] || swept.address == (uint64_t)all_held[1], "another page");
    unit_eq(mm_queue_of(ref, 0)->count, 1);
    unit_holds(take(16) != NULL && take(16) == NULL, "one page is left");
}
END_TEST
#endif

int main(void) {
    Suite *suite = suite_create("full_queues");
    TCase *tests = tcase_create("full_queues");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    const TTest *const all[] = {
        a_full_queue,
        what_was_refused,
        laps,
#if IS_CHUNKS
        room_again
#else
        a_mask_outside
#endif
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
#if IS_CHUNKS && MM_OURO_QUEUE != MM_OURO_S
    tcase_add_loop_test(tests, one_wait_for_a_segment, 0, 2);
#endif
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
