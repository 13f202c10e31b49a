/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "client_work.h"

#include <pthread.h>
#include <time.h>

#include "runtime/heap.h"

struct mm_heap_ref work_ref;

double work_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void work_begin(void) {
    client_start();
    OK(client_launch(client_function("mm"), NULL));
    work_ref = standin->last_ref;
}

struct work {
    unsigned long long bytes, share, got, nulls;
    void **list;
    double longest_ms;
    unsigned seed;
};
static void *allocate(void *argument) {
    struct work *w = (struct work *)argument;
    while (w->got < w->share) {
        w->seed = w->seed * 1664525u + 1013904223u;
        const unsigned long long bytes = w->bytes ? w->bytes : 64u << (w->seed >> 24) % 18;
        const double start = work_now_ms();
        void **p = (void **)mm_heap_malloc(&work_ref, bytes);
        const double took = work_now_ms() - start;
        if (took > w->longest_ms) w->longest_ms = took;
        if (!p) {
            w->nulls++;
            break;
        }
        p[0] = w->list, p[1] = p;
        w->list = p;
        w->got += bytes;
    }
    return NULL;
}

static void release(struct work *w) {
    while (w->list) {
        void **p = w->list;
        CHECK(p[1] == p); /* not allocated twice */
        p[1] = NULL;
        w->list = (void **)p[0];
        mm_heap_free(&work_ref, p);
    }
}

static struct work work[WORK_THREADS];
static pthread_t threads[WORK_THREADS];

void work_start(unsigned long long bytes, unsigned long long share) {
    for (int i = 0; i < WORK_THREADS; i++) {
        work[i] = (struct work){bytes, share, 0, 0, NULL, 0, (unsigned)i * 7919};
        CHECK(pthread_create(&threads[i], NULL, allocate, &work[i]) == 0);
    }
}

void work_join(void) {
    for (int i = 0; i < WORK_THREADS; i++) pthread_join(threads[i], NULL);
}

void work_release(void) {
    for (int i = 0; i < WORK_THREADS; i++) release(&work[i]);
}

unsigned long long work_nulls(void) {
    unsigned long long n = 0;
    for (int i = 0; i < WORK_THREADS; i++) n += work[i].nulls;
    return n;
}

double work_longest_ms(void) {
    double most = 0;
    for (int i = 0; i < WORK_THREADS; i++) most = work[i].longest_ms > most ? work[i].longest_ms : most;
    return most;
}

unsigned long long work_heap_mapped(void) { return ((struct mm_heap *)work_ref.heap)->grow.mapped; }

void work_leaves_nothing(void) {
    OK(cu.cuDevicePrimaryCtxReset(0));
    CHECK(standin->mappings == 0 && standin->reservations == 0 && standin->handles == 0 && standin->registrations == 0);
    CHECK(standin->free_bytes == standin->total_bytes);
}
