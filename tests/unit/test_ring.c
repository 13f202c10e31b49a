/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Rings: tickets and lots, by themselves, against plain counting, and as the heap uses them: who makes a lot ready, and when. */
#include "tests/unit/steps.h"

#include "runtime/core/ring.h"

static void (*unit_each_put)(struct mm_ring *ring, uint32_t m);
static void unit_ring_put(struct mm_ring *ring, uint32_t m, uint64_t content) {
    if (unit_each_put) unit_each_put(ring, m);
    mm_ring_put(ring, m, content);
}
#define mm_ring_put unit_ring_put /* in stripe.h and reserve.h */
#include "tests/unit/support.h"

/* A lot's tag is told from no tag, and from those of the lots that its slot has in the rounds before and after. */
START_TEST(tags) {
    uint64_t seed = 3;
    for (uint64_t i = 0; i < 300000; i++) {
        /* some of all sizes, and all powers of two with what is around them */
        const uint32_t m = i < 33 * 64 ? (uint32_t)((1ull << i / 64) + i % 64 - 32) : (uint32_t)(unit_random(&seed) >> (32 + i % 32));
        const uint64_t content = unit_random(&seed) & MM_LOT_CONTENT, tag = mm_lot_tag(m);
        unit_holds(tag != 0 && (tag & (MM_LOT_CONTENT | MM_LOT_ODD)) == 0, "tag of lot %u", m);
        unit_eq(mm_lot_is(0, m), 0);
        unit_eq(mm_lot_is(content, m), 0);
        unit_eq(mm_lot_is(tag | content, m) & mm_lot_is(tag | content | MM_LOT_ODD, m) & mm_lot_is(tag | MM_LOT_NONE, m), 1);
        for (uint32_t rounds = 1; rounds < 1u << 20; rounds = rounds * 3 + 1) {
            unit_eq(mm_lot_is(mm_lot_tag(m + rounds * MM_RING) | content, m), 0);
            unit_eq(mm_lot_is(mm_lot_tag(m - rounds * MM_RING) | content, m), 0);
        }
        unit_eq(mm_lot_is_none(tag | MM_LOT_NONE), 1);
        unit_eq(mm_lot_is_none(tag | MM_LOT_CONTENT) | mm_lot_is_none(tag | MM_LOT_ODD | content >> 1), 0);
    }
    for (uint32_t shift = 0; shift <= 12; shift++) { /* lots begin again with the tickets */
        const uint32_t last = ~0u >> shift;
        unit_eq(mm_lot_after(0, 4, shift), 4);
        unit_eq(mm_lot_after(last - 4, 4, shift), last);
        unit_eq(mm_lot_after(last - 3, 4, shift), 0);
        unit_eq(mm_lot_after(last, 4, shift), 3);
    }
}
END_TEST

#define BEGINS 6
static uint32_t begin_at(uint32_t i, uint32_t shift) { /* a lot to begin with, half of them shortly before the tickets begin again */
    const uint32_t lots[BEGINS] = {0, 1, 5 * MM_RING + 7, 0u - 1, 0u - 3, 0u - 2 * MM_RING};
    return lots[i] & ~0u >> shift;
}

/* Tickets drawn, lots made ready and looked up in many orders, over several rounds: what is looked up is the lot's own, and there
 * is room for a lot just when all tickets of the one before it in its slot have been counted. */
START_TEST(room_against_plain_counting) {
    const uint32_t shift = (uint32_t)_i % 13, ahead = (uint32_t)_i / 13 % 3 * (MM_AHEAD_MAX / 2), most = 4 * MM_RING, in = 1u << shift;
    const uint32_t begin = begin_at((uint32_t)_i / 39, shift);
    struct mm_ring *ring = (struct mm_ring *)calloc(1, sizeof *ring);
    uint32_t *counted = (uint32_t *)calloc(most + 2 * MM_RING, sizeof *counted); /* tickets of lot begin + i */
    uint32_t drawn = 0, oldest = 0;                                               /* from `begin` on; lots not all counted */
    uint64_t seed = (uint64_t)_i + 1, puts = 0;
    ring->tickets = begin << shift;
    for (uint32_t k = 0; k < MM_RING; k++) ring->slot[k].taken = (begin + MM_RING - 1 - k) / MM_RING << shift;
    for (uint32_t i = 0; i < ahead; i++) mm_ring_put(ring, mm_lot_after(begin, i, shift), i), puts++;
    while (drawn >> shift < most) {
        const uint32_t r = (uint32_t)unit_random(&seed);
        if (r % 3 == 0 && drawn >> shift < oldest + MM_RING - ahead - 2) { /* some are drawn */
            const uint32_t room = (oldest + MM_RING - ahead - 1) * in - drawn, want = 1 + (r >> 8) % (in > 32 ? in : 32);
            const uint32_t n = want < room ? want : room, t = mm_ring_draw(ring, n);
            unit_eq(t, (begin << shift) + drawn);
            for (uint32_t i = 0; i < n; i++, drawn++) {
                if (drawn % in != 0) continue;
                const uint32_t lot = (drawn >> shift) + ahead, m = mm_lot_after(begin, lot, shift);
                const int room_is = lot < MM_RING || counted[lot - MM_RING] == in;
                unit_eq(mm_ring_has_room(ring, shift, m), room_is);
                unit_holds(room_is, "the test keeps to the ring");
                unit_eq(mm_lot_is(mm_ring_slot(ring, m)->what, m), 0);
                mm_ring_put(ring, m, lot), puts++;
            }
        } else if (r % 64 == 1 && drawn % in != 0) { /* or what is left of a lot */
            const uint32_t m = mm_lot_after(begin, drawn >> shift, shift), rest = in - drawn % in;
            if (r >> 8 & 1) {
                unit_eq(mm_ring_finish(ring, shift, ring->tickets - 1) | mm_ring_finish(ring, shift, ring->tickets + 1), 0);
                unit_eq(mm_ring_finish(ring, shift, ring->tickets), 1);
                mm_ring_took(ring, m, rest);
            } else {
                mm_ring_skip(ring, shift, mm_lot_after(m, 1, shift)); /* another lot: nothing */
                mm_ring_skip(ring, shift, mm_lot_after(m, ~0u >> shift, shift));
                unit_eq(ring->tickets, (begin << shift) + drawn);
                mm_ring_skip(ring, shift, m);
            }
            counted[drawn >> shift] += rest, drawn += rest;
            unit_eq(ring->tickets, (begin << shift) + drawn);
            mm_ring_skip(ring, shift, mm_lot_after(begin, drawn >> shift, shift)); /* nobody has a ticket of it: nothing */
            unit_eq(ring->tickets, (begin << shift) + drawn);
        } else { /* or counted, of any lot that has some */
            uint32_t lot = oldest;
            if (drawn >> shift > oldest) lot += (r >> 8) % ((drawn >> shift) - oldest + 1);
            const uint32_t of = drawn >> shift > lot ? in : drawn % in, some = of - counted[lot], m = mm_lot_after(begin, lot, shift);
            if (lot < drawn >> shift || some != 0) unit_eq(unit_ring_look(ring, m) & MM_LOT_CONTENT, lot);
            const uint32_t n = some > 0 ? 1 + (r >> 16) % some : 0;
            if (n > 0) mm_ring_took(ring, m, n);
            counted[lot] += n;
            unit_eq(mm_ring_has_room(ring, shift, mm_lot_after(m, MM_RING, shift)), counted[lot] == in);
        }
        while (counted[oldest] == in) oldest++;
    }
    unit_lt(3 * MM_RING, puts);
    free(ring), free(counted);
}
END_TEST

static uint32_t polls;
static void count_polls(void) { polls++; }

/* A lot that nobody makes ready, or room that never comes: an end after a bound, and nothing in it. */
START_TEST(waits_end) {
    struct mm_ring *ring = (struct mm_ring *)calloc(1, sizeof *ring);
    unit_each_step = count_polls, polls = 0;
    unit_eq(unit_ring_look(ring, 0), MM_LOT_NONE);
    unit_eq(polls, MM_WAIT_ITERATIONS);
    mm_ring_put(ring, 0, 77);
    polls = 0;
    unit_eq(unit_ring_look(ring, 0), mm_lot_tag(0) | 77);
    unit_eq(polls, 1);
    unit_eq(unit_ring_look(ring, MM_RING), MM_LOT_NONE); /* an earlier lot is not taken for it */
    mm_ring_took(ring, 0, 3);
    polls = 0;
    unit_ring_await(ring, 2, MM_RING);
    unit_le(MM_WAIT_ITERATIONS, polls);
    unit_le(polls, MM_WAIT_ITERATIONS + 1);
    mm_ring_took(ring, 0, 1);
    polls = 0;
    unit_ring_await(ring, 2, MM_RING);
    unit_eq(polls, 1);
    unit_each_step = NULL;
    free(ring);
}
END_TEST

/* Whose first ticket makes its own lot ready: if nobody makes any ahead, or nobody was there to. */
START_TEST(late) {
    struct mm_ring *ring = (struct mm_ring *)calloc(1, sizeof *ring);
    for (uint32_t m = 0; m < 3 * MM_RING; m++) unit_eq(mm_ring_is_late(ring, m, 0), 1);
    for (uint32_t ahead = 1; ahead <= MM_AHEAD_MAX; ahead++) {
        memset(ring, 0, sizeof *ring);
        for (uint32_t m = 0; m < 3 * MM_RING; m++) {
            unit_eq(mm_ring_is_late(ring, m, ahead), m < ahead);
            if (m < ahead) mm_ring_put(ring, m, 0);
        }
        for (uint32_t shift = 0; shift <= 12; shift++)
            for (uint32_t m = 0; m < ahead; m++) { /* the tickets begin again; lot m is on its way: the slot still has this */
                mm_ring_put(ring, (~0u >> shift) - MM_RING + 1 + m, 0);
                unit_eq(mm_ring_is_late(ring, m, ahead), 0);
            }
    }
    free(ring);
}
END_TEST

#define SEGMENTS 8
#define LOTS_MOST 16384
static struct mm_cpu_heap heap;
static uint32_t class_, begin[MM_RINGS];
static uint8_t put[MM_RINGS][LOTS_MOST]; /* how often lot begin + i was made ready */

static uint32_t shift_of(uint32_t i) {
    return mm_ring_shift(heap.ref.classes[class_], i);
}
static void note_put(struct mm_ring *ring, uint32_t m) {
    const uint32_t i = (uint32_t)(ring - mm_ring_at(&heap.ref, class_, 0)), lot = mm_lot_after(m, 0u - begin[i], shift_of(i));
    unit_lt(i, MM_RINGS);
    unit_eq(m, m & ~0u >> shift_of(i));
    unit_lt(lot, LOTS_MOST);
    unit_holds(mm_ring_has_room(ring, shift_of(i), m), "ring %u: lot %u is put where lot %u is in use", i, m, m - MM_RING);
    put[i][lot]++;
}

/* Slices drawn, freed and flushed at random, from two stripes: each lot is made ready once, when the lot so many before it
 * has begun, or, if there is none, it has itself. */
START_TEST(every_lot_is_put_once) {
    static const uint32_t sizes[] = {64, 1000, 65536, MM_SEGMENT_BYTES / 4, MM_SEGMENT_BYTES / 2};
    const uint32_t c = class_ = mm_class_of(sizes[_i % 5]), variant = (uint32_t)_i / 5 % 3, again = (uint32_t)_i / 15;
    unit_create(&heap, SEGMENTS);
    struct mm_class *k = &heap.ref.classes[c];
    *k = mm_class_make(c, 40);
    k->ahead = (uint8_t)(variant * (MM_AHEAD_MAX / 2)), k->reserve_ahead = variant > 0;
    if (variant < 2) k->row_lot_shift = (uint8_t)(k->row_lot_shift - k->row_shift), k->row_shift = 0;
    for (uint32_t i = 0; i < MM_RINGS; i++) {
        begin[i] = again ? (0u - 3) & ~0u >> shift_of(i) : 0;
        if (again) unit_ring_from(&heap.ref, c, i, begin[i]);
    }
    const uint32_t most = SEGMENTS * k->slices, rounds = 40000 / (1 + (k->slices > 1000));
    uint32_t *held = (uint32_t *)malloc((most + 64) * sizeof *held), n = 0, lots = 0;
    uint64_t seed = (uint64_t)_i + 1;
    unit_each_put = note_put;
    for (uint32_t round = 0; round < rounds && lots < LOTS_MOST / 8; round++) {
        const uint32_t r = (uint32_t)unit_random(&seed), stripe = r >> 8 & 1, want = 1 + (r >> 16) % 32;
        if (r % 8 < 4 && n + want <= most / 2) n += unit_take(&heap.ref, c, want, stripe, held + n);
        for (uint32_t i = 0; r % 8 >= 4 && i < want && n > 0; i++) {
            const uint32_t at = (uint32_t)(unit_random(&seed) % n), slice = held[at];
            held[at] = held[--n];
            mm_heap_free(&heap.ref, (void *)(heap.ref.user_base + (uint64_t)(slice / k->slices) * MM_SEGMENT_BYTES + (uint64_t)(slice % k->slices) * k->bytes));
        }
        if (r % 61 == 0) mm_stripe_flush(&heap.ref);
        lots = mm_lot_after(mm_ring_at(&heap.ref, c, 0)->tickets >> k->lot_shift, 0u - begin[0], k->lot_shift);
    }
    unit_each_put = NULL;
    unit_eq(unit_misuses(&heap), 0);
    unit_sound(&heap, (uint64_t)n * k->bytes);
    for (uint32_t i = 0; i < MM_RINGS; i++) {
        const uint32_t shift = shift_of(i), ahead = mm_ring_ahead(*k, i);
        const uint32_t begun = (mm_ring_at(&heap.ref, c, i)->tickets - (begin[i] << shift) + (1u << shift) - 1) >> shift;
        if (i < 2) unit_lt(5, begun);
        for (uint32_t lot = 0; lot < LOTS_MOST; lot++) {
            const int is_late = begin[i] == 0 && lot < begun && lot < ahead;
            unit_holds(put[i][lot] == (is_late || (lot >= ahead && lot - ahead < begun)), "ring %u: lot %u after the first was put %u times", i, lot, put[i][lot]);
        }
    }
    mm_cpu_heap_destroy(&heap);
    free(held);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ring");
    TCase *tests = tcase_create("rings");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, tags);
    tcase_add_loop_test(tests, room_against_plain_counting, 0, 13 * 3 * BEGINS);
    tcase_add_test(tests, waits_end);
    tcase_add_test(tests, late);
    tcase_add_loop_test(tests, every_lot_is_put_once, 0, 5 * 3 * 2);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
