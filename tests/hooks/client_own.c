/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of the host functions of mm.h. This process acts as the kernels: it runs the allocator's source on the heap. */
#include "client.h"

#include <pthread.h>
#include <unistd.h>

#include "include/mm.h"
#include "runtime/heap.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

/* From mmhook.o if the program has it, else from libmm.so.1 if preloaded. */
extern int mm_get_statistics(struct mm_statistics *) __attribute__((weak));
extern int mm_reset(void) __attribute__((weak));
static __typeof__(&mm_get_statistics) get;
static __typeof__(&mm_reset) reset;
static struct mm_heap_ref ref;

static void find(void) {
    get = mm_get_statistics, reset = mm_reset;
    if (!get) *(void **)&get = dlsym(RTLD_DEFAULT, "mm_get_statistics");
    if (!reset) *(void **)&reset = dlsym(RTLD_DEFAULT, "mm_reset");
    CHECK(get && reset);
}

static struct mm_statistics statistics(void) {
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    CHECK(get(&s) == MM_OK);
    CHECK(s.struct_bytes == sizeof s);
    return s;
}

static void is_none(void) {
    struct mm_statistics s;
    memset(&s, 7, sizeof s);
    s.struct_bytes = sizeof s;
    CHECK(get(&s) == MM_ERROR_NO_HEAP && s.heap_bytes == 0x0707070707070707ull);
    CHECK(reset() == MM_ERROR_NO_HEAP);
}

/* The first launch creates the heap; before it there is none. */
static void begin(void) {
    find();
    is_none();
    client_start();
    is_none();
    OK(client_launch(client_function("plain"), NULL));
    is_none();
    OK(client_launch(client_function("mm"), NULL));
    ref = standin->last_ref;
}

static void has_counts(const struct mm_statistics *s, unsigned long long nulls, unsigned long long misuses) {
    CHECK(s->null_count == nulls && s->misuse_foreign + s->misuse_not_allocated + s->misuse_interior + s->misuse_never + s->misuse_double_free == misuses);
}

/* Allocates all memory, in pieces of `bytes`, and checks that no piece is given twice. Returns their number. */
static unsigned long long all_there_is(unsigned long long bytes) {
    unsigned long long n = 0;
    void **list = NULL, **p;
    for (; (p = (void **)mm_heap_malloc(&ref, bytes)) != NULL; n++) {
        p[0] = list, p[1] = p;
        list = p;
    }
    for (p = list; p; p = (void **)p[0]) {
        CHECK(p[1] == p); /* not allocated twice */
        p[1] = NULL;
    }
    return n;
}

static void numbers(int argc, char **argv) {
    (void)argc, (void)argv;
    static char here[16];
    struct {
        struct mm_statistics s;
        unsigned long long later[2];
    } large;
    begin();
    struct mm_statistics s = statistics();
    has_counts(&s, 0, 0);
    CHECK(s.heap_bytes == MM_HOST_FIRST_SEGMENTS * MM_SEGMENT_BYTES && s.null_first_bytes == 0);
    CHECK(s.heap_bytes + s.metadata_bytes == standin->total_bytes - standin->free_bytes);
    CHECK(s.reserved_bytes > standin->total_bytes && s.reserved_bytes < standin->total_bytes / 48 * 49);

    char *p = (char *)mm_heap_malloc(&ref, 100), *q = (char *)mm_heap_malloc(&ref, 160), *r = (char *)mm_heap_malloc(&ref, 3 * MIB);
    char *const beyond = q - (q - (char *)ref.user_base) % MM_PAGE_BYTES + MM_PAGE_BYTES / 160 * 160; /* the last slice of its block */
    CHECK(p && q && r);
    for (int i = 0; i < 1; i++) mm_heap_free(&ref, here);
    for (int i = 0; i < 2; i++) mm_heap_free(&ref, r + 16);
    mm_heap_free(&ref, p);
    for (int i = 0; i < 3; i++) mm_heap_free(&ref, p);
    for (int i = 0; i < 4; i++) mm_heap_free(&ref, beyond);
    mm_heap_free(&ref, r);
    for (int i = 0; i < 5; i++) mm_heap_free(&ref, r);
    s = statistics();
    CHECK(s.misuse_foreign == 1 && s.misuse_interior == 2 && s.misuse_double_free == 3 && s.misuse_never == 4 && s.misuse_not_allocated == 5);
    has_counts(&s, 0, 15);
    CHECK(!mm_heap_malloc(&ref, 1ull << 50) && !mm_heap_malloc(&ref, 1ull << 51));
    s = statistics();
    has_counts(&s, 2, 15);
    CHECK(s.null_first_bytes == 1ull << 50);
    CHECK((r = (char *)mm_heap_malloc(&ref, GIB)) != NULL); /* the heap grows */
    s = statistics();
    CHECK(s.heap_bytes == ((struct mm_heap *)ref.heap)->grow.mapped * MM_SEGMENT_BYTES && s.heap_bytes >= GIB);
    CHECK(s.heap_bytes + s.metadata_bytes == standin->total_bytes - standin->free_bytes);

    /* another version of the struct */
    memset(&large, 7, sizeof large);
    large.s.struct_bytes = sizeof large;
    CHECK(get(&large.s) == MM_OK && large.s.struct_bytes == sizeof large);
    CHECK(large.s.null_count == 2 && large.later[0] == 0 && large.later[1] == 0);
    s.struct_bytes = offsetof(struct mm_statistics, misuse_overrun) - 1; /* shorter than the first version */
    s.null_count = 99;
    CHECK(get(&s) == MM_ERROR_ARGUMENT && s.null_count == 99);
    s.struct_bytes++;
    s.misuse_overrun = 98;
    CHECK(get(&s) == MM_OK && s.null_count == 2 && s.misuse_overrun == 98);
    CHECK(get(NULL) == MM_ERROR_ARGUMENT);

    /* a capture stays valid; nothing is left over */
    CUstream stream;
    CUgraph graph;
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const int streams = standin->streams;
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    statistics();
    OK(cu.cuStreamEndCapture(stream, &graph));
    CHECK(standin->streams == streams);

    /* another context */
    CUcontext other;
    OK(cu.create(&other, 0, 1));
    is_none();
    OK(cu.cuCtxDestroy(other));
    has_counts((s = statistics(), &s), 2, 15);

    /* every call fails once */
    standin->fail_code = CUDA_ERROR_UNKNOWN;
    int failures = 0;
    for (standin->fail_at = 1;; standin->fail_at++) {
        standin->calls = 0, standin->failed = NULL;
        s.null_count = 99;
        usleep(1000);
        standin->armed = true;
        const int result = get(&s);
        standin->armed = false;
        if (!standin->failed) break;
        CHECK(result == MM_OK ? s.null_count == 2 : result == MM_ERROR_CUDA && s.null_count == 99);
        failures += result != MM_OK;
    }
    CHECK(failures >= 5 && standin->streams <= streams + 1); /* one stream could not be destroyed */
    has_counts((s = statistics(), &s), 2, 15);
    OK(cu.cuDevicePrimaryCtxReset(0));
    is_none();
}

/* A reset frees all memory, also at the maximum size; memory requested or granted meanwhile is not lost. */
static void whole(unsigned long long segments) {
    struct mm_statistics s;
    CHECK(reset() == MM_OK);
    s = statistics();
    has_counts(&s, 0, 0);
    CHECK(s.heap_bytes + s.metadata_bytes == standin->total_bytes - standin->free_bytes);
    CHECK(client_heap_segments(&ref) * MM_SEGMENT_BYTES == s.heap_bytes);
    CHECK(((struct mm_heap *)ref.heap)->free_count * MM_SEGMENT_BYTES == s.heap_bytes);
    CHECK(all_there_is(MM_SEGMENT_BYTES) == segments);
    CHECK(statistics().heap_bytes == segments * MM_SEGMENT_BYTES);
}
static void reset_all(int argc, char **argv) { /* MM_HEAP_MAX=1G */
    (void)argc, (void)argv;
    CUdeviceptr large;
    begin();
    const struct mm_heap_ref before = ref;
    CUfunction f = client_function("mm");
    for (int round = 0; round < 20; round++) {
        CHECK(all_there_is(64 << 10) == 1024 * 16);
        CHECK(statistics().null_count == 1);
        mm_heap_free(&ref, &large);
        CHECK(reset() == MM_OK);
        struct mm_statistics s = statistics();
        has_counts(&s, 0, 0);
        CHECK(s.heap_bytes == GIB);
        OK(client_launch(round ? f : client_function("mm"), NULL)); /* a known kernel, or a new one */
        CHECK(memcmp(&standin->last_ref, &before, sizeof before) == 0);
    }
    whole(1024);
    for (unsigned seed = 1; seed <= 60; seed++) { /* in the middle of a request */
        all_there_is(MM_SEGMENT_BYTES);
        CHECK(reset() == MM_OK);
        CHECK(statistics().heap_bytes == GIB);
        OK(cu.cuMemAlloc(&large, standin->free_bytes + 512 * MIB)); /* unmaps chunks, so that the heap can grow again */
        OK(cu.cuMemFree(large));
        CHECK(statistics().heap_bytes < GIB);
        for (unsigned i = 0; i < seed * 3 % 32; i++) CHECK(mm_heap_malloc(&ref, 8 * MIB));
        mm_grow_look(&ref, 1 + seed % 3, 0);
        if (seed % 4) usleep(seed % 4 * 300);
        CHECK(reset() == MM_OK);
        if (seed % 8 == 0) whole(1024);
    }
    /* a trim while the device was full */
    all_there_is(MM_SEGMENT_BYTES);
    CHECK(reset() == MM_OK);
    standin->full = true;
    CHECK(cu.cuMemAlloc(&large, standin->free_bytes + 512 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    standin->full = false;
    whole(1024);
    /* every call fails once; another reset succeeds */
    standin->fail_code = CUDA_ERROR_UNKNOWN;
    int failures = 0;
    for (standin->fail_at = 1;; standin->fail_at++) {
        standin->calls = 0, standin->failed = NULL;
        usleep(3000); /* libmm.so's thread makes no calls */
        standin->armed = true;
        const int result = reset();
        standin->armed = false;
        if (!standin->failed) break;
        CHECK(result == MM_OK || result == MM_ERROR_CUDA);
        failures += result != MM_OK;
        if (result != MM_OK && standin->fail_at % 2) CHECK(reset() == MM_OK);
        if (result != MM_OK && standin->fail_at % 2 == 0) mm_heap_free(&ref, mm_heap_malloc(&ref, 64)); /* malloc stays sound, NULL or not */
        whole(1024);
    }
    CHECK(failures >= 8);
    OK(cu.cuDevicePrimaryCtxReset(0));
    is_none();
    CHECK(standin->mappings == 0 && standin->reservations == 0 && standin->free_bytes == standin->total_bytes);
    client_start();
    OK(client_launch(client_function("mm"), NULL));
    ref = standin->last_ref;
    whole(1024);
}

/* A reset waits for the kernels, one of which waits for memory. */
static pthread_t kernel;
static void *allocate(void *argument) {
    for (int i = 0; i < 8; i++) CHECK(mm_heap_malloc(&ref, 256 * MIB / 2));
    return argument;
}
static void kernel_ends(void) { pthread_join(kernel, NULL); }
static int stop;
static void *launch(void *context) {
    OK(cu.cuCtxSetCurrent((CUcontext)context));
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        CUmodule module;
        CUfunction f;
        OK(cu.cuModuleLoadData(&module, "mm"));
        OK(cu.cuModuleGetFunction(&f, module, "kernel"));
        OK(cu.cuLaunchKernel(f, 1, 2, 3, 4, 5, 6, 7, NULL, NULL, NULL)); /* allocates nothing */
        OK(cu.cuModuleUnload(module));
    }
    return NULL;
}
static void *want(void *context) {
    CUdeviceptr large;
    OK(cu.cuCtxSetCurrent((CUcontext)context));
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        OK(cu.cuMemAlloc(&large, 15 * GIB / 2));
        OK(cu.cuMemFree(large));
        usleep(1000);
    }
    return NULL;
}
/* The number of segments in the free tree, consecutive or not; checks that each is mapped. */
static unsigned long long free_segments(void) {
    const unsigned long long *leaves = (const unsigned long long *)ref.free_tree + ref.tree_roots + ref.tree_mids;
    unsigned long long count = 0;
    for (unsigned long long s = 0; s < ref.user_bytes / MM_SEGMENT_BYTES; s++) {
        volatile char *at = (volatile char *)ref.user_base + s * MM_SEGMENT_BYTES;
        if (!(leaves[s / 64] >> (s % 64) & 1)) continue;
        at[0] = at[MM_SEGMENT_BYTES - 1] = 1;
        count++;
    }
    return count;
}
static void reset_races(int argc, char **argv) {
    (void)argc, (void)argv;
    pthread_t threads[3];
    begin();
    standin->at_synchronize = kernel_ends;
    CHECK(pthread_create(&kernel, NULL, allocate, NULL) == 0);
    CHECK(reset() == MM_OK);
    standin->at_synchronize = NULL;
    struct mm_statistics s = statistics();
    CHECK(s.heap_bytes >= GIB && client_heap_segments(&ref) * MM_SEGMENT_BYTES == s.heap_bytes);
    CUcontext context = client_start();
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, i ? launch : want, context) == 0);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 20; k++) CHECK(mm_heap_malloc(&ref, k % 2 ? 4 * MIB : 100));
        CHECK(reset() == MM_OK);
        if (i % 8 == 0) usleep(2000);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    CHECK(reset() == MM_OK);
    s = statistics();
    CHECK(free_segments() * MM_SEGMENT_BYTES == s.heap_bytes);
    CHECK(s.heap_bytes + s.metadata_bytes == standin->total_bytes - standin->free_bytes);
}

/* Without virtual memory management, and with little memory: heaps of other kinds. argv: expected segments. */
static void reset_fixed(int argc, char **argv) {
    CHECK(argc == 1);
    standin->vmm = false;
    if (strcmp(argv[0], "0") == 0) standin->free_bytes = 64 * MIB;
    begin();
    for (int i = 0; i < 3; i++) {
        struct mm_statistics s = statistics();
        CHECK(s.heap_bytes == strtoull(argv[0], NULL, 0) * MM_SEGMENT_BYTES && s.metadata_bytes > 0);
        CHECK(s.reserved_bytes == s.heap_bytes + s.metadata_bytes);
        CHECK(all_there_is(MM_SEGMENT_BYTES) * MM_SEGMENT_BYTES == s.heap_bytes);
        CHECK(statistics().null_count == 1);
        CHECK(reset() == MM_OK);
        has_counts((s = statistics(), &s), 0, 0);
    }
}

/* mmhook.o whose libmm.so is missing. */
static void no_run_time(int argc, char **argv) {
    (void)argc, (void)argv;
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    find();
    CHECK(get(&s) == MM_ERROR_NO_RUN_TIME && reset() == MM_ERROR_NO_RUN_TIME);
    CHECK(get(&s) == MM_ERROR_NO_RUN_TIME && reset() == MM_ERROR_NO_RUN_TIME);
}

const struct scenario client_own_scenarios[] = {
    {"statistics", numbers}, {"reset-all", reset_all}, {"reset-races", reset_races}, {"reset-fixed", reset_fixed}, {"no-run-time", no_run_time}, {NULL, NULL},
};
