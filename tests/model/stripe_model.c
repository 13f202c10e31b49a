/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Stripes and reserves (stripe.h, ring.h) under the explorer: tickets, lots made ready late and ahead, slots that are used again,
 * flushing, misuse of what was never handed out. */
#include "world.h"

#include <string.h>

static void *keep[16];
static void *got[MODEL_THREADS][8];

static void pass(uint32_t bytes) { world_free(world_malloc(bytes, 0)); }
static void two(uint32_t bytes) {
    void *p = world_malloc(bytes, 0), *q = world_malloc(bytes, 0);
    world_free(p);
    world_free(q);
}
static void warp(uint32_t bytes, uint32_t n) {
    void **p = got[model_self()];
    n = world_malloc_warp(bytes, n, p, 0);
    for (uint32_t i = 0; i < n; i++) world_free(p[i]);
}
static void warp_keep(uint32_t bytes, uint32_t n) {
    void *p[8];
    world_malloc_warp(bytes, n, p, 0);
}
static void half_once(void) { pass(HALF); }
static void half_two(void) { two(HALF); }
static void half_keep(void) { world_malloc(HALF, 0); }
static void half_keep_two(void) { half_keep(), half_keep(); }
static void half_keep_three(void) { half_keep_two(), half_keep(); }
static void quarter_once(void) { pass(QUARTER); }
static void quarter_two(void) { two(QUARTER); }
static void quarter_three(void) { pass(QUARTER), two(QUARTER); }
static void quarter_keep(void) { world_malloc(QUARTER, 0); }
static void quarter_keep_two(void) { quarter_keep(), quarter_keep(); }
static void quarter_keep_three(void) { quarter_keep_two(), quarter_keep(); }
static void eighth_once(void) { pass(EIGHTH); }
static void eighth_two(void) { two(EIGHTH); }
static void third_two(void) { two(THIRD); }
static void third_keep(void) { world_malloc(THIRD, 0); }
static void third_keep_two(void) { third_keep(), third_keep(); }
static void half_warp_3(void) { warp(HALF, 3); }
static void quarter_warp_2(void) { warp(QUARTER, 2); }
static void quarter_warp_3(void) { warp(QUARTER, 3); }
static void quarter_warp_keep_3(void) { warp_keep(QUARTER, 3); }
static void third_warp_2(void) { warp(THIRD, 2); }
static void half_warp_keep(void) { warp_keep(HALF, 3); }
static void free_keep_0(void) { world_free(keep[0]); }
static void free_keep_1(void) { world_free(keep[1]); }
static void free_keep_all(void) {
    for (uint32_t i = 0; i < 16; i++) {
        world_free(keep[i]);
        if (keep[i]) model_set((uint64_t *)&keep[i], 0);
    }
}
static void flush(void) {
    mm_stripe_flush(&ref);
    model_progress();
}
static void flush_twice(void) { flush(), flush(); }
/* A block put into circulation, whatever the stripes say. */
static void circulate_quarter(void) {
    const uint32_t c = mm_class_of(QUARTER);
    void *p;
    const uint32_t n = world_got(mm_stripe_circulate(&ref, c, 1, model_self()), c, &p);
    model_progress();
    if (n) world_free(p);
}
static void circulate_quarter_keep(void) {
    void *p[2];
    world_got(mm_stripe_circulate(&ref, mm_class_of(QUARTER), 2, model_self()), mm_class_of(QUARTER), p);
    model_progress();
}

/* ---- Set-ups. One home: all draw from one stripe. ------------------------------------------- */

static void begin(uint32_t segments, uint32_t ahead, uint32_t row_shift, uint32_t reserve_ahead) {
    memset(keep, 0, sizeof keep);
    world_make(segments);
    world_lots(ahead, row_shift, reserve_ahead);
}
static void begin_home(uint32_t segments, uint32_t ahead, uint32_t row_shift, uint32_t reserve_ahead) {
    begin(segments, ahead, row_shift, reserve_ahead);
    world_same_home();
}
/* As many ahead as a ring has room for. */
static uint32_t most(uint32_t ahead) { return ahead < MM_RING ? ahead : MM_RING - 1; }
/* The same for warps, which are in two lots at once, or three. */
static uint32_t warp_ahead(void) { return MM_RING / 2 - 1; }
static void one_segment(void) { begin(1, 0, 0, 0); }
static void two_segments(void) { begin(2, 0, 0, 0); }
static void three_segments(void) { begin(3, 0, 0, 0); }
static void home(void) { begin_home(2, 0, 0, 0); }
static void home_1(void) { begin_home(2, 1, 0, 0); }
static void home_2(void) { begin_home(2, most(2), 0, 0); }
static void home_4(void) { begin_home(4, 0, 0, 0); }
static void home_4_1(void) { begin_home(4, 1, 0, 1); }
static void home_one(void) { begin_home(1, 0, 0, 0); }
static void home_one_1(void) { begin_home(1, 1, 0, 0); }
static void both_1(void) { begin_home(3, 1, 0, 1); }
static void both_1_two(void) { begin(3, 1, 0, 1); }
static void rows(void) { begin(4, 0, 1, 0); }
static void rows_warps(void) { begin_home(4, warp_ahead(), 1, 1); }
static void rows_1(void) { begin_home(4, 1, 1, 1); }
/* Fresh segments that are no neighbours; the second is somebody's. */
static void apart(void) { begin_home(4, 0, 1, 0), world_hold_run(1); }
static void apart_reserve_1(void) { begin_home(4, 0, 1, 1), world_hold_run(1); }
static void apart_1(void) { begin_home(4, 1, 1, 1), world_hold_run(1); }
/* So many slices of a class have been drawn, and are live; the next one is place 0 or 1 of a lot. */
static void drawn(uint32_t bytes, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) keep[i] = world_malloc(bytes, 1);
}
static void drawn_1(void) { home(), drawn(QUARTER, 1); }
static void drawn_1_of_one(void) { home_one(), drawn(QUARTER, 1); }
static void drawn_1_warps(void) { begin_home(4, warp_ahead(), 0, 0), drawn(QUARTER, 1); }
static void drawn_2(void) { home(), drawn(QUARTER, 2); }
static void drawn_1_ahead(void) { home_1(), drawn(QUARTER, 1); }
static void drawn_2_ahead(void) { home_1(), drawn(QUARTER, 2); }
static void drawn_2_ahead_2(void) { home_2(), drawn(QUARTER, 2); }
static void drawn_3_ahead(void) { home_1(), drawn(QUARTER, 3); }
static void drawn_1_both(void) { both_1(), drawn(QUARTER, 1); }
static void drawn_2_both(void) { both_1(), drawn(QUARTER, 2); }
static void drawn_1_rows(void) { rows_1(), drawn(QUARTER, 1); }
static void drawn_1_apart(void) { apart_1(), drawn(QUARTER, 1); }
/* All of a segment is live; another class's flush is still to come. */
static void full(void) {
    home_one(), drawn(QUARTER, mm_class_slices(mm_class_of(QUARTER)));
    world_forget_dry();
}
static void full_1(void) {
    home_one_1(), drawn(QUARTER, mm_class_slices(mm_class_of(QUARTER)));
    world_forget_dry();
}
/* A row of segments whose blocks come back: two of quarters, live; the lots of stripe and reserve are used up. */
static void row_live(void) {
    begin_home(2, 0, 1, 0), drawn(QUARTER, 8);
    world_forget_dry();
}
static void row_live_1(void) {
    row_live();
    for (uint32_t i = 2; i < 4; i++) world_free(keep[i]), keep[i] = NULL;
}
static void free_first_row(void) {
    world_free(keep[0]), world_free(keep[1]), world_free(keep[2]), world_free(keep[3]);
}
static void free_first_block(void) { world_free(keep[0]), world_free(keep[1]); }
static void free_second_row(void) {
    world_free(keep[4]), world_free(keep[5]), world_free(keep[6]), world_free(keep[7]);
}
static void free_second_row_half(void) { free_second_row(), world_malloc(HALF, 0); }
/* A row of two segments, one of quarters, one of eighths; both have a whole block. */
static void row_of_two_classes(void) {
    begin_home(2, 0, 1, 0);
    world_hold_run(1);
    drawn(QUARTER, 4);
    world_free((void *)(ref.user_base + MM_SEGMENT_BYTES));
    for (uint32_t i = 4; i < 12; i++) keep[i] = world_malloc(EIGHTH, 1);
    world_free(keep[0]), world_free(keep[1]);
    for (uint32_t i = 4; i < 4 + (1u << mm_class_block_shift(mm_class_of(EIGHTH))); i++) world_free(keep[i]), keep[i] = NULL;
    world_forget_dry();
}
static void free_eighths(void) {
    for (uint32_t i = 4; i < 12; i++) world_free(keep[i]);
}
static void free_eighths_half(void) { free_eighths(), world_malloc(HALF, 0); }
static void free_eighths_one(void) { world_free(keep[10]), world_free(keep[11]); }
/* Some of the only segment is whole; another class gets it as the rest comes back. */
static void full_but_some(void) {
    full();
    for (uint32_t i = 0; i < 2; i++) world_free(keep[i]), keep[i] = NULL;
}
static void circulate_eighth(void) {
    const uint32_t c = mm_class_of(EIGHTH);
    void *p[2];
    world_got(mm_stripe_circulate(&ref, c, 1, model_self()), c, p);
    model_progress();
}
static void free_circulate_eighth(void) { free_keep_all(), circulate_eighth(); }
/* Tickets begin again at 0. */
static void late(void) { home(), world_late_tickets(QUARTER, 1); }
static void late_1(void) { home_1(), world_late_tickets(QUARTER, 2); }
static void late_2(void) { home_2(), world_late_tickets(QUARTER, 2); }

/* ---- Frees of what was never handed out, beside who hands it out: told, and nothing changes. - */

static void never_setup(void) {
    begin(2, 0, 0, 0); /* enough for all: nobody flushes the ticket, whose slice a wrong free would then hit */
    keep[0] = world_malloc(QUARTER, 1);
}
static void never_ahead_setup(void) {
    begin_home(3, 1, 0, 0);
    keep[0] = world_malloc(QUARTER, 1);
}
static void *slice_of(uint32_t i) { return (void *)(ref.user_base + i * QUARTER); }
/* Of the block that is open for another home; or of none. */
static void free_never(void) {
    mm_heap_free(&ref, slice_of(mm_class_block_shift(mm_class_of(QUARTER)) ? 1 : 3));
    model_progress();
}
/* Of a block that comes into a lot of a stripe meanwhile. */
static void free_never_ready(void) {
    mm_heap_free(&ref, slice_of(mm_class_block_shift(mm_class_of(QUARTER)) ? 5 : 3));
    model_progress();
}
static void never_check(void) {
    model_require(world_misuses() == 1, "a slice never handed out was freed: %u misuses", world_misuses());
    world_check_drained();
}
/* All but the first were never handed out when the heap came back; then it is another class's. */
static void free_never_twice(void) {
    free_never();
    free_never();
}
static void never_twice_check(void) {
    model_require(world_misuses() == 2, "a slice never handed out was freed twice: %u misuses", world_misuses());
    world_check_drained();
}
/* Nothing is misused. */
static void fine_check(void) {
    model_require(world_misuses() == 0, "%u misuses are counted, there was none", world_misuses());
    world_check_drained();
}
static void apart_check(void) {
    world_free((void *)(ref.user_base + MM_SEGMENT_BYTES));
    fine_check();
}

static const struct model_scenario scenarios[] = {
    /* one stripe, its slots used again */
    {"stripe-two-threads", two_segments, {half_two, half_two}, fine_check, 0, 0},
    {"stripe-same-home", home, {half_two, half_two}, fine_check, 0, 0},
    {"stripe-same-home-quarters", home, {quarter_two, quarter_two}, fine_check, 0, 0},
    {"stripe-same-home-ahead", home_1, {quarter_two, quarter_two}, fine_check, 0, 0},
    {"stripe-same-home-ahead-2", home_2, {quarter_two, quarter_two}, fine_check, 0, 0},
    {"stripe-one-segment-halves", home_one, {half_two, half_two}, fine_check, 0, 0},
    {"stripe-reused", home, {quarter_keep_three, quarter_keep_three}, fine_check, 0, 0},
    {"stripe-reused-three", drawn_2, {quarter_keep_two, quarter_keep_two, quarter_keep_two}, fine_check, 3, 0},
    {"stripe-reused-ahead", drawn_1_ahead, {quarter_keep_three, quarter_keep_three}, fine_check, 0, 0},
    {"stripe-reused-ahead-three", drawn_2_ahead, {quarter_keep_two, quarter_keep_two, quarter_keep}, fine_check, 3, 0},
    {"stripe-reused-ahead-2", drawn_2_ahead_2, {quarter_keep_three, quarter_keep_two}, fine_check, 0, 0},
    {"stripe-reused-halves", home_4_1, {half_keep_two, half_keep_two, half_keep_two}, fine_check, 3, 0},
    {"stripe-reused-passing", drawn_1_ahead, {quarter_three, quarter_three}, fine_check, 0, 0},
    {"stripe-eighths", home_1, {eighth_two, eighth_two}, fine_check, 0, 0},
    {"stripe-late-lots", home_2, {quarter_keep_two, quarter_keep_two, quarter_once}, fine_check, 3, 0},
    {"stripe-thirds", home, {third_two, third_warp_2}, fine_check, 0, 0},
    {"stripe-thirds-kept", home, {third_keep_two, third_keep}, fine_check, 0, 0},
    {"stripe-thirds-ahead", home_1, {third_keep_two, third_two}, fine_check, 0, 0},
    {"stripe-crossing", drawn_1, {quarter_once, quarter_once}, fine_check, 0, 0},
    {"stripe-crossing-three", drawn_1, {quarter_once, quarter_once, quarter_once}, fine_check, 0, 0},
    {"stripe-crossing-ahead", drawn_1_ahead, {quarter_once, quarter_once, quarter_keep}, fine_check, 0, 0},
    /* warps */
    {"stripe-warp-crossing", drawn_1, {quarter_warp_3, quarter_once}, fine_check, 0, 0},
    {"stripe-warp-crossing-ahead", drawn_1_warps, {quarter_warp_2, quarter_keep_two}, fine_check, 0, 0},
    {"stripe-two-warps", home_4, {half_warp_3, half_warp_3}, fine_check, 0, 0},
    {"stripe-two-warps-ahead", drawn_1_warps, {quarter_warp_2, quarter_warp_2}, fine_check, 0, 0},
    {"stripe-three-keep", home, {half_keep, half_keep, half_keep}, fine_check, 0, 0},
    /* both levels */
    {"stripe-both-ahead", both_1, {quarter_keep_three, quarter_keep_two}, fine_check, 0, 0},
    {"stripe-both-two-homes", both_1_two, {quarter_keep_two, quarter_keep_two, quarter_once}, fine_check, 3, 0},
    {"stripe-both-halves", both_1, {half_keep_two, half_keep, half_once}, fine_check, 3, 0},
    {"stripe-both-rows", rows_warps, {quarter_warp_keep_3, quarter_keep_two}, fine_check, 0, 0},
    {"stripe-rows-two-homes", rows, {half_warp_keep, half_keep, half_once}, fine_check, 3, 0},
    {"stripe-both-apart", apart, {quarter_keep_three, quarter_keep_two}, apart_check, 3, 0},
    {"stripe-both-apart-halves", apart, {half_keep_two, half_keep_two, half_once}, apart_check, 3, 0},
    {"stripe-both-apart-halves-ahead", apart_reserve_1, {half_keep_three, half_keep, half_once}, apart_check, 3, 0},
    {"stripe-both-apart-ahead", apart_1, {quarter_keep_two, quarter_keep_two, quarter_once}, apart_check, 3, 0},
    {"stripe-reserve-by-two", three_segments, {half_keep, quarter_keep, half_two}, fine_check, 3, 0},
    {"stripe-one-segment-by-two", one_segment, {quarter_two, quarter_two}, fine_check, 0, 0},
    {"stripe-three-classes", one_segment, {half_once, quarter_once, eighth_once}, fine_check, 3, 0},
    {"stripe-free-beside-draw", drawn_1_ahead, {free_keep_0, quarter_keep_two}, fine_check, 0, 0},
    {"stripe-free-beside-draw-three", drawn_3_ahead, {free_keep_all, quarter_keep, quarter_once}, fine_check, 3, 0},
    /* flush */
    {"stripe-flush-beside-draw", drawn_1, {flush, quarter_two}, fine_check, 0, 0},
    {"stripe-flush-beside-draw-ahead", drawn_1_ahead, {flush, quarter_keep_two}, fine_check, 0, 0},
    {"stripe-flush-at-first", drawn_2_ahead, {flush, quarter_keep}, fine_check, 0, 0},
    {"stripe-flush-at-first-three", drawn_2_ahead, {flush, quarter_keep_two, quarter_once}, fine_check, 3, 0},
    {"stripe-flush-at-first-2", drawn_2_ahead_2, {flush, quarter_keep_two}, fine_check, 3, 0},
    {"stripe-flush-late", home_2, {quarter_keep, flush, quarter_keep_two}, fine_check, 3, 0},
    {"stripe-flush-beside-put", drawn_3_ahead, {flush, quarter_keep_two}, fine_check, 3, 0},
    {"stripe-flush-both", drawn_1_both, {flush, quarter_keep_two}, fine_check, 3, 0},
    {"stripe-flush-both-three", drawn_2_both, {flush, quarter_keep_two, quarter_keep}, fine_check, 3, 0},
    {"stripe-flush-rows", drawn_1_rows, {flush, quarter_keep_three}, fine_check, 3, 0},
    {"stripe-flush-both-apart", drawn_1_apart, {flush, quarter_keep_two}, apart_check, 3, 0},
    {"stripe-flush-beside-flush", drawn_1, {flush, flush, quarter_once}, fine_check, 3, 0},
    {"stripe-flush-beside-flush-ahead", drawn_1_ahead, {flush, flush, quarter_keep}, fine_check, 3, 0},
    {"stripe-flush-beside-free", drawn_1_of_one, {flush, free_keep_0, quarter_once}, fine_check, 3, 0},
    {"stripe-flush-twice-beside-free", drawn_1_ahead, {flush_twice, free_keep_0, quarter_keep}, fine_check, 3, 0},
    /* memory that is short: lots with nothing, skipped; blocks put into circulation */
    {"stripe-skip-beside-draw", full, {free_keep_all, quarter_once, quarter_keep}, fine_check, 3, 0},
    {"stripe-skip-ahead", full_1, {free_keep_all, quarter_keep_two, quarter_keep}, fine_check, 3, 0},
    {"stripe-circulate-beside-draw", full, {free_keep_all, circulate_quarter, quarter_keep}, fine_check, 3, 0},
    {"stripe-circulate-beside-circulate", full, {free_keep_all, circulate_quarter_keep, circulate_quarter_keep}, fine_check, 3, 0},
    {"stripe-circulate-beside-free", full, {free_keep_0, free_keep_1, circulate_quarter_keep}, fine_check, 3, 0},
    {"stripe-circulate-another-class", full_but_some, {circulate_quarter_keep, free_circulate_eighth}, fine_check, 3, 0},
    {"stripe-circulate-beside-eighths", full_but_some, {circulate_quarter, free_circulate_eighth, eighth_once}, fine_check, 3, 0},
    /* whole blocks of a row, gathered by a reserve */
    {"stripe-gather", row_live_1, {free_first_block, quarter_keep_two}, fine_check, 3, 0},
    {"stripe-gather-beside-whole", row_live, {free_first_row, quarter_keep_two, free_second_row}, fine_check, 3, 0},
    {"stripe-gather-beside-class", row_live_1, {free_first_block, quarter_keep, free_second_row_half}, fine_check, 3, 0},
    {"stripe-gather-two-classes", row_live_1, {free_first_block, quarter_keep, half_keep}, fine_check, 3, 0},
    {"stripe-gather-row-of-classes", row_of_two_classes, {quarter_keep_two, eighth_two}, fine_check, 0, 0},
    {"stripe-gather-row-of-classes-whole", row_of_two_classes, {quarter_keep, free_eighths_one, eighth_once}, fine_check, 3, 0},
    {"stripe-gather-row-changes", row_of_two_classes, {quarter_keep_two, free_eighths_half}, fine_check, 3, 0},
    {"stripe-gather-row-changes-three", row_of_two_classes, {quarter_keep, free_eighths, half_keep}, fine_check, 3, 0},
    /* tickets begin again at 0 */
    {"stripe-tickets-again", late, {quarter_keep_three, quarter_keep_two}, fine_check, 3, 0},
    {"stripe-tickets-again-ahead", late_1, {quarter_keep_three, quarter_keep_three}, fine_check, 3, 0},
    {"stripe-tickets-again-ahead-2", late_2, {quarter_keep_three, quarter_two}, fine_check, 3, 0},
    {"stripe-tickets-again-flush", late_1, {quarter_keep_three, flush_twice}, fine_check, 3, 0},
    /* misuse */
    {"stripe-never", never_setup, {free_never, quarter_once}, never_check, 0, 0},
    {"stripe-never-beside-put", never_ahead_setup, {free_never_ready, quarter_keep_two}, never_check, 0, 0},
    {"stripe-never-beside-whole", never_setup, {free_never_twice, free_keep_0}, never_twice_check, 0, 0},
    {"stripe-never-beside-opening", never_setup, {free_never, quarter_once, free_keep_0}, never_check, 3, 0},
};
int main(int argc, char **argv) { return model_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]); }
