/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A few callers in random orders of their steps, on a tiny heap (small.h), with an oracle that does not use the
 * heap's metadata: which 16 bytes of the heap are held. The first caller is slow: it takes a few steps at a time; in between the others make
 * whole calls, so that pages change owners under it, and entries that it has read get old. A schedule depends on its number only.
 */
#define UNIT_ACTORS 3
#define UNIT_STACK_BYTES (256u << 10)
#define UNIT_WAIT_STEPS 8
#include "tests/unit/steps.h"

#include "tests/unit/support.h"

#define SEGMENTS 2
#define CALLS 60       /* of an actor */
#define BURST_SHIFT 8  /* an actor runs for less than 1 << this many steps; short bursts are as frequent as long ones */
#define SEARCH_SHIFT 2 /* for the first actor */
#define BURSTS 1000000 /* of a schedule: more means it never ends */
#define HELD_BYTES 16u /* granularity of the oracle */
#ifdef UNIT_FEW
#define SCHEDULES 200
#else
#define SCHEDULES 2500 /* of a test */
#endif
#define TESTS 12

/* Classes with blocks of 1 page, 4 (2 words), 8, and a segment; spans of 8 and 17 pages; a run. */
static const uint32_t request[] = {16, 48, 128, 2048, 4096, 8500, 32768};
#define REQUESTS (sizeof request / sizeof *request)

static struct mm_cpu_heap heap;
static const char *bad; /* what was wrong last: an actor has its own stack, which Check cannot leave */
static uint8_t held[SEGMENTS * MM_SEGMENT_BYTES / HELD_BYTES];
static uint64_t held_bytes;
static struct holder {
    void *p;
    uint32_t bytes;
    uint64_t seed;
} holder[UNIT_ACTORS];

/* [p, p + bytes) must not be held, and is from now on; or the reverse. */
static void hold(const void *p, uint32_t bytes, int is_held) {
    const uint64_t first = ((uint64_t)p - heap.ref.user_base) / HELD_BYTES;
    for (uint64_t i = first; i < first + bytes / HELD_BYTES && i < sizeof held; i++) {
        if (held[i] == is_held) bad = is_held ? "memory was handed out twice" : "memory was given back twice";
        held[i] = (uint8_t)is_held;
    }
    held_bytes += is_held ? bytes : 0 - (uint64_t)bytes;
}
static void give(struct holder *me) {
    if (me->p == NULL) return;
    hold(me->p, me->bytes, 0);
    mm_heap_free(&heap.ref, me->p);
    me->p = NULL;
}
static void get(struct holder *me) {
    const struct mm_heap_ref *ref = &heap.ref;
    const uint64_t r = unit_random(&me->seed);
    const uint32_t bytes = request[r % REQUESTS], c = bytes <= MM_SLICE_BYTES_MAX ? mm_class_of(bytes) : MM_CLASS_COUNT;
    if (r >> 8 & 7) me->p = mm_heap_malloc(ref, bytes);
    else if (r >> 11 & 1) mm_slices_retire_all(ref, 1);
    else mm_slices_retire_some(ref, 1, &(int){0});
    me->bytes = c < MM_CLASS_COUNT ? mm_class_bytes(c) : (uint32_t)unit_taken(bytes);
    if (me->p != NULL) hold(me->p, me->bytes, 1);
}
static void act(void *arg) {
    struct holder *me = (struct holder *)arg;
    for (uint32_t i = 0; i < CALLS; i++) {
        if (me->p != NULL) give(me);
        else get(me);
    }
}

static void run_schedule(uint32_t number) {
    uint64_t seed = number * 0x9e3779b97f4a7c15ull + 1;
    const uint64_t user_base = heap.ref.user_base;
    mm_heap_image_in_place(heap.metadata, &heap.layout, user_base, SEGMENTS);
    memset(held, 0, sizeof held);
    held_bytes = 0, bad = NULL;
    for (int i = 0; i < UNIT_ACTORS; i++) {
        holder[i].p = NULL, unit_seed = number, holder[i].seed = unit_random(&seed) | 1;
        unit_actor_home[i] = (uint32_t)i;
        unit_actor_make(i, act, &holder[i]);
    }
    uint32_t bursts = 0;
    for (uint32_t left = UNIT_ACTORS; left > 0 && !bad; bursts++) {
        unit_holds(bursts < BURSTS, "schedule %u has no end", number);
        const uint64_t r = unit_random(&seed);
        const int i = (int)(r % UNIT_ACTORS);
        if (unit_actor[i].done) continue;
        unit_go(i, (long)((r >> 16) & mm_bits_low((uint32_t)(r >> 8) % ((i == 0 ? SEARCH_SHIFT : BURST_SHIFT) + 1))));
        left -= (uint32_t)unit_actor[i].done;
    }
    unit_holds(bad == NULL, "schedule %u: %s", number, bad);
    char why[200];
    uint64_t found = 0;
    const char *fault = mm_cpu_heap_check_quiescent(&heap, why, sizeof why, &found);
    unit_holds(fault == NULL, "schedule %u: %s", number, fault ? fault : "");
    unit_holds(found == held_bytes, "schedule %u: the heap counts %llu bytes, %llu are held", number, (unsigned long long)found,
               (unsigned long long)held_bytes);
    unit_holds(unit_misuses(&heap) == 0, "schedule %u: a good free was counted as misuse", number);
    for (int i = 0; i < UNIT_ACTORS; i++) give(&holder[i]);
    unit_fresh(&heap, SEGMENTS);
}

START_TEST(schedules) {
    unit_create(&heap, SEGMENTS);
    for (uint32_t i = 0; i < SCHEDULES; i++) run_schedule((uint32_t)_i * SCHEDULES + i);
    mm_cpu_heap_destroy(&heap);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("schedule");
    TCase *tests = tcase_create("random schedules");
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, schedules, 0, TESTS);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
