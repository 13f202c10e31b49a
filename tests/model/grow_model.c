/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Growing (grow.h) and giving memory back (maintain.h) under the explorer. The host is a thread: it maps, answers, unmaps. */
#include "world.h"

#include "runtime/maintain.h"

static void pass(uint32_t bytes, int must) {
    void *p = world_malloc(bytes, must);
    if (p) world_free(p);
}
static void a_must(void) { pass(16, 1); }
static void a_may(void) { pass(16, 0); }
static void a_twice(void) { pass(16, 0), pass(16, 0); }
static void a_keep(void) { world_malloc(16, 0); }
static void b_may(void) { pass(32, 0); }
static void span_may(void) { pass(2 * PAGE, 0); }
static void run_may(void) { pass(SEG, 0); }
static void two_must(void) { pass(2 * SEG, 1); }
static void two_may(void) { pass(2 * SEG, 0); }

/* The next request that the host has not seen; 0 if none comes before it stops waiting. */
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
/* Answers `times` requests with `count` segments each, the first of them from `first` on. */
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
    world_cut(A, 2), world_cut(B, 2);
    world_grows(1, polls);
    world_hold_run(0); /* all that is mapped is in use */
}
static void three(void) { empty_of(3, 1); }
static void five(void) { empty_of(5, 1); }
static void impatient(void) { empty_of(3, 0); }
/* Takes an answer that no caller has taken. */
static void check(void) {
    mm_grow_look(&ref, 0, 0);
    world_check();
    model_require(HEAP->grow.lock == 0, "the mailbox is locked");
}

/* A chunk of two segments, both free or nearly so, which the host wants back: all of it, or nothing. */
static void chunk(void) {
    world_make(3);
    world_cut(A, 2);
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
/* The chunk has a free block, which still belongs to its class. */
static void block(void) {
    chunk();
    world_free(world_malloc(16, 1));
}
static void retire_and_want_back(void) {
    mm_maintain_retire(&ref, 1, 0, 1);
    want_back();
}

/* The host has answered, and the caller that asked has given up: retiring for the host takes the answer. */
static void answered(void) {
    chunk();
    HEAP->grow.mapped = 1, HEAP->grow.reached = 1;
    for (uint32_t s = 1; s < 3; s++) mm_tree_erase(mm_segment_free_tree(&ref), s);
    HEAP->free_count = 0;
    HEAP->grow.asked = 1ull << 32 | 1, mailbox.wanted = 1ull << 32 | 1, mailbox.answer = mm_answer_make(1, 1, 2);
}
static void check_taken(void) {
    world_check();
    model_require(HEAP->grow.taken == 1, "the answer was not taken");
}

static const struct model_scenario scenarios[] = {
    {"grow-one", three, {a_must, serve_one}, check, 0, 1},
    {"grow-two-callers", three, {a_may, a_may, serve_one}, check, 2, 0},
    {"grow-two-classes", three, {a_may, b_may, serve_pair}, check, 2, 0},
    {"grow-twice", five, {a_twice, run_may, serve_two}, check, 1, 0},
    {"grow-span", three, {span_may, a_may, serve_one}, check, 1, 0},
    {"grow-run", five, {two_must, serve_pair}, check, 0, 1},
    {"grow-run-and-slices", five, {two_may, a_may, serve_two}, check, 1, 0},
    {"grow-refused", three, {a_may, a_twice, refuse}, check, 2, 0},
    {"grow-late", impatient, {a_twice, a_may, serve_one}, check, 2, 0},
    {"grow-closed", three, {a_may, run_may, close_it}, check, 2, 0},
    {"back-beside-slices", chunk, {want_back, a_twice}, check, 0, 0},
    {"back-beside-runs", chunk, {want_back, two_may, run_may}, check, 2, 0},
    {"back-and-again", chunk, {want_back_and_serve, a_twice, a_keep}, check, 1, 0},
    {"grow-late-back", answered, {retire_and_want_back, retire_and_want_back}, check_taken, 0, 0},
    {"back-block", block, {retire_and_want_back, a_twice}, check, 2, 0},
    {"back-block-and-run", block, {retire_and_want_back, a_may, run_may}, check, 1, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
