/* Included before everything else (-include): now and then the processor is given away just before an atomic
 * access, so that threads meet in the middle of each other's steps even on two processors. */
#ifndef STRESS_JITTER_H
#define STRESS_JITTER_H

#include <sched.h>

static inline void stress_jitter(void) {
    static __thread unsigned state;
    state = state * 1664525u + 1013904223u + (unsigned)(unsigned long)&state;
    if (state >> 24 == 0) sched_yield();
}

#define __atomic_load_n(p, order) (stress_jitter(), __atomic_load_n(p, order))
#define __atomic_store_n(p, v, order) (stress_jitter(), __atomic_store_n(p, v, order))
#define __atomic_fetch_add(p, v, order) (stress_jitter(), __atomic_fetch_add(p, v, order))
#define __atomic_fetch_or(p, v, order) (stress_jitter(), __atomic_fetch_or(p, v, order))
#define __atomic_fetch_and(p, v, order) (stress_jitter(), __atomic_fetch_and(p, v, order))
#define __atomic_compare_exchange_n(p, e, v, weak, good, bad) \
    (stress_jitter(), __atomic_compare_exchange_n(p, e, v, weak, good, bad))

#endif
