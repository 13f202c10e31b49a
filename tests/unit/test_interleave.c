/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Two callers in many orders of their steps with up to three switches, on a tiny heap (small.h): heap sound, no
 * slice twice, no NULL while there is memory, nothing lost. Protocols of tree.h, segment.h, word.h, table.h, make.h, retire.h and run.h;
 * steps.h explains the scheduling. */
#define UNIT_WAIT_STEPS 200 /* after which a waiter lets the other go on */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define MOST_STEPS 200 /* of an actor before the other comes in; more only repeats waiting */
#define MOST_HELD 8192

enum verb { GET, GIVE, GIVE_GET, GIVE_GIVE, GET_GIVE, RETIRE, MISUSE };

/* What an actor does: GET bytes; GIVE back held[which] (GIVE_GIVE: and held[which + 1]); GET and GIVE it back at once; RETIRE all free blocks;
 * or free a slice that is not allocated (MISUSE): slice number `which` of the heap, as if all of it were of class `bytes`. */
struct action {
    enum verb verb;
    uint32_t bytes;
    int which;
    uint32_t home;
};
struct scenario {
    const char *name;
    uint32_t segments;
    struct {
        uint32_t bytes, n, home;
    } fill[2];              /* before; n ~0: until NULL */
    int free_from, free_to; /* these are then freed again */
    struct action action[2];
    int null_is_fine;
};

#define K(n) ((n)*1024u)
#define NONE                   \
    {                          \
        {0, 0, 0}, { 0, 0, 0 } \
    }
#define ALL ~0u
/* 16: 64 blocks of 32 slices to a segment of 32 KiB; 48: 16 of 42 (2 words); 128: 8 of 32; 512: 2 of 32; 1 K: 1 of 32; 2 K: 1 of 16; 4 K: a span
 * of 8 pages; 20 K: one of 40; 64 K: a run of two segments. */
static const struct scenario scenario[] = {
    {"two first requests of a class", 3, NONE, 0, 0, {{GET, 64, 0, 0}, {GET, 64, 0, 0}}, 0},
    {"two first requests of large slices", 4, NONE, 0, 0, {{GET, K(2), 0, 0}, {GET, K(2), 0, 1}}, 0},
    {"two classes take their first block", 3, NONE, 0, 0, {{GET, 64, 0, 0}, {GET, K(2), 0, 0}}, 0},
    {"two classes share a segment", 1, NONE, 0, 0, {{GET, 64, 0, 0}, {GET, 512, 0, 1}}, 1},
    {"one segment for two of a class", 1, NONE, 0, 0, {{GET, K(2), 0, 0}, {GET, K(2), 0, 1}}, 1},
    {"the last slice of a block and one more", 3, {{16, 31, 0}, {0, 0, 0}}, 0, 0, {{GET, 16, 0, 0}, {GET, 16, 0, 0}}, 0},
    {"the last two slices of the heap", 1, {{K(2), 14, 0}, {0, 0, 0}}, 0, 0, {{GET, K(2), 0, 0}, {GET, K(2), 0, 1}}, 0},
    {"the last slice of the heap", 1, {{K(2), 15, 0}, {0, 0, 0}}, 0, 0, {{GET, K(2), 0, 0}, {GET, K(2), 0, 0}}, 1},
    {"the last slice of the heap, of small ones", 1, {{16, 2047, 0}, {0, 0, 0}}, 0, 0, {{GET, 16, 0, 0}, {GET, 16, 0, 0}}, 1},
    {"a full class and a free of its slice", 1, {{K(2), ALL, 0}, {0, 0, 0}}, 0, 0, {{GET, K(2), 0, 0}, {GIVE, 0, 0, 0}}, 1},
    {"two frees complete a block", 2, {{K(2), 16, 0}, {0, 0, 0}}, 0, 14, {{GIVE, 0, 14, 0}, {GIVE, 0, 15, 0}}, 0},
    {"two frees of one word", 2, {{16, 32, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GIVE, 0, 9, 0}}, 0},
    {"two frees, two words", 2, {{48, 42, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GIVE, 0, 41, 0}}, 0},
    {"a block comes back while its class wants a slice", 1, {{128, ALL, 0}, {0, 0, 0}}, 1, 32, {{GET, 128, 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"a block comes back, another class wants it", 1, {{K(2), ALL, 0}, {0, 0, 0}}, 0, 15, {{GIVE, 0, 15, 0}, {GET, 512, 0, 0}}, 1},
    {"two want the block of a third class", 1, {{K(1), ALL, 0}, {0, 0, 0}}, 0, 32, {{GET, 64, 0, 0}, {GET, 64, 0, 1}}, 1},
    {"two classes want the block of a third", 1, {{K(1), ALL, 0}, {0, 0, 0}}, 0, 32, {{GET, 64, 0, 0}, {GET, 256, 0, 1}}, 1},
    {"one retires all, another one takes a slice", 1, {{K(1), 32, 0}, {0, 0, 0}}, 0, 32, {{GET, K(1), 0, 0}, {RETIRE, 0, 0, 0}}, 0},
    {"one retires all of two words, another one takes a slice", 1, {{48, 42, 0}, {0, 0, 0}}, 0, 42, {{GET, 48, 0, 0}, {RETIRE, 0, 0, 0}}, 0},
    {"a first request while all is retired", 1, NONE, 0, 0, {{GET, 48, 0, 0}, {RETIRE, 0, 0, 0}}, 0},
    {"a block is made and retired", 1, NONE, 0, 0, {{GET_GIVE, 48, 0, 0}, {RETIRE, 0, 0, 0}}, 0},
    {"two retire the same blocks", 1, {{16, 200, 0}, {0, 0, 0}}, 0, 200, {{RETIRE, 0, 0, 0}, {RETIRE, 0, 0, 0}}, 0},
    {"two retire, some are in use", 1, {{16, 200, 0}, {0, 0, 0}}, 40, 170, {{RETIRE, 0, 0, 0}, {RETIRE, 0, 0, 0}}, 0},
    {"the last slice comes back while all is retired", 1, {{48, 42, 0}, {0, 0, 0}}, 1, 42, {{GIVE, 0, 0, 0}, {RETIRE, 0, 0, 0}}, 0},
    {"a block goes while another is made", 2, {{512, 32, 0}, {0, 0, 0}}, 1, 32, {{GIVE_GET, 512, 0, 0}, {RETIRE, 0, 0, 0}}, 0},
    {"a block goes while its class grows", 2, {{128, 64, 0}, {0, 0, 0}}, 0, 32, {{GET, 128, 0, 0}, {RETIRE, 0, 0, 0}}, 0},
    {"the last of a table goes while another is made", 2, {{16, 96, 0}, {0, 0, 0}}, 64, 96, {{GET, 16, 0, 0}, {RETIRE, 0, 0, 0}}, 0},
    {"an extent is attached, for two", 1, {{16, 128, 0}, {0, 0, 0}}, 0, 0, {{GET, 16, 0, 0}, {GET, 16, 0, 1}}, 0},
    {"the only slice that came back, for two", 1, {{K(2), ALL, 0}, {0, 0, 0}}, 7, 8, {{GET, K(2), 0, 0}, {GET, K(2), 0, 0}}, 1},
    {"two slices that came back, for two", 1, {{K(2), ALL, 0}, {0, 0, 0}}, 7, 9, {{GET, K(2), 0, 0}, {GET, K(2), 0, 1}}, 0},
    {"a slice comes back and is taken again", 1, {{K(2), ALL, 0}, {0, 0, 0}}, 0, 0, {{GET, K(2), 0, 0}, {GIVE, 0, 5, 0}}, 1},
    {"the same, twice", 1, {{K(2), ALL, 0}, {0, 0, 0}}, 3, 4, {{GET, K(2), 0, 0}, {GIVE_GET, K(2), 5, 1}}, 1},
    {"slices come back behind one who has just seen none", 1, {{512, ALL, 0}, {0, 0, 0}}, 0, 0, {{GET, 512, 0, 0}, {GIVE_GIVE, 0, 30, 0}}, 1},
    {"two frees of one slice", 2, {{K(1), 32, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 3, 0}, {GIVE, 0, 3, 0}}, 0},
    {"a slice of a free segment, while others are taken", 2, NONE, 0, 0, {{MISUSE, 16, 4000, 0}, {GET, 16, 0, 0}}, 0},
    {"two spans", 2, NONE, 0, 0, {{GET, K(20), 0, 0}, {GET, K(20), 0, 0}}, 0},
    {"two spans, room for one", 1, NONE, 0, 0, {{GET, K(20), 0, 0}, {GET, K(20), 0, 0}}, 1},
    {"two spans of one segment", 1, NONE, 0, 0, {{GET, K(4), 0, 0}, {GET, K(12), 0, 0}}, 0},
    {"a span and a block", 1, NONE, 0, 0, {{GET, K(4), 0, 0}, {GET, 128, 0, 0}}, 0},
    {"a span comes back, another wants it", 1, {{K(20), 1, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GET, K(20), 0, 0}}, 1},
    {"a span comes back, a slice wants it", 1, {{K(20), 1, 0}, {K(4), ALL, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GET, 16, 0, 0}}, 1},
    {"two spans come back: the segment is nobody's", 1, {{K(12), 2, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GIVE, 0, 1, 0}}, 0},
    {"two frees of one span", 1, {{K(12), 2, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"a span wants idle blocks", 1, {{16, ALL, 0}, {0, 0, 0}}, 0, 2048, {{GET, K(20), 0, 0}, {GET, 16, 0, 0}}, 1},
    {"two runs, room for both", 4, NONE, 0, 0, {{GET, K(64), 0, 0}, {GET, K(64), 0, 0}}, 0},
    {"two runs, room for one", 3, NONE, 0, 0, {{GET, K(64), 0, 0}, {GET, K(64), 0, 0}}, 1},
    {"runs across words", 130, NONE, 0, 0, {{GET, K(32) * 66, 0, 0}, {GET, K(32) * 64, 0, 0}}, 1},
    {"a run and a small request", 3, NONE, 0, 0, {{GET, K(64), 0, 0}, {GET, 16, 0, 0}}, 0},
    {"a run wants what a small request takes", 2, NONE, 0, 0, {{GET, K(64), 0, 0}, {GET, 16, 0, 0}}, 1},
    {"a run wants idle blocks", 1, {{16, 1, 0}, {0, 0, 0}}, 0, 1, {{GET, K(32), 0, 0}, {GET, 64, 0, 0}}, 1},
    {"a run comes back, another wants it", 2, {{K(64), 1, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GET, K(64), 0, 0}}, 1},
    {"a run comes back, a slice wants it", 2, {{K(64), 1, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GET, 16, 0, 0}}, 1},
    {"two frees of one run", 2, {{K(64), 1, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"a segment's last block goes, a run wants it", 1, {{48, 42, 0}, {0, 0, 0}}, 1, 42, {{GIVE, 0, 0, 0}, {GET, K(32), 0, 0}}, 1},
    {"one gives and takes, the other, too", 1, {{K(2), ALL, 0}, {0, 0, 0}}, 0, 0, {{GIVE_GET, K(2), 0, 0}, {GIVE_GET, K(2), 1, 0}}, 0},
    {"one gives and takes, the other another class", 1, {{K(2), ALL, 0}, {0, 0, 0}}, 2, 16, {{GIVE_GET, K(2), 0, 0}, {GIVE_GET, 512, 1, 0}}, 1},
};
#define SCENARIOS ((int)(sizeof scenario / sizeof *scenario))

static struct mm_cpu_heap heap;
static struct {
    void *p;
    uint64_t bytes;
    int gone;
} held[MOST_HELD];
static int holds;
static uint32_t unit_random_first; /* seed of the random numbers */

static void *hold(void *p, uint64_t bytes) {
    if (p == NULL) return NULL;
    held[holds].p = p, held[holds].bytes = bytes, held[holds].gone = 0;
    holds++;
    return p;
}

struct actor {
    struct action what;
    void *got; /* to be held when both are done: actors share nothing but the heap */
    void *give[2];
};

static void act(void *arg) {
    struct actor *me = (struct actor *)arg;
    if (me->what.verb == RETIRE) mm_slices_retire_all(&heap.ref, 1);
    for (int i = 0; i < 2; i++)
        if (me->give[i] != NULL) mm_heap_free(&heap.ref, me->give[i]);
    if (me->what.verb <= GIVE_GET && me->what.verb != GIVE) me->got = mm_heap_malloc(&heap.ref, me->what.bytes);
    if (me->what.verb == GET_GIVE) mm_heap_free(&heap.ref, mm_heap_malloc(&heap.ref, me->what.bytes));
}

/* A new heap in the same memory; what need not be zero stays as it is. */
static void start_over(const struct scenario *sc) {
    const uint64_t user_base = heap.ref.user_base;
    mm_heap_image_in_place(heap.metadata, &heap.layout, user_base, sc->segments);
    holds = 0, unit_seed = unit_random_first;
    for (int k = 0; k < 2; k++) {
        unit_home = sc->fill[k].home;
        for (uint32_t i = 0; i < sc->fill[k].n; i++)
            if (hold(mm_heap_malloc(&heap.ref, sc->fill[k].bytes), sc->fill[k].bytes) == NULL) break;
    }
    for (int i = sc->free_from; i < sc->free_to; i++) mm_heap_free(&heap.ref, held[i].p), held[i].gone = 1;
    mm_heap_of(&heap.ref)->null_count = 0;
}

struct range {
    char *p;
    uint64_t bytes;
};
static int by_address(const void *a, const void *b) {
    const char *p = ((const struct range *)a)->p, *q = ((const struct range *)b)->p;
    return p < q ? -1 : p > q;
}

static int both(const struct scenario *sc, long a, long b, long c) {
    struct actor actor[2];
    void *arg[2] = {&actor[0], &actor[1]};
    int misuses = 0, nulls = 0;
    start_over(sc);
    for (int i = 0; i < 2; i++) {
        const struct action what = sc->action[i];
        const struct actor now = {what, NULL, {NULL, NULL}};
        actor[i] = now;
        unit_actor_home[i] = what.home;
        if (what.verb == MISUSE) {
            actor[i].give[0] = (void *)(heap.ref.user_base + (uint64_t)what.which * what.bytes);
            misuses++;
        }
        const int gives = what.verb == GIVE || what.verb == GIVE_GET ? 1 : what.verb == GIVE_GIVE ? 2 : 0;
        for (int k = 0; k < gives; k++) {
            actor[i].give[k] = held[what.which + k].p;
            misuses += held[what.which + k].gone;
            held[what.which + k].gone = 1;
        }
    }
    const int ended = unit_interleave(act, arg, a, b, c);
    uint64_t live = 0;
    for (int i = 0; i < 2; i++) {
        hold(actor[i].got, sc->action[i].bytes);
        nulls += (sc->action[i].verb == GET || sc->action[i].verb == GIVE_GET) && actor[i].got == NULL;
    }
    static struct range sorted[MOST_HELD];
    int n = 0;
    for (int i = 0; i < holds; i++) {
        if (held[i].gone) continue;
        sorted[n].p = (char *)held[i].p, sorted[n].bytes = unit_taken(held[i].bytes);
        live += sorted[n++].bytes;
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_address);
    for (int i = 1; i < n; i++) unit_holds(sorted[i - 1].p + sorted[i - 1].bytes <= sorted[i].p, "%s: handed out twice at %ld %ld %ld", sc->name, a, b, c);
    char why[200];
    uint64_t found = 0;
    const char *bad = mm_cpu_heap_check_quiescent(&heap, why, sizeof why, &found);
    unit_holds(bad == NULL, "%s: at %ld %ld %ld: %s", sc->name, a, b, c, bad ? bad : "");
    unit_holds(found == live, "%s: at %ld %ld %ld: %llu bytes live, not %llu", sc->name, a, b, c, (unsigned long long)found, (unsigned long long)live);
    unit_holds(unit_misuses(&heap) == (uint64_t)misuses, "%s: misuse counted at %ld %ld %ld", sc->name, a, b, c);
    unit_holds(sc->null_is_fine || nulls == 0, "%s: NULL at %ld %ld %ld", sc->name, a, b, c);
    unit_holds(nulls < 2, "%s: two NULLs at %ld %ld %ld", sc->name, a, b, c);
    unit_le(nulls, mm_cpu_null_count(&heap));
    for (int i = 0; i < holds; i++)
        if (!held[i].gone) mm_cpu_free(&heap, held[i].p);
    unit_fresh(&heap, sc->segments);
    return ended;
}

#ifdef UNIT_ALL_SCHEDULES
#define STRIDE(n, part) 1
#else
#define STRIDE(n, part) (1 + (n) / (part))
#endif

START_TEST(schedules) {
    const struct scenario *sc = &scenario[_i % SCENARIOS];
    struct scenario turned = *sc;
    if (_i / SCENARIOS % 2) /* with the actions swapped */
        turned.action[0] = sc->action[1], turned.action[1] = sc->action[0];
    unit_create(&heap, sc->segments);
    unit_random_first = (uint32_t)_i / SCENARIOS / 2 * 77;
    long done = 0;
    for (long a = 0; a < MOST_STEPS; a += STRIDE(a, 8)) {
        int ended = 0;
        for (long b = 0; b < MOST_STEPS && !(ended & 3); b += STRIDE(b, 8))
            for (long c = 0, last = 0; c < MOST_STEPS && !last; c += b ? STRIDE(c, 2) : MOST_STEPS) {
                ended = both(&turned, a, b, c), done++;
                last = ended != 0;
            }
        if (ended & 1) break;
    }
    unit_lt(1, done);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("interleave");
    TCase *tests = tcase_create("two callers");
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, schedules, 0, 4 * SCENARIOS);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
