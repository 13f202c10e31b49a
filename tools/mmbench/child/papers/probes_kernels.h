/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a thread of the case probes does: malloc of one unit, by the product's headers. Two things differ from a program's malloc:
 *   - It draws PROBES_STEPS times more before it lets the list grow, since the paper's threads draw until they have a unit.
 *   - With PROBES_COUNTED the atomic that claims units, the load that reads their words and the step of a lane's random numbers are this file's substitutes,
 *     which count. The product has no counters.
 * Compiled once for each face of random walk (MM_WALK_FACE), with and without counters.
 */
#ifndef MM_BENCH_PROBES_KERNELS_H
#define MM_BENCH_PROBES_KERNELS_H

#include "runtime/core/layout.h"
#include "tools/kernels.h"
#include "tools/mmbench/child/papers/probes.h"

#ifdef __CUDACC__
static __constant__ struct mm_heap_ref probes_heap; /* as the product's reference to its heap */
#define PROBES_THREADS CTA_THREADS
#define PROBES_THREAD threadIdx.x /* the index of the thread's counters */
#else
static struct mm_heap_ref probes_heap; /* whoever includes this defines the two macros */
#endif

/* mm_listed_patience, with so many draws more. */
enum { PROBES_PATIENCE_WORDS = MM_WALK_PROBES, PROBES_PATIENCE_UNITS = MM_WALK_UNIT_PROBES };
#undef MM_WALK_PROBES
#define MM_WALK_PROBES (PROBES_STEPS + PROBES_PATIENCE_WORDS)
#undef MM_WALK_UNIT_PROBES
#define MM_WALK_UNIT_PROBES (PROBES_STEPS + PROBES_PATIENCE_UNITS)

#ifdef PROBES_COUNTED
#ifdef __CUDACC__
static __shared__ struct probes_note probes_notes[PROBES_THREADS];
#else
static struct probes_note probes_notes[PROBES_THREADS];
#endif
#define PROBES_MINE (&probes_notes[PROBES_THREAD])

/* Other words, such as the list's, are not counted. */
MM_FN uint32_t probes_is_units(const uint64_t *p) {
    return (uint64_t)p - probes_heap.words < probes_heap.user_bytes >> MM_PAGE_SHIFT << (uint32_t)probes_heap.word_shift << 3;
}
MM_FN uint64_t probes_load(uint64_t *p) {
    PROBES_MINE->reads += probes_is_units(p);
    return mm_load_relaxed_u64(p);
}
MM_FN uint64_t probes_or(uint64_t *p, uint64_t v) {
    PROBES_MINE->sets += probes_is_units(p);
    return mm_or_acquire_u64(p, v);
}
MM_FN uint32_t probes_random_next(uint32_t random) {
    PROBES_MINE->steps++;
    return mm_random_next(random);
}
#define mm_load_relaxed_u64 probes_load
#define mm_or_acquire_u64 probes_or
#define mm_random_next probes_random_next
#endif

#include "runtime/heap.h"

#ifndef MM_WALK_MALLOC_H
#error "compile with MM_ALLOCATOR=random_walk"
#endif
MM_STATIC_ASSERT(MM_WALK_UNIT_BYTES / 32 * PROBES_WORD == MM_WALK_UNIT_BYTES, "a word has 32 units");

/* malloc of one unit (mm_heap_malloc). Returns the unit's number, or PROBES_NONE. */
MM_FN uint32_t probes_take_one(const struct mm_heap_ref *ref) {
    uint64_t address = mm_small_draw(ref, MM_WALK_UNIT_BYTES);
    if (address & MM_TOKEN) address = (uint64_t)mm_small_malloc(ref, address);
    return address != 0 ? (uint32_t)((address - ref->user_base) >> MM_WALK_UNIT_SHIFT) : PROBES_NONE;
}

#ifdef PROBES_COUNTED
/* The same, counted. RW and BM draw once before the lanes come together. */
MM_FN struct probes_note probes_take_counted(const struct mm_heap_ref *ref, uint32_t *unit) {
    const struct probes_note none = {0, 0, 0, 0};
    *PROBES_MINE = none;
    *unit = probes_take_one(ref);
    PROBES_MINE->is_beyond = PROBES_MINE->steps + PROBES_STEPS > mm_listed_patience(1, 0);
    PROBES_MINE->steps += MM_WALK_FACE <= MM_WALK_BM;
    return *PROBES_MINE;
}
#endif

#endif
