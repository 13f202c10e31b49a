/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Launches the kernels of a replay: compiled once for each allocator. */
#include <stdlib.h>

#include "tools/mmbench/child/replay_kernels.h"

void replay_step_run(const struct replay_op *ops, const unsigned *begins, struct replay_step step, void **pointers, struct replay_tally *t) {
    const unsigned warps_of_cta = CTA_THREADS / WARP_THREADS, ctas = (unsigned)((step.warps + warps_of_cta - 1) / warps_of_cta);
    replay_step_kernel<<<ctas, CTA_THREADS>>>(ops, begins + step.first_warp, (unsigned)step.warps, pointers, t);
}

void replay_free_rest(void **pointers, unsigned count) {
    if (count) replay_rest_kernel<<<(count + CTA_THREADS - 1) / CTA_THREADS, CTA_THREADS>>>(pointers, count);
}
