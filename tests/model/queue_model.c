/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The queues of Ouroboros (runtime/ouroboros) under the explorer: the semaphore, and each queue with two slots for a queue chunk and a ring of eight, so that a
 * few calls go round. A caller that was suspended for a lap has drawn its position in the set-up. */
#include <stdlib.h>

#include "world.h"

#define Q 1u
static uint32_t self(void) { return model_self() % MODEL_THREADS; }

/* cell[0]: bits of entries that were put; cell[1]: that were taken; cell[2]: rights at once; cell[3]: puts that were refused; cell[4]: callers that cut a
 * chunk; cell[5]: back of a full queue */
#define LATE 15u /* the entry of a suspended caller */
#define OTHER 14u
static uint64_t late_position;
#define ELSEWHERE 0xf0000000u
static uint64_t elsewhere; /* queue chunks that other queues have */

static void put_of(uint32_t here, uint32_t entry) {
    const int is_put = mm_queue_put_lanes(&ref, here, Q, entry, 1, MM_OURO_LONG_LOOKS) == 0;
    if (entry == MM_QUEUE_NONE) return;
    if (is_put) cell_set(0, cell[0] | 1ull << entry);
    else cell_set(3, cell[3] + 1);
    model_progress();
}
static void put(uint32_t entry) { put_of(1u << mm_warp_lane(), entry); }
static uint32_t taken(uint32_t entry) {
    if (entry != MM_QUEUE_NONE) {
        model_require(entry < 16 && !(cell[1] >> entry & 1), "entry %u was taken twice, or never put", entry);
        cell_set(1, cell[1] | 1ull << entry);
    }
    model_progress();
    return entry;
}
static uint64_t next_to_take(void) { return mm_add_acq_rel_u64(&mm_queue_of(&ref, Q)->front, 1); }
static uint32_t take_at(uint64_t p) {
    uint32_t passes = 0;
    const uint32_t entry = mm_queue_take(&ref, Q, p, mm_queue_view(&ref, Q), &passes);
    mm_queue_pass_lanes(&ref, 1u << mm_warp_lane(), Q, p, p, passes);
    return taken(entry);
}
static uint32_t get_with(uint32_t rights) { return rights != 0 ? take_at(next_to_take()) : taken(MM_QUEUE_NONE); }
static uint32_t get(void) { return get_with(mm_semaphore_take(&ref, Q, 1)); }
static void put_one(void) { put(self()); }
static void put_two(void) { put(self()), put(4 + self()); }
static void put_three(void) { put_two(), put(8 + self()); }
static void get_one(void) { get(); }
static void get_two(void) { get(), get(); }
static void put_and_get(void) { put(self()), get(); }
static void twice(void) { put(self()), get(), put(4 + self()), get(); }
static void put_three_at_once(void) {
    cell_set(0, cell[0] | 7 << 4 * self());
    mm_queue_put_lanes(&ref, 1u << mm_warp_lane(), Q, 4 * self(), 3, MM_OURO_LONG_LOOKS);
}
static void put_all(void) { put_three_at_once(), model_progress(); }
/* The lanes of a warp put an entry each, one of them has none; two each; they take together. */
static void put_together(void) { put_of(mm_warp_here(), self()); }
static void put_none_together(void) { put_of(mm_warp_here(), MM_QUEUE_NONE); }
static void put_two_together(void) { put_together(), put_of(mm_warp_here(), 4 + self()); }
static void get_together(void) {
    const uint32_t here = mm_warp_here(), lane = mm_warp_lane(), leader = mm_ctz(here);
    uint32_t rights = 0, entry = MM_QUEUE_NONE, passes = 0;
    uint64_t first = 0;
    const uint64_t view = mm_queue_view(&ref, Q);
    if (lane == leader && (rights = mm_semaphore_take(&ref, Q, 2)) != 0) first = mm_add_acq_rel_u64(&mm_queue_of(&ref, Q)->front, rights);
    rights = mm_warp_shuffle(here, rights, leader), first = mm_warp_shuffle_u64(here, first, leader);
    if (lane < rights) entry = mm_queue_take(&ref, Q, first + lane, view, &passes);
    mm_warp_sync(here);
    mm_queue_pass_lanes(&ref, here, Q, first, first + lane, passes);
    taken(entry);
}
/* Wants a page, and has three if it has to cut a chunk. */
static void want(void) {
    if (get() != MM_QUEUE_NONE) return;
    const uint32_t rights = mm_semaphore_wants(&ref, Q, 1) ? 0 : mm_semaphore_wait(&ref, Q, 1);
    if (rights != 0) {
        get_with(rights);
        return;
    }
    mm_semaphore_expect(&ref, Q);
    cell_set(4, cell[4] + 1);
    put_three_at_once();
    mm_semaphore_expected(&ref, Q);
    model_progress();
}
#if MM_OURO_QUEUE == MM_OURO_S
static void reserve(void) { mm_queue_reserve(&ref, Q, MM_OURO_SEGMENT_CHUNKS), model_progress(); }
static void reserve_much(void) { mm_queue_reserve(&ref, Q, 8 * MM_OURO_SEGMENT_CHUNKS), model_progress(); }
#endif
/* Two rights, of which the caller uses none. */
static void rights(void) {
    const uint32_t n = mm_semaphore_take(&ref, Q, 2);
    cell_set(2, cell[2] + n);
    model_require(cell[2] <= 3, "%u rights to three entries", (uint32_t)cell[2]);
    model_progress();
}
static void rights_and_back(void) {
    const uint32_t n = mm_semaphore_take(&ref, Q, 2);
    cell_set(2, cell[2] + n);
    model_require(cell[2] <= 3, "%u rights to three entries", (uint32_t)cell[2]);
    cell_set(2, cell[2] - n);
    if (n != 0) mm_semaphore_put(&ref, Q, n);
    model_progress();
}
/* The suspended caller goes on. */
static void take_late(void) { take_at(late_position); }
static void put_late(void) {
    if (!mm_queue_put_at(&ref, Q, late_position, mm_queue_view(&ref, Q), LATE, MM_OURO_LONG_LOOKS)) {
        put(LATE);
        return;
    }
    mm_semaphore_put(&ref, Q, 1);
    cell_set(0, cell[0] | 1ull << LATE);
    model_progress();
}

/* ---- set-up: the others have put and taken n entries, one after the other ---------------------------- */

static void forget(void) { cell_set(0, 0), cell_set(1, 0), cell_set(3, 0); }
static void others(uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t before = cell[1];
        put(OTHER);
        get();
        cell_set(1, before);
    }
}
static void queue(uint32_t segments) {
    world_make(segments);
    elsewhere = 0;
    mm_queues_begin(&ref, 0, segments, 0, 1); /* they have entered */
    mm_queue_reserve(&ref, Q, 1);
    mm_queue_of(&ref, MM_OURO_FRESH)->back = segments * MM_OURO_SEGMENT_CHUNKS;
}
static void a_queue(void) { queue(1); }
#if MM_OURO_QUEUE == MM_OURO_S
#define LAP MM_ARRAY_FIRST
#define SLOTS mm_array_slots(Q, mm_queue_of(&ref, Q)->shape >> 32)
static void array_to_grow(void) {
    queue(2);
    put(9), put(10);
}
/* The next position is the last one of a lap. */
static void array_to_grow_at_the_end(void) {
    queue(2);
    others(LAP - 1);
    forget();
}
/* It has gone round, and its entries are in one lap. */
static void array_in_a_later_lap(void) {
    queue(2);
    others(LAP + 5);
    forget();
    put(9), put(10);
}
/* Its entries are in two laps. */
static void array_in_two_laps(void) {
    queue(2);
    others(LAP - 1);
    forget();
    put(9), put(10);
}
#else
#define LAP (MM_STORE_NUMBERS * MM_STORE_SLOTS)
#endif
/* The next position is the last one of a lap. */
static void at_the_end(void) {
    queue(1);
    others(LAP - 1);
    forget();
}
static void in_the_middle(void) { a_queue(), others(1), forget(); }
static void warp(void) { a_queue(), world_warp(0, 2); }
static void warp_with_two(void) { a_queue(), put(9), put(10), world_warp(0, 2); }
static void warp_at_the_end(void) { at_the_end(), world_warp(0, 2); }
static void warp_in_the_middle(void) { in_the_middle(), put(9), world_warp(0, 2); }
static void at_the_end_with_one(void) { at_the_end(), put(9); }
/* A caller that takes has drawn the first position, which has its entry, a lap ago, or half a lap. */
static void late_taker(uint32_t n) {
    queue(1);
    put(LATE);
    if (mm_semaphore_take(&ref, Q, 1) != 1) abort();
    late_position = next_to_take();
    others(n);
    cell_set(0, 1ull << LATE), cell_set(1, 0), cell_set(3, 0);
}
static void taker_of_last_lap(void) { late_taker(LAP - 2); }
static void taker_of_half_a_lap(void) { late_taker(LAP / 2 - 2); }
#if MM_OURO_QUEUE != MM_OURO_S
/* And the queue is full. */
static void full(void) {
    late_taker(LAP / 2);
    mm_queue_of(&ref, Q)->refused = 0;
    cell_set(5, mm_queue_of(&ref, Q)->back);
}
#endif
/* And one that puts. */
static void late_putter(uint32_t n) {
    queue(1);
    late_position = mm_add_acq_rel_u64(&mm_queue_of(&ref, Q)->back, 1);
    others(n);
    get(), get(), get();
    forget();
}
static void putter_of_last_lap(void) { late_putter(LAP - 3); }
static void putter_of_half_a_lap(void) { late_putter(LAP / 2 - 3); }
#if MM_OURO_QUEUE != MM_OURO_S
/* There are n queue chunks more: others have the rest. The next position is the first one in the first of them. */
static void short_of(uint32_t n) {
    uint32_t some[2] = {0, 0};
    a_queue();
    others(2 * MM_STORE_SLOTS);
    for (uint32_t i = 0; i < n; i++) some[i] = mm_store_take(&ref, 0);
    elsewhere = 0;
    for (uint32_t id; (id = mm_store_take(&ref, 0)) != 0; elsewhere++) mm_store_at(&ref, id)->number = ELSEWHERE;
    for (uint32_t i = 0; i < n; i++) mm_store_give(&ref, some[i]);
    forget();
}
static void no_queue_chunk(void) { short_of(0); }
static void one_queue_chunk(void) { short_of(1); }
static void warp_one_queue_chunk(void) { one_queue_chunk(), world_warp(0, 2); }
static void warp_no_queue_chunk(void) { no_queue_chunk(), world_warp(0, 2); }
static void give_some(void) {
    for (uint32_t id = 1, n = 0; n < 3; id++) {
        if (mm_store_at(&ref, id)->number != ELSEWHERE) continue;
        mm_store_give(&ref, id);
        n++, model_set(&elsewhere, elsewhere - 1);
    }
    model_progress();
}
#endif
static void three_counted(void) {
    queue(1);
    mm_queue_of(&ref, Q)->count = 3;
}

/* ---- at the end ------------------------------------------------------------------------------------ */

#define OTHERS (1ull << OTHER)
static void need(int must) { model_require(!must || cell[0] == cell[1], "entries %x were put, %x taken", (uint32_t)cell[0], (uint32_t)cell[1]); }
#if MM_OURO_QUEUE == MM_OURO_S
static void forget_others(void) { cell_set(0, cell[0] & ~OTHERS), cell_set(1, cell[1] & ~OTHERS); }
/* An entry that a caller put behind front, since the array grew or the queue went round meanwhile, is found in the next round. */
static void check_rest(void) {
    struct mm_queue *of = mm_queue_of(&ref, Q);
    uint64_t entries = 0;
    model_require(of->shape >> 32 <= mm_queue_of(&ref, MM_OURO_FRESH)->back / MM_OURO_SEGMENT_CHUNKS, "the array has rows that no segment has brought");
    for (uint64_t i = 0; i < SLOTS; i++) entries += (uint64_t)mm_slot_has_entry(*mm_array_slot(&ref, Q, i));
    model_require(entries == of->count + of->dropped, "the array has %u entries, counts %u, and %u rights were dropped", (uint32_t)entries, (uint32_t)of->count,
                  (uint32_t)of->dropped);
    for (uint32_t i = 0; i < 3 * SLOTS && (cell[0] != cell[1] || of->dropped != 0); i++) put(OTHER), get(), forget_others(), get(), forget_others();
    need(1);
    model_require(of->dropped == 0, "%u rights were dropped for ever", (uint32_t)of->dropped);
    for (uint32_t i = 0; i < 2 * SLOTS; i++) put(OTHER), get(), forget_others();
    for (uint64_t i = 0; i < SLOTS; i++) model_require(!(*mm_array_slot(&ref, Q, i) & MM_SLOT_MARK), "slot %u is marked for ever", (uint32_t)i);
}
#else
static void give_all(void) {
    for (uint32_t id = 1; elsewhere > 0; id++)
        if (mm_store_at(&ref, id)->number == ELSEWHERE) mm_store_give(&ref, id), model_set(&elsewhere, elsewhere - 1);
}
/* Queue chunks that the queue has: in the array of words, or in the list. */
#if MM_OURO_QUEUE == MM_OURO_VA
static uint32_t queue_chunks(void) {
    uint32_t n = 0;
    for (uint64_t number = mm_queue_of(&ref, Q)->oldest; number < mm_queue_of(&ref, Q)->newest; number++)
        n += (uint32_t)mm_ring_is_there(*mm_ring_at(&ref, Q, number));
    return n;
}
#else
static uint32_t queue_chunks(void) {
    uint32_t n = 0;
    for (uint32_t id = (uint32_t)mm_queue_of(&ref, Q)->oldest; id != 0; id = (uint32_t)mm_store_at(&ref, id)->next) n++;
    return n;
}
#endif
static void check_rest(void) {
    struct mm_queue *of = mm_queue_of(&ref, Q), *pool = mm_queue_of(&ref, MM_OURO_FREE);
    need(1);
    model_require(of->count == 0 && of->dropped == 0, "an empty queue counts %d; %u rights were dropped", (int)of->count, (uint32_t)of->dropped);
    give_all();
    for (uint32_t lap = 0; lap < 2; lap++) {
        for (uint32_t i = 0; i <= LAP; i++) {
            others(1);
            while (of->count != 0) get(), cell_set(1, 0);
        }
        model_require(cell[3] == 0, "an empty queue refused an entry");
        uint32_t spare = 0;
        for (uint32_t stack = 0; stack < MM_OURO_STACKS; stack++)
            for (uint32_t id = (uint32_t)pool->pool_free[stack]; id != 0; id = (uint32_t)mm_store_at(&ref, id)->link, spare++) {
                model_require(spare < pool->pool_fresh, "a queue chunk was given back twice");
                for (uint32_t i = 0; i < MM_STORE_SLOTS; i++)
                    model_require(mm_store_at(&ref, id)->slot[i] == 0, "queue chunk %u, slot %u is left %x", id, i, mm_store_at(&ref, id)->slot[i]);
            }
        model_require(pool->pool_fresh - spare == queue_chunks() && queue_chunks() <= 3, "%u queue chunks are lost, the queue has %u",
                      (uint32_t)pool->pool_fresh - spare - queue_chunks(), queue_chunks());
    }
}
#endif
/* All entries come out, once; no memory of the queue is lost, and it works for two more laps. */
static void check_all(int must) {
    for (uint32_t tries = 0; tries < 16; tries++) get();
    need(must);
    cell_set(3, 0);
    check_rest();
}
static void check_late(void) { check_all(MM_OURO_QUEUE != MM_OURO_S); }
/* Nobody refuses an entry of a queue with room; but a caller that installs queue chunks may be suspended. */
static void check_fair(void) {
    model_require(cell[3] == 0, "a queue with room refused an entry");
    check_all(1);
}
static void check_queue(void) {
    if (MM_OURO_QUEUE == MM_OURO_S) check_fair();
    else check_all(1);
}
/* What put_all could not put, it has counted. */
static void check_put_all(void) {
    for (uint32_t tries = 0; tries < 16; tries++) get();
    const uint64_t lost = cell[0] & ~cell[1];
    model_require(mm_popcount(lost) == mm_queue_of(&ref, Q)->refused - cell[3], "%u entries are lost, %u were refused", mm_popcount(lost),
                  (uint32_t)(mm_queue_of(&ref, Q)->refused - cell[3]));
    cell_set(0, cell[1]);
    check_all(1);
}
static void check_put_all_fair(void) {
    model_require(mm_queue_of(&ref, Q)->refused == 0, "a queue with room refused an entry");
    check_put_all();
}
#if MM_OURO_QUEUE != MM_OURO_S
static void check_full(void) {
    model_require(mm_queue_of(&ref, Q)->back == cell[5], "a full queue has given %u positions", (uint32_t)(mm_queue_of(&ref, Q)->back - cell[5]));
    take_late();
    check_put_all();
}
/* The late taker goes on when all others are done. */
static void check_late_taker(void) { take_late(), check_late(); }
#endif
/* With waits that are fair one caller cuts for all. */
static void check_want(void) {
    model_require(cell[4] == 1, "%u callers have cut a chunk each", (uint32_t)cell[4]);
    model_require((uint32_t)mm_queue_of(&ref, Q)->awaited == 0, "somebody cuts a chunk, for ever");
    model_require(mm_queue_of(&ref, Q)->waiters == 0, "somebody waits, for ever");
    check_all(1);
}
static void check_rights(void) {
    model_require((int64_t)mm_queue_of(&ref, Q)->count + (int64_t)cell[2] == 3, "%d counted, %u rights given", (int)mm_queue_of(&ref, Q)->count,
                  (uint32_t)cell[2]);
    mm_queue_of(&ref, Q)->count = mm_queue_of(&ref, MM_OURO_FRESH)->back = 0;
    world_check();
}

static const struct model_scenario scenarios[] = {
    {"queue-put-and-get", a_queue, {put_one, get_one}, check_queue, 0, 0},
    {"queue-puts-and-get", a_queue, {put_one, put_one, get_one}, check_queue, 3, 0},
    {"queue-put-and-gets", a_queue, {put_two, get_one, get_one}, check_queue, 3, 0},
    {"queue-pass-on", a_queue, {put_and_get, put_and_get, get_one}, check_queue, 3, 0},
    {"queue-two-chunks", a_queue, {put_three, get_two}, check_queue, 3, 0},
    {"queue-twice", a_queue, {twice, twice}, check_queue, 3, 0},
    {"queue-fair-put-and-get", a_queue, {put_one, get_one}, check_fair, 0, 1},
    {"queue-fair-puts-and-get", a_queue, {put_one, put_two, get_one}, check_fair, 2, 1},
    {"queue-fair-end-puts", at_the_end, {put_one, put_one, put_one}, check_fair, 2, 1},
    {"queue-end", at_the_end, {put_two, get_two}, check_queue, 3, 0},
    {"queue-end-puts", at_the_end, {put_one, put_one, put_one}, check_queue, 3, 0},
    {"queue-end-one", at_the_end_with_one, {get_one, put_one, put_one}, check_queue, 3, 0},
    {"queue-end-pass-on", at_the_end_with_one, {put_and_get, put_and_get, get_one}, check_queue, 2, 0},
    {"queue-end-twice", at_the_end_with_one, {twice, get_two}, check_queue, 3, 0},
    {"queue-late-taker", taker_of_last_lap, {take_late, twice}, check_late, 3, 0},
    {"queue-late-taker-of-three", taker_of_last_lap, {take_late, put_two, get_two}, check_late, 2, 0},
    {"queue-late-taker-half", taker_of_half_a_lap, {take_late, twice}, check_late, 3, 0},
    {"queue-late-putter", putter_of_last_lap, {put_late, twice}, check_late, 3, 0},
    {"queue-late-putter-of-three", putter_of_last_lap, {put_late, put_two, get_two}, check_late, 2, 0},
    {"queue-late-putter-half", putter_of_half_a_lap, {put_late, twice}, check_late, 3, 0},
#if MM_OURO_QUEUE == MM_OURO_S
    {"queue-grow", array_to_grow, {reserve, put_one, get_one}, check_queue, 3, 0},
    {"queue-grow-to-the-last-row", a_queue, {reserve_much, reserve, put_and_get}, check_queue, 2, 0},
    {"queue-grow-in-a-later-lap", array_in_a_later_lap, {reserve, put_one, get_one}, check_queue, 3, 0},
    {"queue-grow-by-two", array_to_grow_at_the_end, {reserve, reserve, put_two}, check_late, 2, 0},
    {"queue-grow-in-two-laps", array_in_two_laps, {reserve, put_one}, check_late, 3, 0},
    {"queue-grow-at-the-end", array_to_grow_at_the_end, {reserve, put_two, get_two}, check_late, 3, 0},
#else
    {"queue-no-queue-chunk", no_queue_chunk, {put_two, get_two}, check_late, 3, 0},
    {"queue-one-queue-chunk", one_queue_chunk, {put_three, get_two}, check_late, 3, 0},
    {"queue-none-for-a-while", no_queue_chunk, {put_two, get_two, give_some}, check_late, 3, 0},
    {"queue-none-for-puts", no_queue_chunk, {put_two, put_two, give_some}, check_late, 2, 0},
    {"queue-none-for-puts-and-gets", no_queue_chunk, {put_three, get_two, put_three}, check_late, 2, 0},
#endif
    {"queue-lanes-put", warp, {put_together, put_together, get_two}, check_queue, 2, 0},
    {"queue-lanes-put-one", warp, {put_together, put_none_together, get_one}, check_queue, 3, 0},
    {"queue-lanes-put-two", warp_in_the_middle, {put_two_together, put_two_together, put_and_get}, check_queue, 2, 0},
    {"queue-lanes-end", warp_at_the_end, {put_two_together, put_two_together, get_two}, check_queue, 2, 0},
    {"queue-lanes-take", warp_in_the_middle, {get_together, get_together, put_two}, check_queue, 2, 0},
    {"queue-lanes-take-two", warp_with_two, {get_together, get_together, put_two}, check_queue, 2, 0},
    {"queue-lanes-fair-put", warp, {put_two_together, put_two_together, get_two}, check_fair, 2, 1},
#if MM_OURO_QUEUE != MM_OURO_S
    {"queue-lanes-no-queue-chunk", warp_no_queue_chunk, {put_together, put_together, give_some}, check_late, 2, 0},
    {"queue-lanes-one-queue-chunk", warp_one_queue_chunk, {put_two_together, put_two_together, get_two}, check_late, 2, 0},
#endif
    {"queue-put-all", in_the_middle, {put_all, put_all, get_two}, check_put_all, 2, 0},
    {"queue-fair-put-all", in_the_middle, {put_all, put_all, get_two}, check_put_all_fair, 2, 1},
#if MM_OURO_QUEUE != MM_OURO_S
    {"queue-full-puts", taker_of_last_lap, {put_two, put_two}, check_late_taker, 2, 0},
    {"queue-full-put-all", full, {put_all, put_all}, check_full, 0, 0},
#endif
    {"queue-fair-want", in_the_middle, {want, want, want}, check_want, 2, 1},
    {"queue-rights", three_counted, {rights, rights, rights}, check_rights, 0, 0},
    {"queue-rights-back", three_counted, {rights_and_back, rights_and_back, rights}, check_rights, 0, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
