/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap for the explorer's scenarios: a few tiny segments (see config.sh), and who holds what in it. */
#ifndef MM_MODEL_WORLD_H
#define MM_MODEL_WORLD_H

#include "explore.h"
#include "runtime/core/check.h"

#define WORLD_SEGMENTS_MAX 192
#define HALF ((uint32_t)MM_SEGMENT_BYTES / 2)
#define QUARTER ((uint32_t)MM_SEGMENT_BYTES / 4)
#define EIGHTH ((uint32_t)MM_SEGMENT_BYTES / 8)
#define THIRD (EIGHTH * 5 / 2) /* three to a segment; of blocks of two slices, the last one is shorter */

extern struct mm_heap_ref ref;
#define HEAP mm_heap_of(&ref)

/* A fresh heap of so many segments, all free. Each thread has a home of its own, as far as there are stripes; or all one. */
void world_make(uint32_t segments);
void world_same_home(void);
/* Set-up only: so many lots of stripes, and of reserves, are made ready ahead (else none); rows of 1 << row_shift segments (else
 * one). */
void world_lots(uint32_t ahead, uint32_t row_shift, uint32_t reserve_ahead);
/* Set-up only: `lots` lots more, and the tickets of the class begin again at 0. Nothing is in those that are ready. */
void world_late_tickets(uint32_t bytes, uint32_t lots);

/* Set-up only: segments [from, end) are not there, and are to be had from the mailbox, for which callers wait so often. */
void world_grows(uint32_t from, uint32_t polls);
/* Segments that are, or are not there any more. */
void world_map(uint32_t first, uint32_t count, int is_there);
extern struct mm_mailbox mailbox;

/* The caller now holds `bytes` at byte offset `off` of the heap: nobody else may. And gives them up. */
void world_take(uint64_t off, uint64_t bytes);
void world_drop(uint64_t off, uint64_t bytes);
/* malloc and free that keep account. `must`: NULL is wrong here. NULL is not freed. */
void *world_malloc(uint32_t bytes, int must);
void world_free(void *p);
/* A warp of n lanes asks at once: how many were served. p: what they got. */
uint32_t world_malloc_warp(uint32_t bytes, uint32_t n, void **p, int must);
/* Takes what a claim of class c says, and puts the addresses into p: how many. */
uint32_t world_got(mm_claim claim, uint32_t c, void **p);
/* Set-up only: mallocs until NULL, at most n; how many. */
uint32_t world_fill(uint32_t bytes, void **p, uint32_t n);
/* Set-up only: segment s is live, a run of one. */
void world_hold_run(uint32_t s);
/* Forgets which version of the supply was dry. */
void world_forget_dry(void);
uint32_t world_misuses(void);

/* Nobody is in the allocator: every invariant (runtime/core/check.h), and exactly what was handed out is live. */
void world_check(void);
/* Then: drains; without live memory the heap must be as fresh. */
void world_check_drained(void);

/* Values that threads pass to check or to each other, no step of the schedule. */
extern uint64_t cell[16];
static inline void cell_set(uint32_t i, uint64_t v) { model_set(&cell[i], v); }

#endif
