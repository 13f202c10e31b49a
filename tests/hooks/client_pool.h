/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared by the scenarios of the pool (MM_POOL). */
#ifndef MM_CLIENT_POOL_H
#define MM_CLIENT_POOL_H

#include "client_work.h"

#define KIB (1ull << 10)

static inline bool is_mode(const char *mode) { return strcmp(getenv("MM_POOL") ? getenv("MM_POOL") : "off", mode) == 0; }
static inline CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr p = 0;
    OK(cu.cuMemAlloc(&p, bytes));
    CHECK(p != 0 && p % 256 == 0);
    return p;
}
static inline void finish(void) { standin->finished = standin->submitted; }
/* Frees the blocks that wait for the device, and gives all free memory to the driver. */
static inline void settle(void) {
    CUdeviceptr all;
    finish();
    CHECK(cu.cuMemAlloc(&all, standin->total_bytes + 1) == CUDA_ERROR_OUT_OF_MEMORY);
}
/* More frees follow, in async until there is an event for all of them. */
static inline void close_epoch(void) {
    const long records = standin->records;
    if (!is_mode("async")) return;
    for (int i = 0; i < MM_POOL_BATCH && standin->records == records; i++) OK(cu.cuMemFree(allocate(96 * KIB)));
    CHECK(standin->records == records + 1);
}
/* Number of the driver's allocations without the pool's anchor. */
static inline int driver_has(void) { return standin->allocations - 1; }

#endif
