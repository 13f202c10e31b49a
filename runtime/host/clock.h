/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The time, for intervals. */
#ifndef MM_HOST_CLOCK_H
#define MM_HOST_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Microseconds since a fixed moment before the process began. Monotonic. */
static inline uint64_t mm_host_now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000;
}

/* The time of a clock in so many milliseconds. */
static inline struct timespec mm_host_in_ms(clockid_t clock, unsigned ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += ms / 1000, t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return t;
}

#endif
