/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A "kernel" for scenarios of a heap that grows and trims: threads of this process that run the allocator's source on the heap that
 * libmm.so made in the stand-in's memory. libmm.so's thread serves it as it would a GPU. */
#ifndef MM_CLIENT_WORK_H
#define MM_CLIENT_WORK_H

#include "client.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)
#define WORK_THREADS 6

extern struct mm_heap_ref work_ref;

/* Launches the first kernel, which creates the heap work_ref. */
void work_begin(void);
/* Each thread allocates objects of `bytes`, or of many sizes (0), until it has `share` bytes or gets NULL. */
void work_start(unsigned long long bytes, unsigned long long share);
void work_join(void);
/* Frees all objects of the threads. */
void work_release(void);

/* Over all threads since work_start: the number that got NULL; the longest malloc call. */
unsigned long long work_nulls(void);
double work_longest_ms(void);
double work_now_ms(void);
/* Mapped segments of work_ref. */
unsigned long long work_heap_mapped(void);
/* Destroys the context and checks that the heap is gone. */
void work_leaves_nothing(void);

#endif
