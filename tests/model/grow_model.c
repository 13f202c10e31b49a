/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Growing (grow.h) and giving back (maintain.h) under the explorer. The host is a thread: it maps, answers, unmaps. */
#include "world.h"

#include "runtime/core/maintain.h"

#define SEG ((uint32_t)MM_SEGMENT_BYTES)

static void pass(uint32_t bytes, int must) {
    void *p = world_malloc(bytes, must);
    if (p) world_free(p);
}
static void half_must(void) { pass(HALF, 1); }
static void half_may(void) { pass(HALF, 0); }
static void half_twice(void) { pass(HALF, 0), pass(HALF, 0); }
static void quarter_may(void) { pass(QUARTER, 0); }
static void run_may(void) { pass(SEG, 0); }
static void two_must(void) { pass(2 * SEG, 1); }
static void two_may(void) { pass(2 * SEG, 0); }
static void half_keep(void) { world_malloc(HALF, 0); }

/* The next request that the host has not seen; 0 if there is none for as long as anybody waits. */
static uint64_t seen(uint64_t before) {
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t wanted = mm_load_acquire_system_u64(&mailbox.wanted);
        if (wanted != before) return wanted;
        mm_wait();
    }
    return 0;
}
static void answer(uint64_t wanted, uint32_t first, uint32_t count) {
    mm_store_release_system_u64(&mailbox.answer, mm_answer_make(wanted >> 32, first, count));
    model_progress();
}
/* Answers one request, or two, with `count` segments each, from the first that are not there on. */
static void serve(uint32_t first, uint32_t count, uint32_t times) {
    for (uint64_t wanted = 0; times-- > 0; first += count) {
        wanted = seen(wanted);
        if (wanted == 0) return;
        if ((uint32_t)wanted > count) {
            answer(wanted, 0, 0);
            first -= count;
            continue;
        }
        world_map(first, count, 1);
        answer(wanted, first, count);
    }
}
static void serve_one(void) { serve(1, 1, 1); }
static void serve_two(void) { serve(1, 2, 2); }
static void serve_pair(void) { serve(1, 2, 1); }
static void refuse(void) {
    const uint64_t wanted = seen(0);
    if (wanted != 0) answer(wanted, 0, 0);
}
static void close_it(void) {
    mm_store_release_system_u64(&mailbox.answer, MM_ANSWER_CLOSED);
    model_progress();
}

static void empty_of(uint32_t segments, uint32_t polls) {
    world_make(segments);
    world_grows(1, polls);
    world_hold_run(0); /* what there is, is in use */
}
static void three(void) { empty_of(3, 1); }
static void five(void) { empty_of(5, 1); }
static void impatient(void) { empty_of(3, 0); }
/* Who comes last takes what was answered and nobody came for. */
static void check(void) {
    mm_grow_look(&ref, 0, MM_PATIENCE_NONE, 0);
    world_check();
    model_require(HEAP->grow.lock == 0, "the mailbox is locked");
}

/* A chunk of two segments, both free or nearly, which the host wants back. */
static void chunk(void) {
    world_make(3);
    world_grows(3, 1);
    world_hold_run(0);
}
static void want_back(void) {
    struct mm_wanted_chunk c = {1, 2, 0, 0};
    mm_maintain_claim(&ref, &c);
    if (c.is_claimed) world_map(1, 2, 0);
    cell_set(0, c.is_claimed);
    model_progress();
}
static void want_back_and_serve(void) {
    want_back();
    if (cell[0]) serve(1, 2, 1);
}
static void lots(void) {
    world_make(3);
    world_lots(1, 1, 1);
    world_grows(3, 1);
    world_hold_run(0);
    world_free(world_malloc(HALF, 1));
}
static void flush(void) {
    for (uint32_t i = 0; i < MM_RINGS; i++) mm_maintain_flush(&ref, mm_class_of(HALF) * MM_RINGS + i);
    model_progress();
}
static void flush_and_want_back(void) { flush(), want_back(); }

static const struct model_scenario scenarios[] = {
    {"grow-one", three, {half_must, serve_one}, check, 0, 1},
    {"grow-two-callers", three, {half_may, half_may, serve_one}, check, 3, 0},
    {"grow-two-classes", three, {half_may, quarter_may, serve_pair}, check, 3, 0},
    {"grow-twice", five, {half_twice, run_may, serve_two}, check, 2, 0},
    {"grow-run", five, {two_must, serve_pair}, check, 0, 1},
    {"grow-run-and-slices", five, {two_may, half_may, serve_two}, check, 2, 0},
    {"grow-refused", three, {half_may, half_twice, refuse}, check, 2, 0},
    {"grow-late", impatient, {half_twice, half_may, serve_one}, check, 2, 0},
    {"grow-closed", three, {half_may, run_may, close_it}, check, 3, 0},
    {"back-beside-slices", chunk, {want_back, half_twice}, check, 0, 0},
    {"back-beside-runs", chunk, {want_back, two_may, run_may}, check, 0, 0},
    {"back-and-again", chunk, {want_back_and_serve, half_twice, half_keep}, check, 2, 0},
    {"back-lots", lots, {flush_and_want_back, half_twice}, check, 3, 0},
    {"back-lots-and-runs", lots, {flush_and_want_back, half_may, run_may}, check, 2, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
