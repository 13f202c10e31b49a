/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* --replay FILE: runs a trace's requests on each chosen allocator, in a child each; --check-trace FILE: only reads it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mmbench/child/trace.h"
#include "tools/mmbench/mmbench.h"

#define LINE MM_BENCH_LINE_BYTES
#define MIB(bytes) ((double)(bytes) / (1 << 20))
#define BUILTIN_HEAP (8ull << 30) /* CUDA's heap does not grow */

static const char ended[] = "ended"; /* a child: then it need not be killed */

static bool try_read(struct trace *t, const char *option, const char *path) {
    char why[TRACE_WHY_BYTES];
    memset(t, 0, sizeof *t);
    if (strlen(path) < MM_BENCH_PATH_MAX && !strchr(path, '\n') && !trace_read_file(t, path, why)) return true;
    if (strlen(path) >= MM_BENCH_PATH_MAX || strchr(path, '\n')) snprintf(why, sizeof why, "expected a name below %d bytes, of one line", MM_BENCH_PATH_MAX);
    fprintf(stderr, "mmbench: %s: \"%s\": %s\n", option, path, why);
    trace_end(t);
    return false;
}

static void print_trace(const char *path, const struct trace *t) {
    printf("%s: %llu mallocs, %llu NULLs, %llu frees in %u launches; %.1f MiB live at most; %llu events dropped\n", path, (unsigned long long)t->mallocs,
           (unsigned long long)t->nulls, (unsigned long long)t->frees, t->launches, MIB(t->most_live), (unsigned long long)t->dropped);
}

int mm_bench_check_trace(const char *path) {
    struct trace t;
    if (!try_read(&t, "--check-trace", path)) return MM_BENCH_EXIT_USAGE;
    print_trace(path, &t);
    trace_end(&t);
    return EXIT_SUCCESS;
}

/* The child's next answer; NULL: it has none, and the session's remark or `why` says why. */
static const char *hear(struct mm_bench_session *s, char line[LINE], unsigned seconds, const char **why) {
    double deadline = 0;
    const enum mm_bench_said said = mm_bench_session_read(s, line, seconds, &deadline);
    if (said == MM_BENCH_LINE) return line;
    *why = said == MM_BENCH_SILENT ? "did not answer in time (--timeout)" : said == MM_BENCH_INTERRUPTED ? "interrupted" : ended;
    return NULL;
}

/* Runs the trace in a child. Returns the answer, or NULL. */
static const char *ask(struct mm_bench_session *s, const struct mm_bench_options *o, const char *path, char line[LINE], const char **why) {
    char request[LINE];
    if (!hear(s, line, o->timeout, why)) return NULL;
    snprintf(request, sizeof request, "replay %u %s\n", o->runs, path);
    mm_bench_session_send(s, request);
    return hear(s, line, o->timeout, why);
}

/* One row of the table. Returns whether there are numbers, and nothing is corrupt. */
static bool replay_on(enum mm_bench_allocator allocator, const struct mm_bench_options *o, const char *path, const struct trace *t) {
    const uint64_t heap = o->heap ? o->heap : allocator == MM_BENCH_BUILTIN ? BUILTIN_HEAP : 0;
    struct mm_bench_session s;
    char line[LINE] = "";
    const char *why = ended;
    double ms[3];
    unsigned runs;
    unsigned long long taken, nulls, corrupt;
    if (!mm_bench_session_open(&s, allocator, heap, o->timeout)) return fprintf(stderr, "mmbench: --replay: no process: %s\n", strerror(errno)), false;
    const char *answer = ask(&s, o, path, line, &why);
    const bool is_told = answer && sscanf(answer, "replay %lf %lf %lf %u %llu %llu %llu", &ms[0], &ms[1], &ms[2], &runs, &taken, &nulls, &corrupt) == 7;
    if (answer && !is_told) why = "said what is no answer";
    mm_bench_session_close(&s, !is_told && why != ended, o->timeout);
    printf("%-21s", mm_bench_allocator_names[allocator]);
    if (is_told)
        printf(" %10.3f %10.3f %10.3f %6u %12.1f %10.2f %10llu%s\n", ms[0], ms[1], ms[2], runs, MIB(taken),
               t->most_live ? (double)taken / (double)t->most_live : 0, nulls, corrupt ? "  corrupt" : "");
    else printf(" failed: %s\n", s.remark[0] ? s.remark : why);
    return is_told && !corrupt;
}

int mm_bench_replay(const struct mm_bench_options *o) {
    struct mm_bench_machine machine;
    struct trace t;
    bool done = true;
    if (!try_read(&t, "--replay", o->replay)) return MM_BENCH_EXIT_USAGE;
    mm_bench_catch_signals();
    memset(&machine, 0, sizeof machine);
    if (!mm_bench_find_children(o->allocators) || !mm_bench_identify(o, &machine)) return trace_end(&t), MM_BENCH_EXIT_FAILED;
    print_trace(o->replay, &t);
    printf("%-21s %10s %10s %10s %6s %12s %10s %10s\n", machine.gpu, "ms", "least", "most", "runs", "taken MiB", "over live", "NULLs");
    for (int a = 0; a < MM_BENCH_ALLOCATORS; a++)
        if (o->allocators[a] && !replay_on((enum mm_bench_allocator)a, o, o->replay, &t) && a == MM_BENCH_MM) done = false;
    trace_end(&t);
    return done ? EXIT_SUCCESS : MM_BENCH_EXIT_MM_ROW;
}
