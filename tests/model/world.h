/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A heap for the explorer's scenarios: a few tiny segments (see config.sh), and a record of which thread holds what. */
#ifndef MM_MODEL_WORLD_H
#define MM_MODEL_WORLD_H

#include "explore.h"
#include "runtime/check.h"

#define WORLD_SEGMENTS_MAX 80
#define SEG ((uint32_t)MM_SEGMENT_BYTES)
#define PAGE ((uint32_t)MM_PAGE_BYTES)
/* Classes that scenarios use: slices of 16, 32 and 48 bytes, in blocks of one, one and two pages. The last one has narrow blocks, too. */
enum { A, B, TWO };

extern struct mm_heap_ref ref;
#define HEAP mm_heap_of(&ref)

/* A fresh heap of that many segments, all free. What need not be zero is rubbish. Each thread has its own home, or all share one. */
void world_make(uint32_t segments);
void world_same_home(void);
/* Set-up only: `lanes` threads, from `first` on, are the lanes of a warp. */
void world_warp(uint32_t first, uint32_t lanes);
/* Set-up only: a block of class c has that many slices. */
void world_cut(uint32_t c, uint32_t slices);
/* Set-up only: the same for a narrow block. */
void world_cut_narrow(uint32_t c, uint32_t slices);
/* Set-up only: all pages of segment s but the first `n` are in use for good. */
void world_pages(uint32_t s, uint32_t n);
/* Set-up only: segment s is live, a run of one. */
void world_hold_run(uint32_t s);
/* Set-up only: segments [from, end) are not mapped, and are obtained through the mailbox, where callers poll that many times. */
void world_grows(uint32_t from, uint32_t polls);
/* Maps or unmaps segments. */
void world_map(uint32_t first, uint32_t count, int is_there);
extern struct mm_mailbox mailbox;

/* The caller now holds `bytes` at byte offset `off` of the heap: no other thread may. And releases them. */
void world_take(uint64_t off, uint64_t bytes);
void world_drop(uint64_t off, uint64_t bytes);
/* malloc and free with bookkeeping. `must`: NULL is wrong here. NULL is not freed. */
void *world_malloc(uint32_t bytes, int must);
void world_free(void *p);
/* Records the result of a slice's claim. 0 is NULL. */
void *world_got(uint64_t address, uint32_t c);
/* Set-up only: mallocs until NULL, at most n; returns how many. */
uint32_t world_fill(uint32_t bytes, void **p, uint32_t n);
uint32_t world_misuses(void);
/* The slices of class c that are free in blocks whose entries the table has. */
uint32_t world_free_slices(uint32_t c);

/* With no thread in the allocator: every invariant (runtime/check.h) holds, and exactly what was handed out is live. */
void world_check(void);
/* The same, then all free blocks are retired; without live memory all segments must be unowned. */
void world_check_drained(void);

/* Values that threads pass to check or to each other; not a step of the schedule. */
extern uint64_t cell[16];
static inline void cell_set(uint32_t i, uint64_t v) { model_set(&cell[i], v); }

#endif
