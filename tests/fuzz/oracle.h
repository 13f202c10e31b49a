/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap under test and its expected state: a sorted map of live allocations, their number in each segment,
 * and the expected counts. Any difference prints one line on stderr and aborts.
 *
 * Assertions about NULL, for a single caller (docs/reference/contract.md: only if nothing was left):
 *   a request larger than the mapped memory gets NULL, and so does an alignment that is no power of two;
 *   a request for which suitably placed segments with nothing live suffice does not get NULL: blocks open in them
 *   can be given up. In all other cases both are right, because the allocator chooses which slices share a block.
 */
#ifndef FUZZ_ORACLE_H
#define FUZZ_ORACLE_H

#include <stdint.h>

#include "runtime/cpu/cpuheap.h"

#define ORACLE_LIVE_MOST 2048u
#define ORACLE_SEGMENTS_MOST 256u
#define ORACLE_STALE 64u

struct live {
    uint64_t at, bytes, asked, bytes_most; /* bytes: asked, at least 1; most: what it may take from the heap */
    int is_slice;
};

struct oracle {
    struct mm_cpu_heap heap;
    uint64_t base, mapped_bytes, reserved_bytes;
    struct live live[ORACLE_LIVE_MOST]; /* by address */
    uint32_t lives;
    uint32_t in_segment[ORACLE_SEGMENTS_MOST]; /* live allocations in each segment */
    uint64_t stale[ORACLE_STALE];              /* recently freed */
    uint32_t stales;
    uint64_t nulls, misuse[MM_MISUSE_KINDS];
};

/* Any kind of misuse but foreign. */
#define ORACLE_ANY_KIND MM_MISUSE_KINDS

void oracle_begin(struct oracle *o, uint32_t segments, uint32_t mapped, uint64_t align_bytes);
/* Frees everything live, from the first or from the last; then the heap must be like a new one. */
void oracle_end(struct oracle *o, int backwards);

/* Returns whether malloc succeeded. align: 0 for plain malloc. */
int oracle_malloc(struct oracle *o, uint64_t bytes, uint64_t align, int is_aligned);
void oracle_free(struct oracle *o, uint32_t index);
/* Frees any address: a live allocation becomes free, anything else is misuse of a kind that the oracle knows. */
void oracle_free_at(struct oracle *o, uint64_t at);
/* Frees `at`, which must be counted once, as misuse of that kind. */
void oracle_misuse(struct oracle *o, uint64_t at, int kind);
/* Frees the same allocation twice in a row. */
void oracle_free_twice(struct oracle *o, uint32_t index);
void oracle_check(struct oracle *o);
void oracle_drain(struct oracle *o);

#endif
