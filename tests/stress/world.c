/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "tests/stress/world.h"

#include "runtime/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define UNIT 16u /* bytes for one shadow bit */
#define WORD (64 * UNIT)
#define PLACES 6 /* of a payload, besides the head */

void world_bad(struct world *w, const char *why) { __atomic_store_n(&w->bad, why, __ATOMIC_RELAXED); }

uint64_t world_ops(uint32_t percent) {
    const char *all = getenv("STRESS_OPS");
    return (all ? strtoull(all, NULL, 10) : (uint64_t)STRESS_OPS) / 100 * percent;
}

uint64_t world_misuses(const struct world *w) {
    uint64_t sum = 0;
    for (int kind = 0; kind < MM_MISUSE_KINDS; kind++) sum += mm_cpu_misuse_count(&w->heap, (enum mm_misuse)kind);
    return sum;
}

void world_create(struct world *w, uint64_t segments, uint64_t unmapped) {
    memset(w, 0, sizeof *w);
    world_holds(mm_cpu_heap_create(&w->heap, segments + unmapped, segments, MM_SEGMENT_BYTES) == 0, "no heap");
    w->segments = segments;
    w->bytes = segments * MM_SEGMENT_BYTES;
    void *all = mm_cpu_malloc(&w->heap, w->bytes); /* to learn where user memory lies */
    world_holds(all != NULL, "a fresh heap does not give all it has");
    w->base = (uint64_t)(uintptr_t)all;
    mm_cpu_free(&w->heap, all);
    w->shadow = (uint64_t *)mmap(NULL, w->bytes / UNIT / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    world_holds(w->shadow != MAP_FAILED, "no memory for the shadow");
    ASAN_POISON_MEMORY_REGION((void *)(uintptr_t)w->base, w->bytes);
    world_must_be_empty(w);
}

void world_destroy(struct world *w) {
    ASAN_UNPOISON_MEMORY_REGION((void *)(uintptr_t)w->base, w->bytes);
    munmap(w->shadow, w->bytes / UNIT / 8);
    mm_cpu_heap_destroy(&w->heap);
}

/* Sets or clears the shadow of [p, p + bytes). All its bits must have been the opposite. */
static void shadow_flip(struct world *w, uint64_t p, uint64_t bytes, int set) {
    uint64_t from = (p - w->base) / UNIT;
    const uint64_t end = (p - w->base + bytes + UNIT - 1) / UNIT;
    while (from < end) {
        const uint64_t bit = from % 64, n = end - from < 64 - bit ? end - from : 64 - bit;
        const uint64_t mask = (n == 64 ? ~0ull : (1ull << n) - 1) << bit;
        uint64_t *word = &w->shadow[from / 64];
        const uint64_t old = set ? __atomic_fetch_or(word, mask, __ATOMIC_RELAXED) : __atomic_fetch_and(word, ~mask, __ATOMIC_RELAXED);
        if ((old & mask) != (set ? 0 : mask)) world_bad(w, set ? "handed out while somebody has it" : "somebody else gave it back");
        from += n;
    }
}

/* Pages of a span for n pages: 1, 2, 4; 5, 6, 7, 8; 10, 12, 14, 16; ... */
static uint32_t span_pages(uint64_t n) {
    if (n == 3) return 4;
    for (uint32_t s = 0;; s++)
        for (uint32_t unit = s == 0 ? 1 : 5; unit <= 8; unit++)
            if ((uint64_t)unit << s >= n) return unit << s;
}
/* Bytes that the heap must count as live for a request. */
static uint64_t granted(uint64_t bytes, uint64_t align) {
#ifdef MM_WALK_UNIT_BYTES
    if (bytes <= MM_SMALL_BYTES_MAX && align <= MM_SMALL_ALIGN_MAX) return mm_round_up(bytes, MM_WALK_UNIT_BYTES);
#else
    if (bytes <= MM_SMALL_BYTES_MAX && align <= MM_SMALL_ALIGN_MAX) return mm_small_aligned(bytes, align);
#endif
    if (bytes > 56 * MM_PAGE_BYTES || align >= MM_SEGMENT_BYTES) return mm_round_up(bytes, MM_SEGMENT_BYTES);
    uint64_t taken = align;
    while (taken < bytes) taken *= 2;
    return align > MM_PAGE_BYTES ? taken : span_pages((bytes + MM_PAGE_BYTES - 1) / MM_PAGE_BYTES) * MM_PAGE_BYTES;
}

static uint64_t key(const uint64_t *at, uint64_t bytes) {
    const uint64_t x = ((uint64_t)(uintptr_t)at ^ bytes << 40) * 0x9e3779b97f4a7c15ull;
    return x ^ x >> 29;
}
/* The head holds size and alignment, so that any thread that gets p can check it. */
static uint64_t head(const uint64_t *p, uint64_t bytes, uint64_t align) { return key(p, 0) << 40 | (uint64_t)mm_ctz(align) << 32 | bytes; }
static uint64_t head_align(const uint64_t *p) { return 1ull << (p[0] >> 32 & 63); }
static uint64_t place(uint64_t words, uint32_t i) {
    const uint64_t at[PLACES] = {1, words - 1, words / 2, words / 4, words - 1 - words / 4, words * 5 / 8};
    return at[i] ? at[i] : 1;
}

static void fill(uint64_t *p, uint64_t bytes, uint64_t align) {
    p[0] = head(p, bytes, align);
    for (uint32_t i = 0; i < PLACES; i++) p[place(bytes / 8, i)] = key(p + place(bytes / 8, i), bytes);
}
/* The size of p's payload; 0 if it is corrupt. */
static uint64_t intact(const uint64_t *p) {
    const uint64_t bytes = p[0] & 0xffffffffu;
    if (bytes < 16 || p[0] != head(p, bytes, head_align(p))) return 0;
    for (uint32_t i = 0; i < PLACES; i++)
        if (p[place(bytes / 8, i)] != key(p + place(bytes / 8, i), bytes)) return 0;
    return bytes;
}

void *world_malloc(struct worker *me, uint64_t bytes, uint64_t align) {
    struct world *w = me->w;
    void *p = align ? mm_cpu_aligned_malloc(&w->heap, bytes, align) : mm_cpu_malloc(&w->heap, bytes);
    const uint64_t at = (uint64_t)(uintptr_t)p;
    me->ops++;
    if (p == NULL) {
        me->nulls++;
        return NULL;
    }
    me->served++;
    if (at % (align > 16 ? align : 16) != 0) world_bad(w, "not aligned");
    if (at < w->base || at - w->base + bytes > w->bytes) {
        world_bad(w, "outside the heap");
        return NULL;
    }
    ASAN_UNPOISON_MEMORY_REGION(p, (bytes + 7) / 8 * 8);
    shadow_flip(w, at, bytes, 1);
    fill((uint64_t *)p, bytes, align ? align : 1);
    __atomic_fetch_add(&w->live_bytes, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&w->granted_bytes, granted(bytes, align ? align : 1), __ATOMIC_RELAXED);
    return p;
}

void world_let_go(struct world *w, void *p) {
    const uint64_t bytes = intact((uint64_t *)p);
    if (bytes == 0) {
        world_bad(w, "a payload was written over");
        return;
    }
    __atomic_fetch_sub(&w->live_bytes, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&w->granted_bytes, granted(bytes, head_align((uint64_t *)p)), __ATOMIC_RELAXED);
    *(uint64_t *)p = 0;
    shadow_flip(w, (uint64_t)(uintptr_t)p, bytes, 0);
    ASAN_POISON_MEMORY_REGION(p, (bytes + 7) / 8 * 8);
}

void world_free(struct worker *me, void *p) {
    if (p == NULL) return;
    world_let_go(me->w, p);
    mm_cpu_free(&me->w->heap, p);
    me->ops++;
}

int world_put(struct world *w, uint32_t i, void *p) {
    void *none = NULL, **box = &w->box[i % STRESS_BOXES].p;
    if (__atomic_load_n(box, __ATOMIC_RELAXED) != NULL) return 0;
    return __atomic_compare_exchange_n(box, &none, p, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}
void *world_take(struct world *w, uint32_t i) {
    void **box = &w->box[i % STRESS_BOXES].p;
    if (__atomic_load_n(box, __ATOMIC_RELAXED) == NULL) return NULL;
    return __atomic_exchange_n(box, NULL, __ATOMIC_ACQUIRE);
}

/* The heap's own checker; returns the bytes it finds live. */
static uint64_t sound(const struct world *w) {
    char why[200];
    uint64_t live = 0;
    const char *bad = mm_cpu_heap_check_quiescent(&w->heap, why, sizeof why, &live);
    world_holds(bad == NULL, "heap not sound: %s", bad);
    return live;
}

static void *begin(void *arg) {
    struct worker *me = (struct worker *)arg;
    pthread_barrier_wait(&me->w->start);
    me->body(me);
    __atomic_fetch_add(&me->w->served, me->served, __ATOMIC_RELAXED);
    __atomic_fetch_add(&me->w->calls, me->ops, __ATOMIC_RELAXED);
    __atomic_fetch_add(&me->w->nulls, me->nulls, __ATOMIC_RELAXED);
    return NULL;
}

void world_run(struct world *w, uint32_t threads, uint64_t ops, void (*body)(struct worker *), const void *plan) {
    struct worker *worker = w->worker;
    pthread_barrier_init(&w->start, NULL, threads);
    for (uint32_t i = 0; i < threads; i++) {
        struct worker *me = &worker[i];
        me->w = w, me->body = body, me->plan = plan, me->index = i, me->threads = threads;
        if (me->seed == 0) me->seed = 0x5eed + i;
        me->ops = me->served = me->nulls = 0, me->ops_most = ops / threads;
        world_holds(pthread_create(&me->thread, NULL, begin, me) == 0, "no thread");
    }
    for (uint32_t i = 0; i < threads; i++) pthread_join(worker[i].thread, NULL);
    pthread_barrier_destroy(&w->start);
    world_holds(w->bad == NULL, "%s", w->bad);
    const uint64_t live = sound(w);
    world_holds(live == w->granted_bytes, "the heap counts %llu bytes as live, %llu were granted", (unsigned long long)live,
                (unsigned long long)w->granted_bytes);
}

void world_free_all(struct world *w) {
    for (uint32_t i = 0; i < STRESS_BOXES; i++) world_free(&w->worker[0], world_take(w, i));
    for (uint32_t i = 0; i < STRESS_THREADS_MOST; i++)
        for (uint32_t at = 0; at < STRESS_SLOTS_MOST; at++) {
            world_free(&w->worker[0], w->worker[i].mine[at]);
            w->worker[i].mine[at] = NULL;
        }
    world_holds(w->bad == NULL, "%s", w->bad);
}

void world_must_be_empty(struct world *w) {
    const uint64_t live = sound(w);
    world_holds(live == 0 && world_live(w) == 0, "%llu bytes are left, of which we know %llu", (unsigned long long)live, (unsigned long long)world_live(w));
    mm_cpu_heap_drain_quiescent(&w->heap);
    (void)sound(w);
    const uint64_t free_segments = mm_cpu_heap_free_segments(&w->heap);
    world_holds(free_segments == w->segments, "drained: %llu segments are free, of %llu", (unsigned long long)free_segments, (unsigned long long)w->segments);
    const uint64_t nulls = mm_cpu_null_count(&w->heap);
    world_holds(nulls == w->nulls, "NULLs: %llu counted, %llu seen", (unsigned long long)nulls, (unsigned long long)w->nulls);
    for (uint64_t i = 0; i < w->bytes / WORD; i++) world_holds(w->shadow[i] == 0, "a shadow bit is left");
}
