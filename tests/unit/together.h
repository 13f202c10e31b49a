/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs an action in several lanes of a warp at once, in any order. Include after tests/unit/warps.h. */
#ifndef MM_UNIT_TOGETHER_H
#define MM_UNIT_TOGETHER_H

#include "tests/unit/support.h"

#define MOST_STEPS 4000000L
#define TOGETHER (1u << 30) /* each lane goes on until it reaches a warp operation */

static uint64_t seed_ = 1;
static inline uint32_t random_below(uint32_t n) { return (uint32_t)(unit_random(&seed_) >> 16) % n; }
/* A mask of lanes, at least so many. */
static inline uint32_t random_here(uint32_t least) {
    for (;;) {
        const uint32_t here = (uint32_t)(unit_random(&seed_) >> 20) & MM_WARP_ALL;
        if (mm_popcount(here) >= least) return here;
    }
}

/* The lanes of here_, of warp 0, run act_. */
static uint32_t here_;
static void (*act_)(uint32_t lane);
static void act_of_warp_0(uint32_t thread) {
    if (thread >= UNIT_LANES || !(here_ >> thread & 1)) return;
    act_(thread);
    unit_lane_called();
}
static void together(void (*act)(uint32_t lane), uint32_t here, uint32_t turn) {
    act_ = act, here_ = here;
    unit_holds(unit_warps_run(act_of_warp_0, unit_random(&seed_), turn, MOST_STEPS) == 0, "lanes %#x do not go on", here);
}

#endif
