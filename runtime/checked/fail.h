/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* MM_FAIL: malloc returns NULL for chosen requests, so that a program's paths for lack of memory run. The fast path has no instruction for it (closed.h).
 *
 * Representation. ref->fail says how requests are chosen. `requests` numbers them, from 0; `failed` counts the refused ones, and the mailbox has a copy, which
 *   survives a kernel that stops with a fault.
 *   MM_FAIL_SHARE   of each `number` consecutive requests one, at a place that a hash of their group and the seed gives
 *   MM_FAIL_NUMBER  request `number`, counted from 1
 *   MM_FAIL_KERNEL  all while `is_on` is set. The host sets it for one kernel, which then runs alone (interpose/preload/watch.c)
 * Invariant. The numbers of the refused requests depend on `number` and `seed` only. Which thread draws which number depends on the GPU's order.
 * Linearisation point. The addition to `requests`.
 * Progress. No thread waits.
 * Stale. The mailbox's copy may be that of an earlier failure: two threads may store in either order. It is a lower bound of `failed`.
 */
#ifndef MM_CHECKED_FAIL_H
#define MM_CHECKED_FAIL_H

#include "runtime/core/grow.h"

/* The place, below `number`, of the refused request in its group: the upper bits of MurmurHash3's finaliser, scaled. */
MM_FN uint32_t mm_fail_place(uint64_t group, uint32_t number, uint64_t seed) {
    uint64_t x = group + (seed + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
    return mm_mulhi((uint32_t)(x >> 32), number);
}
/* Whether request n is the refused one of its group. */
MM_FN int mm_fail_is_placed(uint64_t n, uint64_t number, uint64_t seed) {
    const uint64_t group = n / number;
    return mm_fail_place(group, (uint32_t)number, seed) == n - group * number;
}

/* Counts a request; returns whether it is refused. */
MM_FN_RARE int mm_fail_takes(const struct mm_heap_ref *ref) {
    struct mm_fail *f = &mm_heap_of(ref)->fail;
    const uint64_t n = mm_add_relaxed_u64(&f->requests, 1);
    const uint64_t number = mm_load_relaxed_u64(&f->number);
    int is_taken = 0;
    if (ref->fail == MM_FAIL_SHARE) is_taken = mm_fail_is_placed(n, number, mm_load_relaxed_u64(&f->seed));
    if (ref->fail == MM_FAIL_NUMBER) is_taken = n + 1 == number;
    if (ref->fail == MM_FAIL_KERNEL) is_taken = mm_load_relaxed_u64(&f->is_on) != 0;
    if (!is_taken) return 0;
    const uint64_t failed = mm_add_relaxed_u64(&f->failed, 1) + 1;
    if (ref->mailbox != 0) mm_store_release_system_u64(&mm_grow_mailbox(ref)->failed, failed);
    return 1;
}

#endif
