/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* poll, sigtimedwait, O_CLOEXEC */
#include "runtime/host/say.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mmconfig.h"
#include "runtime/host/clock.h"

/* Standard error was closed when the program began. A file that gets its number later is the program's, and must not get our messages. */
static bool is_closed;
/* A message waited MM_HOST_SAY_MS and found no room. No message waits until there is room again. */
static bool is_stuck;

__attribute__((constructor)) static void look(void) { is_closed = fcntl(STDERR_FILENO, F_GETFD) < 0; }

/* Opens the pipe of standard error once more, for writes that never block. Returns the descriptor, or -1. The program's descriptor must not be made
 * non-blocking, since other processes share it. */
static int own_pipe(void) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", STDERR_FILENO);
    return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

/* Writes as much as is possible without waiting, up to PIPE_BUF. Returns the bytes written; 0: there is no room now; -1: an error. */
static ssize_t write_some(const char *text, size_t bytes) {
    struct stat what;
    struct pollfd room = {STDERR_FILENO, POLLOUT, 0};
    ssize_t n;
    if (bytes > PIPE_BUF) bytes = PIPE_BUF; /* so that a write into a pipe is all or nothing */
    if (fstat(STDERR_FILENO, &what) != 0) return -1;
    const int own = S_ISFIFO(what.st_mode) ? own_pipe() : -1;
    if (S_ISSOCK(what.st_mode)) n = send(STDERR_FILENO, text, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    else if (own >= 0) n = write(own, text, bytes);
    else if (!S_ISREG(what.st_mode) && poll(&room, 1, 0) == 0) return 0;
    else n = write(STDERR_FILENO, text, bytes);
    const bool is_full = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (own >= 0) close(own);
    return is_full ? 0 : n;
}

/* Returns whether all was written. Waits at most MM_HOST_SAY_MS for room, and not at all while is_stuck is set. */
static bool try_write(const char *text, size_t bytes) {
    const struct timespec moment = {0, 1000000};
    uint64_t since_us = mm_host_now_us();
    while (bytes != 0) {
        const ssize_t n = write_some(text, bytes);
        if (n < 0) return false;
        text += n, bytes -= (size_t)n;
        if (n != 0) {
            __atomic_store_n(&is_stuck, false, __ATOMIC_RELAXED);
            since_us = mm_host_now_us();
            continue;
        }
        if (__atomic_load_n(&is_stuck, __ATOMIC_RELAXED)) return false;
        nanosleep(&moment, NULL);
        if (mm_host_now_us() - since_us >= MM_HOST_SAY_MS * 1000ull) __atomic_store_n(&is_stuck, true, __ATOMIC_RELAXED);
    }
    return true;
}

/* A pipe without a reader must not end the program: SIGPIPE is blocked during our write, and consumed before the program's mask is restored. */
bool mm_host_say_text(const char *text, size_t bytes) {
    const struct timespec at_once = {0, 0};
    sigset_t broken, before, pending;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    if (sigpending(&pending) != 0 || pthread_sigmask(SIG_BLOCK, &broken, &before) != 0) return false;
    const bool done = !is_closed && try_write(text, bytes);
    if (!sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&broken, NULL, &at_once) < 0 && errno == EINTR) (void)0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return done;
}

void mm_host_say(const char *format, ...) {
    int saved = errno;
    char line[640] = "mm: ";
    const size_t prefix = 4;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + prefix, sizeof line - prefix - 1, format, args);
    va_end(args);
    if (n < 0) n = 0;
    size_t length = prefix + (size_t)n;
    if (length > sizeof line - 2) length = sizeof line - 2;
    line[length++] = '\n';
    mm_host_say_text(line, length);
    errno = saved;
}

struct mm_host_size_text mm_host_size(uint64_t bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    struct mm_host_size_text t;
    unsigned unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    if (unit == 0) snprintf(t.text, sizeof t.text, "%u bytes", (unsigned)bytes);
    else snprintf(t.text, sizeof t.text, "%.1f %s", value, units[unit]);
    return t;
}
