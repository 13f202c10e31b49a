/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the lanes of mm_slice_malloc_slow do for a group of n: the CPU's warps, of one lane, as callers of many tickets. */
#ifndef MM_UNIT_SERVE_H
#define MM_UNIT_SERVE_H

#include "until.h"

/* n tickets (at most 32) of stripe k, the first of which is t, have been drawn. got(to, off) is told of each slice at once, by its
 * byte offset in the heap. Returns how many were served. */
static inline uint32_t unit_serve_by(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t k, uint32_t t,
                                     void (*got)(void *to, uint64_t off), void *to) {
    const uint32_t shift = ref->classes[c].lot_shift;
    struct mm_ring *ring = mm_ring_at(ref, c, k);
    uint32_t left = n, served = 0;
    int is_to_look = 0;
    while (left != 0) {
        uint32_t nones = 0, none = 0;
        for (uint32_t i = 0; i < left; i++) unit_stripe_begin(ref, c, k, t + i, &is_to_look);
        const uint32_t before = served;
        for (uint32_t i = 0; i < left; i++) {
            const uint64_t off = unit_stripe_piece(ref, c, k, t + i);
            mm_ring_took(ring, (t + i) >> shift, 1);
            if (off == MM_PIECE_NONE) nones++, none = t + i;
            else if (off != MM_PIECE_VOID) got(to, off), served++;
        }
        left -= served - before;
        if (nones != 0) {
            const mm_claim claim = unit_stripe_find(ref, c, nones, k, none, &is_to_look);
            for (uint32_t rank = 0; rank < mm_claim_count(claim); rank++, served++, left--)
                got(to, mm_claim_offset(ref->classes[c], claim, rank));
            if (claim == 0) left -= nones;
        }
        if (left != 0) t = mm_ring_draw(ring, left);
    }
    if (is_to_look) mm_stripe_look(ref, c, k, 1, 0);
    return served;
}

#endif
