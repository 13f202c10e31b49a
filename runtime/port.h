/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The only file that knows the compiler: function kinds, atomics, bits, warp operations, waits.
 *
 * The same core runs on the GPU (device code under nvcc) and on the CPU (C11), where a "warp" is one lane. Atomics have the memory order in their name and
 * device scope.
 */
#ifndef MM_PORT_H
#define MM_PORT_H

#include "mmconfig.h"

#include <stddef.h>
#include <stdint.h>

#define MM_LIKELY(x) __builtin_expect(!!(x), 1)

#ifdef __CUDACC__
#include "runtime/port_gpu.h"
#else
#include "runtime/port_cpu.h"
#endif

/* Read-modify-writes, which return the previous value. One list, so that both ports have the same ones. */
MM_RMW(add_relaxed, fetch_add, 64, MM_RMW_RELAXED)
MM_RMW(add_relaxed, fetch_add, 32, MM_RMW_RELAXED)
MM_RMW(add_acquire, fetch_add, 64, MM_RMW_ACQUIRE)
MM_RMW(add_release, fetch_add, 64, MM_RMW_RELEASE)
MM_RMW(add_acq_rel, fetch_add, 64, MM_RMW_ACQ_REL)
MM_RMW(add_acquire, fetch_add, 32, MM_RMW_ACQUIRE)
MM_RMW(add_acq_rel, fetch_add, 32, MM_RMW_ACQ_REL)
MM_RMW(exchange_acquire, exchange_n, 32, MM_RMW_ACQUIRE)
MM_RMW(exchange_acq_rel, exchange_n, 64, MM_RMW_ACQ_REL)
MM_RMW(or_relaxed, fetch_or, 64, MM_RMW_RELAXED)
MM_RMW(or_acquire, fetch_or, 64, MM_RMW_ACQUIRE)
MM_RMW(or_release, fetch_or, 64, MM_RMW_RELEASE)
MM_RMW(and_relaxed, fetch_and, 64, MM_RMW_RELAXED)
MM_RMW(and_acquire, fetch_and, 64, MM_RMW_ACQUIRE)
MM_RMW(and_release, fetch_and, 64, MM_RMW_RELEASE)
#undef MM_RMW
/* Compare-and-swaps, which return whether they stored `desired`. */
MM_CAS(relaxed, 64, MM_RMW_RELAXED)
MM_CAS(relaxed, 32, MM_RMW_RELAXED)
MM_CAS(acquire, 64, MM_RMW_ACQUIRE)
MM_CAS(acquire, 32, MM_RMW_ACQUIRE)
MM_CAS(acq_rel, 64, MM_RMW_ACQ_REL)
MM_CAS(acq_rel, 32, MM_RMW_ACQ_REL)
#undef MM_CAS

/* Bits. Arguments of ctz and clz must not be 0. */
MM_FN uint64_t mm_bits_low(uint32_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

/* The next number of a sequence of pseudo-random numbers (Numerical Recipes, 7.1). */
MM_FN uint32_t mm_random_next(uint32_t random) { return random * 1664525u + 1013904223u; }

/* The first set bit of x (not 0) at or after bit start % 64, cyclically. */
MM_FN uint32_t mm_bits_pick(uint64_t x, uint32_t start) {
    const uint64_t from = x & ~0ull << (start & 63);
    return mm_ctz(from ? from : x);
}

MM_FN uint64_t mm_warp_shuffle_u64(uint32_t group, uint64_t value, uint32_t lane) {
    return (uint64_t)mm_warp_shuffle(group, (uint32_t)(value >> 32), lane) << 32 | mm_warp_shuffle(group, (uint32_t)value, lane);
}

#ifndef MM_GATHERED /* the CPU: one word at a time, with release stores, since ThreadSanitizer does not support fences */
#define MM_GATHERED 1
MM_FN void mm_store_two(uint64_t *p, uint64_t first, uint64_t second) { mm_store_relaxed_u64(p, first), mm_store_relaxed_u64(p + 1, second); }
MM_FN void mm_gather_two(uint64_t *p, uint64_t *first, uint64_t *second) { *first = mm_load_relaxed_u64(p), *second = mm_load_relaxed_u64(p + 1); }
MM_FN void mm_publish_fence(void) {}
MM_FN void mm_store_published_u32(uint32_t *p, uint32_t v) { mm_store_release_u32(p, v); }
MM_FN void mm_store_published_u64(uint64_t *p, uint64_t v) { mm_store_release_u64(p, v); }
MM_FN void mm_store_two_published(uint64_t *p, uint64_t first, uint64_t second) {
    if ((uintptr_t)p % 16 != 0) __builtin_trap(); /* a GPU traps, too */
    mm_store_release_u64(p, first), mm_store_release_u64(p + 1, second);
}
MM_FN uint64_t mm_or_published_u64(uint64_t *p, uint64_t v) { return mm_or_release_u64(p, v); }
MM_FN uint64_t mm_or_published_if_u64(uint32_t is, uint64_t *p, uint64_t v) { return is ? mm_or_release_u64(p, v) : ~0ull; }
MM_FN uint64_t mm_and_fenced_u64(uint64_t *p, uint64_t v) { return mm_and_acquire_u64(p, v); } /* a fence follows */
MM_FN int mm_cas_published_u64(uint64_t *p, uint64_t expected, uint64_t desired) { return mm_cas_acq_rel_u64(p, expected, desired); }
MM_FN void mm_gather_u32(uint32_t *p, uint32_t *first, uint32_t *second) { *first = mm_load_relaxed_u32(p), *second = mm_load_relaxed_u32(p + 1); }
MM_FN void mm_gather_cached_u32(uint32_t *p, uint32_t *first, uint32_t *second) { *first = mm_load_cached_u32(p), *second = mm_load_cached_u32(p + 1); }
#else
MM_FN void mm_store_two_published(uint64_t *p, uint64_t first, uint64_t second) { mm_store_two(p, first, second); }
MM_FN uint64_t mm_or_published_u64(uint64_t *p, uint64_t v) { return mm_or_relaxed_u64(p, v); }
/* Without a branch: after one each access waits for the one before. */
MM_FN uint64_t mm_or_published_if_u64(uint32_t is, uint64_t *p, uint64_t v) {
    const uint64_t old = mm_or_relaxed_u64(p, is ? v : 0);
    return is ? old : ~0ull;
}
MM_FN uint64_t mm_and_fenced_u64(uint64_t *p, uint64_t v) { return mm_and_relaxed_u64(p, v); }
MM_FN int mm_cas_published_u64(uint64_t *p, uint64_t expected, uint64_t desired) { return mm_cas_relaxed_u64(p, expected, desired); }
#endif

/* The bit of rank `rank` (from 0) among the bits set in x, of which there are more than `rank`: a binary search. */
MM_FN uint32_t mm_bits_select_u32(uint32_t x, uint32_t rank) {
    uint32_t bit = 0;
    MM_UNROLLED(5)
    for (uint32_t half = 16; half > 0; half >>= 1) {
        const uint32_t below = mm_popcount(x & ((1u << half) - 1));
        if (rank >= below) rank -= below, bit += half, x >>= half;
    }
    return bit;
}
MM_FN uint32_t mm_bits_select(uint64_t x, uint32_t rank) {
    const uint32_t below = mm_popcount((uint32_t)x), is_high = rank >= below;
    return 32 * is_high + mm_bits_select_u32((uint32_t)(is_high ? x >> 32 : x), is_high ? rank - below : rank);
}
/* The first n of the bits set in x, or all. */
MM_FN uint64_t mm_bits_first(uint64_t x, uint32_t n) { return n < mm_popcount(x) ? x & mm_bits_low(mm_bits_select(x, n)) : x; }
MM_FN uint32_t mm_bits_first_u32(uint32_t x, uint32_t n) { return n < mm_popcount(x) ? x & ((1u << mm_bits_select_u32(x, n)) - 1) : x; }
/* x turned to the left by `by` bits, modulo 32. */
MM_FN uint32_t mm_rotate_left(uint32_t x, uint32_t by) { return x << (by & 31) | x >> (-by & 31); }

#endif
