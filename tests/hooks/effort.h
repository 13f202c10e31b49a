/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cost of a program's run in numbers that do not depend on the machine's load: instructions, system calls, page faults. */
#ifndef MM_HOOKS_EFFORT_H
#define MM_HOOKS_EFFORT_H

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/hooks/suite.h"

enum { EFFORT_CALLS = 512 };
struct effort {
    long instructions, faults, calls[EFFORT_CALLS];
};

/* Starts argv with settings, as run() does; stops before its first instruction. */
static inline pid_t effort_begin(const char *const *settings, const char *const *argv) {
    int status;
    const pid_t child = fork();
    ck_assert(child >= 0);
    if (child == 0) {
        for (; settings && *settings; settings++) putenv((char *)(void *)*settings);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0) execv(argv[0], (char *const *)(void *)argv);
        _exit(99);
    }
    ck_assert(waitpid(child, &status, 0) == child);
    ck_assert_msg(WIFSTOPPED(status), "%s cannot be traced: status %#x", argv[0], (unsigned)status);
    return child;
}

/* Runs argv twice; it must end with status 0. The first run is single-stepped and counts at most `most` instructions. */
static inline struct effort effort_of(const char *const *settings, const char *const *argv, long most) {
    struct effort e = {0, 0, {0}};
    struct rusage usage;
    int status = 0;
    pid_t child = effort_begin(settings, argv);
    while (e.instructions < most && ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status))
        e.instructions++;
    if (e.instructions == most) { /* has not ended */
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    child = effort_begin(settings, argv);
    ck_assert(ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)PTRACE_O_TRACESYSGOOD) == 0);
    while (ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0 && wait4(child, &status, 0, &usage) == child && WIFSTOPPED(status)) {
        struct __ptrace_syscall_info call;
        if (ptrace(PTRACE_GET_SYSCALL_INFO, child, (void *)sizeof call, &call) <= 0 || call.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
        ck_assert(call.entry.nr < EFFORT_CALLS);
        e.calls[call.entry.nr]++;
    }
    ck_assert_int_eq(status, 0);
    e.faults = usage.ru_minflt + usage.ru_majflt;
    return e;
}

#endif
