/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of the pool (MM_POOL): its output goes to a pipe, which nobody reads at first. */
#include "client_pool.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int ended;
static void note_end(void) { __atomic_add_fetch(&ended, 1, __ATOMIC_RELEASE); }
static void *ends_a_context(void *context) {
    OK(cu.cuCtxDestroy((CUcontext)context));
    return NULL;
}
static CUcontext with_pool(CUcontext current) {
    CUcontext context;
    OK(cu.create(&context, 0, 0));
    allocate(KIB);
    OK(cu.cuCtxSetCurrent(current));
    return context;
}
/* A thread is about to write the output of a context that has ended. */
static pthread_t end_one(CUcontext context) {
    pthread_t ender;
    CHECK(pthread_create(&ender, NULL, ends_a_context, context) == 0);
    return ender;
}

/* Reads all, and returns how many outputs there are: how often it has `word`, which the first one begins with. */
static int outputs(const char *path, const char *word) {
    static char text[100000];
    FILE *const file = fopen(path, "r");
    CHECK(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    if (strncmp(text, word, strlen(word)) != 0) return 0;
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) n++;
    return n;
}

/* drawing FILE WORD [stuck]: the outputs of two contexts have the same file. Another thread uses its pool meanwhile. They are written one after the other.
 * stuck: the first one takes longer than the second one waits. */
static void drawing(int argc, char **argv) {
    char moved[100];
    CHECK(argc >= 2 && mkfifo(argv[0], 0600) == 0);
    alarm(20);
    CUcontext first = client_start();
    allocate(KIB);
    standin->at_end = note_end;
    CUcontext contexts[2]; /* made before one ends: no handle comes twice */
    for (int i = 0; i < 2; i++) contexts[i] = with_pool(first);
    const pthread_t one = end_one(contexts[0]), two = end_one(contexts[1]);
    while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) != 2) usleep(100);
    usleep(argc == 2 ? 100000 : 1500000);
    for (int i = 0; i < 100; i++) OK(cu.cuMemFree(allocate(3 * MIB)));
    snprintf(moved, sizeof moved, "%s.moved", argv[0]);
    CHECK(rename(argv[0], moved) == 0);
    CHECK(outputs(moved, argv[1]) == 1);
    pthread_join(one, NULL), pthread_join(two, NULL);
    alarm(0);
    if (argc == 2) CHECK(outputs(argv[0], argv[1]) == 1 && unlink(argv[0]) == 0); /* a file */
    CHECK(access(argv[0], F_OK) != 0 && unlink(moved) == 0);
}

/* drawing-late FILE [unread]: the process ends while a picture is under way. unread: for longer than it waits. */
static pid_t reader;
static int begin_reading[2];
static void check_reader(void) {
    int status;
    if (waitpid(reader, &status, 0) != reader || status != 0) _exit(1);
}
static void let_read(void) { CHECK(write(begin_reading[1], "", 1) == 1); }
static void read_late(const char *path) {
    char c;
    alarm(10);
    CHECK(read(begin_reading[0], &c, 1) == 1);
    usleep(100000);
    _exit(outputs(path, "<svg ") != 1);
}
static void drawing_late(int argc, char **argv) {
    CHECK(argc >= 1 && mkfifo(argv[0], 0600) == 0 && pipe(begin_reading) == 0);
    if (argc == 1) {
        reader = fork();
        if (reader == 0) read_late(argv[0]);
        CHECK(reader > 0 && atexit(check_reader) == 0); /* after mm's */
    }
    alarm(20);
    CUcontext first = client_start();
    standin->at_end = note_end;
    end_one(with_pool(first));
    while (__atomic_load_n(&ended, __ATOMIC_ACQUIRE) != 1) usleep(100);
    usleep(100000);
    if (argc == 1) CHECK(atexit(let_read) == 0); /* before mm's */
}

const struct scenario client_pool_output_scenarios[] = {{"pool-drawing", drawing}, {"pool-drawing-late", drawing_late}, {NULL, NULL}};
