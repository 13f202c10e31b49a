/* Steps: how a lane that has to wait does so without keeping another lane of its warp from what it waits for.
 *
 * A warp goes on with one of its parts until that comes to a barrier or ends: nothing makes it change between lanes that wait and lanes
 * that have work to do (docs/design.md, "Warps stay together"). So nothing in this room waits in a loop. What may have to is a function
 * that takes one step and keeps in a struct how far it is; the lanes of a warp that are here together call theirs in turns, in one loop,
 * until all are done (slice.h, run.h). Each wait has a bound, which the function counts.
 */
#ifndef MM_CORE_STEP_H
#define MM_CORE_STEP_H

#include "runtime/port.h"

enum mm_step {
    MM_STEP_DONE,
    MM_STEP_WAIT,     /* to be called again: waits for another warp */
    MM_STEP_WAIT_HOST /* the same, for the host */
};

/* Between two steps. */
MM_FN void mm_step_wait(enum mm_step step) {
    if (step == MM_STEP_WAIT) mm_wait();
    if (step == MM_STEP_WAIT_HOST) mm_wait_host();
}

#endif
