/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "explore_seen.h"

#include <stdlib.h>

#include "explore_threads.h"

#define SEEN_SHIFT_MAX 26

uint64_t seen_count;
static uint64_t *seen;
static uint32_t seen_shift;

void seen_start(void) {
    seen_shift = 16;
    seen = calloc(1ull << seen_shift, 8);
    if (!seen) abort();
    seen_count = 0;
}
void seen_end(void) { free(seen); }

static int seen_has(uint64_t h) {
    const uint64_t mask = (1ull << seen_shift) - 1;
    for (uint64_t i = h >> (64 - seen_shift); seen[i & mask]; i++)
        if (seen[i & mask] == h) return 1;
    return 0;
}
static void seen_put(uint64_t h) {
    const uint64_t mask = (1ull << seen_shift) - 1;
    uint64_t i = h >> (64 - seen_shift);
    while (seen[i & mask]) i++;
    seen[i & mask] = h;
    if (++seen_count * 2 <= mask || seen_shift == SEEN_SHIFT_MAX) return;
    uint64_t *old = seen;
    seen = calloc(2ull << seen_shift, 8);
    if (!seen) abort();
    seen_shift++;
    seen_count = 0;
    for (uint64_t j = 0; j <= mask; j++)
        if (old[j]) seen_put(old[j]);
    free(old);
}
int seen_add(uint64_t h, uint32_t preempted, uint32_t t, uint32_t bound) {
    if (bound)
        for (uint32_t i = 0; i < preempted; i++)
            if (seen_has(mix(h, i * 8 + t + 1) | 1)) return 0;
    if (bound) h = mix(h, preempted * 8 + t + 1) | 1;
    if (seen_has(h)) return 0;
    seen_put(h);
    return 1;
}
