/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Whether this process has a pool, and of which kind. */
#ifndef MM_HOST_POOL_MODE_H
#define MM_HOST_POOL_MODE_H

#include <stdbool.h>

#include "runtime/host/env.h"

/* Whether there is a pool in this process: the mode, MM_POOL_OFF if not. */
extern int mm_pool_known_mode; /* -1: the environment was not read yet */
__attribute__((cold)) int mm_pool_read_mode(void);
static inline int mm_pool_mode(void) {
    const int mode = __atomic_load_n(&mm_pool_known_mode, __ATOMIC_RELAXED);
    return __builtin_expect(mode < 0, 0) ? mm_pool_read_mode() : mode;
}
static inline bool mm_pool_is_on(void) { return mm_pool_mode() >= MM_POOL_KEEP; }

#endif
