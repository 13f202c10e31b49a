/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The grower: a thread that makes a heap grow while kernels run. It polls the heap's mailbox (runtime/core/grow.h), maps memory, and answers. It makes
 * no driver call that waits for a kernel, and for growing none at all while there is no request. Trimming: trim.h.
 *
 * It polls every MM_HOST_POLL_US after a launch or a request, and less and less often while there is none (mmconfig.h). A launch wakes it from a long
 * sleep. Launches set one word, mm_grower_note, to 1; the threads of all heaps clear it.
 */
#ifndef MM_HOST_GROWER_H
#define MM_HOST_GROWER_H

#include "runtime/host/chunks.h"

struct mm_host_heap;

extern int mm_grower_note;
__attribute__((cold)) void mm_grower_launched(void);

/* A kernel is about to be launched. */
static inline void mm_grower_before_launch(void) {
    if (!__atomic_load_n(&mm_grower_note, __ATOMIC_RELAXED)) mm_grower_launched();
}

/* While this is not 0, no request is answered (for at most a second): a call of the program that failed for lack of memory is being repeated, and
 * the heaps must not take the memory that they gave back for it. */
extern int mm_grower_holds;

/* Called when a heap could not get memory, if not NULL: another room may hold memory of the device and give it back. It must not wait. */
extern void (*mm_grower_lacks_memory)(void);

/* Starts the thread of a heap whose fields are all set. Returns 0, or an errno. */
int mm_grower_start(const struct mm_driver *d, struct mm_host_heap *heap);
/* Asks the thread to end, and waits for it, at most MM_HOST_STOP_MS. Returns whether the heap has no thread now. */
bool mm_grower_try_stop(struct mm_host_heap *heap);

/* Resets this state in the child of a fork, which has no such threads. */
void mm_grower_forked(void);

/* How many more segments the heap may map if free_bytes of the device's memory are free. */
uint64_t mm_grower_room(const struct mm_host_heap *heap, uint64_t free_bytes);

/* Maps more memory for the heap: at least `least` consecutive segments, aligned as in mm_chunks_grow. If possible it maps a step (mmconfig.h), or `hoped`
 * segments if that is more. They become spare. The caller holds the heap's lock, and the heap's context is current. Count 0: heap->refusal says why. */
struct mm_host_segments mm_grower_more(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t least, uint64_t hoped, uint64_t align);

#endif
