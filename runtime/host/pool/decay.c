/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A thread that gives the pools' memory back: when no call used a pool for MM_TRIM's time, and no work of the contexts is unfinished then; and when a heap
 * lacks memory, which the driver gives it once the running kernels have ended. */
#define _GNU_SOURCE /* pthread_timedjoin_np, pthread_setname_np */
#include <stdlib.h>
#include <time.h>

#include "runtime/host/clock.h"
#include "runtime/host/grower.h"
#include "runtime/host/pool/output.h"
#include "runtime/host/pool/pool.h"
#include "runtime/host/pool/state.h"
#include "runtime/host/say.h"
#include "runtime/host/thread.h"

static pthread_t thread;
static pthread_cond_t wake;                   /* of a monotonic clock */
static bool is_running, must_stop, is_wanted; /* is_wanted: a heap lacks memory */
static const struct mm_driver *driver;

/* Waits, with the lock open, until `ms` milliseconds have passed, the thread must stop, or, if it may be hurried, memory is wanted. 0: no limit. */
static void doze(unsigned ms, bool may_hurry) {
    const struct timespec t = mm_host_in_ms(CLOCK_MONOTONIC, ms);
    int r = 0;
    while (!must_stop && !(may_hurry && is_wanted) && r == 0)
        r = ms == 0 ? pthread_cond_wait(&wake, &mm_pool_lock) : pthread_cond_timedwait(&wake, &mm_pool_lock, &t);
}

/* Whether no pool has unfinished work. Without fences that is not known, and memory stays. */
static bool is_idle(const struct mm_driver *d) {
    for (struct mm_pool *p = mm_pools; p; p = p->next) {
        if (!p->context || p->endings != 0) continue;
        if (mm_pool_capture_count != 0 || !mm_fences_exist(d) || mm_pool_close_epoch(d, p) != CUDA_SUCCESS) return false;
        doze(MM_POOL_FENCE_MS, false);
        if (must_stop || !p->context || p->endings != 0 || mm_pool_capture_count != 0) return false; /* a capture would be broken by the query */
        mm_fences_poll(d, &p->fences);
        if (p->fences.seen < p->fences.recorded) return false;
    }
    return true;
}

/* The number of calls that changed a pool. */
static uint64_t uses(void) {
    uint64_t n = 0;
    for (struct mm_pool *p = mm_pools; p; p = p->next)
        n += p->misses + __atomic_load_n(&p->hits, __ATOMIC_RELAXED) + __atomic_load_n(&p->frees, __ATOMIC_RELAXED);
    return n;
}

static void *work(void *unused) {
    (void)unused;
    pthread_mutex_lock(&mm_pool_lock);
    while (!must_stop) {
        const uint64_t before = uses();
        doze(mm_host_env_get()->trim_after_ms, true);
        if (must_stop || !(is_wanted || (before == uses() && is_idle(driver) && before == uses()))) continue;
        is_wanted = false;
        pthread_mutex_unlock(&mm_pool_lock);
        mm_pool_give_back(driver);
        pthread_mutex_lock(&mm_pool_lock);
    }
    pthread_mutex_unlock(&mm_pool_lock);
    return NULL;
}

/* Writes the output of all pools, after that of other threads. */
static void write_output(void) {
    bool is_my_turn = mm_pool_await_writers();
    for (struct mm_pool *p = mm_pools; p && is_my_turn; p = p->next) { /* entries stay in the list */
        if (!p->context) continue;
        struct mm_pool_output output = mm_pool_collect(p);
        mm_pool_write(&output);
        is_my_turn = mm_pool_await_writers();
    }
    if (!is_my_turn) mm_host_say("pools: the process ends before all statistics and pictures are written: a file took more than %u ms", MM_HOST_STOP_MS);
}

/* Runs before the driver is torn down: the thread must not be in the driver then. */
static void at_process_exit(void) {
    if (mm_pool_mode() == MM_POOL_OFF) return; /* the child of a fork has no such thread */
    pthread_mutex_lock(&mm_pool_lock);
    must_stop = true;
    pthread_cond_signal(&wake);
    write_output();
    pthread_mutex_unlock(&mm_pool_lock);
    const struct timespec t = mm_host_in_ms(CLOCK_REALTIME, MM_HOST_STOP_MS);
    if (is_running) pthread_timedjoin_np(thread, NULL, &t);
}

/* A heap lacks memory: the thread gives it all that is free. */
static void want(void) {
    pthread_mutex_lock(&mm_pool_lock);
    is_wanted = true;
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&mm_pool_lock);
}

void mm_pool_begin(const struct mm_driver *d) {
    if (driver) return;
    driver = d;
    mm_host_condition_make(&wake);
    if (!mm_pool_is_on() || atexit(at_process_exit) != 0) return;
    is_running = mm_host_thread_start(&thread, work, NULL, "mm pool") == 0;
    if (is_running) mm_grower_lacks_memory = want;
}
