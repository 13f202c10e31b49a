/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* pthread_timedjoin_np, pthread_setname_np */
#include "runtime/host/grower.h"

#include <stdio.h>

#include "runtime/host/clock.h"
#include "runtime/host/env.h"
#include "runtime/host/report.h"
#include "runtime/host/say.h"
#include "runtime/host/state.h"
#include "runtime/host/thread.h"
#include "runtime/host/trim.h"

/* Initially set: without a thread, no launch must call mm_grower_launched. */
int mm_grower_note = 1;
int mm_grower_holds;
static unsigned launches; /* calls of mm_grower_launched */
static int drowsy;        /* threads in a long sleep */
static pthread_mutex_t wake_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static pthread_once_t wake_once = PTHREAD_ONCE_INIT;

static void make_wake(void) { mm_host_condition_make(&wake); }

static void wake_all(void) {
    pthread_mutex_lock(&wake_lock);
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&wake_lock);
}

/* There may be several threads, so each compares the count of launches with the one that it saw last. The note only spares most launches this call.
 * Either this function sees the increment of drowsy in sleep_us and wakes the thread, or the thread sees the increment of launches here and does not
 * sleep: both threads first write, then read, sequentially consistent. */
void mm_grower_launched(void) {
    __atomic_store_n(&mm_grower_note, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&launches, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&drowsy, __ATOMIC_SEQ_CST)) wake_all();
}

void mm_grower_forked(void) {
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    wake_lock = fresh;
    drowsy = mm_grower_holds = 0;
    mm_grower_note = 1;
}

/* Sleeps for `us`. A launch, or the end of the thread, ends a long sleep early. seen: the count of launches that the caller saw. */
static void sleep_us(const struct mm_host_heap *h, uint64_t us, unsigned seen) {
    if (us <= MM_HOST_POLL_US) {
        const struct timespec moment = {0, (long)us * 1000};
        nanosleep(&moment, NULL);
        return;
    }
    const struct timespec t = mm_host_in_us(CLOCK_MONOTONIC, us);
    pthread_mutex_lock(&wake_lock);
    __atomic_fetch_add(&drowsy, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&launches, __ATOMIC_SEQ_CST) == seen && !__atomic_load_n(&h->grower.is_closed, __ATOMIC_RELAXED))
        pthread_cond_timedwait(&wake, &wake_lock, &t);
    __atomic_fetch_sub(&drowsy, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&wake_lock);
}

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most) { return value < least ? least : value > most ? most : value; }

void (*mm_grower_lacks_memory)(void);

uint64_t mm_grower_room(const struct mm_host_heap *h, uint64_t free_bytes) {
    const uint64_t room = free_bytes > h->reserve_bytes ? free_bytes - h->reserve_bytes : 0;
    return room / (MM_SEGMENT_BYTES + sizeof(struct mm_segment) + MM_SEGMENT_PAGES + h->layout.words_each + h->layout.table_each);
}

struct mm_host_segments mm_grower_more(const struct mm_driver *d, struct mm_host_heap *h, uint64_t least, uint64_t hoped, uint64_t align) {
    const struct mm_host_segments none = {0, 0};
    struct mm_driver_error error = {NULL, CUDA_SUCCESS};
    const uint64_t mapped = h->chunks.mapped_count;
    const uint64_t may = h->ceiling_segments > mapped ? h->ceiling_segments - mapped : 0;
    uint64_t most = clamp(mapped / MM_HOST_STEP_PART, MM_HOST_STEP_SEGMENTS_MIN, MM_HOST_STEP_SEGMENTS_MAX);
    size_t free_bytes = 0, total_bytes = 0;
    least = mm_chunks_up(&h->chunks, least);
    if (most < hoped) most = hoped;
    if (least > may) {
        snprintf(h->refusal, sizeof h->refusal, "may have %s at most; MM_HEAP_MAX sets that", mm_host_size(h->ceiling_segments * MM_SEGMENT_BYTES).text);
        return none;
    }
    if (!MM_DRIVER_TRY(d, &error, cuMemGetInfo, &free_bytes, &total_bytes)) {
        snprintf(h->refusal, sizeof h->refusal, "cannot grow (%s: %s)", error.call, mm_driver_error_name(d, error.code).text);
        return none;
    }
    const uint64_t room = mm_chunks_down(&h->chunks, mm_grower_room(h, free_bytes));
    if (least > room) {
        snprintf(h->refusal, sizeof h->refusal, "cannot grow: %s of the device are free, of which %s stay so", mm_host_size(free_bytes).text,
                 mm_host_size(h->reserve_bytes).text);
        if (mm_grower_lacks_memory) mm_grower_lacks_memory();
        return none;
    }
    most = clamp(most, least, may < room ? may : room);
    const struct mm_host_segments got = mm_chunks_grow(d, &h->chunks, least, most, align, &error);
    if (got.count == 0 && mm_grower_lacks_memory) mm_grower_lacks_memory();
    if (got.count == 0 && error.call) snprintf(h->refusal, sizeof h->refusal, "cannot grow (%s: %s)", error.call, mm_driver_error_name(d, error.code).text);
    else if (got.count == 0)
        snprintf(h->refusal, sizeof h->refusal, "cannot grow: it has no %s%s of addresses in a row, or too many pieces", align > 1 ? "aligned " : "",
                 mm_host_size(least * MM_SEGMENT_BYTES).text);
    return got;
}

/* Answers a request. Returns whether the answer has memory. If the heap was closed meanwhile, MM_ANSWER_CLOSED stays in the mailbox, and the memory spare. */
static bool serve(const struct mm_driver *d, struct mm_host_heap *h, uint64_t wanted) {
    const uint64_t least = MM_WANTED_SEGMENTS(wanted), align = 1ull << MM_WANTED_ALIGN(wanted), number = wanted >> 32;
    const struct timespec moment = {0, 1000000};
    for (int ms = 0; ms < 1000 && __atomic_load_n(&mm_grower_holds, __ATOMIC_ACQUIRE) != 0; ms++) nanosleep(&moment, NULL);
    pthread_mutex_lock(&h->lock);
    uint64_t before = __atomic_load_n(&h->shared->mailbox.answer, __ATOMIC_RELAXED);
    struct mm_host_segments got = mm_chunks_find_spare(&h->chunks, least, align);
    if (got.count == 0) got = mm_grower_more(d, h, least, __atomic_load_n(&h->shared->mailbox.need, __ATOMIC_RELAXED), align);
    const bool is_answered =
        before != MM_ANSWER_CLOSED && __atomic_compare_exchange_n(&h->shared->mailbox.answer, &before, mm_answer_make(number, got.first, got.count), false,
                                                                  __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    if (got.count != 0 && is_answered) {
        mm_chunks_set_spare(&h->chunks, got, false);
        h->steps++;
    }
    pthread_mutex_unlock(&h->lock);
    return got.count != 0 && is_answered;
}

/* Reports that a request in a kernel got NULL. */
static void report_null(struct mm_host_heap *h, uint64_t bytes) {
    char why[sizeof h->refusal] = "did not grow within MM_GROW_WAIT_MS";
    pthread_mutex_lock(&h->lock);
    const uint64_t mapped = h->chunks.mapped_count * MM_SEGMENT_BYTES;
    if (h->refusal[0]) snprintf(why, sizeof why, "%s", h->refusal);
    if (bytes > h->user.bytes) snprintf(why, sizeof why, "has addresses for no more than the device's memory");
    pthread_mutex_unlock(&h->lock);
    mm_host_say("malloc of %llu bytes in a kernel answered NULL: the heap on device %d has %s, and %s", (unsigned long long)bytes, h->device,
                mm_host_size(mapped).text, why);
}

static enum mm_trim_unused trim_unused(const struct mm_driver *d, struct mm_host_heap *h) {
    pthread_mutex_lock(&h->lock);
    const enum mm_trim_unused is = mm_trim_unused(d, h);
    pthread_mutex_unlock(&h->lock);
    h->trim.is_idle_done = is == MM_TRIM_UNUSED_DONE;
    return is;
}

static void *grow(void *argument) {
    struct mm_host_heap *h = (struct mm_host_heap *)argument;
    const struct mm_driver *d = h->grower.driver;
    struct mm_mailbox *box = &h->shared->mailbox;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    uint64_t served = __atomic_load_n(&box->wanted, __ATOMIC_ACQUIRE), reported = h->grower.reported;
    uint64_t last_us = mm_host_now_us(), given_us = 0, roused_us = 0, interval_us = MM_HOST_POLL_SLOW_US;
    const uint64_t trim_after_us = mm_host_env_get()->trim_after_ms * 1000ull;
    unsigned seen = 0; /* no launch, so that the one for which the heap was created counts as new */
    if (served >> 32 != __atomic_load_n(&box->answer, __ATOMIC_RELAXED) >> MM_ANSWER_NUMBER_SHIFT) served = 0; /* not answered yet */
    if (d->cuCtxPushCurrent(h->context) == CUDA_SUCCESS) d->cuThreadExchangeStreamCaptureMode(&mode);
    while (!__atomic_load_n(&h->grower.is_closed, __ATOMIC_RELAXED)) {
        const uint64_t wanted = __atomic_load_n(&box->wanted, __ATOMIC_ACQUIRE), now = mm_host_now_us();
        const uint64_t null_bytes = __atomic_load_n(&box->null_bytes, __ATOMIC_ACQUIRE);
        const unsigned launched = __atomic_load_n(&launches, __ATOMIC_RELAXED);
        if (launched != seen && interval_us >= MM_HOST_ROUSED_US) roused_us = now;
        if (wanted != served || launched != seen) last_us = now, h->trim.is_idle_done = h->trim.has_looked = false;
        seen = launched;
        __atomic_store_n(&mm_grower_note, 0, __ATOMIC_RELAXED);
        if (wanted != served && serve(d, h, wanted)) last_us = given_us = mm_host_now_us();
        served = wanted;
        /* A NULL after the heap was closed is not for lack of memory. */
        if (null_bytes != reported && __atomic_load_n(&box->answer, __ATOMIC_ACQUIRE) != MM_ANSWER_CLOSED) {
            report_null(h, null_bytes - 1);
            reported = null_bytes;
        }
        mm_report_say(h);
        const uint64_t since_us = now > last_us ? now - last_us : 0;
        const bool is_soon = last_us == given_us || now - roused_us < MM_HOST_ROUSED_SOON_US;
        interval_us = clamp(since_us / MM_HOST_POLL_PART, is_soon ? MM_HOST_POLL_SOON_US : MM_HOST_POLL_US, MM_HOST_POLL_SLOW_US);
        if (trim_after_us != 0 && !h->trim.is_idle_done && since_us > trim_after_us && trim_unused(d, h) == MM_TRIM_UNUSED_IN_USE) last_us = now;
        sleep_us(h, interval_us, seen);
    }
    if (h->grower.null_bytes_at_end != 0 && reported == 0) report_null(h, h->grower.null_bytes_at_end - 1);
    h->grower.reported = h->grower.null_bytes_at_end ? h->grower.null_bytes_at_end : reported;
    return NULL;
}

int mm_grower_start(const struct mm_driver *d, struct mm_host_heap *h) {
    pthread_once(&wake_once, make_wake);
    h->grower.driver = d;
    const int failed = mm_host_thread_start(&h->grower.thread, grow, h, "mm grower");
    h->grower.is_running = !failed;
    return failed;
}

bool mm_grower_try_stop(struct mm_host_heap *h) {
    if (!h->grower.is_running) return true;
    __atomic_store_n(&h->grower.is_closed, 1, __ATOMIC_RELEASE);
    wake_all();
    const struct timespec t = mm_host_in_ms(CLOCK_REALTIME, MM_HOST_STOP_MS);
    if (pthread_timedjoin_np(h->grower.thread, NULL, &t) != 0) return false;
    h->grower.is_running = false;
    return true;
}
