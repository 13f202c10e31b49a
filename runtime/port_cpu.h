/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* port.h for the CPU: GCC and Clang builtins; a warp has one lane. Include port.h, not this. */
#ifndef MM_PORT_CPU_H
#define MM_PORT_CPU_H

#include <sched.h>
#include <threads.h>
#include <time.h>

#define MM_FN static inline __attribute__((unused))
#define MM_FN_RARE static __attribute__((noinline, unused))
#define MM_FN_LEAF MM_FN
#define MM_ROLLED
#define MM_UNROLLED(n)

#define MM_ATOMICS(bits)                                                                                                   \
    MM_FN uint##bits##_t mm_load_relaxed_u##bits(uint##bits##_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }       \
    MM_FN uint##bits##_t mm_load_acquire_u##bits(uint##bits##_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }       \
    MM_FN void mm_store_relaxed_u##bits(uint##bits##_t *p, uint##bits##_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); } \
    MM_FN void mm_store_release_u##bits(uint##bits##_t *p, uint##bits##_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
MM_ATOMICS(32)
MM_ATOMICS(64)
#undef MM_ATOMICS

MM_FN uint32_t mm_load_relaxed_u8(uint8_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
MM_FN void mm_store_relaxed_u8(uint8_t *p, uint8_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
MM_FN uint64_t mm_load_eight_u8(uint8_t *p) {
    uint64_t eight = 0;
    for (uint32_t i = 0; i < 8; i++) eight |= (uint64_t)mm_load_relaxed_u8(p + i) << 8 * i;
    return eight;
}
MM_FN void mm_store_eight_u8(uint8_t *p, uint64_t v) {
    if ((uintptr_t)p % 8 != 0) __builtin_trap(); /* a GPU traps, too */
    for (int i = 0; i < 8; i++) mm_store_relaxed_u8(p + i, (uint8_t)(v >> 8 * i));
}
/* A hint: the program may write there at the same time, by accesses that are not atomic. ThreadSanitizer does not see it. */
#ifdef __SANITIZE_THREAD__
__attribute__((noinline, unused, no_sanitize("thread"))) static uint32_t mm_load_hint_u32(uint32_t *p) { return *(volatile uint32_t *)p; }
#else
MM_FN uint32_t mm_load_hint_u32(uint32_t *p) { return mm_load_relaxed_u32(p); }
#endif
MM_FN uint32_t mm_load_cached_u32(uint32_t *p) { return mm_load_relaxed_u32(p); }
MM_FN uint64_t mm_load_cached_u64(uint64_t *p) { return mm_load_relaxed_u64(p); }

/* Accesses to the mailbox (grow.h). */
MM_FN uint64_t mm_load_acquire_system_u64(uint64_t *p) { return mm_load_acquire_u64(p); }
MM_FN void mm_store_release_system_u64(uint64_t *p, uint64_t v) { mm_store_release_u64(p, v); }

#define MM_RMW(name, op, bits, order) \
    MM_FN uint##bits##_t mm_##name##_u##bits(uint##bits##_t *p, uint##bits##_t v) { return __atomic_##op(p, v, order); }
#define MM_RMW_RELAXED __ATOMIC_RELAXED
#define MM_RMW_ACQUIRE __ATOMIC_ACQUIRE
#define MM_RMW_RELEASE __ATOMIC_RELEASE
#define MM_RMW_ACQ_REL __ATOMIC_ACQ_REL

#define MM_CAS(name, bits, order)                                                                           \
    MM_FN int mm_cas_##name##_u##bits(uint##bits##_t *p, uint##bits##_t expected, uint##bits##_t desired) { \
        return __atomic_compare_exchange_n(p, &expected, desired, 0, order, __ATOMIC_RELAXED);              \
    }

MM_FN uint32_t mm_popcount(uint64_t x) { return (uint32_t)__builtin_popcountll(x); }
MM_FN uint32_t mm_ctz(uint64_t x) { return (uint32_t)__builtin_ctzll(x); }
MM_FN uint32_t mm_clz(uint64_t x) { return (uint32_t)__builtin_clzll(x); }
MM_FN uint32_t mm_clz_u32(uint32_t x) { return (uint32_t)__builtin_clz(x); }
MM_FN uint32_t mm_warp_first(uint32_t group) { return group != 0 ? mm_ctz(group) : 0; }
MM_FN uint32_t mm_mulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }

/* A warp of one lane. */
MM_FN uint32_t mm_anew(uint32_t x) { return x; }
MM_FN uint32_t mm_warp_lane(void) { return 0; }
MM_FN uint32_t mm_warp_before(void) { return 0; }
MM_FN uint32_t mm_warp_self(void) { return 1; }
MM_FN uint32_t mm_warp_from(void) { return ~0u; }
MM_FN uint32_t mm_warp_here(void) { return 1; }
MM_FN uint32_t mm_warp_match(uint32_t here, uint32_t key) { return (void)key, here; }
MM_FN uint32_t mm_warp_group(uint64_t same) { return (void)same, 1; }
#define MM_WARP_ALL 1u
MM_FN uint32_t mm_warp_shuffle(uint32_t group, uint32_t value, uint32_t lane) { return (void)group, (void)lane, value; }
MM_FN void mm_warp_sync(uint32_t group) { (void)group; }
MM_FN uint32_t mm_warp_ballot(uint32_t group, int x) { return x ? group : 0; }
MM_FN uint32_t mm_warp_sum(uint32_t group, uint32_t value) { return (void)group, value; }
MM_FN uint32_t mm_warp_or(uint32_t group, uint32_t value) { return (void)group, value; }
MM_FN uint32_t mm_warp_max(uint32_t group, uint32_t value) { return (void)group, value; }

/* Where a caller begins a search: a number that differs from those of other threads. */
MM_FN uint32_t mm_home(void) {
    static uint32_t next;
    static __thread uint32_t mine;
    if (mine == 0) mine = __atomic_add_fetch(&next, 1, __ATOMIC_RELAXED);
    return mine;
}

MM_FN uint32_t mm_warp_number(void) { return mm_home(); }
MM_FN uint32_t mm_warp_slot(void) { return mm_home(); }

/* A pseudo-random number (xorshift: Marsaglia, J. Stat. Softw. 8(14), 2003). */
MM_FN uint32_t mm_random(void) {
    static __thread uint32_t state;
    if (state == 0) state = (mm_home() + 1) * 0x9e3779b9u | 1;
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state;
}

MM_FN uint64_t mm_now_ns(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The calling thread, for reports. */
MM_FN void mm_thread_id(uint32_t thread[3], uint32_t block[3]) {
    thread[0] = mm_home();
    thread[1] = thread[2] = block[0] = block[1] = block[2] = 0;
}
MM_FN uint32_t mm_thread_number(void) { return mm_home() % 1024; }
MM_FN uint64_t mm_cta_number(void) { return mm_home() / 1024; }
/* The kernel's launch number, which tests set. */
static uint64_t mm_cpu_grid __attribute__((unused));
MM_FN uint64_t mm_grid(void) { return mm_cpu_grid; }
/* Ends the process. */
MM_FN void mm_trap(void) { __builtin_trap(); }

MM_FN void mm_wait(void) { sched_yield(); }
/* No pause: mm_wait yields to other threads. */
MM_FN void mm_wait_elsewhere(uint64_t *words, uint32_t many, uint32_t n) { (void)words, (void)many, (void)n; }
/* One step is enough: other threads run in it for a whole time slice. */
MM_FN uint32_t mm_wait_steps(uint32_t n) { return (void)n, 1; }
/* Always: mm_wait_host takes the time instead. */
MM_FN int mm_is_due(uint64_t at_ns) { return (void)at_ns, 1; }
/* Sleeps for some 60 us, since the host thread that answers needs the processor. */
MM_FN void mm_wait_host(void) {
    const struct timespec moment = {0, 1000};
    thrd_sleep(&moment, NULL);
}

#endif
