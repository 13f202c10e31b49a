/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* port.h for the interleaving explorer: every atomic is a step of the schedule, sequentially consistent.
 *
 * Found before runtime/port_cpu.h because of the order of -I options. The explorer (explore.h) runs each
 * "thread" as a coroutine that gives way before every atomic; an atomic itself is then an ordinary access,
 * logged so that the explorer can take it back. A warp has one lane, or as many as the scenario says (explore.h).
 */
#ifndef MM_PORT_MODEL_H
#define MM_PORT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#define MM_FN static inline __attribute__((unused))
#define MM_FN_RARE static __attribute__((noinline, unused))
#define MM_FN_LEAF MM_FN
#define MM_ROLLED
#define MM_UNROLLED(n)

enum model_op { MODEL_LOAD, MODEL_STORE, MODEL_fetch_add, MODEL_fetch_or, MODEL_fetch_and, MODEL_exchange_n, MODEL_CAS };

/* One atomic step on *p (bits wide): returns the value before. */
uint64_t model_atomic(void *p, uint32_t bits, enum model_op op, uint64_t v, uint64_t expected);
void model_wait(void);
uint32_t model_home(void);
uint32_t model_lane(void);
uint32_t model_here(void);
/* A warp operation: all lanes of the group come, and see what each of them has brought. */
#define MODEL_LANES 4
void model_meet(uint32_t group, uint64_t brings, const void *place, uint64_t met[MODEL_LANES]);

#define MM_ATOMICS(bits)                                                                                                                \
    MM_FN uint##bits##_t mm_load_relaxed_u##bits(uint##bits##_t *p) { return (uint##bits##_t)model_atomic(p, bits, MODEL_LOAD, 0, 0); } \
    MM_FN uint##bits##_t mm_load_acquire_u##bits(uint##bits##_t *p) { return (uint##bits##_t)model_atomic(p, bits, MODEL_LOAD, 0, 0); } \
    MM_FN void mm_store_relaxed_u##bits(uint##bits##_t *p, uint##bits##_t v) { model_atomic(p, bits, MODEL_STORE, v, 0); }              \
    MM_FN void mm_store_release_u##bits(uint##bits##_t *p, uint##bits##_t v) { model_atomic(p, bits, MODEL_STORE, v, 0); }
MM_ATOMICS(32)
MM_ATOMICS(64)
#undef MM_ATOMICS

MM_FN uint32_t mm_load_relaxed_u8(uint8_t *p) { return (uint32_t)model_atomic(p, 8, MODEL_LOAD, 0, 0); }
MM_FN uint64_t mm_load_eight_u8(uint8_t *p) { return model_atomic(p, 64, MODEL_LOAD, 0, 0); } /* one access, as on a GPU */
MM_FN void mm_store_eight_u8(uint8_t *p, uint64_t v) {
    if ((uintptr_t)p % 8 != 0) __builtin_trap();
    model_atomic(p, 64, MODEL_STORE, v, 0);
}
MM_FN void mm_store_relaxed_u8(uint8_t *p, uint8_t v) { model_atomic(p, 8, MODEL_STORE, v, 0); }
MM_FN uint32_t mm_load_hint_u32(uint32_t *p) { return mm_load_relaxed_u32(p); }
/* What a cache may give is what was there earlier: the schedule in which the reader goes on later. */
MM_FN uint32_t mm_load_cached_u32(uint32_t *p) { return mm_load_relaxed_u32(p); }
MM_FN uint64_t mm_load_cached_u64(uint64_t *p) { return mm_load_relaxed_u64(p); }

MM_FN uint64_t mm_load_acquire_system_u64(uint64_t *p) { return mm_load_acquire_u64(p); }
MM_FN void mm_store_release_system_u64(uint64_t *p, uint64_t v) { mm_store_release_u64(p, v); }

#define MM_RMW(name, op, bits, order) \
    MM_FN uint##bits##_t mm_##name##_u##bits(uint##bits##_t *p, uint##bits##_t v) { return (uint##bits##_t)model_atomic(p, bits, MODEL_##op, v, 0); }

#define MM_CAS(name, bits, order)                                                                           \
    MM_FN int mm_cas_##name##_u##bits(uint##bits##_t *p, uint##bits##_t expected, uint##bits##_t desired) { \
        return model_atomic(p, bits, MODEL_CAS, desired, expected) == expected;                             \
    }

MM_FN uint32_t mm_popcount(uint64_t x) { return (uint32_t)__builtin_popcountll(x); }
MM_FN uint32_t mm_ctz(uint64_t x) { return (uint32_t)__builtin_ctzll(x); }
MM_FN uint32_t mm_clz(uint64_t x) { return (uint32_t)__builtin_clzll(x); }
MM_FN uint32_t mm_clz_u32(uint32_t x) { return (uint32_t)__builtin_clz(x); }
MM_FN uint32_t mm_warp_first(uint32_t group) { return group != 0 ? mm_ctz(group) : 0; }
MM_FN uint32_t mm_mulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }

MM_FN uint32_t mm_anew(uint32_t x) { return x; }
MM_FN uint32_t mm_warp_lane(void) { return model_lane(); }
MM_FN uint32_t mm_warp_before(void) { return (1u << model_lane()) - 1; }
MM_FN uint32_t mm_warp_self(void) { return 1u << model_lane(); }
MM_FN uint32_t mm_warp_from(void) { return ~0u << model_lane(); }
#define MM_WARP_ALL 1u /* a thread that is no lane of a warp of several is a full warp */
#define mm_warp_here() model_here()
MM_FN uint32_t mm_warp_shuffle(uint32_t group, uint32_t value, uint32_t lane) {
    uint64_t met[MODEL_LANES];
    model_meet(group, value, NULL, met);
    return (uint32_t)met[lane % 32 % MODEL_LANES];
}
MM_FN void mm_warp_sync(uint32_t group) { mm_warp_shuffle(group, 0, 0); }
/* What the lanes of the group bring, put together by `put`. */
#define MODEL_WARP(name, type, put)                             \
    MM_FN uint32_t mm_warp_##name(uint32_t group, type value) { \
        uint64_t met[MODEL_LANES];                              \
        uint32_t all = 0;                                       \
        model_meet(group, (uint64_t)value, NULL, met);          \
        for (uint32_t i = 0; i < MODEL_LANES; i++)              \
            if (group >> i & 1) all = put;                      \
        return all;                                             \
    }
MODEL_WARP(match, uint32_t, met[i] == value ? all | 1u << i : all)
MODEL_WARP(ballot, int, met[i] != 0 ? all | 1u << i : all)
MODEL_WARP(sum, uint32_t, all + (uint32_t)met[i])
MODEL_WARP(or, uint32_t, all | (uint32_t)met[i])
MODEL_WARP(max, uint32_t, met[i] > all ? (uint32_t)met[i] : all)
#undef MODEL_WARP
#define mm_warp_group(same) ((void)(same), model_here())

MM_FN uint32_t mm_home(void) { return model_home(); }
MM_FN uint32_t mm_warp_number(void) { return model_home(); }
MM_FN uint32_t mm_warp_slot(void) { return model_home(); }

/* The same for a thread each time: what it does depends on the state alone. */
MM_FN uint32_t mm_random(void) { return model_home() * 0x9e3779b9u; }

MM_FN void mm_thread_id(uint32_t thread[3], uint32_t block[3]) { thread[0] = thread[1] = thread[2] = block[0] = block[1] = block[2] = 0; }
MM_FN uint64_t mm_grid(void) { return 0; }
MM_FN void mm_trap(void) { __builtin_trap(); }
MM_FN uint64_t mm_now_ns(void) { return 0; } /* time stands still: what was refused stays so */
MM_FN void mm_wait(void) { model_wait(); }
MM_FN void mm_wait_host(void) { model_wait(); }
MM_FN void mm_wait_elsewhere(uint64_t *words, uint32_t many, uint32_t n) { (void)words, (void)many, (void)n; } /* a pause, without the steps */
MM_FN uint32_t mm_wait_steps(uint32_t n) { return (void)n, 1; }                                                /* the explorer counts waits, not their length */
MM_FN int mm_is_due(uint64_t at_ns) { return (void)at_ns, 1; }

#endif
