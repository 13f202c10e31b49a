/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Replays of traces. The plan is made on the host; replay_launch.cu, compiled for each allocator, runs it.
 *
 * A STEP is one launch. Each recorded launch is a step, in the order of their numbers. In it the same warps make the same calls: a thread makes its own in the recorded
 * order, and threads run at the same time. A free waits for no thread: a free of memory that another thread of the same launch, or a later launch, allocated
 * belongs to a step after the malloc's. So the replay cannot hang, whatever the trace.
 */
#ifndef MM_BENCH_REPLAY_H
#define MM_BENCH_REPLAY_H

#include <stddef.h>

#include "tools/kernels.h"
#include "tools/mmbench/child/trace.h"

/* One call of a lane. Those of a warp are consecutive, and ordered by lane. */
struct replay_op {
    unsigned long long bytes; /* of TRACE_MALLOC and TRACE_NULL */
    unsigned number;          /* of the malloc, not for TRACE_NULL */
    unsigned short kind, lane;
};

struct replay_step {
    size_t first_warp, warps;
};

struct replay_plan {
    struct replay_op *ops;
    unsigned *begins; /* by warp: its first op; and the end of the last warp's */
    struct replay_step *steps;
    size_t op_count, warp_count, step_count;
};

/* What a replay found, in device memory. */
struct replay_tally {
    unsigned long long nulls;   /* requests that got memory in the trace, and NULL now */
    unsigned long long corrupt; /* allocations that did not hold what was written there when they were freed */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the plan. Returns NULL, or why there is none. */
const char *replay_plan_make(struct replay_plan *p, const struct trace *t);
void replay_plan_end(struct replay_plan *p);

/* replay_launch.cu. All pointers are to device memory. pointers: by number. Launches the warps of a step; frees what is live, and sets all pointers to NULL. */
void replay_step_run(const struct replay_op *ops, const unsigned *begins, struct replay_step step, void **pointers, struct replay_tally *t);
void replay_free_rest(void **pointers, unsigned count);

/* replay_case.c. Answers a request of mmbench: ../protocol.h. */
void run_replay(const char *path, unsigned runs);

#ifdef __cplusplus
}
#endif
#endif
