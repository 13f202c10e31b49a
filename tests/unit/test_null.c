/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* When the answer is NULL (shortage.h): not before everything has been looked through, and how long that takes. */
#include "tests/unit/steps.h"

#include "tests/unit/stripes.h"

/* Before NULL, what others hold ready is flushed: every slice of the heap is had, from any stripe. */
START_TEST(other_stripes_before_null) {
    const uint32_t c = (uint32_t)_i, n = SEGMENTS * mm_class_slices(c);
    uint8_t *seen = (uint8_t *)calloc(n, 1);
    uint32_t got = 0;
    for (uint32_t k = 0; k < 6; k++) { /* six stripes hold something, some of them */
        const uint32_t slice = take(c, k * 11 % stripes(c));
        if (slice != MM_TREE_NONE) seen[slice] = 1, got++;
    }
    for (uint32_t slice; (slice = take(c, 3)) != MM_TREE_NONE; got++) {
        unit_holds(slice < n && !seen[slice], "slice %u twice", slice);
        seen[slice] = 1;
    }
    unit_eq(got, n);
    unit_eq(mm_stripe_flush(ref), 0);
    unit_sound(&heap, (uint64_t)n * mm_class_bytes(c));
    for (uint32_t i = 0; i < n; i++) mm_heap_free(ref, address(c, i));
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
    free(seen);
}
END_TEST

static uint64_t steps, give_at;
static int given;
static void count_steps(void) { steps++; }

static uint64_t raise_at;
static void raise_at_step(void) {
    if (++steps == raise_at) h->version[1].word++;
}

/* Later callers of a class that is dry answer soon, and a dry class does not stop another. What comes to light while it is
 * searched is not forgotten. */
START_TEST(dry_is_remembered) {
    const uint32_t c = mm_class_of(MM_SLICE_BYTES_MAX), d = mm_class_of(16);
    take(d, 0);
    while (take(c, 0) != MM_TREE_NONE) continue;
    unit_eq(take(c, 0), MM_TREE_NONE); /* the first one flushed what there was, and so saw a change */
    unit_each_step = count_steps;
    steps = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    const uint64_t once = steps;
    h->classes[c].dry = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    unit_holds(once * 3 < steps - once, "%u steps to say NULL again, %u the first time", (unsigned)once, (unsigned)(steps - once));
    unit_each_step = NULL;
    unit_eq(h->classes[c].dry, mm_version_read(h) + 1);
    unit_holds(take(d, 0) != MM_TREE_NONE, "another class is dry as well");
    mm_version_raise(h); /* something came to light: searched again */
    unit_each_step = count_steps, steps = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    unit_lt(once, steps);
    h->classes[c].dry = 0;
    unit_each_step = raise_at_step, raise_at = steps / 2, steps = 0;
    unit_eq(take(c, 0), MM_TREE_NONE);
    unit_each_step = NULL;
    unit_lt(raise_at, steps);
    unit_eq(h->classes[c].dry, 0);
}
END_TEST

/* A lot that somebody is to make ready, and never does: an end after a bound, and memory from elsewhere; NULL is not remembered as dry. */
START_TEST(waiting_is_bounded) {
    const uint32_t c = mm_class_of(256), slices = mm_class_slices(c);
    set_hold(0);
    uint32_t slice;
    unit_eq(take(c, 0), 0);
    const uint32_t m = ring(c, 0)->tickets >> ref->classes[c].lot_shift;
    const uint64_t was = ring(c, 0)->slot[m].what;
    ring(c, 0)->slot[m].what = 0;
    unit_each_step = count_steps, steps = 0;
    unit_eq(unit_take(ref, c, 1, 0, &slice), 1);
    unit_holds(steps >= MM_WAIT_ITERATIONS && steps < MM_WAIT_ITERATIONS + 1000, "%llu steps", (unsigned long long)steps);
    unit_eq(slice, slices); /* of a block in circulation */
    unit_eq(mm_stripe_misuse(ref, 0, c, 5), MM_MISUSE_NOT_ALLOCATED); /* and free does not wait */
    unit_lt(steps, MM_WAIT_ITERATIONS + 1000);
    unit_each_step = NULL;
    ring(c, 0)->slot[m].what = was;
    unit_eq(mm_stripe_misuse(ref, 0, c, 5), 0); /* the lot has been skipped: all handed out, for all that free knows */
    unit_eq(h->classes[c].dry, 0);
    unit_holds(unit_take(ref, c, 1, 0, &slice) == 1, "the next lot waits, too");
}
END_TEST

/* One at a time; who comes while it is done waits for the next, but not for the one after that; and is told what that found. */
START_TEST(rounds) {
    uint64_t word = 0, a = 0, b = 0, c = 0, d = 0;
    unit_eq(mm_round_begin(&word, &a), MM_TURN_MINE);
    unit_eq(mm_round_begin(&word, &b), MM_TURN_WAIT);
    unit_eq(mm_round_end(&word, 1), MM_TURN_FOUND);
    unit_eq(mm_round_begin(&word, &b), MM_TURN_MINE); /* a's began before b came */
    unit_eq(mm_round_begin(&word, &c), MM_TURN_WAIT);
    unit_eq(mm_round_begin(&word, &d), MM_TURN_WAIT);
    unit_eq(mm_round_end(&word, 0), MM_TURN_NOTHING);
    unit_eq(mm_round_begin(&word, &d), MM_TURN_MINE);
    unit_eq(mm_round_begin(&word, &c), MM_TURN_WAIT);
    unit_eq(mm_round_end(&word, 1), MM_TURN_FOUND);
    unit_eq(mm_round_begin(&word, &a), MM_TURN_MINE);
    unit_eq(mm_round_begin(&word, &c), MM_TURN_FOUND); /* d's, although a is at it by now */
    unit_eq(mm_round_begin(&word, &c), MM_TURN_WAIT);
    unit_eq(mm_round_end(&word, 0), MM_TURN_NOTHING);
    unit_eq(mm_round_begin(&word, &b), MM_TURN_MINE); /* who has had its answer, and comes once more */
    unit_eq(mm_round_end(&word, 0), MM_TURN_NOTHING);
    unit_eq(mm_round_begin(&word, &c), MM_TURN_NOTHING);
    unit_eq(a | b | c | d, 0);
}
END_TEST

static void give_at_step(void) {
    if (steps++ != give_at) return;
    unit_each_step = NULL;
    given = 1;
    mm_heap_free(ref, address(mm_class_of(MM_SEGMENT_BYTES / 4), 5));
    unit_each_step = count_steps;
}

/* Memory that comes back at any step of a search that is about to find nothing: it gets it, or the next one does. */
START_TEST(supply_in_the_middle_of_a_search) {
    const uint32_t c = mm_class_of(MM_SEGMENT_BYTES / 4);
    uint32_t nulls = 0, searches = 0;
    for (give_at = 0;; give_at += 1 + give_at / 64, searches++) {
        while (take(c, 0) != MM_TREE_NONE) continue;
        h->classes[c].dry = 0; /* so that it searches */
        steps = 0, given = 0;
        unit_each_step = give_at_step;
        const uint32_t slice = take(c, 0);
        unit_each_step = NULL;
        if (!given) break;
        nulls += slice == MM_TREE_NONE;
        unit_holds(slice != MM_TREE_NONE || take(c, 0) != MM_TREE_NONE, "came back at step %u, still NULL", (unsigned)give_at);
        while (take(c, 0) != MM_TREE_NONE) continue;
    }
    unit_lt(30, searches);
    unit_holds(nulls * 3 < searches, "%u of %u NULL", nulls, searches);
}
END_TEST

/* mmbench's endurance in small: 2 GiB, three quarters of them asked for in 28 classes (81 % with the rounding), from as many
 * multiprocessors as an H200 has; every round half of it goes and comes anew. No NULL, and hardly more segments from
 * round to round. */
START_TEST(three_quarters_live) {
    const uint32_t segments = 512, n = (uint32_t)(segments * MM_SEGMENT_BYTES / 4 * 3 / 2056);
    struct mm_cpu_heap large;
    void **held = (void **)calloc(n, sizeof *held);
    uint64_t seed = 1, live = 0, was_free = 0;
    unit_eq(mm_cpu_heap_create(&large, 8 * segments, segments, MM_SEGMENT_BYTES), 0); /* most of it is not mapped */
    for (int round = 0; round < 6; round++) {
        for (uint32_t i = 0; i < n; i++) {
            if (round > 0 && unit_random(&seed) & 1) {
                mm_heap_free(&large.ref, held[i]);
                held[i] = NULL;
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            if (held[i] != NULL) continue;
            unit_home = i / 256 % 132;
            held[i] = mm_heap_malloc(&large.ref, 16 + unit_random(&seed) % 4081);
            unit_holds(held[i] != NULL, "NULL in round %d", round);
        }
        if (round > 0) unit_le(was_free, mm_cpu_heap_free_segments(&large) + segments / (round > 1 ? 32 : 16));
        was_free = mm_cpu_heap_free_segments(&large);
    }
    char why[200];
    const char *wrong = mm_cpu_heap_check_quiescent(&large, why, sizeof why, &live);
    unit_holds(wrong == NULL, "%s", wrong);
    unit_le(segments * MM_SEGMENT_BYTES / 4 * 3, live);
    for (uint32_t i = 0; i < n; i++) mm_heap_free(&large.ref, held[i]);
    unit_fresh(&large, segments);
    mm_cpu_heap_destroy(&large);
    free(held);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("null");
    TCase *tests = tcase_create("null");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, other_stripes_before_null, 16, MM_CLASS_COUNT);
    const TTest *const all[] = {rounds, dry_is_remembered, waiting_is_bounded, supply_in_the_middle_of_a_search, three_quarters_live};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tcase_add_test(tests, all[i]);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
