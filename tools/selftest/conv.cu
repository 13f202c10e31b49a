/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Checks that the lanes of a warp that called malloc or free together are converged afterwards, and that a group whose first lane
 * allocates for the others gets its pointer. Where the driver compiled the program from PTX, calls may leave a warp diverged
 * (docs/reference/limits.md); then the shares are reported, but not required.
 */
#include <stdlib.h>

#include "tools/selftest/parts.h"

#define WARPS_WHOLE 0.99
#define CTAS 264u
#define CONV_ROUNDS 40u
#define GROUP_ROUNDS 200u

enum place { ALL_BEFORE, ALL_MALLOC, ALL_FREE, LANE_MALLOC, LANE_FREE, LOOP_HEAD, PLACES };

static const char *const place_names[PLACES] = {"all lanes: before",      "all lanes: after malloc", "all lanes: after free",
                                                "one lane: after malloc", "one lane: after free",    "all lanes, no barrier: next round"};

/* For each place: how often a given number of lanes were converged. */
static __device__ unsigned long long together[PLACES][WARP_THREADS + 1];
static __device__ unsigned lost, groups;

static __device__ void note(enum place place) {
    const unsigned mask = __activemask();
    if (threadIdx.x % WARP_THREADS == (unsigned)__ffs((int)mask) - 1) atomicAdd(&together[place][__popc(mask)], 1ull);
}

static __global__ void all_lanes(void) {
    for (unsigned round = 0; round < CONV_ROUNDS; round++) {
        __syncwarp();
        note(ALL_BEFORE);
        volatile char *p = (volatile char *)malloc(64 + round % 8 * 16);
        note(ALL_MALLOC);
        if (p != NULL) *p = 1;
        free((void *)p);
        note(ALL_FREE);
    }
}

static __global__ void one_lane(void) {
    const unsigned lane = threadIdx.x % WARP_THREADS;
    for (unsigned round = 0; round < CONV_ROUNDS; round++) {
        unsigned long long p = 0;
        __syncwarp();
        if (lane == 0) p = (unsigned long long)malloc(100);
        note(LANE_MALLOC);
        __syncwarp();
        p = __shfl_sync(~0u, p, 0);
        if (lane == WARP_THREADS - 1) free((void *)p);
        note(LANE_FREE);
    }
}

static __global__ void no_barrier(void) {
    for (unsigned round = 0; round < CONV_ROUNDS; round++) {
        note(LOOP_HEAD);
        volatile char *p = (volatile char *)malloc(64);
        if (p != NULL) *p = 1;
        free((void *)p);
    }
}

/* The converged lanes form a group; its first lane allocates, its last one frees. */
static __global__ void in_groups(void) {
    const unsigned lane = threadIdx.x % WARP_THREADS;
    for (unsigned round = 0; round < GROUP_ROUNDS; round++) {
        const unsigned mask = __activemask();
        const int first = __ffs((int)mask) - 1, last = 31 - __clz((int)mask);
        unsigned long long p = (int)lane == first ? (unsigned long long)malloc(100 + round % 400) : 0;
        p = __shfl_sync(mask, p, first);
        if (p == 0) atomicAdd(&lost, 1u);
        if ((int)lane != last) continue;
        atomicAdd(&groups, 1u);
        free((void *)p);
    }
}

static void check_place(int required, enum place place, const unsigned long long *counts) {
    unsigned long long notes = 0, lanes = 0;
    for (unsigned k = 1; k <= WARP_THREADS; k++) {
        notes += counts[k];
        lanes += counts[k] * k;
    }
    const double whole = notes ? (double)counts[WARP_THREADS] / (double)notes : 0;
    check(!required || whole >= WARPS_WHOLE, place_names[place], "%.1f %% of warps whole, %.1f lanes on average%s", 100 * whole,
          notes ? (double)lanes / (double)notes : 0, required ? "" : "; not required here");
}

void part_conv(void) {
    struct cudaFuncAttributes kernel;
    unsigned long long counts[PLACES][WARP_THREADS + 1];
    unsigned lost_in_all, groups_in_all;
    MUST(cudaFuncGetAttributes(&kernel, (const void *)all_lanes));
    const int required = kernel.ptxVersion == kernel.binaryVersion;
    figure("code", "%s of sm_%d", required ? "machine code" : "the driver's, from PTX", kernel.ptxVersion);
    all_lanes<<<CTAS, CTA_THREADS>>>();
    one_lane<<<CTAS, CTA_THREADS>>>();
    no_barrier<<<CTAS, CTA_THREADS>>>();
    in_groups<<<CTAS, CTA_THREADS>>>();
    must_end("kernels");
    MUST(cudaMemcpyFromSymbol(counts, together, sizeof counts));
    MUST(cudaMemcpyFromSymbol(&lost_in_all, lost, sizeof lost));
    MUST(cudaMemcpyFromSymbol(&groups_in_all, groups, sizeof groups));
    for (int place = 0; place < PLACES; place++) check_place(required && place != ALL_BEFORE, (enum place)place, counts[place]);
    check(lost_in_all == 0 && groups_in_all > 0, "pointers for a group", "%u lost by lanes of %u groups", lost_in_all, groups_in_all);
    check_live(0, "all given back");
}
