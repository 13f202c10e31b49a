/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A "kernel" for scenarios of a heap that grows and gives back: threads of this process, which run the allocator's own source on the heap
 * that libmm.so has made in the stand-in's memory; libmm.so's thread serves it as it would a GPU. */
#ifndef MM_CLIENT_WORK_H
#define MM_CLIENT_WORK_H

#include "client.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define WORK_THREADS 6

extern struct mm_heap_ref work_ref;

/* Launches a kernel for the first time: its heap is work_ref. */
void work_begin(void);
/* Each thread allocates objects of `bytes`, or of many sizes (0), until it has `share` bytes or gets NULL. */
void work_start(unsigned long long bytes, unsigned long long share);
void work_join(void);
/* Frees all that the threads have. */
void work_release(void);

/* Of all threads since work_start: those that got NULL; the longest call of malloc. */
unsigned long long work_nulls(void);
double work_longest_ms(void);
double work_now_ms(void);
/* Segments of work_ref that are mapped. */
unsigned long long work_heap_mapped(void);
/* Ends the context, after which the heap must be gone. */
void work_leaves_nothing(void);

#endif
