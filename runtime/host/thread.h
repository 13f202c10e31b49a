/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Threads of libmm.so in the program's process. */
#ifndef MM_HOST_THREAD_H
#define MM_HOST_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Starts a thread that takes no signals, since these must be delivered to the program's threads. name: up to 15 characters. Returns 0, or an errno. Needs
 * _GNU_SOURCE. */
static inline int mm_host_thread_start(pthread_t *thread, void *(*work)(void *), void *argument, const char *name) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(thread, NULL, work, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) pthread_setname_np(*thread, name);
    return failed;
}

/* Makes a condition whose waits end by CLOCK_MONOTONIC. */
static inline void mm_host_condition_make(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

#endif
