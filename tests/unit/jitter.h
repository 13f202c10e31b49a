/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Included before everything else (-include): occasionally yields the processor just before an atomic
 * access of the core, so that threads meet in the middle of each other's steps even on two processors: once in
 * 2^(32 - UNIT_JITTER_SHIFT) accesses. */
#ifndef MM_UNIT_JITTER_H
#define MM_UNIT_JITTER_H

#include <sched.h>

#ifndef UNIT_JITTER_SHIFT
#define UNIT_JITTER_SHIFT 26
#endif

static inline void unit_jitter(void) {
    static __thread unsigned state;
    state = state * 1664525u + 1013904223u + (unsigned)(unsigned long)&state;
    if (state >> UNIT_JITTER_SHIFT == 0) sched_yield();
}

#define __atomic_load_n(p, order) (unit_jitter(), __atomic_load_n(p, order))
#define __atomic_store_n(p, v, order) (unit_jitter(), __atomic_store_n(p, v, order))
#define __atomic_fetch_add(p, v, order) (unit_jitter(), __atomic_fetch_add(p, v, order))
#define __atomic_fetch_or(p, v, order) (unit_jitter(), __atomic_fetch_or(p, v, order))
#define __atomic_fetch_and(p, v, order) (unit_jitter(), __atomic_fetch_and(p, v, order))
#define __atomic_compare_exchange_n(p, e, v, weak, good, bad) (unit_jitter(), __atomic_compare_exchange_n(p, e, v, weak, good, bad))

#endif
