/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mmselftest PART: runs one part. Exit status: 0 all checks hold; 1 a check failed; 2 bad arguments; 3 no GPU.
 */
#define _GNU_SOURCE /* clock_gettime, prctl */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/selftest/parts.h"

enum { STATUS_GOOD, STATUS_FAILED, STATUS_USAGE, STATUS_NO_GPU };

static int status = STATUS_GOOD;

/* ---- output of parts -------------------------------------------------------------------------- */

static void line(const char *mark, const char *what, const char *figures, va_list arguments) {
    printf("%-6s  %-34s ", mark, what);
    vprintf(figures, arguments);
    printf("\n");
    fflush(stdout);
}

void check(int holds, const char *what, const char *figures, ...) {
    va_list arguments;
    va_start(arguments, figures);
    line(holds ? "ok" : "FAILED", what, figures, arguments);
    va_end(arguments);
    if (!holds) status = STATUS_FAILED;
}

void figure(const char *what, const char *figures, ...) {
    va_list arguments;
    va_start(arguments, figures);
    line("", what, figures, arguments);
    va_end(arguments);
}

/* The context may be broken: no clean-up. */
static void give_up(void) {
    fflush(stdout);
    _Exit(STATUS_FAILED);
}

void must(cudaError_t error, const char *call) {
    if (error == cudaSuccess) return;
    check(0, call, "%s", cudaGetErrorString(error));
    give_up();
}

void must_end(const char *what) {
    must(cudaGetLastError(), what);
    must(cudaDeviceSynchronize(), what);
}

double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the heap --------------------------------------------------------------------------------- */

struct mm_statistics statistics(void) {
    struct mm_statistics s;
    s.struct_bytes = sizeof s;
    const int result = mm_get_statistics(&s);
    if (result != MM_OK) {
        check(0, "mm_get_statistics", "answers %d; expected %d", result, MM_OK);
        give_up();
    }
    return s;
}

unsigned long long misuses(const struct mm_statistics *s) {
    return s->misuse_foreign + s->misuse_not_allocated + s->misuse_interior + s->misuse_never + s->misuse_double_free + s->misuse_overrun +
           s->misuse_after_free;
}

void check_live(unsigned long long objects, const char *what) {
    struct mm_usage_statistics usage;
    usage.struct_bytes = sizeof usage;
    const int result = mm_get_usage(&usage);
    if (result != MM_OK) check(0, what, "mm_get_usage answers %d; expected %d", result, MM_OK);
    else check(usage.live_objects == objects, what, "%llu objects live; expected %llu", usage.live_objects, objects);
}

size_t device_bytes(void) {
    size_t available, all;
    MUST(cudaMemGetInfo(&available, &all));
    return all;
}

size_t device_free_bytes(void) {
    size_t available, all;
    MUST(cudaMemGetInfo(&available, &all));
    return available;
}

/* ---- parts ------------------------------------------------------------------------------------ */

/* Prints one line for the head of the report. */
static void look(void) {
    struct cudaDeviceProp p;
    int driver = 0, runtime = 0;
    MUST(cudaGetDeviceProperties(&p, 0));
    MUST(cudaDriverGetVersion(&driver));
    MUST(cudaRuntimeGetVersion(&runtime));
    printf("%s, sm_%d%d, %.0f MB, %d multiprocessors; CUDA of the driver %d.%d, of this build %d.%d\n", p.name, p.major, p.minor, (double)p.totalGlobalMem / MB,
           p.multiProcessorCount, driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

static void need_gpu(void) {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count > 0) return;
    fprintf(stderr, "no GPU: %s\n", error == cudaSuccess ? "the driver has none" : cudaGetErrorString(error));
    _Exit(STATUS_NO_GPU);
}

/* Runs each workload in its own process, so that each has a fresh heap. The parent does not use CUDA, because CUDA does not work
 * in a child that was forked after its initialisation. */
static void footprint(void) {
    footprint_head();
    fflush(stdout);
    for (unsigned w = 0; w < footprint_count; w++) {
        int how = 0;
        const pid_t parent = getpid(), child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) _Exit(STATUS_FAILED);
            need_gpu();
            footprint_run(w);
            fflush(stdout);
            exit(status);
        }
        if (child < 0 || waitpid(child, &how, 0) != child || !WIFEXITED(how)) check(0, "a workload's process", "did not end by itself");
        else if (WEXITSTATUS(how) == STATUS_NO_GPU) exit(STATUS_NO_GPU);
        else if (WEXITSTATUS(how) != STATUS_GOOD) status = STATUS_FAILED;
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"look", look}, {"core", part_core}, {"stress", part_stress}, {"conv", part_conv}, {"footprint", footprint}};
    for (size_t i = 0; argc == 2 && i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(argv[1], parts[i].name) != 0) continue;
        if (parts[i].run != footprint) need_gpu();
        parts[i].run();
        return fflush(stdout) == 0 ? status : STATUS_FAILED;
    }
    fprintf(stderr, "mmselftest: expected one of look, core, stress, conv, footprint\n");
    return STATUS_USAGE;
}
