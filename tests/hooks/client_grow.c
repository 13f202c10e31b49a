/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of a heap that grows. The kernel is threads of this process, which run the allocator's own source on the heap that
 * libmm.so has made in the stand-in's memory; libmm.so's thread serves it as it would a GPU.
 */
#include "client.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "runtime/core/check.h"
#include "runtime/core/heap.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define THREADS 6

static struct mm_heap_ref ref;

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* The heap of a first launch. */
static void begin(void) {
    client_start();
    OK(client_launch(client_function("mm"), NULL));
    ref = standin->last_ref;
}

/* A "kernel": each thread allocates objects of `bytes`, or of many sizes (0), until it has `share` or gets NULL. */
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
        const double start = now_ms();
        void **p = (void **)mm_heap_malloc(&ref, bytes);
        const double took = now_ms() - start;
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
        CHECK(p[1] == p); /* nobody else's */
        p[1] = NULL;
        w->list = (void **)p[0];
        mm_heap_free(&ref, p);
    }
}
static struct work work[THREADS];
static pthread_t threads[THREADS];
static void start_all(unsigned long long bytes, unsigned long long share) {
    for (int i = 0; i < THREADS; i++) {
        work[i] = (struct work){bytes, share, 0, 0, NULL, 0, (unsigned)i * 7919};
        CHECK(pthread_create(&threads[i], NULL, allocate, &work[i]) == 0);
    }
}
static void join_all(void) {
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}
static void release_all(void) {
    for (int i = 0; i < THREADS; i++) release(&work[i]);
}
static unsigned long long nulls(void) {
    unsigned long long n = 0;
    for (int i = 0; i < THREADS; i++) n += work[i].nulls;
    return n;
}
static double longest(void) {
    double most = 0;
    for (int i = 0; i < THREADS; i++) most = work[i].longest_ms > most ? work[i].longest_ms : most;
    return most;
}
static unsigned long long heap_mapped(void) { return ((struct mm_heap *)ref.heap)->grow.mapped; }
static void nothing_is_left(void) {
    OK(cu.cuDevicePrimaryCtxReset(0));
    CHECK(standin->mappings == 0 && standin->reservations == 0 && standin->handles == 0 && standin->registrations == 0);
    CHECK(standin->free_bytes == standin->total_bytes);
}

/* It grows to 4 GiB, the program wants memory and gets it, and it grows again. */
static void grow(int argc, char **argv) {
    (void)argc, (void)argv;
    CUdeviceptr large;
    begin();
    CHECK(heap_mapped() == MM_HOST_FIRST_SEGMENTS);
    for (int round = 0; round < 2; round++) {
        start_all(0, 4 * GIB / THREADS);
        join_all();
        CHECK(nulls() == 0);
        CHECK(heap_mapped() * MM_SEGMENT_BYTES >= 4 * GIB);
        release_all();
        CHECK(standin->free_bytes < 4 * GIB);
        const long flushes = standin->flushes, claims = standin->claims;
        OK(cu.cuMemAlloc(&large, 7 * GIB));
        CHECK(standin->flushes > flushes && standin->claims > claims);
        CHECK(heap_mapped() * MM_SEGMENT_BYTES < GIB);
        CHECK(cu.cuMemAlloc(&large, 2 * GIB) == CUDA_ERROR_OUT_OF_MEMORY); /* what is not there is not there */
        OK(cu.cuMemFree(large));
    }
    nothing_is_left();
}

/* Runs of neighbouring segments, the last of the device's memory, and a little more. */
static void runs(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    void *a = mm_heap_malloc(&ref, GIB), *b = mm_heap_malloc(&ref, 3 * GIB), *c = mm_heap_malloc(&ref, 4 * GIB);
    CHECK(a && b && !c);
    CHECK((c = mm_heap_malloc(&ref, 2 * GIB)) != NULL);
    mm_heap_free(&ref, b);
    CHECK((b = mm_heap_malloc(&ref, 3 * GIB)) != NULL); /* the same segments */
    mm_heap_free(&ref, b), mm_heap_free(&ref, c);
    /* a gap between what is in use, too small for what is wanted next */
    CUdeviceptr large;
    CHECK((b = mm_heap_malloc(&ref, GIB)) != NULL);
    mm_heap_free(&ref, a);
    OK(cu.cuMemAlloc(&large, 13 * GIB / 2));
    OK(cu.cuMemFree(large));
    CHECK((a = mm_heap_malloc(&ref, 3 * GIB)) != NULL);
    mm_heap_free(&ref, a), mm_heap_free(&ref, b);
    nothing_is_left();
}

/* Aligned: it grows by what is needed, at that place; what cannot be had is NULL at once. */
static void alignment(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    void *p[2];
    for (int i = 0; i < 2; i++) CHECK((p[i] = mm_heap_aligned_malloc(&ref, 1, GIB)) != NULL && (unsigned long long)p[i] % GIB == 0);
    CHECK(p[0] != p[1] && heap_mapped() < 64); /* not all that is between them */
    const unsigned long long mapped = heap_mapped();
    const double start = now_ms();
    CHECK(!mm_heap_aligned_malloc(&ref, 79 * GIB / 10, 2 * GIB) && !mm_heap_aligned_malloc(&ref, 1, 1ull << 40));
    CHECK(now_ms() - start < 1500 && heap_mapped() == mapped);
    CHECK(mm_heap_malloc(&ref, GIB / 2)); /* which is not what was refused */
    for (int i = 0; i < 2; i++) mm_heap_free(&ref, p[i]);
    nothing_is_left();
}

/* No more memory: NULL for all, soon; one line. Then there is again. argv: bytes that are free. */
static void exhausted(int argc, char **argv) {
    CHECK(argc == 1);
    CUdeviceptr most;
    begin();
    OK(cu.cuMemAlloc(&most, standin->free_bytes - strtoull(argv[0], NULL, 0)));
    start_all(64 << 10, 4 * GIB / THREADS);
    join_all();
    CHECK(nulls() == THREADS && longest() < 60000);
    /* what the driver needs stays free */
    const unsigned long long free_bytes = strtoull(argv[0], NULL, 0), kept = free_bytes < 500 * MIB ? free_bytes : 500 * MIB;
    CHECK(standin->free_bytes >= kept);
    release_all();
    OK(cu.cuMemFree(most));
    usleep(20000); /* a refusal is kept for 10 ms */
    start_all(64 << 10, 4 * GIB / THREADS);
    join_all();
    CHECK(nulls() == 0);
    release_all();
    nothing_is_left();
}

/* The driver blocks, as if until the kernel ends: NULL after the bound, for all, and not once more for each. Then it goes on. */
static void blocked(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    standin->blocks_creates = true;
    start_all(MIB, GIB);
    join_all();
    CHECK(nulls() == THREADS);
    CHECK(longest() < 60000);
    const double start = now_ms();
    for (int i = 0; i < 100; i++) CHECK(mm_heap_malloc(&ref, 3 * MIB) == NULL);
    CHECK(now_ms() - start < 2000);
    CHECK(__atomic_load_n(&standin->blocked, __ATOMIC_RELAXED) == 1);
    standin->blocks_creates = false;
    usleep(50000);
    release_all();
    start_all(MIB, 256 * MIB);
    join_all();
    CHECK(nulls() == 0);
    release_all();
    nothing_is_left();
}

/* An end that fails is none: the heap goes on growing. Then the context ends while the kernel waits for memory that does not come:
 * it is told at once. */
static void kernel_ends(void) { /* before the driver's call that libmm.so's thread is in comes back */
    join_all();
    CHECK(nulls() == THREADS);
    standin->blocks_creates = false;
}
static void ending(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    start_all(MIB, 128 * MIB / THREADS);
    join_all();
    CHECK(nulls() == 0);
    release_all();
    usleep(20000); /* libmm.so's thread makes no calls now */
    standin->calls = 0, standin->fail_code = CUDA_ERROR_UNKNOWN;
    standin->fail_at = 4; /* state, retain, release, reset */
    standin->armed = true;
    CHECK(cu.cuDevicePrimaryCtxReset(0) == CUDA_ERROR_UNKNOWN);
    standin->armed = false;
    CHECK(strstr(standin->failed, "Reset"));
    start_all(MIB, 256 * MIB / THREADS);
    join_all();
    CHECK(nulls() == 0);
    release_all();
    for (int i = 0; i < 50; i++) usleep(1000), mm_grow_look(&ref, 0, MM_PATIENCE_NONE, 0); /* what is under way */
    CHECK(standin->total_bytes - standin->free_bytes - heap_mapped() * MM_SEGMENT_BYTES < 16 * MIB); /* nothing was answered in vain */
    standin->blocks_creates = true;
    standin->before_end = kernel_ends;
    start_all(MIB, GIB);
    while (!__atomic_load_n(&standin->blocked, __ATOMIC_RELAXED)) usleep(1000);
    const double start = now_ms();
    OK(cu.cuDevicePrimaryCtxReset(0));
    CHECK(now_ms() - start < 15000); /* of the 20 s that a kernel would wait */
    CHECK(standin->mappings == 0 && standin->reservations == 0 && standin->free_bytes == standin->total_bytes);
}

/* MM_HEAP_MAX=1G: no more than that. */
static void capped(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    start_all(MIB, 2 * GIB / THREADS);
    join_all();
    CHECK(nulls() >= THREADS - 3 && nulls() <= THREADS); /* each wants a third of it: who is ahead has that */
    CHECK(heap_mapped() * MM_SEGMENT_BYTES == GIB);
    release_all();
    nothing_is_left();
}

/* The first launch, and growing, beside a kernel that waits for the host: they wait for no kernel. */
static void held(int argc, char **argv) {
    (void)argc, (void)argv;
    CUresult (*synchronize)(CUcontext) = NULL; /* as it is in CUDA 13, which some ways of reaching the driver find */
    *(void **)&synchronize = (void *)cu.cuCtxSynchronize;
    CUcontext context = client_start();
    CUfunction f = client_function("mm");
    standin->held = true;
    OK(client_launch(f, NULL));
    if (standin->waits) printf("%ld waits, the last in %s\n", standin->waits, standin->waited);
    CHECK(standin->waits == 0 && standin->launches_without_heap == 0 && standin->own_modules == 0);
    CHECK(client_heap_segments(&standin->last_ref) == MM_HOST_FIRST_SEGMENTS);
    ref = standin->last_ref;
    start_all(MIB, 128 * MIB / THREADS);
    join_all();
    CHECK(nulls() == 0 && standin->waits == 0);
    release_all();
    standin->held = false;
    for (int i = 0; i < 2; i++) {
        OK(synchronize(context)); /* now no kernel runs: what giving back needs is loaded, once */
        CHECK(standin->own_modules == 1);
    }
    CHECK(standin->flushes == 0);
    nothing_is_left();
}

/* What is mapped, and cleared, when (layout.h), of a large device's heap: the first launch copies few zeros, and growing none, since that could wait
 * for the kernel that wants to grow. */
static void blocks_are_zero(uint64_t end) {
    const char *blocks = (const char *)mm_segment_blocks(&ref, 0);
    for (uint64_t i = 0; i < end * sizeof(struct mm_blocks); i++) CHECK(blocks[i] == 0);
}
static void metadata(int argc, char **argv) {
    (void)argc, (void)argv;
    CUdeviceptr large;
    struct mm_check check;
    standin->total_bytes = standin->free_bytes = 128 * GIB;
    begin();
    const uint64_t *reached = &((struct mm_heap *)ref.heap)->grow.reached;
    CHECK(((struct mm_heap *)ref.heap)->segment_count == 128 * GIB / MM_SEGMENT_BYTES && *reached == MM_HOST_FIRST_SEGMENTS);
    CHECK(standin->copied_bytes < 4 * MIB);
    CHECK(standin->total_bytes - standin->free_bytes <= MM_HOST_FIRST_SEGMENTS * MM_SEGMENT_BYTES + 8 * MIB);
    for (uint64_t s = MM_HOST_FIRST_SEGMENTS; s < ref.user_bytes / MM_SEGMENT_BYTES; s++) /* free of a stray pointer finds nobody's */
        CHECK(mm_segment_at(&ref, (uint32_t)s)->owner == MM_OWNER_NOBODY);
    const unsigned long long copied = standin->copied_bytes;
    void *p = mm_heap_malloc(&ref, 3 * GIB), *q = mm_heap_malloc(&ref, 24 * GIB), *aligned = mm_heap_aligned_malloc(&ref, 1, 16 * GIB);
    CHECK(p && q && aligned && *reached * MM_SEGMENT_BYTES >= 27 * GIB);
    blocks_are_zero(*reached);
    CHECK(standin->copied_bytes == copied);
    mm_heap_free(&ref, p), mm_heap_free(&ref, q), mm_heap_free(&ref, aligned);
    /* what goes and comes back is as it was left */
    uint64_t *words = &mm_segment_blocks(&ref, (uint32_t)*reached / 2)->words[0];
    *words = MM_WORDS_LIFE;
    OK(cu.cuMemAlloc(&large, 126 * GIB));
    OK(cu.cuMemFree(large));
    CHECK(heap_mapped() * MM_SEGMENT_BYTES < 2 * GIB && *words == MM_WORDS_LIFE);
    CHECK((p = mm_heap_malloc(&ref, 27 * GIB)) != NULL && *words == MM_WORDS_LIFE);
    mm_heap_free(&ref, p);
    start_all(0, 4 * GIB / THREADS);
    join_all();
    CHECK(nulls() == 0);
    memset(&check, 0, sizeof check);
    mm_heap_check_quiescent(&ref, 0, 1, &check);
    CHECK(check.fault == MM_FAULT_NONE && check.live_bytes > 4 * GIB);
    release_all();
    nothing_is_left();
}

/* Nothing is given back while the device is full, and nothing is lost. */
static void full(int argc, char **argv) {
    (void)argc, (void)argv;
    CUdeviceptr large;
    begin();
    start_all(MIB, 4 * GIB / THREADS);
    join_all();
    CHECK(nulls() == 0);
    release_all();
    standin->full = true;
    const double start = now_ms();
    CHECK(cu.cuMemAlloc(&large, 7 * GIB) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(now_ms() - start < 2000);
    standin->full = false;
    OK(cu.cuMemAlloc(&large, 7 * GIB));
    OK(cu.cuMemFree(large));
    nothing_is_left();
}

/* Memory goes to and fro while a "kernel" allocates and frees, and asks for more. */
static int stop;
static void *churn(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        void **p[8];
        for (int i = 0; i < 8; i++) {
            seed = seed * 1664525u + 1013904223u;
            p[i] = (void **)mm_heap_malloc(&ref, 16u << (seed >> 24) % 16);
            if (p[i]) p[i][0] = p[i];
        }
        for (int i = 0; i < 8; i++) {
            if (!p[i]) __atomic_add_fetch(&work[0].nulls, 1, __ATOMIC_RELAXED);
            CHECK(!p[i] || p[i][0] == p[i]);
            mm_heap_free(&ref, p[i]);
        }
    }
    return NULL;
}
static void pressure(int argc, char **argv) {
    (void)argc, (void)argv;
    CUdeviceptr large;
    begin();
    start_all(0, 4 * GIB / THREADS);
    join_all();
    release_all();
    standin->slow_allocations = true; /* time enough for libmm.so's thread to take away what was given back */
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, churn, (void *)(size_t)(i + 1)) == 0);
    for (int i = 0; i < 30; i++) {
        OK(cu.cuMemAlloc(&large, 5 * GIB));
        usleep(5000);
        OK(cu.cuMemFree(large));
    }
    stop = 1;
    join_all();
    CHECK(nulls() == 0);
    nothing_is_left();
}

/* As programs for CUDA 11 do. */
static void instantiate_by(const char *symbol) {
    CUresult (*instantiate)(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
    CUgraphExec exec;
    CUgraphNode failed;
    char log[7];
    *(void **)&instantiate = dlsym(libcuda, symbol);
    OK(instantiate(&exec, NULL, &failed, log, sizeof log));
}

/* Calls that need memory for themselves get what the heap has and does not need. */
static void others(int argc, char **argv) {
    (void)argc, (void)argv;
    CUmodule module;
    CUlibrary library, second;
    CUgraphExec exec;
    begin();
    CUfunction f = client_kernel("mm", &library);
    const CUfunction k = client_kernel("mm", &second);
    for (int i = 0; i < 9; i++) {
        standin->code_bytes = 0;
        start_all(MIB, 4 * GIB / THREADS);
        join_all();
        CHECK(nulls() == 0);
        release_all();
        CHECK(standin->free_bytes < 7 * GIB / 2);
        standin->code_bytes = 7 * GIB;
        if (i == 0) OK(cu.cuModuleLoadData(&module, "plain"));
        if (i == 1) OK(cu.cuLibraryGetModule(&module, library));
        if (i == 2) OK(cu.cuGraphInstantiateWithFlags(&exec, NULL, 0));
        if (i == 3) OK(cu.cuGraphUpload(NULL, NULL));
        if (i == 4) OK(cu.cuGraphLaunch(NULL, NULL));
        if (i == 5) OK(cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
        if (i == 6) OK(client_launch(k, NULL)); /* its module is loaded when libmm.so asks it */
        if (i == 7) instantiate_by("cuGraphInstantiate");
        if (i == 8) instantiate_by("cuGraphInstantiate_v2");
        CHECK(standin->free_bytes >= 7 * GIB);
    }
    CHECK(standin->launches_without_heap == 0 && standin->launches_with_variable == 2);
    standin->code_bytes = 9 * GIB; /* what is not there is not there */
    CHECK(cu.cuModuleLoadData(&module, "plain") == CUDA_ERROR_OUT_OF_MEMORY);
    (void)f;
    standin->code_bytes = 0;
    nothing_is_left();
}

/* MM_TRIM=idle: a launch of a graph counts as one, after which memory goes back once more. */
static void graph(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    for (long round = 0; round < 3; round++) {
        if (round) OK(cu.cuGraphLaunch(NULL, NULL));
        for (int i = 0; i < 500 && __atomic_load_n(&standin->flushes, __ATOMIC_RELAXED) == round; i++) usleep(20000);
        CHECK(__atomic_load_n(&standin->flushes, __ATOMIC_RELAXED) == round + 1);
    }
    nothing_is_left();
}

/* MM_TRIM=idle: memory goes back by itself. */
static void idle(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    start_all(0, 4 * GIB / THREADS);
    join_all();
    release_all();
    for (int i = 0; i < 3000 && heap_mapped() != 0; i++) usleep(20000);
    CHECK(heap_mapped() == 0);
    start_all(0, GIB / THREADS);
    join_all();
    CHECK(nulls() == 0);
    release_all();
    nothing_is_left();
}

/* Faults: the k-th driver call fails from a stage on. argv: stage, k, code. Prints the call that failed, "null" or "full", and how
 * many segments there were at last. Whatever fails, nothing hangs, and nothing is left. */
#define FAULT_BYTES (GIB / 2)
static void fault_grow(int argc, char **argv) {
    CHECK(argc == 3);
    const char *stage = argv[0];
    CUdeviceptr large = 0;
    CUresult r = CUDA_SUCCESS;
    standin->fail_at = atol(argv[1]);
    standin->fail_code = atoi(argv[2]);
    if (strcmp(stage, "create") != 0) begin();
    if (strcmp(stage, "create") == 0) {
        client_start();
        CUfunction f = client_function("mm");
        standin->armed = true;
        OK(client_launch(f, NULL));
        OK(client_launch(f, NULL));
        ref = standin->last_ref;
    } else if (strcmp(stage, "grow") == 0) {
        standin->armed = true;
    }
    if (ref.heap) {
        start_all(MIB, FAULT_BYTES / THREADS);
        join_all();
    }
    const unsigned long long n = nulls();
    if (strcmp(stage, "limit") == 0) {
        standin->armed = true;
        r = cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2 * GIB);
    }
    release_all();
    if (strcmp(stage, "give-back") == 0) {
        standin->armed = true;
        r = cu.cuMemAlloc(&large, 15 * GIB / 2);
    }
    standin->armed = false;
    const bool hit = standin->failed != NULL;
    /* once all is well, memory can be had and given back as ever */
    if (large) OK(cu.cuMemFree(large));
    if (ref.heap && ref.mailbox && strcmp(stage, "create") != 0) {
        usleep(20000);
        start_all(MIB, FAULT_BYTES / THREADS);
        join_all();
        CHECK(nulls() == 0);
        release_all();
    }
    printf("%s %s\n", hit ? standin->failed : "-", !ref.heap || n || r ? "less" : "all");
    const bool stuck = hit && (strstr(standin->failed, "Unmap") || strstr(standin->failed, "AddressFree") ||
                               strstr(standin->failed, "Release") || strstr(standin->failed, "Unregister"));
    OK(cu.cuDevicePrimaryCtxReset(0));
    CHECK(stuck || (standin->mappings == 0 && standin->reservations == 0 && standin->handles == 0 && standin->registrations == 0));
    CHECK(standin->allocations <= 2); /* what a heap that does not grow has, goes with its context */
}

/* Only a launch of a kernel of ours makes a thread. argv: seconds after which its processor time is told. */
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
    {"grow", grow},     {"runs", runs}, {"alignment", alignment}, {"exhausted", exhausted}, {"blocked", blocked},       {"ending", ending},
    {"full", full}, {"held", held},     {"metadata", metadata}, {"capped", capped},     {"pressure", pressure}, {"idle", idle}, {"graph", graph}, {"others", others}, {"fault-grow", fault_grow}, {"thread", thread},         {NULL, NULL},
};
