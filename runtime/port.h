/* The only place that knows which compiler it is: function kinds, atomics, bits, warp operations, waits.
 *
 * The same core runs on the GPU (device code under nvcc) and on the CPU (C11), where a "warp" is one
 * lane. Atomics carry the memory order in their name and act at one scope, the device.
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

/* Read-modify-writes: all return the value before. One list, so that both ports have the same ones. */
MM_RMW(add_relaxed, fetch_add, 32, MM_RMW_RELAXED)
MM_RMW(add_relaxed, fetch_add, 64, MM_RMW_RELAXED)
MM_RMW(add_acquire, fetch_add, 64, MM_RMW_ACQUIRE)
MM_RMW(add_release, fetch_add, 64, MM_RMW_RELEASE)
MM_RMW(add_acq_rel, fetch_add, 32, MM_RMW_ACQ_REL)
MM_RMW(add_acq_rel, fetch_add, 64, MM_RMW_ACQ_REL)
MM_RMW(or_release, fetch_or, 64, MM_RMW_RELEASE)
MM_RMW(and_acquire, fetch_and, 64, MM_RMW_ACQUIRE)
#undef MM_RMW

/* Bits. Arguments of the ctz and clz kind must not be 0. */
MM_FN uint64_t mm_bits_low(uint32_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

/* The first set bit of x (not 0) at or after bit start % 64, cyclically. */
MM_FN uint32_t mm_bits_pick(uint64_t x, uint32_t start) {
    const uint64_t from = x & ~0ull << (start & 63);
    return mm_ctz(from ? from : x);
}

#endif
