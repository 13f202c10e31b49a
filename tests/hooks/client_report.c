/* Scenarios of what is printed about misuse. "Kernels" are this process: it runs the allocator's own source on the heap. What is
 * wanted on standard error, and in which order, stands in check_hooks.c. */
#include "client.h"

#include <unistd.h>

#include "runtime/core/heap.h"

static struct mm_heap_ref ref;

static void say(const char *line) { CHECK(write(STDERR_FILENO, line, strlen(line)) == (ssize_t)strlen(line)); }

static void begin(void) {
    client_start();
    OK(client_launch(client_function("mm"), NULL));
    ref = standin->last_ref;
    usleep(400000); /* the heap's thread looks every 20 ms only, by now */
}

static void misuse(uint64_t address) { mm_heap_free(&ref, (void *)(uintptr_t)address); }

/* A line for each, printed when the program has synchronised; at the end the others, and how many there were. argv: how many more. */
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

/* What was told when the context ends. */
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

/* Who prints if the program does nothing. */
static void idle(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    misuse(0x1000);
    usleep(1500000);
    say("later\n");
}

/* Each kind, of the address in the middle of its line. */
static void kinds(int argc, char **argv) {
    (void)argc, (void)argv;
    begin();
    char *p = (char *)mm_heap_malloc(&ref, 100), *q = (char *)mm_heap_malloc(&ref, 100), *run = (char *)mm_heap_malloc(&ref, 6 << 20);
    CHECK(p && q > p && run);
    char *const bad[] = {p + 16, run + 16, run + MM_SEGMENT_BYTES, q + (q - p), p, run};
    mm_heap_free(&ref, p), mm_heap_free(&ref, run);
    CHECK((run = (char *)mm_heap_malloc(&ref, 6 << 20)) == bad[5]);
    for (int i = 0; i < 6; i++) {
        if (i == 5) mm_heap_free(&ref, run);
        mm_heap_free(&ref, bad[i]);
        printf("%#llx\n", (unsigned long long)(uintptr_t)bad[i]);
    }
}

const struct scenario client_report_scenarios[] = {
    {"misuse", synchronised}, {"misuse-context-ends", context_ends}, {"misuse-idle", idle}, {"misuse-kinds", kinds}, {NULL, NULL},
};
