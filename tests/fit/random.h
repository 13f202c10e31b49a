/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef MM_TESTS_POOL_RANDOM_H
#define MM_TESTS_POOL_RANDOM_H

#include <stdint.h>

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static inline uint64_t random_next(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

#endif
