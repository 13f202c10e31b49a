/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* port.h for the GPU: nvcc, device code of sm_70 and up. Include port.h, not this. */
#ifndef MM_PORT_GPU_H
#define MM_PORT_GPU_H

#define MM_FN static __device__ __forceinline__
#define MM_FN_RARE static __device__ __noinline__
/* Leaf function, kept out of line: needs no stack frame. Inlined into a function that also makes calls, it would save registers. */
#define MM_FN_LEAF MM_FN_RARE

/* Before a loop on a rare path: keeps it from being unrolled, since each image contains the code. */
#define MM_ROLLED _Pragma("unroll 1")
/* Before a loop that is to be unrolled n times. */
#define MM_PRAGMA(text) _Pragma(#text)
#define MM_UNROLLED(n) MM_PRAGMA(unroll n)

/* PTX instead of nvcc's __nv_atomic builtins. The builtins compile to generic accesses, and those of 64 bits contain a loop for shared memory at each use
 * (68,736 bytes of sm_90 code for the library, and 59,008 with PTX). The core accesses global memory only. */
#define MM_REG32 "r"
#define MM_REG64 "l"
#define MM_ATOMICS(bits)                                                                                      \
    MM_FN uint##bits##_t mm_load_relaxed_u##bits(uint##bits##_t *p) {                                         \
        uint##bits##_t v;                                                                                     \
        asm volatile("ld.relaxed.gpu.global.u" #bits " %0, [%1];" : "=" MM_REG##bits(v) : "l"(p) : "memory"); \
        return v;                                                                                             \
    }                                                                                                         \
    MM_FN uint##bits##_t mm_load_acquire_u##bits(uint##bits##_t *p) {                                         \
        uint##bits##_t v;                                                                                     \
        asm volatile("ld.acquire.gpu.global.u" #bits " %0, [%1];" : "=" MM_REG##bits(v) : "l"(p) : "memory"); \
        return v;                                                                                             \
    }                                                                                                         \
    MM_FN void mm_store_relaxed_u##bits(uint##bits##_t *p, uint##bits##_t v) {                                \
        asm volatile("st.relaxed.gpu.global.u" #bits " [%0], %1;" : : "l"(p), MM_REG##bits(v) : "memory");    \
    }                                                                                                         \
    MM_FN void mm_store_release_u##bits(uint##bits##_t *p, uint##bits##_t v) {                                \
        asm volatile("st.release.gpu.global.u" #bits " [%0], %1;" : : "l"(p), MM_REG##bits(v) : "memory");    \
    }
MM_ATOMICS(32)
MM_ATOMICS(64)
#undef MM_ATOMICS

/* Bytes. A PTX register has at least 16 bits. */
MM_FN uint32_t mm_load_relaxed_u8(uint8_t *p) {
    uint16_t v;
    asm volatile("ld.relaxed.gpu.global.u8 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
    return v;
}
MM_FN void mm_store_relaxed_u8(uint8_t *p, uint8_t v) { asm volatile("st.relaxed.gpu.global.u8 [%0], %1;" : : "l"(p), "h"((uint16_t)v) : "memory"); }
/* Loads, or stores, eight bytes at a multiple of 8, the first one in the low bits. Relaxed. */
MM_FN uint64_t mm_load_eight_u8(uint8_t *p) { return mm_load_relaxed_u64((uint64_t *)p); }
MM_FN void mm_store_eight_u8(uint8_t *p, uint64_t v) { mm_store_relaxed_u64((uint64_t *)p, v); }
/* A hint: the program may write there at the same time, by accesses that are not atomic. */
MM_FN uint32_t mm_load_hint_u32(uint32_t *p) { return mm_load_relaxed_u32(p); }
/* Loads that the multiprocessor's cache may serve, so the values may be stale. */
MM_FN uint32_t mm_load_cached_u32(uint32_t *p) {
    uint32_t v;
    asm volatile("ld.relaxed.cta.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
MM_FN uint64_t mm_load_cached_u64(uint64_t *p) {
    uint64_t v;
    asm volatile("ld.relaxed.cta.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
/* Two adjacent words, at a multiple of 8: one access, but not atomic as a whole. */
MM_FN void mm_gather_u32(uint32_t *p, uint32_t *first, uint32_t *second) {
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(*first), "=r"(*second) : "l"(p) : "memory");
}
MM_FN void mm_gather_cached_u32(uint32_t *p, uint32_t *first, uint32_t *second) {
    asm volatile("ld.relaxed.cta.global.v2.u32 {%0, %1}, [%2];" : "=r"(*first), "=r"(*second) : "l"(p) : "memory");
}

/* Accesses to the mailbox, at system scope (grow.h). */
MM_FN uint64_t mm_load_acquire_system_u64(uint64_t *p) {
    uint64_t v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
MM_FN void mm_store_release_system_u64(uint64_t *p, uint64_t v) { asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory"); }

#define MM_RMW(name, op, bits, order)                                                                                                               \
    MM_FN uint##bits##_t mm_##name##_u##bits(uint##bits##_t *p, uint##bits##_t v) {                                                                 \
        uint##bits##_t old;                                                                                                                         \
        asm volatile("atom." order ".gpu.global." MM_PTX_##op(bits) " %0, [%1], %2;" : "=" MM_REG##bits(old) : "l"(p), MM_REG##bits(v) : "memory"); \
        return old;                                                                                                                                 \
    }
#define MM_PTX_fetch_add(bits) "add.u" #bits
#define MM_PTX_exchange_n(bits) "exch.b" #bits
#define MM_PTX_fetch_or(bits) "or.b" #bits
#define MM_PTX_fetch_and(bits) "and.b" #bits
#define MM_RMW_RELAXED "relaxed"
#define MM_RMW_ACQUIRE "acquire"
#define MM_RMW_RELEASE "release"
#define MM_RMW_ACQ_REL "acq_rel"

#define MM_CAS(name, bits, order)                                                                           \
    MM_FN int mm_cas_##name##_u##bits(uint##bits##_t *p, uint##bits##_t expected, uint##bits##_t desired) { \
        uint##bits##_t old;                                                                                 \
        asm volatile("atom." order ".gpu.global.cas.b" #bits " %0, [%1], %2, %3;"                           \
                     : "=" MM_REG##bits(old)                                                                \
                     : "l"(p), MM_REG##bits(expected), MM_REG##bits(desired)                                \
                     : "memory");                                                                           \
        return old == expected;                                                                             \
    }

MM_FN uint32_t mm_popcount(uint64_t x) { return (uint32_t)__popcll(x); }
MM_FN uint32_t mm_ctz(uint64_t x) { return (uint32_t)__ffsll((long long)x) - 1; }
MM_FN uint32_t mm_clz(uint64_t x) { return (uint32_t)__clzll((long long)x); }
MM_FN uint32_t mm_clz_u32(uint32_t x) { return (uint32_t)__clz((int)x); }
/* The first lane of a group; if that is empty, any number that a shuffle takes. */
MM_FN uint32_t mm_warp_first(uint32_t group) { return (uint32_t)__ffs((int)group) - 1; }
MM_FN uint32_t mm_mulhi(uint32_t a, uint32_t b) { return __umulhi(a, b); }

/* Returns x, but hides from the compiler that it is the same value. So values computed from x before are not kept in registers for later use; they are
 * computed again from the result. */
MM_FN uint32_t mm_anew(uint32_t x) {
    asm volatile("" : "+r"(x));
    return x;
}

/* volatile: reading it again costs nothing, so the compiler must not keep it in a register. */
MM_FN uint32_t mm_warp_lane(void) {
    uint32_t lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
/* The lanes before the caller's. */
MM_FN uint32_t mm_warp_before(void) {
    uint32_t lanes;
    asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(lanes));
    return lanes;
}
/* The caller, as a mask. */
MM_FN uint32_t mm_warp_self(void) {
    uint32_t lane;
    asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(lane));
    return lane;
}
/* The lanes from the caller on. Not the same register as the lanes before it, so the compiler keeps neither for the other's use. */
MM_FN uint32_t mm_warp_from(void) {
    uint32_t lanes;
    asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(lanes));
    return lanes;
}
/* The lanes that are converged here. Of `here`, the lanes that have the same key: the caller's group. */
MM_FN uint32_t mm_warp_here(void) { return __activemask(); }
MM_FN uint32_t mm_warp_match(uint32_t here, uint32_t key) { return __match_any_sync(here, key); }
/* The lanes that are converged here, as a mask that may be kept. ptxas assumes that the result of __activemask is the same in all lanes that converge
 * later, and then loses lanes that were apart when it was read. It does not assume that of the result of a match, unless it knows the value. same: a value that
 * is the same in all lanes, which ptxas must not know: not the high bits of 64 if a caller has no more than 32 (tests/gpu/keys.sh). */
MM_FN uint32_t mm_warp_group(uint64_t same) { return mm_warp_match(mm_warp_here(), (uint32_t)same); }
#define MM_WARP_ALL ~0u
MM_FN uint32_t mm_warp_shuffle(uint32_t group, uint32_t value, uint32_t lane) { return __shfl_sync(group, value, (int)lane); }
/* A barrier of the group: memory accesses of its lanes before the call happen before those of its lanes after the call. */
MM_FN void mm_warp_sync(uint32_t group) { __syncwarp(group); }
/* The lanes of the group for which x is not 0; every lane of the group calls. */
MM_FN uint32_t mm_warp_ballot(uint32_t group, int x) { return __ballot_sync(group, x); }
/* The sum, the or and the maximum over a group; every lane of the group calls, and the lanes agree on the trips. */
#if __CUDA_ARCH__ >= 800
#define MM_WARP_REDUCE(name, op, put) \
    MM_FN uint32_t mm_warp_##name(uint32_t group, uint32_t value) { return __reduce_##op##_sync(group, value); }
#else
#define MM_WARP_REDUCE(name, op, put)                                               \
    MM_FN uint32_t mm_warp_##name(uint32_t group, uint32_t value) {                 \
        uint32_t all = 0;                                                           \
        for (uint32_t rest = group; rest; rest &= rest - 1) {                       \
            const uint32_t other = __shfl_sync(group, value, __ffs((int)rest) - 1); \
            all = put;                                                              \
        }                                                                           \
        return all;                                                                 \
    }
#endif
MM_WARP_REDUCE(sum, add, all + other)
MM_WARP_REDUCE(or, or, all | other)
MM_WARP_REDUCE(max, max, other > all ? other : all)

/* Where a caller begins a search: the number of its multiprocessor, so that concurrent callers differ. */
MM_FN uint32_t mm_home(void) {
    uint32_t sm;
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

/* Where a warp begins a search: a number that differs from those of neighbouring warps. */
MM_FN uint32_t mm_warp_number(void) {
    uint32_t warp;
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    return blockIdx.x + blockIdx.y + blockIdx.z + warp;
}

/* The place of the caller's warp on the GPU, with at most 64 warps on a multiprocessor. No two warps that run at the same time have the same. A warp that was
 * preempted may go on in another place: who compares places must not rely on it. */
MM_FN uint32_t mm_warp_slot(void) {
    uint32_t warp;
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    return mm_home() << 6 | warp;
}

/* A pseudo-random number. */
MM_FN uint32_t mm_random(void) {
    uint32_t clock;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(clock));
    return (clock + mm_home() * 0x9e3779b9u) * 0x85ebca6bu;
}

#define MM_GATHERED 8
/* Load and store two adjacent words. p is a multiple of 16. One access, but not atomic as a whole. Relaxed. */
MM_FN void mm_gather_two(uint64_t *p, uint64_t *first, uint64_t *second) {
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(*first), "=l"(*second) : "l"(p) : "memory");
}
MM_FN void mm_store_two(uint64_t *p, uint64_t first, uint64_t second) {
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" : : "l"(p), "l"(first), "l"(second) : "memory");
}
/* A fence, and accesses after it that each release everything before the fence. So many releases cost one fence, and do not wait for each other. */
MM_FN void mm_publish_fence(void) { asm volatile("fence.acq_rel.gpu;" : : : "memory"); }
MM_FN void mm_store_published_u32(uint32_t *p, uint32_t v) { mm_store_relaxed_u32(p, v); }
MM_FN void mm_store_published_u64(uint64_t *p, uint64_t v) { mm_store_relaxed_u64(p, v); }

/* One clock for all multiprocessors, with a resolution of about a microsecond. */
MM_FN uint64_t mm_now_ns(void) {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* The calling thread, and its CTA (block), for reports. */
MM_FN void mm_thread_id(uint32_t thread[3], uint32_t block[3]) {
    thread[0] = threadIdx.x, thread[1] = threadIdx.y, thread[2] = threadIdx.z;
    block[0] = blockIdx.x, block[1] = blockIdx.y, block[2] = blockIdx.z;
}
/* The calling thread's number in its CTA, and the CTA's in its grid, x first. */
MM_FN uint32_t mm_thread_number(void) { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
MM_FN uint64_t mm_cta_number(void) { return ((uint64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
/* The kernel's launch number, modulo 2^MM_GRID_BITS. Launches of a context are numbered in the order in which they are submitted. */
MM_FN uint64_t mm_grid(void) {
    uint64_t grid;
    asm("mov.u64 %0, %%gridid;" : "=l"(grid));
    return grid & ((1u << MM_GRID_BITS) - 1);
}
/* Stops the kernel. Reports that the thread wrote to host memory before are visible there. */
MM_FN void mm_trap(void) {
    __threadfence_system();
    __trap();
}

/* The pause of a waiting loop: none, since the loop's loads take 300 cycles and more. Never NANOSLEEP: a lane that sleeps releases the lanes that wait for it
 * at a convergence barrier of the program, and the warp stays diverged (docs/explanation/design.md, "Converged warps"). */
MM_FN void mm_wait(void) { asm volatile("" : : : "memory"); }
MM_FN void mm_wait_host(void) {}
/* A pause of n dependent loads from random ones of `many` words. */
MM_FN void mm_wait_elsewhere(uint64_t *words, uint32_t many, uint32_t n) {
    uint32_t at = mm_random();
    MM_ROLLED
    for (uint32_t i = 0; i < n; i++) at = (at + (uint32_t)mm_load_relaxed_u64(words + mm_mulhi(at, many))) * 1664525u + 1013904223u;
}
/* The number of steps for a pause of n steps. */
MM_FN uint32_t mm_wait_steps(uint32_t n) { return n; }
/* Whether the time at_ns has come. */
MM_FN int mm_is_due(uint64_t at_ns) { return (int64_t)(mm_now_ns() - at_ns) >= 0; }

#endif
