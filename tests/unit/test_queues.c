/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The queues of Ouroboros (runtime/ouroboros), built once for each of its allocators: order, callers that are suspended at any step, and positions
 * far on. */
#include "tests/unit/steps.h"

#include "tests/unit/eight.h"
#include "tests/unit/ouro.h"

#define Q 3u
static int put(uint32_t entry) { return mm_queue_put_lanes(ref, 1, Q, entry, 1, MM_OURO_LONG_LOOKS) == 0; }
/* The memory that the first segments bring. */
static void begin_with(uint32_t segments) {
    mm_queues_begin(ref, 0, segments, 0, 1);
    mm_queue_of(ref, MM_OURO_FRESH)->back = segments * MM_OURO_SEGMENT_CHUNKS;
}
static void begin(void) {
    begin_with(SEGMENTS);
    mm_queue_reserve(ref, Q, 1);
}
static uint32_t get(void) {
    if (mm_semaphore_take(ref, Q, 1) == 0) return MM_QUEUE_NONE;
    return take_at(Q, mm_add_acq_rel_u64(&mm_queue_of(ref, Q)->front, 1));
}
/* Entries come out in the order in which they went in, far beyond the length of any queue chunk and of the array; the memory of the queue stays. */
START_TEST(in_order) {
    uint32_t in = 0, out = 0;
    begin();
    for (uint32_t round = 0; round < 300; round++) {
        for (uint32_t i = 0; i < 60; i++) unit_eq(put(in++), 1);
        for (uint32_t i = 0; i < 60 - (round < 30); i++) unit_eq(get(), out++);
        if (round % 40 == 0) mm_queue_reserve(ref, Q, MM_OURO_SEGMENT_CHUNKS * 10); /* the array grows, with entries in it */
    }
    while (out < in) unit_eq(get(), out++);
    unit_eq(get(), MM_QUEUE_NONE);
    unit_eq(mm_semaphore_take(ref, Q, 1), 0);
#if MM_OURO_QUEUE != MM_OURO_S
    unit_le(mm_queue_of(ref, MM_OURO_FREE)->pool_fresh, 3);
#else
    unit_lt(0, mm_queue_of(ref, Q)->shape >> 32);
#endif
}
END_TEST

/* A caller that puts is suspended at any step: another one that takes ends after a bounded number of looks, and the entry is not lost. */
static void put_late(void *arg) { (void)arg, put(77); }
START_TEST(a_suspended_putter) {
    int done = 0;
    begin();
    for (long steps = 0; !done; steps++) {
        unit_actor_make(0, put_late, NULL);
        unit_go(0, steps);
        done = unit_actor[0].done;
        put(5);
        uint32_t got[3] = {MM_QUEUE_NONE, MM_QUEUE_NONE, MM_QUEUE_NONE}, n = 0;
        for (uint32_t tries = 0; tries < 8 && n < 1; tries++) n += (got[n] = get()) != MM_QUEUE_NONE;
        unit_holds(n == 1 && (got[0] == 5 || got[0] == 77), "after %ld steps: %u", steps, got[0]);
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        for (uint32_t tries = 0; tries < 8 && n < 2; tries++) n += (got[n] = get()) != MM_QUEUE_NONE;
        unit_holds(n == 2 && got[0] + got[1] == 82, "after %ld steps: %u and %u", steps, got[0], got[1]);
        unit_eq(get(), MM_QUEUE_NONE);
        unit_eq(mm_queue_of(ref, Q)->count, 0);
    }
#if MM_OURO_QUEUE != MM_OURO_S
    unit_lt(mm_queue_of(ref, Q)->back, MM_STORE_SLOTS);
    unit_eq(*mm_store_passed(ref, Q, 0), 2 * mm_queue_of(ref, Q)->back); /* at each position who puts and who takes, once each */
#endif
    for (uint32_t i = 0; i < 20000; i++) {
        unit_eq(put(i), 1);
        unit_eq(get(), i);
    }
    unit_eq(refused(), 0);
#if MM_OURO_QUEUE != MM_OURO_S
    unit_le(mm_queue_of(ref, MM_OURO_FREE)->pool_fresh, 3); /* all queue chunks but the last ones were used again */
#endif
}
END_TEST
/* So is one that takes, while others put and take more than a queue chunk has: its entry is its own. */
static uint32_t late_got;
static void get_late(void *arg) { (void)arg, late_got = get(); }
START_TEST(a_suspended_taker) {
    int done = 0;
    begin();
    for (long steps = 0; !done; steps++) {
        late_got = MM_QUEUE_NONE;
        unit_eq(put(77), 1);
        unit_actor_make(0, get_late, NULL);
        unit_go(0, steps);
        done = unit_actor[0].done;
        uint32_t others = 0;
        for (uint32_t i = 0; i < 100 * MM_OURO_SEGMENT_CHUNKS; i++) { /* a number without common factors, so that each step meets other positions */
            put(5);
            const uint32_t got = get();
            others += got == 77;
            unit_holds(got == 5 || got == 77 || MM_OURO_QUEUE == MM_OURO_S, "%u", got);
        }
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        for (uint32_t got; (got = get()) != MM_QUEUE_NONE;) others += got == 77;
        unit_holds(others + (late_got == 77) == 1, "after %ld steps: %u, and %u by others", steps, late_got, others);
        for (uint32_t i = 0; i < 5; i++) unit_holds(put(i) && (get() == i || MM_OURO_QUEUE == MM_OURO_S), "after %ld steps: entry %u", steps, i);
    }
}
END_TEST

/* A caller waits in vain for its entry: it marks the slot, and gives its right back. So does one that finds the mark of another position there. The putter of
 * that position has no slot, and clears the mark; that of a later position puts its entry over it. */
START_TEST(a_slot_that_was_given_up) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    begin();
    unit_eq(put(5), 1);
    unit_eq(get(), 5);
    uint32_t *const slot = mm_queue_slot(ref, Q, 1, mm_queue_view(ref, Q), 1);
    of->back = 3, of->front = 3;
    for (uint32_t old = 0; old < 2; old++) {
        *slot = old != 0 ? mm_slot_mark(9) : 0, of->count = 0, unit_waits = 0;
        unit_eq(take_at(Q, 1), MM_QUEUE_NONE);
        unit_eq(*slot, mm_slot_mark(1));
        unit_eq(of->count, 1);
        unit_eq(unit_waits, MM_OURO_LOOKS);
    }
    unit_eq(mm_slot_put(slot, 1, 7), 0);
    unit_eq(*slot, 0);
    unit_eq(mm_slot_put(slot, 1, 7), 1);
    unit_eq(*slot, 8);
    unit_eq(mm_slot_put(slot, 1, 6), 0);
    unit_eq(*slot, 8);
    *slot = mm_slot_mark(1);
    unit_eq(mm_slot_put(slot, 1 + 64, 7), 1);
    unit_eq(*slot, 8);
}
END_TEST

#if MM_OURO_QUEUE == MM_OURO_S
/* A position's slot, far on, is that of the position modulo the slots. */
START_TEST(slots_far_on) {
    begin();
    uint64_t seed = 5;
    for (uint32_t i = 0; i < 20000; i++) {
        const uint64_t p = unit_random(&seed) >> unit_random(&seed) % 60, rows = unit_random(&seed) % SEGMENTS, shift = unit_random(&seed) >> 40;
        unit_holds(mm_queue_slot(ref, Q, p, rows << 32 | shift, 1) == mm_array_slot(ref, Q, (p + shift) % mm_array_slots(Q, rows)), "position %llu",
                   (unsigned long long)p);
    }
}
END_TEST

/* A row has other slots for each queue, and enough: of chunk allocators twice as many as the segment can have entries. */
START_TEST(slots_of_a_row) {
    static uint8_t seen[MM_ARRAY_ROW_BYTES / 4];
    const uint32_t *const row = (const uint32_t *)(ref->words - 2 * MM_ARRAY_ROW_BYTES);
    memset(seen, 0, sizeof seen);
    for (uint32_t q = 0; q < MM_OURO_QUEUES; q++) {
        const uint64_t first = mm_array_slots(q, 1), end = mm_array_slots(q, 2);
        const uint32_t each = IS_CHUNKS ? 2 : q < MM_OURO_CLASSES ? mm_chunk_masks(q) : 1;
        unit_eq(end - first, each * MM_OURO_SEGMENT_CHUNKS);
        for (uint64_t at = first; at < end; at++) {
            const uint64_t in = (uint64_t)(mm_array_slot(ref, q, at) - row);
            unit_holds(in < sizeof seen && !seen[in], "queue %u, slot %llu", q, (unsigned long long)at);
            seen[in] = 1;
        }
    }
}
END_TEST

/* The array grows just when a caller that puts draws the first position of the next lap: its entry may be behind front, and the right to it is dropped. Both
 * come back in the lap after that. */
START_TEST(an_array_that_grows) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    const uint32_t each = MM_ARRAY_FIRST;
    int done = 0, was_dropped = 0;
    for (long steps = 0; !done; steps++) {
        tear_down(), set_up();
        of = mm_queue_of(ref, Q);
        begin_with(SEGMENTS);
        of->front = of->back = each;
        unit_actor_make(0, put_late, NULL);
        unit_go(0, steps);
        done = unit_actor[0].done;
        const uint64_t back = of->back;
        of->front = of->back = each - 1; /* its positions are about to be in two laps */
        mm_queue_reserve(ref, Q, each);
        unit_eq(of->shape, 0);
        of->front = each / 3, of->back = each + 1; /* they are */
        mm_queue_reserve(ref, Q, 1);
        unit_eq(of->shape, 0);
        of->front = each / 8, of->back = each - 1; /* but most slots are in use */
        mm_queue_reserve(ref, Q, 1);
        unit_lt(0, of->shape >> 32);
        of->front = each, of->back = back;
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        uint32_t late = 0;
        for (uint32_t i = 0; i < 5 * each && (late == 0 || of->dropped != 0); i++) {
            late += get() == 77;
            was_dropped |= of->dropped != 0;
            put(5);
            late += get() == 77;
        }
        unit_holds(late == 1 && of->dropped == 0, "after %ld steps: taken %u times, %u rights are dropped", steps, late, (uint32_t)of->dropped);
        while (get() != MM_QUEUE_NONE) {
        }
        unit_eq(of->count, 0);
    }
    unit_holds(was_dropped, "no right was dropped");
}
END_TEST
#endif

#if MM_OURO_QUEUE == MM_OURO_VA
/* No queue chunk could be had for positions that were drawn. As soon as there are some, puts and gets go on behind those positions: none is refused, and a
 * right finds its entry in one more try. */
START_TEST(memory_again) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    uint32_t others[3 * MM_OURO_QUEUES + SEGMENTS], n = 0, in = 0, tries = 0;
    begin();
    unit_eq(put(in++), 1);
    while ((others[n] = mm_store_take(ref, 0)) != 0) n++;
    while (put(in)) in++;
    for (int i = 0; i <= _i; i++)
        unit_eq(mm_queue_put_at(ref, Q, mm_add_acq_rel_u64(&of->back, 1), mm_queue_view(ref, Q), in, MM_OURO_LONG_LOOKS), 0); /* callers that looked before */
    while (n > 0) mm_store_give(ref, others[--n]);
    of->refused = 0;
    for (uint32_t i = 0; i < 3 * MM_STORE_SLOTS; i++) unit_eq(put(in++), 1);
    for (uint32_t i = 0; i < in; tries++) {
        const uint32_t got = get();
        unit_holds(got == MM_QUEUE_NONE || got == i, "entry %u instead of %u", got, i);
        i += got != MM_QUEUE_NONE;
    }
    unit_eq(tries, in + 1 + _i); /* a try for each queue chunk that is not there */
    unit_eq(of->refused + of->count + of->dropped, 0);
    unit_eq(of->front, of->back);
    mm_ring_extend(ref, Q, 1, 0), mm_ring_extend(ref, Q, 1, 0); /* each goes on by four */
    unit_eq(of->oldest, of->back / MM_STORE_SLOTS);
}
END_TEST
#endif

#if MM_OURO_QUEUE != MM_OURO_S
/* No queue chunk can be had: a caller with many entries waits about as long as one with one. So it does if it draws positions, since there were slots when it
 * looked, and these are then beyond the last queue chunk. */
START_TEST(one_wait_for_all) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    uint32_t in = 0;
    begin();
    unit_eq(put(in++), 1);
    while (mm_store_take(ref, 0) != 0) continue;
    while (put(in)) in++;
    if (_i) of->back -= 4, of->count -= 4;
    for (uint64_t p = of->back; _i && p < of->back + 4; p++) *mm_queue_slot(ref, Q, p, mm_queue_view(ref, Q), 1) = 0;
    of->refused = 0, unit_waits = 0;
    mm_queue_put_lanes(ref, 1, Q, in, 32, MM_OURO_LONG_LOOKS);
    unit_eq(of->refused, MM_OURO_IS_MARKED(Q) ? 0 : _i ? 28 : 32); /* chunks: counted by mm_entries_put */
    unit_le(MM_OURO_LONG_LOOKS, unit_waits);
    unit_le(unit_waits, 4 * MM_OURO_LONG_LOOKS);
}
END_TEST
#endif

#if MM_OURO_QUEUE != MM_OURO_S
/* A thread that installs is suspended, for it may be another lane of a caller's warp: its lock keeps nobody from going on. */
START_TEST(a_lock_for_ever) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    begin();
    of->lock = 1, unit_waits = 0;
    for (uint32_t i = 0; i < 3 * MM_STORE_SLOTS; i++) unit_eq(put(i), 1);
    for (uint32_t i = 0; i < 3 * MM_STORE_SLOTS; i++) unit_eq(get(), i);
    unit_eq(of->refused, 0);
    unit_eq(of->lock, 0); /* who installs or appends takes it over */
    unit_le(unit_waits, 4 * MM_OURO_LOCK_LOOKS);
}
END_TEST
#endif

#if MM_OURO_QUEUE == MM_OURO_VA
/* What warps of all queues install ahead is not what entries need: a chunk has MM_OURO_MASKS at most. A lane alone installs none ahead. */
START_TEST(not_too_far_ahead) {
    for (uint64_t segments = 1; segments <= 1u << MM_OURO_LIST_SHIFT; segments *= 2) {
        mm_queue_of(ref, MM_OURO_FRESH)->back = segments * MM_OURO_SEGMENT_CHUNKS;
        const uint64_t need = segments * MM_OURO_SEGMENT_CHUNKS * MM_OURO_MASKS / MM_STORE_SLOTS, ahead = mm_ring_ahead(ref, 32);
        unit_le(need + MM_OURO_QUEUES * ahead, segments);
        unit_eq(ahead != 0, segments >= 32);
        unit_eq(mm_ring_ahead(ref, 1), 0);
        unit_le(mm_ring_ahead(ref, 2), 8);
    }
}
END_TEST

/* Who puts at the first position of a queue chunk installs the next one. */
START_TEST(the_next_queue_chunk) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    begin();
    for (uint32_t i = 0; i < 3 * MM_STORE_SLOTS; i++) {
        unit_eq(put(i), 1);
        unit_eq(of->newest, i / MM_STORE_SLOTS + 2);
    }
    static const struct {
        uint64_t p;
        uint32_t n;
        int begins;
    } drawn[] = {{0, 1, 1},
                 {1, 32, 0},
                 {MM_STORE_SLOTS - 1, 1, 0},
                 {MM_STORE_SLOTS - 2, 4, 1},
                 {MM_STORE_SLOTS, 1, 1},
                 {MM_STORE_SLOTS + 1, 32, 0},
                 {MM_STORE_SLOTS - 32, 32, 0}};
    for (uint32_t i = 0; i < sizeof drawn / sizeof *drawn; i++) unit_eq(mm_ring_begins(drawn[i].p, drawn[i].n), drawn[i].begins);
}
END_TEST

/* A thread that goes on with an old oldest does not let it go back. */
static void install(void *arg) { (void)arg, mm_ring_extend(ref, Q, 1, 0); }
START_TEST(a_suspended_installer) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    int done = 0;
    for (long steps = 0; !done; steps++) {
        begin();
        for (uint64_t number = 0; number < 3; number++) *mm_ring_at(ref, Q, number) = mm_ring_empty(number + (number < 2 ? MM_STORE_NUMBERS : 0));
        of->lock = of->oldest = 0, of->newest = 3, of->back = 2 * MM_STORE_SLOTS; /* all have passed in 0 and 1 */
        unit_actor_make(0, install, NULL);
        unit_go(0, steps);
        done = unit_actor[0].done;
        *mm_ring_at(ref, Q, 2) = mm_ring_empty(2 + MM_STORE_NUMBERS);
        mm_ring_extend(ref, Q, 1, of->lock);
        unit_eq(of->oldest, 3);
        unit_eq(of->lock, 0);
        of->lock = 1; /* the next one's: it is not that thread that releases it */
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        unit_eq(of->oldest, 3);
        unit_eq(of->lock, 1);
    }
}
END_TEST
/* One that goes on with an old newest lets nobody walk from there. */
static long steps_;
static void count_step(void) { steps_++; }
START_TEST(an_old_newest) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    begin();
    for (uint64_t number = 0; number < 1000; number++) *mm_ring_at(ref, Q, number) = mm_ring_empty(number + MM_STORE_NUMBERS);
    of->oldest = 1000, of->newest = 1, of->back = 1000 * MM_STORE_SLOTS;
    steps_ = 0, unit_each_step = count_step;
    mm_ring_extend(ref, Q, 1, 0);
    unit_each_step = NULL;
    unit_eq(of->newest, 1002);
    unit_lt((uint64_t)steps_, 200);
}
END_TEST

/* As long as newest goes on, who waits takes no lock over. */
static uint64_t moves, taken_over_at;
static void move_newest(void) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    if (of->lock != 1 && taken_over_at == 0) taken_over_at = moves;
    if (of->lock == 1 && moves < 1000) of->newest = ++moves;
}
START_TEST(a_holder_that_goes_on) {
    begin();
    mm_queue_of(ref, Q)->lock = 1;
    moves = taken_over_at = 0, unit_each_step = move_newest;
    unit_eq(mm_ring_await(ref, Q, 1, 0, 0, MM_OURO_LONG_LOOKS), 0);
    unit_each_step = NULL;
    unit_eq(taken_over_at, 1000);
}
END_TEST

/* All have passed in the queue chunk that a caller saw as the last one: the queue is empty, not full. */
START_TEST(oldest_has_gone_on) {
    struct mm_queue *of = mm_queue_of(ref, 3);
    of->back = 4ull << MM_OURO_STORE_SHIFT, of->newest = of->oldest = 5;
    unit_eq(mm_queue_is_full(ref, 3, 1, 1), 0);
    unit_eq(mm_ring_has_no_room(ref, 3, 4), 0);
    of->oldest = 4, of->newest = 4 + MM_STORE_NUMBERS / 2, of->back = of->newest << MM_OURO_STORE_SHIFT;
    unit_eq(mm_queue_is_full(ref, 3, 1, 1), 1);
    begin_with(1);
    for (uint64_t number = 4; number < 9; number++) *mm_ring_at(ref, 3, number) = mm_ring_empty(number + MM_STORE_NUMBERS); /* all have passed there */
    unit_eq(mm_queue_is_full(ref, 3, 1, 1), 0);
    unit_eq(of->oldest, 8); /* a lane looks at four */
    unit_eq(of->newest, 4 + MM_STORE_NUMBERS / 2 + 2);
    mm_ring_extend(ref, 3, 1, 0);
    unit_eq(of->oldest, 9);
    /* If there is no room, it goes on as far as it can. */
    for (uint64_t number = 9; number < 60; number++) *mm_ring_at(ref, 3, number) = mm_ring_empty(number + MM_STORE_NUMBERS);
    of->back = (of->newest = 40 + MM_STORE_NUMBERS / 2) << MM_OURO_STORE_SHIFT;
    unit_eq(mm_queue_is_full(ref, 3, 1, 1), 0);
    unit_lt(40, of->oldest);
}
END_TEST
#endif

/* Numbers of positions, and those of queue chunks, begin anew after their last one: after hours of calls. */
#if MM_OURO_QUEUE == MM_OURO_S
static void go_far(uint64_t p) { mm_queue_of(ref, Q)->front = mm_queue_of(ref, Q)->back = p; }
#else
static void go_far(uint64_t p) {
    struct mm_queue *of = mm_queue_of(ref, Q);
    const uint64_t first = p / MM_STORE_SLOTS;
    of->front = of->back = p;
    for (uint64_t number = first; number < first + MM_STORE_NUMBERS; number++) {
        const uint64_t lap = number / MM_STORE_NUMBERS;
        *mm_store_passed(ref, Q, (uint32_t)number) = lap * 2 * MM_STORE_SLOTS;
        if (MM_OURO_QUEUE == MM_OURO_VA) *mm_store_word(ref, Q, (uint32_t)number) = lap << 32;
    }
    of->oldest = first, of->newest = MM_OURO_QUEUE == MM_OURO_VA ? first : 0;
#if MM_OURO_QUEUE == MM_OURO_VL
    const uint32_t number = mm_links_number(Q, (uint32_t)first);
    const uint32_t id = mm_store_take(ref, number);
    mm_store_at(ref, id)->number = number, mm_store_at(ref, id)->next = mm_links_word(number, 0);
    of->oldest = mm_links_word(number, id);
#endif
}
#endif
START_TEST(far_on) {
    static const uint32_t bits[] = {39, 43, 55};
    begin();
    go_far((1ull << bits[_i]) - 2 * MM_OURO_SEGMENT_CHUNKS * MM_OURO_MASKS);
    for (uint32_t i = 0; i < 40000; i += 2) {
        unit_eq(put(i), 1);
        unit_eq(put(i + 1), 1);
        unit_eq(get(), i);
        unit_eq(get(), i + 1);
    }
    unit_eq(refused() + mm_queue_of(ref, Q)->dropped, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("queues");
    TCase *tests = tcase_create("queues");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, far_on, 0, 3);
#if MM_OURO_QUEUE != MM_OURO_S
    tcase_add_loop_test(tests, one_wait_for_all, 0, 2);
    tcase_add_test(tests, a_lock_for_ever);
#endif
#if MM_OURO_QUEUE == MM_OURO_VA
    tcase_add_loop_test(tests, memory_again, 0, 2);
    tcase_add_test(tests, not_too_far_ahead);
    tcase_add_test(tests, oldest_has_gone_on);
    tcase_add_test(tests, a_suspended_installer);
    tcase_add_test(tests, an_old_newest);
    tcase_add_test(tests, a_holder_that_goes_on);
    tcase_add_test(tests, the_next_queue_chunk);
#endif
    const TTest *const all[] = {in_order, a_suspended_putter, a_suspended_taker, a_slot_that_was_given_up};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
#if MM_OURO_QUEUE == MM_OURO_S
    tcase_add_test(tests, slots_far_on);
    tcase_add_test(tests, slots_of_a_row);
    tcase_add_test(tests, an_array_that_grows);
#endif
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
