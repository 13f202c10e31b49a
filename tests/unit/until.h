/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The steps of the core (port.h, enum mm_step) taken until they are done, as a warp of one lane takes them. */
#ifndef MM_UNIT_UNTIL_H
#define MM_UNIT_UNTIL_H

#include "runtime/core/heap.h"

/* Takes one step again and again; between two of them the others have their turn. */
#define UNIT_UNTIL_DONE(call)                                                                               \
    do {                                                                                                    \
        enum mm_step step_;                                                                                 \
        while ((step_ = (call)) != MM_STEP_DONE) {                                                          \
            if (step_ == MM_STEP_WAIT_HOST) mm_wait_host();                                                 \
            else mm_wait();                                                                                 \
        }                                                                                                   \
    } while (0)

__attribute__((unused)) static void unit_stripe_begin(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t t, int *is_to_look) {
    struct mm_refill refill = {0};
    UNIT_UNTIL_DONE(mm_stripe_begin(ref, c, k, t, &refill));
    *is_to_look |= refill.is_to_look;
}
/* Returns whether the caller is to look. */
__attribute__((unused)) static int unit_reserve_put(const struct mm_heap_ref *ref, uint32_t c, uint32_t m) {
    struct mm_refill refill = {0};
    UNIT_UNTIL_DONE(mm_reserve_put(ref, c, m, &refill));
    return refill.is_to_look;
}
__attribute__((unused)) static uint64_t unit_ring_look(struct mm_ring *ring, uint32_t m) {
    uint32_t polls = 0;
    uint64_t what;
    while ((what = mm_ring_poll(ring, m, &polls)) == 0) mm_wait();
    return what;
}
__attribute__((unused)) static int unit_ring_await(struct mm_ring *ring, uint32_t shift, uint32_t m) {
    struct mm_refill refill = {0};
    int has_room;
    UNIT_UNTIL_DONE(mm_refill_room(&refill, ring, shift, m, &has_room));
    return has_room;
}
__attribute__((unused)) static uint64_t unit_stripe_piece(const struct mm_heap_ref *ref, uint32_t c, uint32_t k, uint32_t t) {
    return mm_stripe_piece(ref, c, t, unit_ring_look(mm_ring_at(ref, c, k), t >> ref->classes[c].lot_shift));
}
__attribute__((unused)) static mm_claim unit_stripe_find(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t k, uint32_t t,
                                                         int *is_to_look) {
    struct mm_search search = {0};
    mm_claim claim = 0;
    UNIT_UNTIL_DONE(mm_stripe_find(ref, c, n, k, t, &search, &claim, is_to_look));
    return claim;
}
/* Returns whether there are more segments. */
__attribute__((unused)) static int unit_grow_await(const struct mm_heap_ref *ref, uint32_t segments, uint64_t before, enum mm_patience who) {
    struct mm_growth growth = {0};
    enum mm_grown grown;
    while ((grown = mm_grow_poll(ref, segments, before, who, &growth)) == MM_GROWN_WAIT) mm_wait_host();
    return grown == MM_GROWN_MORE;
}
__attribute__((unused)) static uint32_t unit_run_take(const struct mm_heap_ref *ref, struct mm_run want, uint32_t *runs) {
    struct mm_run_search search = {0};
    uint32_t first = MM_TREE_NONE;
    UNIT_UNTIL_DONE(mm_run_take(ref, want, &search, &first, runs));
    return first;
}

#endif
