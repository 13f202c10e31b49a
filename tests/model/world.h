/* A heap for the explorer's scenarios: a few tiny segments (see config.sh), and who holds what in it. */
#ifndef MM_MODEL_WORLD_H
#define MM_MODEL_WORLD_H

#include "explore.h"
#include "runtime/core/heap.h"

#define WORLD_SEGMENTS_MAX 192

extern struct mm_heap_ref ref;
#define HEAP mm_heap_of(&ref)

/* A fresh heap of so many segments, all free. */
void world_make(uint32_t segments);

/* The caller now holds granules [first, first + n): nobody else may. And gives them up. */
void world_take(uint32_t first, uint32_t n);
void world_drop(uint32_t first, uint32_t n);
/* The same for bytes handed out by malloc, one mark for each slice. `must`: NULL is wrong here. */
void *world_malloc(uint32_t bytes, int must);
void world_free(void *p);
uint32_t world_misuses(void);
/* Set-up only: segment s is live, a run of one. */
void world_hold_run(uint32_t s);

/* Nobody is in the allocator: every invariant of tree.h, segment.h, block.h and run.h, and nothing lost. */
void world_check(void);
/* Then: drains; without live memory the heap must be as fresh. */
void world_check_drained(void);

/* Values that threads pass to check or to each other, no step of the schedule. */
extern uint64_t cell[16];
static inline void cell_set(uint32_t i, uint64_t v) { model_set(&cell[i], v); }

#endif
