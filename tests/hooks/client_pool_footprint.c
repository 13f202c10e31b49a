/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Scenarios of the pool (MM_POOL): how much of the device it takes for what is live, when it serves the logs of mmbench's cases. */
#include "client_pool.h"

#include "tools/mmbench/child/papers/host.h"

/* The device is some calls behind, or some microseconds. */
#define CALLS 65536
static long lag_calls, lag_us;
static double submitted_ms[CALLS]; /* when each of the last calls was made, by its number */

static void advance(void) {
    long to = standin->submitted - lag_calls;
    if (lag_us != 0)
        for (to = standin->finished; to < standin->submitted && work_now_ms() - submitted_ms[(to + 1) % CALLS] > (double)lag_us / 1e3;) to++;
    if (to > standin->finished) standin->finished = to;
}

/* footprint LOG LAG PERCENT RUNS: the device is LAG calls behind, or microseconds (3us). The pool takes at most PERCENT of what is live at most. Prints the
 * percentage. */
static void footprint(int argc, char **argv) {
    struct host_log log;
    CHECK(argc == 4);
    *(strstr(argv[1], "us") ? &lag_us : &lag_calls) = atol(argv[1]);
    client_start();
    const unsigned long long free_before = standin->free_bytes;
    unsigned long long taken = 0;
    host_log_begin(&log);
    CHECK((strcmp(argv[0], "large") == 0 ? host_log_large : host_log_training)(&log) == NULL);
    CUdeviceptr *const blocks = (CUdeviceptr *)calloc(log.blocks, sizeof *blocks);
    CHECK(blocks);
    standin->at_query = advance;
    for (int run = atoi(argv[3]); run > 0; run--) {
        for (unsigned i = 0; i < log.count; i++) {
            const struct host_call *call = &log.calls[i];
            if (call->size) OK(cu.cuMemAlloc(&blocks[call->id], call->size));
            else OK(cu.cuMemFree(blocks[call->id]));
            submitted_ms[(standin->submitted + 1) % CALLS] = work_now_ms();
            standin->submitted++;
            if (lag_us == 0) advance();
            if (free_before - standin->free_bytes > taken) taken = free_before - standin->free_bytes;
        }
        finish();
    }
    const unsigned long long percent = (100 * taken + log.most_live - 1) / log.most_live;
    printf("%llu\n", percent);
    CHECK(percent <= strtoull(argv[2], NULL, 10));
    free(blocks);
    host_log_end(&log);
}

/* same PERCENT: the pool takes at most PERCENT of what is live, if all blocks have one length. */
static void same(int argc, char **argv) {
    static const size_t kib[] = {2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 24 * KIB, 32 * KIB, 40 * KIB, 63 * KIB};
    CHECK(argc == 1);
    client_start();
    OK(cu.cuMemFree(allocate(1))); /* makes the anchor, and a slab */
    for (size_t i = 0; i < sizeof kib / sizeof *kib; i++) {
        enum { BLOCKS = 12 };
        CUdeviceptr p[BLOCKS];
        settle();
        const unsigned long long before = standin->free_bytes;
        for (int k = 0; k < BLOCKS; k++) p[k] = allocate(kib[i] * KIB);
        const unsigned long long percent = 100 * (before - standin->free_bytes) / (BLOCKS * kib[i] * KIB);
        printf("%zu KiB: %llu\n", kib[i], percent);
        CHECK(percent <= strtoull(argv[0], NULL, 10));
        for (int k = 0; k < BLOCKS; k++) OK(cu.cuMemFree(p[k]));
    }
}

const struct scenario client_pool_footprint_scenarios[] = {{"pool-footprint", footprint}, {"pool-same", same}, {NULL, NULL}};
