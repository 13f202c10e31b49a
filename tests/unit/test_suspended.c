/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One caller is suspended at each of its steps, as a thread is whose processor runs something else. Another one still gets memory that it has just
 * freed: nothing that the first caller left undone hides it. On a tiny heap (small.h). */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define MOST_HELD 4096
#define K(n) ((n)*1024u)
#define ALL ~0u
#define NO (-1)

/* Frees held[gives] unless that is NO, then requests `gets` bytes unless that is 0; or retires all free blocks. */
struct action {
    int gives;
    uint32_t gets;
    int retires;
};
struct scenario {
    const char *name;
    uint32_t segments;
    struct {
        uint32_t bytes, n; /* ALL: until NULL */
    } fill[2];
    int free_from, free_to; /* these are then freed again */
    struct action suspended, other;
};
/* 16: 32 slices to a page; 2 K: 16 slices to a segment; 4 K: a span of 8 pages; 20 K: one of 40; 32 K: a run of a segment; 64 K: of two. */
static const struct scenario scenario[] = {
    {"two spans come back", 2, {{K(4), ALL}}, 0, 0, {0, 0, 0}, {8, K(4), 0}},
    {"two spans come back, for slices", 2, {{K(4), ALL}}, 0, 0, {0, 0, 0}, {8, 16, 0}},
    {"two spans come back, of segments beyond a leaf", 130, {{K(20), ALL}}, 0, 0, {0, 0, 0}, {128, K(20), 0}},
    {"the last room is taken while a span comes back", 2, {{K(4), ALL}}, 0, 1, {NO, K(4), 0}, {8, K(4), 0}},
    {"the last segment is taken while another comes back", 2, {{K(32), ALL}}, 0, 1, {NO, 16, 0}, {1, K(32), 0}},
    {"two segments come back", 2, {{K(32), ALL}}, 0, 0, {0, 0, 0}, {1, K(32), 0}},
    {"two segments come back, for a span", 2, {{K(32), ALL}}, 0, 0, {0, 0, 0}, {1, K(20), 0}},
    {"two segments come back, for a slice", 2, {{K(32), ALL}}, 0, 0, {0, 0, 0}, {1, K(2), 0}},
    {"two runs come back", 4, {{K(64), ALL}}, 0, 0, {0, 0, 0}, {1, K(64), 0}},
    {"two runs come back, of segments beyond a leaf", 132, {{K(64), ALL}}, 0, 0, {0, 0, 0}, {65, K(64), 0}},
    {"two slices come back", 1, {{K(2), ALL}}, 0, 0, {0, 0, 0}, {8, K(2), 0}},
    {"two slices come back, of small ones", 1, {{16, ALL}}, 0, 0, {0, 0, 0}, {1, 16, 0}},
    {"a slice comes back while its class is searched", 1, {{K(2), ALL}}, 0, 0, {NO, K(2), 0}, {8, K(2), 0}},
    {"a span comes back while a run is searched", 2, {{K(4), ALL}}, 0, 0, {NO, K(64), 0}, {8, K(4), 0}},
    {"a slice comes back while a run is searched", 1, {{16, ALL}}, 0, 0, {NO, K(32), 0}, {8, 16, 0}},
    {"a span comes back while blocks retire", 2, {{16, 1024}, {K(4), ALL}}, 0, 1024, {NO, 0, 1}, {1024, K(4), 0}},
    {"a span comes back while a class takes its first block", 2, {{K(4), ALL}}, 0, 1, {NO, 16, 0}, {8, K(4), 0}},
};
#define SCENARIOS ((int)(sizeof scenario / sizeof *scenario))

static struct mm_cpu_heap heap;
static void *held[MOST_HELD];
static int holds;

static void set_up(const struct scenario *sc) {
    const uint64_t user_base = heap.ref.user_base;
    mm_heap_image_in_place(heap.metadata, &heap.layout, user_base, sc->segments);
    holds = 0, unit_seed = 1;
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < sc->fill[k].n && (held[holds] = mm_heap_malloc(&heap.ref, sc->fill[k].bytes)) != NULL; i++) holds++;
    for (int i = sc->free_from; i < sc->free_to; i++) mm_heap_free(&heap.ref, held[i]), held[i] = NULL;
}
static void do_action(const struct action *what) {
    if (what->gives != NO) {
        void *p = held[what->gives];
        held[what->gives] = NULL;
        mm_heap_free(&heap.ref, p);
    }
    if (what->retires) mm_slices_retire_all(&heap.ref, 1);
    if (what->gets == 0) return;
    void *p = mm_heap_malloc(&heap.ref, what->gets);
    held[holds++] = p;
}
static void act(void *what) { do_action((const struct action *)what); }

START_TEST(at_each_step) {
    const struct scenario *sc = &scenario[_i];
    struct action what = sc->suspended;
    long steps = 0;
    unit_create(&heap, sc->segments);
    for (int is_done = 0; !is_done; steps += 1 + steps / 64) {
        set_up(sc);
        unit_actor_make(0, act, &what);
        unit_go(0, steps);
        is_done = unit_actor[0].done;
        const int at = holds;
        do_action(&sc->other);
        unit_holds(held[at] != NULL, "%s: NULL, at step %ld of the other caller", sc->name, steps);
        while (!unit_actor[0].done) unit_go(0, UNIT_TURN_STEPS);
        for (int i = 0; i < holds; i++) mm_heap_free(&heap.ref, held[i]);
        unit_eq(unit_misuses(&heap), 0);
        unit_fresh(&heap, sc->segments);
    }
    unit_lt(1, steps);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("suspended");
    TCase *tests = tcase_create("one caller is suspended");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, at_each_step, 0, SCENARIOS);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
