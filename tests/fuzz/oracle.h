/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap under test and what it must do, kept beside it: a sorted map of what is live, how much of it each segment
 * holds, and what must have been counted. Any difference is one line on stderr and an abort.
 *
 * What is asserted of NULL, for a single caller (docs/contract.md: only if nothing was left):
 *   a request larger than what is mapped gets NULL, as does an alignment that is no power of two;
 *   a request for which segments that hold nothing live suffice, at the right place, does not: whatever is open in
 *   them can be given up. Between the two either is right, because which slices share a block is the allocator's.
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
    uint32_t in_segment[ORACLE_SEGMENTS_MOST]; /* live ones that lie in it */
    uint64_t stale[ORACLE_STALE];              /* freed lately */
    uint32_t stales;
    uint64_t nulls, misuse[MM_MISUSE_KINDS];
};

/* Any kind of misuse but foreign. */
#define ORACLE_ANY_KIND MM_MISUSE_KINDS

void oracle_begin(struct oracle *o, uint32_t segments, uint32_t mapped, uint64_t align_bytes);
/* Frees what is live, the first or the last first; then all must be as new. */
void oracle_end(struct oracle *o, int backwards);

/* Returns whether there was memory. align: 0 for plain malloc. */
int oracle_malloc(struct oracle *o, uint64_t bytes, uint64_t align, int is_aligned);
void oracle_free(struct oracle *o, uint32_t index);
/* Frees `at`, whatever it is: what is live becomes free, all else is misuse of a kind that the oracle knows. */
void oracle_free_at(struct oracle *o, uint64_t at);
/* Frees `at`, which must be counted once, as `kind`. */
void oracle_misuse(struct oracle *o, uint64_t at, int kind);
/* Frees the same twice in a row. */
void oracle_free_twice(struct oracle *o, uint32_t index);
void oracle_check(struct oracle *o);
void oracle_drain(struct oracle *o);

#endif
