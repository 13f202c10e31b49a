/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The workload of objects.cu on the CPU build of the allocator, for machines without a GPU.
 *
 *   objects_cpu [COUNT [THREADS]]   number of objects (1,000,000), number of threads (one per processor)
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cpu/cpuheap.h"

#define LISTS 65536u

struct object {
    struct object *next;
    unsigned value;
};

static struct mm_cpu_heap heap;
static struct object *lists[LISTS];
static unsigned count = 1000000;
static unsigned thread_count;
static uint64_t total, failures;

static void *make(void *argument) {
    for (unsigned i = (unsigned)(uintptr_t)argument; i < count; i += thread_count) {
        struct object *o = (struct object *)mm_cpu_malloc(&heap, sizeof *o);
        if (o == NULL) {
            __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
            continue;
        }
        o->value = i;
        o->next = __atomic_exchange_n(&lists[i % LISTS], o, __ATOMIC_ACQ_REL);
    }
    return NULL;
}

static void *destroy(void *argument) {
    uint64_t sum = 0;
    for (unsigned i = (unsigned)(uintptr_t)argument; i < LISTS; i += thread_count)
        for (struct object *o = lists[i], *next; o != NULL; o = next) {
            next = o->next;
            sum += o->value;
            mm_cpu_free(&heap, o);
        }
    __atomic_add_fetch(&total, sum, __ATOMIC_RELAXED);
    return NULL;
}

/* Runs `work` on all threads; returns milliseconds. */
static double run(void *(*work)(void *)) {
    struct timespec from, to;
    pthread_t *threads = (pthread_t *)calloc(thread_count, sizeof *threads);
    if (threads == NULL) abort();
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (unsigned i = 0; i < thread_count; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) != 0) abort();
    for (unsigned i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    free(threads);
    return (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
}

int main(int argc, char **argv) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (argc > 1) count = (unsigned)strtoul(argv[1], NULL, 10);
    thread_count = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : processors > 0 ? (unsigned)processors : 1;
    if (thread_count == 0 || mm_cpu_heap_create(&heap, 256, 256, MM_SEGMENT_BYTES) != 0) {
        perror("objects_cpu");
        return 1;
    }
    const double make_ms = run(make), delete_ms = run(destroy);
    if (failures != 0 || total != (uint64_t)count * (count - 1) / 2) {
        printf("FAILED: %llu of %u objects could not be made\n", (unsigned long long)failures, count);
        return 1;
    }
    printf("%u objects: malloc %.1f ms, free %.1f ms (%u threads)\n", count, make_ms, delete_ms, thread_count);
    mm_cpu_heap_destroy(&heap);
    return 0;
}
