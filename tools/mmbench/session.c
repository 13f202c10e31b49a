/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One child process. Its input and output are pipes; its error output goes to the same pipe as its output, so that its last
 * message is known. It is killed when mmbench dies. Every read ends at a deadline, whatever the child does.
 */
#define _GNU_SOURCE /* pipe2 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/mmbench/mmbench.h"

#define PATH_BYTES 4096
#define KILL_SECONDS 60 /* the driver must free the GPU memory of a killed process, which may take a while */

static char child_paths[MM_BENCH_ALLOCATORS][PATH_BYTES];
static char preload[PATH_BYTES];
static volatile sig_atomic_t interrupted;

static void on_signal(int number) { interrupted = number; }

void mm_bench_catch_signals(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_signal; /* no SA_RESTART: a signal must end poll */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN; /* a read detects that the child has ended */
    sigaction(SIGPIPE, &action, NULL);
}

/* Sets path to PREFIX/FOLDER/NAME, with the first of two folders that holds the file. */
static bool find(char *path, const char *prefix, const char *const *folders, const char *name) {
    for (int i = 0; i < 2; i++) {
        const int n = snprintf(path, PATH_BYTES, "%s/%s/%s", prefix, folders[i], name);
        if (n > 0 && n < PATH_BYTES && access(path, R_OK) == 0) return true;
    }
    return false;
}

/* Sets prefix to PREFIX, where this program is PREFIX/bin/mmbench. False: one line was written to stderr. */
static bool find_prefix(char *prefix) {
    const ssize_t n = readlink("/proc/self/exe", prefix, PATH_BYTES - 1);
    if (n <= 0) {
        fprintf(stderr, "mmbench: cannot resolve its own path: %s; expected /proc to be there\n", strerror(errno));
        return false;
    }
    prefix[n] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(prefix, '/');
        if (slash) *slash = '\0';
    }
    return true;
}

static const char *const bench_folders[] = {"lib/mm/bench", "lib/bench"};

void mm_bench_plot(const char *directory, char *const *files, int count) {
    char prefix[PATH_BYTES], path[PATH_BYTES];
    char plot[] = "plot", *name = strdup(directory);
    if (!find_prefix(prefix)) return free(name);
    if (!find(path, prefix, bench_folders, plot)) {
        fprintf(stderr, "mmbench: plot is neither in %s/lib/mm/bench nor in %s/lib/bench\n", prefix, prefix);
        return free(name);
    }
    char **arguments = (char **)calloc((size_t)count + 3, sizeof *arguments);
    if (arguments && name) {
        arguments[0] = path;
        arguments[1] = name;
        for (int i = 0; i < count; i++) arguments[2 + i] = files[i];
        execv(path, arguments);
    }
    free(arguments);
    free(name);
    fprintf(stderr, "mmbench: --plot: \"%s\" cannot be run: %s; expected python3 in PATH\n", path, strerror(errno));
}

bool mm_bench_find_children(const bool *allocators) {
    static const char *const libraries[] = {"lib/mm", "lib"};
    char prefix[PATH_BYTES], name[64];
    if (!find_prefix(prefix)) return false;
    for (int a = 0; a < MM_BENCH_ALLOCATORS; a++) {
        snprintf(name, sizeof name, "mmbench-%s", mm_bench_allocator_names[mm_bench_is_pool((enum mm_bench_allocator)a) ? MM_BENCH_MM : a]);
        if (allocators[a] && !find(child_paths[a], prefix, bench_folders, name)) {
            fprintf(stderr, "mmbench: %s is neither in %s/lib/mm/bench nor in %s/lib/bench%s\n", name, prefix, prefix,
                    a > MM_BENCH_BUILTIN ? "; make allocators builds it" : "");
            return false;
        }
    }
    /* The child's run path is that of the build; LD_PRELOAD finds libmm.so.1 at its present place. */
    if (!find(preload, prefix, libraries, "libmm.so.1") || strpbrk(preload, ": ")) preload[0] = '\0';
    return true;
}

/* Runs in the new process; does not return. */
static void become_child(enum mm_bench_allocator allocator, uint64_t heap, unsigned seconds, int in, int out) {
    char bytes[32], limit[32];
    snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)heap);
    snprintf(limit, sizeof limit, "%u", seconds);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0); /* Ctrl-C on a terminal must reach mmbench only, which then ends the child */
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    unsetenv("MM_HEAP_SIZE");
    unsetenv("MM_HEAP_MAX");
    if (allocator != MM_BENCH_BUILTIN && heap != 0) { /* the whole heap from the start, and no growth, as with CUDA's allocator */
        setenv("MM_HEAP_SIZE", bytes, 1);
        setenv("MM_HEAP_MAX", bytes, 1);
    }
    if (mm_bench_is_pool(allocator)) {
        setenv("MM_POOL", "async", 1);
        setenv("MM_POOL_CARVE", "64M", 1); /* the largest block of the cases of the host */
        setenv("MM_POOL_FIT", strchr(mm_bench_allocator_names[allocator], '-') + 1, 1);
    }
    if (allocator != MM_BENCH_BUILTIN && preload[0]) setenv("LD_PRELOAD", preload, 1);
    execl(child_paths[allocator], child_paths[allocator], bytes, limit, (char *)NULL);
    dprintf(STDOUT_FILENO, "cannot be run: %s\n", strerror(errno));
    _exit(127);
}

bool mm_bench_session_open(struct mm_bench_session *s, enum mm_bench_allocator allocator, uint64_t heap, unsigned seconds) {
    int in[2], out[2];
    memset(s, 0, sizeof *s);
    if (pipe2(in, O_CLOEXEC) != 0) return false;
    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        return false;
    }
    s->pid = fork();
    if (s->pid == 0) become_child(allocator, heap, seconds, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    s->to = in[1];
    s->from = out[0];
    if (s->pid > 0) return true;
    close(s->to);
    close(s->from);
    s->pid = 0;
    return false;
}

void mm_bench_session_send(struct mm_bench_session *s, const char *line) {
    size_t length = strlen(line);
    while (length > 0) {
        const ssize_t n = write(s->to, line, length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        line += n;
        length -= (size_t)n;
    }
}

/* Takes the first line out of the buffer. If the buffer is full without a line end, its contents count as a line. */
static bool take_line(struct mm_bench_session *s, char *line) {
    const char *end = (const char *)memchr(s->buffer, '\n', s->length);
    if (!end && s->length < sizeof s->buffer - 1) return false;
    const size_t n = end ? (size_t)(end - s->buffer) : s->length, taken = end ? n + 1 : n;
    memcpy(line, s->buffer, n);
    line[n] = '\0';
    memmove(s->buffer, s->buffer + taken, s->length - taken);
    s->length -= taken;
    return true;
}

enum mm_bench_said mm_bench_session_read(struct mm_bench_session *s, char *line, unsigned seconds, double *deadline) {
    if (*deadline <= 0) *deadline = mm_bench_now() + seconds;
    for (;;) {
        while (take_line(s, line)) {
            if (line[0] == '@') {
                memmove(line, line + 1, strlen(line));
                if (strncmp(line, "fatal ", 6) != 0) return MM_BENCH_LINE;
                memmove(line, line + 6, strlen(line + 5));
            }
            if (line[0]) memcpy(s->remark, line, strlen(line) + 1);
        }
        if (interrupted) return MM_BENCH_INTERRUPTED;
        const double left = *deadline - mm_bench_now();
        if (left <= 0) return MM_BENCH_SILENT;
        struct pollfd fd = {.fd = s->from, .events = POLLIN, .revents = 0};
        const int ready = poll(&fd, 1, left < 1 ? (int)(left * 1000) + 1 : 1000);
        if (ready <= 0) {
            mm_bench_progress_tick();
            continue;
        }
        const ssize_t n = read(s->from, s->buffer + s->length, sizeof s->buffer - 1 - s->length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return MM_BENCH_ENDED;
        s->length += (size_t)n;
    }
}

/* Waits for the child's end, and reads its remaining output, so that it does not block on the pipe. True once it has ended. */
static bool ended_within(struct mm_bench_session *s, double seconds, int *status) {
    const double deadline = mm_bench_now() + seconds;
    char rest[256];
    bool open = true;
    for (;;) {
        if (waitpid(s->pid, status, WNOHANG) == s->pid) return true;
        if (interrupted || mm_bench_now() > deadline) return false;
        struct pollfd fd = {.fd = s->from, .events = POLLIN, .revents = 0};
        if (open && poll(&fd, 1, 20) > 0) open = read(s->from, rest, sizeof rest) > 0;
        else if (!open) nanosleep(&(struct timespec){.tv_sec = 0, .tv_nsec = 5000000}, NULL);
    }
}

void mm_bench_session_close(struct mm_bench_session *s, bool kill_it, unsigned seconds) {
    int status = 0;
    if (s->pid <= 0) return;
    close(s->to);
    if (kill_it || !ended_within(s, seconds, &status)) {
        const int saved = interrupted;
        kill(s->pid, SIGKILL);
        interrupted = 0;
        if (!ended_within(s, KILL_SECONDS, &status))
            fprintf(stderr, "mmbench: process %d does not end; what is measured now shares the GPU with it\n", (int)s->pid);
        if (saved) interrupted = saved;
    } else if (WIFSIGNALED(status)) {
        snprintf(s->remark, sizeof s->remark, "killed by signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0 && !s->remark[0]) {
        snprintf(s->remark, sizeof s->remark, "exit status %d", WEXITSTATUS(status));
    }
    close(s->from);
    s->pid = 0;
}
