/* What one lane of mm_slice_malloc_slow does for a group of n: the CPU's warps, of one lane, as callers of many tickets. */
#ifndef MM_UNIT_SERVE_H
#define MM_UNIT_SERVE_H

#include "runtime/core/stripe.h"

/* n tickets of stripe k, which was w, have been drawn. got(to, served, claim) is told of each claim at once, and how many came
 * before it. Returns how many were served. */
static inline uint32_t unit_serve_by(const struct mm_heap_ref *ref, uint32_t c, uint32_t n, uint32_t k, uint64_t w,
                                     void (*got)(void *to, uint32_t served, mm_claim claim), void *to) {
    uint32_t served = 0, count;
    do {
        mm_claim claim = mm_stripe_claim(ref, c, n - served, k, w);
        if (claim & MM_OPENING && !(claim & MM_SIEVE)) claim = mm_stripe_put_in_use(ref, c, k, claim, n - served, 1, 0);
        got(to, served, claim);
        count = mm_claim_count(claim);
        served += count, w = 0;
        if (count != 0 && served < n && (claim & MM_SIEVE || !(claim & MM_REFILL)))
            w = mm_stripe_draw(&mm_stripe_class(ref, c)->stripe[k].word, n - served, 1);
    } while (count != 0 && served < n);
    return served;
}

#endif
