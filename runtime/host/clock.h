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

static inline double mm_host_now_ms(void) { return (double)mm_host_now_us() * 1e-3; }

/* The time of a clock in so many microseconds; in milliseconds. */
static inline struct timespec mm_host_in_us(clockid_t clock, uint64_t us) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += (time_t)(us / 1000000), t.tv_nsec += (long)(us % 1000000) * 1000;
    if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
    return t;
}
static inline struct timespec mm_host_in_ms(clockid_t clock, unsigned ms) { return mm_host_in_us(clock, ms * 1000ull); }

#endif
