/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Cells of the chunk allocators of Ouroboros (runtime/ouroboros/hints.h): hints, and free chunks that stay in a place. */
#include "tests/unit/steps.h"

#include "tests/unit/eight.h"
#include "tests/unit/ouro.h"

static long accesses;
static void count_access(void) { accesses++; }

/* A caller in another place takes pages of the chunk that a cell names, and none if it has too few for all. */
static void at_place(uint32_t place, void (*act)(void *), void *arg) {
    unit_actor_make(0, act, arg);
    unit_actor_home[0] = place;
    while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
}
static struct mm_pages_got hint_got;
static uint32_t hint_q;
static void want_hint(void *n) { hint_got = mm_cells_chunk(ref, hint_q, *(uint32_t *)n, MM_CELLS_OTHERS); }
static struct mm_pages_got take_hint(uint32_t place, uint32_t q, uint32_t n) {
    hint_q = q;
    at_place(place, want_hint, &n);
    return hint_got;
}
static void free_it(void *p) { mm_heap_free(ref, p); }
static void want_chunk(void *p) { *(uint8_t **)p = take(8192); }
static void only_hint(uint32_t q, uint32_t held) {
    for (uint32_t i = 0; i < MM_OURO_CELLS; i++) *mm_cell_at(ref, q, i) = held;
}
START_TEST(hints) {
    const uint64_t begin = (uint64_t)take(256);
    const uint32_t chunk = (uint32_t)((begin - ref->user_base) >> MM_OURO_CHUNK_SHIFT), q = 4;
    unit_eq(*mm_cell_of(ref, q), chunk + 1);
    only_hint(q, chunk + 1);
    unit_eq(mm_popcount(take_hint(5, q, 3).bits), 3);
    unit_eq(mm_popcount(take_hint(5, q, 20).bits), 20);
    unit_eq(mm_popcount(take_hint(5, q, 9).bits), 0); /* 8 are left */
    unit_eq(mm_popcount(take_hint(5, q, 8).bits), 8);
    unit_eq(mm_popcount(take_hint(5, q, 1).bits), 0);
    unit_sound(&heap, 32 * 256);
    for (uint32_t i = 0; i < 32; i++) mm_heap_free(ref, (void *)(begin + i * 256));
    const uint64_t entries = mm_queue_of(ref, MM_OURO_FREE)->back;
    unit_eq(*mm_cell_of(ref, MM_OURO_CELL_FREE), chunk + 1); /* it is free, and its entry in the cell */
    unit_eq(mm_popcount(take_hint(6, q, 1).bits), 1);
    unit_sound(&heap, 256);
    mm_heap_free(ref, (void *)begin); /* the entry is there still */
    unit_eq(mm_queue_of(ref, MM_OURO_FREE)->back, entries);
    unit_sound(&heap, 0);
    *mm_chunk_header(ref, chunk) &= ~MM_OURO_CELLED; /* as if it were in the queue */
    unit_eq(mm_popcount(take_hint(6, q, 1).bits), 0);
    uint8_t *const other = take(4096); /* another class */
    if ((uint64_t)other >> MM_OURO_CHUNK_SHIFT == begin >> MM_OURO_CHUNK_SHIFT) unit_eq(mm_popcount(take_hint(6, q, 1).bits), 0);
    mm_heap_free(ref, other);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Pages that callers reserve of one chunk at the same time are not the same ones, so nobody looks twice. */
START_TEST(pages_in_order) {
    const uint32_t chunk = (uint32_t)(((uint64_t)take(16) - ref->user_base) >> MM_OURO_CHUNK_SHIFT);
    for (uint32_t taken = 1; taken < 512; taken += 7) {
        accesses = 0, unit_each_step = count_access;
        const struct mm_pages_got got = mm_chunk_take(ref, chunk, 0, 7, 7);
        unit_each_step = NULL;
        unit_le(mm_popcount(got.bits), 7);
        unit_eq(got.mask % MM_OURO_MASKS, taken / 64);
        unit_le((uint64_t)accesses, 5);
        for (uint32_t i = mm_popcount(got.bits); i < 7; i++) unit_eq(mm_popcount(mm_chunk_take(ref, chunk, 0, 1, 1).bits), 1);
    }
    unit_eq(mm_chunk_take(ref, chunk, 0, 1, 1).bits, 0);
    unit_sound(&heap, 512 * 16);
}
END_TEST

/* Two pages are free, of two masks of a chunk. A caller by a hint, or a lane of the first draw, or one with the entry, reserves both and gets one. At each step
 * another caller comes, to which these two are not free; it gets a page of another chunk, and drops the entry of this one. Then the chunk gets an entry again. */
static uint8_t *page_of_two;
static void two_by_hint(void *place) { hint_got = mm_cells_chunk(ref, 0, 2, place != NULL ? MM_CELLS_OWN : MM_CELLS_OTHERS); }
static void two_by_entry(void *chunk) { hint_got = mm_chunk_take(ref, *(uint32_t *)chunk, 0, 2, 1), mm_chunk_gave_back(ref, *(uint32_t *)chunk, 0); }
static void want_small(void *p) { *(uint8_t **)p = take(16); }
START_TEST(pages_given_back) {
    int done = 0;
    for (long steps = 0; !done; steps++) {
        const uint32_t n = take_all(16);
        uint32_t chunk = mm_list_segment(ref, 0) * MM_OURO_SEGMENT_CHUNKS + 5;
        uint8_t *const begin = (uint8_t *)mm_chunk_address(ref, chunk * MM_OURO_MASKS, 0, 0);
        mm_heap_free(ref, begin), mm_heap_free(ref, begin + 200 * 16);
        for (uint32_t i = 0; i < 2 * MM_OURO_CHUNK_BYTES; i += 16) mm_heap_free(ref, begin + MM_OURO_CHUNK_BYTES + i);
        only_hint(0, chunk + 1);
        if (_i == 2) unit_actor_make(0, two_by_entry, &chunk);
        else unit_actor_make(0, two_by_hint, _i ? &chunk : NULL);
        unit_actor_home[0] = 5;
        unit_go(0, steps);
        done = unit_actor[0].done;
        only_hint(0, 0);
        unit_actor_make(1, want_small, &page_of_two), unit_actor_home[1] = 77;
        while (!unit_actor[1].done) unit_go(1, UNIT_TURN_STEPS);
        unit_holds(page_of_two != NULL, "NULL after %ld steps of another caller", steps);
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        unit_sound(&heap, (uint64_t)(n - 2 - 2 * MM_OURO_CHUNK_BYTES / 16 + 1 + mm_popcount(hint_got.bits)) * 16);
        tear_down(), set_up();
    }
}
END_TEST

/* A lane of the first draw that gave pages back says so in its token, and enqueues the chunk; unless it has another class by then. */
START_TEST(a_token_of_what_was_given_back) {
    const uint32_t chunk = (uint32_t)(((uint64_t)take(16) - ref->user_base) >> MM_OURO_CHUNK_SHIFT);
    uint64_t *const header = mm_chunk_header(ref, chunk);
    struct mm_queue *const of = mm_queue_of(ref, 0);
    unit_eq(of->count, 1);
    const uint64_t token = MM_TOKEN | MM_CHUNK_GAVE_BACK | (uint64_t)chunk << 32 | 9;
    unit_eq(mm_small_settle(ref, 1, token), MM_TOKEN | 9);
    unit_eq(of->count, 1); /* it has an entry */
    unit_eq(mm_semaphore_take(ref, 0, 1), 1);
    unit_eq(take_at(0, mm_add_acq_rel_u64(&of->front, 1)), chunk);
    *header &= ~mm_chunk_queued(0);
    unit_eq(mm_small_settle(ref, 1, MM_TOKEN | 9), MM_TOKEN | 9);
    unit_eq(mm_small_settle(ref, 1, token + 8), MM_TOKEN | 17); /* of another class */
    unit_eq(mm_queue_of(ref, 1)->count, 0);
    unit_eq(of->count, 0);
    unit_eq(mm_small_settle(ref, 1, token), MM_TOKEN | 9);
    unit_eq(of->count, 1);
    unit_holds((*header & mm_chunk_queued(0)) != 0, "the chunk does not say that it is queued");
    unit_sound(&heap, 16);
}
END_TEST

/* All free pages of a chunk are reserved by a caller that is suspended: another one finds the free chunk behind it. */
static void hold_two(void *chunk) { hint_got = mm_chunk_take(ref, *(uint32_t *)chunk, 0, 2, 1); }
START_TEST(a_chunk_behind_one_that_is_reserved) {
    int done = 0;
    for (long steps = 0; !done; steps++) {
        unit_eq(take_all(16), ALL);
        uint32_t chunk = mm_list_segment(ref, 0) * MM_OURO_SEGMENT_CHUNKS + 5;
        uint8_t *const begin = (uint8_t *)mm_chunk_address(ref, chunk * MM_OURO_MASKS, 0, 0);
        mm_heap_free(ref, begin), mm_heap_free(ref, begin + 200 * 16);
        for (uint32_t i = 0; i < MM_OURO_CHUNK_BYTES; i += 16) mm_heap_free(ref, begin + MM_OURO_CHUNK_BYTES + i);
        unit_actor_make(0, hold_two, &chunk), unit_actor_home[0] = 5;
        unit_go(0, steps);
        done = unit_actor[0].done;
        unit_actor_make(1, want_small, &page_of_two), unit_actor_home[1] = 77;
        while (!unit_actor[1].done) unit_go(1, UNIT_TURN_STEPS);
        unit_holds(page_of_two != NULL, "NULL after %ld steps of another caller", steps);
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        tear_down(), set_up();
    }
}
END_TEST

/* A chunk that becomes free goes into the cell of the place where it did; one more into the queue. When there is no other, callers elsewhere find it. */
START_TEST(free_chunks_in_cells) {
    const uint32_t n = take_all(8192), first = (uint32_t)(((uint64_t)all_held[0] - ref->user_base) >> MM_OURO_CHUNK_SHIFT);
    mm_heap_free(ref, all_held[0]), mm_heap_free(ref, all_held[1]);
    unit_eq(*mm_cell_of(ref, MM_OURO_CELL_FREE), first + 1);
    unit_eq(mm_queue_of(ref, MM_OURO_FREE)->count, 1);
    unit_sound(&heap, (n - 2) * 8192);
    unit_eq((uint64_t)take(8192), (uint64_t)all_held[0]); /* the cell's comes first */
    unit_eq(*mm_cell_of(ref, MM_OURO_CELL_FREE), 0);
    unit_eq((uint64_t)take(8192), (uint64_t)all_held[1]);
    for (uint32_t i = 0; i < n; i++) at_place(3 + i * MM_OURO_CELL_LOOKS, free_it, all_held[i]);
    unit_eq(mm_queue_of(ref, MM_OURO_FREE)->count, 0);
    unit_sound(&heap, 0);
    uint8_t *got;
    const uint64_t rounds = mm_list_state(ref)->round / MM_FLIGHT_WORD_ONE;
    for (uint32_t i = 0; i < n / 2; i++) {
        at_place(MM_OURO_CELLS - 1, want_chunk, &got);
        unit_holds(got != NULL, "NULL");
    }
    unit_le(mm_list_state(ref)->round / MM_FLIGHT_WORD_ONE, rounds + n / 16);
    for (uint32_t i = n / 2; i < n; i++) unit_holds(take(8192) != NULL, "a chunk in a cell is lost");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("hints");
    TCase *tests = tcase_create("hints");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, pages_given_back, 0, 3);
    const TTest *const all[] = {hints, pages_in_order, a_token_of_what_was_given_back, a_chunk_behind_one_that_is_reserved, free_chunks_in_cells};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
