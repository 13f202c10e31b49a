/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Threads that hammer one heap: every payload is keyed to its address and checked before it is freed, most
 * often by another thread. Heaps are small, so that blocks and segments run out, retire and change their class
 * all the time; afterwards the heap must be as it was when new. */
#include <pthread.h>

#include <sys/mman.h>

#include "tests/unit/support.h"

#ifdef UNIT_FEW /* under a sanitizer */
#define ROUNDS(n) ((n) / 16)
#else
#define ROUNDS(n) (n)
#endif
#define THREADS_MOST 32
#define SLOTS_MOST 1024

struct plan {
    const char *name;
    uint32_t threads, segments, slots, rounds;
    uint64_t least, most; /* bytes of a request: log-uniform */
    uint32_t run_in;      /* one in so many requests is a run of up to run_most segments; 0: none */
    uint32_t run_most;
    int null_is_fine;
};

static const struct plan plan[] = {
    /* live bytes, plus a block for each shard, are less than the heap */
    {"few slices of one class, enough memory", 16, 12, 64, 20000, 16, 16, 0, 0, 0},
    {"one large class, enough memory", 8, 24, 32, 20000, 1 << 16, 1 << 16, 0, 0, 0},
    {"spans of one size, enough memory", 8, 24, 32, 20000, 1 << 17, 1 << 17, 0, 0, 0},
    {"segments, enough memory", 8, 44, 32, 20000, 1 << 20, 1 << 20, 0, 0, 0},
    {"small classes", 16, 24, SLOTS_MOST, 30000, 16, 4096, 0, 0, 1},
    {"small classes, hardly any memory", 32, 1, 256, 8000, 16, 4096, 0, 0, 1},
    {"large classes, spans and runs", 16, 24, 48, 8000, 1 << 14, 1 << 20, 4, 5, 1},
    {"everything", 32, 80, 128, 5000, 16, 1 << 21, 8, 3, 1},
    {"runs", 8, 70, 24, 10000, MM_SEGMENT_BYTES, MM_SEGMENT_BYTES, 1, 66, 1},
};
#define PLANS ((int)(sizeof plan / sizeof *plan))

struct shared {
    const struct plan *plan;
    struct mm_cpu_heap heap;
    uint64_t *slot[SLOTS_MOST]; /* handed over by exchange */
    pthread_barrier_t start;
    uint64_t served;
    const char *bad;
};
struct worker {
    struct shared *all;
    pthread_t thread;
    uint64_t seed;
};

static void bad(struct shared *all, const char *why) { __atomic_store_n(&all->bad, why, __ATOMIC_RELAXED); }

/* Word i of the payload at p. The first is the size, so that the thread that frees it can check all of it. */
static uint64_t key(const uint64_t *p, uint64_t words, uint64_t i) { return (uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15ull ^ words << 20 ^ i; }
/* All words of small payloads; of large ones the ends and one word in 64 KiB. */
static uint64_t next_word(uint64_t i, uint64_t words) {
    const uint64_t stride = words > 512 && i >= 64 ? 8192 : 1;
    return i + stride < words || i == words - 1 ? i + stride : words - 1;
}
static void fill(uint64_t *p, uint64_t words) {
    p[0] = words;
    for (uint64_t i = 1; i < words; i = next_word(i, words)) p[i] = key(p, words, i);
}
static int intact(const uint64_t *p) {
    const uint64_t words = p[0];
    if (words < 2 || words > 1u << 26) return 0;
    for (uint64_t i = 1; i < words; i = next_word(i, words))
        if (p[i] != key(p, words, i)) return 0;
    return 1;
}
static void let_go(struct shared *all, uint64_t *p) {
    if (p == NULL) return;
    if (!intact(p)) bad(all, "a payload was written over");
    p[0] = 0;
    mm_cpu_free(&all->heap, p);
}

static void *hammer(void *arg) {
    struct worker *me = (struct worker *)arg;
    struct shared *all = me->all;
    const struct plan *is = all->plan;
    uint64_t served = 0;
    pthread_barrier_wait(&all->start);
    for (uint32_t round = 0; round < ROUNDS(is->rounds); round++) {
        const uint64_t r = unit_random(&me->seed);
        const uint32_t slot = (uint32_t)(r >> 40) % is->slots;
        uint64_t *p = NULL;
        if (r % 8 < 5) {
            uint64_t bytes = is->least << unit_random(&me->seed) % (1 + mm_clz(is->least) - mm_clz(is->most));
            if (is->least != is->most) bytes -= unit_random(&me->seed) % (bytes / 2), bytes = bytes < 16 ? 16 : bytes;
            if (is->run_in && unit_random(&me->seed) % is->run_in == 0) {
                bytes = MM_SEGMENT_BYTES * (1 + unit_random(&me->seed) % is->run_most) - unit_random(&me->seed) % 65536;
                p = (uint64_t *)mm_cpu_aligned_malloc(&all->heap, bytes, 16ull << unit_random(&me->seed) % 20);
            } else {
                p = (uint64_t *)mm_cpu_malloc(&all->heap, bytes);
            }
            if (p != NULL) fill(p, bytes / 8), served++;
            else if (!is->null_is_fine) bad(all, "NULL while there is memory");
        }
        let_go(all, __atomic_exchange_n(&all->slot[slot], p, __ATOMIC_ACQ_REL));
    }
    __atomic_fetch_add(&all->served, served, __ATOMIC_RELAXED);
    return NULL;
}

static void run_all(struct shared *all, uint32_t threads, void *(*what)(void *)) {
    static struct worker worker[THREADS_MOST];
    pthread_barrier_init(&all->start, NULL, threads);
    for (uint32_t i = 0; i < threads; i++) {
        worker[i].all = all, worker[i].seed = i + 1;
        unit_eq(pthread_create(&worker[i].thread, NULL, what, &worker[i]), 0);
    }
    for (uint32_t i = 0; i < threads; i++) pthread_join(worker[i].thread, NULL);
    pthread_barrier_destroy(&all->start);
    unit_holds(all->bad == NULL, "%s", all->bad);
    unit_eq(unit_misuses(&all->heap), 0);
}

START_TEST(random_lives) {
    static struct shared all;
    all.plan = &plan[_i];
    unit_create(&all.heap, all.plan->segments);
    for (int again = 0; again < 2; again++) { /* the second time with used metadata */
        run_all(&all, all.plan->threads, hammer);
        unit_sound(&all.heap, UNIT_ANY);
        for (uint32_t i = 0; i < all.plan->slots; i++) let_go(&all, all.slot[i]), all.slot[i] = NULL;
        unit_holds(all.bad == NULL, "%s: %s", all.plan->name, all.bad);
        unit_fresh(&all.heap, all.plan->segments);
    }
    unit_lt(all.plan->threads * ROUNDS(all.plan->rounds) / 100, all.served);
    mm_cpu_heap_destroy(&all.heap);
}
END_TEST

/* The heap grows and shrinks meanwhile: one thread plays the host, and the kernels by which it takes chunks back. What it has taken
 * back is made inaccessible (UNIT_TAKEN_BACK). */
#define CHUNK 4u
#define CHUNKS 16u
static struct mm_mailbox box;
static struct {
    struct shared *all;
    int is_done;
    uint64_t answered, refused, taken_back;
    int is_there[CHUNKS];
} host;

static void protect(uint32_t chunk, int is_there) {
    host.is_there[chunk] = is_there;
    mprotect((void *)(host.all->heap.ref.user_base + chunk * CHUNK * MM_SEGMENT_BYTES), CHUNK * MM_SEGMENT_BYTES,
             is_there ? PROT_READ | PROT_WRITE : UNIT_TAKEN_BACK);
}
static void answer(uint64_t wanted) {
    const uint32_t need = ((uint32_t)wanted + CHUNK - 1) / CHUNK;
    uint32_t first = 0, n = 0;
    for (; first + n < CHUNKS && n < need;) {
        if (host.is_there[first + n]) first += n + 1, n = 0;
        else n++;
    }
    if (n < need) n = 0, host.refused++;
    else host.answered++;
    for (uint32_t i = 0; i < n; i++) protect(first + i, 1);
    mm_store_release_system_u64(&box.answer, mm_answer_make(wanted >> 32, n ? first * CHUNK : 0, n * CHUNK));
}
static void take_back(uint32_t chunk) {
    if (!unit_chunk_claim(&host.all->heap.ref, chunk * CHUNK, CHUNK)) return;
    host.taken_back++;
    protect(chunk, 0);
}
static void *be_host(void *arg) {
    uint64_t served = 0, seed = 99;
    for (uint32_t round = 0; !__atomic_load_n(&host.is_done, __ATOMIC_ACQUIRE) || host.taken_back == 0; round++) { /* at the end all is free */
        const uint64_t wanted = mm_load_acquire_system_u64(&box.wanted);
        if (wanted != served) answer(wanted), served = wanted;
        if (round % 256 == 0) mm_slices_retire_all(&host.all->heap.ref, 1);
        if (round % 2 == 0) take_back((uint32_t)(unit_random(&seed) % CHUNKS));
        sched_yield();
    }
    return arg;
}
START_TEST(to_and_fro) {
    static struct shared all;
    static const struct plan small = {"", 8, 0, 256, 400000, 16, 1 << 18, 0, 0, 1}, runs = {"", 8, 0, 24, 200000, 1 << 16, 1 << 21, 3, 6, 1};
    const uint32_t segments = CHUNK * CHUNKS;
    pthread_t thread;
    uint32_t there = 0;
    all.plan = _i ? &runs : &small;
    unit_holds(mm_cpu_heap_create(&all.heap, segments, CHUNK, MM_SEGMENT_BYTES) == 0, "a heap");
    memset(&box, 0, sizeof box);
    mm_heap_of(&all.heap.ref)->ref.mailbox = (uint64_t)(uintptr_t)&box, mm_heap_of(&all.heap.ref)->ref.grow_polls = 100;
    all.heap.ref = mm_heap_of(&all.heap.ref)->ref;
    host.all = &all;
    for (uint32_t i = 0; i < CHUNKS; i++) protect(i, i == 0);
    unit_eq(pthread_create(&thread, NULL, be_host, NULL), 0);
    run_all(&all, all.plan->threads, hammer);
    for (uint32_t i = 0; i < all.plan->slots; i++) let_go(&all, all.slot[i]), all.slot[i] = NULL;
    __atomic_store_n(&host.is_done, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    mm_grow_look(&all.heap.ref, 0, 0); /* takes an answer that no caller has taken */
    unit_holds(all.bad == NULL, "%s", all.bad);
    unit_sound(&all.heap, 0);
    for (uint32_t i = 0; i < CHUNKS; i++) there += host.is_there[i] ? CHUNK : 0;
    unit_eq(mm_heap_of(&all.heap.ref)->grow.mapped, there);
    mm_slices_retire_all(&all.heap.ref, 1);
    if (!UNIT_KEEPS) unit_eq(mm_cpu_heap_free_segments(&all.heap), there);
    if (getenv("UNIT_VERBOSE"))
        printf("%llu answered, %llu refused, %llu taken back\n", (unsigned long long)host.answered, (unsigned long long)host.refused,
               (unsigned long long)host.taken_back);
    unit_lt(0, host.answered);
    unit_lt(0, host.taken_back);
    unit_lt(all.plan->threads * ROUNDS(all.plan->rounds) / 100, all.served);
    mm_cpu_heap_destroy(&all.heap);
}
END_TEST

static uint64_t fill_bytes;

/* Each thread keeps its allocations to itself: only the allocator orders one owner's use of a slice before the
 * next one's, so ThreadSanitizer reports every missing order. */
static const uint64_t private_bytes[] = {16, 256, 2048, 1 << 14, 1 << 16, 1 << 17, 1 << 20, 2 * MM_SEGMENT_BYTES};
#define PRIVATE_ROUNDS 24000u

static void *keep_to_oneself(void *arg) {
    struct worker *me = (struct worker *)arg;
    uint64_t *mine[3] = {NULL, NULL, NULL}, served = 0;
    const uint32_t rounds = ROUNDS(PRIVATE_ROUNDS) * 4;
    pthread_barrier_wait(&me->all->start);
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t **at = &mine[unit_random(&me->seed) % 3];
        let_go(me->all, *at);
        *at = (uint64_t *)mm_cpu_malloc(&me->all->heap, fill_bytes);
        if (*at != NULL) fill(*at, (fill_bytes < 4096 ? fill_bytes : 4096) / 8), served++;
    }
    for (int i = 0; i < 3; i++) let_go(me->all, mine[i]);
    __atomic_fetch_add(&me->all->served, served, __ATOMIC_RELAXED);
    return NULL;
}

START_TEST(private_lives) {
    static struct shared all;
    fill_bytes = private_bytes[_i];
    unit_create(&all.heap, 8);
    run_all(&all, 8, keep_to_oneself);
    unit_lt(ROUNDS(PRIVATE_ROUNDS), all.served);
    unit_fresh(&all.heap, 8);
    mm_cpu_heap_destroy(&all.heap);
}
END_TEST

/* All fill the heap to NULL at once, then free what their neighbour got. */
#define FILLERS 8
static void *held[FILLERS][1 << 17]; /* one may get all there is */
static uint32_t holds[FILLERS];

static void *fill_to_null(void *arg) {
    struct worker *me = (struct worker *)arg;
    const uint32_t i = (uint32_t)me->seed - 1;
    uint64_t *p;
    holds[i] = 0;
    pthread_barrier_wait(&me->all->start);
    while (holds[i] < 1 << 17 && (p = (uint64_t *)mm_cpu_malloc(&me->all->heap, fill_bytes)) != NULL) {
        fill(p, 2);
        held[i][holds[i]++] = p;
    }
    return NULL;
}
static void *free_the_neighbours(void *arg) {
    struct worker *me = (struct worker *)arg;
    const uint32_t i = (uint32_t)(me->seed % FILLERS);
    pthread_barrier_wait(&me->all->start);
    for (uint32_t k = 0; k < holds[i]; k++) let_go(me->all, (uint64_t *)held[i][k]);
    return NULL;
}

/* NULL means that nothing is left: every slice of the heap has been handed out, to some thread. */
START_TEST(exhaustion) {
    static struct shared all;
    const uint32_t segments = 4;
    unit_create(&all.heap, segments);
    for (int round = 0; round < (int)ROUNDS(160) + 10; round++) {
        const uint32_t c = 8 + (uint32_t)round * 11 % (MM_CLASS_COUNT - 8), slices = segments * unit_whole_count(c);
        uint64_t got = 0;
        fill_bytes = unit_whole(c);
        run_all(&all, FILLERS, fill_to_null);
        for (int i = 0; i < FILLERS; i++) got += holds[i];
        unit_holds(got == slices, "class %u: %llu slices of %u", c, (unsigned long long)got, slices);
        unit_sound(&all.heap, got * unit_taken(fill_bytes));
        run_all(&all, FILLERS, free_the_neighbours);
        unit_fresh(&all.heap, segments);
    }
    mm_cpu_heap_destroy(&all.heap);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("stress");
    TCase *tests = tcase_create("threads");
    tcase_set_timeout(tests, 900); /* "runs" takes 8 s under ThreadSanitizer alone, and took over 120 beside three other compilations */
    tcase_add_loop_test(tests, random_lives, 0, PLANS);
    tcase_add_loop_test(tests, private_lives, 0, (int)(sizeof private_bytes / sizeof *private_bytes));
    tcase_add_test(tests, exhaustion);
    suite_add_tcase(suite, tests);
    TCase *grows = tcase_create("grows");
    tcase_set_timeout(grows, 900);
    tcase_add_loop_test(grows, to_and_fro, 0, 2);
    suite_add_tcase(suite, grows);
    return suite_run(suite);
}
