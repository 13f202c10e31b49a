/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of reports: misuse and statistics. This process acts as the kernels: it runs the allocator's source on the heap. The
 * lines expected on standard error, and their order, are in check_report.c. */
#include "client_sibling.h"

#include <unistd.h>

#include "include/mm.h"
#include "runtime/heap.h"

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
    OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1ull << 30)); /* mapped, but no kernel has seen it: what describes it is new memory */
    CHECK(get(&u) == MM_OK && u.heap_bytes == 1ull << 30 && u.spare_segments > 700 && u.live_objects == 1000 && u.runs == 1 && u.run_segments == 200);
    CHECK((u.paged_segments + u.run_segments + u.free_segments + u.spare_segments) * MM_SEGMENT_BYTES == u.heap_bytes);
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
    {"usage", usage},
    {"usage-program", usage_of_program},
    {"misuse", synchronised},
    {"misuse-context-ends", context_ends},
    {"misuse-idle", idle},
    {"misuse-kinds", kinds},
    {NULL, NULL},
};
