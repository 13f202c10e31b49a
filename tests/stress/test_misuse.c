/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Misuse of free while others use the same heap properly: the heap stays sound, no other memory is harmed,
 * and each misuse is counted exactly once, with its kind, wherever that does not depend on who came first.
 *
 * A second free can be told from a good one until the memory is handed out again. So the slices freed twice here have
 * size classes of their own (3 * 2^k bytes; the others ask for 2^k), and no thread allocates from those meanwhile. */
#include <stdio.h>
#include <string.h>

#include "runtime/core/class.h"
#include "tests/runner.h"
#include "tests/stress/world.h"

#define STORMERS 3u /* the first threads */
#define VICTIMS 256u
#define UNMAPPED 4u

static struct world w;
static struct mm_cpu_heap other;
static pthread_barrier_t round_begins, round_ends;
static void *victim[VICTIMS], *foreign;
static uint32_t victims;
static uint64_t expected[MM_MISUSE_KINDS]; /* relaxed sums */

static void expect(enum mm_misuse kind, uint64_t times) { __atomic_fetch_add(&expected[kind], times, __ATOMIC_RELAXED); }

static void misuse(struct worker *me, enum mm_misuse kind, uint64_t at) {
    mm_cpu_free(&w.heap, (void *)(uintptr_t)at);
    me->ops++;
    expect(kind, 1);
}

/* Frees of pointers that are invalid whatever the others do. */
static void always_wrong(struct worker *me, const char *mine, uint64_t bytes) {
    const uint64_t r = world_random(me), end = w.base + w.bytes;
    misuse(me, MM_MISUSE_FOREIGN, r % 2 ? w.base - 16 * (1 + (r >> 8) % 4096) : (uint64_t)(uintptr_t)&r);
    misuse(me, MM_MISUSE_FOREIGN, r % 4 ? (r >> 20) % 4096 + 1 : ~15ull);
    misuse(me, MM_MISUSE_FOREIGN, (uint64_t)(uintptr_t)foreign);
    misuse(me, MM_MISUSE_FOREIGN, end + UNMAPPED * MM_SEGMENT_BYTES + 16 * (r % 2));
    misuse(me, MM_MISUSE_NOT_ALLOCATED, end + (r >> 16) % (UNMAPPED * MM_SEGMENT_BYTES));
    misuse(me, MM_MISUSE_INTERIOR, (uint64_t)(uintptr_t)mine + 1 + (r >> 24) % (bytes - 1));
}

/* The stormers work in rounds: the first allocates slices of one class, all of them free all of these, each in another order. Of
 * the frees of one slice one is good. The pins, of the same class, keep its blocks from being retired: the first slice
 * of each. */
static uint64_t block_of(const void *p, uint64_t bytes) {
    return ((uint64_t)(uintptr_t)p - w.base) >> MM_PAGE_SHIFT >> mm_class_page_shift(mm_class_of((uint32_t)bytes));
}
static int is_pinned(void *const *pin, uint32_t pins, const void *p, uint64_t bytes) {
    while (pins > 0 && block_of(pin[pins - 1], bytes) != block_of(p, bytes)) pins--;
    return pins > 0;
}
static void storm(struct worker *me) {
    static uint32_t more;
    void *pin[VICTIMS];
    for (uint32_t round = 0;; round++) {
        const uint64_t bytes = 48ull << round % 10; /* up to 24 KiB: many slices to a block */
        uint32_t pins = 0;
        if (me->index == 0) {
            victims = 0, more = me->ops < me->ops_most;
            for (uint32_t i = 0; more && i < VICTIMS; i++) {
                void *p = world_malloc(me, bytes, 0);
                if (p == NULL) break;
                if (!is_pinned(pin, pins, p, bytes)) pin[pins++] = p;
                else world_let_go(&w, victim[victims++] = p); /* the call of free follows */
            }
        }
        pthread_barrier_wait(&round_begins);
        if (!more) break;
        for (uint32_t i = 0; i < victims; i++) {
            const uint32_t at = me->index == 1 ? victims - 1 - i : i;
            mm_cpu_free(&w.heap, victim[at]);
            me->ops++;
        }
        pthread_barrier_wait(&round_ends);
        if (me->index != 0) continue;
        expect(MM_MISUSE_DOUBLE_FREE, (uint64_t)(STORMERS - 1) * victims);
        for (uint32_t i = 0; i < pins; i++) {
            const uint64_t block_bytes = MM_PAGE_BYTES << mm_class_page_shift(mm_class_of((uint32_t)bytes));
            const uint64_t block = (uint64_t)(uintptr_t)pin[i] / block_bytes * block_bytes; /* the base is a multiple */
            always_wrong(me, (const char *)pin[i], bytes);
            misuse(me, MM_MISUSE_NEVER, block + block_bytes / bytes * bytes); /* the next slice would begin there */
            world_free(me, pin[i]);
        }
        const uint64_t run_bytes = MM_SEGMENT_BYTES * (1 + round % 3);
        char *run = (char *)world_malloc(me, run_bytes, 0);
        if (run != NULL) always_wrong(me, run, run_bytes);
        world_free(me, run);
    }
}

/* Proper use, with an occasional harmless misuse. */
static void proper(struct worker *me) {
    void *mine[16] = {NULL};
    uint64_t bytes[16] = {0};
    while (me->ops < me->ops_most) {
        const uint64_t r = world_random(me);
        const uint32_t at = r % 16;
        world_free(me, mine[at]);
        bytes[at] = 16ull << (r >> 8) % ((r >> 32) % 16 ? 8 : 18);
        if ((r >> 36) % 128 == 0) bytes[at] = MM_SEGMENT_BYTES * (1 + (r >> 48) % 3);
        mine[at] = world_malloc(me, bytes[at], 0);
        if (mine[at] != NULL && (r >> 44) % 16 == 0) always_wrong(me, (const char *)mine[at], bytes[at]);
    }
    for (uint32_t i = 0; i < 16; i++) world_free(me, mine[i]);
}

static void storm_or_proper(struct worker *me) { (me->index < STORMERS ? storm : proper)(me); }

static void counts_match(const char *name) {
    for (int i = 1; i < MM_MISUSE_KINDS; i++) {
        const uint64_t counted = mm_cpu_misuse_count(&w.heap, (enum mm_misuse)i);
        world_holds(counted == expected[i], "%s: of kind %d: %llu counted, not %llu", name, i, (unsigned long long)counted, (unsigned long long)expected[i]);
    }
    printf("%-34s %9llu calls %9llu misuses\n", name, (unsigned long long)w.calls, (unsigned long long)world_misuses(&w));
    fflush(stdout);
}

START_TEST(storm_among_others) {
    world_create(&w, _i ? 40 : 12, UNMAPPED);
    world_holds(mm_cpu_heap_create(&other, 1, 1, MM_SEGMENT_BYTES) == 0, "no second heap");
    foreign = mm_cpu_malloc(&other, 100);
    pthread_barrier_init(&round_begins, NULL, STORMERS);
    pthread_barrier_init(&round_ends, NULL, STORMERS);
    memset(expected, 0, sizeof expected);
    world_run(&w, STORMERS + 5, world_ops(3), storm_or_proper, NULL);
    counts_match("storm among proper users");
    world_must_be_empty(&w);
    mm_cpu_heap_destroy(&other);
    world_destroy(&w);
}
END_TEST

/* All free the same list at once, with no other user: of the frees of one pointer exactly one is good,
 * whatever the others are counted as. */
static void free_all(struct worker *me) {
    for (uint32_t i = 0; i < victims; i++) {
        mm_cpu_free(&w.heap, victim[(i + me->index * (victims / me->threads)) % victims]);
        me->ops++;
    }
}

START_TEST(free_at_once) {
    static const uint64_t bytes[] = {16, 100, 4096, 1 << 16, 1 << 20, 2 << 20, MM_SEGMENT_BYTES, 3 * MM_SEGMENT_BYTES};
    const uint32_t rounds = (uint32_t)(world_ops(3) / 8 / (VICTIMS * 5));
    uint64_t all = 0;
    world_create(&w, 16, 0);
    for (uint32_t round = 0; round < (rounds > 2 ? rounds : 2); round++) {
        struct worker first = {.w = &w, .seed = 1};
        victims = 0;
        while (victims < VICTIMS && (victim[victims] = world_malloc(&first, bytes[_i], 0)) != NULL) victims++;
        for (uint32_t i = 0; i < victims; i++) world_let_go(&w, victim[i]);
        w.nulls += first.nulls, w.served += first.served;
        world_run(&w, 4, 0, free_all, NULL);
        all += 3ull * victims;
        world_holds(world_misuses(&w) == all, "%llu B: %llu misuses counted, not %llu", (unsigned long long)bytes[_i], (unsigned long long)world_misuses(&w),
                    (unsigned long long)all);
        world_must_be_empty(&w);
    }
    world_destroy(&w);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("misuse");
    TCase *one = tcase_create("misuse");
    tcase_set_timeout(one, 300);
    tcase_add_loop_test(one, storm_among_others, 0, 2);
    tcase_add_loop_test(one, free_at_once, 0, 8);
    suite_add_tcase(suite, one);
    return suite_run(suite);
}
