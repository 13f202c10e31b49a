/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Double frees in a checked run, step by step: two callers free one allocation, one of them stops at each of its steps while the
 * other goes on, or while the memory passes to other owners. A free that lost is a double free, or a free of unallocated memory;
 * never a write past the end, since there is none. */
#include "tests/unit/steps.h"

#include <pthread.h>
#include <unistd.h>

#include "runtime/checked/guarded.h"
#include "tests/unit/support.h"

#define SEGMENTS 4
#define GRID 7         /* of all allocations and frees here */
#define MOST_STEPS 200 /* of one free */

static struct mm_cpu_heap heap;
static struct mm_heap_ref ref;
static struct mm_mailbox box; /* for the actors only: no host answers a request for memory there */
static char *twice;           /* the allocation that both free */

static void set_up(void) {
    ck_assert_int_eq(mm_cpu_heap_create(&heap, SEGMENTS, SEGMENTS, MM_SEGMENT_BYTES), 0);
    mm_heap_image_guard(mm_heap_of(&heap.ref));
    heap.ref = mm_heap_of(&heap.ref)->ref;
    ref = heap.ref;
    ref.guard = (uint64_t)(uintptr_t)calloc(1, mm_guard_bytes(SEGMENTS));
    ref.open_bytes = 0;
    mm_cpu_grid = GRID;
}
static void tear_down(void) {
    free((void *)(uintptr_t)ref.guard);
    mm_cpu_heap_destroy(&heap);
}

static uint64_t counted(enum mm_misuse kind) { return mm_cpu_misuse_count(&heap, kind); }
static char *get(uint64_t bytes) { return (char *)mm_guard_malloc(&ref, bytes); }
static void give(void *p) { mm_guard_free(&ref, p); }
static void free_it(void *unused) {
    struct mm_heap_ref telling = ref;
    (void)unused;
    telling.mailbox = (uint64_t)(uintptr_t)&box;
    mm_guard_free(&telling, twice);
}

/* A small one, kept in quarantine; a large slice; the largest; a span; a run. */
static const uint64_t sizes[] = {100, 20000, MM_SLICE_BYTES_MAX - MM_GUARD_MORE, 300000, 2 * MM_SEGMENT_BYTES - MM_GUARD_MORE};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

/* Two frees at once, in all orders with three switches. `beside`: whether another allocation keeps the block. */
static int one_of_two(uint64_t bytes, int beside, long a, long b, long c) {
    void *args[2] = {NULL, NULL};
    const uint64_t all = unit_misuses(&heap), double_frees = counted(MM_MISUSE_DOUBLE_FREE), of_free = counted(MM_MISUSE_NOT_ALLOCATED);
    char *other = beside ? get(bytes) : NULL;
    twice = get(bytes);
    ck_assert(twice && (other || !beside));
    const int ended = unit_interleave(free_it, args, a, b, c);
    give(other);
    while (mm_guard_empty(&ref)) continue;
    const uint64_t found = unit_misuses(&heap) - all, right = counted(MM_MISUSE_DOUBLE_FREE) - double_frees + counted(MM_MISUSE_NOT_ALLOCATED) - of_free;
    unit_holds(found == 1 && right == 1, "%llu B, schedule %ld %ld %ld: %llu misuses, %llu of them double frees, %llu writes past the end",
               (unsigned long long)bytes, a, b, c, (unsigned long long)found, (unsigned long long)right, (unsigned long long)counted(MM_MISUSE_OVERRUN));
    return ended;
}
START_TEST(two_frees) {
    const uint64_t bytes = sizes[_i / 2];
    int ended = 0;
    set_up();
    for (long a = 0; a < MOST_STEPS && !(ended & 1); a++) {
        ended = 0;
        for (long b = 1; b < MOST_STEPS && !(ended & 3); b++) {
            ended = 0;
            for (long c = 1; c < MOST_STEPS && !(ended & 4); c++) ended = one_of_two(bytes, _i % 2, a, b, c);
            mm_cpu_heap_drain_quiescent(&heap);
            unit_sound(&heap, 0);
        }
    }
    ck_assert_msg(ended & 1, "more steps than were tried");
    tear_down();
}
END_TEST

/* One caller stops; the other frees the allocation, and all memory goes to allocations of another size; then, with `via`, to some of the first size
 * again. These are unharmed, unless one begins where the freed one did: such a free cannot be told from a good one, but there is no
 * write past the end either. */
static const uint64_t others[] = {400, 1000, 30000, 200000, MM_SEGMENT_BYTES};
#define OTHERS ((int)(sizeof others / sizeof *others))
static char *held[SEGMENTS * MM_SEGMENT_BYTES / 100];
/* Takes all memory, into `held`. Returns how many; *is_again: whether one begins at `twice`. */
static int take_all(uint64_t n, int *is_again) {
    int count = 0;
    while ((held[count] = get(n)) != NULL) *is_again |= held[count++] == twice;
    return count;
}
static void late_free_at(uint64_t bytes, uint64_t via, uint64_t n, long steps, int *is_done) {
    const struct mm_report *r = &box.reports[0];
    int is_again = 0;
    memset(&box, 0, sizeof box);
    set_up();
    char *first = get(bytes);
    twice = get(bytes);
    unit_actor_make(0, free_it, NULL);
    unit_go(0, steps);
    *is_done = unit_actor[0].done;
    give(twice), give(first);
    int count = take_all(via ? via : n, &is_again);
    if (via) {
        while (count > 0) give(held[--count]);
        count = take_all(n, &is_again);
    }
    unit_go(0, 10 * MOST_STEPS);
    ck_assert(unit_actor[0].done);
    unit_holds(counted(MM_MISUSE_OVERRUN) == 0, "%llu B, then %llu B, step %ld: a write past the end", (unsigned long long)bytes, (unsigned long long)n, steps);
    if (r->kind == MM_MISUSE_DOUBLE_FREE)
        unit_holds((r->made_by == GRID + 1 && r->freed_by == GRID + 1 && r->bytes == bytes) || (r->made_by == 0 && r->freed_by == 0),
                   "%llu B, then %llu B, step %ld: %llu B by %llu, freed by %llu", (unsigned long long)bytes, (unsigned long long)n, steps,
                   (unsigned long long)r->bytes, (unsigned long long)r->made_by, (unsigned long long)r->freed_by);
    if (!is_again) {
        unit_holds(unit_misuses(&heap) == 1, "%llu B, then %llu B, step %ld: %llu misuses", (unsigned long long)bytes, (unsigned long long)n, steps,
                   (unsigned long long)unit_misuses(&heap));
        for (int i = 0; i < count; i++)
            unit_holds(mm_guard_usable_size(&ref, held[i]) == n, "%llu B, then %llu B, step %ld: object %d", (unsigned long long)bytes, (unsigned long long)n,
                       steps, i);
        while (count > 0) give(held[--count]);
        while (mm_guard_empty(&ref)) continue;
        unit_eq(unit_misuses(&heap), 1);
        unit_sound(&heap, 0);
    }
    tear_down();
}
START_TEST(late_free) {
    const uint64_t first = sizes[_i / OTHERS], other = others[_i % OTHERS];
    int is_done = 0;
    for (long steps = 1; !is_done; steps++) {
        ck_assert_int_lt(steps, MOST_STEPS);
        late_free_at(first, 0, other, steps, &is_done);
        late_free_at(first, other, first, steps, &is_done);
    }
}
END_TEST

/* Threads, not actors: two free the same allocation at once. Sometimes one of them stops before an access, until the other has
 * freed it or some time has passed: each round is a race even on a busy machine. Waits block, so they use no processor time. */
#define BOTH_ROUNDS 300
#define STOP_SHIFT 28 /* before one access of 16 */
#define STOP_LOOKS 20
#define STOP_LOOK_US 20
static pthread_barrier_t meeting;
static uint64_t freed[2];      /* rounds of each */
static __thread int self = -1; /* -1: does not stop */
static __thread uint32_t dice;
static void stop_sometimes(void) {
    const int me = self;
    if (me < 0) return;
    dice = dice * 1664525u + 1013904223u;
    if (dice >> STOP_SHIFT != 0) return;
    self = -1;
    for (int i = 0; i < STOP_LOOKS && mm_load_relaxed_u64(&freed[1 - me]) <= freed[me]; i++) usleep(STOP_LOOK_US);
    self = me;
}
struct both {
    int me;
    uint64_t bytes;
};
static void *free_both(void *both_at) {
    const struct both b = *(const struct both *)both_at;
    dice = (uint32_t)(b.bytes + (uint64_t)b.me);
    for (int i = 0; i < BOTH_ROUNDS; i++) {
        if (b.me == 0) twice = get(b.bytes);
        pthread_barrier_wait(&meeting);
        self = b.me;
        give(twice);
        self = -1;
        mm_add_relaxed_u64(&freed[b.me], 1);
        pthread_barrier_wait(&meeting);
    }
    return NULL;
}
START_TEST(two_at_once) {
    pthread_t thread[2];
    struct both both[2];
    set_up();
    ck_assert_int_eq(pthread_barrier_init(&meeting, NULL, 2), 0);
    freed[0] = freed[1] = 0;
    unit_each_step = stop_sometimes;
    for (int i = 0; i < 2; i++) both[i] = (struct both){i, sizes[_i]}, pthread_create(&thread[i], NULL, free_both, &both[i]);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    unit_each_step = NULL;
    if (_i == 0) unit_eq(counted(MM_MISUSE_DOUBLE_FREE), BOTH_ROUNDS); /* not only when it leaves quarantine */
    while (mm_guard_empty(&ref)) continue;
    unit_eq(counted(MM_MISUSE_DOUBLE_FREE) + counted(MM_MISUSE_NOT_ALLOCATED), BOTH_ROUNDS);
    unit_eq(unit_misuses(&heap), BOTH_ROUNDS);
    unit_sound(&heap, 0);
    pthread_barrier_destroy(&meeting);
    tear_down();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("twice");
    TCase *tests = tcase_create("twice");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, two_frees, 0, 2 * SIZES);
    tcase_add_loop_test(tests, late_free, 0, SIZES * OTHERS);
    suite_add_tcase(suite, tests);
    TCase *races = tcase_create("races");
    tcase_set_timeout(races, 120);
    tcase_add_loop_test(races, two_at_once, 0, SIZES);
    suite_add_tcase(suite, races);
    return suite_run(suite);
}
