/* Two callers in many orders of their steps with up to three changes: heap sound, no slice twice, no NULL while
 * there is memory, nothing lost. Protocols of segment.h, block.h and run.h; steps.h says how. */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define MOST_STEPS 200 /* of an actor before the other comes in; more only repeats waiting */
#define MOST_HELD 4096

enum verb { GET, GIVE, GIVE_GET, STALE };

/* What an actor does: GET bytes, GIVE back held[which], both, or go on as the STALE reader of a stripe. */
struct action {
    enum verb verb;
    uint64_t bytes;
    int which;     /* of what is held */
    uint32_t home; /* which quarter of the stripes: its own group, if there are four */
};
struct scenario {
    const char *name;
    uint32_t segments;
    uint64_t fill_bytes; /* before: so many of these; ~0: until NULL */
    uint64_t fill;
    int freed; /* so many of them, from the front */
    struct action action[2];
    int null_is_fine;
};

#define MB(n) ((uint64_t)(n) << 20)
static const struct scenario scenario[] = {
    {"two first requests of a class", 3, 0, 0, 0, {{GET, 64, 0, 0}, {GET, 64, 0, 0}}, 0},
    {"two first requests, two stripes", 3, 0, 0, 0, {{GET, MB(1), 0, 0}, {GET, MB(1), 0, 1}}, 0},
    {"two classes take their first segment", 3, 0, 0, 0, {{GET, 64, 0, 0}, {GET, MB(2), 0, 0}}, 0},
    {"one segment for two of a class", 1, 0, 0, 0, {{GET, MB(1), 0, 0}, {GET, MB(1), 0, 1}}, 0},
    {"the last ticket and one more", 3, MB(2), 1, 0, {{GET, MB(2), 0, 0}, {GET, MB(2), 0, 0}}, 0},
    {"the last two tickets of the heap", 1, MB(1), 2, 0, {{GET, MB(1), 0, 0}, {GET, MB(1), 0, 1}}, 0},
    {"the last ticket of the heap", 1, MB(1), 3, 0, {{GET, MB(1), 0, 0}, {GET, MB(1), 0, 0}}, 1},
    {"an exhausted class and a free of its block", 1, MB(2), ~0ull, 0, {{GET, MB(2), 0, 0}, {GIVE, 0, 0, 0}}, 1},
    {"two frees complete a block", 2, MB(2), 2, 0, {{GIVE, 0, 0, 0}, {GIVE, 0, 1, 0}}, 0},
    {"the last ticket and the free of the others", 2, MB(2), 1, 0, {{GET, MB(2), 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"two frees retire a segment", 2, 1 << 19, 16, 0, {{GIVE, 0, 7, 0}, {GIVE, 0, 15, 0}}, 0},
    {"a block comes back while its class refills", 2, 1u << 11, 512 * 4 - 1, 0, {{GET, 1u << 11, 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"a segment comes back, another class wants one", 1, MB(2), 2, 0, {{GIVE, 0, 1, 0}, {GET, 4096, 0, 0}}, 1},
    {"a stale reader, its block's class unchanged", 3, MB(2), 2, 0, {{STALE, MB(2), 0, 0}, {GET, MB(2), 0, 0}}, 0},
    {"a stale reader takes the last ticket", 3, MB(2), 1, 0, {{STALE, MB(2), 0, 0}, {GET, MB(2), 0, 0}}, 0},
    {"a stale reader of another class", 3, MB(2), 1, 0, {{STALE, MB(1), 0, 0}, {GET, MB(2), 0, 0}}, 0},
    {"a stale reader of another class and a free", 3, MB(2), 1, 0, {{STALE, MB(1), 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"two runs, room for both", 4, 0, 0, 0, {{GET, MB(8), 0, 0}, {GET, MB(8), 0, 0}}, 0},
    {"two runs, room for one", 3, 0, 0, 0, {{GET, MB(8), 0, 0}, {GET, MB(8), 0, 0}}, 1},
    {"runs across words", 130, 0, 0, 0, {{GET, MB(4) * 66, 0, 0}, {GET, MB(4) * 64, 0, 0}}, 1},
    {"a run and a small request", 3, 0, 0, 0, {{GET, MB(8), 0, 0}, {GET, 16, 0, 0}}, 0},
    {"a run wants what a small request takes", 2, 0, 0, 0, {{GET, MB(8), 0, 0}, {GET, 16, 0, 0}}, 1},
    {"a run comes back, another wants it", 2, MB(8), 1, 0, {{GIVE, 0, 0, 0}, {GET, MB(8), 0, 0}}, 1},
    {"two frees of one run", 2, MB(8), 1, 0, {{GIVE, 0, 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"a segment is retired while its class wants a block", 2, 2048, 3 * 1024 - 1, 2047, {{GIVE, 0, 2047, 0}, {GET, 2048, 0, 0}}, 0},
    {"two groups want a block of the same segment", 1, 1024, 1, 0, {{GET, 1024, 0, 1}, {GET, 1024, 0, 2}}, 0},
    {"a refill fails while memory comes back and is taken", 1, MB(1), 4, 3, {{GET, MB(1), 0, 0}, {GIVE_GET, MB(1), 3, 0}}, 1},
    {"the same, and another class takes it", 1, MB(2), 2, 0, {{GIVE_GET, MB(2), 0, 0}, {GIVE_GET, 4096, 1, 0}}, 1},
    {"a run comes back, a slice wants it", 2, MB(8), 1, 0, {{GIVE, 0, 0, 0}, {GET, 16, 0, 0}}, 1},
};
#define SCENARIOS ((int)(sizeof scenario / sizeof *scenario))

static struct mm_cpu_heap heap;
static struct {
    void *p;
    uint64_t bytes;
    int gone;
} held[MOST_HELD];
static int holds, nulls;

static void *hold(void *p, uint64_t bytes) {
    if (p == NULL) return NULL;
    held[holds].p = p, held[holds].bytes = bytes, held[holds].gone = 0;
    holds++;
    return p;
}

struct actor {
    struct action what;
    uint32_t block; /* STALE: the block it has read */
    void *got;      /* to be held when both are done: actors share nothing but the heap */
    void *give;
};

static void act(void *arg) {
    struct actor *me = (struct actor *)arg;
    if (me->what.verb != STALE) {
        if (me->give != NULL) mm_heap_free(&heap.ref, me->give);
        if (me->what.bytes != 0) me->got = mm_heap_malloc(&heap.ref, me->what.bytes);
    } else {
        const uint32_t c = mm_class_of((uint32_t)me->what.bytes);
        const mm_claim claim = mm_block_settle(&heap.ref, me->block, c, 1, mm_block_draw(&heap.ref, me->block, 1));
        if (claim != 0)
            me->got = (void *)(heap.ref.user_base + ((uint64_t)(claim >> 32) << MM_GRANULE_SHIFT) +
                               (uint64_t)mm_claim_first((uint32_t)claim) * mm_class_bytes(c));
    }
}

/* A new heap in the same memory; slice bits need no clearing, so they are left dirty. */
static void start_over(const struct scenario *sc, uint32_t level) {
    const uint64_t user_base = heap.ref.user_base;
    memset(heap.metadata, 0, heap.layout.fixed_bytes);
    mm_heap_image(heap.metadata, &heap.layout, (uint64_t)(uintptr_t)heap.metadata, user_base, sc->segments);
    struct mm_heap *h = mm_heap_of(&heap.ref);
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) /* as a class is whose demand has split its groups */
        for (uint32_t i = 0; level > 0 && i < MM_STRIPES; i++)
            h->classes[c].stripe[i] = (level << MM_STRIPES_SHIFT | (i & ~((MM_STRIPES >> level) - 1))) << 2;
    holds = nulls = 0;
    for (uint64_t i = 0; i < sc->fill; i++)
        if (hold(mm_heap_malloc(&heap.ref, sc->fill_bytes), sc->fill_bytes) == NULL) break;
    for (int i = 0; i < sc->freed; i++) mm_heap_free(&heap.ref, held[i].p), held[i].gone = 1;
    h->null_count = 0;
}

static int by_address(const void *a, const void *b) {
    const char *p = *(char *const *)a, *q = *(char *const *)b;
    return p < q ? -1 : p > q;
}

static int both(const struct scenario *sc, uint32_t level, long a, long b, long c) {
    struct actor actor[2];
    void *arg[2] = {&actor[0], &actor[1]};
    int twice = 0;
    unit_home = 0;
    start_over(sc, level);
    for (int i = 0; i < 2; i++) {
        const struct actor now = {sc->action[i], 0, NULL, NULL};
        actor[i] = now;
        unit_actor_home[i] = now.what.home * MM_STRIPES / 4;
        if (now.what.verb == STALE)
            actor[i].block = (uint32_t)(((uint64_t)(uintptr_t)held[0].p - heap.ref.user_base) >> MM_GRANULE_SHIFT);
        if (now.what.verb != GIVE && now.what.verb != GIVE_GET) continue;
        actor[i].give = held[now.what.which].p;
        twice += held[now.what.which].gone;
        held[now.what.which].gone = 1;
    }
    const int ended = unit_interleave(act, arg, a, b, c);
    uint64_t live = 0;
    for (int i = 0; i < 2; i++) {
        hold(actor[i].got, sc->action[i].bytes);
        nulls += sc->action[i].verb <= GIVE_GET && sc->action[i].bytes != 0 && actor[i].got == NULL;
    }
    static void *sorted[MOST_HELD];
    int n = 0;
    for (int i = 0; i < holds; i++)
        if (!held[i].gone) sorted[n++] = held[i].p, live += unit_taken(held[i].bytes);
    qsort(sorted, (size_t)n, sizeof *sorted, by_address);
    for (int i = 1; i < n; i++) unit_holds(sorted[i] != sorted[i - 1], "%s: handed out twice at %ld %ld %ld", sc->name, a, b, c);
    for (uint32_t g = 0; g < sc->segments * MM_SEGMENT_GRANULES; g++) { /* who waits does not add meanwhile */
        const uint64_t ctrl = *mm_block_ctrl(&heap.ref, g);
        const uint32_t kind = mm_ctrl_kind(ctrl);
        unit_holds(kind == MM_KIND_CLOSED || kind > MM_CLASS_COUNT || mm_ctrl_count(ctrl) <= mm_class_capacity(kind - 1) + 4,
                   "%s: count of block %u driven up at %ld %ld %ld", sc->name, g, a, b, c);
    }
    char why[200];
    uint64_t found = 0;
    const char *bad = mm_cpu_heap_check_quiescent(&heap, why, sizeof why, &found);
    unit_holds(bad == NULL, "%s: at %ld %ld %ld: %s", sc->name, a, b, c, bad ? bad : "");
    unit_holds(found == live, "%s: at %ld %ld %ld: %llu bytes live, not %llu", sc->name, a, b, c,
               (unsigned long long)found, (unsigned long long)live);
    unit_holds(unit_misuses(&heap) == (uint64_t)twice, "%s: misuse counted at %ld %ld %ld", sc->name, a, b, c);
    unit_holds(sc->null_is_fine || nulls == 0, "%s: NULL at %ld %ld %ld", sc->name, a, b, c);
    unit_holds(nulls < 2, "%s: two NULLs at %ld %ld %ld", sc->name, a, b, c);
    unit_eq(mm_cpu_null_count(&heap), nulls);
    for (int i = 0; i < holds; i++)
        if (!held[i].gone) mm_cpu_free(&heap, held[i].p);
    unit_fresh(&heap, sc->segments);
    return ended;
}

START_TEST(schedules) {
    const struct scenario *sc = &scenario[_i % SCENARIOS];
    struct scenario turned = *sc;
    const uint32_t level = _i >= 2 * SCENARIOS ? 2 : 0; /* in four groups */
    if (_i / SCENARIOS % 2) /* the other way round */
        turned.action[0] = sc->action[1], turned.action[1] = sc->action[0];
    if (level > 0 && sc->action[0].home == sc->action[1].home) return; /* nothing new */
    unit_create(&heap, sc->segments);
    long done = 0;
    for (long a = 0; a < MOST_STEPS; a += 1 + a / 8) {
        int ended = 0;
        for (long b = 0; b < MOST_STEPS && !(ended & 3); b += 1 + b / 8)
            for (long c = 0, last = 0; c < MOST_STEPS && !last; c += b ? 1 + c / 2 : MOST_STEPS) {
                ended = both(&turned, level, a, b, c), done++;
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
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, schedules, 0, 4 * SCENARIOS);
    suite_add_tcase(suite, tests);
    return unit_main(suite);
}
