/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Fault injection (make faults): every driver call that libmm.so makes, at every stage of a heap's life, fails once with each of
 * several errors; and the driver blocks. Each runs in a separate process (client_grow.c, client_edges.c, client_jit.c). Expected: the
 * program ends normally, in time, with status 0; at most one line that begins with "mm: ", and one if it has less memory than it
 * asked for, unless the driver is going away. Ends with "faults: N injected, M mishandled". Working directory: folder of the
 * programs; argv[1]: folder of libmm.so.1; argv[2]: number of processes in which 16 threads race to a first launch.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECONDS 30 /* longer is a hang */

static char preload[4096];
static long injected, mishandled;

struct result {
    int status;
    char out[2048], err[4096];
    double ms;
};

static void read_all(FILE *f, char *to, size_t size) {
    rewind(f);
    to[fread(to, 1, size - 1, f)] = 0;
    fclose(f);
}
static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Runs client v2-legacy ARGUMENTS... with an additional setting. */
static struct result run(const char *setting, const char *const *arguments) {
    struct result r = {-1, "", "", now_ms()};
    const char *argv[8] = {"./client", "v2-legacy"};
    for (int i = 0; arguments[i]; i++) argv[2 + i] = arguments[i];
    FILE *out = tmpfile(), *err = tmpfile();
    const pid_t child = out && err ? fork() : -1;
    if (child < 0) exit(2);
    if (child == 0) {
        dup2(fileno(out), 1);
        dup2(fileno(err), 2);
        putenv(preload);
        if (setting) putenv((char *)(void *)setting);
        alarm(SECONDS);
        execv(argv[0], (char *const *)(void *)argv);
        _exit(99);
    }
    int status = 0;
    waitpid(child, &status, 0);
    r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    read_all(out, r.out, sizeof r.out);
    read_all(err, r.err, sizeof r.err);
    r.ms = now_ms() - r.ms;
    return r;
}

static int lines(const char *text) {
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static void wrong(const char *what, const char *stage, const char *code, int k, const struct result *r) {
    mishandled++;
    printf("%s, call %d, error %s: %s; status %d, %.0f ms; \"%s\" \"%s\"\n", stage, k, code, what, r->status, r->ms, r->out, r->err);
}

/* The k-th call of a stage fails, for each k up to the number of calls. */
static void stage_with(const char *stage, const char *code) {
    const bool is_quiet = strcmp(code, "4") == 0; /* the driver is going away */
    for (int k = 1; k < 1000; k++) {
        char number[16], call[64] = "", less[16] = "";
        snprintf(number, sizeof number, "%d", k);
        const struct result r =
            run("MM_GROW_WAIT_MS=3000", (const char *const[]){strcmp(stage, "load") == 0 ? "fault-jit" : "fault-grow", stage, number, code, NULL});
        const bool understood = sscanf(r.out, "%63s %15s", call, less) == 2;
        if (r.status == 0 && understood && strcmp(call, "-") == 0) return; /* no more calls */
        injected++;
        if (r.status != 0 || !understood) wrong("it does not go on", stage, code, k, &r);
        else if (lines(r.err) > 1 || (*r.err && strncmp(r.err, "mm: ", 4) != 0)) wrong("not one line", stage, code, k, &r);
        else if (strcmp(less, "less") == 0 && lines(r.err) == 0 && !is_quiet && strcmp(stage, "give-back") != 0 && strcmp(stage, "limit") != 0)
            wrong("no line says why", stage, code, k, &r);
    }
    printf("%s, error %s: it never comes to an end\n", stage, code);
    mishandled++;
}

/* A scenario that injects its own fault: status 0, and at most one line. */
static void scenario(const char *name, const char *argument, const char *setting, double most_ms) {
    const struct result r = run(setting, (const char *const[]){name, argument, NULL});
    injected++;
    if (r.status != 0 || r.ms > most_ms || lines(r.err) > 1) wrong("not as it should be", name, "-", 0, &r);
}

int main(int argc, char **argv) {
    static const char *const stages[] = {"create", "grow", "limit", "give-back", "load"};
    static const char *const codes[] = {"2", "999", "4", "801"}; /* memory, unknown, gone, not supported */
    if (argc < 3) return 2;
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s/libmm.so.1", argv[1]);
    setenv("LD_LIBRARY_PATH", ".", 1);
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++)
        for (size_t c = 0; c < (s == 0 ? 4 : 3); c++) {
            const long before = injected;
            stage_with(stages[s], codes[c]);
            if (injected - before < (strcmp(stages[s], "create") == 0 ? 25 : strcmp(stages[s], "limit") == 0 ? 3 : 5)) {
                printf("%s, error %s: only %ld calls were failed\n", stages[s], codes[c], injected - before);
                mishandled++;
            }
        }
    scenario("grow", NULL, NULL, 20000);
    scenario("runs", NULL, NULL, 20000);
    scenario("alignment", NULL, NULL, 20000);
    scenario("exhausted", "300000000", NULL, 20000);
    scenario("exhausted", "900000000", NULL, 20000);
    scenario("blocked", NULL, "MM_GROW_WAIT_MS=20", 20000);
    scenario("blocked", NULL, "MM_GROW_WAIT_MS=5", 20000);
    scenario("ending", NULL, "MM_GROW_WAIT_MS=20000", 20000);
    scenario("full", NULL, NULL, 20000);
    scenario("held", NULL, NULL, 20000);
    scenario("metadata", NULL, NULL, 20000);
    scenario("capped", NULL, "MM_HEAP_MAX=1G", 20000);
    scenario("pressure", NULL, NULL, 20000);
    scenario("others", NULL, NULL, 20000);
    scenario("graph", NULL, "MM_TRIM=idle", 20000);
    scenario("idle", NULL, "MM_TRIM=idle", 20000);
    scenario("decay", NULL, "MM_TRIM=1", 60000);
    scenario("kept", NULL, "MM_TRIM=off", 20000);
    scenario("races", argv[2], NULL, 60000);
    printf("faults: %ld injected, %ld mishandled\n", injected, mishandled);
    return mishandled != 0;
}
