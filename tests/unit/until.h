/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Repeats the core's steps (single_flight.h, enum mm_step) until they are done, as a warp of one lane does. */
#ifndef MM_UNIT_UNTIL_H
#define MM_UNIT_UNTIL_H

#include "runtime/heap.h"

/* Returns whether there are more segments. */
__attribute__((unused)) static int unit_grow_await(const struct mm_heap_ref *ref, uint32_t segments, uint64_t before) {
    struct mm_growth growth = {0, 0, 0};
    enum mm_grown grown;
    while ((grown = mm_grow_poll(ref, segments, before, &growth)) == MM_GROWN_WAIT) mm_wait_host();
    return grown == MM_GROWN_MORE;
}
__attribute__((unused)) static uint32_t unit_run_take(const struct mm_heap_ref *ref, struct mm_run want, uint32_t *runs) {
    struct mm_run_search search = {MM_SHORTAGE_NONE, 0, 0, 0, 0, MM_SHORT_WAIT};
    uint32_t first = MM_TREE_NONE;
    uint64_t bits = 0;
    enum mm_step step;
    while ((step = mm_run_take(ref, want, &search, &first, runs, &bits)) != MM_STEP_DONE) {
        mm_shortage_help(ref, 1, search.is, &search.shortage);
        search.is = MM_SHORT_WAIT;
        mm_shortage_wait(ref, step == MM_STEP_WAIT_HOST, &search.shortage);
    }
    return bits != 0 ? first + mm_ctz(bits) : first;
}

#endif
