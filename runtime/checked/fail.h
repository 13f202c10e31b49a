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

/* The upper half of a product. */
MM_FN uint64_t mm_fail_mulhi(uint64_t a, uint64_t b) {
    const uint64_t a_low = (uint32_t)a, a_high = a >> 32, b_low = (uint32_t)b, b_high = b >> 32;
    const uint64_t middle = a_high * b_low + (a_low * b_low >> 32), other = a_low * b_high + (uint32_t)middle;
    return a_high * b_high + (middle >> 32) + (other >> 32);
}
/* The place, below `number`, of the refused request in its group: MurmurHash3's finaliser, scaled. */
MM_FN uint64_t mm_fail_place(uint64_t group, uint64_t number, uint64_t seed) {
    uint64_t x = group + (seed + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
    return mm_fail_mulhi(x ^ x >> 33, number);
}
/* Whether request n is the refused one of its group, n / number. No division: nvcc makes a function of one, whose name is in programs, too, and two versions of it do not
 * link. The product is too small by 1 at most, for n below 2^63. */
MM_FN int mm_fail_is_placed(const struct mm_fail *f, uint64_t n) {
    uint64_t group = mm_fail_mulhi(n, f->inverse);
    if (n - group * f->number >= f->number) group++;
    return mm_fail_place(group, f->number, f->seed) == n - group * f->number;
}

/* Counts a request; returns whether it is refused. */
MM_FN_RARE int mm_fail_takes(const struct mm_heap_ref *ref) {
    struct mm_fail *f = &mm_heap_of(ref)->fail;
    const uint64_t n = mm_add_relaxed_u64(&f->requests, 1);
    int is_taken = 0;
    if (ref->fail == MM_FAIL_SHARE) is_taken = mm_fail_is_placed(f, n);
    if (ref->fail == MM_FAIL_NUMBER) is_taken = n + 1 == f->number;
    if (ref->fail == MM_FAIL_KERNEL) is_taken = mm_load_relaxed_u64(&f->is_on) != 0;
    if (!is_taken) return 0;
    const uint64_t failed = mm_add_relaxed_u64(&f->failed, 1) + 1;
    if (ref->mailbox != 0) mm_store_release_system_u64(&mm_grow_mailbox(ref)->failed, failed);
    return 1;
}

#endif
