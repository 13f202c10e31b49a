/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of a heap that grows, up to the end of memory, with a driver that blocks or fails, and of the thread that serves it. */
#include "client_work.h"

#include <sys/resource.h>
#include <unistd.h>

#include "runtime/check.h"
#include "runtime/heap.h"

/* The heap grows to 4 GiB, the program allocates memory and gets it, and the heap grows again. */
static void grow(int argc, char **argv) {
    (void)argc, (void)argv;
    CUdeviceptr large;
    work_begin();
    CHECK(work_heap_mapped() == MM_HOST_FIRST_SEGMENTS);
    for (int round = 0; round < 2; round++) {
        work_start(0, 4 * GIB / WORK_THREADS);
        work_join();
        CHECK(work_nulls() == 0);
        CHECK(work_heap_mapped() * MM_SEGMENT_BYTES >= 4 * GIB);
        work_release();
        CHECK(standin->free_bytes < 4 * GIB);
        const long retires = standin->retires, claims = standin->claims;
        OK(cu.cuMemAlloc(&large, 7 * GIB));
        CHECK(standin->retires > retires && standin->claims > claims);
        CHECK(work_heap_mapped() * MM_SEGMENT_BYTES < GIB);
        CHECK(cu.cuMemAlloc(&large, 2 * GIB) == CUDA_ERROR_OUT_OF_MEMORY); /* more than the device has */
        OK(cu.cuMemFree(large));
    }
    work_leaves_nothing();
}

/* Runs up to the last of the device's memory, and a little more. */
static void runs(int argc, char **argv) {
    (void)argc, (void)argv;
    work_begin();
    void *a = mm_heap_malloc(&work_ref, GIB), *b = mm_heap_malloc(&work_ref, 3 * GIB), *c = mm_heap_malloc(&work_ref, 4 * GIB);
    CHECK(a && b && !c);
    CHECK((c = mm_heap_malloc(&work_ref, 2 * GIB)) != NULL);
    mm_heap_free(&work_ref, b);
    CHECK((b = mm_heap_malloc(&work_ref, 3 * GIB)) != NULL); /* the same segments */
    mm_heap_free(&work_ref, b), mm_heap_free(&work_ref, c);
    /* a gap between allocations, too small for the next request */
    CUdeviceptr large;
    CHECK((b = mm_heap_malloc(&work_ref, GIB)) != NULL);
    mm_heap_free(&work_ref, a);
    OK(cu.cuMemAlloc(&large, 13 * GIB / 2));
    OK(cu.cuMemFree(large));
    CHECK((a = mm_heap_malloc(&work_ref, 3 * GIB)) != NULL);
    mm_heap_free(&work_ref, a), mm_heap_free(&work_ref, b);
    work_leaves_nothing();
}

/* Aligned requests grow the heap only where needed; one that cannot be met returns NULL at once. */
static void alignment(int argc, char **argv) {
    (void)argc, (void)argv;
    work_begin();
    void *p[2];
    for (int i = 0; i < 2; i++) CHECK((p[i] = mm_heap_aligned_malloc(&work_ref, 1, GIB)) != NULL && (unsigned long long)p[i] % GIB == 0);
    CHECK(p[0] != p[1] && work_heap_mapped() < 64); /* not all memory between them */
    const unsigned long long mapped = work_heap_mapped();
    const double start = work_now_ms();
    CHECK(!mm_heap_aligned_malloc(&work_ref, 79 * GIB / 10, 2 * GIB) && !mm_heap_aligned_malloc(&work_ref, 1, 1ull << 40));
    CHECK(work_now_ms() - start < 1500 && work_heap_mapped() == mapped);
    CHECK(mm_heap_malloc(&work_ref, GIB / 2)); /* a smaller request than the refused one */
    for (int i = 0; i < 2; i++) mm_heap_free(&work_ref, p[i]);
    work_leaves_nothing();
}

/* No more memory: all threads soon get NULL, and one line is printed. Then there is memory again. argv: free bytes. */
static void exhausted(int argc, char **argv) {
    CHECK(argc == 1);
    CUdeviceptr most;
    work_begin();
    OK(cu.cuMemAlloc(&most, standin->free_bytes - strtoull(argv[0], NULL, 0)));
    work_start(64 << 10, 4 * GIB / WORK_THREADS);
    work_join();
    CHECK(work_nulls() == WORK_THREADS && work_longest_ms() < 60000);
    /* the driver's share stays free */
    const unsigned long long free_bytes = strtoull(argv[0], NULL, 0), kept = free_bytes < 500 * MIB ? free_bytes : 500 * MIB;
    CHECK(standin->free_bytes >= kept);
    work_release();
    OK(cu.cuMemFree(most));
    usleep(20000); /* a refusal is kept for 10 ms */
    work_start(64 << 10, 4 * GIB / WORK_THREADS);
    work_join();
    CHECK(work_nulls() == 0);
    work_release();
    work_leaves_nothing();
}

/* How often this thread has slept. Preemption does not count, so that the number does not depend on the machine's load. */
static long sleeps(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_nvcsw;
}

/* The driver blocks, as if until the kernel ends: all threads get NULL after one bounded wait, later calls without a wait. Then growth resumes. */
static void blocked(int argc, char **argv) {
    (void)argc, (void)argv;
    work_begin();
    standin->blocks_creates = true;
    work_start(MIB, GIB);
    work_join();
    CHECK(work_nulls() == WORK_THREADS);
    CHECK(work_longest_ms() < 60000);
    const long before = sleeps();
    for (int i = 0; i < 100; i++) CHECK(mm_heap_malloc(&work_ref, 3 * MIB) == NULL);
    CHECK(sleeps() - before < 100); /* a waiter would sleep between looks, more than a thousand times */
    CHECK(__atomic_load_n(&standin->blocked, __ATOMIC_RELAXED) == 1);
    standin->blocks_creates = false;
    const double since = work_now_ms();
    do { /* on a busy machine a step may not be served in time */
        usleep(50000);
        work_release();
        work_start(MIB, 96 * MIB / WORK_THREADS);
        work_join();
    } while (work_nulls() != 0 && work_now_ms() - since < 15000);
    CHECK(work_nulls() == 0);
    work_release();
    work_leaves_nothing();
}

/* A reset that fails does not end the heap, which still grows. Then the context ends while the kernel waits for memory: the kernel
 * gets its answer at once. */
static void kernel_ends(void) { /* before the blocked driver call of libmm.so's thread returns */
    work_join();
    CHECK(work_nulls() == WORK_THREADS);
    standin->blocks_creates = false;
}
static void ending(int argc, char **argv) {
    (void)argc, (void)argv;
    work_begin();
    work_start(MIB, 128 * MIB / WORK_THREADS);
    work_join();
    CHECK(work_nulls() == 0);
    work_release();
    usleep(20000); /* libmm.so's thread makes no calls now */
    standin->calls = 0, standin->fail_code = CUDA_ERROR_UNKNOWN;
    standin->fail_at = 4; /* state, retain, release, reset */
    standin->armed = true;
    CHECK(cu.cuDevicePrimaryCtxReset(0) == CUDA_ERROR_UNKNOWN);
    standin->armed = false;
    CHECK(strstr(standin->failed, "Reset"));
    work_start(MIB, 256 * MIB / WORK_THREADS);
    work_join();
    CHECK(work_nulls() == 0);
    work_release();
    for (int i = 0; i < 50; i++) usleep(1000), mm_grow_look(&work_ref, 0, 0);                             /* pending answers */
    CHECK(standin->total_bytes - standin->free_bytes - work_heap_mapped() * MM_SEGMENT_BYTES < 16 * MIB); /* no answer was lost */
    standin->blocks_creates = true;
    standin->before_end = kernel_ends;
    work_start(MIB, GIB);
    while (!__atomic_load_n(&standin->blocked, __ATOMIC_RELAXED)) usleep(1000);
    const double start = work_now_ms();
    OK(cu.cuDevicePrimaryCtxReset(0));
    CHECK(work_now_ms() - start < 15000); /* a kernel would wait 20 s */
    CHECK(standin->mappings == 0 && standin->reservations == 0 && standin->free_bytes == standin->total_bytes);
}

/* MM_HEAP_MAX=1G: the heap grows no further. */
static void capped(int argc, char **argv) {
    (void)argc, (void)argv;
    work_begin();
    work_start(MIB, 2 * GIB / WORK_THREADS);
    work_join();
    CHECK(work_nulls() >= WORK_THREADS - 3 && work_nulls() <= WORK_THREADS); /* each thread asks for a third of it; up to three can succeed */
    CHECK(work_heap_mapped() * MM_SEGMENT_BYTES == GIB);
    work_release();
    work_leaves_nothing();
}

/* The first launch and growing wait for no kernel, next to a kernel that waits for the host. */
static void held(int argc, char **argv) {
    (void)argc, (void)argv;
    CUresult (*synchronize)(CUcontext) = NULL; /* CUDA 13's variant, which some ways of reaching the driver find */
    *(void **)&synchronize = (void *)cu.cuCtxSynchronize;
    CUcontext context = client_start();
    CUfunction f = client_function("mm");
    standin->held = true;
    OK(client_launch(f, NULL));
    if (standin->waits) printf("%ld waits, the last in %s\n", standin->waits, standin->waited);
    CHECK(standin->waits == 0 && standin->launches_without_heap == 0 && standin->own_modules == 0);
    CHECK(client_heap_segments(&standin->last_ref) == MM_HOST_FIRST_SEGMENTS);
    work_ref = standin->last_ref;
    work_start(MIB, 128 * MIB / WORK_THREADS);
    work_join();
    CHECK(work_nulls() == 0 && standin->waits == 0);
    work_release();
    standin->held = false;
    for (int i = 0; i < 2; i++) {
        OK(synchronize(context)); /* now no kernel runs: the module for trimming is loaded, once */
        CHECK(standin->own_modules == 1);
    }
    CHECK(standin->retires == 0);
    work_leaves_nothing();
}

/* When metadata of a large device's heap is mapped and cleared (layout.h): the first launch copies few zeros, growing copies none, since a copy
 * could wait for the kernel that asks for growth. */
static void metadata(int argc, char **argv) {
    (void)argc, (void)argv;
    CUdeviceptr large;
    struct mm_check check;
    standin->total_bytes = standin->free_bytes = 128 * GIB;
    work_begin();
    const uint64_t *reached = &((struct mm_heap *)work_ref.heap)->grow.reached;
    CHECK(((struct mm_heap *)work_ref.heap)->segment_count == 128 * GIB / MM_SEGMENT_BYTES && *reached == MM_HOST_FIRST_SEGMENTS);
    CHECK(standin->copied_bytes < 5 * MIB);
    CHECK(standin->total_bytes - standin->free_bytes == MM_HOST_FIRST_SEGMENTS * MM_SEGMENT_BYTES + 6 * MIB);
    CHECK(work_ref.open_bytes >= 2 * GIB && work_ref.open_bytes < 11 * GIB);
    for (uint64_t s = MM_HOST_FIRST_SEGMENTS; s < work_ref.open_bytes / MM_SEGMENT_BYTES; s++) /* free of a stray pointer finds an unowned page */
        for (uint32_t page = 0; page < MM_SEGMENT_PAGES; page++) CHECK(*mm_page_owner(&work_ref, (uint32_t)s * MM_SEGMENT_PAGES + page) == MM_OWNER_NOBODY);
    const unsigned long long copied = standin->copied_bytes;
    void *p = mm_heap_malloc(&work_ref, 3 * GIB), *q = mm_heap_malloc(&work_ref, 8 * GIB), *aligned = mm_heap_aligned_malloc(&work_ref, 1, 4 * GIB);
    CHECK(p && q && aligned && *reached * MM_SEGMENT_BYTES >= 11 * GIB);
    CHECK(standin->copied_bytes == copied);
    uint64_t in_runs = 0; /* also segments that were left out, since aligned memory began behind them, are described */
    for (uint64_t s = 0; s < *reached; s++) {
        const struct mm_segment *is = mm_segment_at(&work_ref, (uint32_t)s);
        CHECK(is->pages == 0 && (is->run <= MM_RUN_BODY || mm_run_segments(is->run) <= 8 * GIB / MM_SEGMENT_BYTES));
        in_runs += is->run != MM_RUN_NONE;
        for (uint32_t page = 0; page < MM_SEGMENT_PAGES; page++) CHECK(*mm_page_owner(&work_ref, (uint32_t)s * MM_SEGMENT_PAGES + page) == MM_OWNER_NOBODY);
    }
    CHECK(in_runs == 11 * GIB / MM_SEGMENT_BYTES + 1);
    mm_heap_free(&work_ref, p), mm_heap_free(&work_ref, q), mm_heap_free(&work_ref, aligned);
    /* metadata keeps its contents when segments are unmapped and mapped again */
    uint64_t *words = mm_page_words(&work_ref, (uint32_t)*reached / 2 * MM_SEGMENT_PAGES);
    const uint64_t left = mm_word_make(7, 0);
    *words = left;
    OK(cu.cuMemAlloc(&large, 126 * GIB));
    OK(cu.cuMemFree(large));
    CHECK(work_heap_mapped() * MM_SEGMENT_BYTES < 2 * GIB && *words == left);
    CHECK((p = mm_heap_malloc(&work_ref, 11 * GIB)) != NULL && *words == left);
    mm_heap_free(&work_ref, p);
    work_start(0, 4 * GIB / WORK_THREADS);
    work_join();
    CHECK(work_nulls() == 0);
    memset(&check, 0, sizeof check);
    mm_heap_check_quiescent(&work_ref, 0, 1, &check);
    CHECK(check.fault == MM_FAULT_NONE && check.live_bytes > 4 * GIB);
    work_release();
    work_leaves_nothing();
}

/* Faults: the k-th driver call after the start of a stage fails. argv: stage, k, code. Prints the call that failed ("-": none), and
 * "less" or "all". Whichever call fails, nothing hangs, and nothing is left over. */
#define FAULT_BYTES (GIB / 2)
static void fault_grow(int argc, char **argv) {
    CHECK(argc == 3);
    const char *stage = argv[0];
    CUdeviceptr large = 0;
    CUresult r = CUDA_SUCCESS;
    standin->fail_at = atol(argv[1]);
    standin->fail_code = atoi(argv[2]);
    if (strcmp(stage, "create") != 0) work_begin();
    if (strcmp(stage, "create") == 0) {
        client_start();
        CUfunction f = client_function("mm");
        standin->armed = true;
        OK(client_launch(f, NULL));
        OK(client_launch(f, NULL));
        work_ref = standin->last_ref;
    } else if (strcmp(stage, "grow") == 0) {
        standin->armed = true;
    }
    if (work_ref.heap) {
        work_start(MIB, FAULT_BYTES / WORK_THREADS);
        work_join();
    }
    const unsigned long long n = work_nulls();
    if (strcmp(stage, "limit") == 0) {
        standin->armed = true;
        r = cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2 * GIB);
    }
    work_release();
    if (strcmp(stage, "give-back") == 0) {
        standin->armed = true;
        r = cu.cuMemAlloc(&large, 15 * GIB / 2);
    }
    standin->armed = false;
    const bool hit = standin->failed != NULL;
    /* afterwards memory can be allocated and freed as usual */
    if (large) OK(cu.cuMemFree(large));
    if (work_ref.heap && work_ref.mailbox && strcmp(stage, "create") != 0) {
        usleep(20000);
        work_start(MIB, FAULT_BYTES / WORK_THREADS);
        work_join();
        CHECK(work_nulls() == 0);
        work_release();
    }
    printf("%s %s\n", hit ? standin->failed : "-", !work_ref.heap || n || r ? "less" : "all");
    const bool stuck = hit && (strstr(standin->failed, "Unmap") || strstr(standin->failed, "AddressFree") || strstr(standin->failed, "Release") ||
                               strstr(standin->failed, "Unregister"));
    OK(cu.cuDevicePrimaryCtxReset(0));
    CHECK(stuck || (standin->mappings == 0 && standin->reservations == 0 && standin->handles == 0 && standin->registrations == 0));
    CHECK(standin->allocations <= 2); /* the memory of a heap that cannot grow ends with its context */
}

/* Only a launch of a kernel with mm creates a thread. argv: seconds after which its processor time is printed. */
static int tasks(char *grower, size_t size) {
    int n = 0;
    char path[64], name[32];
    for (int tid = getpid(); tid < getpid() + 64; tid++) {
        snprintf(path, sizeof path, "/proc/self/task/%d/comm", tid);
        FILE *f = fopen(path, "r");
        if (!f) continue;
        n++;
        if (fgets(name, sizeof name, f) && strncmp(name, "mm grower", 9) == 0) snprintf(grower, size, "/proc/self/task/%d/schedstat", tid);
        fclose(f);
    }
    return n;
}
static void thread(int argc, char **argv) {
    char path[64] = "";
    unsigned long long ns = 0;
    client_start();
    OK(client_launch(client_function("plain"), NULL));
    CHECK(tasks(path, sizeof path) == 1);
    OK(client_launch(client_function("mm"), NULL));
    CHECK(tasks(path, sizeof path) == 2 && path[0]);
    if (argc == 0) return;
    sleep((unsigned)atoi(argv[0]));
    FILE *f = fopen(path, "r");
    CHECK(f && fscanf(f, "%llu", &ns) == 1);
    fclose(f);
    printf("%.2f ms\n", (double)ns * 1e-6);
}

const struct scenario client_grow_scenarios[] = {
    {"grow", grow},     {"runs", runs}, {"alignment", alignment}, {"exhausted", exhausted},   {"blocked", blocked}, {"ending", ending},
    {"capped", capped}, {"held", held}, {"metadata", metadata},   {"fault-grow", fault_grow}, {"thread", thread},   {NULL, NULL},
};
