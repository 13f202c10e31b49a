/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Ouroboros (runtime/ouroboros) under the explorer: its semaphore and queues, also across the end of a queue chunk and of the array; chunks that are cut, become
 * free and are cut again; segments that enter and leave the list. */
#include <stdlib.h>

#include "world.h"

#include "listed.h"

#define Q 1u /* no chunk is of this class: its queue holds what scenarios put there */
#define IS_CHUNKS (MM_OURO_ENTRY == MM_OURO_CHUNKS)
static void *page_of[MODEL_THREADS];
static uint32_t self(void) { return model_self() % MODEL_THREADS; }

/* ---- queues: cell[0]: bits of entries that were put; cell[1]: that were taken; cell[2]: rights at once -- */

static void put(uint32_t entry) {
    model_require(mm_queue_put(&ref, Q, entry), "a queue with room refused an entry");
    cell_set(0, cell[0] | 1ull << entry);
    model_progress();
}
static uint32_t get(void) {
    uint32_t entry = MM_QUEUE_NONE;
    if (mm_semaphore_take(&ref, Q, 1) != 0) entry = mm_queue_take(&ref, Q, mm_add_acq_rel_u64(&mm_queue_of(&ref, Q)->front, 1));
    if (entry != MM_QUEUE_NONE) {
        model_require(entry < 16 && !(cell[1] >> entry & 1), "entry %u was taken twice, or never put", entry);
        cell_set(1, cell[1] | 1ull << entry);
    }
    model_progress();
    return entry;
}
static void put_one(void) { put(self()); }
static void put_two(void) { put(self()), put(4 + self()); }
static void get_one(void) { get(); }
static void get_two(void) { get(), get(); }
static void put_and_get(void) { put(self()), get(); }
static void reserve(void) { mm_queue_reserve(&ref, Q, MM_OURO_SEGMENT_CHUNKS), model_progress(); }
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

static void queue(uint32_t segments) {
    world_make(segments);
    mm_queues_begin(&ref);
    mm_queue_reserve(&ref, Q, 1);
}
static void a_queue(void) { queue(1); }
static void array_to_grow(void) {
    queue(2);
    put(9), put(10);
}
/* The next position is the last one of the array, or of the first queue chunk: all before it have passed. */
static void at_the_end(void) {
    queue(1);
#if MM_OURO_QUEUE == MM_OURO_S
    mm_queue_of(&ref, Q)->front = mm_queue_of(&ref, Q)->back = mm_array_each(Q) - 1;
#else
    for (uint32_t i = 0; i + 1 < MM_STORE_SLOTS; i++) mm_queue_put(&ref, Q, 9), cell[1] = 0, get();
    cell[1] = 0;
#endif
}
static void at_the_end_with_one(void) { at_the_end(), put(9); }
static void three_counted(void) {
    queue(1);
    mm_queue_of(&ref, Q)->count = 3;
}

/* All entries come out, once, and the memory of the queue is not lost. */
static void check_queue(void) {
    for (uint32_t tries = 0; tries < 16; tries++) get();
    model_require(cell[0] == cell[1], "entries %x were put, %x taken", (uint32_t)cell[0], (uint32_t)cell[1]);
    model_require((int64_t)mm_queue_of(&ref, Q)->count == 0, "an empty queue counts %d", (int)mm_queue_of(&ref, Q)->count);
#if MM_OURO_QUEUE != MM_OURO_S
    uint32_t spare = 0, used = 0;
    for (uint32_t id = (uint32_t)mm_queue_of(&ref, MM_OURO_FREE)->pool_free; id != 0; id = (uint32_t)mm_store_at(&ref, id)->link) spare++;
    for (uint64_t p = mm_queue_of(&ref, Q)->front, n = 0; n < 2; n++, p += MM_STORE_SLOTS) used += mm_queue_slot(&ref, Q, p) != NULL;
    spare = 0;
    for (uint32_t id = (uint32_t)mm_queue_of(&ref, MM_OURO_FREE)->pool_free; id != 0; id = (uint32_t)mm_store_at(&ref, id)->link) spare++;
    model_require(mm_queue_of(&ref, MM_OURO_FREE)->pool_fresh - spare <= 3, "%u queue chunks are lost",
                  (uint32_t)mm_queue_of(&ref, MM_OURO_FREE)->pool_fresh - spare - used);
    for (uint32_t id = 1; id <= mm_queue_of(&ref, MM_OURO_FREE)->pool_fresh; id++)
        for (uint32_t i = 0; i < MM_STORE_SLOTS; i++)
            model_require(mm_store_at(&ref, id)->slot[i] == 0, "queue chunk %u, slot %u is left %x", id, i, mm_store_at(&ref, id)->slot[i]);
#endif
}
static void check_rights(void) {
    model_require((int64_t)mm_queue_of(&ref, Q)->count + (int64_t)cell[2] == 3, "%d counted, %u rights given", (int)mm_queue_of(&ref, Q)->count,
                  (uint32_t)cell[2]);
    mm_queue_of(&ref, Q)->count = 0;
    world_check();
}

/* ---- chunks -------------------------------------------------------------------------------------- */

#define SMALL (PAGE / 64) /* as the world counts */
#define LARGE MM_OURO_CHUNK_BYTES
static void mine(void) { world_free(page_of[self()]); }
static void small_kept(void) { world_malloc(SMALL, 1); }
static void small_passed(void) { world_free(world_malloc(SMALL, 1)); }
static void large_passed(void) { world_free(world_malloc(LARGE, 1)); }
static void large_kept(void) { world_malloc(LARGE, 1); }
static void small_or_null(void) { world_free(world_malloc(SMALL, 0)); }
static void large_or_null(void) { world_free(world_malloc(LARGE, 0)); }
static void mine_again(void) { mine(), world_free(world_malloc(SMALL, 0)); }
/* Of two frees of one page one succeeds. */
static void twice(void) {
    if (mm_page_free(&ref, (uint64_t)page_of[0] - ref.user_base) == 0) {
        cell_set(0, cell[0] + 1);
        world_drop((uint64_t)page_of[0] - ref.user_base, SMALL);
    }
    model_progress();
}
static void retire(void) {
    if (mm_segment_retire(&ref, 1, 0)) cell_set(1, cell[1] + 1);
    model_progress();
}
static void retire_run(void) {
    retire();
    world_free(world_malloc(SEG, 0));
}

/* Sweeps find what draws would find, and more. */
static void sweeps(void) {
    const uint64_t address = sweep_once();
    if (address == 0) return;
    world_take(address - ref.user_base, SMALL);
    world_free((void *)address);
}

static void listed(uint32_t segments) {
    world_make(segments);
    while (mm_list_count(&ref) == 0) mm_list_add(&ref, 1, MM_LISTED_ANY);
}
static void one_segment(void) { listed(1); }
static void two_segments(void) { listed(2); }
static void none_listed(void) { world_make(2); }
/* A page for each thread, in one chunk. */
static void some_live(void) {
    listed(1);
    for (uint32_t t = 0; t < MODEL_THREADS; t++) page_of[t] = world_malloc(SMALL, 1);
}
static void one_live(void) {
    listed(1);
    page_of[0] = world_malloc(SMALL, 1);
}
/* All chunks but one are live for good, each as a page; the last one is free, or has one live page, of thread 0. */
static void one_free(void) {
    listed(1);
    for (uint32_t i = 0; i + 1 < MM_OURO_SEGMENT_CHUNKS; i++) world_malloc(LARGE, 1);
}
static void one_chunk_of_mine(void) {
    one_free();
    page_of[0] = world_malloc(SMALL, 1);
}
/* And all pages of this one are live but two. */
static void nearly_full(void) {
    one_free();
    for (uint32_t i = 0; i + 2 < LARGE / SMALL; i++) world_malloc(SMALL, 1);
}
/* Segment 0 is somebody's; 1 is the host's. */
static void one_to_map(void) {
    world_make(2);
    world_grows(1, 8);
    world_hold_run(0);
}
static void check_grown(void) {
    world_check();
    model_require(mm_list_count(&ref) == 1, "the list has %u segments, and one suffices", mm_list_count(&ref));
}
static void check_host(void) {
    mm_grow_look(&ref, 0, 0);
    check_grown();
}
static void check_all(void) { world_check(); }
static void check_twice(void) {
    world_check();
    model_require(cell[0] == 1, "%u frees of one page succeeded", (uint32_t)cell[0]);
}
static void check_empty(void) {
    if (IS_CHUNKS) world_check_drained();
    else world_check();
}

static const struct model_scenario scenarios[] = {
    {"ouro-put-and-get", a_queue, {put_one, get_one}, check_queue, 0, 0},
    {"ouro-puts-and-get", a_queue, {put_one, put_one, get_one}, check_queue, 3, 0},
    {"ouro-put-and-gets", a_queue, {put_two, get_one, get_one}, check_queue, 3, 0},
    {"ouro-pass-on", a_queue, {put_and_get, put_and_get, get_one}, check_queue, 3, 0},
    {"ouro-end", at_the_end, {put_two, get_two}, check_queue, 3, 0},
    {"ouro-end-puts", at_the_end, {put_one, put_one, put_one}, check_queue, 3, 0},
    {"ouro-end-one", at_the_end_with_one, {get_one, put_one, put_one}, check_queue, 3, 0},
    {"ouro-end-pass-on", at_the_end_with_one, {put_and_get, put_and_get, get_one}, check_queue, 2, 0},
    {"ouro-grow-queue", array_to_grow, {reserve, put_one, get_one}, check_queue, 3, 0},
    {"ouro-rights", three_counted, {rights, rights, rights}, check_rights, 0, 0},
    {"ouro-rights-back", three_counted, {rights_and_back, rights_and_back, rights}, check_rights, 0, 0},
    {"ouro-first-requests", none_listed, {small_kept, small_kept}, check_all, 2, 0},
    {"ouro-requests", one_segment, {small_passed, small_passed, large_passed}, check_empty, 2, 0},
    {"ouro-frees", some_live, {mine, mine, mine}, check_empty, 2, 0},
    {"ouro-free-and-again", some_live, {mine_again, mine_again, small_kept}, check_all, 2, 0},
    {"ouro-two-frees", one_live, {twice, twice}, check_twice, 0, 0},
    {"ouro-last-free-against-small", one_chunk_of_mine, {mine, small_passed}, check_all, 2, 0},
    {"ouro-last-free-against-large", one_chunk_of_mine, {mine, large_or_null}, check_all, 2, 0},
    {"ouro-last-free-against-both", one_chunk_of_mine, {mine, large_or_null, small_or_null}, check_all, 2, 0},
    {"ouro-one-chunk-for-two", one_free, {large_or_null, small_or_null}, check_all, 2, 0},
    {"ouro-one-chunk-for-two-small", one_free, {small_kept, small_kept}, check_all, 2, 0},
    {"ouro-last-two", nearly_full, {small_kept, small_kept}, check_all, 2, 0},
    {"ouro-last-two-of-three", nearly_full, {small_or_null, small_or_null, small_or_null}, check_all, 1, 0},
    {"ouro-retire-against-request", one_segment, {retire_run, small_or_null}, check_all, 2, 0},
    {"ouro-retire-against-free", one_live, {mine, retire}, check_empty, 2, 0},
    {"ouro-retire-and-add", two_segments, {retire, add, large_passed}, check_empty, 2, 0},
    {"ouro-sweeps", one_chunk_of_mine, {sweeps, sweeps, mine}, check_all, 2, 0},
    {"ouro-grow-once", none_listed, {add_once, add_once, look}, check_grown, 2, 0},
    {"ouro-grow-host", one_to_map, {small_kept, small_kept, serve}, check_host, 1, 1},
    {"ouro-large", one_segment, {large_kept, large_kept}, check_all, 2, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
