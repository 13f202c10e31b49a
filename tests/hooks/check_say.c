/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* mm's messages (runtime/host/say.c) when standard error is closed, a pipe without reads, or a file of the program. Each test
 * prints in a child, which an alarm ends if it hangs. argv[1] == "file": such a child. */
#define _GNU_SOURCE /* F_SETPIPE_SZ, pipe2 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mmconfig.h"
#include "runtime/host/clock.h"
#include "runtime/host/say.h"
#include "tests/runner.h"

static const char *self;

/* Runs work(argument) in a child. Returns its result, or 1000 + the signal that ended it. */
static int in_child(int (*work)(int), int argument) {
    const pid_t child = fork();
    ck_assert(child >= 0);
    if (child == 0) {
        alarm(30);
        _exit(work(argument));
    }
    int status = 0;
    ck_assert(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void fill(int fd) {
    char page[4096];
    memset(page, 'x', sizeof page);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (write(fd, page, sizeof page) > 0) continue;
    while (write(fd, page, 1) > 0) continue;
    fcntl(fd, F_SETFL, 0);
}

/* ---- no reader ---- */

static int says_to_nobody(int kind) { /* 0: closed; 1: a pipe without a reader; 2: a socket without one */
    int ends[2];
    sigset_t mask;
    if (kind == 2 ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) return 90;
    close(ends[0]);
    dup2(ends[1], 2);
    if (kind == 0) close(2);
    errno = 77;
    mm_host_say("line");
    if (errno != 77) return 91;
    /* the program's handling of SIGPIPE is unchanged */
    if (pthread_sigmask(SIG_BLOCK, NULL, &mask) != 0 || sigismember(&mask, SIGPIPE)) return 92;
    return 7;
}
START_TEST(nobody) { ck_assert_int_eq(in_child(says_to_nobody, _i), 7); }
END_TEST

static volatile int signals;
static void count(int signal) { (void)signal, signals++; }
static int handles(int is_blocked) {
    int ends[2];
    sigset_t broken, pending;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    signal(SIGPIPE, count);
    if (pipe(ends)) return 90;
    close(ends[0]);
    dup2(ends[1], 2);
    if (is_blocked) {
        pthread_sigmask(SIG_BLOCK, &broken, NULL);
        raise(SIGPIPE); /* pending for the program, and must stay so */
    }
    mm_host_say("line");
    if (signals != 0) return 91;
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == is_blocked ? 7 : 92;
}
START_TEST(the_programs_signals) { ck_assert_int_eq(in_child(handles, _i), 7); }
END_TEST

/* ---- a reader that does not read ---- */

static int says_to_a_sleeper(int kind) {
    int ends[2];
    char text[1 << 17];
    if (kind == 2 ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) return 90;
    fill(ends[1]);
    dup2(ends[1], 2);
    const uint64_t begin_us = mm_host_now_us();
    for (int i = 0; i < 100; i++) mm_host_say("line %d", i);
    if (mm_host_now_us() - begin_us > 50ull * MM_HOST_SAY_MS * 1000) return 91; /* the lines do not each wait the full time */
    if (fcntl(2, F_GETFL) & O_NONBLOCK) return 92;
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the reader reads again */
    while (read(ends[0], text, sizeof text) > 0) continue;
    mm_host_say("again");
    const ssize_t n = read(ends[0], text, sizeof text);
    return n == 10 && memcmp(text, "mm: again\n", 10) == 0 ? 7 : 93;
}
START_TEST(nobody_reads) { ck_assert_int_eq(in_child(says_to_a_sleeper, _i + 1), 7); }
END_TEST

/* ---- a file ---- */

static int begins_with_it_closed(int nothing) {
    (void)nothing;
    close(2);
    execl(self, self, "file", (char *)NULL);
    return 90;
}
static int as_a_file(void) {
    char path[] = "/tmp/check_say.XXXXXX", text[8];
    const int fd = mkstemp(path);
    unlink(path);
    if (fd != 2) return 91;
    mm_host_say("line");
    return pread(fd, text, sizeof text, 0) == 0 ? 7 : 92;
}
START_TEST(a_file_of_the_programs) { ck_assert_int_eq(in_child(begins_with_it_closed, 0), 7); }
END_TEST

static int says_into_files(int nothing) {
    char path[] = "/tmp/check_say.XXXXXX", text[32];
    (void)nothing;
    const int fd = mkstemp(path);
    unlink(path);
    dup2(fd, 2);
    mm_host_say("line %d", 1);
    mm_host_say("line %d", 2);
    return pread(fd, text, sizeof text, 0) == 22 && memcmp(text, "mm: line 1\nmm: line 2\n", 22) == 0 ? 7 : 91;
}
START_TEST(files) { ck_assert_int_eq(in_child(says_into_files, 0), 7); }
END_TEST

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1 && strcmp(argv[1], "file") == 0) return as_a_file();
    Suite *s = suite_create("say");
    TCase *c = tcase_create("say");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, nobody, 0, 3);
    tcase_add_loop_test(c, the_programs_signals, 0, 2);
    tcase_add_loop_test(c, nobody_reads, 0, 2);
    tcase_add_test(c, a_file_of_the_programs);
    tcase_add_test(c, files);
    suite_add_tcase(s, c);
    return suite_run(s);
}
