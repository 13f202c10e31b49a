/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A crowd: hundreds of warps that change places at every few atomic accesses, as on a GPU and as no number of CPU threads
 * does it. What they do to the heap as a whole: how much of it a constant live set takes, and whether one that almost fills
 * it gets what there is.
 */
#define UNIT_ACTORS 512
#define UNIT_STACK_BYTES (32u << 10)
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define LANES 32
#define MULTIPROCESSORS 132

static struct mm_cpu_heap heap;
static uint32_t class_, entries, times;
static int filling;
static void **table; /* what is live */
static uint64_t seed = 1, nulls;

/* A warp: its lanes get a slice each, as one group, and free what was in the entries of the table that they put it in. */
static void warp(void *arg) {
    const uint32_t id = (uint32_t)(uintptr_t)arg, slices = mm_class_slices(class_);
    for (uint32_t r = 0; r < times; r++) {
        const uint32_t k = mm_home() & heap.ref.classes[class_].stripe_mask;
        uint32_t slice[LANES];
        const uint32_t got = unit_take(&heap.ref, class_, LANES, k, slice);
        nulls += LANES - got;
        for (uint32_t i = 0; i < got; i++) {
            const uint32_t entry = filling ? ((r * UNIT_ACTORS + id) * LANES + i) % entries : (uint32_t)(unit_random(&seed) % entries);
            void *old = table[entry];
            table[entry] = (void *)(heap.ref.user_base + slice[i] / slices * MM_SEGMENT_BYTES + (uint64_t)(slice[i] % slices) * mm_class_bytes(class_));
            if (old != NULL) mm_heap_free(&heap.ref, old);
        }
    }
}

/* The first n actors, in turns of up to 10 steps. Returns how many turns. */
static uint64_t let_go(int n) {
    int active[UNIT_ACTORS];
    uint64_t turns = 0;
    for (int i = 0; i < n; i++) active[i] = i;
    for (; n > 0; turns++) {
        const int at = (int)(unit_random(&seed) % (unsigned)n);
        unit_go(active[at], (long)(unit_random(&seed) % 10));
        if (unit_actor[active[at]].done) active[at] = active[--n];
    }
    return turns;
}

/* All warps. */
static void crowd(uint32_t each, int fill) {
    times = each, filling = fill;
    for (int i = 0; i < UNIT_ACTORS; i++) {
        unit_actor_home[i] = (uint32_t)i % MULTIPROCESSORS;
        unit_actor_make(i, warp, (void *)(uintptr_t)i);
    }
    let_go(UNIT_ACTORS);
}

static uint32_t used(void) { return (uint32_t)(heap.layout.segment_count - mm_cpu_heap_free_segments(&heap)); }

static void set_up(uint32_t bytes, uint32_t live_segments, uint32_t segments) {
    class_ = mm_class_of(bytes);
    entries = (uint32_t)(live_segments * MM_SEGMENT_BYTES / mm_class_bytes(class_)) / (UNIT_ACTORS * LANES) * (UNIT_ACTORS * LANES);
    unit_create(&heap, segments);
    table = (void **)calloc(entries, sizeof *table);
    crowd(entries / (UNIT_ACTORS * LANES), 1);
    unit_eq(nulls, 0);
    unit_sound(&heap, (uint64_t)entries * mm_class_bytes(class_));
}
static void tear_down(void) {
    unit_sound(&heap, (uint64_t)entries * mm_class_bytes(class_));
    unit_eq(nulls, 0);
    unit_eq(unit_misuses(&heap), 0);
    for (uint32_t i = 0; i < entries; i++) mm_heap_free(&heap.ref, table[i]);
    unit_fresh(&heap, heap.layout.segment_count);
    mm_cpu_heap_destroy(&heap);
    free(table);
}

/* Everything is replaced, again and again, in a heap with plenty of room. */
START_TEST(constant_live_set) {
    static const uint32_t sizes[] = {64, 1000}, live[] = {16, 24};
    set_up(sizes[_i], live[_i], 1024);
    const uint32_t most = 2 * used();
    for (int round = 0; round < 2; round++) {
        crowd(2 * entries / (UNIT_ACTORS * LANES), 0);
        unit_holds(used() <= most, "round %d: %u segments for %u live ones", round, used(), live[_i]);
    }
    tear_down();
}
END_TEST

/* The same where nine tenths of the heap are live, with what the warps hold for a moment besides. */
START_TEST(almost_full) {
    static const uint32_t sizes[] = {256, 1000, 4000};
    const uint64_t held = UNIT_ACTORS * LANES * (uint64_t)sizes[_i] / MM_SEGMENT_BYTES + 1;
    set_up(sizes[_i], 16, (uint32_t)((16 + held) * 10 / 9 + 1));
    crowd(2 * entries / (UNIT_ACTORS * LANES), 0);
    tear_down();
}
END_TEST

/* A full heap, in which things go on all the time, so that nobody can know from others that there is nothing: each of many who get NULL
 * takes as long as one alone, but for the turns. */
#define CLASSES 8
static int waiting;
static void in_vain(void *arg) {
    const uint32_t c = mm_class_of(64) + (uint32_t)(uintptr_t)arg % CLASSES;
    uint32_t slice;
    const uint32_t got = unit_take(&heap.ref, c, 1, mm_home() & heap.ref.classes[c].stripe_mask, &slice);
    nulls += 1 - got;
    waiting--;
}
static void busy(void *arg) {
    while (waiting > 0) mm_version_raise((struct mm_heap *)arg);
}
static uint64_t turns_in_vain(int n) {
    for (int i = 0; i < n; i++) unit_actor_home[i] = (uint32_t)i % MULTIPROCESSORS, unit_actor_make(i, in_vain, (void *)(uintptr_t)i);
    unit_actor_make(n, busy, mm_heap_of(&heap.ref));
    waiting = n;
    return let_go(n + 1);
}
START_TEST(full) {
    unit_create(&heap, CLASSES);
    for (uint32_t i = 0; i < 2 * CLASSES; i++) { /* a segment each, then what is left */
        const uint32_t c = mm_class_of(64) + i % CLASSES;
        for (uint32_t n = i < CLASSES ? mm_class_slices(c) : ~0u; n > 0 && mm_heap_malloc(&heap.ref, mm_class_bytes(c)) != NULL; n--) continue;
    }
    const int many = UNIT_ACTORS - 1;
    const uint64_t alone = turns_in_vain(1), most = 3 * many * alone, turns = turns_in_vain(many);
    unit_eq(nulls, 1 + many);
    unit_holds(turns <= most, "%d take %llu turns, one takes %llu", many, (unsigned long long)turns, (unsigned long long)alone);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("crowd");
    TCase *tests = tcase_create("crowds");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, constant_live_set, 0, 2);
    tcase_add_loop_test(tests, almost_full, 0, 3);
    tcase_add_test(tests, full);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
