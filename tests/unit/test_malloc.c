/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* malloc of slices from cursors, samples, and growing: each slice is handed out once, wherever the cursors stand; how much of the heap a class takes. */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define SEGMENTS 300

static struct mm_cpu_heap heap;
static const struct mm_heap_ref *ref;

static void set_up(void) {
    unit_create(&heap, SEGMENTS);
    ref = &heap.ref;
}
static void tear_down(void) { mm_cpu_heap_destroy(&heap); }

/* All slices of a class come from its cursors, once, wherever these stand; and then none. */
START_TEST(cursors_come_round) {
    static const uint32_t places[] = {0, 1, 31, 1000, ~0u - 5, ~0u};
    const uint32_t c = mm_class_of(_i % 2 ? 512 : 48), slices = mm_class_slices(c);
    struct mm_class_state *of = mm_class_at(ref, c);
    while (of->count < 7) unit_holds(mm_cpu_malloc(&heap, mm_class_bytes(c)) != NULL, "NULL");
    uint64_t left = 0;
    for (uint32_t i = 0; i < of->count; i++)
        for (uint32_t w = 0; w < ref->classes[c].words; w++)
            left += mm_popcount(mm_word_free(mm_page_words(ref, mm_entry_page(mm_table_load(ref, c, i, 0)))[w]));
    unit_lt(0, left);
    for (uint32_t s = 0; s < MM_CURSORS; s++) of->cursor[s].place = places[(uint32_t)_i / 2];
    uint64_t got = 0;
    mm_class_stay(ref, c); /* or it draws tickets */
    for (uint32_t i = 0; i < 16 * of->count * slices; i++) {
        const uint64_t p = mm_cursor_draw(ref, 1, 1, 1, c, mm_random());
        unit_eq(p & MM_TOKEN, 0);
        got += p != 0;
    }
    unit_eq(got, left);
    unit_sound(&heap, UNIT_ANY);
    unit_eq(mm_sample_round(ref, 1, 1, c, of->count, mm_random(), 0, &(struct mm_seen){0, 0, 0}), 0);
}
END_TEST

/* A sample finds nothing in a full class, everything free in a free one, and the one word with room in a class of few words. */
START_TEST(samples) {
    const uint32_t c = mm_class_of(512);
    struct mm_class_state *of = mm_class_at(ref, c);
    static void *held[8 * 32];
    for (uint32_t i = 0; i < 8 * 32; i++) held[i] = mm_cpu_malloc(&heap, 512);
    while (mm_cursor_draw(ref, 1, 1, 1, c, mm_random()) > 1) continue;
    struct mm_seen seen = {0, 0, 0};
    uint32_t found = 0;
    for (uint32_t i = 0; i < of->count; i++) found += mm_sample_round(ref, 1, 1, c, of->count, mm_random(), i, &seen) != 0;
    unit_eq(seen.words, of->count * MM_SAMPLE_WORDS); /* a lone lane reads all words, over and over in a class of few */
    unit_eq(seen.free, found);
    mm_cpu_free(&heap, held[77]);
    for (uint32_t i = 0, before = found; i < of->count && found == before; i++)
        found += mm_sample_round(ref, 1, 1, c, of->count, mm_random(), i, &seen) == (uint64_t)held[77];
    unit_lt(0, found);
}
END_TEST

/* A lone lane that finds the last free slice takes it, and the class does not grow. When nothing is free, growth is raised. */
START_TEST(one_fills_up) {
    const uint32_t c = mm_class_of(512), blocks = 24;
    struct mm_class_state *of = mm_class_at(ref, c);
    static void *held[24 * 32];
    for (uint32_t i = 0; i < blocks * 32; i++) held[i] = mm_cpu_malloc(&heap, 512);
    unit_eq(of->count, blocks);
    of->until = of->tickets;
    for (uint32_t i = 0; i < 50; i++) {
        const uint32_t k = mm_random() % (blocks * 32);
        mm_cpu_free(&heap, held[k]);
        unit_holds(mm_cpu_malloc(&heap, 512) == held[k], "another slice");
        unit_eq(of->until - of->tickets, 0);
        unit_eq(of->count, blocks);
    }
    unit_holds(mm_cpu_malloc(&heap, 512) != NULL, "NULL");
    unit_lt(blocks, of->count);
    unit_lt(0, (int32_t)(of->until - of->tickets));
}
END_TEST

/* ---- Footprint ---- */

#define MOST 100000u
static void *held[MOST];
static uint32_t bytes_of[MOST];
static uint64_t seed;

/* The fewest bytes of pages that n objects of these sizes can take. */
static uint64_t least_bytes(uint32_t n) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += mm_class_bytes(mm_class_of(bytes_of[i]));
    return sum;
}
static uint64_t taken_bytes(void) {
    uint64_t pages = 0;
    for (uint32_t page = 0; page < SEGMENTS * MM_SEGMENT_PAGES; page++) pages += *mm_page_owner(ref, page) != MM_OWNER_NOBODY;
    return pages << MM_PAGE_SHIFT;
}
static uint32_t some_bytes(uint32_t kind) {
    static const uint32_t single[] = {16, 48, 64, 100, 256, 512, 1000};
    if (kind < 7) return single[kind];
    return kind == 7 ? 16 + (uint32_t)(unit_random(&seed) % 1009) : 16u << unit_random(&seed) % 7;
}

/* As many objects as a small program has, then churn: each round, half are freed and allocated anew. The pages of the classes stay close to the live bytes:
 * a step of growth is an eighth, and a lone lane sees few words at once, so it may take a step or two more than a warp. */
START_TEST(footprint) {
    const uint32_t kind = (uint32_t)_i % 9, n = MOST;
    seed = kind + 1;
    for (uint32_t i = 0; i < n; i++) bytes_of[i] = some_bytes(kind), held[i] = mm_cpu_malloc(&heap, bytes_of[i]);
    for (uint32_t i = 0; i < n; i++) unit_holds(held[i] != NULL, "NULL");
    const double full = (double)taken_bytes() / (double)least_bytes(n);
    unit_holds(full <= 1.35, "filled: %.2f of what is live", full);
    for (int round = 0; round < 8; round++) {
        if (_i < 9) { /* half are freed, then as many allocated */
            for (uint32_t i = 0; i < n; i++)
                if (unit_random(&seed) & 1) mm_cpu_free(&heap, held[i]), held[i] = NULL;
            for (uint32_t i = 0; i < n; i++)
                if (held[i] == NULL) bytes_of[i] = some_bytes(kind), held[i] = mm_cpu_malloc(&heap, bytes_of[i]);
        } else { /* one by one */
            for (uint32_t k = 0; k < n; k++) {
                const uint32_t i = (uint32_t)(unit_random(&seed) % n);
                mm_cpu_free(&heap, held[i]);
                bytes_of[i] = some_bytes(kind), held[i] = mm_cpu_malloc(&heap, bytes_of[i]);
            }
        }
        const double part = (double)taken_bytes() / (double)least_bytes(n);
        if (getenv("UNIT_VERBOSE")) fprintf(stderr, "kind %u round %d: %.3f\n", kind, round, part);
        unit_holds(part <= 1.5, "round %d: %.2f of what is live", round, part);
    }
    unit_eq(mm_cpu_null_count(&heap), 0);
    for (uint32_t i = 0; i < n; i++) mm_cpu_free(&heap, held[i]);
    unit_eq(unit_misuses(&heap), 0);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* Few objects of a class take few pages: what they need, and two more. */
START_TEST(few_objects) {
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++)
        for (uint32_t n = 1; n < 400; n = n * 3 + 1) {
            const uint64_t block = MM_PAGE_BYTES << mm_class_page_shift(c), slices = mm_class_slices(c);
            for (uint32_t i = 0; i < n; i++) held[i] = mm_cpu_malloc(&heap, mm_class_bytes(c));
            const uint64_t need = (n + slices - 1) / slices, has = taken_bytes() / block;
            unit_holds(has <= need + 2 + need / 8, "class %u: %u blocks for %u slices of %u", c, (uint32_t)has, n, (uint32_t)slices);
            for (uint32_t i = 0; i < n; i++) mm_cpu_free(&heap, held[i]);
            mm_cpu_heap_drain_quiescent(&heap);
        }
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

/* A class past its peak serves from the pages it has: it grows by one step at most, plus what some lanes draw tickets for. */
START_TEST(does_not_grow_while_there_is_room) {
    for (uint32_t i = 0; i < MOST; i++) held[i] = mm_cpu_malloc(&heap, 64);
    for (uint32_t i = 0; i < MOST; i++)
        if (i % 4 != 0) mm_cpu_free(&heap, held[i]), held[i] = NULL;
    const uint64_t before = taken_bytes();
    for (uint32_t i = 0; i < MOST; i++)
        if (i % 4 == 1 || i % 4 == 2) held[i] = mm_cpu_malloc(&heap, 64);
    unit_le(taken_bytes(), before + before / (MM_GROW_SHARE / 2) + before / 25); /* 1.137 to 1.146 of ten seeds */
    for (uint32_t i = 0; i < MOST; i++) mm_cpu_free(&heap, held[i]);
    unit_fresh(&heap, SEGMENTS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("malloc");
    TCase *tests = tcase_create("malloc");
    tcase_set_timeout(tests, 240);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, cursors_come_round, 0, 12);
    tcase_add_test(tests, samples);
    tcase_add_test(tests, one_fills_up);
    tcase_add_loop_test(tests, footprint, 0, 18);
    tcase_add_test(tests, few_objects);
    tcase_add_test(tests, does_not_grow_while_there_is_room);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
