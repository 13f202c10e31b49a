/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The thread that makes a heap grow while kernels run: it looks into the heap's mailbox (runtime/core/grow.h), maps memory
 * and answers. It makes no call that waits for a kernel, and none at all while nothing is asked for.
 *
 * It looks every MM_HOST_POLL_US after a launch or a request, and ever more rarely when there is none (mmconfig.h); a launch wakes
 * it out of that. Launches tell by one word, mm_grower_note: 1 is "somebody launched", which the threads take back.
 */
#ifndef MM_HOST_GROWER_H
#define MM_HOST_GROWER_H

#include "runtime/host/heap.h"

extern int mm_grower_note;
__attribute__((cold)) void mm_grower_launched(void);

/* A kernel is about to be launched. */
static inline void mm_grower_before_launch(void) {
    if (!__atomic_load_n(&mm_grower_note, __ATOMIC_RELAXED)) mm_grower_launched();
}

/* While this is not 0 no request is answered (for a second at most): the program's call that failed for lack of memory is made
 * again, and what heaps gave back for it is not for them. */
extern int mm_grower_holds;

/* Starts the thread of a heap whose fields are all set. Returns 0, or an errno. */
int mm_grower_start(const struct mm_driver *d, struct mm_host_heap *heap);
/* Asks it to end, and waits, within MM_HOST_STOP_MS. Returns whether there is none any more. */
bool mm_grower_try_stop(struct mm_host_heap *heap);

/* In the child of a fork: there are no such threads here. */
void mm_grower_forked(void);

/* How many segments the heap may map with so much of the device free. */
uint64_t mm_grower_room(const struct mm_host_heap *heap, uint64_t free_bytes);

/* More memory for the heap, by the host's own doing: at least so many neighbouring segments, aligned as for mm_chunks_grow, and a step (mmconfig.h),
 * or as many as are hoped for if that is more. They become spare. Under the heap's lock, its context current. Count 0: heap->refusal says why. */
struct mm_host_segments mm_grower_more(const struct mm_driver *d, struct mm_host_heap *heap, uint64_t least, uint64_t hoped, uint64_t align);

#endif
