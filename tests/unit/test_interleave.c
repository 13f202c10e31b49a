/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Two callers in many orders of their steps with up to three changes, on a heap in small (few_stripes.h): heap sound, no
 * slice twice, no NULL while there is memory, nothing lost. Protocols of tree.h, segment.h, block.h, stripe.h and run.h;
 * steps.h says how. */
#define UNIT_WAIT_STEPS 200 /* who waits lets the other go on */
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define MOST_STEPS 200 /* of an actor before the other comes in; more only repeats waiting */
#define MOST_HELD 8192

enum verb { GET, GIVE, GIVE_GET, GIVE_GIVE, GET_GIVE, FLUSH, REUSE, MISUSE };

/* What an actor does: GET bytes; GIVE back held[which] (GIVE_GIVE: and held[which + 1]); GET and GIVE it back at once; FLUSH
 * all stripes and reserves; look once for a slice of class `bytes` in segment 0 to be used again
 * (REUSE); or free a slice
 * that nobody has: number `which` of segment 0, class `bytes`. */
struct action {
    enum verb verb;
    uint32_t bytes;
    int which;
    uint32_t home; /* stripe */
};
struct scenario {
    const char *name;
    uint32_t segments;
    struct {
        uint32_t bytes, n, home;
    } fill[2];           /* before; n ~0: until NULL */
    int free_from, free_to; /* then so many of these are freed again */
    struct action action[2];
    int null_is_fine;
};

#define K(n) ((n) * 1024u)
#define NONE {{0, 0, 0}, {0, 0, 0}}
#define ALL ~0u
/* 16: 32 blocks of 128 slices (2 words) to a segment; 128: 8 blocks of 64; 512: 2 of 64; 1 K: 1 of 64; 16 K: 1 of 4; 32 K: 1 of
 * 2; 128 K: a run of two segments. */
static const struct scenario scenario[] = {
    {"two first requests of a class", 3, NONE, 0, 0, {{GET, 64, 0, 0}, {GET, 64, 0, 0}}, 0},
    {"two first requests, two stripes", 3, NONE, 0, 0, {{GET, K(16), 0, 0}, {GET, K(16), 0, 1}}, 0},
    {"two classes take their first segment", 3, NONE, 0, 0, {{GET, 64, 0, 0}, {GET, K(32), 0, 0}}, 0},
    {"one segment for two stripes", 1, NONE, 0, 0, {{GET, K(16), 0, 0}, {GET, K(16), 0, 1}}, 1},
    {"one segment for two stripes, blocks enough", 1, NONE, 0, 0, {{GET, 16, 0, 0}, {GET, 16, 0, 1}}, 1},
    {"the last ticket and one more", 3, {{K(32), 1, 0}, {0, 0, 0}}, 0, 0, {{GET, K(32), 0, 0}, {GET, K(32), 0, 0}}, 0},
    {"the last two tickets of the heap", 1, {{K(16), 2, 0}, {0, 0, 0}}, 0, 0, {{GET, K(16), 0, 0}, {GET, K(16), 0, 1}}, 0},
    {"the last ticket of the heap", 1, {{K(16), 3, 0}, {0, 0, 0}}, 0, 0, {{GET, K(16), 0, 0}, {GET, K(16), 0, 0}}, 1},
    {"an exhausted class and a free of its block", 1, {{K(32), ALL, 0}, {0, 0, 0}}, 0, 0, {{GET, K(32), 0, 0}, {GIVE, 0, 0, 0}}, 1},
    {"two frees complete a block", 2, {{K(32), 2, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GIVE, 0, 1, 0}}, 0},
    {"two frees complete a block of two words", 2, {{16, 128, 0}, {0, 0, 0}}, 1, 127, {{GIVE, 0, 0, 0}, {GIVE, 0, 127, 0}}, 0},
    {"two frees complete a word", 2, {{16, 128, 0}, {0, 0, 0}}, 2, 128, {{GIVE, 0, 0, 0}, {GIVE, 0, 1, 0}}, 0},
    {"two first frees of a block", 2, {{16, 128, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GIVE, 0, 127, 0}}, 0},
    {"the last ticket and the free of the others", 2, {{K(32), 1, 0}, {0, 0, 0}}, 0, 0, {{GET, K(32), 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"the last ticket of two words, and a free", 2, {{16, 127, 0}, {0, 0, 0}}, 1, 127, {{GET, 16, 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"two frees, and the segment is nobody's", 2, {{512, 128, 0}, {0, 0, 0}}, 1, 127, {{GIVE, 0, 0, 0}, {GIVE, 0, 127, 0}}, 0},
    {"a block comes back while its class refills", 2, {{512, 127, 0}, {0, 0, 0}}, 1, 64, {{GET, 512, 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"a block comes back while another stripe refills", 1, {{128, 512, 0}, {0, 0, 0}}, 1, 64, {{GET, 128, 0, 1}, {GIVE, 0, 0, 0}}, 1},
    {"a block is whole again and opened at once", 1, {{K(1), 64, 0}, {0, 0, 0}}, 1, 64, {{GET, K(1), 0, 0}, {GIVE_GET, K(1), 0, 1}}, 1},
    {"a segment comes back, another class wants one", 1, {{K(32), 2, 0}, {0, 0, 0}}, 0, 1, {{GIVE, 0, 1, 0}, {GET, 4096, 0, 0}}, 1},
    {"a refill and a flush", 2, {{16, 128, 0}, {0, 0, 0}}, 0, 0, {{GET, 16, 0, 0}, {FLUSH, 0, 0, 0}}, 0},
    {"a refill and a flush, no other memory", 1, {{K(16), 2, 0}, {0, 0, 0}}, 0, 0, {{GET, K(16), 0, 1}, {FLUSH, 0, 0, 0}}, 1},
    {"a draw and a flush", 2, {{16, 100, 0}, {0, 0, 0}}, 0, 0, {{GET, 16, 0, 0}, {FLUSH, 0, 0, 0}}, 0},
    {"the last draw and a flush", 2, {{K(16), 3, 0}, {0, 0, 0}}, 0, 0, {{GET, K(16), 0, 0}, {FLUSH, 0, 0, 0}}, 0},
    {"a first request and a flush", 1, NONE, 0, 0, {{GET, K(16), 0, 0}, {FLUSH, 0, 0, 0}}, 1},
    {"two flushes", 2, {{16, 100, 0}, {16, 3, 1}}, 0, 0, {{FLUSH, 0, 0, 0}, {FLUSH, 0, 0, 0}}, 0},
    {"a flush completes a block with a free", 1, {{K(16), 2, 0}, {0, 0, 0}}, 0, 1, {{FLUSH, 0, 0, 0}, {GIVE, 0, 1, 0}}, 0},
    {"two want a segment of idle lots", 1, {{K(16), 1, 0}, {0, 0, 0}}, 0, 1, {{GET, 64, 0, 0}, {GET, 64, 0, 1}}, 1},
    {"one flushes the other's lots while it makes one ready", 1, {{K(16), 3, 0}, {0, 0, 0}}, 0, 0, {{GET, K(16), 0, 1}, {GET, K(16), 0, 0}}, 1},
    {"one flushes the other's lot while it draws", 1, {{K(1), 60, 0}, {0, 0, 0}}, 0, 0, {{GET, K(1), 0, 1}, {GET, K(1), 0, 0}}, 0},
    {"a search of all stripes while another flushes them", 1, {{K(1), 60, 0}, {0, 0, 0}}, 0, 0, {{GET, K(1), 0, 1}, {FLUSH, 0, 0, 0}}, 1},
    {"a slice is used again while the block's last one is freed", 1, {{K(1), 64, 0}, {0, 0, 0}}, 1, 64, {{GET, K(1), 0, 0}, {GIVE, 0, 0, 0}}, 1},
    {"the same, in two words", 1, {{16, ALL, 0}, {0, 0, 0}}, 1, 128, {{GET, 16, 0, 0}, {GIVE, 0, 0, 0}}, 1},
    {"the only slice that came back, for two", 1, {{K(1), 64, 0}, {0, 0, 0}}, 7, 8, {{GET, K(1), 0, 0}, {GET, K(1), 0, 0}}, 1},
    {"two slices that came back, for two", 1, {{K(1), 64, 0}, {0, 0, 0}}, 7, 9, {{GET, K(1), 0, 0}, {GET, K(1), 0, 1}}, 1},
    {"slices that came back, of a full word", 1, {{16, ALL, 0}, {0, 0, 0}}, 64, 128, {{GET, 16, 0, 0}, {GET, 16, 0, 1}}, 0},
    {"a slice comes back and is used again", 1, {{K(1), 64, 0}, {0, 0, 0}}, 0, 0, {{GET, K(1), 0, 0}, {GIVE, 0, 5, 0}}, 1},
    {"a slice comes back and is used again, twice", 1, {{K(1), 64, 0}, {0, 0, 0}}, 3, 4, {{GET, K(1), 0, 0}, {GIVE_GET, K(1), 5, 1}}, 1},
    {"the last two that came back go, another comes", 1, {{16, ALL, 0}, {0, 0, 0}}, 2, 3, {{GET, 16, 0, 0}, {GIVE, 0, 90, 0}}, 0},
    {"slices come back behind one who has just seen none", 2, {{512, 128, 0}, {512, 20, 1}}, 0, 0, {{GET, 512, 0, 0}, {GIVE_GIVE, 0, 70, 0}}, 0},
    {"a late reuser, the block in another class's segment", 1, {{K(32), 2, 0}, {0, 0, 0}}, 0, 1, {{GET, K(32), 0, 0}, {GIVE_GET, K(16), 1, 0}}, 1},
    {"frees before the last ticket is drawn", 2, {{K(1), 63, 0}, {0, 0, 0}}, 0, 0, {{GET, K(1), 0, 0}, {GIVE_GIVE, 0, 10, 0}}, 0},
    {"all came back before the last ticket is drawn", 2, {{K(1), 63, 0}, {0, 0, 0}}, 0, 62, {{GET, K(1), 0, 0}, {GIVE, 0, 62, 0}}, 0},
    {"a reuser and the free of the last slice", 1, {{K(1), 64, 0}, {0, 0, 0}}, 1, 64, {{REUSE, K(1), 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"two reusers of all but one slice", 1, {{K(1), 64, 0}, {0, 0, 0}}, 1, 64, {{REUSE, K(1), 0, 0}, {REUSE, K(1), 0, 0}}, 0},
    {"two reusers of one slice", 1, {{K(1), 64, 0}, {0, 0, 0}}, 5, 6, {{REUSE, K(1), 0, 0}, {REUSE, K(1), 0, 0}}, 0},
    {"a reuser and a first free", 1, {{K(1), 64, 0}, {0, 0, 0}}, 5, 6, {{REUSE, K(1), 0, 0}, {GIVE, 0, 9, 0}}, 0},
    {"a reuser and two frees that make it whole", 1, {{16, ALL, 0}, {0, 0, 0}}, 2, 128, {{REUSE, 16, 0, 0}, {GIVE_GIVE, 0, 0, 0}}, 0},
    {"a reuser and a flush", 1, {{K(1), 60, 0}, {0, 0, 0}}, 0, 60, {{REUSE, K(1), 0, 0}, {FLUSH, 0, 0, 0}}, 0},
    {"a slice never handed out, while it is refilled", 2, {{16, 128, 0}, {0, 0, 0}}, 0, 0, {{MISUSE, 16, 130, 0}, {GET, 16, 0, 0}}, 0},
    {"a slice never handed out, and a flush", 2, {{16, 100, 0}, {0, 0, 0}}, 0, 0, {{MISUSE, 16, 4000, 0}, {FLUSH, 0, 0, 0}}, 0},
    {"a slice of a whole block, while it is opened", 1, {{128, 512, 0}, {0, 0, 0}}, 0, 64, {{MISUSE, 128, 5, 0}, {GET, 128, 0, 1}}, 0},
    {"a slice of a free segment, while it is taken", 1, NONE, 0, 0, {{MISUSE, 16, 7, 0}, {GET, 16, 0, 0}}, 0},
    {"a free of a slice while the next lot is made ready", 2, {{16, 128, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 127, 0}, {GET, 16, 0, 0}}, 0},
    {"a free of a slice of the lot", 2, {{16, 130, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 129, 0}, {GET, 16, 0, 0}}, 0},
    {"a free of a slice of a lot that is flushed", 1, {{K(16), 2, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 1, 0}, {GET, 64, 0, 0}}, 1},
    {"two frees of one slice", 2, {{K(1), 64, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 3, 0}, {GIVE, 0, 3, 0}}, 0},
    {"two runs, room for both", 4, NONE, 0, 0, {{GET, K(128), 0, 0}, {GET, K(128), 0, 0}}, 0},
    {"two runs, room for one", 3, NONE, 0, 0, {{GET, K(128), 0, 0}, {GET, K(128), 0, 0}}, 1},
    {"runs across words", 130, NONE, 0, 0, {{GET, K(64) * 66, 0, 0}, {GET, K(64) * 64, 0, 0}}, 1},
    {"a run and a small request", 3, NONE, 0, 0, {{GET, K(128), 0, 0}, {GET, 16, 0, 0}}, 0},
    {"a run wants what a small request takes", 2, NONE, 0, 0, {{GET, K(128), 0, 0}, {GET, 16, 0, 0}}, 1},
    {"a run wants an idle lot", 1, {{K(16), 1, 0}, {0, 0, 0}}, 0, 1, {{GET, K(64), 0, 0}, {GET, 64, 0, 0}}, 1},
    {"a run comes back, another wants it", 2, {{K(128), 1, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GET, K(128), 0, 0}}, 1},
    {"a run comes back, a slice wants it", 2, {{K(128), 1, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GET, 16, 0, 0}}, 1},
    {"two frees of one run", 2, {{K(128), 1, 0}, {0, 0, 0}}, 0, 0, {{GIVE, 0, 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"a segment is retired while its class wants a block", 2, {{128, 1024 - 1, 0}, {0, 0, 0}}, 0, 511, {{GIVE, 0, 511, 0}, {GET, 128, 0, 1}}, 1},
    {"two stripes want a block of the same segment", 1, {{512, 1, 0}, {0, 0, 0}}, 0, 0, {{GET, 512, 0, 1}, {GET, 512, 0, 1}}, 0},
    {"a refill fails while memory comes back and is taken", 1, {{K(16), 4, 0}, {0, 0, 0}}, 0, 3, {{GET, K(16), 0, 0}, {GIVE_GET, K(16), 3, 0}}, 1},
    {"a flush, a free, another class wants the segment", 1, {{K(16), 1, 0}, {0, 0, 0}}, 0, 0, {{GET, 64, 0, 0}, {GIVE, 0, 0, 0}}, 1},
    {"the same, and another class takes it", 1, {{K(32), 2, 0}, {0, 0, 0}}, 0, 0, {{GIVE_GET, K(32), 0, 0}, {GIVE_GET, 4096, 1, 0}}, 1},
    {"a reuser of a block not all handed out, which then is, and is freed", 1, {{K(1), 63, 0}, {0, 0, 0}}, 0, 63, {{REUSE, K(1), 0, 1}, {GET_GIVE, K(1), 0, 0}}, 1},
    {"the last ticket of a lot and the first of the next", 3, {{16, 127, 0}, {0, 0, 0}}, 0, 0, {{GET, 16, 0, 0}, {GET, 16, 0, 0}}, 0},
    {"two whole blocks put into circulation", 1, {{128, 512, 0}, {0, 0, 0}}, 64, 192, {{GET, 128, 0, 0}, {GET, 128, 0, 1}}, 0},
    {"a block put into circulation, for two", 1, {{128, 512, 0}, {0, 0, 0}}, 64, 128, {{GET, 128, 0, 0}, {GET, 128, 0, 1}}, 0},
    {"a block put into circulation and a reuser", 1, {{128, 512, 0}, {0, 0, 0}}, 0, 64, {{GET, 128, 0, 0}, {REUSE, 128, 0, 1}}, 0},
    {"a block put into circulation, and its segment comes back", 1, {{512, 128, 0}, {0, 0, 0}}, 1, 128, {{GET, 512, 0, 0}, {GIVE, 0, 0, 0}}, 0},
    {"a block put into circulation and a flush", 1, {{128, 512, 0}, {0, 0, 0}}, 0, 64, {{GET, 128, 0, 0}, {FLUSH, 0, 0, 0}}, 0},
    {"a reserve flushed, while a stripe draws from it", 2, {{512, 64, 0}, {0, 0, 0}}, 0, 0, {{GET, 512, 0, 0}, {FLUSH, 0, 0, 0}}, 0},
    {"the last block of the reserve, for two", 2, {{512, 64, 0}, {0, 0, 0}}, 0, 0, {{GET, 512, 0, 0}, {GET, 512, 0, 1}}, 0},
    {"a flush of lots that are not begun", 3, {{16, 1, 0}, {0, 0, 0}}, 0, 0, {{GET, K(1), 0, 0}, {FLUSH, 0, 0, 0}}, 0},
    {"a reuser of another class's block, which is freed", 1, {{K(1), 64, 0}, {0, 0, 0}}, 1, 64, {{REUSE, K(2), 0, 1}, {GIVE, 0, 0, 0}}, 1},
};
#define SCENARIOS ((int)(sizeof scenario / sizeof *scenario))

static struct mm_cpu_heap heap;
static int ahead; /* whether lots are made ready ahead of need */
static struct {
    void *p;
    uint64_t bytes;
    int gone;
} held[MOST_HELD];
static int holds;

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
    if (me->what.verb == FLUSH) mm_stripe_flush(&heap.ref);
    for (int i = 0; i < 2; i++)
        if (me->give[i] != NULL) mm_heap_free(&heap.ref, me->give[i]);
    if (me->what.verb <= GIVE_GET && me->what.verb != GIVE) me->got = mm_heap_malloc(&heap.ref, me->what.bytes);
    if (me->what.verb == REUSE) {
        const uint32_t c = mm_class_of(me->what.bytes);
        const mm_claim claim = mm_block_reuse(&heap.ref, 0, c, 1, 0);
        if (claim != 0) me->got = (void *)(heap.ref.user_base + mm_claim_slice(claim, 0) * mm_class_bytes(c));
    }
    if (me->what.verb == GET_GIVE) mm_heap_free(&heap.ref, mm_heap_malloc(&heap.ref, me->what.bytes));
}

/* A new heap in the same memory; slice bits need no clearing, so they are left dirty. */
static void start_over(const struct scenario *sc) {
    const uint64_t user_base = heap.ref.user_base;
    memset(heap.metadata, 0, heap.layout.bits_offset);
    mm_heap_image(heap.metadata, &heap.layout, (uint64_t)(uintptr_t)heap.metadata, user_base, sc->segments);
    holds = 0;
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
    for (int i = 1; i < n; i++)
        unit_holds(sorted[i - 1].p + sorted[i - 1].bytes <= sorted[i].p, "%s: handed out twice at %ld %ld %ld", sc->name, a, b, c);
    char why[200];
    uint64_t found = 0;
    const char *bad = mm_cpu_heap_check_quiescent(&heap, why, sizeof why, &found);
    unit_holds(bad == NULL, "%s: at %ld %ld %ld: %s", sc->name, a, b, c, bad ? bad : "");
    unit_holds(found == live, "%s: at %ld %ld %ld: %llu bytes live, not %llu", sc->name, a, b, c,
               (unsigned long long)found, (unsigned long long)live);
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
    if (_i / SCENARIOS % 2) /* the other way round */
        turned.action[0] = sc->action[1], turned.action[1] = sc->action[0];
    unit_create(&heap, sc->segments);
    ahead = _i / SCENARIOS / 2;
    for (uint32_t c = 0; c < MM_CLASS_COUNT; c++) {
        struct mm_class *k = &heap.ref.classes[c];
        unit_eq(k->stripe_mask + 1u, MM_STRIPES);
        if (ahead) continue;
        k->row_lot_shift = (uint8_t)(k->row_lot_shift - k->row_shift), k->row_shift = 0;
        k->ahead = k->reserve_ahead = 0;
    }
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
