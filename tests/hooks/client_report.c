/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of reports: misuse, statistics, pictures. This process acts as the kernels: it runs the allocator's source on the heap. The
 * lines expected on standard error, and their order, are in check_report.c and check_files.c. */
#include "client_sibling.h"

#include <pthread.h>
#include <unistd.h>

#include "include/mm.h"
#include "runtime/checked/closed.h"

/* From mmhook.o if the program has it, else from libmm.so.1 if preloaded. */
extern int mm_get_usage(struct mm_usage_statistics *) __attribute__((weak));
static struct mm_heap_ref ref;

static void say(const char *line) { CHECK(write(STDERR_FILENO, line, strlen(line)) == (ssize_t)strlen(line)); }

static void begin(void) {
    client_start();
    OK(client_launch(client_function("mm"), NULL));
    ref = standin->last_ref;
    usleep(400000); /* by now the heap's thread looks only every 20 ms */
}

static void misuse(uint64_t address) { mm_heap_free(&ref, (void *)(uintptr_t)address); }

/* Each misuse has a line, printed when the program has synchronised; the end prints the remaining lines and the total. argv: number of further misuses. */
static void synchronised(int argc, char **argv) {
    CUstream stream;
    CHECK(argc == 1);
    begin();
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    misuse(0x1000);
    OK(cu.cuCtxSynchronize());
    say("context\n");
    misuse(0x1001);
    OK(cu.cuStreamSynchronize(stream));
    say("stream\n");
    misuse(0x1002);
    OK(cu.cuEventSynchronize(NULL));
    say("event\n");
    for (int i = 0; i < atoi(argv[0]); i++) misuse(0x2000 + (uint64_t)i);
}

/* Misuse is reported when the context ends. */
static void context_ends(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    misuse(0x1000);
    for (int i = 0; i < 40; i++) misuse(0x2000);
    OK(cu.cuDevicePrimaryCtxReset(0));
    say("reset\n");
    begin();
    misuse(0x3000);
    OK(cu.cuDevicePrimaryCtxRelease(0));
    say("released\n");
}

/* Misuse is reported even if the program makes no calls. */
static void idle(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    misuse(0x1000);
    usleep(1500000);
    say("later\n");
}

/* Each kind of misuse; prints the address that its line contains. */
static void kinds(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    char *p = (char *)mm_heap_malloc(&ref, 100), *q = (char *)mm_heap_malloc(&ref, 100), *run = (char *)mm_heap_malloc(&ref, 6 << 20);
    CHECK(p && q && run);
    char *const beyond = q - (q - (char *)ref.user_base) % MM_PAGE_BYTES + MM_PAGE_BYTES / 112 * 112; /* the last slice of its block */
    char *const bad[] = {p + 16, run + 16, run + MM_SEGMENT_BYTES, beyond, p, run};
    mm_heap_free(&ref, p), mm_heap_free(&ref, run);
    CHECK((run = (char *)mm_heap_malloc(&ref, 6 << 20)) == bad[5]);
    for (int i = 0; i < 6; i++) {
        if (i == 5) mm_heap_free(&ref, run);
        mm_heap_free(&ref, bad[i]);
        printf("%#llx\n", (unsigned long long)(uintptr_t)bad[i]);
    }
}

/* A thousand objects of 64 bytes, ten of 700, one of 6 MB, and a misuse. */
static void use(void) {
    for (int i = 0; i < 1000; i++) CHECK(mm_heap_malloc(&ref, 64));
    for (int i = 0; i < 10; i++) CHECK(mm_heap_malloc(&ref, 700));
    CHECK(mm_heap_malloc(&ref, 6 << 20));
    misuse(0x1000);
}

/* argv: how the heap ends. */
static void usage(int argc, char **argv) {
    CHECK(argc == 1);
    client_start();
    OK(client_launch(client_function("mm"), NULL));
    ref = standin->last_ref;
    use();
    if (strcmp(argv[0], "end") == 0) return;
    if (strcmp(argv[0], "reset") == 0) OK(cu.cuDevicePrimaryCtxReset(0));
    else OK(cu.cuDevicePrimaryCtxRelease(0));
    client_start();
    OK(client_launch(client_function("mm"), NULL));
}

static void usage_of_program(int argc, char **argv) {
    struct mm_usage_statistics u;
    struct {
        struct mm_usage_statistics known;
        unsigned long long appended;
    } later;
    int (*get)(struct mm_usage_statistics *) = mm_get_usage;
    (void)argc, (void)argv;
    if (!get) *(void **)&get = dlsym(RTLD_DEFAULT, "mm_get_usage");
    CHECK(get);
    memset(&u, 7, sizeof u);
    u.struct_bytes = sizeof u;
    client_start();
    CHECK(get(&u) == MM_ERROR_NO_HEAP && u.runs == 0x0707070707070707ull);
    OK(client_launch(client_function("mm"), NULL));
    ref = standin->last_ref;
    u.struct_bytes = offsetof(struct mm_usage_statistics, classes) + sizeof u.classes - 1; /* one byte less than in the first version */
    CHECK(get(&u) == MM_ERROR_ARGUMENT && get(NULL) == MM_ERROR_ARGUMENT);
    u.struct_bytes = sizeof u;
    CHECK(get(&u) == MM_OK && u.live_objects == 0 && u.class_count == 0 && u.free_segments == 16 && u.heap_bytes == 16 << 20);
    CHECK(u.internal_fragmentation < 0 && u.external_fragmentation == 0);
    memset(&later, 7, sizeof later); /* a later version, with one more member */
    later.known.struct_bytes = sizeof later;
    CHECK(get(&later.known) == MM_OK && later.known.struct_bytes == sizeof later && later.known.free_segments == 16 && later.appended == 0);
    char *p = (char *)mm_heap_malloc(&ref, 6 << 20), *q = (char *)mm_heap_malloc(&ref, 700), *span = (char *)mm_heap_malloc(&ref, 200000);
    CHECK(span && get(&u) == MM_OK && u.spans == 1 && u.span_pages == 14 && u.live_objects == 3 && u.live_bytes == 6291456 + 768 + 14 * 16384);
    mm_heap_free(&ref, span);
    for (int i = 0; i < 999; i++) CHECK(mm_heap_malloc(&ref, 700));
    CHECK(p && q && get(&u) == MM_OK);
    CHECK(u.struct_bytes == sizeof u && u.live_objects == 1001 && u.live_bytes == 6291456 + 768000 && u.asked_bytes == MM_NOT_COUNTED);
    CHECK(u.runs == 1 && u.run_segments == 6 && u.spans == 0 && u.class_pages == u.classes[0].pages);
    CHECK(u.free_pages + u.class_pages == u.paged_segments * MM_SEGMENT_PAGES);
    CHECK((u.paged_segments + u.run_segments + u.free_segments + u.spare_segments) * MM_SEGMENT_BYTES == u.heap_bytes);
    CHECK(u.class_count == 1 && u.classes[0].slice_bytes == 768 && u.classes[0].live_objects == 1000 && u.classes[0].live_bytes == 768000);
    CHECK(u.segment_bytes == MM_SEGMENT_BYTES && u.page_bytes == MM_PAGE_BYTES && u.held_bytes == u.class_pages * MM_PAGE_BYTES - 768000);
    CHECK(u.classes[0].blocks * 2 == u.class_pages && u.wait_count == 0);
    CHECK(mm_heap_malloc(&ref, 200 << 20)); /* the heap grows, and the caller waits */
    mm_heap_free(&ref, q), mm_heap_free(&ref, p);
    CHECK(get(&u) == MM_OK && u.live_objects == 1000 && u.classes[0].live_objects == 999 && u.runs == 1 && u.run_segments == 200);
    CHECK(u.growth_count >= 1 && u.wait_count >= 1 && u.waited_ns > 1000 && u.waited_ns < 2000000000 && u.heap_bytes > 16 << 20);
    CHECK(u.peak_heap_bytes == u.heap_bytes && u.external_fragmentation >= 0 && u.external_fragmentation < 1);
}

/* ---- checked runs ---- */

static CUmodule module;

static void launch(const char *name) {
    CUfunction f;
    if (!module) OK(cu.cuModuleLoadData(&module, "mm"));
    OK(cu.cuModuleGetFunction(&f, module, name));
    OK(client_launch(f, NULL));
    ref = standin->last_ref;
    CHECK(ref.guard == 0 || standin->last_asked == (strcmp(way, "v2-ptsz") == 0 ? (void *)CU_STREAM_PER_THREAD : NULL));
    mm_cpu_grid = standin->last_grid; /* the following calls belong to that kernel */
}
static char *make(uint64_t bytes) {
    char *p = (char *)mm_guard_malloc(&ref, bytes);
    CHECK(p);
    return p;
}

/* No kernel of ours enters a capture. */
static void captures(void) {
    CUstream stream;
    CUgraph graph;
    CUfunction f;
    OK(cu.cuModuleGetFunction(&f, module, "captured"));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const long notes = standin->notes;
    OK(client_launch(f, stream));
    CHECK(standin->notes == notes);
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(client_launch(f, stream));
    CHECK(standin->notes == notes + 1 && standin->last_note_stream != stream);
}

/* Each kernel leaks objects of another size. `disturbed`: after every so many launches, other work takes a number. */
static void number(long count, long disturbed) {
    static const char *const names[] = {"make", "end", "_ZN5other4makeEPPv"};
    for (long i = 0; i < count; i++) {
        launch(names[i % 3]);
        make(16 + 16 * ((uint64_t)i % 3));
        if (disturbed && i % disturbed == disturbed - 1) standin->grids++;
    }
}

/* argv: the error to make. Prints addresses in the order of the expected lines. */
static void checked(int argc, char **argv) {
    CHECK(argc == 1);
    const char *what = argv[0];
    client_start();
    launch("make");
    CHECK(ref.open_bytes == 0 && ref.heap != 0);
    if (strcmp(what, "nothing") == 0) {
        captures();
        for (int i = 0; i < 100000; i++) mm_guard_free(&ref, make(1 + (uint64_t)i % 5000));
        char *p = make(9 << 20), *q = (char *)mm_guard_aligned_malloc(&ref, 100, 256);
        CHECK((uintptr_t)q % 256 == 0 && mm_guard_usable_size(&ref, p) == 9 << 20 && mm_guard_usable_size(&ref, q) == 100);
        memset(p, 1, 9 << 20), memset(q, 1, 100);
        mm_guard_free(&ref, p), mm_guard_free(&ref, q), mm_guard_free(&ref, NULL);
        CHECK(mm_guard_usable_size(&ref, q) == 0);
    } else if (strcmp(what, "leaks") == 0) {
        for (int i = 0; i < 10; i++) make(64);
        for (int i = 0; i < 5; i++) make(700);
        launch("_ZN5other4makeEPPv");
        for (int i = 0; i < 3; i++) make(60);
        make(6 << 20);
        mm_guard_free(&ref, make(1000)); /* in quarantine, not a leak */
    } else if (strcmp(what, "overruns") == 0) {
        static const uint64_t sizes[] = {1, 20, 64, 1000, 2 << 20, 5 << 20};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char *p = make(sizes[i]);
            memset(p, 7, sizes[i]);
            p[sizes[i] + i % 3]++;
            printf("%p\n", (void *)p);
            launch("end");
            mm_guard_free(&ref, p);
            launch("make");
        }
        char *far = make(10000), *live = make(30); /* so large that the tag is behind it */
        memset(far, 7, mm_heap_usable_size(&ref, far)), live[31] = 1;
        mm_guard_free(&ref, far);
        printf("%p\n%p\n", (void *)far, (void *)live);
    } else if (strcmp(what, "after-free") == 0) {
        char *p = make(100), *q = make(3000), *r = make(100), *large = make(5 << 20);
        launch("end");
        mm_guard_free(&ref, p), mm_guard_free(&ref, q), mm_guard_free(&ref, r), mm_guard_free(&ref, large);
        q[0] = 1, r[20] = 2, large[20] = 3;
        launch("make");
        mm_guard_free(&ref, q);        /* a second time */
        CHECK(make(5 << 20) == large); /* not kept in quarantine: checked when it is allocated again */
        mm_guard_free(&ref, large);
        printf("%p\n%p\n%p\n%p\n", (void *)q, (void *)large, (void *)r, (void *)q);
    } else if (strcmp(what, "numbers") == 0) {
        number(3000, 0);
        CHECK(standin->notes > 100 && standin->notes < 500);
    } else if (strcmp(what, "disturbed") == 0) {
        number(3000, 500);
        CHECK(standin->notes > 300 && standin->notes < 1500);
    } else if (strcmp(what, "all-disturbed") == 0) {
        number(300, 1);
        CHECK(standin->notes == 301);
    } else if (strcmp(what, "settled") == 0) { /* the last launch but one, after other work took a number, at all positions between two of our kernels */
        for (int i = 0; i <= 8; i++) {
            for (int n = 0; n < 300 + i; n++) launch("other");
            char *p = make(100);
            standin->grids++;
            launch("make");
            const uint64_t grid = mm_cpu_grid;
            launch("end");
            mm_cpu_grid = grid;
            mm_guard_free(&ref, p), mm_guard_free(&ref, p);
            OK(cu.cuCtxSynchronize());
        }
    } else if (strcmp(what, "null") == 0) { /* quarantined memory is reused when no other is left, and malloc does not return NULL */
        uint64_t n = 0;
        for (int round = 0; round < 2; round++) {
            char *list = NULL, *p;
            for (n = 0; (p = (char *)mm_guard_malloc(&ref, 4000)) != NULL; n++) *(char **)p = list, list = p;
            CHECK(n > 1500);
            while (list) p = list, list = *(char **)p, mm_guard_free(&ref, p);
        }
    } else {
        CHECK(0);
    }
}

/* The driver refuses the argv-th call from the first launch on. All allocations are leaked. */
static void checked_faults(int argc, char **argv) {
    CUfunction f;
    CHECK(argc == 1);
    client_start();
    OK(cu.cuModuleLoadData(&module, "mm"));
    OK(cu.cuModuleGetFunction(&f, module, "make"));
    standin->calls = 0, standin->fail_at = atoi(argv[0]), standin->fail_code = CUDA_ERROR_OUT_OF_MEMORY, standin->armed = true;
    for (int i = 0; i < 2; i++) client_launch(f, NULL);
    ref = standin->last_ref;
    CHECK(ref.heap == 0 || ref.user_base == 0 || (ref.open_bytes == 0) == (ref.guard != 0 || ref.trace != 0));
    for (int i = 0; (ref.guard != 0 || ref.trace != 0) && i < 100; i++) mm_closed_malloc(&ref, 100);
    puts(standin->failed ? standin->failed : "none");
}

/* The fill of allocated memory in this process's heap. argv: the expected fill: none, zero or junk. */
static void fill(int argc, char **argv) {
    CHECK(argc == 1);
    const int byte = strcmp(argv[0], "junk") == 0 ? (int)(MM_FILL_JUNK_WORD & 0xff) : strcmp(argv[0], "zero") == 0 ? 0 : -1;
    client_start();
    launch("make");
    CHECK((ref.open_bytes == 0) == (byte >= 0 || ref.guard != 0));
    if (ref.open_bytes != 0) {
        CHECK(ref.open_bytes == ref.user_bytes);
        return;
    }
    for (int i = 0; i < 2; i++) {
        unsigned char *p = (unsigned char *)mm_closed_malloc(&ref, 1001), *run = (unsigned char *)mm_closed_aligned_malloc(&ref, 5 << 20, 64);
        CHECK(p && run);
        for (int k = 0; byte >= 0 && k < 1001; k++) CHECK(p[k] == byte && run[k] == byte && run[(5 << 20) - 1 - k] == byte);
        memset(p, 0x5a, 1001), memset(run, 0x5a, 5 << 20);
        mm_closed_free(&ref, p), mm_closed_free(&ref, run);
    }
}

/* ---- failures on demand ---- */

static int first_null; /* of the last requests() */

/* Makes requests, as a kernel does. Returns how many got NULL. */
static int requests(int count) {
    int nulls = 0;
    for (int i = 0; i < count; i++) {
        void *p = i % 2 ? mm_closed_malloc(&ref, 100) : mm_closed_aligned_malloc(&ref, 300, 64);
        if (!p && nulls++ == 0) first_null = i;
        mm_closed_free(&ref, p);
    }
    return nulls;
}

static int nulls_before, nulls_of_kernel, synchronisations;
static void at_synchronize(void) { /* before the launch: other kernels end; after it: the kernel */
    *(synchronisations++ % 2 ? &nulls_of_kernel : &nulls_before) += requests(10);
}

/* 1,000 requests and another 1,000 after what argv says: reset, destroy, fault, plain. Prints how many got NULL, and the first. */
static void fail(int argc, char **argv) {
    int (*reset)(void) = NULL;
    CHECK(argc == 1);
    client_start();
    launch("make");
    CHECK(ref.open_bytes == 0 && ref.fail != 0);
    const int nulls = requests(1000), first = first_null;
    if (strcmp(argv[0], "reset") == 0) {
        *(void **)&reset = dlsym(RTLD_DEFAULT, "mm_reset");
        CHECK(reset && reset() == MM_OK);
    } else if (strcmp(argv[0], "destroy") == 0) {
        OK(cu.cuDevicePrimaryCtxReset(0));
        client_start();
        module = NULL;
        launch("make");
    }
    printf("%d, %d, first %d\n", nulls, requests(1000), first);
    if (strcmp(argv[0], "fault") == 0)
        standin->calls = 0, standin->fail_name = "cuMemcpyDtoHAsync_v2", standin->fail_code = CUDA_ERROR_LAUNCH_FAILED, standin->armed = true;
}

/* A kernel by its name; argv: kernels to launch. Prints for each how many of its 10 requests got NULL, which requires that its launch is waited for. */
static void fail_kernel(int argc, char **argv) {
    CUstream stream;
    CUgraph graph;
    CUfunction f;
    client_start();
    for (int i = 0; i < argc; i++) {
        synchronisations = nulls_of_kernel = 0;
        standin->at_synchronize = i ? at_synchronize : NULL; /* at first there is no heap */
        launch(argv[i]);
        standin->at_synchronize = NULL;
        printf("%s: %d of %d, then %d\n", argv[i], nulls_of_kernel, synchronisations, requests(10));
    }
    OK(cu.cuModuleGetFunction(&f, module, argv[argc - 1]));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    synchronisations = 0, standin->at_synchronize = at_synchronize;
    OK(client_launch(f, stream)); /* no wait in a capture */
    OK(cu.cuStreamEndCapture(stream, &graph));
    CHECK(synchronisations == 0 && nulls_before == 0 && requests(10) == 0);
    standin->at_synchronize = NULL;
    standin->launch_code = CUDA_ERROR_INVALID_VALUE; /* a launch that fails: later requests do not */
    client_launch(f, NULL);
    standin->launch_code = 0;
    CHECK(requests(10) == 0 && !standin->capture_broken);
}

/* ---- traces ---- */

/* Requests of two kernels: argv: how the heap ends (end, reset: it is not the last; mm_reset: it was reset; fault: what is on the device cannot be read; many: there are more events than places). */
static void trace(int argc, char **argv) {
    CHECK(argc == 1);
    client_start();
    launch("make");
    CHECK(ref.open_bytes == 0 && ref.trace != 0);
    void *p = mm_closed_malloc(&ref, 100), *q = mm_closed_aligned_malloc(&ref, 4000, 128), *r = mm_closed_malloc(&ref, 3 << 20);
    CHECK(p && q && r && !mm_closed_malloc(&ref, 1ull << 50));
    launch("other");
    mm_closed_free(&ref, q), mm_closed_free(&ref, p), mm_closed_free(&ref, p);
    CHECK(mm_closed_malloc(&ref, 60));
    if (strcmp(argv[0], "many") == 0) {
        uint64_t *const count = &((struct mm_trace *)(uintptr_t)ref.trace)->count;
        CHECK(*count == 8 && ((struct mm_trace *)(uintptr_t)ref.trace)->room == MM_TRACE_EVENTS);
        for (unsigned i = 0; i < MM_TRACE_EVENTS / 2; i++) mm_closed_free(&ref, mm_closed_malloc(&ref, 8));
        CHECK(*count == 8ull + MM_TRACE_EVENTS);
    }
    if (strcmp(argv[0], "fault") == 0)
        standin->calls = 0, standin->fail_name = "cuMemcpyDtoHAsync_v2", standin->fail_code = CUDA_ERROR_LAUNCH_FAILED, standin->armed = true;
    if (strncmp(argv[0], "mm_reset", 8) == 0) {
        int (*reset)(void) = NULL;
        *(void **)&reset = dlsym(RTLD_DEFAULT, "mm_reset");
        if (strcmp(argv[0], "mm_reset-fails") == 0)
            standin->calls = 0, standin->fail_name = "cuMemcpyDtoHAsync_v2", standin->fail_code = CUDA_ERROR_UNKNOWN, standin->armed = true;
        CHECK(reset && reset() == MM_OK && mm_closed_malloc(&ref, 50));
        mm_closed_free(&ref, r); /* it is not live any more */
    }
    if (strcmp(argv[0], "reset") != 0) return;
    OK(cu.cuDevicePrimaryCtxReset(0));
    client_start();
    module = NULL;
    launch("make");
    CHECK(mm_closed_malloc(&ref, 7));
}

static int looks; /* launches that were waited for */
static void at_look(void) { looks++; }

/* argv: so many launches, each of which allocates a page or more. Prints how many of them were waited for. */
static void launches(int argc, char **argv) {
    CHECK(argc == 1);
    client_start();
    standin->at_synchronize = at_look;
    for (int i = 0; i < atoi(argv[0]); i++) {
        launch("make");
        CHECK(mm_heap_malloc(&ref, 100000));
    }
    standin->at_synchronize = NULL;
    printf("%d\n", looks);
}

static CUcontext with_threads;
static CUfunction function_of_threads;
static __thread bool is_second;
static void *launch_second(void *function) {
    is_second = true;
    OK(cu.cuCtxSetCurrent(with_threads));
    OK(client_launch((CUfunction)function, NULL));
    return NULL;
}
/* While one thread waits for its launch, a second one launches, and looks at the heap first. */
static void between_launch_and_look(void) {
    pthread_t second;
    if (is_second) return;
    CHECK(pthread_create(&second, NULL, launch_second, function_of_threads) == 0);
    pthread_join(second, NULL);
}

/* argv: so many launches, of two threads in turn. */
static void launches_of_threads(int argc, char **argv) {
    CHECK(argc == 1);
    with_threads = client_start();
    launch("make");
    function_of_threads = client_function("mm");
    standin->at_synchronize = between_launch_and_look;
    for (int i = 1; i < atoi(argv[0]); i += 2) OK(client_launch(function_of_threads, NULL));
    standin->at_synchronize = NULL;
}

/* The memory of the trace is refused: the heap has none, and is open. */
static void trace_refused(int argc, char **argv) {
    (void)argc, (void)argv;
    client_start();
    standin->calls = 0, standin->fail_name = "cuMemAlloc_v2", standin->fail_code = CUDA_ERROR_OUT_OF_MEMORY, standin->armed = true;
    launch("make");
    CHECK(ref.open_bytes != 0 && ref.trace == 0 && mm_heap_malloc(&ref, 100));
}

/* Objects of another allocator. argv: the image, the name of its allocator. Prints what the program learns of them. */
static void usage_of_sibling(int argc, char **argv) {
    static struct mm_usage_statistics u;
    int (*get)(struct mm_usage_statistics *) = mm_get_usage;
    CHECK(argc == 2);
    if (!get) *(void **)&get = dlsym(RTLD_DEFAULT, "mm_get_usage");
    client_start();
    OK(client_launch(client_function(argv[0]), NULL));
    (strncmp(argv[1], "random-walk", 11) == 0 ? client_use_walks
     : strncmp(argv[1], "circular", 8) == 0   ? client_use_rings
     : strncmp(argv[1], "ouroboros", 9) == 0  ? client_use_chunks
                                              : client_use_bumps)(&standin->last_ref);
    u.struct_bytes = sizeof u;
    CHECK(get(&u) == MM_OK && strcmp(u.allocator, argv[1]) == 0);
    printf("%lld objects, %llu bytes, %llu held, %llu pages;", (long long)u.live_objects, u.live_bytes, u.held_bytes, u.class_pages);
    for (size_t i = 0; i < u.class_count; i++) printf(" %llu up to %zu: %llu;", u.classes[i].live_objects, u.classes[i].slice_bytes, u.classes[i].live_bytes);
    printf("\n");
    CHECK(u.segment_bytes * (u.paged_segments + u.run_segments + u.free_segments + u.spare_segments) == u.heap_bytes);
}

const struct scenario client_report_scenarios[] = {
    {"usage-sibling", usage_of_sibling},
    {"fill", fill},
    {"trace", trace},
    {"trace-refused", trace_refused},
    {"launches", launches},
    {"launches-threads", launches_of_threads},
    {"fail", fail},
    {"fail-kernel", fail_kernel},
    {"checked-faults", checked_faults},
    {"checked", checked},
    {"usage", usage},
    {"usage-program", usage_of_program},
    {"misuse", synchronised},
    {"misuse-context-ends", context_ends},
    {"misuse-idle", idle},
    {"misuse-kinds", kinds},
    {NULL, NULL},
};
