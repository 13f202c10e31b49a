/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _GNU_SOURCE /* of clock.h */
#include "runtime/host/pool/output.h"

#include <stdlib.h>

#include "mmconfig.h"
#include "runtime/host/clock.h"
#include "runtime/host/inspect.h"
#include "runtime/host/say.h"

/* A thread has written its output. */
static pthread_cond_t written = PTHREAD_COND_INITIALIZER;
static unsigned writers; /* threads that write, or wait for that; under the lock */
static bool is_writing;

struct mm_pool_output mm_pool_collect(struct mm_pool *p) {
    struct mm_pool_output o = {.device = p->device};
    o.has_numbers = mm_pool_try_count(p, &o.numbers);
    mm_pool_draw(p, &o);
    return o;
}

static void write_all(struct mm_pool_output *o) {
    if (o->has_numbers) mm_pool_write_numbers(&o->numbers);
    if (o->lacks_memory) mm_host_say("device %d: no picture (malloc)", o->device);
    if (o->picture) mm_inspect_picture(o->device, "pool", 0, o->picture, o->picture_bytes);
    free(o->picture);
}

void mm_pool_write(struct mm_pool_output *o) {
    if (!o->has_numbers && !o->lacks_memory && !o->picture) return;
    const struct timespec until = mm_host_in_ms(CLOCK_REALTIME, MM_HOST_STOP_MS);
    writers++;
    while (is_writing && pthread_cond_timedwait(&written, &mm_pool_lock, &until) == 0) continue;
    const bool is_mine = !is_writing;
    if (is_mine) is_writing = true;
    pthread_mutex_unlock(&mm_pool_lock);
    if (is_mine) {
        write_all(o);
    } else {
        mm_host_say("device %d: the pool's statistics and picture are not written (another thread still writes its own)", o->device);
        free(o->picture);
    }
    pthread_mutex_lock(&mm_pool_lock);
    if (is_mine) is_writing = false;
    writers--;
    pthread_cond_broadcast(&written);
}

bool mm_pool_await_writers(void) {
    const struct timespec until = mm_host_in_ms(CLOCK_REALTIME, MM_HOST_STOP_MS);
    while (writers != 0 && pthread_cond_timedwait(&written, &mm_pool_lock, &until) == 0) continue;
    return writers == 0;
}
